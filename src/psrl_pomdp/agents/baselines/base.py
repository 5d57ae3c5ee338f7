"""The base class of agents that estimate a model from moments and plan for it.

An `EstimateAndPlanAgent` divides time into phases. In each phase it either explores with uniform actions, or
follows a `ModelPolicy`: an estimated model, its plan, and the exact belief filter under this model. Every
action has a probability of at least ι (`min_action_probability`). The agent stores the probability of the
action that it took, because the estimators weight by its inverse. The entries of an estimate are bounded from
below, so that no possible observation has probability 0 under it. Plans stop by their tolerance or by counted
work and never by time, so that runs can be repeated.
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
from ...inference.sampled_filter import SampledFilter, update_sampled_filter
from ...inference.step_codes import StepCodes
from ...models import POMDP, Setting
from ...planning.solve import usable_start
from ...protocols import AlphaVectorPolicy, CostPromise, Solution
from .. import compiled_steps as steps
from ..compiled_policy import new_sampled_filter, policy_of
from ..planning_budget import PlanningBudget, one_over_root
from .options import check_numbered, number, whole_number
from .serialization import agent_from_bytes, agent_to_bytes

Seed = int | Sequence[int]

# The ranges of options; an option is a whole number if the ends of its range are.
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
def replay(sampled: SampledFilter, likelihood: Array, actions: Index, observations: Index) -> None:
    """Update a belief with many actions and the observations after them."""
    for i in range(len(actions)):
        update_sampled_filter(sampled, likelihood[actions[i], observations[i]], actions[i])


class ModelPolicy:
    """An estimated model, its plan, and the belief under the model."""

    def __init__(self, model: POMDP, plan: Solution, belief: Array) -> None:
        LEARNING.want("others")
        self.model, self.plan = model, plan
        codes = StepCodes(model.setting)
        self.likelihood = codes.likelihood
        self.filter = new_sampled_filter(model.transition, belief, codes)
        self.policy: steps.CompiledPolicy | None = None
        self.vectors = plan if isinstance(plan, AlphaVectorPolicy) else None
        if self.vectors is not None:
            self.policy = policy_of(self.vectors, belief, model.setting, codes)

    @property
    def belief(self) -> Array:
        """The belief under the estimated model, shape [S]."""
        return self.filter.belief[:, 0]

    def update(self, action: int, observation: int) -> None:
        """Update the belief, and the node of a finite-state controller."""
        update_sampled_filter(self.filter, self.likelihood[action, observation], action)
        if self.policy is not None and self.policy.node[0] >= 0:
            self._move_node(observation)

    def _move_node(self, observation: int) -> None:
        """Move a finite-state controller to its next node."""
        assert self.policy is not None
        assert self.vectors is not None
        node, successors = self.policy.node, self.policy.successors
        missing = observation == successors.shape[1]
        node[0] = self.vectors.follow(self.belief).node if missing else successors[node[0], observation]

    def action(self) -> int:
        """Return the action of the plan at the present belief."""
        if self.policy is None:
            return self.plan.action(self.belief)
        return int(steps.best_action(self.policy, self.filter))


def belief_after(model: POMDP, first_observation: int | None, actions: Index, observations: Index) -> Array:
    """Return h_t under `model` after the whole history; a missing observation has the number O."""
    codes = StepCodes(model.setting)
    belief = model.setting.initial * codes.first_likelihood(codes.first_reading(first_observation))
    filtered = new_sampled_filter(model.transition, belief / belief.sum(), codes)
    replay(filtered, codes.likelihood, actions, observations)
    return filtered.belief[:, 0]


def drawn_near(rows: Array, radius: Array, rng: np.random.Generator) -> Array:
    """Draw distributions `[..., n]` within L1 distance `radius[...]` of `rows`.

    Each row moves toward a uniformly drawn distribution, by a uniformly drawn fraction of the radius.
    """
    toward = rng.dirichlet(np.ones(rows.shape[-1]), rows.shape[:-1])
    distance = np.abs(toward - rows).sum(axis=-1)
    share = np.minimum(1.0, radius * rng.random(rows.shape[:-1]) / np.maximum(distance, 1e-300))[..., None]
    return np.asarray((1.0 - share) * rows + share * toward)


def floored(rows: Array, least: float) -> Array:
    """Return the rows clipped at `least` and normalized; rows without positive mass become uniform."""
    total = rows.sum(axis=-1, keepdims=True)
    positive = (total > 0.0) & np.isfinite(total)
    shares = np.where(positive, rows / np.where(positive, total, 1.0), 1.0)
    shares = np.clip(shares, least, 1.0)
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


class EstimateAndPlanAgent:
    """Base class: subclasses define how to count, to estimate, and to divide time into phases.

    The options of an agent are the keyword arguments of its constructor. Each is stored as an attribute of
    the same name. `numbers` lists the attributes, and `own_arrays` returns the arrays, that a file stores
    beside them.
    """

    information: ClassVar[str]
    radius: float
    models: int
    least: float
    numbers: ClassVar[tuple[str, ...]] = (
        "time",
        "episode",
        "phase_end",
        "action",
        "observation",
        "probability",
        "min_action_probability",
    )

    def __init__(self, setting: Setting, seed: Seed, budget: PlanningBudget | None) -> None:
        check_numbered(setting, type(self).__name__)
        self.setting = setting
        self.budget = budget or PlanningBudget()
        self.rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
        self.time = 0  # t, the number of observations so far, with the first one or its absence
        self.episode = 0  # k
        self.phase_end = 0  # the last t of the present phase
        self.n_actions = setting.n_actions
        self.missing = setting.n_observations  # the number of a missing observation
        self.observation = self.missing  # o_t
        self.action = -1  # a_t; −1 before the first action
        self.probability = 1.0  # p_t(a_t)
        self.min_action_probability = 1.0 / setting.n_actions  # ι
        self.model_policy: ModelPolicy | None = None
        self.last_plan: Solution | None = None  # the next plan starts from it

    def _take_options(self, **options: float) -> None:
        """Check options, and store each as an attribute of the same name."""
        for name, value in options.items():
            low, high = _RANGES[name]
            check = whole_number if isinstance(low, int) else number
            setattr(self, name, check(name, value, low, high))

    def act(self, observation: int | None) -> int:
        """Return a_t after o_t, which is None if it is missing, or if the first action comes before it."""
        if self.action < 0:
            first = first_number(self.setting, observation)
            number = self.missing if first is None else first
        else:
            number = reading_number(self.setting, observation)
            self._count_transition(number)
            if self.model_policy is not None:
                self.model_policy.update(self.action, number)
        self.observation = number
        self.time += 1
        if self.time > self.phase_end:
            self._begin_phase()
        self._choose_action()
        return self.action

    def _count_transition(self, after: int) -> None:
        """Count that `after` followed `self.action`, taken at `self.observation` with `self.probability`."""
        raise NotImplementedError

    def _begin_phase(self) -> None:
        """Set `phase_end`, and `model_policy` or None to explore."""
        raise NotImplementedError

    def _choose_action(self) -> None:
        """Draw a_t and set p_t(a_t): the action of the plan, or any action with probability ι."""
        uniform, n_actions = self.rng.random(), self.n_actions
        if self.model_policy is None:
            self.action, self.probability = int(uniform * n_actions), 1.0 / n_actions
            return
        planned, explored = self.model_policy.action(), n_actions * self.min_action_probability
        drawn = uniform < explored
        self.action = min(int(uniform / self.min_action_probability), n_actions - 1) if drawn else planned
        self.probability = self.min_action_probability + (1.0 - explored) * (self.action == planned)

    # -- planning -------------------------------------------------------------------------------

    def _plan_for(self, model: POMDP) -> CostPromise:
        """Return a plan for the model to within the tolerance of the budget, by default 1/√t."""
        near = usable_start(self.last_plan, model)
        return self.budget.solve(model, self.budget.tolerance_at(self.time, one_over_root), near)

    def _optimistic(self, estimate: POMDP, draw: Callable[[], POMDP], models: int) -> tuple[POMDP, Solution]:
        """Return the model with the least promised cost among the estimate and `models` draws near it."""
        best, best_plan = estimate, self._plan_for(estimate)
        self.last_plan = best_plan
        for _ in range(models):
            model = draw()
            plan = self._plan_for(model)
            if plan.promised_cost < best_plan.promised_cost:
                best, best_plan = model, plan
        self.last_plan = best_plan
        return best, best_plan

    # -- files ----------------------------------------------------------------------------------

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Return the names of the options."""
        given = signature(cls).parameters.values()
        return tuple(p.name for p in given if p.kind is Parameter.KEYWORD_ONLY and p.name != "budget")

    def own_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of counts by their names in files; they are changed in place."""
        return {}

    def own_metadata(self) -> dict[str, Any]:
        """Return further metadata for a file."""
        return {}

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Restore what `own_metadata` returned, and check the agent. Raises `InvalidModelError`."""

    def to_bytes(self) -> bytes:
        """Return everything that determines the agent's next actions, without pickles."""
        return agent_to_bytes(self)

    @classmethod
    @as_saved_agent("learner")
    def from_bytes(cls, data: bytes) -> Self:
        """Return an agent that continues exactly as the saved one would have.

        Raises `ParseError` or another `InvalidModelError` if the bytes are no saved agent of this class.
        """
        return agent_from_bytes(cls, data)

    def set_model(self, model: POMDP, belief: Array) -> None:
        """Follow the plan for a model from `belief` on."""
        if self.last_plan is None:  # the plans of some planners are not stored; they plan the same again
            self.last_plan = self._plan_for(model)
        self.model_policy = ModelPolicy(model, self.last_plan, belief)
