"""A model whose arrays M[a, o] would not fit or not pay: moves and sensor as sparse matrices by action.

M[a, o] is never made as a whole. What follows from beliefs, b M[a, o] for every reading that can come, is
made for one action at a time, and has no more entries than the possible pairs of next state and reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array
from scipy.sparse.csgraph import breadth_first_order

from ..._utils.arrays import Array, Index
from ...models.model import POMDP
from ..dynamics import BeliefDynamics, Factors, first_beliefs
from ..limits import Limits, unlimited

ENTRY = 12.0  # bytes of an entry of a sparse matrix that is kept
MAKING = 60.0  # and while it is being made


class After(NamedTuple):
    """What can follow from beliefs under one action: a row for each belief and each reading that can come."""

    belief: Index  # [R]: the number of the belief
    reading: Index  # [R]
    mass: csr_array  # [R, S]: b M[a, o], which sums to P(o | b, a)


@dataclass(frozen=True)
class SparseDynamics(BeliefDynamics):
    """θ and η by action as sparse matrices, the costs, and the beliefs before the first action."""

    moves: tuple[csr_array, ...]  # θ(s′ | s, a): [S, S'] for each action
    sensors: tuple[csr_array, ...]  # η(o | a, s′): [S', O] for each action
    cost: Array
    starts: Array
    start_weights: Array
    states: tuple[int, ...]

    @classmethod
    def of(cls, model: POMDP, limits: Limits | None = None) -> SparseDynamics:
        """The model, restricted to the states that its start can reach; `limits` count what it takes."""
        limits = limits or unlimited()
        setting = model.setting
        moves = []
        for kernel in model.transition:
            size = ENTRY * np.count_nonzero(kernel) + ENTRY * model.n_states
            limits.held += size
            moves.append(csr_array(kernel))
        together = sum(moves[1:], start=moves[0])
        kept = _reachable(together, np.flatnonzero(setting.initial > 0))
        if len(kept) < model.n_states:
            moves = [move[kept][:, kept] for move in moves]
        sensors = [csr_array(sensor[kept]) for sensor in setting.observation]
        starts, weights = first_beliefs(model, kept)
        return cls(
            tuple(_normalized(move) for move in moves),
            tuple(_normalized(sensor) for sensor in sensors),
            setting.cost[:, kept].copy(),
            starts,
            weights,
            tuple(kept.tolist()),
        )

    @property
    def n_observations(self) -> int:
        return int(self.sensors[0].shape[1])

    @cached_property
    def leak(self) -> float:
        together = [move @ sensor.sum(axis=1) for move, sensor in zip(self.moves, self.sensors, strict=True)]
        return float(np.abs(np.stack(together) - 1.0).max())

    @cached_property
    def factors(self) -> Factors:
        """For compiled sweeps over controllers; the sensor in one array [A, O, S']."""
        starts = np.cumsum([0] + [move.nnz for move in self.moves])
        pointers = [move.indptr[:-1] + start for move, start in zip(self.moves, starts, strict=False)]
        return Factors(
            np.concatenate([*pointers, starts[-1:]]).astype(np.int32),
            np.concatenate([move.indices for move in self.moves]).astype(np.int32),
            np.concatenate([move.data for move in self.moves]),
            np.ascontiguousarray(np.stack([sensor.toarray().T for sensor in self.sensors])),
            np.stack([np.asarray(sensor.sum(axis=0)) > 0.0 for sensor in self.sensors]),
        )

    @cached_property
    def columns(self) -> tuple[csc_array, ...]:
        """The sensors by reading."""
        return tuple(csc_array(sensor) for sensor in self.sensors)

    def move(self, action: int, reading: int) -> csr_array:
        column = self.columns[action][:, [reading]].toarray().ravel()
        found = csr_array(self.moves[action] @ diags_array(column))
        found.eliminate_zeros()
        return found

    @cached_property
    def entries(self) -> Index:
        """[A]: the entries of all M[a, o] of an action: possible moves with a reading."""
        found = []
        for move, sensor in zip(self.moves, self.sensors, strict=True):
            found.append(int(np.diff(sensor.indptr)[move.indices].sum()))
        return np.array(found)

    def after(self, beliefs: csr_array, action: int) -> After:
        """What can follow from the beliefs, the rows of [n, S], under one action."""
        moved = csr_array(beliefs @ self.moves[action])
        sensor, n_observations = self.sensors[action], self.n_observations
        each = np.diff(sensor.indptr)[moved.indices]  # readings that each next state can give
        total = int(each.sum())
        entry = np.repeat(np.arange(moved.nnz), each)
        place = np.arange(total) - np.repeat(np.cumsum(each) - each, each)
        place += sensor.indptr[moved.indices[entry]]
        belief = np.repeat(np.arange(moved.shape[0]), np.diff(moved.indptr))[entry]
        mass = moved.data[entry] * sensor.data[place]
        comes = mass > 0.0
        row = (belief * n_observations + sensor.indices[place])[comes]
        shape = moved.shape[0] * n_observations, self.n_states
        found = csr_array((mass[comes], (row, moved.indices[entry][comes])), shape=shape)
        names = np.flatnonzero(np.diff(found.indptr))
        indptr = np.append(found.indptr[names], found.indptr[-1:])
        rows = csr_array((found.data, found.indices, indptr), shape=(len(names), self.n_states))
        return After(names // n_observations, names % n_observations, rows)

    def entries_after(self, beliefs: csr_array, action: int) -> int:
        """How many entries `after` makes, at most."""
        return int(self.entries[action] / max(1, self.n_states) * beliefs.nnz) + 1


def _reachable(edges: csr_array, starts: Index) -> Index:
    """The states on walks from the starts, in their order."""
    n = edges.shape[0]
    source = csr_array((np.ones(len(starts)), (np.zeros(len(starts), np.int64), starts)), shape=(1, n))
    indptr = np.concatenate([source.indptr, source.indptr[-1] + edges.indptr[1:]])
    # One more state in front of all, from which a walk goes to a first state.
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
    """Rows of a model may be off one by 1e-13, which large relative values would multiply."""
    found = csr_array(diags_array(1.0 / rows.sum(axis=1)) @ rows)
    found.sort_indices()
    return found
