"""The dynamics of a sparse model: kernel and observation model as sparse matrices, one for each action.

M[a, o] is never stored as a whole. The next beliefs b M[a, o], for every observation that can come, are made
for one action at a time, and have no more entries than there are possible pairs of next state and
observation. Only where the observation depends on the state before the action is M stored, as one sparse
matrix for each action (`SparseJointDynamics`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array, vstack
from scipy.sparse.csgraph import breadth_first_order

from ..._utils.arrays import Array, Index
from ...models import POMDP
from ..dynamics import BeliefDynamics, Factors, first_beliefs, joint_factors
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
    discount: float = field(default=1.0, kw_only=True)

    @classmethod
    def of(cls, model: POMDP, limits: Limits | None = None, discount: float = 1.0) -> SparseDynamics:
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
        reached = _reachable_states(together, np.flatnonzero(setting.initial > 0))
        if len(reached) < model.n_states:
            transitions = [matrix[reached][:, reached] for matrix in transitions]
        starts, weights = first_beliefs(model, reached)
        cost, states = setting.cost[:, reached].copy(), tuple(reached.tolist())
        observation = setting.joint_observation
        if observation.ndim == 4:
            joint = []
            for kernel, table in zip(transitions, observation, strict=True):
                joint.append(_normalized(_joint(csr_array(kernel), table, reached), discount))
                limits.reserved += BYTES_PER_ENTRY * joint[-1].nnz
            marginals = tuple(_summed_over_observations(matrix, len(reached)) for matrix in joint)
            found = marginals, (), cost, starts, weights, states, tuple(joint)
            return SparseJointDynamics(*found, discount=discount)
        observations = [csr_array(matrix[reached]) for matrix in observation]
        return cls(
            tuple(_normalized(matrix, discount) for matrix in transitions),
            tuple(_normalized(matrix) for matrix in observations),
            cost,
            starts,
            weights,
            states,
            discount=discount,
        )

    def with_slack(self, slack: float) -> SparseDynamics:
        """Return the same dynamics, with observation probabilities that may be wrong by `slack` in a row."""
        found = InexactDynamics(
            self.transitions, self.observations, self.cost, self.starts, self.start_weights, self.states,
            discount=self.discount,
        )  # fmt: skip
        object.__setattr__(found, "slack", slack)
        return found

    @property
    def n_observations(self) -> int:
        """The number of observations."""
        return int(self.observations[0].shape[1])

    @cached_property
    def leak(self) -> float:
        """The largest distance from the discount of a row sum of Σ_o M[a, o]."""
        pairs = zip(self.transitions, self.observations, strict=True)
        row_sums = [transition @ observation.sum(axis=1) for transition, observation in pairs]
        return float(np.abs(np.stack(row_sums) - self.discount).max())

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
            np.empty(0, np.int32),
        )

    @property
    def factor_bytes(self) -> float:
        """The memory that `factors` take beside the kernel."""
        return 8.0 * self.factors.observation.size

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
        row = belief * n_observations + sensor.indices[place]
        return self._gathered(row, moved.indices[entry], mass, moved.shape[0])

    def _gathered(self, row: Index, target: Index, mass: Array, n_beliefs: int) -> NextBeliefs:
        """Return next beliefs from their entries; belief i and observation o have the row i·O + o."""
        n_observations = self.n_observations
        possible = mass > 0.0
        shape = n_beliefs * n_observations, self.n_states
        found = csr_array((mass[possible], (row[possible], target[possible])), shape=shape)
        names = np.flatnonzero(np.diff(found.indptr))
        indptr = np.append(found.indptr[names], found.indptr[-1:])
        rows = csr_array((found.data, found.indices, indptr), shape=(len(names), self.n_states))
        return NextBeliefs(names // n_observations, names % n_observations, rows)

    def after_uniform(self) -> Array:
        """Return the sums of M[a, o] over the states before the action, [A, O, S']."""
        uniform_next = np.stack([np.asarray(matrix.sum(axis=0)) for matrix in self.transitions])
        return np.asarray(uniform_next[:, None, :] * self.factors.observation)

    def joint_beliefs(self, beliefs: Array, actions: Index) -> Array:
        """Return b M[a, o] for each of the beliefs `[n, S]` and its action, as a dense array [n, O, S']."""
        moved = np.empty_like(beliefs)
        for a in np.unique(actions):
            here = actions == a
            moved[here] = (self.transitions[a].T @ beliefs[here].T).T
        return np.asarray(moved[:, None, :] * self.factors.observation[actions])

    def entries_of_next_beliefs(self, beliefs: csr_array, action: int) -> int:
        """Return the number of entries that `next_beliefs` makes, at most."""
        return int(self.entries[action] / max(1, self.n_states) * beliefs.nnz) + 1


@dataclass(frozen=True)
class InexactDynamics(SparseDynamics):
    """Dynamics whose observation probabilities may be wrong by `slack`, added up over a row."""

    @cached_property
    def leak(self) -> float:
        """The largest distance from the discount of a row sum of Σ_o M[a, o], and the slack."""
        exact = SparseDynamics(
            self.transitions, self.observations, self.cost, self.starts, self.start_weights, self.states,
            discount=self.discount,
        )  # fmt: skip
        return exact.leak + self.slack


@dataclass(frozen=True)
class SparseJointDynamics(SparseDynamics):
    """M by action as a sparse matrix, where observations depend on the state before the action.

    `transitions` are the sums of M over observations, and `observations` is empty.
    """

    joint: tuple[csr_array, ...]  # [S, S'·O] for each action: M[a, o](s, s′) in column s′·O + o

    @property
    def n_observations(self) -> int:
        """The number of observations."""
        return int(self.joint[0].shape[1]) // self.n_states

    @cached_property
    def leak(self) -> float:
        """The largest distance from the discount of a row sum of Σ_o M[a, o]."""
        return float(max(np.abs(matrix.sum(axis=1) - self.discount).max() for matrix in self.joint))

    @cached_property
    def factors(self) -> Factors:
        """M as its own factors."""
        return joint_factors(csr_array(vstack(self.joint)), self.n_actions, self.n_observations)

    @property
    def factor_bytes(self) -> float:
        """The memory that `factors` take."""
        return 16.0 * self.factors.transitions.size

    @cached_property
    def columns(self) -> tuple[csc_array, ...]:
        """M by columns."""
        return tuple(csc_array(matrix) for matrix in self.joint)

    def joint_matrix(self, action: int, observation: int) -> csr_array:
        """Return M[a, o], [S, S'], as a sparse matrix."""
        return csr_array(self.columns[action][:, observation :: self.n_observations])

    @cached_property
    def entries(self) -> Index:
        """[A]: the number of entries of all M[a, o] of each action."""
        return np.array([matrix.nnz for matrix in self.joint])

    def next_beliefs(self, beliefs: csr_array, action: int) -> NextBeliefs:
        """Return what can follow from the beliefs, the rows of [n, S], under one action."""
        after, n_observations = csr_array(beliefs @ self.joint[action]), self.n_observations
        belief = np.repeat(np.arange(after.shape[0]), np.diff(after.indptr))
        row = belief * n_observations + after.indices % n_observations
        return self._gathered(row, after.indices // n_observations, after.data, after.shape[0])

    def after_uniform(self) -> Array:
        """Return the sums of M[a, o] over the states before the action, [A, O, S']."""
        sums = np.stack([np.asarray(matrix.sum(axis=0)) for matrix in self.joint])
        return np.ascontiguousarray(sums.reshape(self.n_actions, self.n_states, -1).transpose(0, 2, 1))

    def joint_beliefs(self, beliefs: Array, actions: Index) -> Array:
        """Return b M[a, o] for each of the beliefs `[n, S]` and its action, as a dense array [n, O, S']."""
        after = np.empty((len(beliefs), self.n_states, self.n_observations))
        for a in np.unique(actions):
            here = actions == a
            moved = (self.joint[a].T @ beliefs[here].T).T
            after[here] = moved.reshape(-1, self.n_states, self.n_observations)
        return np.ascontiguousarray(after.transpose(0, 2, 1))


def _joint(kernel: csr_array, table: Array, reached: Index) -> csr_array:
    """Return M of one action, [S, S'·O], from θ on the reached states and η(o | s, s′) on all states."""
    row = np.repeat(np.arange(kernel.shape[0]), np.diff(kernel.indptr))
    products = kernel.data[:, None] * table[reached[row], reached[kernel.indices]]  # [nnz, O]
    entry, observation = np.nonzero(products)
    column = kernel.indices[entry].astype(np.int64) * table.shape[2] + observation
    shape = kernel.shape[0], kernel.shape[1] * table.shape[2]
    return csr_array((products[entry, observation], (row[entry], column)), shape=shape)


def _summed_over_observations(joint: csr_array, n_states: int) -> csr_array:
    """Return Σ_o M[a, o] of one action, [S, S']."""
    n_observations = joint.shape[1] // n_states
    # Copies, because entries are added up in place.
    data, indptr = joint.data.copy(), joint.indptr.copy()
    summed = csr_array((data, joint.indices // n_observations, indptr), shape=(n_states,) * 2)
    summed.sum_duplicates()
    return summed


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


def _normalized(rows: csr_array, total: float = 1.0) -> csr_array:
    """Return the rows scaled to this sum; their sums may be off one by 1e-13 in a model."""
    found = csr_array(diags_array(total / rows.sum(axis=1)) @ rows)
    found.sort_indices()
    return found
