"""The lower envelope of vectors: the concave function min_n α_n·b of the belief b."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from .._utils.arrays import Array


def max_of_lower_envelope(vectors: Array) -> float:
    """Return the maximum over beliefs of min_n α_n·b, for `vectors[N, S]`, by a linear program."""
    n, n_states = vectors.shape
    result = linprog(
        c=np.append(np.zeros(n_states), -1.0),
        A_ub=np.column_stack([-vectors, np.ones(n)]),
        b_ub=np.zeros(n),
        A_eq=np.append(np.ones(n_states), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0.0, 1.0)] * n_states + [(None, None)],
        method="highs",
    )
    if result.fun is None:  # the solver fails on these numbers
        return float(vectors.max(axis=1).min())
    return float(-result.fun)
