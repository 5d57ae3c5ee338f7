"""Who can be compared: the kinds of agents that a study knows, and what each of them is told.

Nothing is imported before an agent is made. `make` builds one from what belongs to its job; a kind that does
not fit a problem refuses with the reason, when it is made. Kinds from other packages are found by
`psrl_pomdp.registry`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from .. import registry
from ..errors import InvalidModelError, PSRLError, did_you_mean
from ..registry import Plugin

if TYPE_CHECKING:
    from ..agents.planning_budget import PlanningBudget
    from ..agents.schedules import Schedule
    from ..inference import DirichletPrior
    from ..models import POMDP
    from ..protocols import Planner, Prior
    from ..simulation.runs import Agent

ALL, SENSOR, PRIOR, NAMES, NOTHING = (
    "everything",
    "sensor",
    "sensor, prior",
    "names of states",
    "nothing",
)


@dataclass(frozen=True)
class AgentContext:
    """All that an agent may be made from; it takes what its kind is told."""

    world: POMDP  # the truth, for those who know it
    prior: Prior
    rows: DirichletPrior  # for those who can only count
    seed: Sequence[int]
    budget: PlanningBudget
    exact: PlanningBudget  # for those who know the truth
    schedule: Schedule | None
    options: dict[str, Any]
    planner: Planner | None = None  # of another package


@dataclass(frozen=True)
class AgentKind:
    """One kind of agent."""

    kind: str
    about: str
    told: str
    place: str  # module:class
    make: Callable[[Any, AgentContext], Any]
    uses_prior: bool = False

    @property
    def choosy(self) -> bool:
        """Whether it refuses some problems: who is told the setting alone looks at the sensor first."""
        return self.make is _with_sensor or self.kind not in LEARNERS

    @property
    def has_posterior(self) -> bool:
        """Whether it keeps a posterior, whose compiled code a study asks for before it begins."""
        return self.uses_prior or self.make in (_searching, _oracle)

    def load(self) -> Any:
        """Import and return the class."""
        module, _, name = self.place.partition(":")
        return attrgetter(name)(import_module(module, __package__))


def _with_prior(cls: Any, told: AgentContext) -> Any:
    planner = {"planner": told.planner} if told.planner else {}
    return cls(told.prior, told.schedule, told.seed, budget=told.budget, **planner, **told.options)


def _with_sensor(cls: Any, told: AgentContext) -> Any:
    return cls(told.world.setting, told.seed, budget=told.budget, **told.options)


def _with_rows(cls: Any, told: AgentContext) -> Any:
    return cls(told.rows, told.seed, budget=told.budget, **told.options)


def _searching(cls: Any, told: AgentContext) -> Any:
    return cls(told.rows, told.seed, **told.options)


def _oracle(cls: Any, told: AgentContext) -> Any:
    from ..inference import FinitePrior

    known = FinitePrior(told.world.setting, told.world.transition[None])
    return cls(known, seed=told.seed, budget=told.exact, **told.options)


def _memoryless(cls: Any, told: AgentContext) -> Any:
    best = import_module("..agents.baselines.memoryless", __package__).best_memoryless
    return cls(best(told.world), told.seed, **told.options)


def _calendar(cls: Any, told: AgentContext) -> Any:
    return cls(told.world, **told.options)


def _random(cls: Any, told: AgentContext) -> Any:
    return cls(told.world.n_actions, told.seed, **told.options)


_AGENT = "..agents.psrl:PSRLAgent"
_HERE = "..agents.baselines."

# The names of the constants are those of the entry points in pyproject.toml.
PSRL = AgentKind("psrl", "PSRL-POMDP, Algorithm 1", PRIOR, _AGENT, _with_prior, uses_prior=True)
MEAN = AgentKind(
    "mean", "plans for the posterior mean", PRIOR, f"{_HERE}certainty:MeanAgent", _with_prior, True
)
MAP = AgentKind(
    "map", "plans for the likeliest kernel", PRIOR, f"{_HERE}certainty:MAPAgent", _with_prior, True
)
BA_POMCP = AgentKind(
    "ba-pomcp", "Bayes-adaptive tree search", PRIOR, f"{_HERE}ba_pomcp:BAPOMCPAgent", _searching
)
OAS_UCRL = AgentKind(
    "oas-ucrl", "moments, doubling episodes", SENSOR, f"{_HERE}oas_ucrl:OASUCRL", _with_sensor
)
OAS_UCRL_ACTIONS = AgentKind(
    "oas-ucrl-actions", "moments action by action", SENSOR, f"{_HERE}oas_ucrl:ActionWiseOASUCRL", _with_sensor
)
SEEU_KNOWN = AgentKind(
    "seeu-known", "explores, then exploits", SENSOR, f"{_HERE}seeu:SEEUKnownSensor", _with_sensor
)
SEEU = AgentKind("seeu", "the same, learns the sensor", NAMES, f"{_HERE}seeu:SEEU", _with_sensor)
SM_UCRL = AgentKind("sm-ucrl", "spectral, memoryless", NAMES, f"{_HERE}sm_ucrl:SMUCRL", _with_sensor)
TSDE = AgentKind("tsde", "takes the reading for the state", PRIOR, f"{_HERE}tsde:TSDEAgent", _with_rows)
MEMORYLESS = AgentKind(
    "memoryless", "best policy without memory", ALL, f"{_HERE}memoryless:MemorylessAgent", _memoryless
)
CALENDAR = AgentKind("calendar", "best fixed schedule", ALL, f"{_HERE}calendar_rule:CalendarAgent", _calendar)
ORACLE = AgentKind("oracle", "knows the truth", ALL, _AGENT, _oracle)
RANDOM = AgentKind("random", "learns nothing", NOTHING, f"{_HERE}random_agent:RandomAgent", _random)

# In the order of a comparison: who knows the same as PSRL-POMDP first, then who knows less, then the marks.
_LEARNERS = (
    PSRL, MEAN, MAP, BA_POMCP, OAS_UCRL, OAS_UCRL_ACTIONS, SEEU_KNOWN, SEEU, SM_UCRL, TSDE, MEMORYLESS,
    CALENDAR, ORACLE, RANDOM,
)  # fmt: skip
LEARNERS = {learner.kind: learner for learner in _LEARNERS}
KINDS = tuple(LEARNERS)


def kind_of(name: str) -> AgentKind:
    """Return the kind of agent of this name, or at this importable path.

    Raises `UnknownNameError` where there is none, and `PluginError` where it is no kind of agent.
    """
    if name in LEARNERS:
        return LEARNERS[name]
    plugin = registry.find("agents", name)
    return _adapted(plugin, plugin.load())


def make(kind: str, told: AgentContext) -> Agent:
    """A fresh agent of this kind; options that it does not have are refused by name."""
    learner = kind_of(kind)
    cls = learner.load()
    own = options_of(cls)
    for key in told.options:
        if key not in own:
            has = ", ".join(own) or "none"
            raise InvalidModelError(f"{kind} has no option {key!r}{did_you_mean(key, own)}; it has {has}")
    agent: Agent = learner.make(cls, told)
    return agent


def options_of(cls: Callable[..., Any]) -> dict[str, Any]:
    """The options of a class of agents with their defaults: keywords that hold plain values."""
    found = inspect.signature(cls).parameters.values()
    return {
        p.name: p.default
        for p in found
        if p.kind is p.KEYWORD_ONLY and isinstance(p.default, bool | int | float | str)
    }


# -- kinds from other packages --------------------------------------------------------------------------


def _adapted(plugin: Plugin, found: Any) -> AgentKind:
    """The kind that a plug-in is: a `AgentKind`, or a class that takes `(setting, seed=0)` and has `act`.

    A class with `uses_prior = True` takes a prior in place of the setting. Any other callable that returns an
    agent will do as well.
    """
    if isinstance(found, AgentKind):
        return replace(found, kind=plugin.name)
    if not callable(found):
        raise plugin.error(f"a {type(found).__name__} is neither a class with `act` nor a `AgentKind`")
    if isinstance(found, type) and not callable(getattr(found, "act", None)):
        raise plugin.error(f"the class {found.__name__} has no method `act`")
    uses_prior = bool(getattr(found, "uses_prior", False))
    first = "prior" if uses_prior else "setting"
    try:
        inspect.signature(found).bind(None, seed=0)
    except (TypeError, ValueError) as error:
        raise plugin.error(f"it cannot be called with ({first}, seed=0): {error}") from None
    about = getattr(found, "about", None) or (inspect.getdoc(found) or "a plug-in").splitlines()[0]
    told = PRIOR if uses_prior else SENSOR
    return AgentKind(plugin.name, str(about).rstrip("."), told, plugin.path, _Maker(plugin), uses_prior)


@dataclass(frozen=True)
class _Maker:
    """Makes agents of a class that was written elsewhere; whatever it raises names the plug-in."""

    plugin: Plugin

    def __call__(self, cls: Any, told: AgentContext) -> Any:
        import numpy as np  # for which `--help` must not wait

        seed = int(np.random.SeedSequence(told.seed).generate_state(1, np.uint64)[0] >> np.uint64(1))
        first = told.prior if getattr(cls, "uses_prior", False) else told.world.setting
        try:
            agent = cls(first, seed=seed, **told.options)
        except PSRLError:
            raise
        except Exception as error:
            raise self.plugin.error(f"raised {error!r} when an agent was made") from error
        if not callable(getattr(agent, "act", None)):
            raise self.plugin.error(f"it made a {type(agent).__name__}, which has no method `act`")
        return agent
