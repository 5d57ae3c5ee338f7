"""The protocols that a user's own priors, posteriors, planners, agents and problems implement.

Each role has one protocol with the few methods that every class in this role must have. Further protocols are
optional: an object that implements one of them is faster, can be resumed, or reports more. The package tests
for optional protocols with `isinstance`. No class has to inherit from a protocol. `psrl_pomdp.testing` has a
checker for each role.

This module contains no computations and imports no compiled code. It is long because all roles are in one
place, where their docstrings can be read beside one another.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from ._utils.arrays import Array

if TYPE_CHECKING:
    from .agents.compiled_steps import EnvironmentState
    from .agents.episode_records import EpisodeRecord
    from .inference.filter_bank import FilterBank
    from .inference.kernel_groups import KernelGroup
    from .inference.learned_tables import LearnedTable
    from .inference.sampled_filter import PossibleStates, RefreshRule, SampledFilter
    from .inference.step_codes import Steps
    from .models import POMDP, Setting
    from .planning.solution import ControllerRun
    from .planning.upper.evaluation import Controller
    from .sensors.dirichlet import DirichletSensor

# A number or a name, a real number, or a vector; None is a missing observation.
Observation: TypeAlias = int | str | float | npt.ArrayLike | None
State: TypeAlias = Mapping[str, object]  # arrays, numbers and strings, which can be stored in a file


# -- observation models ---------------------------------------------------------------------------------


@runtime_checkable
class Sensor(Protocol):
    """An observation model η whose observations are real numbers, counts or vectors.

    The base class `psrl_pomdp.sensors.base.ContinuousSensor` adds what `Setting` needs beside these methods.
    If there are finitely many observations, `Setting` takes a table instead.
    """

    @property
    def n_states(self) -> int:
        """The number of states."""

    @property
    def n_actions(self) -> int | None:
        """The number of actions, or None if the distribution is the same for every action."""

    def log_likelihood(self, action: int, observations: Array) -> Array:
        """Return log η(y | action, s′) of T observations under every s′, shape [T, S]."""

    def draw(
        self,
        rng: np.random.Generator,
        action: int,
        states: npt.NDArray[np.int64],
        previous: npt.NDArray[np.int64] | None = None,
    ) -> Array:
        """Draw one observation in each of `states`, to which `action` led from `previous`."""


# -- priors and posteriors ------------------------------------------------------------------------------


class ModelSample(NamedTuple):
    """A transition kernel θ sampled or chosen from the posterior f_t, and the belief h_t(·; θ)."""

    kernel: Array  # [A, S, S']
    belief: Array  # [S]
    kernel_index: int | None = None  # the number of the kernel in a finite set; plans are cached by it
    # The POMDP without its transition kernel, with a sampled observation model and sampled costs, if these
    # are unknown; None stands for the prior's setting.
    setting: Setting | None = None


class Prior(Protocol):
    """The prior f(θ) over transition kernels. `PSRLAgent` needs these methods and no others."""

    @property
    def setting(self) -> Setting:
        """The POMDP without its transition kernel."""

    def sample(self, rng: np.random.Generator) -> Array:
        """Draw a kernel [A, S, S′] from f."""

    def posterior(self, rng: np.random.Generator) -> Posterior:
        """Return the posterior before the first observation. It draws its random numbers from `rng`."""


class Posterior(Protocol):
    """The posterior f_t(θ) and the beliefs h_t(·; θ). `PSRLAgent` needs these methods and no others.

    Observations and actions are given by number, or by name if the setting has names. An observation that has
    probability 0 under every kernel of the prior raises `ImpossibleObservationError` and leaves the posterior
    unchanged.
    """

    @property
    def setting(self) -> Setting:
        """The POMDP without its transition kernel."""

    @property
    def expected_counts(self) -> Array:
        """The expected number of visits ñ_t(s, a) before time t, shape [A, S]."""

    def start(self, first_observation: Observation) -> None:
        """Condition on o_1, or on nothing (None) if there is no observation before the first action."""

    def update(self, action: int | str, observation: Observation) -> None:
        """Condition on a_t and o_{t+1}. After a missing observation (None), only predict."""

    def sample(self, rng: np.random.Generator) -> Array:
        """Draw a kernel [A, S, S′] from f_t."""

    def belief(self, kernel: Array) -> Array:
        """Return the belief h_t(·; kernel), shape [S]."""


@runtime_checkable
class FiniteSupport(Prior, Protocol):
    """A prior on finitely many kernels. Plans can be cached by kernel, and P(θ* | data) is positive."""

    @property
    def kernels(self) -> Array:
        """The kernels, shape [M, A, S, S']."""

    @property
    def weights(self) -> Array:
        """Their prior probabilities, shape [M]."""

    def __len__(self) -> int: ...
    def model(self, index: int) -> POMDP:
        """Return kernel `index` as a POMDP with the initial distribution that belongs to the kernel."""


@runtime_checkable
class SamplesModels(Protocol):
    """A prior that draws complete POMDPs, because the initial distribution depends on the kernel."""

    def sample_model(self, rng: np.random.Generator) -> POMDP:
        """Draw a POMDP with θ* ~ f."""


@runtime_checkable
class InitialByKernel(Protocol):
    """A prior under which the initial distribution depends on the kernel."""

    def initial_of(self, kernel: Array) -> Array:
        """Return h(·; kernel), shape [S]."""


@runtime_checkable
class HasSupport(Protocol):
    """A prior that declares which transitions are possible. Without this, all transitions may be possible."""

    @property
    def support(self) -> npt.NDArray[np.bool_]:
        """Which transitions are possible, shape [A, S, S']."""


@runtime_checkable
class GroupsKernels(Protocol):
    """A prior that can be a component of a `MixturePrior`: it draws a group of kernels of an ensemble."""

    def kernel_group(self, rng: np.random.Generator) -> KernelGroup:
        """Draw a group of kernels, with the moves that rejuvenate them."""

    def restored_group(self, state: State, size: int, time: int) -> KernelGroup:
        """Return the group of `size` kernels whose `state()` was saved at `time`."""


@runtime_checkable
class LearnsTables(Protocol):
    """A prior that states whether the observation model and the costs are unknown.

    If one of them is, every sampled kernel has a setting of its own (`ModelSample.setting`). All priors
    without these members have a known observation model and known costs.
    """

    @property
    def learns_sensor(self) -> bool:
        """Whether the observation model is unknown."""

    @property
    def learns_costs(self) -> bool:
        """Whether the costs are unknown, and seen."""

    def impossible_part(self, setting: Setting, kernel_index: int | None = None) -> str | None:
        """Return a part of a sampled setting that has probability 0 under the prior, or None.

        The part is "observation", "first_observation", "seen_cost" or "cost". `kernel_index` is the number of
        the sampled kernel, if the prior has finitely many. An agent in a file is checked with this method.
        """


@runtime_checkable
class HasRenamingEvidence(Protocol):
    """A prior that states how much it says against a renaming of the hidden states."""

    def renaming_evidence(self, states: npt.NDArray[np.int64]) -> float:
        """Return the divergence of the renamed prior from the prior, in nats.

        The new state s is the old state `states[s]`. The result is 0 if the renaming leaves the prior
        unchanged, and infinite if observations tell the renamed model from the model, or if the prior rules
        the renamed model out.
        """


@runtime_checkable
class TakesUnknownSensor(Protocol):
    """A prior over kernels that can be combined with an unknown observation model."""

    def with_unknown_sensor(self, setting: Setting, sensor: DirichletSensor) -> Prior:
        """Return the same prior over kernels in `setting`, with an observation model drawn from `sensor`."""


@runtime_checkable
class DirichletRows(Prior, Protocol):
    """A prior with independent Dirichlet rows, to which counts of transitions can be added."""

    @property
    def concentration(self) -> Array:
        """The concentration of each row, shape [A, S, S']; known rows contain their distributions."""

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Which rows are known, shape [A, S]."""

    @property
    def row(self) -> npt.NDArray[np.int64]:
        """Numbers of the rows, shape [A, S]: pairs (a, s) with the same number share their row."""


@runtime_checkable
class HasKind(Protocol):
    """A prior with a name for studies and their results. Other priors are called by their class."""

    @property
    def kind(self) -> str:
        """The name, such as "dirichlet"."""


@runtime_checkable
class SharesParameters(Protocol):
    """A posterior of θ that can take the histories of several units, each with its own hidden state.

    All units have the same θ: an observation of any of them updates f, and beliefs belong to units.
    """

    def new_unit(self) -> Self:
        """Return the posterior of another unit, which has no observations yet."""

    def sample_index(self, rng: np.random.Generator) -> int:
        """Draw the number of a kernel from f."""

    def member(self, number: int) -> ModelSample:
        """Return a kernel by number, with the belief h_t(·; θ) of this unit."""

    def belief_of(self, sample: ModelSample) -> Array:
        """Return the belief of this unit under a sampled model; zeros if its observations are impossible."""

    def wait_for_refreshes(self, wait: bool) -> None:
        """Say whether an ensemble is moved when it should be, or only by `refresh`."""


@runtime_checkable
class SamplesWithBelief(Protocol):
    """A posterior that returns a sampled kernel together with its belief, without filtering again."""

    def sample_model(self, rng: np.random.Generator) -> ModelSample:
        """Draw θ ~ f_t and return it with h_t(·; θ)."""


@runtime_checkable
class Summarizable(Protocol):
    """A posterior with summary statistics, for `agent.info`, certainty equivalence and reports."""

    @property
    def effective_size(self) -> float:
        """The effective number of weighted kernels."""

    def mean_model(self) -> ModelSample:
        """Return the posterior mean of θ and a belief."""

    def mode_model(self, near: Array | None = None) -> ModelSample:
        """Return a mode of the posterior, found by a search that starts from the kernel `near`."""

    def distance(self, kernel: Array) -> float:
        """Return E‖θ − kernel‖₁ under the posterior, averaged over all rows."""


@runtime_checkable
class ReportsTables(Protocol):
    """A posterior that reports what is known of an unknown observation model and of unknown costs."""

    def learned_sensor(self) -> LearnedTable | None:
        """Return what is known of the observation model, or None if it was known before."""

    def learned_costs(self) -> LearnedTable | None:
        """Return what is known of the costs, or None if they were known before."""


@runtime_checkable
class GivesProbabilities(Protocol):
    """A posterior under which single kernels have positive probability."""

    def probability(self, kernel: Array) -> float | None:
        """Return P(θ = kernel | data), or None if the kernel is not in the support of the prior."""


@runtime_checkable
class WeightedKernels(Protocol):
    """A posterior that is, or is approximated by, a finite set of weighted kernels."""

    @property
    def kernels(self) -> Array:
        """The kernels, shape [N, A, S, S']."""

    @property
    def weights(self) -> Array:
        """Their weights, shape [N]."""

    @property
    def beliefs(self) -> Array:
        """The belief under each kernel, shape [N, S]."""


@runtime_checkable
class Compilable(Protocol):
    """A posterior that compiled code can update between refreshes. This is the fast path."""

    def filter_bank(self) -> tuple[FilterBank, PossibleStates, RefreshRule]:
        """Return the filter bank, the possible states, and the rule that says when a refresh is due."""

    def commit(self, steps: Steps, *, refresh: bool) -> None:
        """Record steps that a compiled loop has taken with the filter bank.

        `refresh` is True if the loop stopped because a refresh is due.
        """


@runtime_checkable
class BatchUpdates(Protocol):
    """A posterior that conditions on many steps at once."""

    def update_many(self, actions: npt.ArrayLike, observations: npt.ArrayLike) -> None:
        """Condition on many actions and the observations that follow them; −1 is a missing observation."""


@runtime_checkable
class Reversible(Protocol):
    """A posterior that can return to an earlier state.

    Other posteriors are copied before each step of an agent.
    """

    def snapshot(self) -> Any:
        """Return the data that `go_back` needs."""

    def go_back(self, before: Any) -> None:
        """Return to the state at the time of the snapshot `before`."""


@runtime_checkable
class ResumablePrior(Prior, Protocol):
    """A prior whose posteriors can be saved: a file stores `posterior.state()`, and `restore` reads it."""

    @property
    def fingerprint(self) -> str:
        """A hash of the prior, which a saved posterior contains."""

    def restore(self, state: State, rng: np.random.Generator) -> Posterior:
        """Return the posterior that saved `state`.

        Its later results equal those of the saved posterior to the last bit.
        """


@runtime_checkable
class ReplacesSetting(Protocol):
    """A prior that can be combined with another setting of the same size."""

    def replace(self, *, setting: Setting) -> Self:
        """Return the prior with another setting."""


# -- planners -------------------------------------------------------------------------------------------


class Solution(Protocol):
    """A policy over beliefs, and bounds on the optimal average cost in the user's units."""

    @property
    def lower(self) -> float:
        """A lower bound on the optimal average cost."""

    @property
    def upper(self) -> float:
        """An upper bound on the optimal average cost."""

    @property
    def status(self) -> str:
        """How planning ended, such as "closed" or "time limit"."""

    def action(self, belief: Array) -> int:
        """Return the action of the policy at a belief, shape [S]."""


@runtime_checkable
class AlphaVectorPolicy(Solution, Protocol):
    """A solution whose policy is a set of vectors or a finite-state controller. Compiled code can follow it.

    The entries of the vectors are for the states in `states`. Without nodes to follow, an agent chooses the
    action that is best after one step of lookahead with the vectors, and does not call `action`.
    """

    @property
    def states(self) -> tuple[int, ...]:
        """The states that the initial distribution can reach, in increasing order."""

    @property
    def controller(self) -> Controller:
        """The actions, the vectors and the successors of the nodes."""

    @property
    def quantized_setting(self) -> Setting | None:
        """The setting with cells of readings that the policy is for; None for finite observations."""

    def cell(self, action: int | None, reading: float) -> int:
        """Return the number of the cell that contains a reading after an action."""

    def follow(self, belief: Array) -> ControllerRun:
        """Return a run of the controller that starts at the node for a belief, shape [S]."""


@runtime_checkable
class ScaledBounds(Solution, Protocol):
    """A solution that states its bounds as costs in [0, 1], and how far they are apart."""

    @property
    def lower_cost(self) -> float:
        """The lower bound."""

    @property
    def upper_cost(self) -> float:
        """The upper bound."""

    @property
    def blind_cost(self) -> float:
        """An upper bound on the average cost of the best constant action."""

    @property
    def relative_gap(self) -> float:
        """The gap between the bounds as a fraction of what is at stake (`psrl_pomdp.planning.accuracy`)."""


class CostPromise(Solution, Protocol):
    """A solution that promises an average cost in its model."""

    @property
    def promised_cost(self) -> float:
        """The average cost of the policy that the planner promises or estimates, in [0, 1]."""


class Planner(Protocol):
    """A planner that can replace `plan`."""

    def __call__(self, model: POMDP, tolerance: float = ..., time_limit: float | None = ...) -> Solution:
        """Return a solution of the model with bounds that differ by at most `tolerance`."""


# -- agents ---------------------------------------------------------------------------------------------


class Agent(Protocol):
    """An object that chooses an action for each observation."""

    def act(self, observation: Any) -> int:
        """Return the action a_t after the observation o_t, which is None if there is none."""


@runtime_checkable
class SavableAgent(Protocol):
    """An agent that can be saved and resumed after a crash."""

    def to_bytes(self) -> bytes:
        """Return the agent as bytes."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the agent that `to_bytes` saved."""


@runtime_checkable
class ConditionallySavable(SavableAgent, Protocol):
    """An agent that can be saved only if all of its parts can, such as a user's own prior."""

    @property
    def can_save(self) -> bool:
        """Whether `to_bytes` can return the agent as bytes."""


@runtime_checkable
class RestoresAgents(Protocol):
    """An agent that contains code, such as a user's own prior, and restores saved agents with this code."""

    def restored(self, data: bytes) -> Agent:
        """Return the saved agent. A prior, schedule or planner that is code is taken from this agent."""


@runtime_checkable
class EpisodicAgent(Protocol):
    """An agent with episodes and visit counts, which `Simulation` records."""

    @property
    def setting(self) -> Setting:
        """The POMDP without its transition kernel."""

    @property
    def time(self) -> int:
        """The time t of the next action."""

    @property
    def episode_number(self) -> int:
        """The number k of the present episode."""

    @property
    def steps_taken(self) -> int:
        """The number of actions taken so far."""

    @property
    def pseudo_counts(self) -> npt.NDArray[np.int64]:
        """The pseudo counts of visits Ñ_t(s, a), shape [A, S]."""

    @property
    def expected_counts(self) -> Array:
        """The expected number of visits ñ_t(s, a), shape [A, S]."""

    @property
    def sampled_filter(self) -> SampledFilter:
        """The kernel θ_k of the present episode, and its belief."""

    def episode_records(self) -> tuple[EpisodeRecord, ...]:
        """Return a record of every episode; the present one is the last."""

    def closeness(self, kernel: Array) -> float:
        """Return P(θ = kernel | data) if kernels have positive probability, else E‖θ − kernel‖₁, or NaN."""


@runtime_checkable
class CompiledAgent(Protocol):
    """An agent that compiled code can run for many steps in a simulated environment."""

    @property
    def can_compile(self) -> bool:
        """Whether compiled code can run the agent now."""

    def play(
        self,
        world: EnvironmentState,
        uniforms: Array,
        actions: npt.NDArray[np.uint16],
        readings: npt.NDArray[np.uint16],
        begin: int,
    ) -> int:
        """Run the agent in `world` from step `begin`, fill in the arrays, and return the step reached."""


# -- problems and executors -----------------------------------------------------------------------------


class ProblemFactory(Protocol):
    """A function that returns a problem for given keyword parameters."""

    def __call__(self, **parameters: Any) -> POMDP:
        """Return the problem."""


class ExecutorFactory(Protocol):
    """A function that returns a context manager for the `concurrent.futures.Executor` that runs a study."""

    def __call__(self, address: str, workers: int | None) -> AbstractContextManager[Executor]:
        """Return a context in which an executor runs at `address` with so many workers."""
