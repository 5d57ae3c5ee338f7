"""The proof of a lower bound by interpolation between grid points.

For points g_1..g_n of the simplex, its vertices among them, and *any* numbers h_1..h_n,

    lower = min_i [ min_a { c(g_i, a) + Σ_o P(o | g_i, a) h̃(τ(g_i, a, o)) } − h_i ]  ≤  J,

where h̃ interpolates h (`interpolation`). Proof: the optimal k-step costs V_k are concave, so that
V_k ≥ h̃ + k·lower at all beliefs follows by induction from its truth at the points (Yu and Bertsekas 2004).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from ..._utils.arrays import Array, Bases, Index
from ..dynamics import BeliefDynamics

SLACK = 1e-12  # rounding error of a bound, beside what grows with the size of h


@dataclass(frozen=True)
class LowerCertificate:
    """Grid points, their values, and the interpolation of every next belief: what proves the lower bound."""

    bound: float
    points: Array  # [n, S], the vertices first
    values: Array  # [n]: h
    basis: Bases  # [n, A, O, S]: the points that make up each next belief
    weights: Array  # [n, A, O, S]: and their weights
    parents: Index  # [n, 3]: the point, action and observation that led to each point, or -1
    gains: Array | None = None  # [n]: g, where the bound depends on the start (`multichain`)

    def __len__(self) -> int:
        return len(self.values)

    def at(self, belief: Array) -> float:
        """Return the lower bound on the average cost of runs from a belief."""
        return self.bound if self.gains is None else _interpolated_gain(self.points, self.gains, belief)

    @property
    def span(self) -> float:
        """The span (largest less least value) of h."""
        return float(np.ptp(self.values))

    def rounding(self, dynamics: BeliefDynamics) -> float:
        """Return what is taken from the bound for rounding errors."""
        return dynamics.rounding(self.values)


def _interpolated_gain(points: Array, gains: Array, belief: Array) -> float:
    """Return the largest gain of a convex combination of points that is the belief, less its error."""
    result = linprog(-gains, A_eq=points.T, b_eq=belief, bounds=(0.0, None), method="highs")
    if result.x is None:  # the solver fails on these numbers; the vertices make up every belief
        return float(gains[: len(belief)] @ belief)
    weights = np.maximum(result.x, 0.0)
    error = float(np.abs(weights @ points - belief).sum())
    return float(weights @ gains) - error * (1.0 + float(np.abs(gains).max()))
