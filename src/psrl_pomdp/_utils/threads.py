"""One thread for linear algebra while planning.

Matrices here are small, and studies plan in as many processes as there are cores: threads of all of them
would wait for one another, many times longer than they work. Sums are also the same on any number of cores.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


class OneThread(ContextDecorator):
    """Inside, matrix products take one thread; the last one out restores what there was."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = _libraries().limit(limits=1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._before.restore_original_limits()


ONE_THREAD = OneThread()
