"""Limits of one call of `plan`: a deadline, and the bytes that its arrays may take.

Memory is the sum of the sizes of arrays, added up before they are made; what the machine has free plays no
part. So the same call makes the same decisions on every machine, unless it has a time limit.
"""

from __future__ import annotations

import time

DEFAULT_MEMORY = 4e9  # bytes


def never_expired() -> bool:
    """Return False: a clock for planning without a time limit."""
    return False


class LimitReached(Exception):  # noqa: N818 - it ends a step of planning and never leaves `plan`
    """Raised inside of planning when time or memory does not suffice for a step; `status` says which."""

    def __init__(self, status: str) -> None:
        self.status = status
        super().__init__(status)


class Limits:
    """A deadline and a count of the memory reserved. The clock starts when this is made.

    Parameters
    ----------
    time_limit
        Seconds, or None for no deadline.
    memory_limit
        Bytes, or None for `DEFAULT_MEMORY`.
    """

    def __init__(self, time_limit: float | None = None, memory_limit: float | None = None) -> None:
        self._begun = time.monotonic()
        self.time_limit = time_limit
        self.memory = DEFAULT_MEMORY if memory_limit is None else float(memory_limit)
        self.reserved = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the clock started, without those excluded."""
        return time.monotonic() - self._begun

    def exclude_time(self, seconds: float) -> None:
        """Move the deadline by `seconds` that were not spent on planning."""
        self._begun += seconds

    def expired(self) -> bool:
        """Return whether the deadline has passed."""
        return self.time_limit is not None and self.seconds >= self.time_limit

    @property
    def remaining(self) -> float:
        """Bytes that are not reserved."""
        return max(0.0, self.memory - self.reserved)

    def fits(self, size: float) -> bool:
        """Return whether arrays of `size` bytes can be made beside what is reserved."""
        return size <= self.remaining

    def require(self, size: float = 0.0) -> None:
        """Raise `LimitReached` if the deadline has passed or arrays of `size` bytes do not fit."""
        if self.expired():
            raise LimitReached("time limit")
        if not self.fits(size):
            raise LimitReached("memory limit")

    def reserve(self, size: float) -> None:
        """Require `size` bytes and count them from now on; a negative size gives bytes back."""
        if size > 0.0:
            self.require(size)
        self.reserved += size


def unlimited() -> Limits:
    """Return limits that nothing reaches."""
    return Limits(None, float("inf"))
