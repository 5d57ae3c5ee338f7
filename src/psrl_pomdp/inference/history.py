"""The history of actions and observations, one integer code of two or four bytes for each step."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array, Codes, Index


class History:
    """The past steps, in an array that grows by doubling.

    `start[S]` is h_1, the normalized product of h(s) and η(o_1 | s). Step i is the code a_i (O + 1) +
    o_{i+1}; a missing observation is o = O.
    """

    def __init__(self, n_actions: int, n_readings: int) -> None:
        self.n_readings = n_readings  # O + 1
        self.start: Array = np.zeros(0)
        self.length = 0
        # There are only two types of codes, because functions are compiled anew for each type.
        kind = np.uint16 if n_actions * n_readings <= 2**16 else np.uint32
        self.codes: Codes = np.zeros(64, dtype=kind)

    def write(self, actions: Index, readings: Index) -> None:
        """Write steps after the last one; they become part of the history when `length` is increased."""
        end = self.length + len(actions)
        if end > len(self.codes):
            grown = np.zeros(max(end, 2 * len(self.codes)), dtype=self.codes.dtype)
            grown[: self.length] = self.codes[: self.length]
            self.codes = grown
        self.codes[self.length : end] = actions * self.n_readings + readings

    def step(self, i: int) -> tuple[int, int]:
        """Return (a, o) of step i, which may be a step that is only written."""
        a, o = divmod(int(self.codes[i]), self.n_readings)
        return a, o

    def resume(self, start: Array, codes: Codes) -> None:
        """Set the history to a saved one."""
        self.start, self.length = start, len(codes)
        self.codes = np.concatenate([codes.astype(self.codes.dtype), self.codes])

    @property
    def past(self) -> Codes:
        return self.codes[: self.length]
