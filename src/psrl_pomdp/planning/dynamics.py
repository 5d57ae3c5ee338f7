"""A model as the planner sees it: beliefs that move by M[a, o], on the states that can occur.

    M[a, o](s, s′) = θ(s′ | s, a) η(o | a, s′)
    P(o | b, a) = Σ b M[a, o],   τ(b, a, o) = b M[a, o] / P(o | b, a)

States that no policy reaches from the start never matter, and leaving them out repairs many models in
which they would spoil a bound that has to hold everywhere.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from .._utils.arrays import Array, Index, Mask
from ..models.model import POMDP
from ..models.structure import reachable


class Factors(NamedTuple):
    """M as moves and readings: much less to add up wherever all readings are."""

    indptr: npt.NDArray[np.int32]  # [A·S + 1]: where the entries of a row (a, s) begin
    indices: npt.NDArray[np.int32]  # s′
    moves: Array  # θ(s′ | s, a)
    sensor: Array  # [A, O, S']: η(o | a, s′)
    comes: Mask  # [A, O]: whether some state can give the reading


class BeliefDynamics(ABC):
    """What M in one array (`Dynamics`) and M kept sparse (`sparse_dynamics`) have in common."""

    cost: Array  # [A, S], in [0, 1]
    starts: Array  # [K, S]: the beliefs before the first action, one for each first reading
    start_weights: Array  # [K]: their probabilities
    states: tuple[int, ...]  # the states kept, by their number in the model

    @property
    @abstractmethod
    def n_observations(self) -> int: ...

    @property
    @abstractmethod
    def leak(self) -> float:
        """What the rows of Σ_o M[a, o] are off one, at most."""

    @property
    @abstractmethod
    def factors(self) -> Factors: ...

    @abstractmethod
    def move(self, action: int, reading: int) -> csr_array:
        """M[a, o]."""

    @property
    def n_actions(self) -> int:
        return int(self.cost.shape[0])

    @property
    def n_states(self) -> int:
        return int(self.cost.shape[1])

    @property
    def start(self) -> Array:
        """The distribution of the first state, whatever is read first."""
        return np.asarray(self.start_weights @ self.starts)

    def rounding(self, values: Array) -> float:
        """Twice what rounding may do to a certificate with these relative values.

        A residual adds up S·O products of a probability and a value; the factors of M are themselves sums
        over readings; what the rows of M are off one, and what the repair of interpolation weights leaves, is
        multiplied by the values too. Twice, so that whoever adds up in another order, and pays half, still
        has a proof.
        """
        size = float(np.abs(values - values.flat[0]).max())
        terms = self.n_states * self.n_observations + self.n_states + 3 * self.n_observations + 10
        return 1e-12 + 2 * size * (self.leak + terms * sys.float_info.epsilon + 1e-15 * self.n_states)


@dataclass(frozen=True)
class Dynamics(BeliefDynamics):
    """M, the costs, and the beliefs from which the first action is chosen."""

    joint: Array  # [A, O, S, S']: M
    cost: Array  # [A, S], in [0, 1]
    starts: Array  # [K, S]: the beliefs before the first action, one for each first reading
    start_weights: Array  # [K]: their probabilities
    states: tuple[int, ...]  # the states kept, by their number in the model

    @classmethod
    def of(cls, model: POMDP) -> Dynamics:
        """The model, restricted to the states that its start can reach."""
        setting = model.setting
        kept = reachable(np.asarray((model.transition > 0).any(axis=0)), setting.initial > 0)
        states = np.asarray(kept)
        transition = model.transition[:, states][:, :, states]
        sensor = setting.observation[:, states]
        joint = np.einsum("ast,ato->aost", transition, sensor)
        # Rows of a model may be off one by 1e-13, which large relative values would multiply.
        joint /= joint.sum(axis=(1, 3))[:, None, :, None]
        starts, weights = first_beliefs(model, states)
        return cls(np.ascontiguousarray(joint), setting.cost[:, states].copy(), starts, weights, kept)

    @cached_property
    def leak(self) -> float:
        return float(np.abs(self.joint.sum(axis=(1, 3)) - 1.0).max())

    def move(self, action: int, reading: int) -> csr_array:
        return csr_array(self.joint[action, reading])

    @cached_property
    def factors(self) -> Factors:
        moves = self.joint.sum(axis=1)  # [A, S, S']
        whence = moves.argmax(axis=1)  # the state from which a next one is likeliest
        actions, after = np.ogrid[: self.n_actions, : self.n_states]
        certain = moves[actions, whence, after]
        sensor = self.joint[actions, :, whence, after] / np.where(certain > 0.0, certain, 1.0)[..., None]
        rows = csr_array(moves.reshape(-1, self.n_states))
        return Factors(
            rows.indptr.astype(np.int32),
            rows.indices.astype(np.int32),
            rows.data,
            np.ascontiguousarray(sensor.transpose(0, 2, 1)),
            np.asarray(self.joint.any(axis=(2, 3))),
        )

    @property
    def n_observations(self) -> int:
        return int(self.joint.shape[1])


def first_beliefs(model: POMDP, states: Index) -> tuple[Array, Array]:
    """The paper's h_1(·; θ) for every first reading that can come, and how likely each is."""
    initial = model.setting.initial[states]
    first = model.setting.first_observation
    if first is None:
        return initial[None].copy(), np.ones(1)
    together = initial[:, None] * first[states]  # [S, O]
    weights = together.sum(axis=0)
    comes = weights > 0
    return np.ascontiguousarray((together[:, comes] / weights[comes]).T), weights[comes]
