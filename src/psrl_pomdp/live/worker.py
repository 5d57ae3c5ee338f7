"""The process that plans and refreshes, so that no request waits for it.

It ends with the server, also where the server is killed, and begins anew where it dies itself.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from typing import Any

_log = logging.getLogger("psrl_pomdp.live")
_NICE = 10  # requests come first


def _prepare() -> None:
    """Give way to the server, and end with it."""
    with suppress(OSError, AttributeError):
        os.nice(_NICE)
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError, OSError):
            signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from .warming import load_compiled_code

    load_compiled_code()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(work: Any) -> bytes:
    found: bytes = work.run()
    return found


class Worker:
    """One process; one piece of work at a time."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._closing = False

    def start(self, work: Any, done: Callable[[bytes | None, str], None]) -> None:
        """Run `work`, and call `done(result, error)` from another thread."""
        try:
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(1, context, initializer=_prepare)
            future = self._pool.submit(_run, work)
        except Exception as error:
            self._end(None, f"the worker cannot start: {error}", done)
            return
        future.add_done_callback(lambda found: self._done(found, done))

    def _done(self, future: Future[bytes], done: Callable[[bytes | None, str], None]) -> None:
        try:
            result, error = future.result(), ""
        except BrokenExecutor:
            result, error = None, "the worker process died"
        except BaseException as raised:
            result, error = None, f"{type(raised).__name__}: {raised}"
        self._end(result, error, done)

    def _end(self, result: bytes | None, error: str, done: Callable[[bytes | None, str], None]) -> None:
        if self._closing:
            return
        if error:
            _log.error("planning failed: %s", error)
            self._pool = None
        done(result, error)

    def close(self) -> None:
        """End the process, without waiting for what it does."""
        self._closing = True
        pool, self._pool = self._pool, None
        if pool is None:
            return
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
