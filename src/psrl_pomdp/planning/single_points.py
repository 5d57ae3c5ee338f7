"""The simplest interpolation of a belief: one point, as much of it as fits into the belief, and the vertices.

For a belief b and a point g, the largest weight λ with λ g ≤ b in every coordinate is the least ratio
b(s) / g(s). The rest b − λ g is made up from the vertices. A belief that is a point itself has λ = 1.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from .._utils.arrays import Array


def largest_weights(points: Array | csr_array, beliefs: Array) -> Array:
    """Return the largest weight that each of the points `[n, S]` can have in each belief, [K, n]."""
    found = np.empty((len(beliefs), points.shape[0]))
    for k, belief in enumerate(beliefs):
        if isinstance(points, csr_array):
            ratios = belief[points.indices] / points.data
            found[k] = np.minimum.reduceat(ratios, points.indptr[:-1]) if len(ratios) else 0.0
        else:
            ratios = np.divide(belief, points, out=np.full(points.shape, np.inf), where=points > 0.0)
            found[k] = ratios.min(axis=1)
    return np.minimum(found, 1.0)


def interpolated_by_one_point(
    weights: Array, points: Array | csr_array, at_vertices: Array, at_points: Array, beliefs: Array
) -> Array:
    """Return the largest value that one point and the vertices give each belief.

    Parameters
    ----------
    weights
        `[K, n]`: what `largest_weights` returns.
    points
        `[n, S]`, without the vertices.
    at_vertices, at_points
        `[S]` and `[n]`, or `[S, A]` and `[n, A]` for several functions at once.
    beliefs
        `[K, S]`.

    Returns
    -------
    Array
        `[K]`, or `[K, A]`.
    """
    base = np.asarray(beliefs @ at_vertices)
    if not len(at_points):
        return base
    excess = at_points - points @ at_vertices
    if excess.ndim == 1:
        return np.asarray(base + np.maximum((weights * excess).max(axis=1), 0.0))
    raised = np.stack([(row[:, None] * excess).max(axis=0) for row in weights])
    return np.asarray(base + np.maximum(raised, 0.0))
