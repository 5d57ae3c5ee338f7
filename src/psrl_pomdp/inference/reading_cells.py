"""The cells into which the test of the model sorts observations without numbers (`predictive_test`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.arrays import Array, Index
from ..errors import InvalidModelError
from ..models import Setting
from ..sensors.bracket import QuantizedSensors, quantized

N_CELLS = 16  # fewer where counts do not vary that much


class ReadingCells:
    """The cells of a setting's observations.

    There are none if the probabilities of intervals are unknown, as those of vectors are.

    Parameters
    ----------
    setting
        A setting whose observations have no numbers.

    Attributes
    ----------
    table
        The probability of each cell, shape [A, K, S′]; K is 0 if there are no cells.
    """

    def __init__(self, setting: Setting) -> None:
        self._sensors: QuantizedSensors | None = None
        self.table: Array = np.zeros((0, 0, setting.n_states))
        try:
            self._sensors = quantized(setting.sensor, None, N_CELLS)
        except InvalidModelError:
            return
        found = self._sensors.table  # [S, K] or [A, S, K]
        by_action = np.broadcast_to(found, (setting.n_actions, *found.shape[-2:]))
        self.table = np.ascontiguousarray(by_action.transpose(0, 2, 1))

    def numbers(self, action: int, values: Any) -> Index:
        """Return the cells of observations [T] or [T, d] after an action; −1 if missing or without cells."""
        given = np.asarray(values, dtype=np.float64)
        if self._sensors is None or given.ndim > 1:
            return np.full(len(given), -1)
        edges = self._sensors.of(action).edges
        return np.where(np.isnan(given), -1, np.searchsorted(edges[1:-1], given, side="left"))

    def numbers_after(self, actions: Index, values: Array) -> Index:
        """Return the cells of observations [T] or [T, d], each after its own action."""
        found = np.full(len(actions), -1)
        for action in np.unique(actions).tolist():
            mine = actions == action
            found[mine] = self.numbers(action, values[mine])
        return found

    def edges_by_action(self, n_actions: int) -> Array:
        """Return the edges of the cells after each action, [A, K + 1]; some cells may be empty."""
        found = np.full((n_actions, self.table.shape[1] + 1), np.inf)
        if self._sensors is not None:
            for action in range(n_actions):
                edges = self._sensors.of(action).edges
                found[action, : len(edges)] = edges
        return found

    def described(self, action: int, cell: int) -> str:
        """Return a cell in words."""
        assert self._sensors is not None
        edges = self._sensors.of(action).edges
        low, high = edges[cell], edges[cell + 1]
        if np.isinf(low):
            return f"up to {high:.4g}"
        return f"above {low:.4g}" if np.isinf(high) else f"{low:.4g} to {high:.4g}"
