"""Beliefs that may become grid points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._utils.arrays import Array, Bases, Index


@dataclass(frozen=True)
class Candidates:
    """Beliefs that may become points, and what is known about them.

    Where small coordinates were dropped from a belief, the other fields are about the whole belief, and so
    approximately right.
    """

    beliefs: Array  # [n, S]
    values: Array  # [n]: h̃ at each belief
    parents: Index  # [n, 3]: the point, action and observation that lead there, or -1
    own_basis: Bases  # [n, S]: the points that make up each belief, or -1
    bases: Bases  # [n, A, O, S]: the points that make up its next beliefs, or -1 where not known

    def __getitem__(self, chosen: slice | Index) -> Candidates:
        return Candidates(
            self.beliefs[chosen],
            self.values[chosen],
            self.parents[chosen],
            self.own_basis[chosen],
            self.bases[chosen],
        )

    def __add__(self, other: Candidates) -> Candidates:
        return Candidates(
            np.concatenate([self.beliefs, other.beliefs]),
            np.concatenate([self.values, other.values]),
            np.concatenate([self.parents, other.parents]),
            np.concatenate([self.own_basis, other.own_basis]),
            np.concatenate([self.bases, other.bases]),
        )
