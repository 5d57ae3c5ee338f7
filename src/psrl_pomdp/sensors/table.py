"""Finitely many observations, with a table of probabilities."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array, frozen
from .base import SensorBase


class TableSensor(SensorBase):
    """An observation model with O numbered observations.

    Parameters
    ----------
    table
        The probability of each observation: shape [A, S′, O], or [A, S, S′, O] if it depends on the state
        before the action too. `Setting` has checked it.
    """

    is_finite = True
    table: Array

    def __init__(self, table: Array) -> None:
        self._set(
            table=frozen(table),
            n_states=table.shape[-2],
            n_actions=table.shape[0],
            depends_on_previous=table.ndim == 4,
        )

    @property
    def n_observations(self) -> int:
        """The number of observations O."""
        return int(self.table.shape[-1])

    def _contents(self) -> tuple[str, list[Array]]:
        return "table", [self.table]

    def described(self) -> str:
        """Return a few words for messages and reports."""
        return f"{self.n_observations} observations"

    def likelihood(self, action: int, observation: int) -> Array:
        """Return η(observation | action, s′), shape [S′]; or [S, S′] if it depends on the previous state."""
        return self.table[action, ..., observation]

    def draw_one(self, uniform: float, action: int, state: int, previous: int | None = None) -> int:
        """Return the observation that a uniform number selects by inversion."""
        row = self.table[action, state] if self.table.ndim == 3 else self.table[action, previous, state]
        return int(min(np.searchsorted(np.cumsum(row), uniform, side="right"), np.flatnonzero(row)[-1]))
