"""Gaussian observations: a number with a mean and a standard deviation in each state."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from .base import Integers, ScalarSensor, by_state, together

_LOG_ROOT = 0.5 * np.log(2 * np.pi)


class GaussianSensor(ScalarSensor):
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
    means: Array
    sds: Array

    def __init__(self, means: npt.ArrayLike, sds: npt.ArrayLike) -> None:
        given = together(means=by_state("means", means), sds=by_state("sds", sds, positive=True))
        shape = given["means"].shape
        self._set(**given, n_states=shape[-1], n_actions=shape[0] if len(shape) == 2 else None)

    def _contents(self) -> tuple[str, list[Array]]:
        return self.family, [self.means, self.sds]

    def parameters(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {"means": self.means, "sds": self.sds}

    def described(self) -> str:
        """Return a few words for messages and reports."""
        return "Gaussian observations"

    def _of(self, action: int) -> tuple[Array, Array]:
        if self.n_actions is None:
            return self.means, self.sds
        return self.means[action], self.sds[action]

    def log_likelihood(self, action: int, observations: Array) -> Array:
        """Return the log density of observations [T] under every state, shape [T, S′]."""
        means, sds = self._of(action)
        z = (np.asarray(observations)[:, None] - means) / sds
        return np.asarray(-0.5 * z * z - np.log(sds) - _LOG_ROOT)

    def draw(
        self, rng: np.random.Generator, action: int, states: Integers, previous: Integers | None = None
    ) -> Array:
        """Draw one observation in each of `states[T]`."""
        means, sds = self._of(action)
        return np.asarray(means[states] + sds[states] * rng.standard_normal(len(states)))

    def interval_masses(self, action: int, edges: Array) -> tuple[Array, Array]:
        """Return the probability of each interval under every state, and bounds on the errors."""
        from scipy.special import ndtr  # imported here because the import is slow

        means, sds = self._of(action)
        z = (edges - means[:, None]) / sds[:, None]
        # Above the mean, a difference of lower tails would lose its digits: it is taken of upper tails.
        below, above = ndtr(z), ndtr(-z)
        masses = np.where(z[:, :-1] > 0, above[:, :-1] - above[:, 1:], below[:, 1:] - below[:, :-1])
        size = np.where(z[:, :-1] > 0, above[:, :-1], below[:, 1:])
        return masses, size * (1e-14 + 1e-15 * np.minimum(np.abs(z[:, :-1]), np.abs(z[:, 1:])) ** 2)

    def log_density_bounds(self, action: int, edges: Array) -> tuple[Array, Array]:
        """Return bounds on the log density in each interval."""
        means, sds = self._of(action)
        z = np.abs((edges - means[:, None]) / sds[:, None])
        inside = (edges[:-1] <= means[:, None]) & (means[:, None] <= edges[1:])
        far, near = np.maximum(z[:, :-1], z[:, 1:]), np.minimum(z[:, :-1], z[:, 1:])
        constant = -np.log(sds)[:, None] - _LOG_ROOT
        with np.errstate(over="ignore"):
            low = constant - 0.5 * far * far
            high = constant - 0.5 * np.where(inside, 0.0, near) ** 2
        return low, high

    def quantiles(self, action: int, probabilities: Array) -> Array:
        """Return quantiles of the mixture of all states, by bisection."""
        from scipy.special import ndtr, ndtri

        means, sds = self._of(action)
        low = (means + sds * np.minimum(ndtri(probabilities[:, None]), 0.0)).min(axis=1)
        high = (means + sds * np.maximum(ndtri(probabilities[:, None]), 0.0)).max(axis=1)
        low = np.minimum(low, (means + sds * ndtri(probabilities[:, None])).min(axis=1))
        for _ in range(60):  # bisection
            middle = 0.5 * (low + high)
            under = ndtr((middle[:, None] - means) / sds).mean(axis=1) < probabilities
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return np.asarray(0.5 * (low + high))
