"""Simplices around the likelihood ratios of small intervals.

Let r(y) = ℓ(y) / ℓ_ref(y) be the ratios of the likelihoods to that of a reference state. With a pivot p, the
coordinates d_s = r_s − slope_s r_p, with slope 0 for the pivot itself, change little along the curve r(y) but
for d_p. They are bounded on the parts into which an interval is divided, so that

    base_s ≤ d_s(y) ≤ base_s + width_s   for all y of the interval.

With the n states whose width is not zero, the atoms x_0 = r(base) and x_s = r(base + n width_s e_s) are
corners of a simplex with r(y) = g_0 x_0 + Σ_s g_s x_s and

    g_s = (d_s − base_s) / (n width_s),   g_0 = 1 − Σ_s g_s ≥ 0.

These are linear in r, so that their integrals follow from the masses of the interval. A state with width zero
has d_s ≥ base_s only, and what is more than base_s is given to its vertex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._utils.arrays import Array, Index, Mask, frozen
from .base import ScalarSensor
from .cells import interval_masses, with_ends

SUBDIVISIONS = 16  # parts of an interval on which densities are bounded
_LARGEST_RATIO = 1e100  # an interval with larger ratios reveals the state


@dataclass(frozen=True)
class Frames:
    """The simplices of all F intervals."""

    reference: Index  # [F]
    pivot: Index  # [F]
    slope: Array  # [F, S]
    base: Array  # [F, S]; 1 for the reference
    width: Array  # [F, S]; 0 for the reference and for states that are not spread
    used: Mask  # [F]: False for intervals that reveal the state

    def corners(self) -> Array:
        """Return the atoms, [F, S, S]; x_0 is in the place of the reference.

        Their coordinates are rounded down, and what is missing is given to the vertices.
        """
        n, n_states = self.base.shape
        each = np.arange(n_states)
        kept = np.maximum((self.width > 0.0).sum(axis=1), 1)
        points = np.repeat(self.base[:, None, :], n_states, axis=1)  # [F, atom, S]
        points[:, each, each] += kept[:, None] * self.width
        moved = self.slope[:, None, :] * points[np.arange(n), :, self.pivot][:, :, None]
        points = points + moved - 1e-15 * (np.abs(points) + np.abs(moved)) * (moved != 0.0)
        return np.where(self.used[:, None, None], np.maximum(points, 0.0), 1.0)

    def atoms(self) -> Array:
        """Return the atoms, [F, S, S], rows normalized."""
        points = self.corners()
        return np.asarray(points / points.sum(axis=2, keepdims=True))

    def weights(self, masses: Array, errors: Array) -> Array:
        """Return lower bounds on the integrals of the weights of the normalized atoms, [F, S].

        Parameters
        ----------
        masses, errors
            The masses of the intervals under every state and bounds on their errors, [F, S].
        """
        rows = np.arange(len(masses))
        kept = np.maximum((self.width > 0.0).sum(axis=1), 1)[:, None]
        reference, wrong = masses[rows, self.reference], errors[rows, self.reference]
        pivot, off = masses[rows, self.pivot], errors[rows, self.pivot]
        used = np.where(self.used[:, None], self.base, 0.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            over = masses - self.slope * pivot[:, None] - used * reference[:, None]
            error = self._error(errors, off, wrong) + self._error(masses, pivot, reference) * 1e-15
            scale = np.where(self.width > 0.0, 1.0 / (kept * self.width), 0.0)
            shares, doubts = np.maximum(over * scale, 0.0), error * scale
        first = reference - wrong - (shares + doubts).sum(axis=1) - 1e-15 * reference
        low = np.maximum(shares - doubts, 0.0)
        low[rows, self.reference] = np.maximum(first, 0.0)
        return np.where(self.used[:, None], low * self.corners().sum(axis=2), 0.0)

    def _error(self, own: Array, pivot: Array, reference: Array) -> Array:
        base = np.where(self.used[:, None], self.base, 0.0)
        return own + np.abs(self.slope) * pivot[:, None] + np.abs(base) * reference[:, None]


def frames(sensor: ScalarSensor, action: int, edges: Array) -> Frames:
    """Return the simplices of the intervals between `edges`."""
    masses, errors = (each.T for each in interval_masses(sensor, action, edges))
    reference: Index = masses.argmax(axis=1)
    low, high = ratio_bounds(sensor, action, edges, reference)  # [F, parts, S]
    n, n_states = masses.shape
    rows = np.arange(n)
    used = np.isfinite(high).all(axis=(1, 2)) & (high < _LARGEST_RATIO).all(axis=(1, 2))
    used &= masses[rows, reference] > errors[rows, reference]
    low, high = np.where(used[:, None, None], low, 1.0), np.where(used[:, None, None], high, 1.0)
    middle = 0.5 * (low + high)
    change = middle[:, -1] - middle[:, 0]
    change[rows, reference] = 0.0
    pivot = np.abs(change).argmax(axis=1)
    size = change[rows, pivot][:, None]
    slope = np.where(size == 0.0, 0.0, change / np.where(size == 0.0, 1.0, size))
    slope[rows, pivot] = slope[rows, reference] = 0.0
    base, width = _box(low, high, slope, pivot)
    # Atoms have to be vectors of likelihoods: none of their coordinates may be negative.
    ends = np.stack([base[rows, pivot], base[rows, pivot] + n_states * width[rows, pivot]], axis=1)
    least = (base[:, None] + slope[:, None] * ends[..., None]).min(axis=(1, 2))
    slope[least < 0.0] = 0.0
    kept = _worth_keeping(width, base, slope, pivot, masses, errors, reference)
    slope[~kept[rows, pivot]] = 0.0
    base, width = _box(low, high, slope, pivot)
    width = np.where(_worth_keeping(width, base, slope, pivot, masses, errors, reference), width, 0.0)
    width[rows, reference], base[rows, reference] = 0.0, 1.0
    return Frames(reference, pivot, frozen(slope), frozen(base), frozen(width), used)


def _box(low: Array, high: Array, slope: Array, pivot: Index) -> tuple[Array, Array]:
    """Return base and width of the coordinates d over all parts of each interval, widened for rounding."""
    rows = np.arange(len(pivot))
    at_low, at_high = low[rows, :, pivot][..., None], high[rows, :, pivot][..., None]
    first, second = slope[:, None] * at_low, slope[:, None] * at_high
    base = (low - np.maximum(first, second)).min(axis=1)
    top = (high - np.minimum(first, second)).max(axis=1)
    pad = 4e-15 * (high + np.maximum(np.abs(first), np.abs(second))).max(axis=1)
    square = slope == 0.0  # no subtraction, no rounding: a base of 0 stays 0
    return np.where(square, base, base - pad), np.where(square, top - base, top - base + 2 * pad)


def _worth_keeping(
    width: Array,
    base: Array,
    slope: Array,
    pivot: Index,
    masses: Array,
    errors: Array,
    reference: Index,
) -> Mask:
    """Return for which states an atom loses less than giving the width to the vertex, [F, S].

    The atom loses what its weight is wrong by, the error of the masses divided by the width.
    """
    rows = np.arange(len(pivot))
    mass = np.maximum(masses[rows, reference], 1e-300)[:, None]
    error = errors + np.abs(slope) * errors[rows, pivot][:, None]
    error = error + np.abs(base) * errors[rows, reference][:, None]
    error = error + 1e-15 * (masses + np.abs(slope) * masses[rows, pivot][:, None] + np.abs(base) * mass)
    with np.errstate(over="ignore"):
        relative = error / mass
        return np.asarray(width * width > relative * (1.0 + np.abs(base)))


def ratio_bounds(sensor: ScalarSensor, action: int, edges: Array, reference: Index) -> tuple[Array, Array]:
    """Return bounds on ratios to the likelihood of the reference in all parts of intervals, [F, parts, S].

    They are widened by the rounding errors of logarithms; +inf where there is no bound.
    """
    n = len(edges) - 1
    parts = 1 if sensor.is_discrete else SUBDIVISIONS
    bounds = sensor.log_density_bounds(action, with_ends(subdivided(edges[1:-1], parts)))
    n_inner = max(n - 2, 0)  # an action without observation has one or two intervals
    low, high = (each[:, 1:-1].T.reshape(n_inner, parts, sensor.n_states) for each in bounds)
    inner = reference[1:-1]
    rows = np.arange(n_inner)
    least, most = np.zeros((n, parts, sensor.n_states)), np.full((n, parts, sensor.n_states), np.inf)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        below, above = low[rows, :, inner][..., None], high[rows, :, inner][..., None]
        least[1:-1] = np.exp(low - above - 2e-15 * (5.0 + np.abs(low) + np.abs(above)))
        most[1:-1] = np.exp(high - below + 2e-15 * (5.0 + np.abs(high) + np.abs(below)))
    least, most = np.nan_to_num(least, nan=0.0), np.nan_to_num(most, nan=np.inf, posinf=np.inf)
    if sensor.is_discrete:
        least, most = _single_counts(sensor, action, edges, reference, least, most)
    return least, most


def _single_counts(
    sensor: ScalarSensor, action: int, edges: Array, reference: Index, least: Array, most: Array
) -> tuple[Array, Array]:
    """Return bounds that follow from the masses in intervals that contain one count."""
    single = np.floor(edges[1:]) - np.floor(edges[:-1]) == 1.0
    masses, errors = (each.T for each in interval_masses(sensor, action, edges))
    rows = np.arange(len(reference))
    mass, error = masses[rows, reference][:, None], errors[rows, reference][:, None]
    known = single[:, None] & (mass > 2 * error)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.maximum(masses - errors, 0.0) / (mass + error) * (1.0 - 1e-15)
        high = (masses + errors) / np.maximum(mass - error, 1e-300) * (1.0 + 1e-15)
    return (
        np.where(known[:, None], np.maximum(least, low[:, None]), least),
        np.where(known[:, None], np.minimum(most, high[:, None]), most),
    )


def subdivided(edges: Array, parts: int) -> Array:
    """Return finite edges with every interval between them divided into `parts`."""
    left, right = edges[:-1], edges[1:]
    inner = left[:, None] + (right - left)[:, None] * (np.arange(parts) / parts)
    return np.append(inner.ravel(), edges[-1])
