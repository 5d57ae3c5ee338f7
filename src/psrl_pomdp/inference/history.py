"""What happened: a code for each step, in one or two bytes, in an array that doubles when it is full."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array, Codes, Index


class History:
    """`start[S]` = h(s) η(o_1 | s), and step i as the code a_i (O + 1) + o_{i+1}; a lost reading is o = O."""

    def __init__(self, n_actions: int, n_readings: int) -> None:
        self.n_readings = n_readings  # O + 1
        self.start: Array = np.zeros(0)
        self.length = 0
        # Each type of code is another compilation, so there are only two.
        kind = np.uint16 if n_actions * n_readings <= 2**16 else np.uint32
        self.codes: Codes = np.zeros(64, dtype=kind)

    def write(self, actions: Index, readings: Index) -> None:
        """Put steps after the last; they belong to the history once `length` is moved past them."""
        end = self.length + len(actions)
        if end > len(self.codes):
            grown = np.zeros(max(end, 2 * len(self.codes)), dtype=self.codes.dtype)
            grown[: self.length] = self.codes[: self.length]
            self.codes = grown
        self.codes[self.length : end] = actions * self.n_readings + readings

    def step(self, i: int) -> tuple[int, int]:
        """(a, o) of step i, which may be one that was only written."""
        a, o = divmod(int(self.codes[i]), self.n_readings)
        return a, o

    def resume(self, start: Array, codes: Codes) -> None:
        """Take up a history that was saved."""
        self.start, self.length = start, len(codes)
        self.codes = np.concatenate([codes.astype(self.codes.dtype), self.codes])

    @property
    def past(self) -> Codes:
        return self.codes[: self.length]
