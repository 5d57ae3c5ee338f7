"""The roles that a user's own classes can play.

A role lists the few methods that every class in it must have. What makes an object faster, resumable or more
informative is a second, optional protocol, which is asked for with `isinstance` where the role is taken up.
No class has to inherit from anything here. `psrl_pomdp.testing` has a checker for each role.

This module computes nothing and imports nothing that is compiled.
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
    from .inference.sampled_filter import PossibleStates, RefreshRule, SampledFilter
    from .models.model import POMDP, Setting

Observation: TypeAlias = int | str | None  # by number or by name; None was lost
State: TypeAlias = Mapping[str, object]  # arrays, numbers and texts: what a file can hold


# -- observation models ---------------------------------------------------------------------------------


@runtime_checkable
class Sensor(Protocol):
    """The observation model η: the distribution of the observation in a state, after an action.

    A `Setting` is one, for finitely many observations.
    """

    @property
    def n_states(self) -> int: ...
    @property
    def n_actions(self) -> int: ...
    def likelihood(self, action: int | None, observation: Any) -> Array:
        """Return η(observation | action, s') for every s', shape [S]; None is before the first action."""

    def sample_observation(self, rng: np.random.Generator, action: int | None, state: int) -> Any:
        """Draw an observation in `state` after `action`."""


# -- priors and posteriors ------------------------------------------------------------------------------


class ModelSample(NamedTuple):
    """A transition kernel θ_k, drawn or chosen from the posterior f_t, and the belief h_t(·; θ_k)."""

    kernel: Array  # [A, S, S']
    belief: Array  # [S]
    kernel_index: int | None = None  # its number where there are finitely many: plans for it can be kept


class Prior(Protocol):
    """The prior f(θ) over transition kernels. This is all that `PSRLAgent` asks of a prior."""

    @property
    def setting(self) -> Setting: ...
    def sample(self, rng: np.random.Generator) -> Array:
        """Draw a kernel [A, S, S'] from f."""

    def posterior(self, rng: np.random.Generator) -> Posterior:
        """Return the posterior before the first observation; it draws its random numbers from `rng`."""


class Posterior(Protocol):
    """The posterior f_t(θ) and the beliefs h_t(·; θ). This is all that `PSRLAgent` asks of a posterior.

    Observations and actions are numbers, or names where the setting has names. An observation that is
    impossible under every kernel of the prior raises `ImpossibleObservationError` and changes nothing.
    """

    @property
    def setting(self) -> Setting: ...
    @property
    def expected_counts(self) -> Array:
        """ñ_t(s, a), shape [A, S]: the expected number of visits before time t."""

    def start(self, first_observation: Observation) -> None:
        """Condition on o_1, or on nothing where there is no observation before the first action."""

    def update(self, action: int | str, observation: Observation) -> None:
        """Condition on a_t and o_{t+1}. A lost observation, None, only predicts."""

    def sample(self, rng: np.random.Generator) -> Array:
        """Draw a kernel [A, S, S'] from f_t."""

    def belief(self, kernel: Array) -> Array:
        """Return h_t(·; kernel), shape [S]."""


@runtime_checkable
class FiniteSupport(Prior, Protocol):
    """A prior over finitely many kernels: plans can be kept, and P(θ* | data) is a number."""

    @property
    def kernels(self) -> Array: ...  # [M, A, S, S']
    @property
    def weights(self) -> Array: ...  # [M]
    def __len__(self) -> int: ...
    def model(self, index: int) -> POMDP:
        """Return kernel `index` as a POMDP, with its own initial distribution."""


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
    """A prior that says which transitions are possible; any other may allow them all."""

    @property
    def support(self) -> npt.NDArray[np.bool_]: ...  # [A, S, S']


@runtime_checkable
class GroupsKernels(Protocol):
    """A prior that can be a component of a `MixturePrior`: it draws the kernels of a part of an ensemble."""

    def kernel_group(self, rng: np.random.Generator) -> KernelGroup:
        """Draw the kernels, with what moves them."""

    def restored_group(self, state: State, size: int, time: int) -> KernelGroup:
        """Return the `size` kernels of a group whose `state()` was saved at `time`."""


@runtime_checkable
class SamplesWithBelief(Protocol):
    """A posterior that returns the drawn kernel together with its belief, without filtering again."""

    def sample_model(self, rng: np.random.Generator) -> ModelSample:
        """Draw θ ~ f_t; return it with h_t(·; θ)."""


@runtime_checkable
class Summarizable(Protocol):
    """A posterior that says what it has learned: for `agent.info`, certainty equivalence and reports."""

    @property
    def effective_size(self) -> float: ...
    def mean_model(self) -> ModelSample:
        """Return the posterior mean of θ, with the belief under the posterior."""

    def mode_model(self, near: Array | None = None) -> ModelSample:
        """Return a mode of the posterior, sought from the kernel `near`."""

    def distance(self, kernel: Array) -> float:
        """Return how far the posterior is from `kernel`: E‖θ − kernel‖₁, the mean over all rows."""


@runtime_checkable
class GivesProbabilities(Protocol):
    """A posterior under which single kernels have positive probability."""

    def probability(self, kernel: Array) -> float | None:
        """Return P(θ = kernel | data), or None where the prior rules the kernel out."""


@runtime_checkable
class WeightedKernels(Protocol):
    """A posterior that is, or is approximated by, finitely many weighted kernels."""

    @property
    def kernels(self) -> Array: ...  # [N, A, S, S']
    @property
    def weights(self) -> Array: ...  # [N]
    @property
    def beliefs(self) -> Array: ...  # [N, S]


@runtime_checkable
class Compilable(Protocol):
    """A posterior that a bank of compiled filters computes between refreshes: the fast path."""

    def filter_bank(self) -> tuple[FilterBank, PossibleStates, RefreshRule]:
        """Return the filters, the states that are possible, and when the posterior needs a refresh."""

    def commit(self, actions: npt.NDArray[Any], observations: npt.NDArray[Any], *, refresh: bool) -> None:
        """Record steps that a compiled loop has taken with the filters; refresh where it stopped for that."""


@runtime_checkable
class BatchUpdates(Protocol):
    """A posterior that conditions on many steps at once."""

    def update_many(self, actions: npt.ArrayLike, observations: npt.ArrayLike) -> None:
        """Condition on many actions and the observations after them; −1 is a lost observation."""


@runtime_checkable
class Reversible(Protocol):
    """A posterior that can return to an earlier state. Any other is copied before each step of an agent."""

    def snapshot(self) -> Any:
        """Return what `go_back` needs."""

    def go_back(self, before: Any) -> None:
        """Return to the state at the snapshot `before`."""


@runtime_checkable
class ResumablePrior(Prior, Protocol):
    """A prior whose posteriors can be saved: `posterior.state()` goes into a file, `restore` reads it."""

    @property
    def fingerprint(self) -> str: ...
    def restore(self, state: State, rng: np.random.Generator) -> Posterior:
        """Return the posterior that saved `state`; it goes on from there, to the last bit."""


@runtime_checkable
class ReplacesSetting(Protocol):
    """A prior that can be moved to another setting of the same size."""

    def replace(self, *, setting: Setting) -> Self: ...


# -- planners -------------------------------------------------------------------------------------------


class Solution(Protocol):
    """A policy over beliefs, and an interval that holds the optimal average cost, in the user's units."""

    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...
    @property
    def status(self) -> str: ...
    def action(self, belief: Array) -> int: ...


class Planner(Protocol):
    """A planner that can stand in for `plan`."""

    def __call__(self, model: POMDP, tolerance: float = ..., time_limit: float | None = ...) -> Solution: ...


# -- agents ---------------------------------------------------------------------------------------------


class Agent(Protocol):
    """Anything that chooses an action for each observation."""

    def act(self, observation: Any) -> int:
        """Take the observation o_t, None where there is none, and return the action a_t."""


@runtime_checkable
class SavableAgent(Protocol):
    """An agent that can be resumed after a crash."""

    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, data: bytes) -> Self: ...


@runtime_checkable
class RestoresAgents(Protocol):
    """An agent that holds code, such as a prior of the user's, with which a saved one can be restored."""

    def restored(self, data: bytes) -> Agent:
        """Return the saved agent; its prior, schedule and planner are this one's where they are code."""


@runtime_checkable
class EpisodicAgent(Protocol):
    """An agent with episodes and visit counts, which `Simulation` records."""

    @property
    def setting(self) -> Setting: ...
    @property
    def time(self) -> int: ...
    @property
    def episode_number(self) -> int: ...
    @property
    def steps_taken(self) -> int:
        """The number of actions that were taken so far."""

    @property
    def pseudo_counts(self) -> npt.NDArray[np.int64]: ...
    @property
    def expected_counts(self) -> Array: ...
    @property
    def sampled_filter(self) -> SampledFilter:
        """The kernel θ_k for which the agent plays, and its belief."""

    def episode_records(self) -> tuple[EpisodeRecord, ...]:
        """Return a record of every episode, the present one last."""

    def closeness(self, kernel: Array) -> float:
        """Return P(θ = kernel | data) where kernels have probabilities, else E‖θ − kernel‖₁, else NaN."""


@runtime_checkable
class CompiledAgent(Protocol):
    """An agent that compiled code can drive through many steps of a simulated environment at once."""

    @property
    def can_compile(self) -> bool: ...
    def play(
        self,
        world: EnvironmentState,
        uniforms: Array,
        actions: npt.NDArray[np.uint16],
        readings: npt.NDArray[np.uint16],
        begin: int,
    ) -> int: ...


# -- problems and executors -----------------------------------------------------------------------------


class ProblemFactory(Protocol):
    """A function that makes a problem from keyword parameters."""

    def __call__(self, **parameters: Any) -> POMDP: ...


class ExecutorFactory(Protocol):
    """A context manager that gives a `concurrent.futures.Executor` on which a study runs."""

    def __call__(self, address: str, workers: int | None) -> AbstractContextManager[Executor]: ...
