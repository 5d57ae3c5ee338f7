"""Observations with Student's distribution, which has heavier tails than the Gaussian."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Mask
from .base import LARGEST_VALUE, Integers
from .family import FamilySensor
from .parameters import by_state
from .tails import EPSILON, LOG_ROOT, Tails, stirling_error, tail_errors

_FEWEST, _MOST = 0.1, 1e6  # degrees of freedom for which the tails were compared with exact ones


class StudentSensor(FamilySensor):
    """Observations m + σ X, where X has Student's t distribution.

    An outlier says little about the state: the tails fall like a power. One degree of freedom gives the
    Cauchy distribution, and many degrees give nearly a Gaussian one.

    Parameters
    ----------
    means
        The center m in each state, shape [S]; or after each action in each state, shape [A, S].
    scales
        The scale σ, of the same shape or of shape [S].
    degrees
        The degrees of freedom, from 0.1 to 1e6: a number, or an array of one of these shapes.

    Raises
    ------
    InvalidModelError
        If a parameter is out of its range. The message names the entry.

    >>> StudentSensor(means=[1.0, 0.0], scales=[0.5, 0.5], degrees=4.0)
    StudentSensor(2 states, Student-t observations)
    """

    family = "student"
    words = "Student-t"
    fields = ("means", "scales", "degrees")
    means: Array
    scales: Array
    degrees: Array

    def __init__(
        self, means: npt.ArrayLike, scales: npt.ArrayLike, degrees: npt.ArrayLike | float = 4.0
    ) -> None:
        centers = by_state("means", means)
        self._fill(
            means=centers,
            scales=by_state("scales", scales, positive=True),
            degrees=by_state(
                "degrees",
                np.full(centers.shape[-1], degrees) if np.isscalar(degrees) else degrees,
                least=_FEWEST,
                most=_MOST,
            ),
        )

    def draw(
        self, rng: np.random.Generator, action: int, states: Integers, previous: Integers | None = None
    ) -> Array:
        """Draw one observation in each of `states[T]`."""
        means, scales, degrees = self._of(action)
        drawn = means[states] + scales[states] * rng.standard_t(degrees[states])
        return np.asarray(np.clip(drawn, -LARGEST_VALUE, LARGEST_VALUE))

    def _log_density(self, values: Array, *parameters: Array) -> Array:
        means, scales, degrees = parameters
        half = 0.5 * degrees
        # log Γ(h + ½) − log Γ(h) − ½ log 2πh without a difference of large numbers
        constant = half * np.log1p(0.5 / half) - 0.5 + stirling_error(half + 0.5) - stirling_error(half)
        ratio = np.abs((values - means) / scales) / np.sqrt(degrees)
        spread = np.where(ratio > 1e9, 2.0 * np.log(ratio), np.log1p(ratio * ratio))
        return np.asarray(constant - LOG_ROOT - np.log(scales) - (half + 0.5) * spread)

    def _mode(self, *parameters: Array) -> Array:
        return parameters[0]

    def _tails(self, edges: Array, ends: Mask, *parameters: Array) -> Tails:
        means, scales, degrees = parameters
        outer, relative = student_tail(np.abs((edges - means) / scales), degrees)
        left = edges < means
        below, above = np.where(left, outer, 1.0 - outer), np.where(left, 1.0 - outer, outer)
        return below, above, tail_errors(below, above, ends, relative)


def student_tail(z: Array, degrees: Array) -> tuple[Array, Array]:
    """Return P(X > z) for z ≥ 0, and a bound on its relative error."""
    from scipy.special import betainc, betaincc, betaln

    half = 0.5 * degrees
    ratio = np.minimum(z / np.sqrt(degrees), 1e150)
    square = ratio * ratio
    share = 1.0 / (1.0 + square)
    # Each form has an argument that is small, so that its rounding does not matter.
    inner = betaincc(0.5, half, square * share)
    outer = betainc(half, 0.5, share)
    logs = np.log(np.maximum(z, 1e-300)) - 0.5 * np.log(degrees)
    power = np.exp(np.minimum(-2.0 * half * logs - np.log(half) - betaln(half, 0.5), 0.0))
    found = 0.5 * np.where(square < 1.0, inner, np.where(ratio > 1e9, power, outer))
    # A share with the relative error δ changes the tail by at most the factor exp(2 z² δ), and exp(2 h δ).
    return np.asarray(found), 1e-12 + 8.0 * EPSILON * np.minimum(z * z, degrees)
