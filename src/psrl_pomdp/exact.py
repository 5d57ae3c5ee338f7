"""A product and a sum rounded once, in Python, for versions whose `math` has no `fma`.

The product is split into its rounded value and its error, two sums likewise, and of the small parts the last
bit is made odd where something was cut off, so that the final sum rounds as the exact one would (Boldo and
Melquiond 2008, Emulation of FMA and correctly rounded sums). That holds where nothing overflows or becomes
subnormal; elsewhere fractions decide.
"""

from __future__ import annotations

import math
from fractions import Fraction

_SPLIT = 134217729.0  # 2²⁷ + 1
_SMALL, _LARGE = 2.0**-900, 2.0**900


def by_halves(a: float, b: float, c: float) -> float:
    """a · b + c, rounded once."""
    a, b, c = float(a), float(b), float(c)  # arithmetic with numpy's scalars takes three times as long
    product = a * b
    if product == 0.0 and (a == 0.0 or b == 0.0):
        return product + c
    if not (_SMALL < abs(product) < _LARGE and abs(a) < _LARGE and abs(b) < _LARGE and abs(c) < _LARGE):
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
    """The same for any numbers, slowly."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return c if math.isfinite(a) and math.isfinite(b) else a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:  # the sign of zero
        return a * b + c if a == 0.0 or b == 0.0 else 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _checked(a: float, b: float, c: float) -> float:
    """`math.fma`, with infinity where it raises."""
    try:
        return float(math.fma(a, b, c))  # type: ignore[attr-defined, unused-ignore]
    except (OverflowError, ValueError):
        return by_fractions(float(a), float(b), float(c))


fma = _checked if hasattr(math, "fma") else by_halves
