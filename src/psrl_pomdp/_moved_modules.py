"""The module paths of version 0.1, each with its new place; they go on to work for one minor version.

`import psrl_pomdp.agent` gives the module `psrl_pomdp.agents.psrl` and a `DeprecationWarning` that names it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

PLACES = {
    "agent": "agents.psrl",
    "agent_checks": "testing.agent_checks",
    "agent_file_checks": "agents.serialization_checks",
    "agent_files": "agents.serialization",
    "arrays": "_utils.arrays",
    "atomic_calls": "_utils.atomic_calls",
    "baselines": "agents.baselines",
    "baselines.learner_files": "agents.baselines.serialization",
    "baselines.playing": "agents.baselines.base",
    "baselines.recurrent": "integrations.recurrent_ppo",
    "belief": "inference.filter_bank",
    "calibration": "testing.calibration",
    "checks": "testing.checks",
    "cli.doubt": "cli.sensitivity",
    "compiled": "_numba.jit",
    "effort": "agents.planning_budget",
    "episodes": "agents.compiled_steps",
    "exact": "_numba.fma",
    "experiment": "studies",
    "experiment.engines": "studies.executors",
    "experiment.learners": "studies.agent_kinds",
    "experiment.sensor_doubt": "studies.sensor_sensitivity",
    "files": "io",
    "files.archives": "_serialization.archives",
    "files.atomic": "_serialization.atomic_files",
    "files.contents": "_serialization.contents",
    "files.pomdp_read": "io.pomdp.reader",
    "files.pomdp_words": "io.pomdp.tokens",
    "files.pomdp_write": "io.pomdp.writer",
    "files.reading": "_serialization.reading",
    "files.streams": "_serialization.random_streams",
    "gym_registration": "integrations.registration",
    "machine_code": "_numba.machine_code",
    "model": "models",
    "planning.bases": "planning.interpolation.bases",
    "planning.chains": "planning.markov.chains",
    "planning.cycles": "planning.sparse.cycles",
    "planning.gains": "planning.markov.gains",
    "planning.grid_steps": "planning.lower.grid_steps",
    "planning.informed": "planning.lower.informed",
    "planning.informed_bound": "planning.sparse.informed_bound",
    "planning.loop": "planning.bound_pair",
    "planning.lu": "planning.interpolation.lu",
    "planning.many": "planning.parallel",
    "planning.nodes": "planning.upper.nodes",
    "planning.planner": "planning.solve",
    "planning.plans": "planning.solution",
    "planning.pricing": "planning.interpolation.pricing",
    "planning.relative_values": "planning.markov.relative_values",
    "planning.rooms": "planning.multichain.closed_classes",
    "planning.sparse_bracket": "planning.sparse.bound_pair",
    "planning.sparse_controllers": "planning.sparse.controllers",
    "planning.sparse_dynamics": "planning.sparse.dynamics",
    "planning.sparse_points": "planning.sparse.beliefs",
    "planning.stopwatch": "_utils.stopwatch",
    "planning.supports": "planning.lower.supports",
    "planning.threads": "_utils.threads",
    "posterior": "inference",
    "posterior.dirichlet": "inference.dirichlet_prior",
    "posterior.ensemble": "inference.sampled_filter",
    "posterior.finite": "inference.finite_prior",
    "posterior.paths": "inference.hidden_paths",
    "posterior.protocol": "inference.encoding",
    "posterior.space": "inference.workspace",
    "posterior.visits": "inference.expected_visits",
    "posterior_checks": "testing.posterior_checks",
    "records": "agents.episode_records",
    "regret": "analysis",
    "report.page_words": "report.page_text",
    "report.policy_words": "report.policy_text",
    "run_files": "simulation.run_files",
    "schedule": "agents.schedules",
    "separation": "analysis.separation",
    "structure": "models.structure",
    "times": "_utils.log_spaced",
    "trace": "simulation.trace",
    "warmup": "simulation.warmup",
}  # a package stands for all modules in it that are not listed
_PACKAGE = __package__


def new_place(old: str) -> str | None:
    """Return the present path of a module of version 0.1, or None where it has not moved."""
    if old in PLACES:
        return PLACES[old]
    parent, _, name = old.rpartition(".")
    place = new_place(parent) if parent else None
    return None if place is None else f"{place}.{name}"


class _MovedModules(MetaPathFinder, Loader):
    """Finds modules at their old paths.

    It comes before all other finders: these would load a module of a moved package a second time.
    """

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec | None] = {}  # of the new places, while they are being imported

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, old = fullname.partition(".")
        if package != _PACKAGE or new_place(old) is None:
            return None
        return spec_from_loader(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        old = spec.name.partition(".")[2]
        place = f"{_PACKAGE}.{new_place(old)}"
        warnings.warn(
            f"{spec.name} is now {place}; the old path works until version 0.4",
            DeprecationWarning,
            stacklevel=2,
        )
        module = import_module(place)
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module, which has run already, the specification of its new place again."""
        assert module.__spec__ is not None
        module.__spec__ = self._specs.pop(module.__spec__.name)


def find_moved_modules() -> None:
    """Make the old paths importable."""
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, _MovedModules())
