"""Tails of distributions to 280 digits, from series of positive terms, for half-integer parameters."""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import cache

DIGITS = 280
_SMALL = Decimal(10) ** -(DIGITS - 5)


@cache
def root_of_pi() -> Decimal:
    """π by Machin's formula."""

    def arctangent(n: int) -> Decimal:  # of 1 / n
        total = term = Decimal(1) / n
        k = 1
        while abs(term) > _SMALL * _SMALL:
            term /= -n * n
            k += 2
            total += term / k
        return total

    with localcontext() as context:
        context.prec = DIGITS
        return (4 * (4 * arctangent(5) - arctangent(239))).sqrt()


@cache
def gamma(twice: int) -> Decimal:
    """Γ(twice / 2)."""
    if twice <= 2:
        return root_of_pi() if twice == 1 else Decimal(1)
    with localcontext() as context:
        context.prec = DIGITS
        found, x = gamma(1 + (twice + 1) % 2), Decimal(1 + (twice + 1) % 2) / 2
        while 2 * x < twice:
            found *= x
            x += 1
        return found


def lower_gamma(twice: int, x: float | Decimal) -> Decimal:
    """The regularized lower incomplete gamma function P(twice / 2, x)."""
    with localcontext() as context:
        context.prec = DIGITS
        a, x = Decimal(twice) / 2, Decimal(x)
        total = term = 1 / a
        n = 0
        while x and term > total * _SMALL:
            n += 1
            term *= x / (a + n)
            total += term
        return total * (a * x.ln() - x).exp() / gamma(twice) if x else Decimal(0)


def lower_beta(twice_a: int, twice_b: int, x: Decimal) -> Decimal:
    """The regularized incomplete beta function I_x(a, b)."""
    with localcontext() as context:
        context.prec = DIGITS
        a, b = Decimal(twice_a) / 2, Decimal(twice_b) / 2
        total = term = 1 / a
        n = 0
        while x and term > total * _SMALL:
            term *= (a + b + n) / (a + 1 + n) * x
            n += 1
            total += term
        if not x:
            return Decimal(0)
        front = (a * x.ln() + b * (1 - x).ln()).exp()
        return total * front * gamma(twice_a + twice_b) / gamma(twice_a) / gamma(twice_b)


def normal_above(z: Decimal) -> Decimal:
    with localcontext() as context:
        context.prec = DIGITS
        inside = lower_gamma(1, z * z / 2)  # P(|Z| < |z|)
        return (1 - inside) / 2 if z > 0 else (1 + inside) / 2


def student_above(z: Decimal, degrees: int) -> Decimal:
    with localcontext() as context:
        context.prec = DIGITS
        share = degrees / (degrees + z * z)
        if share < Decimal("0.5"):
            outside = lower_beta(degrees, 1, share)
        else:
            outside = 1 - lower_beta(1, degrees, z * z / (degrees + z * z))
        return outside / 2 if z > 0 else 1 - outside / 2


def poisson_above(count: int, rate: float) -> Decimal:
    return lower_gamma(2 * count + 2, rate)


def negative_binomial_above(count: int, mean: float, twice_size: int) -> Decimal:
    with localcontext() as context:
        context.prec = DIGITS
        chance = Decimal(mean) / (Decimal(mean) + Decimal(twice_size) / 2)
        return lower_beta(2 * count + 2, twice_size, chance)
