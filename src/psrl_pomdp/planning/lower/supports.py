"""Interpolation weights as probabilities, with exact zeros: what certificates of gains are made from."""

from __future__ import annotations

import numpy as np

from ..._numba.jit import jit, jit_noalloc
from ..._utils.arrays import Array, Bases
from ..interpolation.programs import repaired_value

ROUNDING_WEIGHT = 1e-15  # weights below this are rounding errors


@jit_noalloc(inner=True)
def covers_state(points: Array, basis: Bases, weights: Array, s: int) -> bool:
    """Return whether some point of positive weight has positive probability of state s."""
    found = False
    for k in range(len(basis)):
        found |= weights[k] > 0.0 and points[s, basis[k]] > 0.0
    return found


@jit()
def interpolation_probabilities(
    points: Array,
    n: int,
    obs_prob: Array,
    tau: Array,
    basis: Bases,
    weights: Array,
    on_points: Array,
    on_vertices: Array,
) -> float:
    """Fill in the weights on the basis and on the vertices that make up each next belief.

    Weights that are rounding errors become zero. But a state that is possible, however unlikely, keeps its
    weight: where no point has it, its vertex gets it.

    Fills `on_points` and `on_vertices` [n, A, O, S], which add up to one together, and returns the largest
    distance |Σ γ g − τ|₁.
    """
    n_actions, n_observations, n_states = tau.shape[1:]
    zeros = np.zeros(points.shape[1])
    combination, trimmed = np.empty(n_states), np.empty(n_states)
    worst = 0.0
    for i in range(n):
        for a in range(n_actions):
            for o in range(n_observations):
                on_points[i, a, o] = 0.0
                on_vertices[i, a, o] = 0.0
                if obs_prob[i, a, o] <= 0.0:
                    continue
                here = tau[i, a, o]
                if (
                    repaired_value(
                        points, zeros, here, basis[i, a, o], weights[i, a, o], combination, trimmed
                    )
                    < 0.0
                ):
                    trimmed[:] = 0.0
                    combination[:] = 0.0
                total = 0.0
                for k in range(n_states):
                    if trimmed[k] > ROUNDING_WEIGHT:
                        on_points[i, a, o, k] = trimmed[k]
                        total += trimmed[k]
                for s in range(n_states):
                    over = here[s] - combination[s]
                    if over > ROUNDING_WEIGHT or (
                        here[s] > 0.0 and not covers_state(points, basis[i, a, o], on_points[i, a, o], s)
                    ):
                        on_vertices[i, a, o, s] = max(over, 1e-300)
                        total += on_vertices[i, a, o, s]
                on_points[i, a, o] /= total
                on_vertices[i, a, o] /= total
                distance = 0.0
                for s in range(n_states):
                    missing = here[s] - on_vertices[i, a, o, s]
                    for k in range(n_states):
                        missing -= on_points[i, a, o, k] * points[s, basis[i, a, o, k]]
                    distance += abs(missing)
                worst = max(worst, distance)
    return worst
