"""A model as the planner sees it: the joint matrices M[a, o], on the states that its start can reach.

    M[a, o](s, s′) = θ(s′ | s, a) η(o | a, s′)
    P(o | b, a) = Σ b M[a, o],   τ(b, a, o) = b M[a, o] / P(o | b, a)

Where the observation depends on the state before the action too, η(o | a, s, s′) takes the place of
η(o | a, s′). Beliefs, bounds and certificates need M only, and hold whatever M is made of.

With a discount γ below 1, M is γ θ η, and with the rest 1 − γ of the probability the start is drawn afresh.
That is one known belief: it is no part of M, and bounds add (1 − γ) times their value at it (`discounted`).

The bounds have to hold at every belief. States that no policy reaches from the start are left out, because
they would make such bounds loose and do not matter for any run.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from .._utils.arrays import Array, Index, Mask
from ..models import POMDP
from ..models.structure import reachable


class Factors(NamedTuple):
    """M as the product of transition kernel (compressed sparse rows) and observation model.

    Sums over all observations take S² + S·O products with the factors, and S²·O with M. If the observation
    depends on the state before the action, M is no such product. The rows are then those of M itself: each
    entry has a next state and an observation, and `observation` has no entries.
    """

    indptr: npt.NDArray[np.int32]  # [A·S + 1]: where the entries of row (a, s) of the kernel begin
    indices: npt.NDArray[np.int32]  # s′ of each entry
    transitions: Array  # θ(s′ | s, a) of each entry, or M[a, o](s, s′)
    observation: Array  # [A, O, S']: η(o | a, s′), or [A, O, 0]
    possible: Mask  # [A, O]: whether some state can give the observation
    observed: npt.NDArray[np.int32]  # o of each entry of M, or empty for a product

    @property
    def is_product(self) -> bool:
        """Whether M is the product of kernel and observation model."""
        return bool(self.observation.shape[2] > 0)


class BeliefDynamics(ABC):
    """What `Dynamics` (M as one array) and `SparseDynamics` (M never stored) have in common."""

    cost: Array  # [A, S], in [0, 1]
    starts: Array  # [K, S]: the beliefs before the first action, one for each first observation
    start_weights: Array  # [K]: their probabilities
    states: tuple[int, ...]  # the reachable states, by their number in the model
    slack: float = 0.0  # a bound on the sum of the errors of the observation probabilities of a row
    discount: float = 1.0  # γ: the probability that a step does not draw the start afresh

    @property
    @abstractmethod
    def n_observations(self) -> int:
        """The number of observations."""

    @property
    @abstractmethod
    def leak(self) -> float:
        """The largest distance from the discount of a row sum of Σ_o M[a, o]."""

    @property
    @abstractmethod
    def factors(self) -> Factors:
        """The factors of M."""

    @abstractmethod
    def joint_matrix(self, action: int, observation: int) -> csr_array:
        """Return M[a, o], [S, S'], as a sparse matrix."""

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return int(self.cost.shape[0])

    @property
    def n_states(self) -> int:
        """The number of states."""
        return int(self.cost.shape[1])

    @property
    def start(self) -> Array:
        """[S]: the distribution of the first state, before any observation."""
        return np.asarray(self.start_weights @ self.starts)

    @property
    def restart(self) -> float:
        """1 − γ: the probability that a step draws the start afresh."""
        return 1.0 - self.discount

    def restart_value(self, at_starts: Array) -> float:
        """Return (1 − γ) times the mean of values `[K]` at the beliefs before the first action."""
        return self.restart * float(self.start_weights @ at_starts) if self.restart else 0.0

    def rounding(self, values: Array) -> float:
        """Return twice the largest rounding error of a certificate with these relative values.

        A residual adds up S·O products of a probability and a value. The factors of M are sums over
        observations themselves. The distance of the rows of M from one, and what the repair of interpolation
        weights leaves, are multiplied by the values too. The error is doubled so that `verify`, which adds up
        in another order, needs only half of it.
        """
        size = float(np.abs(values - values.flat[0]).max())
        terms = self.n_states * self.n_observations + self.n_states + 3 * self.n_observations + 10
        return 1e-12 + 2 * size * (self.leak + terms * sys.float_info.epsilon + 1e-15 * self.n_states)


@dataclass(frozen=True)
class Dynamics(BeliefDynamics):
    """M as one array, the costs, and the beliefs at which the first action is chosen."""

    joint: Array  # [A, O, S, S']: M
    cost: Array  # [A, S], in [0, 1]
    starts: Array  # [K, S]: the beliefs before the first action, one for each first observation
    start_weights: Array  # [K]: their probabilities
    states: tuple[int, ...]  # the reachable states, by their number in the model
    depends_on_previous: bool = False  # whether observations depend on the state before the action
    slack: float = 0.0  # a bound on the sum of the errors of the observation probabilities of a row
    discount: float = field(default=1.0, kw_only=True)

    @classmethod
    def of(cls, model: POMDP, slack: float = 0.0, discount: float = 1.0) -> Dynamics:
        """Return the dynamics of a model, restricted to the states that its start can reach.

        The probabilities of the observations may be wrong by `slack`, added up over all observations.
        """
        setting = model.setting
        reached = reachable(np.asarray((model.transition > 0).any(axis=0)), setting.initial > 0)
        states = np.asarray(reached)
        transition = model.transition[:, states][:, :, states]
        table = setting.joint_observation
        if table.ndim == 4:
            observation = table[:, states][:, :, states]
            joint = np.einsum("ast,asto->aost", transition, observation)
        else:
            observation = table[:, states]
            joint = np.einsum("ast,ato->aost", transition, observation)
        # Rows of a model may be off one by 1e-13, which large relative values would multiply.
        joint /= joint.sum(axis=(1, 3))[:, None, :, None]
        if discount < 1.0:
            joint *= discount
        starts, weights = first_beliefs(model, states)
        cost, previous = setting.cost[:, states].copy(), table.ndim == 4
        joint = np.ascontiguousarray(joint)
        return cls(joint, cost, starts, weights, reached, previous, slack, discount=discount)

    @cached_property
    def leak(self) -> float:
        """The largest distance from the discount of a row sum of Σ_o M[a, o], and the slack."""
        return float(np.abs(self.joint.sum(axis=(1, 3)) - self.discount).max()) + self.slack

    def joint_matrix(self, action: int, observation: int) -> csr_array:
        """Return M[a, o], [S, S'], as a sparse matrix."""
        return csr_array(self.joint[action, observation])

    @cached_property
    def factors(self) -> Factors:
        """The factors of M."""
        if self.depends_on_previous:
            # Columns are pairs (s′, o), so that the entries of a row have their next states in order.
            pairs = self.joint.transpose(0, 2, 3, 1).reshape(self.n_actions * self.n_states, -1)
            return joint_factors(csr_array(pairs), self.n_actions, self.n_observations)
        transitions = self.joint.sum(axis=1)  # [A, S, S']
        source = transitions.argmax(axis=1)  # [A, S']: the state from which s′ is likeliest
        actions, after = np.ogrid[: self.n_actions, : self.n_states]
        largest = transitions[actions, source, after]
        observation = self.joint[actions, :, source, after] / np.where(largest > 0.0, largest, 1.0)[..., None]
        rows = csr_array(transitions.reshape(-1, self.n_states))
        return Factors(
            rows.indptr.astype(np.int32),
            rows.indices.astype(np.int32),
            rows.data,
            np.ascontiguousarray(observation.transpose(0, 2, 1)),
            np.asarray(self.joint.any(axis=(2, 3))),
            np.empty(0, np.int32),
        )

    @property
    def n_observations(self) -> int:
        """The number of observations."""
        return int(self.joint.shape[1])


def joint_factors(joint: csr_array, n_actions: int, n_observations: int) -> Factors:
    """Return M as its own factors, from M[a, o](s, s′) with a row (a, s) and a column (s′, o)."""
    observed = joint.indices % n_observations
    action = np.repeat(np.arange(joint.shape[0]), np.diff(joint.indptr)) // (joint.shape[0] // n_actions)
    possible = np.zeros((n_actions, n_observations), np.bool_)
    possible[action, observed] = True
    return Factors(
        joint.indptr.astype(np.int32),
        (joint.indices // n_observations).astype(np.int32),
        joint.data,
        np.empty((n_actions, n_observations, 0)),
        possible,
        observed.astype(np.int32),
    )


def first_beliefs(model: POMDP, states: Index) -> tuple[Array, Array]:
    """Return the belief h_1(·; θ) after each first observation that can come, and their probabilities."""
    initial = model.setting.initial[states]
    first = model.setting.first_observation
    if first is None:
        return initial[None].copy(), np.ones(1)
    together = initial[:, None] * first[states]  # [S, O]
    weights = together.sum(axis=0)
    possible = weights > 0
    return np.ascontiguousarray((together[:, possible] / weights[possible]).T), weights[possible]
