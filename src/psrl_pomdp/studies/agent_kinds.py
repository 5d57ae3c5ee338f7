"""The kinds of agents that a study can compare, and the prior information that each of them uses.

The class of an agent is imported when the first agent is made. `make` builds an agent from an `AgentContext`.
The constructor of an agent raises `InvalidModelError` with the reason where the agent does not fit a problem.
`psrl_pomdp.registry` finds the kinds of other packages.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from .. import registry
from .._utils.deprecation import renamed_keywords, warn_renamed
from ..errors import InvalidModelError, PSRLError, did_you_mean
from ..inference.choosing import DIRICHLET
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
    """Everything that an agent may be made from. A kind reads only what its information allows.

    Parameters
    ----------
    world
        The true model.
    prior
        The prior of the agent.
    rows
        A Dirichlet prior, for agents that support no other.
    seed
        The seed of the agent.
    budget
        The planning budget of a learner.
    exact
        The planning budget of agents that know the true model.
    schedule
        When episodes end; None is the default for the prior.
    options
        Keyword arguments of the agent's class.
    planner
        A planner of another package; None is the planner of this package.
    """

    world: POMDP
    prior: Prior
    rows: DirichletPrior
    seed: Sequence[int]
    budget: PlanningBudget
    exact: PlanningBudget
    schedule: Schedule | None
    options: dict[str, Any]
    planner: Planner | None = None


@dataclass(frozen=True)
class AgentKind:
    """One kind of agent.

    Parameters
    ----------
    kind
        The name of the kind.
    about
        A few words about the algorithm.
    information
        The prior information that agents of this kind use: one of the constants of this module.
    import_path
        Where the class is: "module:class".
    make
        A function of the class and an `AgentContext` that returns an agent.
    uses_prior
        Whether the agent takes a prior from the study.
    default_prior
        The kind of this prior if the study names none; "" for the default of the problem.
    """

    kind: str
    about: str
    information: str
    import_path: str
    make: Callable[[Any, AgentContext], Any]
    uses_prior: bool = False
    default_prior: str = ""

    @property
    def uses_schedule(self) -> bool:
        """Whether episodes of the agent end by the schedule of the study."""
        return self.uses_prior and self.make is not _searching

    @property
    def may_reject_model(self) -> bool:
        """Whether the constructor may raise `InvalidModelError` for some observation models."""
        return self.make in (_with_sensor, _searching) or self.kind not in AGENT_KINDS

    @property
    def has_posterior(self) -> bool:
        """Whether agents of this kind have a posterior, whose functions a study compiles first."""
        return self.uses_prior or self.make is _oracle

    def load(self) -> Any:
        """Import and return the class."""
        module, _, name = self.import_path.partition(":")
        return attrgetter(name)(import_module(module, __package__))

    @property
    def told(self) -> str:
        """The old name of `information`."""
        warn_renamed("AgentKind.told", "AgentKind.information")
        return self.information

    @property
    def place(self) -> str:
        """The old name of `import_path`."""
        warn_renamed("AgentKind.place", "AgentKind.import_path")
        return self.import_path


AgentKind.__init__ = renamed_keywords(told="information", place="import_path")(  # type: ignore[method-assign]
    AgentKind.__init__
)


def _with_prior(cls: Any, context: AgentContext) -> Any:
    planner = {"planner": context.planner} if context.planner else {}
    return cls(
        context.prior, context.schedule, context.seed, budget=context.budget, **planner, **context.options
    )


def _with_sensor(cls: Any, context: AgentContext) -> Any:
    return cls(context.world.setting, context.seed, budget=context.budget, **context.options)


def _with_rows(cls: Any, context: AgentContext) -> Any:
    return cls(context.rows, context.seed, budget=context.budget, **context.options)


def _searching(cls: Any, context: AgentContext) -> Any:
    return cls(context.prior, context.seed, **context.options)


def _oracle(cls: Any, context: AgentContext) -> Any:
    from ..inference import FinitePrior

    known = FinitePrior(context.world.setting, context.world.transition[None])
    return cls(known, seed=context.seed, budget=context.exact, **context.options)


def _memoryless(cls: Any, context: AgentContext) -> Any:
    best = import_module("..agents.baselines.memoryless", __package__).best_memoryless
    return cls(best(context.world), context.seed, **context.options)


def _calendar(cls: Any, context: AgentContext) -> Any:
    return cls(context.world, **context.options)


def _random(cls: Any, context: AgentContext) -> Any:
    return cls(context.world.n_actions, context.seed, **context.options)


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
    "ba-pomcp",
    "Bayes-adaptive tree search",
    PRIOR,
    f"{_HERE}ba_pomcp:BAPOMCPAgent",
    _searching,
    True,
    DIRICHLET,
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

# In the order of a comparison: first agents with the same information as PSRL-POMDP, then agents with less,
# then the references.
_IN_ORDER = (
    PSRL, MEAN, MAP, BA_POMCP, OAS_UCRL, OAS_UCRL_ACTIONS, SEEU_KNOWN, SEEU, SM_UCRL, TSDE, MEMORYLESS,
    CALENDAR, ORACLE, RANDOM,
)  # fmt: skip
AGENT_KINDS = {each.kind: each for each in _IN_ORDER}
KINDS = tuple(AGENT_KINDS)


def kind_of(name: str) -> AgentKind:
    """Return the kind of agent of this name, or at this importable path.

    Raises `UnknownNameError` where there is none, and `PluginError` where it is no kind of agent.
    """
    if name in AGENT_KINDS:
        return AGENT_KINDS[name]
    plugin = registry.find("agents", name)
    return _adapted(plugin, plugin.load())


def make(kind: str, context: AgentContext) -> Agent:
    """Return a new agent of this kind.

    Raises `InvalidModelError` for an option that the kind does not have, or where the agent does not fit the
    problem.
    """
    found = kind_of(kind)
    cls = found.load()
    known = options_of(cls)
    for key in context.options:
        if key not in known:
            has = ", ".join(known) or "none"
            raise InvalidModelError(
                f"{kind} has no option {key!r}{did_you_mean(key, known)}; its options are: {has}"
            )
    agent: Agent = found.make(cls, context)
    return agent


def options_of(cls: Callable[..., Any]) -> dict[str, Any]:
    """Return the options of a class: keyword-only parameters whose defaults are plain values."""
    found = inspect.signature(cls).parameters.values()
    return {
        p.name: p.default
        for p in found
        if p.kind is p.KEYWORD_ONLY and isinstance(p.default, bool | int | float | str)
    }


# -- kinds from other packages --------------------------------------------------------------------------


def _adapted(plugin: Plugin, found: Any) -> AgentKind:
    """Return the kind of a plug-in: an `AgentKind`, or a class of `(setting, seed=0)` with the method `act`.

    A class with `uses_prior = True` takes a prior in place of the setting. A function that returns an agent
    is accepted too.
    """
    if isinstance(found, AgentKind):
        return replace(found, kind=plugin.name)
    if not callable(found):
        raise plugin.error(
            f"an object of type {type(found).__name__} is neither a class with the method `act` "
            "nor an `AgentKind`"
        )
    if isinstance(found, type) and not callable(getattr(found, "act", None)):
        raise plugin.error(f"the class {found.__name__} has no method `act`")
    uses_prior = bool(getattr(found, "uses_prior", False))
    first = "prior" if uses_prior else "setting"
    try:
        inspect.signature(found).bind(None, seed=0)
    except (TypeError, ValueError) as error:
        raise plugin.error(f"it cannot be called with ({first}, seed=0): {error}") from None
    about = getattr(found, "about", None) or (inspect.getdoc(found) or "a plug-in").splitlines()[0]
    information = PRIOR if uses_prior else SENSOR
    return AgentKind(
        plugin.name, str(about).rstrip("."), information, plugin.path, _Maker(plugin), uses_prior
    )


@dataclass(frozen=True)
class _Maker:
    """Makes agents of a plug-in's class, and turns its exceptions into errors that name the plug-in."""

    plugin: Plugin

    def __call__(self, cls: Any, context: AgentContext) -> Any:
        import numpy as np  # imported late: `--help` must not wait for numpy

        seed = int(np.random.SeedSequence(context.seed).generate_state(1, np.uint64)[0] >> np.uint64(1))
        first = context.prior if getattr(cls, "uses_prior", False) else context.world.setting
        try:
            agent = cls(first, seed=seed, **context.options)
        except PSRLError:
            raise
        except (Exception, SystemExit) as error:
            raise self.plugin.error(f"raised {error!r} when an agent was made") from error
        if not callable(getattr(agent, "act", None)):
            raise self.plugin.error(
                f"it returned an object of type {type(agent).__name__}, which has no method `act`"
            )
        return agent
