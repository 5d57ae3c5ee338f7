"""Tables of the finite sensors around a density: for every action, and before the first one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from .._utils.arrays import Array, frozen
from .base import SensorBase
from .cells import Quantization, quantization, scalar
from .dilation import Dilation, dilation

PartT = TypeVar("PartT", Quantization, Dilation)


@dataclass(frozen=True)
class FiniteSensors(Generic[PartT]):
    """The cells or the hubs of a sensor after every action, and before the first one."""

    by_action: tuple[PartT, ...]  # one for all actions, or one for each
    first: PartT | None

    @property
    def table(self) -> Array:
        """The probability of each observation, [S, O], or [A, S, O] if they depend on the action."""
        return _table([each.table for each in self.by_action], self.n_observations)

    @property
    def first_table(self) -> Array | None:
        """The probability of each observation before the first action, [S, O], or None."""
        return None if self.first is None else _padded(self.first.table, self.n_observations)

    @property
    def n_observations(self) -> int:
        """The largest number O of observations; those that an action does not have are impossible."""
        return max(int(each.table.shape[1]) for each in (*self.by_action, self.first) if each is not None)


@dataclass(frozen=True)
class QuantizedSensors(FiniteSensors[Quantization]):
    """The cells of a sensor after every action, and before the first one."""

    @property
    def error(self) -> float:
        """A bound on the sum of the errors of any row."""
        return max(each.error for each in (*self.by_action, self.first) if each is not None)

    def of(self, action: int | None) -> Quantization:
        """Return the cells after an action, or before the first action (None)."""
        if action is not None:
            return self.by_action[action if len(self.by_action) > 1 else 0]
        assert self.first is not None, "there is no observation before the first action"
        return self.first


@dataclass(frozen=True)
class DilatedSensors(FiniteSensors[Dilation]):
    """The hubs of a sensor after every action, and before the first one."""


def quantized(sensor: SensorBase, first: SensorBase | None, n_cells: int) -> QuantizedSensors:
    """Return the finite sensors below a density, with about `n_cells` cells.

    Raises
    ------
    InvalidModelError
        If the observations are no single numbers with known probabilities of intervals.
    """
    before = None if first is None else quantization(scalar(first), 0, n_cells)
    one = scalar(sensor)
    return QuantizedSensors(tuple(quantization(one, a, n_cells) for a in range(one.n_actions or 1)), before)


def dilated(sensor: SensorBase, first: SensorBase | None, n_cells: int) -> DilatedSensors:
    """Return the finite sensors above a density, with hubs along about `n_cells` cells.

    Raises
    ------
    InvalidModelError
        If the observations are no single numbers with known probabilities of intervals.
    """
    before = None if first is None else dilation(scalar(first), 0, n_cells)
    one = scalar(sensor)
    return DilatedSensors(tuple(dilation(one, a, n_cells) for a in range(one.n_actions or 1)), before)


def _padded(table: Array, n_observations: int) -> Array:
    """Return a table with impossible observations added."""
    return np.pad(table, ((0, 0), (0, n_observations - table.shape[1])))


def _table(tables: list[Array], n_observations: int) -> Array:
    padded = [_padded(table, n_observations) for table in tables]
    return frozen(padded[0] if len(padded) == 1 else np.stack(padded))
