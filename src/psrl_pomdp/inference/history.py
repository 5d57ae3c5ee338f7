"""The history of actions and observations, one integer code of two or four bytes for each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .._utils.arrays import Array, Codes, Index
from .step_codes import Reading, StepCodes, Steps


class History:
    """The past steps, in arrays that grow by doubling.

    `start[S]` is h_1, the normalized product of h(s) and η(o_1 | s). Step i has the number a_i R + r_i of
    `step_codes`. If observations are not numbered, `rows[i]` are their likelihoods, `values[i]` the
    observations themselves, and `kinds[i]` their cells in the test of the model, which steps of the past do
    not need any more.
    """

    def __init__(self, codes: StepCodes) -> None:
        self.step_codes = codes
        self.start: Array = np.zeros(0)
        self.first: Reading | None = None
        self.length = 0
        # There are only two types of codes, because functions are compiled anew for each type.
        kind = np.uint16 if codes.n_actions * codes.n_codes <= 2**16 else np.uint32
        self.codes: Codes = np.zeros(64, dtype=kind)
        n_rows = 64 if codes.has_rows else 0
        self._rows = np.zeros((n_rows, codes.n_states))
        self._values = np.full((n_rows, *codes.value_shape), np.nan)
        self.kinds: Index = np.full(n_rows, -1)

    @property
    def rows(self) -> Array:
        """The likelihoods of the observations of all steps, shape [T, S′]; empty if they are numbered."""
        return self._rows

    @property
    def values(self) -> Array:
        """The observations of the steps up to now, shape [T] or [T, d]; empty if they are numbered."""
        return self._values[: self.length]

    @property
    def written_values(self) -> Array:
        """The observations of all steps that are written, also of those that are not yet past."""
        return self._values

    def write_steps(self, steps: Steps) -> None:
        """Write steps after the last one; they become part of the history when `length` is increased."""
        end = self.length + len(steps.actions)
        self._grow(end)
        self.codes[self.length : end] = steps.actions * self.step_codes.n_codes + steps.codes
        if self.step_codes.has_rows:
            self._rows[self.length : end] = steps.rows
            self._values[self.length : end] = steps.values
            self.kinds[self.length : end] = self.step_codes.cells.numbers_after(steps.actions, steps.values)

    def _grow(self, end: int) -> None:
        """Make room for `end` steps."""
        if end > len(self.codes):
            room = max(end, 2 * len(self.codes))
            self.codes = _grown(self.codes, self.length, room)
            if self.step_codes.has_rows:
                self._rows = _grown(self._rows, self.length, room)
                self._values = _grown(self._values, self.length, room)
                self.kinds = _grown(self.kinds, self.length, room)

    def reading(self, i: int) -> tuple[int, Reading]:
        """Return the action of step i and what came after it; the step may be one that is only written."""
        action, code = divmod(int(self.codes[i]), self.step_codes.n_codes)
        if not self.step_codes.has_rows:
            return action, Reading(code)
        return action, Reading(code, self._rows[i], self._values[i])

    def steps(self, begin: int) -> Steps:
        """Return the steps from number `begin` on, for the history of another posterior."""
        part = slice(begin, self.length)
        actions, codes = np.divmod(self.codes[part].astype(np.int64), self.step_codes.n_codes)
        return Steps(actions, codes, self._rows[part].copy(), self._values[part].copy())

    def continues(self, other: History) -> bool:
        """Return whether another history is the beginning of this one."""
        done = other.length
        if done > self.length or not np.array_equal(self.past[:done], other.past):
            return False
        same = np.array_equal(self.start, other.start) and _same_first(self, other)
        return same and np.array_equal(self.values[:done], other.values, equal_nan=True)

    def state(self) -> dict[str, Array]:
        """Return what a file stores of observations without numbers, and of the first observation."""
        found: dict[str, Array] = {}
        if self.step_codes.has_rows:
            found |= {"history_rows": self._rows[: self.length].copy(), "history_values": self.values.copy()}
        if self.first is not None and (self.step_codes.by_code or self.step_codes.has_rows):
            found["history_first"] = np.asarray(
                self.first.code if self.first.row is None else self.first.value, dtype=np.float64
            )
        return found

    def resume(
        self, start: Array, codes: Codes, rows: Array | None = None, values: Array | None = None
    ) -> None:
        """Set the history to a saved one."""
        self.start, self.length = start, len(codes)
        self.codes = np.concatenate([codes.astype(self.codes.dtype), self.codes])
        if rows is not None and values is not None:
            self._rows = np.concatenate([rows, self._rows])
            self._values = np.concatenate([values, self._values])
            self.kinds = np.concatenate([np.full(len(codes), -1), self.kinds])

    @property
    def past(self) -> Codes:
        """The numbers of all steps, shape [T]."""
        return self.codes[: self.length]


Histories = Sequence[History]  # those of all units with the same θ, given which they are independent


def longest(pasts: Iterable[History]) -> int:
    """Return the number of steps of the longest history."""
    return max(past.length for past in pasts)


def steps_in(pasts: Iterable[History]) -> int:
    """Return the number of steps of all histories."""
    return sum(past.length for past in pasts)


def _same_first(one: History, other: History) -> bool:
    """Return whether two histories have the same first observation, as far as both know it."""
    if one.first is None or other.first is None:  # a saved history may have its `start` alone
        return True
    if one.first.row is None:
        return one.first.code == other.first.code
    return bool(np.array_equal(np.asarray(one.first.value), np.asarray(other.first.value)))


def _grown(array: np.ndarray, length: int, room: int) -> np.ndarray:
    """Return an array with room for `room` entries and the first `length` entries of `array`."""
    grown = np.zeros((room, *array.shape[1:]), dtype=array.dtype)
    grown[:length] = array[:length]
    return grown
