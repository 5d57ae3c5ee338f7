"""Decorators for functions made of loops: interpreted at first, compiled by numba where that pays.

`jit` and `jit_noalloc` mark a function. It runs in Python at first, and numba is not even imported. When the
functions of its group have run for a little while, compiled code is loaded from disk. Where there is none,
another process compiles it (`background`), and this process switches to compiled code when it is ready. So no
program waits for the compiler. Interpreted and compiled code give the same results to the last bit, and the
tests compare them, so that no result depends on the moment of the switch or on what is on disk. Therefore

- a fused product is `fma`, which is exact in Python too, and the compiler has no choice of rounding anywhere
  (`fastmath` would reorder sums and fuse products with them);
- sums of arrays are loops, because numpy adds in another order than a loop does, and an order by size comes
  from `sort_order`, because sorts differ in how they treat equal values;
- logarithms and exponentials come from `math`, which calls the same library as compiled code.

Compiled code is stored on disk (`machine_code`). When a program starts and any module with compiled functions
has changed, `invalidate_stale_cache` deletes all of it. Folders of numba's own are not covered
(`NUMBA_CACHE_DIR`, or the user's folder where the package may not be written to): stale code there is not
used, but only the user can delete it.

The environment variable `PSRL_POMDP_CODE=interpreted` switches compiling off; `PSRL_POMDP_CODE=compiled`
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
# Seconds that a group's functions may run interpreted before code that is on disk is loaded, which takes
# about as long, and before it is compiled where there is none.
_UNTIL_ASKING, _UNTIL_HELPED = 0.3, 2.0
_LONGEST = 180.0  # seconds to wait for another process that compiles
# "interpreted" or "compiled" from the start, and always; or, by default, interpreted first.
_CODE = os.environ.get("PSRL_POMDP_CODE", "")
if _CODE not in ("", "interpreted", "compiled"):
    raise UnknownNameError(
        f"PSRL_POMDP_CODE in the environment is {_CODE!r}, neither 'interpreted' nor 'compiled'"
        + did_you_mean(_CODE, ("interpreted", "compiled"))
    )
if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
    _CODE = "interpreted"


class _Here(threading.local):
    """What each thread is at."""

    since: float | None = None  # when the call from outside began that is going on


class Group:
    """Functions that are used together, and whether they run compiled."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.compiled = _CODE == "compiled"
        self._settled = _CODE != ""  # whether that is to stay so
        self.loops: list[AnyLoop] = []
        self.wanted = {name}  # what has to be on disk before compiled code runs, as `warmup` calls it
        self.asks = True  # or somebody else sees to it
        self._helper: Popen[bytes] | None = None  # the process that compiles
        self._failed = False  # as it did once
        self._asked_for: set[str] = set()
        self._made: set[str] = set()  # by processes of ours that have ended
        self._spent = 0.0  # seconds interpreted
        self._patience = _UNTIL_ASKING  # seconds after which to look for something quicker
        self._here = _Here()

    def compile(self) -> None:
        """Run compiled from now on: what is called next is loaded from disk, or compiled on the spot."""
        self._settled = True
        self._switch(_CODE != "interpreted")

    def interpret(self) -> None:
        """Run interpreted from now on."""
        self._settled = True
        self._switch(False)

    def as_it_pays(self) -> None:
        """Run interpreted until compiled code is ready and worth loading, as at first."""
        self._settled = _CODE != ""
        self._spent, self._patience = 0.0, _UNTIL_ASKING
        self._switch(_CODE == "compiled")

    def _switch(self, compiled: bool) -> None:
        self.compiled = compiled
        for loop in self.loops:
            loop.choose()

    def want(self, what: str) -> None:
        """Code for one kind of arguments will be called: interpreted, as long as it is not on disk."""
        if what not in self.wanted:
            self.wanted.add(what)
            if self.compiled and not self._settled and not self.ready():
                self.as_it_pays()

    def ready(self) -> bool:
        """Whether all that is wanted is on disk."""
        helper = self._helper  # once: another thread may be here too
        if helper is not None and helper.poll() is not None:
            if helper.returncode == 0:
                self._made |= self._asked_for
            else:
                self._failed = True
            self._helper = None
        return all(what in self._made or on_disk(what).exists() for what in self.wanted)

    def ask(self) -> None:
        """Have another process compile what is wanted."""
        if self.asks and not (self._settled or self._failed or self._helper or self.ready()):
            from .background import start

            self._asked_for = {what for what in self.wanted if not on_disk(what).exists()}
            self._helper = start(sorted(self._asked_for))
            self._failed = self._helper is None  # there can be no such process: nobody is to wait for it

    def hurry(self, wait: bool) -> None:
        """For work that is too long to interpret: compile at once, and `wait` for it if told to."""
        if self.compiled or self._settled:
            return
        self.ask()
        begun = monotonic()
        while wait and not (self.ready() or self._failed or monotonic() - begun > _LONGEST):
            sleep(0.1)
        if wait or self.ready():
            self._switch(True)  # and what is still not on disk is compiled on the spot

    @property
    def busy(self) -> bool:
        """Whether another process is compiling for this one."""
        return self._helper is not None and not self.ready()

    def interpreted(
        self, function: Callable[[*Arguments], Result], loop: Loop[*Arguments, Result]
    ) -> Callable[[*Arguments], Result]:
        """The function as it runs interpreted, with its time measured."""

        def run(*args: *Arguments) -> Result:
            now, since = perf_counter(), self._here.since
            spent = self._spent if since is None else self._spent + now - since
            if spent > self._patience and self._impatient(spent) and not loop.inner:
                return loop.run(*args)
            if since is not None:  # one function of the group calls another
                return function(*args)
            try:
                self._here.since = now
                with np.errstate(all="ignore"):
                    made: Result = _plain(function(*args))
                    return made
            finally:
                self._here.since = None  # before any call, after which an interrupt may come
                self._spent += perf_counter() - now

        return run

    def _impatient(self, spent: float) -> bool:
        """Go on compiled where that needs no compiling; else ask for it, and look again later."""
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
    """A function that runs interpreted or compiled. Its arguments are given by position."""

    py_func: Callable[[*Arguments], Result]
    targetoptions: dict[str, Any]  # numba's name for them: it reads there that a function is to be inlined

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
        """Whether it runs compiled only inside of compiled functions."""
        return bool(self.targetoptions.get("inner")) or "inline" in self.targetoptions

    def choose(self) -> None:
        """Run as the group does."""
        self.run = self._first_compiled if self.group.compiled and not self.inner else self._interpreted

    def _first_compiled(self, *args: *Arguments) -> Result:
        self.run = self.dispatcher
        return self.run(*args)

    @property
    def dispatcher(self) -> Any:
        """Numba's view of it."""
        if self._dispatcher is None:
            from .machine_code import dispatcher

            self._dispatcher = dispatcher(self)
        return self._dispatcher


AnyLoop = Loop[*tuple[Any, ...], Any]  # of whatever arguments and result


def jit(**options: Any) -> Callable[[Callable[[*Arguments], Result]], Loop[*Arguments, Result]]:
    """Marks a function of loops.

    Options are numba's, and three of ours: `inner` for one that other functions of loops call and that Python
    does not, so that it needs no door for Python's objects (called from Python, it runs interpreted), and
    `linked` for a small one in hot loops whose code callers copy. `python` is what runs interpreted in its
    place, with the same results to the last bit, where arrays are much quicker.
    """

    def decorate(function: Callable[[*Arguments], Result]) -> Loop[*Arguments, Result]:
        return Loop(function, options)

    return decorate


def jit_noalloc(**options: Any) -> Callable[[Callable[[*Arguments], Result]], Loop[*Arguments, Result]]:
    """The same, for a function that makes no arrays: then references to its arguments are not counted."""
    return jit(uncounted=True, **options)


def jit_inline(function: Callable[[*Arguments], Result]) -> Loop[*Arguments, Result]:
    """Marks a function that is written out wherever it is called."""
    return Loop(function, {"inline": "always"})


def _plain(value: Any) -> Any:
    """What is returned, with Python's own numbers in place of numpy's, as compiled code returns it."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is tuple:
        return tuple(_plain(part) for part in value)
    return value


@contextmanager
def running(compiled: bool) -> Iterator[None]:
    """Inside, everything runs compiled, or interpreted; afterwards as before, or as it pays."""
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


# -- what is on disk --------------------------------------------------------------------------------


def invalidate_stale_cache(package: Path) -> str:
    """Delete the compiled code on disk unless it was made from the package's present compiled modules.

    Returns a hash over these.
    """
    note = package / "__pycache__" / "compiled.txt"
    present = ""
    with suppress(OSError, ValueError):  # a folder that we may not write to, a file that has just gone
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
    """A hash over the modules that hold compiled functions; others may change without any harm."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("[!.]*.py")):
        source = path.read_bytes()
        if b"jit import" in source or b"from numba" in source:
            digest.update(str(path.relative_to(package)).encode() + b"\0" + source + b"\0")
    return digest.hexdigest()


FINGERPRINT = invalidate_stale_cache(PACKAGE)


def on_disk(what: str) -> Path:
    """The file that says that code for some kind of arguments was compiled and kept, on this host."""
    folder = _folder()
    where = f"{FINGERPRINT} {folder} {sys.implementation.cache_tag} {platform.node()}"
    return folder / f"compiled-{what}-{hashlib.sha256(where.encode()).hexdigest()[:12]}"


@cache
def _folder() -> Path:
    """Beside the package, or of the user where nobody may write there."""
    given, here = os.environ.get("NUMBA_CACHE_DIR"), PACKAGE / "__pycache__"
    if given or os.access(here if here.exists() else PACKAGE, os.W_OK):
        return Path(given) if given else here
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "psrl-pomdp"
