"""Interpolations as probabilities: what is left of the weights after repair, exact zeros where they are."""

from __future__ import annotations

import numpy as np

from ..._numba.jit import bare, kept
from ..._utils.arrays import Array, Bases
from ..interpolation.programs import repaired_value

DUST = 1e-15  # weights below this are rounding


@bare(inner=True)
def covers(points: Array, basis: Bases, kept: Array, s: int) -> bool:
    """Whether a point that has weight has state s."""
    found = False
    for k in range(len(basis)):
        found |= kept[k] > 0.0 and points[s, basis[k]] > 0.0
    return found


@kept()
def supports(
    points: Array, n: int, reach: Array, tau: Array, basis: Bases, weights: Array, kept: Array, rest: Array
) -> float:
    """Weights on the basis and on the vertices that make up each next belief, dust swept away.

    A state that is possible, however unlikely, is no dust: where no point has it, its vertex gets its weight.

    Fills `kept` and `rest` [n, A, O, S], which add up to one together, and returns the largest distance
    |Σ γ g − τ|₁ that the sweeping has left.
    """
    n_actions, n_observations, n_states = tau.shape[1:]
    nothing = np.zeros(points.shape[1])
    made, left = np.empty(n_states), np.empty(n_states)
    worst = 0.0
    for i in range(n):
        for a in range(n_actions):
            for o in range(n_observations):
                kept[i, a, o] = 0.0
                rest[i, a, o] = 0.0
                if reach[i, a, o] <= 0.0:
                    continue
                here = tau[i, a, o]
                if repaired_value(points, nothing, here, basis[i, a, o], weights[i, a, o], made, left) < 0.0:
                    left[:] = 0.0
                    made[:] = 0.0
                total = 0.0
                for k in range(n_states):
                    if left[k] > DUST:
                        kept[i, a, o, k] = left[k]
                        total += left[k]
                for s in range(n_states):
                    over = here[s] - made[s]
                    if over > DUST or (
                        here[s] > 0.0 and not covers(points, basis[i, a, o], kept[i, a, o], s)
                    ):
                        rest[i, a, o, s] = max(over, 1e-300)
                        total += rest[i, a, o, s]
                kept[i, a, o] /= total
                rest[i, a, o] /= total
                distance = 0.0
                for s in range(n_states):
                    missing = here[s] - rest[i, a, o, s]
                    for k in range(n_states):
                        missing -= kept[i, a, o, k] * points[s, basis[i, a, o, k]]
                    distance += abs(missing)
                worst = max(worst, distance)
    return worst
