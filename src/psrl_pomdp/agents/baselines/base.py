"""What learners from moments share: playing the plan of an estimated model, optimism, and files.

A `Learner` lives in phases. In each it either explores, every action as likely as every other, or has a
`Player`: an estimated model with its plan and with the belief under it, moved by the exact filter. Every
action keeps a chance of at least ι (`softness`), and what chance the one that was taken had is remembered,
because the estimators weigh by it. Estimates have no entry below a smallest one, so that no reading which
can come is ever impossible under them. Nothing here looks at a clock: plans stop by their tolerance or by
work counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ..._numba.jit import LEARNING, jit
from ..._serialization.archives import as_saved_agent
from ..._utils.arrays import Array, Index
from ...inference.encoding import first_number, reading_number
from ...inference.filter_bank import first_likelihood, likelihoods
from ...inference.sampled_filter import SampledFilter, update_sampled_filter
from ...models import POMDP, Setting
from ...planning import Plan
from ...protocols import Solution
from .. import compiled_steps as steps
from ..compiled_policy import new_sampled_filter, policy_of
from ..planning_budget import PlanningBudget
from .options import number, whole_number
from .serialization import learner_from_bytes, learner_to_bytes

Seed = int | Sequence[int]

# What options may be; whole numbers where both ends are.
_RANGES: dict[str, tuple[float, float]] = {
    "first_length": (1, 1 << 40),
    "first_count": (1, 1 << 40),
    "tau1": (1, 1 << 40),
    "tau2": (1, 1 << 40),
    "models": (0, 1 << 20),
    "starts": (0, 1 << 20),
    "iota": (1e-9, 1.0),
    "burn_in": (0.0, 1e9),
    "radius": (0.0, 1e9),
    "least": (1e-9, 0.1),
}


@jit()
def replay(used: SampledFilter, likelihood: Array, actions: Index, readings: Index) -> None:
    """The belief after all of these actions and the readings that followed them."""
    for i in range(len(actions)):
        update_sampled_filter(used, likelihood[actions[i], readings[i]], actions[i])


class Player:
    """An estimated model, its plan, and the belief under it as readings come."""

    def __init__(self, model: POMDP, found: Solution, belief: Array) -> None:
        LEARNING.want("others")
        self.model, self.found = model, found
        self.likelihood = likelihoods(model.setting)
        self.used = new_sampled_filter(model.transition, belief)
        self.policy: steps.CompiledPolicy | None = None
        if isinstance(found, Plan):
            self.policy = policy_of(found, belief, model.setting, self.likelihood)

    @property
    def belief(self) -> Array:
        return self.used.belief[:, 0]

    def take_in(self, action: int, reading: int) -> None:
        update_sampled_filter(self.used, self.likelihood[action, reading], action)
        if self.policy is not None and self.policy.node[0] >= 0:
            self._move_node(reading)

    def _move_node(self, reading: int) -> None:
        """Where the plan is a controller with a memory of its own: its next node."""
        assert self.policy is not None
        assert isinstance(self.found, Plan)
        node, onward = self.policy.node, self.policy.successors
        lost = reading == onward.shape[1]
        node[0] = self.found.follow(self.belief).node if lost else onward[node[0], reading]

    def action(self) -> int:
        if self.policy is None:
            return self.found.action(self.belief)
        return int(steps.best_action(self.policy, self.used))


def belief_after(model: POMDP, first_reading: int | None, actions: Index, readings: Index) -> Array:
    """h_t under `model` from the whole history; lost readings are numbered O."""
    belief = model.setting.initial * first_likelihood(model.setting, first_reading)
    used = new_sampled_filter(model.transition, belief / belief.sum())
    replay(used, likelihoods(model.setting), actions, readings)
    return used.belief[:, 0]


def drawn_near(rows: Array, radius: Array, rng: np.random.Generator) -> Array:
    """Distributions `[..., n]` at random within L1 distance `radius[...]` of `rows`.

    Each row moves toward a uniformly drawn distribution, by a share of the radius that is uniform too.
    """
    toward = rng.dirichlet(np.ones(rows.shape[-1]), rows.shape[:-1])
    distance = np.abs(toward - rows).sum(axis=-1)
    share = np.minimum(1.0, radius * rng.random(rows.shape[:-1]) / np.maximum(distance, 1e-300))[..., None]
    return np.asarray((1.0 - share) * rows + share * toward)


def floored(rows: Array, least: float) -> Array:
    """Each row clipped to at least `least` and to sum to one; a row that has no positive mass is uniform."""
    total = rows.sum(axis=-1, keepdims=True)
    some = (total > 0.0) & np.isfinite(total)
    kept = np.where(some, rows / np.where(some, total, 1.0), 1.0)
    kept = np.clip(kept, least, 1.0)
    return np.asarray(kept / kept.sum(axis=-1, keepdims=True))


def one_over_root(time: int) -> float:
    return float(1.0 / np.sqrt(time))


class Learner:
    """One reading in, one action out; what differs between learners is in the methods that they override.

    A learner's options are the keyword arguments of its constructor, each kept as an attribute of that
    name; `numbers` and `_arrays` list what else decides how it goes on.
    """

    told: ClassVar[str]
    radius: float
    models: int
    least: float
    numbers: ClassVar[tuple[str, ...]] = (
        "time",
        "episode",
        "until",
        "action",
        "reading",
        "probability",
        "softness",
    )

    def __init__(self, setting: Setting, seed: Seed, budget: PlanningBudget | None) -> None:
        self.setting = setting
        self.budget = budget or PlanningBudget()
        self.rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
        self.time = 0  # t: readings taken in, the first one or its absence included
        self.episode = 0  # k
        self.until = 0  # the last t of the present phase
        self.n_actions = setting.n_actions
        self.lost = setting.n_observations  # the number of a lost reading
        self.reading = self.lost  # o_t
        self.action = -1  # a_t; none so far
        self.probability = 1.0  # p_t(a_t)
        self.softness = 1.0 / setting.n_actions  # ι
        self.player: Player | None = None
        self.found: Solution | None = None  # the newest plan, to start the next one from

    def _take_options(self, **options: float) -> None:
        """Check options, and keep each as an attribute of its name."""
        for name, value in options.items():
            low, high = _RANGES[name]
            check = whole_number if isinstance(low, int) else number
            setattr(self, name, check(name, value, low, high))

    def act(self, observation: int | None) -> int:
        """Take in o_t, None where it was lost or does not come before the first action, and choose a_t."""
        if self.action < 0:
            first = first_number(self.setting, observation)
            reading = self.lost if first is None else first
        else:
            reading = reading_number(self.setting, observation)
            self._learn(reading)
            if self.player is not None:
                self.player.take_in(self.action, reading)
        self.reading = reading
        self.time += 1
        if self.time > self.until:
            self._begin_phase()
        self._choose()
        return self.action

    def _learn(self, after: int) -> None:
        """`self.action`, taken at `self.reading` with `self.probability`, was followed by `after`."""
        raise NotImplementedError

    def _begin_phase(self) -> None:
        """Set `until`, and either `player` or None to explore."""
        raise NotImplementedError

    def _choose(self) -> None:
        """a_t and p_t(a_t): what the plan says, but every action with a chance of at least ι."""
        uniform, n_actions = self.rng.random(), self.n_actions
        if self.player is None:
            self.action, self.probability = int(uniform * n_actions), 1.0 / n_actions
            return
        planned, explored = self.player.action(), n_actions * self.softness
        drawn = uniform < explored
        self.action = min(int(uniform / self.softness), n_actions - 1) if drawn else planned
        self.probability = self.softness + (1.0 - explored) * (self.action == planned)

    # -- planning -------------------------------------------------------------------------------

    def _planned(self, model: POMDP) -> Solution:
        """A plan for the model, to the tolerance that suits the time."""
        near = self.found if isinstance(self.found, Plan) else None
        return self.budget.solve(model, self.budget.tolerance_at(self.time, one_over_root), near)

    def _worth(self, found: Solution, model: POMDP) -> float:
        """The scaled average cost that a plan promises."""
        assert isinstance(found, Plan)
        return found.upper_cost

    def _optimistic(self, estimate: POMDP, drawn: Callable[[], POMDP], models: int) -> tuple[POMDP, Solution]:
        """Of the estimate and of `models` drawn near it, the one whose plan promises most."""
        best, self.found = estimate, self._planned(estimate)
        found, worth = self.found, self._worth(self.found, estimate)
        for _ in range(models):
            model = drawn()
            other = self._planned(model)
            promised = self._worth(other, model)
            if promised < worth:
                best, found, worth = model, other, promised
        self.found = found
        return best, found

    # -- files ----------------------------------------------------------------------------------

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        given = signature(cls).parameters.values()
        return tuple(p.name for p in given if p.kind is Parameter.KEYWORD_ONLY and p.name != "budget")

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The learner's own arrays, changed in place: what it has counted."""
        return {}

    def _words(self) -> dict[str, Any]:
        """What else is to be kept, in words."""
        return {}

    def _put_back(self, words: dict[str, Any]) -> None:
        """Take up what `_words` said."""

    def to_bytes(self) -> bytes:
        """Everything that decides how it goes on, without pickles."""
        return learner_to_bytes(self)

    @classmethod
    @as_saved_agent("learner")
    def from_bytes(cls, data: bytes) -> Self:
        """A learner that goes on exactly as the saved one would have.

        Raises `ParseError` or another `InvalidModelError` where the bytes hold none of this kind.
        """
        return learner_from_bytes(cls, data)

    def _resume_playing(self, model: POMDP, belief: Array) -> None:
        if self.found is None:  # a planner that keeps nothing gives the same plan again
            self.found = self._planned(model)
        self.player = Player(model, self.found, belief)
