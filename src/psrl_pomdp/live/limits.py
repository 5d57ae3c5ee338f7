"""Limits on what one client may ask for: the rate of requests."""

from __future__ import annotations

import math
import time
from collections import OrderedDict

from .events import RefusedError

_MOST_CLIENTS = 10_000  # that are remembered


class RateLimit:
    """A bucket of permits for each client, which fills at `rate` a second and holds one second's worth."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, now: float | None = None) -> None:
        """Take a permit. Raises `RefusedError` if there is none."""
        if not self.rate:
            return
        now = time.monotonic() if now is None else now
        most = max(self.rate, 1.0)
        level, last = self._buckets.pop(client, (most, now))
        level = min(most, level + (now - last) * self.rate)
        self._buckets[client] = (max(level - 1.0, 0.0) if level >= 1.0 else level, now)
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        if level < 1.0:
            wait = math.ceil((1.0 - level) / self.rate)
            text = f"more than {self.rate:g} requests a second (limits.rate)"
            raise RefusedError(429, "too-many-requests", text, retry_after=wait)
