"""Decorators for functions made of loops: interpreted at first, compiled by numba when this saves time.

`jit` and `jit_noalloc` mark a function. It runs in Python at first, and numba is not imported. When the
functions of its group have run for 0.3 seconds, compiled code is loaded from disk. If there is none, another
process compiles it (`background`), and this process switches to the compiled code when it is ready, so no
program waits for the compiler. Interpreted and compiled code give the same results to the last bit, and the
tests compare them; so no result depends on the time of the switch or on the cache on disk. Therefore

- a fused product is `fma`, which is exact in Python too, and the compiler has no choice of rounding anywhere
  (`fastmath` would reorder sums and fuse products with them);
- sums of arrays are loops, because numpy adds in another order than a loop does, and arrays are ordered by
  `sort_order`, because sorting algorithms differ in their treatment of equal values;
- logarithms and exponentials come from `math`, which calls the same library as compiled code.

Compiled code is cached on disk (`machine_code`). If a module with compiled functions has changed when a
program starts, `invalidate_stale_cache` deletes the whole cache. It does not cover numba's own folders
(`NUMBA_CACHE_DIR`, or the user's folder if the package folder is read-only): stale code there is not used,
but only the user can delete it.

The environment variable `PSRL_POMDP_CODE=interpreted` disables compilation; `PSRL_POMDP_CODE=compiled`
compiles every function at its first call.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, update_wrapper
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import TYPE_CHECKING, Any, Generic, TypeVar, TypeVarTuple

import numpy as np

from ..errors import UnknownNameError, did_you_mean
from .fma import fma

if TYPE_CHECKING:
    from subprocess import Popen

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

__all__ = ["GROUPS", "LEARNING", "PLANNING", "AnyLoop", "Loop", "fma", "jit", "jit_inline", "jit_noalloc"]

PACKAGE = Path(__file__).parent.parent
# Seconds that a group's functions run interpreted before cached code is loaded from disk, which takes about
# as long, and before code that is not cached is compiled.
_UNTIL_ASKING, _UNTIL_HELPED = 0.3, 2.0
_LONGEST = 180.0  # the longest wait for another process that compiles, in seconds
# "interpreted" or "compiled" fixes the mode; by default functions are interpreted first.
_CODE = os.environ.get("PSRL_POMDP_CODE", "")
if _CODE not in ("", "interpreted", "compiled"):
    raise UnknownNameError(
        f"the environment variable PSRL_POMDP_CODE is {_CODE!r}, not 'interpreted' or 'compiled'"
        + did_you_mean(_CODE, ("interpreted", "compiled"))
    )
if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
    _CODE = "interpreted"


class _OuterCall(threading.local):
    """The call of a group's function that is running in this thread."""

    since: float | None = None  # when the outermost call began


class Group:
    """Functions that are used together and that are compiled together or interpreted together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.compiled = _CODE == "compiled"
        self._settled = _CODE != ""  # whether the mode is fixed
        self.loops: list[AnyLoop] = []
        self.wanted = {
            name
        }  # the names in `warmup` of the code that must be cached before compiled code runs
        self.asks = True  # whether the group may start a process that compiles
        self._helper: Popen[bytes] | None = None  # the process that compiles
        self._failed = False  # whether such a process has failed
        self._asked_for: set[str] = set()  # the names that this process compiles
        self._made: set[str] = set()  # the names that earlier processes have compiled
        self._spent = 0.0  # seconds of interpreted code
        self._patience = _UNTIL_ASKING  # seconds after which to check for compiled code
        self._outer_call = _OuterCall()

    def compile(self) -> None:
        """Run compiled code from now on.

        A function that is not cached on disk is compiled at its next call.
        """
        self._settled = True
        self._switch(_CODE != "interpreted")

    def interpret(self) -> None:
        """Run interpreted code from now on."""
        self._settled = True
        self._switch(False)

    def as_it_pays(self) -> None:
        """Run interpreted code until compiled code is ready and loading it saves time, as at the start."""
        self._settled = _CODE != ""
        self._spent, self._patience = 0.0, _UNTIL_ASKING
        self._switch(_CODE == "compiled")

    def _switch(self, compiled: bool) -> None:
        self.compiled = compiled
        for loop in self.loops:
            loop.choose()

    def want(self, what: str) -> None:
        """Declare that code for one kind of arguments will be called.

        It is interpreted until it is cached on disk.
        """
        if what not in self.wanted:
            self.wanted.add(what)
            if self.compiled and not self._settled and not self.ready():
                self.as_it_pays()

    def ready(self) -> bool:
        """Return whether all wanted code is cached on disk."""
        helper = self._helper  # read once, because another thread may change it
        if helper is not None and helper.poll() is not None:
            if helper.returncode == 0:
                self._made |= self._asked_for
            else:
                self._failed = True
            self._helper = None
        return all(what in self._made or on_disk(what).exists() for what in self.wanted)

    def ask(self) -> None:
        """Start a process that compiles the wanted code."""
        if self.asks and not (self._settled or self._failed or self._helper or self.ready()):
            from .background import start

            self._asked_for = {what for what in self.wanted if not on_disk(what).exists()}
            self._helper = start(sorted(self._asked_for))
            self._failed = self._helper is None  # no process can be started, so do not wait for one

    def hurry(self, wait: bool) -> None:
        """Compile at once, for a computation too long to interpret; wait for the compiler if `wait`."""
        if self.compiled or self._settled:
            return
        self.ask()
        begin = monotonic()
        while wait and not (self.ready() or self._failed or monotonic() - begin > _LONGEST):
            sleep(0.1)
        if wait or self.ready():
            self._switch(True)  # functions that are not cached are compiled at their next call

    @property
    def busy(self) -> bool:
        """Whether another process is compiling for this one."""
        return self._helper is not None and not self.ready()

    def interpreted(
        self, function: Callable[[*Arguments], Result], loop: Loop[*Arguments, Result]
    ) -> Callable[[*Arguments], Result]:
        """Return a function that runs `function` interpreted and measures its time."""

        def run(*args: *Arguments) -> Result:
            now, since = perf_counter(), self._outer_call.since
            spent = self._spent if since is None else self._spent + now - since
            if spent > self._patience and self._switched(spent) and not loop.inner:
                return loop.run(*args)
            if since is not None:  # one function of the group calls another
                return function(*args)
            try:
                self._outer_call.since = now
                with np.errstate(all="ignore"):
                    result: Result = _plain(function(*args))
                    return result
            finally:
                self._outer_call.since = None  # first, because a call could be interrupted
                self._spent += perf_counter() - now

        return run

    def _switched(self, spent: float) -> bool:
        """Switch to compiled code and return True if it is ready; otherwise request it and check later."""
        if self.compiled:
            return True
        if self._settled:
            self._patience = np.inf
            return False
        if self.ready():
            self._switch(True)
            return True
        if spent > _UNTIL_HELPED:
            self.ask()
        self._patience = spent + _UNTIL_ASKING
        return False


LEARNING, PLANNING = Group("learning"), Group("planning")
GROUPS = (LEARNING, PLANNING)


class Loop(Generic[*Arguments, Result]):
    """A function that runs interpreted or compiled. Its arguments are positional."""

    py_func: Callable[[*Arguments], Result]
    targetoptions: dict[str, Any]  # named as numba expects, which reads the option `inline` from it

    def __init__(self, function: Callable[[*Arguments], Result], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.py_func, self.targetoptions = function, options
        self.group = PLANNING if ".planning." in function.__module__ else LEARNING
        self.group.loops.append(self)
        self._interpreted = self.group.interpreted(options.pop("python", function), self)
        self._dispatcher: Any = None
        self.run: Callable[[*Arguments], Result]
        self.choose()

    def __call__(self, *args: *Arguments) -> Result:
        return self.run(*args)

    @property
    def inner(self) -> bool:
        """Whether the compiled function is called only from compiled functions."""
        return bool(self.targetoptions.get("inner")) or "inline" in self.targetoptions

    def choose(self) -> None:
        """Run compiled or interpreted, according to the group."""
        self.run = self._first_compiled if self.group.compiled and not self.inner else self._interpreted

    def _first_compiled(self, *args: *Arguments) -> Result:
        self.run = self.dispatcher
        return self.run(*args)

    @property
    def dispatcher(self) -> Any:
        """The numba dispatcher of the function."""
        if self._dispatcher is None:
            from .machine_code import dispatcher

            self._dispatcher = dispatcher(self)
        return self._dispatcher


AnyLoop = Loop[*tuple[Any, ...], Any]  # a loop with any arguments and any result


def jit(**options: Any) -> Callable[[Callable[[*Arguments], Result]], Loop[*Arguments, Result]]:
    """Return a decorator for a function of loops that numba compiles without the GIL and caches on disk.

    The options are numba's and three others. `inner` declares that only compiled functions call the function,
    so that it needs no wrapper for Python objects; when Python calls it, it runs interpreted. `linked` copies
    the code of a small function into its callers, for hot loops. `python` is a faster function on arrays that
    runs instead of the interpreted loops, with the same results to the last bit.
    """

    def decorate(function: Callable[[*Arguments], Result]) -> Loop[*Arguments, Result]:
        return Loop(function, options)

    return decorate


def jit_noalloc(**options: Any) -> Callable[[Callable[[*Arguments], Result]], Loop[*Arguments, Result]]:
    """Return a decorator like `jit`, without reference counting. The function must not allocate arrays."""
    return jit(uncounted=True, **options)


def jit_inline(function: Callable[[*Arguments], Result]) -> Loop[*Arguments, Result]:
    """Mark a function that numba inlines in every caller."""
    return Loop(function, {"inline": "always"})


def _plain(value: Any) -> Any:
    """Return `value` with Python numbers in place of numpy scalars, as compiled code returns it."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is tuple:
        return tuple(_plain(part) for part in value)
    return value


@contextmanager
def running(compiled: bool) -> Iterator[None]:
    """Run everything compiled, or everything interpreted, inside the context; afterwards restore the mode."""
    before = [group.compiled and group._settled for group in GROUPS]
    for group in GROUPS:
        if compiled:
            group.compile()
        else:
            group.interpret()
    try:
        yield
    finally:
        for group, was_compiled in zip(GROUPS, before, strict=True):
            if was_compiled:
                group.compile()
            else:
                group.as_it_pays()


# -- the cache on disk ------------------------------------------------------------------------------


def invalidate_stale_cache(package: Path) -> str:
    """Delete the cache on disk unless it was made from the present modules with compiled functions.

    Returns a hash of these modules.
    """
    note = package / "__pycache__" / "compiled.txt"
    present = ""
    with suppress(OSError, ValueError):  # a read-only folder, or a file that another process has deleted
        present = _fingerprint(package)
        if note.exists() and note.read_text() == present:
            return present
        for pattern in ("*.nb[ic]", "compiled-*"):
            for path in package.rglob(f"__pycache__/{pattern}"):
                path.unlink(missing_ok=True)
        note.parent.mkdir(exist_ok=True)
        note.write_text(present)
    return present


def _fingerprint(package: Path) -> str:
    """Return a hash of the modules with compiled functions; changes of other modules do not matter."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("[!.]*.py")):
        source = path.read_bytes()
        if b"jit import" in source or b"from numba" in source:
            digest.update(str(path.relative_to(package)).encode() + b"\0" + source + b"\0")
    return digest.hexdigest()


FINGERPRINT = invalidate_stale_cache(PACKAGE)


def on_disk(what: str) -> Path:
    """Return the file that marks that code for a kind of arguments is cached on this host."""
    folder = _folder()
    where = f"{FINGERPRINT} {folder} {sys.implementation.cache_tag} {platform.node()}"
    return folder / f"compiled-{what}-{hashlib.sha256(where.encode()).hexdigest()[:12]}"


@cache
def _folder() -> Path:
    """Return the package's cache folder, or the user's if the package folder is read-only."""
    given, here = os.environ.get("NUMBA_CACHE_DIR"), PACKAGE / "__pycache__"
    if given or os.access(here if here.exists() else PACKAGE, os.W_OK):
        return Path(given) if given else here
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "psrl-pomdp"
