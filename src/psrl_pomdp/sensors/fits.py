"""Estimates of the parameters of families of distributions from samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.arrays import Array
from .base import ContinuousSensor
from .counts import NegativeBinomialSensor, PoissonSensor
from .gamma import ExponentialSensor, GammaSensor
from .gaussian import GaussianSensor, LogNormalSensor
from .multivariate import MultivariateGaussianSensor

Estimate = tuple[Any, ...]  # the parameters of one row


@dataclass(frozen=True)
class Fit:
    """How the parameters of a family are estimated.

    Attributes
    ----------
    build
        The class of the sensor; it takes the parameters, stacked.
    estimate
        The estimate that the sensor gets, without bias where that is customary.
    likeliest
        The estimate of largest likelihood, or nearly, for tests.
    refusal
        Why a sample cannot come from this family, or the empty string.
    """

    build: Callable[..., ContinuousSensor]
    estimate: Callable[[Array], Estimate]
    likeliest: Callable[[Array], Estimate]
    refusal: Callable[[Array], str]
    n_scalars: int
    is_vector: bool = False

    def fewest(self, dimension: int) -> int:
        """Return the fewest observations that determine the parameters."""
        return dimension + 1 if self.is_vector else self.n_scalars

    def n_parameters(self, dimension: int) -> int:
        """Return the number of parameters of a row."""
        return dimension * (dimension + 3) // 2 if self.is_vector else self.n_scalars


def _varies(sample: Array) -> str:
    return "" if np.ptp(sample) > 0 else f"all {len(sample)} observations are equal, so they have no spread"


def _positive(sample: Array) -> str:
    return "" if (sample > 0).all() else f"the observation {sample.min():g} is not positive"


def _counts(sample: Array) -> str:
    wrong = (sample < 0) | (sample != np.floor(sample))
    return f"the observation {sample[wrong][0]:g} is not a count" if wrong.any() else ""


def _spans(sample: Array) -> str:
    sds = sample.std(axis=0)
    if not (sds > 0).all():
        return f"all {len(sample)} observations have the same component {int(np.argmin(sds))}"
    least = np.linalg.eigvalsh(np.atleast_2d(np.corrcoef(sample, rowvar=False)))[0]
    return "" if least > 1e-9 else "the components of the observations depend on each other linearly"


def _moments(unbiased: bool) -> Callable[[Array], Estimate]:
    return lambda sample: (sample.mean(), sample.std(ddof=int(unbiased)))


def _of_logarithms(unbiased: bool) -> Callable[[Array], Estimate]:
    return lambda sample: _moments(unbiased)(np.log(sample))


def _covariance(unbiased: bool) -> Callable[[Array], Estimate]:
    return lambda sample: (
        sample.mean(axis=0),
        np.atleast_2d(np.cov(sample, rowvar=False, ddof=int(unbiased))),
    )


def _gamma(sample: Array) -> Estimate:
    """Return the likeliest shape and scale: log k − ψ(k) = log mean − mean log, by Newton's method."""
    from scipy.special import polygamma, psi

    mean = sample.mean()
    gap = max(float(np.log(mean) - np.log(sample).mean()), 1e-9)
    shape = (3.0 - gap + np.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)
    for _ in range(50):
        step = (np.log(shape) - psi(shape) - gap) / (1.0 / shape - polygamma(1, shape))
        shape = max(shape - step, 0.1 * shape)
    shape = float(np.clip(shape, 1e-3, 1e6))
    return shape, mean / shape


def _negative_binomial(sample: Array) -> Estimate:
    """Return the mean and the likeliest size."""
    from scipy.optimize import minimize_scalar

    mean = max(float(sample.mean()), 1e-6)

    def loss(log_size: float) -> float:
        return -float(NegativeBinomialSensor([mean], [np.exp(log_size)]).log_likelihood(0, sample).sum())

    found = minimize_scalar(loss, bounds=(np.log(1e-3), np.log(1e6)), method="bounded")
    return mean, float(np.exp(found.x))


def _mean(sample: Array) -> Estimate:
    return (sample.mean(),)


FITS: dict[str, Fit] = {
    "gaussian": Fit(GaussianSensor, _moments(True), _moments(False), _varies, 2),
    "log-normal": Fit(
        LogNormalSensor, _of_logarithms(True), _of_logarithms(False), lambda x: _positive(x) or _varies(x), 2
    ),
    "gamma": Fit(GammaSensor, _gamma, _gamma, lambda x: _positive(x) or _varies(x), 2),
    "exponential": Fit(ExponentialSensor, _mean, _mean, _positive, 1),
    "poisson": Fit(PoissonSensor, _mean, _mean, _counts, 1),
    "negative-binomial": Fit(NegativeBinomialSensor, _negative_binomial, _negative_binomial, _counts, 2),
    "multivariate-gaussian": Fit(
        MultivariateGaussianSensor, _covariance(True), _covariance(False), _spans, 0, is_vector=True
    ),
}
