"""PSRL-POMDP: posterior sampling for unknown partially observable Markov decision processes.

This module is the front door: the public names, each fetched from its room when it is first used, so that
a command that needs no scipy does not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .gym_registration import register_with_gymnasium

if TYPE_CHECKING:
    from .agent import PSRLAgent
    from .baselines import RandomAgent
    from .checks import Finding, check_agent, check_model, check_planner, check_posterior
    from .effort import Effort
    from .errors import (
        CoarsePlanWarning,
        ImpossibleObservation,
        InvalidModelError,
        OutOfOrderError,
        ParseError,
        PSRLError,
        StartDependentError,
        UnknownNameError,
    )
    from .experiment import Study, read_study
    from .files import load, save
    from .model import POMDP, Setting, Units
    from .planning import CertificateError, Plan, plan, plan_many, verify
    from .posterior import DirichletPosterior, DirichletPrior, FinitePosterior, FinitePrior
    from .problems import Problem, problem
    from .regret import (
        RegretCurve,
        bayesian_runs,
        check_run,
        decompose,
        finite_bound,
        fit_growth,
        general_bound,
        regret_curve,
    )
    from .schedule import DoublingSchedule, FixedSchedule, Schedule, TSDESchedule
    from .simulation import Simulation, simulate
    from .structure import Structure, analyse
    from .trace import Trace

__version__ = "0.2.0.dev0"

__all__ = [
    "POMDP",
    "CertificateError",
    "CoarsePlanWarning",
    "DirichletPosterior",
    "DirichletPrior",
    "DoublingSchedule",
    "Effort",
    "Finding",
    "FinitePosterior",
    "FinitePrior",
    "FixedSchedule",
    "ImpossibleObservation",
    "InvalidModelError",
    "OutOfOrderError",
    "PSRLAgent",
    "PSRLError",
    "ParseError",
    "Plan",
    "Problem",
    "RandomAgent",
    "RegretCurve",
    "Schedule",
    "Setting",
    "Simulation",
    "StartDependentError",
    "Structure",
    "Study",
    "TSDESchedule",
    "Trace",
    "Units",
    "UnknownNameError",
    "analyse",
    "bayesian_runs",
    "check_agent",
    "check_model",
    "check_planner",
    "check_posterior",
    "check_run",
    "decompose",
    "finite_bound",
    "fit_growth",
    "general_bound",
    "load",
    "plan",
    "plan_many",
    "problem",
    "read_study",
    "regret_curve",
    "save",
    "simulate",
    "verify",
]

_ROOMS = {
    "baselines": ("RandomAgent",),
    "effort": ("Effort",),
    "experiment": ("Study", "read_study"),
    "trace": ("Trace",),
    "simulation": (
        "Simulation",
        "simulate",
    ),
    "schedule": (
        "FixedSchedule",
        "DoublingSchedule",
        "Schedule",
        "TSDESchedule",
    ),
    "agent": ("PSRLAgent",),
    "checks": ("Finding", "check_agent", "check_model", "check_planner", "check_posterior"),
    "errors": (
        "CoarsePlanWarning",
        "ImpossibleObservation",
        "InvalidModelError",
        "OutOfOrderError",
        "PSRLError",
        "ParseError",
        "StartDependentError",
        "UnknownNameError",
    ),
    "files": ("load", "save"),
    "model": ("POMDP", "Setting", "Units"),
    "planning": ("CertificateError", "Plan", "plan", "plan_many", "verify"),
    "posterior": ("DirichletPosterior", "DirichletPrior", "FinitePosterior", "FinitePrior"),
    "problems": ("Problem", "problem"),
    "regret": (
        "RegretCurve",
        "bayesian_runs",
        "check_run",
        "decompose",
        "finite_bound",
        "fit_growth",
        "general_bound",
        "regret_curve",
    ),
    "structure": ("Structure", "analyse"),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])


# gymnasium.make("psrl_pomdp:tiger-v0") imports this package so that its environments are registered.
register_with_gymnasium()
