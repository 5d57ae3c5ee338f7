"""Calls that change an object completely or not at all, one at a time.

A call that changes an object with many parts may fail midway: by an error, by Ctrl-C, or by a deadline that a
signal enforces. Therefore the object takes a snapshot before the call and restores it if the call fails. The
last statement of a successful call discards the snapshot: an interrupt before this statement undoes the call,
an interrupt after it does not. A second exception may interrupt the rollback. Then the snapshot still exists,
and the next use of the object restores it first.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, get_ident
from typing import Any, ParamSpec, TypeVar

from ..errors import OutOfOrderError

P = ParamSpec("P")
R = TypeVar("R")


class AtomicCalls:
    """Base class of objects with `_snapshot()` and `_restore(snapshot)`.

    `_restore` may be called repeatedly with the same snapshot.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running_in: int | None = None  # the thread whose call holds the lock
        self._before: Any = None  # the snapshot before a call that is running or has failed

    def _snapshot(self) -> Any:
        raise NotImplementedError

    def _restore(self, snapshot: Any) -> None:
        raise NotImplementedError

    def _atomically(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return `call(*args, **kwargs)`, and undo its changes of the object if it raises.

        Threads take turns. A call from inside another call, for example from a user's planner or from a
        signal handler, raises `OutOfOrderError`.
        """
        self._refuse_nesting()
        with self._lock:
            try:
                self._running_in = get_ident()
                self._go_back()  # if the rollback of the last call was interrupted
                self._before = self._snapshot()
                try:
                    result = call(*args, **kwargs)
                    self._before = None
                except BaseException as error:
                    self._go_back()
                    original = _unwrapped(error)
                    if original is not error:
                        raise original from None
                    raise
            finally:
                self._running_in = None
        return result

    def _settle(self) -> None:
        """Undo a failed call whose rollback was interrupted, before the object is read."""
        if self._before is not None and not self._lock.locked():
            self._undisturbed(lambda: None)

    def _undisturbed(self, read: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return `read(*args, **kwargs)` while no other thread changes the object."""
        self._refuse_nesting()
        with self._lock:
            try:
                self._running_in = get_ident()
                self._go_back()
                return read(*args, **kwargs)
            finally:
                self._running_in = None

    def _refuse_nesting(self) -> None:
        if self._lock.locked() and self._running_in == get_ident():
            raise OutOfOrderError(f"this {type(self).__name__} was called from inside another of its calls")

    def _go_back(self) -> None:
        if self._before is not None:
            self._restore(self._before)
            self._before = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the lock, which cannot be copied or pickled."""
        self._settle()
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = Lock()


def _unwrapped(error: BaseException) -> BaseException:
    """Return the exception of a signal handler, which compiled code may wrap in a `SystemError`."""
    while isinstance(error, SystemError):
        within = error.__cause__ or error.__context__
        if within is None:
            break
        error = within
    return error
