"""Log densities and tails of distributions, in forms that keep their digits, with bounds on their errors."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array, Mask

Tails = tuple[Array, Array, tuple[Array, Array]]  # below, above, and bounds on their errors

EPSILON = float(np.finfo(np.float64).eps)
LOG_ROOT = 0.5 * float(np.log(2 * np.pi))
_LEAST = 1e-300  # tails below this are not distinguished from 0
_LARGEST_RATIO = 1e150  # of a deviation and its scale, so that the square is finite


def masses_between(below: Array, above: Array, errors: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the masses between edges, and bounds on their errors, from the tails at the edges.

    Parameters
    ----------
    below, above
        The mass below and above each edge, both of shape [.., K + 1].
    errors
        Bounds on the errors of `below` and of `above`.

    Returns
    -------
    masses, bounds
        Both of shape [.., K]. A mass is a difference of the smaller tails, which keeps its digits.
    """
    upper = below[..., :-1] > 0.5
    masses = np.where(upper, above[..., :-1] - above[..., 1:], below[..., 1:] - below[..., :-1])
    of_below, of_above = errors
    bounds = np.where(upper, of_above[..., :-1] + of_above[..., 1:], of_below[..., :-1] + of_below[..., 1:])
    # The difference is rounded, and a mass that is not negative is nearer to the truth.
    return np.maximum(masses, 0.0), bounds + EPSILON * np.abs(masses)


def tail_errors(
    below: Array, above: Array, ends: Mask, relative: Array | float, absolute: Array | float = 0.0
) -> tuple[Array, Array]:
    """Return bounds on the errors of both tails; at the `ends` of the support they are exactly 0 and 1."""
    return (
        np.where(ends, 0.0, below * relative + absolute + _LEAST),
        np.where(ends, 0.0, above * relative + absolute + _LEAST),
    )


def normal_tails(z: Array, ends: Mask, shift: Array | float = 0.0) -> Tails:
    """Return both tails of the standard normal distribution, and bounds on their errors.

    `shift` is a bound on the error of z beyond two roundings. An error δ of z changes a tail by at most the
    factor exp((1 + |z|) δ), and the tails themselves have relative errors of at most 4e-14.
    """
    from scipy.special import ndtr  # imported here because the import is slow

    below, above = ndtr(z), ndtr(-z)
    size = np.minimum(np.abs(z), 1e3)
    relative = np.minimum(4e-14 + 2.0 * (1.0 + size) * (2.0 * EPSILON * size + shift), 1.0)
    return below, above, tail_errors(below, above, ends, relative)


def normal_log_density(values: Array, means: Array, sds: Array) -> Array:
    """Return the log density of normal distributions; it is finite at every finite value."""
    z = np.minimum(np.abs((values - means) / sds), _LARGEST_RATIO)
    return np.where(np.isinf(values), -np.inf, -0.5 * z * z - np.log(sds) - LOG_ROOT)


def stirling_error(x: Array) -> Array:
    """Return log Γ(x + 1) − (x + ½) log x + x − ½ log 2π, the error of Stirling's formula, for x > 0."""
    from scipy.special import gammaln

    large = np.maximum(x, 10.0)
    square = 1.0 / (large * large)
    series = 1.0 / 1188.0 - square * (691.0 / 360360.0 - square * (1.0 / 156.0 - square * 3617.0 / 122400.0))
    series = 1.0 / 1260.0 - square * (1.0 / 1680.0 - square * series)
    series = 1.0 / 12.0 - square * (1.0 / 360.0 - square * series)
    small = np.clip(x, _LEAST, 10.0)
    direct = gammaln(small + 1.0) - (small + 0.5) * np.log(small) + small - LOG_ROOT
    return np.where(x >= 10.0, series / large, direct)


def deviance(gap: Array, expected: Array) -> Array:
    """Return x log(x / m) + m − x for m = `expected` > 0 and x = m + `gap` ≥ 0.

    It has no large terms that cancel: the error is about EPSILON × |gap|.
    """
    ratio = gap / expected
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = (1.0 + ratio) * np.log1p(ratio) - ratio
    # For small ratios, the Taylor series keeps the digits that the difference loses.
    small = np.clip(ratio, -0.01, 0.01)
    terms = [(-1.0) ** n / (n * (n - 1)) for n in range(2, 11)]
    series = small * small * np.polynomial.polynomial.polyval(small, terms)
    inside = np.where(np.abs(ratio) < 0.01, series, np.where(ratio <= -1.0, 1.0, inside))
    return np.asarray(expected * inside)


def poisson_log_mass(x: Array, rates: Array) -> Array:
    """Return x log λ − λ − log Γ(x + 1) for x ≥ 0, also where x is not an integer."""
    positive = np.maximum(x, _LEAST)
    safe = np.where(rates > 0.0, rates, 1.0)
    spread = stirling_error(positive) + deviance(positive - safe, safe) + 0.5 * np.log(positive) + LOG_ROOT
    found = np.where(x == 0.0, -rates, -spread)
    return np.where((rates == 0.0) & (x > 0.0), -np.inf, found)
