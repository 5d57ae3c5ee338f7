"""Fused multiply-add in Python, a · b + c with one rounding, for versions whose `math` has no `fma`.

The product is split into its rounded value and its error, and two sums are split likewise. The last bit of
the sum of the small parts is made odd if the sum is inexact, so that the final sum rounds like the exact one
(Boldo and Melquiond 2008, Emulation of FMA and correctly rounded sums). This is valid if no value overflows
or becomes subnormal; otherwise the result is computed with fractions.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from .._utils.arrays import Array

_SPLIT = 134217729.0  # 2²⁷ + 1
# Bounds of the product and of the summand within which no intermediate value overflows or is subnormal.
_SMALL, _LARGE, _MOST = 2.0**-900, 2.0**900, 2.0**1000


def by_halves(a: float, b: float, c: float) -> float:
    """Return a · b + c, rounded once."""
    a, b, c = float(a), float(b), float(c)  # arithmetic with numpy scalars is three times slower
    product = a * b
    if product == 0.0 and (a == 0.0 or b == 0.0):
        return product + c
    if not (_SMALL < abs(product) < _LARGE and abs(a) < _LARGE and abs(b) < _LARGE and abs(c) < _MOST):
        return by_fractions(a, b, c)
    t = _SPLIT * a
    high_a = t - (t - a)
    low_a = a - high_a
    t = _SPLIT * b
    high_b = t - (t - b)
    low_b = b - high_b
    error = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
    upper = c + error
    t = upper - c
    upper_error = (c - (upper - t)) + (error - t)
    total = product + upper
    t = total - product
    total_error = (product - (total - t)) + (upper - t)
    rest = total_error + upper_error
    t = rest - total_error
    cut = (total_error - (rest - t)) + (upper_error - t)
    if cut != 0.0 and not int(math.frexp(rest)[0] * 9007199254740992.0) & 1:  # 2⁵³
        rest = math.nextafter(rest, math.inf if cut > 0.0 else -math.inf)
    return total + rest


def by_fractions(a: float, b: float, c: float) -> float:
    """Return a · b + c, rounded once, for any numbers. This is slow."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return c if math.isfinite(a) and math.isfinite(b) else a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:  # the sign of zero
        return a * b + c if a == 0.0 or b == 0.0 else 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def by_arrays(a: float, b: Array, c: Array) -> Array:
    """Return a · b + c, rounded once, for each pair of elements, by the algorithm of `by_halves`."""
    product = a * b
    t = _SPLIT * a
    high_a = t - (t - a)
    low_a = a - high_a
    column = _SPLIT * b
    high = column - (column - b)
    low = b - high
    error = ((high_a * high - product) + high_a * low + low_a * high) + low_a * low
    upper = c + error
    column = upper - c
    upper_error = (c - (upper - column)) + (error - column)
    total = product + upper
    column = total - product
    rest = _odd((product - (total - column)) + (upper - column), upper_error)
    out: Array = total + rest
    size = np.abs(product)
    sure = (size > _SMALL) & (size < _LARGE) & (np.abs(b) < _LARGE) & (np.abs(c) < _MOST)
    sure &= abs(a) < _LARGE
    zero = b == 0.0 if a != 0.0 else np.ones(len(b), bool)
    out[zero] = (product + c)[zero]
    for k in np.flatnonzero(~(sure | zero)).tolist():
        out[k] = by_fractions(float(a), float(b[k]), float(c[k]))
    return out


def _odd(x: Array, y: Array) -> Array:
    """Return x + y, with the last bit made odd where the sum is inexact."""
    total: Array = x + y
    t = total - x
    cut = (x - (total - t)) + (y - t)
    even = (total.view(np.int64) & 1) == 0
    some = np.flatnonzero((cut != 0.0) & even)
    if len(some):
        total[some] = np.nextafter(total[some], np.where(cut[some] > 0.0, np.inf, -np.inf))
    return total


def _checked(a: float, b: float, c: float) -> float:
    """Return `math.fma(a, b, c)`, with infinity where `math.fma` raises."""
    try:
        return float(math.fma(a, b, c))  # type: ignore[attr-defined, unused-ignore]
    except (OverflowError, ValueError):
        return by_fractions(float(a), float(b), float(c))


fma = _checked if hasattr(math, "fma") else by_halves
