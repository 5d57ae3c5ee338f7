"""Who can be compared: the kinds of agents that a study knows, and what each of them is told.

Nothing is imported before an agent is made. `make` builds one from what belongs to its job; a kind that does
not fit a problem refuses with the reason, when it is made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import InvalidModelError, did_you_mean

if TYPE_CHECKING:
    from ..agents.planning_budget import Effort
    from ..agents.schedules import Schedule
    from ..inference import DirichletPrior
    from ..models.model import POMDP
    from ..protocols import Prior
    from ..simulation.runs import Agent

ALL, SENSOR, PRIOR, NAMES, NOTHING = (
    "everything",
    "sensor",
    "sensor, prior",
    "names of states",
    "nothing",
)


@dataclass(frozen=True)
class Told:
    """All that an agent may be made from; it takes what its kind is told."""

    world: POMDP  # the truth, for those who know it
    prior: Prior
    rows: DirichletPrior  # for those who can only count
    seed: Sequence[int]
    effort: Effort
    exact: Effort  # for those who know the truth
    schedule: Schedule | None
    options: dict[str, Any]


@dataclass(frozen=True)
class Learner:
    """One kind of agent."""

    kind: str
    about: str
    told: str
    place: str  # module:class
    make: Callable[[Any, Told], Any]
    uses_prior: bool = False

    @property
    def choosy(self) -> bool:
        """Whether it refuses some problems: who is told the setting alone looks at the sensor first."""
        return self.make is _with_sensor


def _with_prior(cls: Any, told: Told) -> Any:
    return cls(told.prior, told.schedule, told.seed, effort=told.effort, **told.options)


def _with_sensor(cls: Any, told: Told) -> Any:
    return cls(told.world.setting, told.seed, effort=told.effort, **told.options)


def _with_rows(cls: Any, told: Told) -> Any:
    return cls(told.rows, told.seed, effort=told.effort, **told.options)


def _searching(cls: Any, told: Told) -> Any:
    return cls(told.rows, told.seed, **told.options)


def _oracle(cls: Any, told: Told) -> Any:
    from ..inference import FinitePrior

    known = FinitePrior(told.world.setting, told.world.transition[None])
    return cls(known, seed=told.seed, effort=told.exact, **told.options)


def _memoryless(cls: Any, told: Told) -> Any:
    best = import_module("..agents.baselines.memoryless", __package__).best_memoryless
    return cls(best(told.world), told.seed, **told.options)


def _calendar(cls: Any, told: Told) -> Any:
    return cls(told.world, **told.options)


def _random(cls: Any, told: Told) -> Any:
    return cls(told.world.n_actions, told.seed, **told.options)


_AGENT = "..agents.psrl:PSRLAgent"
_HERE = "..agents.baselines."

# In the order of a comparison: who knows the same as PSRL-POMDP first, then who knows less, then the marks.
_LEARNERS = (
    Learner("psrl", "PSRL-POMDP, Algorithm 1", PRIOR, _AGENT, _with_prior, uses_prior=True),
    Learner("mean", "plans for the posterior mean", PRIOR, f"{_HERE}certainty:MeanAgent", _with_prior, True),
    Learner("map", "plans for the likeliest kernel", PRIOR, f"{_HERE}certainty:MAPAgent", _with_prior, True),
    Learner("ba-pomcp", "Bayes-adaptive tree search", PRIOR, f"{_HERE}ba_pomcp:BAPOMCPAgent", _searching),
    Learner("oas-ucrl", "moments, doubling episodes", SENSOR, f"{_HERE}oas_ucrl:OASUCRL", _with_sensor),
    Learner(
        "oas-ucrl-actions", "moments action by action", SENSOR,
        f"{_HERE}oas_ucrl:ActionWiseOASUCRL", _with_sensor,
    ),
    Learner("seeu-known", "explores, then exploits", SENSOR, f"{_HERE}seeu:SEEUKnownSensor", _with_sensor),
    Learner("seeu", "the same, learns the sensor", NAMES, f"{_HERE}seeu:SEEU", _with_sensor),
    Learner("sm-ucrl", "spectral, memoryless", NAMES, f"{_HERE}sm_ucrl:SMUCRL", _with_sensor),
    Learner("tsde", "takes the reading for the state", PRIOR, f"{_HERE}tsde:TSDEAgent", _with_rows),
    Learner(
        "memoryless", "best policy without memory", ALL, f"{_HERE}memoryless:MemorylessAgent", _memoryless
    ),
    Learner("calendar", "best fixed schedule", ALL, f"{_HERE}calendar_rule:CalendarAgent", _calendar),
    Learner("oracle", "knows the truth", ALL, _AGENT, _oracle),
    Learner("random", "learns nothing", NOTHING, f"{_HERE}random_agent:RandomAgent", _random),
)  # fmt: skip
LEARNERS = {learner.kind: learner for learner in _LEARNERS}
KINDS = tuple(LEARNERS)


def make(kind: str, told: Told) -> Agent:
    """A fresh agent of this kind; options that it does not have are refused by name."""
    learner = LEARNERS[kind]
    module, _, name = learner.place.partition(":")
    cls = getattr(import_module(module, __package__), name)
    own = options_of(cls)
    for key in told.options:
        if key not in own:
            has = ", ".join(own) or "none"
            raise InvalidModelError(f"{kind} has no option {key!r}{did_you_mean(key, own)}; it has {has}")
    agent: Agent = learner.make(cls, told)
    return agent


def options_of(cls: type[Any]) -> dict[str, Any]:
    """The options of a class of agents with their defaults: keywords that hold plain values."""
    found = inspect.signature(cls).parameters.values()
    return {
        p.name: p.default
        for p in found
        if p.kind is p.KEYWORD_ONLY and isinstance(p.default, bool | int | float | str)
    }
