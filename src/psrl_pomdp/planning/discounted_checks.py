"""Checks of plans with a discount, for `verification`: the value of a start drawn afresh, and of any belief.

They use plain loops and nothing of the code that made the plan.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from .._utils.arrays import Array
from .certificate_checks import CertificateError
from .dynamics import BeliefDynamics


def upper_at_starts(vectors: Array, dynamics: BeliefDynamics) -> float:
    """Return (1 − γ) times the mean over the starts of min α·b."""
    total = 0.0
    for weight, start in zip(dynamics.start_weights, dynamics.starts, strict=True):
        total += float(weight) * float((vectors @ start).min())
    return (1.0 - dynamics.discount) * total


def lower_at_starts(points: csr_array, values: Array, dynamics: BeliefDynamics) -> float:
    """Return (1 − γ) times the mean over the starts of the least value of an action.

    Parameters
    ----------
    points
        `[n, S]`: points that may be a part of a start, beside the states.
    values
        `[S + n, A]`: the values at the states, and then at the points.
    dynamics
        The dynamics, for the starts.
    """
    n_states, total = dynamics.n_states, 0.0
    for weight, start in zip(dynamics.start_weights, dynamics.starts, strict=True):
        best = start @ values[:n_states]
        for i in range(points.shape[0]):
            part = slice(points.indptr[i], points.indptr[i + 1])
            states, coordinates = points.indices[part], points.data[part]
            share = float((start[states] / coordinates).min())
            if share > 0.0:
                rest = start.copy()
                rest[states] = np.maximum(rest[states] - share * coordinates, 0.0)
                best = np.maximum(best, share * values[n_states + i] + rest @ values[:n_states])
        total += float(weight) * float(best.min())
    return (1.0 - dynamics.discount) * total


def check_totals(whose: str, short: float, subtracted: float, rounding: float, discount: float) -> None:
    """Check that values are totals: that the inequality holds for themselves, not up to a constant.

    `short` is by how much it fails for the values less the constant `subtracted`, rounding included. Raises
    `CertificateError`, because `Plan.value_bounds` returns such values.
    """
    if not short + (1.0 - discount) * subtracted <= 0.5 * rounding:
        raise CertificateError(f"the plan claims values of {whose} that are better than proved")
