"""Positive observations with a gamma distribution, or an exponential one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Mask
from .base import Integers
from .family import FamilySensor
from .parameters import by_state
from .tails import EPSILON, Tails, poisson_log_mass, tail_errors

_LEAST_SHAPE, _MOST_SHAPE = 1e-3, 1e6  # for which the tails were compared with exact ones


class GammaSensor(FamilySensor):
    """Positive observations with a gamma distribution in each state, such as durations.

    The mean is shape × scale, and the variance is shape × scale².

    Parameters
    ----------
    shapes
        The shape parameter in each state, from 1e-3 to 1e6: shape [S]; or after each action in each state,
        shape [A, S].
    scales
        The scale parameter, from 1e-100 to 1e100, of the same shape or of shape [S].

    Raises
    ------
    InvalidModelError
        If a parameter is out of its range. The message names the entry.

    >>> GammaSensor(shapes=[2.0, 2.0], scales=[1.0, 3.0])
    GammaSensor(2 states, gamma observations)
    """

    family = "gamma"
    words = "gamma"
    fields = ("shapes", "scales")
    rounding = 1e-12
    shapes: Array
    scales: Array

    def __init__(self, shapes: npt.ArrayLike, scales: npt.ArrayLike) -> None:
        self._fill(
            shapes=by_state("shapes", shapes, least=_LEAST_SHAPE, most=_MOST_SHAPE),
            scales=by_state("scales", scales, least=1e-100, most=1e100),
        )

    def draw(
        self, rng: np.random.Generator, action: int, states: Integers, previous: Integers | None = None
    ) -> Array:
        """Draw one observation in each of `states[T]`."""
        shapes, scales = self._of(action)
        drawn = rng.standard_gamma(shapes[states])
        return np.asarray(scales[states] * np.maximum(drawn, 1e-200))  # 0 has no density

    def _log_density(self, values: Array, *parameters: Array) -> Array:
        shapes, scales = parameters
        inside = (values > 0.0) & np.isfinite(values)
        ratio = np.where(inside, values, 1.0) / scales
        logs = np.log(np.where(inside, values, 1.0))
        found = poisson_log_mass(shapes + 0.0 * ratio, ratio) + np.log(shapes) - logs
        at_zero = np.where(shapes < 1.0, np.inf, np.where(shapes > 1.0, -np.inf, -np.log(scales)))
        return np.where(inside, found, np.where(values == 0.0, at_zero, -np.inf))

    def _mode(self, *parameters: Array) -> Array:
        shapes, scales = parameters
        return np.maximum(shapes - 1.0, 0.0) * scales

    def _tails(self, edges: Array, ends: Mask, *parameters: Array) -> Tails:
        from scipy.special import gammainc, gammaincc  # imported here because the import is slow

        shapes, scales = parameters
        ratio = np.maximum(edges, 0.0) / scales
        below, above = gammainc(shapes, ratio), gammaincc(shapes, ratio)
        # A relative error δ of the ratio changes a tail by at most the factor exp((shape + ratio) δ).
        relative = np.minimum(1e-11 + EPSILON * (shapes + np.minimum(ratio, 1e20)), 1.0)
        return below, above, tail_errors(below, above, ends | (edges <= 0.0), relative)


class ExponentialSensor(GammaSensor):
    """Positive observations with an exponential distribution: a `GammaSensor` of shape 1.

    Parameters
    ----------
    means
        The mean in each state, shape [S]; or after each action in each state, shape [A, S].

    >>> ExponentialSensor(means=[1.0, 10.0]) == GammaSensor(shapes=[1.0, 1.0], scales=[1.0, 10.0])
    True
    """

    words = "exponential"

    def __init__(self, means: npt.ArrayLike) -> None:
        scales = by_state("means", means, least=1e-100, most=1e100)
        self._fill(shapes=by_state("shapes", np.ones(scales.shape)), scales=scales)
