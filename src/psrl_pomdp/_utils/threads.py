"""Restrict linear algebra to one thread while planning.

The matrices of the planner are small, and studies plan in as many processes as there are cores. The threads
of all processes would wait for one another much longer than they compute. With one thread, sums also do not
depend on the number of cores.
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
    """A context in which matrix products use one thread.

    The end of the outermost context restores the earlier limits.
    """

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
