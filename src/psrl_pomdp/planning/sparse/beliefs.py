"""Sparse beliefs, as rows of sparse matrices: which are the same, and which can be parts of which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from ..._utils.arrays import Array, Index
from ..limits import Limits
from ..parameters import CoveringParameters

MAX_SHARE = 1.0 - 1e-11  # of the largest weight that a point can have: rounding must not make it too large


@dataclass(frozen=True)
class PointOptions:
    """Points that can be a part of a row of next beliefs: λ g ≤ row for a point g and its weight λ."""

    rows: Index  # [m]
    points: Index  # [m]
    shares: Array  # [m]: the largest λ

    @classmethod
    def none(cls) -> PointOptions:
        """Return no options."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))

    def shifted(self, rows: int, points: int) -> PointOptions:
        """Return the options with rows and points renumbered: `rows` and `points` are added."""
        return PointOptions(self.rows + rows, self.points + points, self.shares)

    def merged(self, other: PointOptions, most: int) -> PointOptions:
        """Return the options of both; for each row only the `most` options of the largest weights."""
        rows = np.concatenate([self.rows, other.rows])
        points = np.concatenate([self.points, other.points])
        shares = np.concatenate([self.shares, other.shares])
        order = np.lexsort((points, -shares, rows))
        rows = rows[order]
        begin = np.flatnonzero(np.append(True, rows[1:] != rows[:-1])) if len(rows) else np.empty(0, np.int64)
        rank = np.arange(len(rows)) - np.repeat(begin, np.diff(np.append(begin, len(rows))))
        chosen = order[rank < most]
        return PointOptions(np.concatenate([self.rows, other.rows])[chosen], points[chosen], shares[chosen])


def covering_points(
    mass: csr_array,
    points: csr_array,
    limits: Limits,
    parameters: CoveringParameters = CoveringParameters(),
) -> PointOptions:
    """Return the points g that lie on the states of each row, with the largest λ for which λ g ≤ row.

    Parameters
    ----------
    mass
        `[R, S]`, the rows.
    points
        `[n, S]`, the points.
    limits
        Raise `LimitReached` where time or memory does not suffice.
    parameters
        How many points are returned for each row.
    """
    mass = csr_array(mass)
    mass.sort_indices()
    has = csr_array((np.ones(points.nnz), points.indices, points.indptr), shape=points.shape)
    size = np.diff(points.indptr)
    per_state = np.asarray(has.sum(axis=0))  # [S]: points on each state
    load = np.cumsum(per_state[mass.indices]) if mass.nnz else np.zeros(0)
    by_row = np.concatenate([[0.0], load])[mass.indptr]
    found, first = [PointOptions.none()], 0
    at_once = min(parameters.pairs_at_once, limits.remaining / 60.0)
    backward = csr_array(has.T)
    while first < mass.shape[0]:
        limits.require(30.0 * at_once)
        last = int(np.searchsorted(by_row, by_row[first] + at_once, side="right")) - 1
        last = min(max(last, first + 1), mass.shape[0])
        found.append(_covering_points(mass[first:last], points, backward, size, parameters).shifted(first, 0))
        first = last
    return PointOptions(
        np.concatenate([part.rows for part in found]),
        np.concatenate([part.points for part in found]),
        np.concatenate([part.shares for part in found]),
    )


def _covering_points(
    mass: csr_array, points: csr_array, backward: csr_array, size: Index, parameters: CoveringParameters
) -> PointOptions:
    """Return the covering points of some rows; `backward` says which points have a state, [S, n]."""
    mass = csr_array(mass)
    has = csr_array((np.ones(mass.nnz), mass.indices, mass.indptr), shape=mass.shape)
    common = csr_array(has @ backward).tocoo()  # states that a row and a point have in common
    whole = common.data > size[common.col] - 0.5
    rows, chosen = common.row[whole].astype(np.int64), common.col[whole].astype(np.int64)
    if not len(rows):
        return PointOptions.none()
    # The entries of the points one after another, and those of the rows at the same states.
    each = size[chosen]
    begin = np.cumsum(each) - each
    entry = np.arange(int(each.sum())) - np.repeat(begin, each) + np.repeat(points.indptr[chosen], each)
    n_states = mass.shape[1]
    keys = np.repeat(np.arange(mass.shape[0]), np.diff(mass.indptr)) * n_states + mass.indices
    wanted = np.repeat(rows, each) * n_states + points.indices[entry]
    there = mass.data[np.searchsorted(keys, wanted)]
    shares = MAX_SHARE * np.minimum.reduceat(there / points.data[entry], begin)
    probability = np.asarray(mass.sum(axis=1))
    used = shares > parameters.min_share * probability[rows]
    found = PointOptions(rows[used], chosen[used], shares[used])
    return found.merged(PointOptions.none(), parameters.points_per_row)


def row_hashes(beliefs: csr_array) -> Index:
    """Return a hash for each row, the same for rows that agree to seven digits."""
    odd = 2 * np.random.default_rng(0).integers(1 << 62, size=beliefs.shape[1]) + 1
    digits = np.round(beliefs.data * 1e7).astype(np.int64) * odd[beliefs.indices]
    total = np.concatenate([[0], np.cumsum(digits)])
    return np.asarray(total[beliefs.indptr[1:]] - total[beliefs.indptr[:-1]])


def distinct_rows(beliefs: csr_array) -> tuple[Index, Index]:
    """Return the first row of each belief (to seven digits), and for every row the position of its belief."""
    _, first, inverse = np.unique(row_hashes(beliefs), return_index=True, return_inverse=True)
    return first, inverse.ravel()


def top_indices(scores: npt.NDArray[Any], count: int) -> Index:
    """Return the places of the `count` highest scores above 0, the highest first."""
    order = np.argsort(-scores, kind="stable")[:count]
    return order[scores[order] > 0.0]
