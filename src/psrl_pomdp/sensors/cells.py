"""Finite sensors below a density in Blackwell's order: cells of the line, and the probability of each.

A reading of the density tells which cell it is in, so that every policy for the cells can be run on the
density: the optimal average cost with the cells is at least that with the density. The errors of the
probabilities of the cells are added up in `Quantization.error`, and the planner adds what they may change to
its upper bound.

Cells depend on the sensor only, so that they are computed once. Their edges are dense where readings are
frequent and change the posterior: the number of cells that an interval deserves is proportional to the cube
root of its probability times the square of the change of the posterior under equally likely states. This does
not depend on the unit of readings. Edges for K cells are among those for each multiple of K.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .._utils.arrays import Array, frozen
from ..errors import InvalidModelError
from .base import ContinuousSensor, ScalarSensor, SensorBase

FINEST = 4096  # the largest number of cells
_ROUGH_POINTS, _FARTHEST_LOGIT = 1501, 29.0  # quantiles from which edges are chosen, down to the chance 1e-13
_LARGEST_CHANGE, _MOST_HALVINGS = 0.02, 60  # of the posterior, between two neighbors of these quantiles
_MASS_SHARE = 0.05  # share of the edges that follow the probability alone
_LEAST_MASS = 1e-200  # a possible reading whose probability underflows


@dataclass(frozen=True)
class Quantization:
    """The cells of one action, and the probability of each in every state."""

    edges: Array  # [K + 1], from −inf to +inf
    table: Array  # [S, K], rows sum to 1
    error: float  # a bound on the sum of the errors of a row of the table

    def cell(self, reading: float) -> int:
        """Return the number of the cell that contains a reading."""
        return cell_of(self.edges, reading)


def cell_of(edges: Array, reading: float) -> int:
    """Return the number of the interval (edges[k], edges[k + 1]] that contains a reading."""
    return int(np.searchsorted(edges[1:-1], reading, side="left"))


def scalar(sensor: SensorBase) -> ScalarSensor:
    """Return the sensor if finite sensors around it can be made.

    Raises
    ------
    InvalidModelError
        If its observations are no single numbers, or depend on the state before the action.
    """
    if isinstance(sensor, ScalarSensor) and not sensor.depends_on_previous:
        return sensor
    why = (
        "have no probabilities of intervals" if isinstance(sensor, ContinuousSensor) else "are finite already"
    )
    if sensor.depends_on_previous:
        why = "depend on the state before the action"
    raise InvalidModelError(
        f"{sensor.described()} {why}: finite sensors with certified bounds exist for single numbers whose "
        "probabilities of intervals are known (ScalarSensor)"
    )


@lru_cache(maxsize=256)
def quantization(sensor: ScalarSensor, action: int, n_cells: int) -> Quantization:
    """Return about `n_cells` cells after an action, fewer where counts do not vary enough."""
    if not 1 <= n_cells <= FINEST:
        raise InvalidModelError(f"{n_cells} cells: expected a number from 1 to {FINEST}")
    edges = frozen(cell_edges(sensor, action, n_cells))
    table, error = cell_table(sensor, action, edges)
    return Quantization(edges, frozen(table), error)


def cell_table(sensor: ScalarSensor, action: int, edges: Array) -> tuple[Array, float]:
    """Return the probability of each cell in every state, [S, K], and a bound on the error of a row's sum."""
    masses, errors = interval_masses(sensor, action, edges)
    possible = sensor.log_density_bounds(action, edges)[1] > -np.inf
    # A cell that can be met must not look impossible: what follows it would not be compared.
    masses = np.where(possible | (errors > 0.0), np.maximum(masses, _LEAST_MASS), masses)
    total = masses.sum(axis=1, keepdims=True)
    if not (np.abs(total - 1.0) < 1e-3).all():
        raise InvalidModelError(
            f"the probabilities of all intervals of {sensor.described()} sum to {total.min():g}, not to 1"
        )
    errors = errors + 1e-15 * masses + _LEAST_MASS
    return masses / total, float((errors.sum(axis=1) + np.abs(total[:, 0] - 1.0)).max())


def interval_masses(sensor: ScalarSensor, action: int, edges: Array) -> tuple[Array, Array]:
    """Return the masses of intervals and their errors, both checked to be numbers that are not negative."""
    masses, errors = sensor.interval_masses(action, edges)
    masses, errors = np.maximum(masses, 0.0), np.asarray(errors)
    shape = sensor.n_states, len(edges) - 1
    if masses.shape != shape or errors.shape != shape or not (np.isfinite(masses) & (errors >= 0.0)).all():
        raise InvalidModelError(f"interval_masses of {sensor.described()} returns no masses of shape {shape}")
    return masses, errors


def cell_edges(sensor: ScalarSensor, action: int, n_cells: int) -> Array:
    """Return increasing edges of at most `n_cells` cells, the first −inf and the last +inf."""
    if len(_rough(sensor, action)) == 1:  # a constant, as after an action without observation
        return with_ends(np.empty(0))
    if sensor.is_discrete and (counts := _counts(sensor, action, n_cells)) is not None:
        return counts
    return with_ends(_spaced(_finest(sensor, action)[0], n_cells))


def fine_edges(sensor: ScalarSensor, action: int, n_cells: int) -> Array:
    """Return edges of about `n_cells` cells in which no density changes much."""
    if sensor.is_discrete and (counts := _counts(sensor, action, 2 * n_cells)) is not None:
        return counts
    farthest = _rough(sensor, action)[[0, -1]]
    if farthest[0] == farthest[1]:
        return with_ends(farthest + np.array([-1.0, 1.0]))
    inner = np.concatenate([_spaced(_finest(sensor, action)[1], n_cells), farthest])
    return with_ends(np.unique(inner))


def posteriors(sensor: ScalarSensor, action: int, points: Array) -> Array:
    """Return the posterior after each reading under equally likely states, [T, S]."""
    likelihood = np.exp(log_ratios(sensor, action, points))
    return np.asarray(likelihood / likelihood.sum(axis=1, keepdims=True))


def log_ratios(sensor: ScalarSensor, action: int, points: Array) -> Array:
    """Return the logarithms of ratios to the largest likelihood of each reading, at least −800, [T, S]."""
    log = sensor.log_likelihood(action, points)
    largest = log.max(axis=1, keepdims=True)
    found = np.maximum(log - np.where(np.isfinite(largest), largest, 0.0), -800.0)
    return np.where(np.isfinite(largest), found, 0.0)


def with_ends(inner: Array) -> Array:
    """Return edges with −inf before and +inf after them."""
    return np.concatenate([[-np.inf], inner, [np.inf]])


def _counts(sensor: ScalarSensor, action: int, most: int) -> Array | None:
    """Return edges with a cell for each count, or None if these are more than `most` cells."""
    points = _rough(sensor, action)
    first, last = points[0], points[-1]
    return with_ends(np.arange(first - 1, last + 1)) if last - first + 3 <= most else None


def _spaced(finest: Array, n_cells: int) -> Array:
    """Return the distinct edges of K of the finest cells: edges for K are edges for multiples of K."""
    return np.unique(finest[np.arange(1, n_cells) * FINEST // n_cells - 1])


@lru_cache(maxsize=64)
def _finest(sensor: ScalarSensor, action: int) -> tuple[Array, Array]:
    """Return the edges of the finest cells, for quantization and for dilation."""
    points = _refined(sensor, action, _rough(sensor, action))
    mass = interval_masses(sensor, action, with_ends(points))[0].mean(axis=0)[1:-1]
    change = (np.diff(posteriors(sensor, action, points), axis=0) ** 2).sum(axis=1)
    low, high = sensor.log_density_bounds(action, with_ends(points))
    with np.errstate(invalid="ignore"):
        steps = np.nan_to_num(high - low, nan=1.0, posinf=1.0)[:, 1:-1].max(axis=0)
    by_posterior, by_likelihood = _shares(mass, change), _shares(mass, np.minimum(steps, 1.0) ** 2)
    found = []
    for share in (by_posterior, 0.5 * (by_posterior + by_likelihood)):
        cumulated = np.concatenate([[0.0], np.cumsum(share)])
        edges = np.interp(np.arange(1, FINEST) / FINEST, cumulated / cumulated[-1], points)
        found.append(np.floor(edges) if sensor.is_discrete else edges)
    return found[0], found[1]


@lru_cache(maxsize=64)
def _rough(sensor: ScalarSensor, action: int) -> Array:
    """Return distinct quantiles, from which edges are chosen."""
    logits = np.linspace(-_FARTHEST_LOGIT, _FARTHEST_LOGIT, _ROUGH_POINTS)
    points = np.asarray(sensor.quantiles(action, 1.0 / (1.0 + np.exp(-logits))), dtype=np.float64)
    points = np.unique(points[np.isfinite(points)])
    points = np.unique(np.floor(points)) if sensor.is_discrete else points
    if not len(points):
        raise InvalidModelError(f"the quantiles of {sensor.described()} are not finite")
    return points


def _refined(sensor: ScalarSensor, action: int, points: Array) -> Array:
    """Return points of which no two neighbors have very different posteriors.

    Between two states that readings tell apart, there is next to no probability.
    """
    for _ in range(_MOST_HALVINGS):
        change = np.abs(np.diff(posteriors(sensor, action, points), axis=0)).max(axis=1)
        far = np.flatnonzero(change > _LARGEST_CHANGE)
        middle = 0.5 * points[far] + 0.5 * points[far + 1]
        middle = np.floor(middle) if sensor.is_discrete else middle
        more = np.union1d(points, middle)
        if len(more) == len(points):
            break
        points = more
    return points


def _shares(mass: Array, squares: Array) -> Array:
    """Return the share of the edges for each interval: the cube root of mass times squared change."""
    wanted, total = np.cbrt(mass * squares), mass.sum()
    by_mass = mass / total if total > 0.0 else np.full(len(mass), 1.0 / len(mass))
    whole = wanted.sum()
    return by_mass if not whole > 0.0 else (1.0 - _MASS_SHARE) * wanted / whole + _MASS_SHARE * by_mass
