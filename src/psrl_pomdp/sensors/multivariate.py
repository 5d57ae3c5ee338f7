"""Vectors of observations with a multivariate Gaussian distribution in each state."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, frozen
from ..errors import InvalidModelError
from .base import ContinuousSensor, Integers
from .parameters import real_array
from .tails import LOG_ROOT

_SINGULAR = 1e-12  # smallest eigenvalue of a correlation matrix


class MultivariateGaussianSensor(ContinuousSensor):
    """Vectors of d numbers that are Gaussian in each state.

    Parameters
    ----------
    means
        The mean vector in each state, shape [S, d]; or after each action in each state, shape [A, S, d].
    covariances
        The covariance matrices, shape [.., d, d] with the same first axes as `means`, or [S, d, d], or [d, d]
        for all states.

    Raises
    ------
    InvalidModelError
        If a number is not finite, or a covariance matrix is not symmetric and positive definite. The message
        names the entry or the matrix.

    >>> MultivariateGaussianSensor(means=[[0.0, 0.0], [1.0, 2.0]], covariances=[[1.0, 0.5], [0.5, 1.0]])
    MultivariateGaussianSensor(2 states, Gaussian vectors of 2 numbers)
    """

    family = "multivariate-gaussian"
    means: Array
    covariances: Array

    def __init__(self, means: npt.ArrayLike, covariances: npt.ArrayLike) -> None:
        centers = real_array("means", means)
        if centers.ndim not in (2, 3):
            raise InvalidModelError(f"means has shape {centers.shape}, not [S, d] or [A, S, d]")
        *lead, d = centers.shape
        spreads = real_array("covariances", covariances)
        if spreads.shape not in {(*lead[start:], d, d) for start in range(len(lead) + 1)}:
            raise InvalidModelError(
                f"covariances has shape {spreads.shape}, and means has {centers.shape}: it must be one of "
                + ", ".join(str((*lead[start:], d, d)) for start in range(len(lead) + 1))
            )
        factors = _factors(spreads)
        self._set(
            means=frozen(centers),
            covariances=frozen(np.broadcast_to(spreads, (*lead, d, d))),
            _factors=frozen(np.broadcast_to(factors, (*lead, d, d))),
            n_states=lead[-1],
            n_actions=lead[0] if len(lead) == 2 else None,
            dimension=d,
        )

    _factors: Array  # Cholesky factors L with covariance L Lᵀ

    def _contents(self) -> tuple[str, list[Array]]:
        return self.family, [self.means, self.covariances]

    def parameters(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {"means": self.means, "covariances": self.covariances}

    def described(self) -> str:
        """Return a few words for messages and reports."""
        return f"Gaussian vectors of {self.dimension} numbers"

    def _of(self, action: int) -> tuple[Array, Array]:
        if self.n_actions is None:
            return self.means, self._factors
        return self.means[action], self._factors[action]

    def log_likelihood(self, action: int, observations: Array) -> Array:
        """Return the log density of observations [T, d] under every state, shape [T, S′].

        An observation of which a component is NaN counts as lost.
        """
        values = np.asarray(observations, dtype=np.float64)
        lost = np.asarray(np.isnan(values).any(axis=1))
        values = np.where(lost[:, None], 0.0, values)
        found = np.empty((len(values), self.n_states))
        for s, (mean, factor) in enumerate(zip(*self._of(action), strict=True)):
            found[:, s] = -0.5 * _squares(values - mean, factor) - np.log(np.diag(factor)).sum()
        return np.where(lost[:, None], 0.0, found - values.shape[1] * LOG_ROOT)

    def draw(
        self, rng: np.random.Generator, action: int, states: Integers, previous: Integers | None = None
    ) -> Array:
        """Draw one vector in each of `states[T]`, shape [T, d]."""
        means, factors = self._of(action)
        normal = rng.standard_normal((len(states), means.shape[-1]))
        return np.asarray(means[states] + np.einsum("tij,tj->ti", factors[states], normal))


def _squares(values: Array, factor: Array) -> Array:
    """Return |z|² with factor·z = values for vectors [T, d] and a lower triangular factor, shape [T].

    The loops go over components, so that the digits for one vector do not depend on how many there are.
    """
    total, solved = np.zeros(len(values)), np.empty((len(factor), len(values)))
    for i, row in enumerate(factor):
        rest = values[:, i].copy()
        for j in range(i):
            rest -= row[j] * solved[j]
        # A square of more than 1e300 would overflow, and rule a state out.
        solved[i] = np.clip(rest / row[i], -1e149, 1e149)
        total += solved[i] ** 2
    return total


def _factors(covariances: Array) -> Array:
    """Return the Cholesky factors of covariance matrices, after a check."""
    found = np.empty(covariances.shape)
    for place in np.ndindex(covariances.shape[:-2]):
        matrix, name = covariances[place], f"covariances{list(place) if place else ''}"
        sds = np.sqrt(np.maximum(np.diag(matrix), 0.0))
        if not (sds > 1e-75).all():
            raise InvalidModelError(f"{name} has a variance that is not positive")
        correlation = matrix / np.outer(sds, sds)
        if np.abs(correlation - correlation.T).max() > 1e-9:
            raise InvalidModelError(f"{name} is not symmetric")
        if np.abs(correlation).max() > 1.0 + 1e-9 or np.linalg.eigvalsh(correlation)[0] < _SINGULAR:
            raise InvalidModelError(f"{name} is not positive definite, or nearly singular")
        found[place] = sds[:, None] * np.linalg.cholesky(0.5 * (correlation + correlation.T))
    return found
