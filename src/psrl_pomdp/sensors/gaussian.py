"""Gaussian observations, and observations whose logarithms are Gaussian."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Mask
from .base import Integers
from .family import FamilySensor
from .parameters import by_state
from .tails import EPSILON, Tails, normal_log_density, normal_tails


class GaussianSensor(FamilySensor):
    """Observations that are Gaussian in each state.

    Parameters
    ----------
    means
        The mean in each state, shape [S]; or after each action in each state, shape [A, S].
    sds
        The standard deviations, of the same shape or of shape [S].

    Raises
    ------
    InvalidModelError
        If a parameter is not a finite number, or a standard deviation is not positive. The message names the
        entry.

    >>> GaussianSensor(means=[1.0, 0.0], sds=[0.5, 0.5])
    GaussianSensor(2 states, Gaussian observations)
    """

    family = "gaussian"
    words = "Gaussian"
    fields = ("means", "sds")
    means: Array
    sds: Array

    def __init__(self, means: npt.ArrayLike, sds: npt.ArrayLike) -> None:
        self._fill(means=by_state("means", means), sds=by_state("sds", sds, positive=True))

    def draw(
        self, rng: np.random.Generator, action: int, states: Integers, previous: Integers | None = None
    ) -> Array:
        """Draw one observation in each of `states[T]`."""
        means, sds = self._of(action)
        return np.asarray(means[states] + sds[states] * rng.standard_normal(len(states)))

    def _log_density(self, values: Array, *parameters: Array) -> Array:
        means, sds = parameters
        return normal_log_density(values, means, sds)

    def _mode(self, *parameters: Array) -> Array:
        return parameters[0]

    def _tails(self, edges: Array, ends: Mask, *parameters: Array) -> Tails:
        means, sds = parameters
        return normal_tails((edges - means) / sds, ends)


class LogNormalSensor(FamilySensor):
    """Positive observations whose natural logarithms are Gaussian in each state.

    Parameters
    ----------
    log_means
        The mean of the logarithm in each state, shape [S]; or after each action in each state, shape [A, S].
        Its exponential is the median of the observation.
    log_sds
        The standard deviations of the logarithm, of the same shape or of shape [S].

    Raises
    ------
    InvalidModelError
        If a parameter is out of its range: means of the logarithm from −300 to 300, and positive standard
        deviations of at most 100. The message names the entry.

    >>> LogNormalSensor(log_means=[0.0, 1.0], log_sds=[0.3, 0.3])
    LogNormalSensor(2 states, log-normal observations)
    """

    family = "log-normal"
    words = "log-normal"
    fields = ("log_means", "log_sds")
    log_means: Array
    log_sds: Array

    def __init__(self, log_means: npt.ArrayLike, log_sds: npt.ArrayLike) -> None:
        self._fill(
            log_means=by_state("log_means", log_means, least=-300.0, most=300.0),
            log_sds=by_state("log_sds", log_sds, positive=True, most=100.0),
        )

    def draw(
        self, rng: np.random.Generator, action: int, states: Integers, previous: Integers | None = None
    ) -> Array:
        """Draw one observation in each of `states[T]`."""
        means, sds = self._of(action)
        logs = means[states] + sds[states] * rng.standard_normal(len(states))
        return np.exp(np.clip(logs, -345.0, 345.0))  # an observation is at most 1e150

    def _log_density(self, values: Array, *parameters: Array) -> Array:
        means, sds = parameters
        logs = np.log(np.where(values > 0.0, values, 1.0))
        return np.where(values > 0.0, normal_log_density(logs, means, sds) - logs, -np.inf)

    def _mode(self, *parameters: Array) -> Array:
        means, sds = parameters
        return np.exp(means - sds * sds)

    def _tails(self, edges: Array, ends: Mask, *parameters: Array) -> Tails:
        means, sds = parameters
        inside = edges > 0.0
        logs = np.where(inside, np.log(np.where(inside, edges, 1.0)), -np.inf)
        return normal_tails(
            (logs - means) / sds, ends | ~inside, EPSILON * np.where(inside, np.abs(logs), 0.0) / sds
        )
