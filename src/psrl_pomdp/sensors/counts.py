"""Observations that are counts: Poisson and negative binomial."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Mask
from .base import Integers
from .family import FamilySensor
from .parameters import by_state
from .tails import EPSILON, LOG_ROOT, Tails, deviance, poisson_log_mass, stirling_error, tail_errors

_MOST = 1e6  # of means, for which the tails were compared with exact ones


class PoissonSensor(FamilySensor):
    """Counts with a Poisson distribution in each state, such as alarms in a period.

    Parameters
    ----------
    rates
        The mean count in each state, from 0 to 1e6: shape [S]; or after each action in each state, shape
        [A, S]. With the rate 0, the count is always 0.

    Raises
    ------
    InvalidModelError
        If a rate is out of its range. The message names the entry.

    >>> PoissonSensor(rates=[0.5, 4.0])
    PoissonSensor(2 states, Poisson observations)
    """

    family = "poisson"
    words = "Poisson"
    fields = ("rates",)
    rounding = 1e-12
    is_discrete = True
    rates: Array

    def __init__(self, rates: npt.ArrayLike) -> None:
        given = by_state("rates", rates, least=0.0, most=_MOST)
        self._fill(rates=by_state("rates", np.where(given < 1e-150, 0.0, given)))

    def draw(
        self, rng: np.random.Generator, action: int, states: Integers, previous: Integers | None = None
    ) -> Array:
        """Draw one observation in each of `states[T]`."""
        return np.asarray(rng.poisson(self._of(action)[0][states]), dtype=np.float64)

    def _log_density(self, values: Array, *parameters: Array) -> Array:
        possible = _is_count(values)
        found = poisson_log_mass(np.where(possible, values, 0.0), parameters[0])
        return np.where(possible, found, -np.inf)

    def _mode(self, *parameters: Array) -> Array:
        return np.floor(parameters[0])

    def _tails(self, edges: Array, ends: Mask, *parameters: Array) -> Tails:
        from scipy.special import gammainc, gammaincc  # imported here because the import is slow

        (rates,) = parameters
        counts = np.minimum(np.floor(edges), 1e15)
        inside = counts >= 0.0
        safe = np.where(inside, counts, 0.0) + 1.0 + 0.0 * rates
        below = np.where(inside, gammaincc(safe, rates), 0.0)
        above = np.where(inside, gammainc(safe, rates), 1.0)
        below, above = np.where(ends & inside, 1.0, below), np.where(ends & inside, 0.0, above)
        exact = ends | ~inside | (rates == 0.0)
        return below, above, tail_errors(below, above, exact, 1e-11)


class NegativeBinomialSensor(FamilySensor):
    """Counts with a negative binomial distribution in each state: more dispersed than Poisson counts.

    The variance is mean + mean² / size. The count is Poisson with a rate that has a gamma distribution of
    shape `size`.

    Parameters
    ----------
    means
        The mean count in each state, from 1e-6 to 1e6: shape [S]; or after each action in each state, shape
        [A, S].
    sizes
        The size parameter, from 1e-3 to 1e6, of the same shape or of shape [S].

    Raises
    ------
    InvalidModelError
        If a parameter is out of its range. The message names the entry.

    >>> NegativeBinomialSensor(means=[0.5, 4.0], sizes=[2.0, 2.0])
    NegativeBinomialSensor(2 states, negative binomial observations)
    """

    family = "negative-binomial"
    words = "negative binomial"
    fields = ("means", "sizes")
    rounding = 1e-12
    is_discrete = True
    means: Array
    sizes: Array

    def __init__(self, means: npt.ArrayLike, sizes: npt.ArrayLike) -> None:
        self._fill(
            means=by_state("means", means, least=1e-6, most=_MOST),
            sizes=by_state("sizes", sizes, least=1e-3, most=_MOST),
        )

    def draw(
        self, rng: np.random.Generator, action: int, states: Integers, previous: Integers | None = None
    ) -> Array:
        """Draw one observation in each of `states[T]`."""
        means, sizes = self._of(action)
        rates = means[states] * rng.standard_gamma(sizes[states]) / sizes[states]
        return np.asarray(rng.poisson(rates), dtype=np.float64)

    def _log_density(self, values: Array, *parameters: Array) -> Array:
        means, sizes = parameters
        possible = _is_count(values)
        counts = np.where(possible, values, 0.0)
        positive = np.maximum(counts, 1.0)
        # A binomial mass with x = size and n = size + count, in the form of Loader (2000)
        total = sizes + positive
        share = total / (sizes + means)
        gap = sizes * (means - positive) / (sizes + means)
        spread = deviance(gap, share * sizes) + deviance(-gap, share * means)
        stirling = stirling_error(total) - stirling_error(sizes) - stirling_error(positive)
        root = 0.5 * (np.log(sizes) - np.log(total) - np.log(positive)) - LOG_ROOT
        found = np.where(counts > 0.0, stirling - spread + root, -sizes * np.log1p(means / sizes))
        return np.where(possible, found, -np.inf)

    def _mode(self, *parameters: Array) -> Array:
        means, sizes = parameters
        return np.floor(np.maximum(means * (sizes - 1.0) / sizes, 0.0))

    def _tails(self, edges: Array, ends: Mask, *parameters: Array) -> Tails:
        from scipy.special import betainc, betaincc  # imported here because the import is slow

        means, sizes = parameters
        counts = np.minimum(np.floor(edges), 1e15)
        inside = counts >= 0.0
        first = np.where(inside, counts, 0.0) + 1.0
        p, q = sizes / (sizes + means), means / (sizes + means)
        # The smaller of both probabilities is the argument, so that its rounding matters least.
        low = np.where(p < q, betainc(sizes, first, p), betaincc(first, sizes, q))
        high = np.where(p < q, betaincc(sizes, first, p), betainc(first, sizes, q))
        below, above = np.where(inside, low, 0.0), np.where(inside, high, 1.0)
        below, above = np.where(ends & inside, 1.0, below), np.where(ends & inside, 0.0, above)
        # p · dP(X ≤ k)/dp = (k + size) P(X = k)
        mass = np.exp(self._log_density(first - 1.0, means, sizes))
        absolute = 4.0 * EPSILON * (first + sizes) * mass
        return below, above, tail_errors(below, above, ends | ~inside, 1e-11, absolute)


def _is_count(values: Array) -> Mask:
    return np.asarray((values >= 0.0) & (values == np.floor(values)) & np.isfinite(values))
