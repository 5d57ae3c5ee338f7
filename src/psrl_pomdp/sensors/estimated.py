"""Classes of observations for sensors of which only the density and a way to draw are known.

The probabilities of intervals are not known for vectors, nor for a density that is code. Such observations
are divided into classes around centers: an observation is represented by the distribution of the state given
it, under equal prior probabilities, and belongs to the nearest center. The probabilities of the classes are
estimated from random draws, always the same ones, so that what is computed from them is an estimate and no
bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .._utils.arrays import Array, frozen
from ..errors import InvalidModelError
from .base import ContinuousSensor, ScalarSensor, SensorBase

CLASSES = 24
_FOR_CENTERS, _FOR_TABLE = 500, 20_000  # draws in each state
_ITERATIONS = 20  # of k-means


@dataclass(frozen=True)
class EstimatedClasses:
    """The classes of the observations after one action, with estimated probabilities."""

    sensor: ContinuousSensor
    action: int
    centers: Array  # [K, S]
    table: Array  # [S, K]

    def cell(self, reading: object) -> int:
        """Return the number of the class of an observation."""
        return int(self.classes(np.asarray(reading, dtype=np.float64)[None])[0])

    def classes(self, readings: Array) -> Array:
        """Return the numbers of the classes of observations [T] or [T, d]."""
        points = _posteriors(self.sensor, self.action, readings)
        return np.asarray(np.square(points[:, None] - self.centers).sum(axis=2).argmin(axis=1))


@dataclass(frozen=True)
class EstimatedSensors:
    """The classes of a sensor after every action, and before the first one."""

    by_action: tuple[EstimatedClasses, ...]  # one for all actions, or one for each
    first: EstimatedClasses | None

    @property
    def n_observations(self) -> int:
        """The number of classes."""
        return int(self.by_action[0].table.shape[1])

    @property
    def table(self) -> Array:
        """The estimated probability of each class, [S, K], or [A, S, K] if it depends on the action."""
        tables = [each.table for each in self.by_action]
        return frozen(tables[0] if len(tables) == 1 else np.stack(tables))

    @property
    def first_table(self) -> Array | None:
        """The estimated probability of each class before the first action, [S, K], or None."""
        return None if self.first is None else self.first.table

    def of(self, action: int | None) -> EstimatedClasses:
        """Return the classes after an action, or before the first action (None)."""
        if action is not None:
            return self.by_action[action if len(self.by_action) > 1 else 0]
        assert self.first is not None, "there is no observation before the first action"
        return self.first


def has_bounds(*sensors: SensorBase | None) -> bool:
    """Return whether bounds can be proved with these sensors; None is no sensor."""
    return all(
        sensor is None
        or sensor.is_finite
        or (isinstance(sensor, ScalarSensor) and not sensor.depends_on_previous)
        for sensor in sensors
    )


def estimated(sensor: SensorBase, first: SensorBase | None) -> EstimatedSensors:
    """Return classes of the observations of a sensor, with estimated probabilities.

    Raises
    ------
    InvalidModelError
        If the observations depend on the state before the action.
    """
    if not isinstance(sensor, ContinuousSensor) or sensor.depends_on_previous:
        raise InvalidModelError(
            f"planning with {sensor.described()} is not possible: they depend on the state before the action"
        )
    before = None
    if first is not None:
        assert isinstance(first, ContinuousSensor)
        before = _estimated(_Same(first), 0)
    one = _Same(sensor)
    return EstimatedSensors(tuple(_estimated(one, a) for a in range(sensor.n_actions or 1)), before)


class _Same:
    """A sensor that is equal to itself only: sensors that are code may be equal by name and yet differ."""

    def __init__(self, sensor: ContinuousSensor) -> None:
        self.sensor = sensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.sensor is self.sensor

    def __hash__(self) -> int:
        return id(self.sensor)


@lru_cache(maxsize=64)
def _estimated(one: _Same, action: int) -> EstimatedClasses:
    from scipy.cluster.vq import kmeans2  # imported here because the import is slow

    sensor = one.sensor
    rng = np.random.default_rng(0)
    drawn = _drawn(sensor, action, rng, _FOR_CENTERS)
    points = _posteriors(sensor, action, drawn)
    distinct = np.unique(points, axis=0)
    centers = distinct
    if len(distinct) > CLASSES:
        centers, _ = kmeans2(points, CLASSES, iter=_ITERATIONS, minit="++", seed=rng, missing="warn")
    padded = np.concatenate([centers, np.full((CLASSES - len(centers), sensor.n_states), np.inf)])
    found = EstimatedClasses(sensor, action, padded, np.zeros((0, 0)))
    numbers = found.classes(_drawn(sensor, action, rng, _FOR_TABLE)).reshape(sensor.n_states, -1)
    counts = np.array([np.bincount(row, minlength=CLASSES) for row in numbers]) + 0.0
    counts[:, : len(centers)] += 0.5  # no class is impossible only because it was not drawn
    return EstimatedClasses(sensor, action, padded, frozen(counts / counts.sum(axis=1, keepdims=True)))


def _drawn(sensor: ContinuousSensor, action: int, rng: np.random.Generator, n: int) -> Array:
    """Draw `n` observations in each state, one state after the other."""
    return sensor.draw(rng, action, np.repeat(np.arange(sensor.n_states), n))


def _posteriors(sensor: ContinuousSensor, action: int, readings: Array) -> Array:
    """Return the distribution of the state given each observation under a uniform prior, shape [T, S]."""
    logs = sensor.log_likelihood(action, readings)
    largest = logs.max(axis=1, keepdims=True)
    likelihood = np.exp(logs - np.where(np.isfinite(largest), largest, 0.0))
    total = likelihood.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, likelihood / np.where(total > 0.0, total, 1.0), 1.0 / sensor.n_states)
