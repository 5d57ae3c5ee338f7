"""Limits of one call of `plan`: a deadline, and bytes that its arrays may take.

Memory is counted by the sizes of arrays that are about to be made, never by what the machine has free: where
nothing but sizes decides, the same call makes the same decisions on every machine.
"""

from __future__ import annotations

import time

DEFAULT_MEMORY = 4e9  # bytes


class LimitReached(Exception):  # noqa: N818 - it ends a step of planning and never leaves `plan`
    """No time or no memory for the step that was begun; `status` says which."""

    def __init__(self, status: str) -> None:
        self.status = status
        super().__init__(status)


class Limits:
    """The clock starts when this is made. `time_limit` is in seconds, `memory_limit` in bytes."""

    def __init__(self, time_limit: float | None = None, memory_limit: float | None = None) -> None:
        self._begun = time.monotonic()
        self.time_limit = time_limit
        self.memory = DEFAULT_MEMORY if memory_limit is None else float(memory_limit)
        self.held = 0.0

    @property
    def seconds(self) -> float:
        """Since the beginning, without what was not counted."""
        return time.monotonic() - self._begun

    def not_counting(self, seconds: float) -> None:
        """Move the deadline by `seconds` that are not planning."""
        self._begun += seconds

    def expired(self) -> bool:
        return self.time_limit is not None and self.seconds >= self.time_limit

    @property
    def left(self) -> float:
        """Bytes beside what is held."""
        return max(0.0, self.memory - self.held)

    def fits(self, size: float) -> bool:
        """Whether arrays of so many bytes can be made beside what is held."""
        return size <= self.left

    def need(self, size: float = 0.0) -> None:
        """Raise `LimitReached` where time is up or arrays of so many bytes would be too many."""
        if self.expired():
            raise LimitReached("time limit")
        if not self.fits(size):
            raise LimitReached("memory limit")

    def hold(self, size: float) -> None:
        """The same for arrays that are kept: count them from now on. Negative where they are given back."""
        if size > 0.0:
            self.need(size)
        self.held += size


def unlimited() -> Limits:
    """Limits that nothing reaches."""
    return Limits(None, float("inf"))
