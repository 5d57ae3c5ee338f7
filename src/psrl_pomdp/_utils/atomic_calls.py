"""Calls that happen as a whole or not at all, one at a time.

A call that changes an object of many parts may fail half way: by an error, by Ctrl-C, by a deadline that a
signal enforces. Here the object takes a snapshot first and goes back to it when the call fails. The last
statement of a call that succeeds drops the snapshot: before it the object is as it was, after it the call is
done. A second exception may interrupt the roll-back. Then the snapshot is still there, and the next use of
the object goes back to it first.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, get_ident
from typing import Any, ParamSpec, TypeVar

from ..errors import OutOfOrderError

P = ParamSpec("P")
R = TypeVar("R")


class AtomicCalls:
    """Base of an object with a `_snapshot()` and a `_restore(snapshot)`, which may be repeated."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running_in: int | None = None  # the thread whose call holds the lock
        self._before: Any = None  # the snapshot of a call that is running or has failed

    def _snapshot(self) -> Any:
        raise NotImplementedError

    def _restore(self, snapshot: Any) -> None:
        raise NotImplementedError

    def _atomically(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """`call(*args)`, after which the object is changed as the call meant, or not at all if it raised.

        Threads take turns. Raises `OutOfOrderError` for a call from inside another one, such as from a
        planner of the user's or from a signal handler.
        """
        self._refuse_nesting()
        with self._lock:
            try:
                self._running_in = get_ident()
                self._go_back()  # where the last call failed and could not
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
        """Undo a failed call whose own roll-back was cut short, before the object is read."""
        if self._before is not None and not self._lock.locked():
            self._undisturbed(lambda: None)

    def _undisturbed(self, read: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """`read(*args)` while no other thread changes the object."""
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
            raise OutOfOrderError(f"a call of this {type(self).__name__} came from inside another one")

    def _go_back(self) -> None:
        if self._before is not None:
            self._restore(self._before)
            self._before = None

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles, which a lock does not allow."""
        self._settle()
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = Lock()


def _unwrapped(error: BaseException) -> BaseException:
    """What a signal handler raised, of which compiled code makes a `SystemError` on its way in or out."""
    while isinstance(error, SystemError):
        within = error.__cause__ or error.__context__
        if within is None:
            break
        error = within
    return error
