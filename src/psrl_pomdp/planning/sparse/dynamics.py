"""The dynamics of a sparse model: kernel and observation model as sparse matrices, one for each action.

M[a, o] is never stored as a whole. The next beliefs b M[a, o], for every observation that can come, are made
for one action at a time, and have no more entries than there are possible pairs of next state and
observation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array
from scipy.sparse.csgraph import breadth_first_order

from ..._utils.arrays import Array, Index
from ...models import POMDP
from ..dynamics import BeliefDynamics, Factors, first_beliefs
from ..limits import Limits, unlimited

BYTES_PER_ENTRY = 12.0  # bytes of an entry of a stored sparse matrix
BYTES_PER_ENTRY_IN_ASSEMBLY = 60.0  # bytes of an entry while the matrix is made


class NextBeliefs(NamedTuple):
    """Next beliefs under one action: a row for each belief and each observation that can come after it."""

    belief: Index  # [R]: the number of the belief
    observation: Index  # [R]: the observation
    mass: csr_array  # [R, S]: b M[a, o], which sums to P(o | b, a)


@dataclass(frozen=True)
class SparseDynamics(BeliefDynamics):
    """θ and η by action as sparse matrices, the costs, and the beliefs before the first action."""

    transitions: tuple[csr_array, ...]  # θ(s′ | s, a): [S, S'] for each action
    observations: tuple[csr_array, ...]  # η(o | a, s′): [S', O] for each action
    cost: Array
    starts: Array
    start_weights: Array
    states: tuple[int, ...]

    @classmethod
    def of(cls, model: POMDP, limits: Limits | None = None) -> SparseDynamics:
        """Return the dynamics of a model, restricted to the states that its start can reach.

        The size of the matrices is reserved in `limits`.
        """
        limits = limits or unlimited()
        setting = model.setting
        transitions = []
        for kernel in model.transition:
            size = BYTES_PER_ENTRY * np.count_nonzero(kernel) + BYTES_PER_ENTRY * model.n_states
            limits.reserved += size
            transitions.append(csr_array(kernel))
        together = sum(transitions[1:], start=transitions[0])
        kept = _reachable_states(together, np.flatnonzero(setting.initial > 0))
        if len(kept) < model.n_states:
            transitions = [matrix[kept][:, kept] for matrix in transitions]
        observations = [csr_array(matrix[kept]) for matrix in setting.observation]
        starts, weights = first_beliefs(model, kept)
        return cls(
            tuple(_normalized(matrix) for matrix in transitions),
            tuple(_normalized(matrix) for matrix in observations),
            setting.cost[:, kept].copy(),
            starts,
            weights,
            tuple(kept.tolist()),
        )

    @property
    def n_observations(self) -> int:
        """The number of observations."""
        return int(self.observations[0].shape[1])

    @cached_property
    def leak(self) -> float:
        """The largest distance from one of a row sum of Σ_o M[a, o]."""
        pairs = zip(self.transitions, self.observations, strict=True)
        row_sums = [transition @ observation.sum(axis=1) for transition, observation in pairs]
        return float(np.abs(np.stack(row_sums) - 1.0).max())

    @cached_property
    def factors(self) -> Factors:
        """The factors of M, for compiled sweeps over controllers."""
        starts = np.cumsum([0] + [matrix.nnz for matrix in self.transitions])
        pointers = [
            matrix.indptr[:-1] + start for matrix, start in zip(self.transitions, starts, strict=False)
        ]
        return Factors(
            np.concatenate([*pointers, starts[-1:]]).astype(np.int32),
            np.concatenate([matrix.indices for matrix in self.transitions]).astype(np.int32),
            np.concatenate([matrix.data for matrix in self.transitions]),
            np.ascontiguousarray(np.stack([matrix.toarray().T for matrix in self.observations])),
            np.stack([np.asarray(matrix.sum(axis=0)) > 0.0 for matrix in self.observations]),
        )

    @cached_property
    def columns(self) -> tuple[csc_array, ...]:
        """The observation models by columns, of which each is an observation."""
        return tuple(csc_array(matrix) for matrix in self.observations)

    def joint_matrix(self, action: int, observation: int) -> csr_array:
        """Return M[a, o], [S, S'], as a sparse matrix."""
        column = self.columns[action][:, [observation]].toarray().ravel()
        found = csr_array(self.transitions[action] @ diags_array(column))
        found.eliminate_zeros()
        return found

    @cached_property
    def entries(self) -> Index:
        """[A]: the number of entries of all M[a, o] of each action."""
        found = []
        for transition, observation in zip(self.transitions, self.observations, strict=True):
            found.append(int(np.diff(observation.indptr)[transition.indices].sum()))
        return np.array(found)

    def next_beliefs(self, beliefs: csr_array, action: int) -> NextBeliefs:
        """Return what can follow from the beliefs, the rows of [n, S], under one action."""
        moved = csr_array(beliefs @ self.transitions[action])
        sensor, n_observations = self.observations[action], self.n_observations
        each = np.diff(sensor.indptr)[moved.indices]  # observations that each next state can give
        total = int(each.sum())
        entry = np.repeat(np.arange(moved.nnz), each)
        place = np.arange(total) - np.repeat(np.cumsum(each) - each, each)
        place += sensor.indptr[moved.indices[entry]]
        belief = np.repeat(np.arange(moved.shape[0]), np.diff(moved.indptr))[entry]
        mass = moved.data[entry] * sensor.data[place]
        possible = mass > 0.0
        row = (belief * n_observations + sensor.indices[place])[possible]
        shape = moved.shape[0] * n_observations, self.n_states
        found = csr_array((mass[possible], (row, moved.indices[entry][possible])), shape=shape)
        names = np.flatnonzero(np.diff(found.indptr))
        indptr = np.append(found.indptr[names], found.indptr[-1:])
        rows = csr_array((found.data, found.indices, indptr), shape=(len(names), self.n_states))
        return NextBeliefs(names // n_observations, names % n_observations, rows)

    def entries_of_next_beliefs(self, beliefs: csr_array, action: int) -> int:
        """Return the number of entries that `next_beliefs` makes, at most."""
        return int(self.entries[action] / max(1, self.n_states) * beliefs.nnz) + 1


def _reachable_states(edges: csr_array, starts: Index) -> Index:
    """Return the states that can be reached from the starts, in ascending order."""
    n = edges.shape[0]
    source = csr_array((np.ones(len(starts)), (np.zeros(len(starts), np.int64), starts)), shape=(1, n))
    indptr = np.concatenate([source.indptr, source.indptr[-1] + edges.indptr[1:]])
    # A state is added in front of all, with a transition to each start.
    graph = csr_array(
        (
            np.ones(indptr[-1]),
            np.concatenate([source.indices, edges.indices]) + 1,
            indptr,
        ),
        shape=(n + 1, n + 1),
    )
    order = breadth_first_order(graph, 0, directed=True, return_predecessors=False)
    return np.sort(order[1:] - 1).astype(np.int64)


def _normalized(rows: csr_array) -> csr_array:
    """Return the rows divided by their sums, which may be off one by 1e-13 in a model."""
    found = csr_array(diags_array(1.0 / rows.sum(axis=1)) @ rows)
    found.sort_indices()
    return found
