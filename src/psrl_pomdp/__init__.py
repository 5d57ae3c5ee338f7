"""PSRL-POMDP: posterior sampling for unknown partially observable Markov decision processes.

This module has the public names. Each is imported from its package when it is first used, so that a command
that does not need scipy does not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ._moved_modules import find_moved_modules
from ._version import __version__ as __version__
from .integrations.registration import register_with_gymnasium

if TYPE_CHECKING:
    from ._utils.issues import Issue
    from .agents.baselines import RandomAgent
    from .agents.fleet import Fleet
    from .agents.fleet_units import Log
    from .agents.log_fitting import fit_logs
    from .agents.planning_budget import PlanningBudget
    from .agents.psrl import PSRLAgent
    from .agents.schedules import DoublingSchedule, FixedSchedule, Schedule, TSDESchedule
    from .analysis import (
        RegretCurve,
        bayesian_runs,
        check_run,
        decompose,
        finite_bound,
        fit_growth,
        general_bound,
        regret_curve,
    )
    from .errors import (
        CalibrationWarning,
        CoarsePlanWarning,
        ImpossibleObservationError,
        InvalidModelError,
        LabelWarning,
        OutOfOrderError,
        ParseError,
        PluginError,
        PSRLError,
        StartDependentError,
        UnknownNameError,
    )
    from .inference import (
        DirichletPosterior,
        DirichletPrior,
        EnsemblePosterior,
        FinitePosterior,
        FinitePrior,
        MixturePrior,
        ParametricPrior,
    )
    from .io import load, save
    from .models import POMDP, Setting, Units
    from .models.structure import ModelStructure, analyze_structure
    from .planning import CertificateError, Plan, plan, plan_many, verify
    from .problems import Problem, problem
    from .sensors import (
        DensitySensor,
        DirichletCosts,
        DirichletSensor,
        ExponentialSensor,
        GammaSensor,
        GaussianSensor,
        LogNormalSensor,
        MixtureSensor,
        MultivariateGaussianSensor,
        NegativeBinomialSensor,
        NormalInverseGammaSensor,
        PoissonSensor,
        SeenCosts,
        StudentSensor,
        by_action,
        calibrate,
        with_outliers,
    )
    from .simulation.runs import Simulation, simulate
    from .simulation.trace import Trace
    from .studies import Study, read_study
    from .testing.checks import check_agent, check_model, check_planner, check_posterior

__all__ = [
    "POMDP",
    "CalibrationWarning",
    "CertificateError",
    "CoarsePlanWarning",
    "DensitySensor",
    "DirichletCosts",
    "DirichletPosterior",
    "DirichletPrior",
    "DirichletSensor",
    "DoublingSchedule",
    "EnsemblePosterior",
    "ExponentialSensor",
    "FinitePosterior",
    "FinitePrior",
    "FixedSchedule",
    "Fleet",
    "GammaSensor",
    "GaussianSensor",
    "ImpossibleObservationError",
    "InvalidModelError",
    "Issue",
    "LabelWarning",
    "Log",
    "LogNormalSensor",
    "MixturePrior",
    "MixtureSensor",
    "ModelStructure",
    "MultivariateGaussianSensor",
    "NegativeBinomialSensor",
    "NormalInverseGammaSensor",
    "OutOfOrderError",
    "PSRLAgent",
    "PSRLError",
    "ParametricPrior",
    "ParseError",
    "Plan",
    "PlanningBudget",
    "PluginError",
    "PoissonSensor",
    "Problem",
    "RandomAgent",
    "RegretCurve",
    "Schedule",
    "SeenCosts",
    "Setting",
    "Simulation",
    "StartDependentError",
    "StudentSensor",
    "Study",
    "TSDESchedule",
    "Trace",
    "Units",
    "UnknownNameError",
    "analyze_structure",
    "bayesian_runs",
    "by_action",
    "calibrate",
    "check_agent",
    "check_model",
    "check_planner",
    "check_posterior",
    "check_run",
    "decompose",
    "finite_bound",
    "fit_growth",
    "fit_logs",
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
    "with_outliers",
]

_PACKAGES = {
    "agents.baselines": ("RandomAgent",),
    "agents.planning_budget": ("PlanningBudget",),
    "studies": ("Study", "read_study"),
    "simulation.trace": ("Trace",),
    "simulation.runs": (
        "Simulation",
        "simulate",
    ),
    "agents.schedules": (
        "FixedSchedule",
        "DoublingSchedule",
        "Schedule",
        "TSDESchedule",
    ),
    "agents.fleet": ("Fleet",),
    "agents.fleet_units": ("Log",),
    "agents.log_fitting": ("fit_logs",),
    "agents.psrl": ("PSRLAgent",),
    "_utils.issues": ("Issue",),
    "testing.checks": ("check_agent", "check_model", "check_planner", "check_posterior"),
    "errors": (
        "CalibrationWarning",
        "CoarsePlanWarning",
        "ImpossibleObservationError",
        "InvalidModelError",
        "LabelWarning",
        "OutOfOrderError",
        "PSRLError",
        "ParseError",
        "PluginError",
        "StartDependentError",
        "UnknownNameError",
    ),
    "io": ("load", "save"),
    "models": ("POMDP", "Setting", "Units"),
    "planning": ("CertificateError", "Plan", "plan", "plan_many", "verify"),
    "inference": (
        "DirichletPosterior",
        "DirichletPrior",
        "EnsemblePosterior",
        "FinitePosterior",
        "FinitePrior",
        "MixturePrior",
        "ParametricPrior",
    ),
    "problems": ("Problem", "problem"),
    "sensors": (
        "DensitySensor",
        "DirichletCosts",
        "DirichletSensor",
        "ExponentialSensor",
        "GammaSensor",
        "GaussianSensor",
        "LogNormalSensor",
        "MixtureSensor",
        "MultivariateGaussianSensor",
        "NegativeBinomialSensor",
        "NormalInverseGammaSensor",
        "PoissonSensor",
        "SeenCosts",
        "StudentSensor",
        "by_action",
        "calibrate",
        "with_outliers",
    ),
    "analysis": (
        "RegretCurve",
        "bayesian_runs",
        "check_run",
        "decompose",
        "finite_bound",
        "fit_growth",
        "general_bound",
        "regret_curve",
    ),
    "models.structure": ("ModelStructure", "analyze_structure"),
}
_RENAMED = {
    "Effort": "PlanningBudget",
    "Finding": "Issue",
    "ImpossibleObservation": "ImpossibleObservationError",
    "Structure": "ModelStructure",
    "analyse": "analyze_structure",
}  # names of version 0.1
_HOME = {name: room for room, names in _PACKAGES.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        return _by_old_name(name)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def _by_old_name(name: str) -> object:
    """Return what a name of version 0.1 stands for, with a warning."""
    from ._utils.deprecation import warn_renamed

    warn_renamed(f"psrl_pomdp.{name}", f"psrl_pomdp.{_RENAMED[name]}", stacklevel=4)
    if name == "Effort":  # which has keywords of its own
        from .agents.planning_budget import Effort

        return Effort
    return __getattr__(_RENAMED[name])


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])


find_moved_modules()
# gymnasium.make("psrl_pomdp:tiger-v0") imports this package so that its environments are registered.
register_with_gymnasium()
