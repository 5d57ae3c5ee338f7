"""Discounted totals: bounds that hold from every belief.

With a discount γ, the planner bounds J = (1 − γ) V, where V is the optimal discounted total cost from the
initial distribution: the average cost where each step draws the start afresh with probability 1 − γ. Values
at beliefs are proved up to a constant on the way. At the end they are moved so that they are totals:

    V(b) ≤ min_n α_n·b   where   C(s, a_n) + γ Σ θ η α_{σ(n, o)}(s′) ≤ α_n(s)   for all n and s,
    V(b) ≥ h̃(b)          where   h_i ≤ c(g_i, a) + γ Σ P(o | g_i, a) h̃(τ(g_i, a, o))   for all i and a.

Both follow by induction over steps, because V is concave and bounded, and hold from every belief. The ends of
the interval are (1 − γ) times the means of both over the beliefs before the first action.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import numpy as np
from scipy.optimize import linprog

from .._utils.arrays import Array
from ..errors import InvalidModelError
from ..models import Units
from .dynamics import BeliefDynamics
from .lower.certificate import LowerCertificate
from .lower.informed import InformedCertificate
from .single_points import interpolated_by_one_point, largest_weights
from .upper.evaluation import Controller


def checked_discount(discount: float | None) -> float:
    """Return a discount as a number, 1 for None; raise `InvalidModelError` if it is out of its range."""
    if discount is None:
        return 1.0
    is_number = isinstance(discount, int | float | np.integer | np.floating)
    if isinstance(discount, bool) or not is_number or not 0.0 < discount < 1.0:
        raise InvalidModelError(
            f"discount is {discount!r}: expected a number above 0 and below 1, or None for the average cost"
        )
    return float(discount)


def total_units(units: Units, discount: float) -> Units:
    """Return the units in which (1 − γ) V, as a scaled cost, is the discounted total V."""
    if discount == 1.0:
        return units
    steps = 1.0 / (1.0 - discount)
    return Units(steps * units.low, steps * units.high, units.kind, units.total_name)


def require_average(solution: object, use: str) -> None:
    """Raise `InvalidModelError` for a plan with a discount; `use` says what it cannot be used for."""
    discount = getattr(solution, "discount", 1.0)
    if discount != 1.0:
        raise InvalidModelError(
            f"the plan is for totals with discount {discount:g}, and {use} is about the long-run average: "
            "make the plan without discount"
        )


def as_total(controller: Controller, dynamics: BeliefDynamics) -> Controller:
    """Return a controller with vectors that are discounted totals, for bounds with a discount."""
    if not dynamics.restart:
        return controller
    at_starts = (dynamics.starts @ controller.vectors.T).min(axis=1)
    gain = controller.bound - dynamics.restart_value(at_starts)
    return replace(controller, vectors=controller.vectors + gain / dynamics.restart)


@singledispatch
def lower_values(certificate: object, beliefs: Array) -> Array:
    """Return the value that a certificate of the lower bound gives each of the beliefs `[K, S]`.

    Each belief is made up from one point and the vertices.
    """
    raise TypeError(f"a {type(certificate).__name__} has no values")


@lower_values.register
def _(certificate: LowerCertificate, beliefs: Array) -> Array:
    n, points, values = beliefs.shape[1], certificate.points, certificate.values
    weights = largest_weights(points[n:], beliefs)
    return interpolated_by_one_point(weights, points[n:], values[:n], values[n:], beliefs)


@lower_values.register
def _(certificate: InformedCertificate, beliefs: Array) -> Array:
    n, points, values = beliefs.shape[1], certificate.points, certificate.values
    weights = largest_weights(points, beliefs)
    by_action = interpolated_by_one_point(weights, points, values[:n], values[n:], beliefs)
    return np.asarray(by_action.min(axis=1))


def as_total_lower(
    certificate: LowerCertificate | InformedCertificate, dynamics: BeliefDynamics
) -> LowerCertificate | InformedCertificate:
    """Return a certificate with values that are discounted totals, for bounds with a discount."""
    if not dynamics.restart:
        return certificate
    gain = certificate.bound - dynamics.restart_value(lower_values(certificate, dynamics.starts))
    return replace(certificate, values=certificate.values + gain / dynamics.restart)


def best_lower_value(certificate: LowerCertificate | InformedCertificate, belief: Array) -> float:
    """Return the largest value that a certificate gives a belief: by one point, or by a linear program."""
    found = float(lower_values(certificate, belief[None])[0])
    if not isinstance(certificate, LowerCertificate):
        return found
    points, values = certificate.points, certificate.values
    result = linprog(-values, A_eq=points.T, b_eq=belief, bounds=(0.0, None), method="highs")
    if result.x is None:
        return found
    weights = np.maximum(result.x, 0.0)
    # The values are at most their largest, so that an error in the weights costs no more than this.
    error = float(np.abs(weights @ points - belief).sum()) * float(np.abs(values).max())
    return max(found, float(weights @ values) - error - 1e-14 * float(np.abs(values).max()))
