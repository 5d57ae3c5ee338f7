"""Beliefs as rows of arrays: which rows are the same belief, and beliefs without small coordinates."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array, Index


def belief_hashes(beliefs: Array) -> Index:
    """Return a hash for each row of `beliefs[n, S]`, the same for rows that agree to seven digits.

    Different beliefs practically never have the same hash: its 63 bits come from a random linear map.
    """
    digits = np.round(beliefs * 1e7).astype(np.int64)
    odd = 2 * np.random.default_rng(0).integers(1 << 62, size=beliefs.shape[1]) + 1
    return np.asarray(digits @ odd)


def distinct_beliefs(beliefs: Array) -> tuple[Index, Index]:
    """Return the first row of each belief (to seven digits), and for every row the position of its belief."""
    _, first, inverse = np.unique(belief_hashes(beliefs), return_index=True, return_inverse=True)
    return first, inverse.ravel()


def drop_small_coordinates(beliefs: Array, least: float | Array) -> Array:
    """Return the beliefs with coordinates below `least` set to zero, normalized."""
    inner = np.where(beliefs < least, 0.0, beliefs)
    return np.asarray(inner / inner.sum(axis=1, keepdims=True))
