"""Beliefs on few states, as rows of sparse matrices: which are alike, and which make up which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from ..._utils.arrays import Array, Index
from ..limits import Limits

WHOLE = 1.0 - 1e-11  # of the largest weight that a point can have: rounding must not make it too large
_MOST = 6  # points that are tried for one row
_LEAST = 0.02  # of a row that a point has to make up
_AT_ONCE = 4_000_000  # common states of rows and points that are counted at a time


@dataclass(frozen=True)
class Options:
    """Points that could make up a part of a row of what follows: row, point, largest weight."""

    rows: Index
    points: Index
    shares: Array

    @classmethod
    def none(cls) -> Options:
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))

    def moved(self, rows: int, points: int) -> Options:
        """The same where rows and points count from later numbers."""
        return Options(self.rows + rows, self.points + points, self.shares)

    def joined(self, other: Options) -> Options:
        """Both, but for each row those of the largest weights only."""
        rows = np.concatenate([self.rows, other.rows])
        points = np.concatenate([self.points, other.points])
        shares = np.concatenate([self.shares, other.shares])
        order = np.lexsort((points, -shares, rows))
        rows = rows[order]
        begin = np.flatnonzero(np.append(True, rows[1:] != rows[:-1])) if len(rows) else np.empty(0, np.int64)
        rank = np.arange(len(rows)) - np.repeat(begin, np.diff(np.append(begin, len(rows))))
        chosen = order[rank < _MOST]
        return Options(np.concatenate([self.rows, other.rows])[chosen], points[chosen], shares[chosen])


def covering(mass: csr_array, points: csr_array, limits: Limits) -> Options:
    """For the rows of `mass`, the points that lie on their states, with the largest λ for which λ g ≤ row."""
    mass = csr_array(mass)
    mass.sort_indices()
    has = csr_array((np.ones(points.nnz), points.indices, points.indptr), shape=points.shape)
    size = np.diff(points.indptr)
    per_state = np.asarray(has.sum(axis=0))  # points on each state
    load = np.cumsum(per_state[mass.indices]) if mass.nnz else np.zeros(0)
    by_row = np.concatenate([[0.0], load])[mass.indptr]
    found, first = [Options.none()], 0
    at_once = min(_AT_ONCE, limits.left / 60.0)
    backward = csr_array(has.T)
    while first < mass.shape[0]:
        limits.need(30.0 * at_once)
        last = int(np.searchsorted(by_row, by_row[first] + at_once, side="right")) - 1
        last = min(max(last, first + 1), mass.shape[0])
        found.append(_covering(mass[first:last], points, backward, size).moved(first, 0))
        first = last
    return Options(
        np.concatenate([part.rows for part in found]),
        np.concatenate([part.points for part in found]),
        np.concatenate([part.shares for part in found]),
    )


def _covering(mass: csr_array, points: csr_array, backward: csr_array, size: Index) -> Options:
    mass = csr_array(mass)
    has = csr_array((np.ones(mass.nnz), mass.indices, mass.indptr), shape=mass.shape)
    common = csr_array(has @ backward).tocoo()  # states that a row and a point have in common
    whole = common.data > size[common.col] - 0.5
    rows, chosen = common.row[whole].astype(np.int64), common.col[whole].astype(np.int64)
    if not len(rows):
        return Options.none()
    # The entries of the points one after another, and those of the rows at the same states.
    each = size[chosen]
    begin = np.cumsum(each) - each
    entry = np.arange(int(each.sum())) - np.repeat(begin, each) + np.repeat(points.indptr[chosen], each)
    n_states = mass.shape[1]
    keys = np.repeat(np.arange(mass.shape[0]), np.diff(mass.indptr)) * n_states + mass.indices
    wanted = np.repeat(rows, each) * n_states + points.indices[entry]
    there = mass.data[np.searchsorted(keys, wanted)]
    shares = WHOLE * np.minimum.reduceat(there / points.data[entry], begin)
    chance = np.asarray(mass.sum(axis=1))
    used = shares > _LEAST * chance[rows]
    return Options(rows[used], chosen[used], shares[used]).joined(Options.none())


def numbers(beliefs: csr_array) -> Index:
    """A number for each row, the same for rows that are alike to seven digits."""
    odd = 2 * np.random.default_rng(0).integers(1 << 62, size=beliefs.shape[1]) + 1
    digits = np.round(beliefs.data * 1e7).astype(np.int64) * odd[beliefs.indices]
    total = np.concatenate([[0], np.cumsum(digits)])
    return np.asarray(total[beliefs.indptr[1:]] - total[beliefs.indptr[:-1]])


def distinct(beliefs: csr_array) -> tuple[Index, Index]:
    """The first of the rows that are alike, and which of these each row is."""
    _, first, inverse = np.unique(numbers(beliefs), return_index=True, return_inverse=True)
    return first, inverse.ravel()


def top(scores: npt.NDArray[Any], count: int) -> Index:
    """The places of the highest scores above 0, the highest first."""
    order = np.argsort(-scores, kind="stable")[:count]
    return order[scores[order] > 0.0]
