"""How loops are compiled by numba, and when what it keeps on disk is thrown away.

A compiled function is kept beside its file until that file changes. But it holds the functions of other files
that it calls, old ones after those have changed, and old and new code in one process may crash it. So what is
kept is thrown away as a whole whenever a program starts and any module with compiled functions has changed:
after a pull or an edit. Left to people are folders of numba's own (`NUMBA_CACHE_DIR`, or the user's where the
package may not be written to), and programs that were running before the change and compile after it.

A function that returns arrays is called either from Python or from compiled functions, never from both:
copies that were kept by different processes may go by one name, and then the wrong one of them is asked for
what it takes to make an array for Python, which crashes.

Nor may two processes keep different code under one name. Numba numbers the files of a function as they come,
and two processes that compile it for different arguments at one time take the same number: then code for
three states may be found where code for two is asked for, and runs. So every file has a random name. (In
folders of numba's own, old files then stay until somebody empties them.)

Nor may the compiler choose how numbers are rounded, by `fastmath` that reorders sums or fuses products with
them. It chooses by what is around a function where it is called, and which of several copies of it runs
depends on what a process has compiled and what it has found on disk: the same study would come out otherwise
in the last digit. Where fusing is worth it, `fma` says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from numba import njit, types
from numba.core.caching import IndexDataCacheFile
from numba.core.cpu import CPUTargetOptions
from numba.extending import intrinsic

# Not to count references to arrays that a function is given saves up to a quarter of a step; the option is
# numba's own affair, and a numba without it only costs that.
UNCOUNTED: dict[str, Any] = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}


class OwnNames(IndexDataCacheFile):
    """The files of a function's kept code, none of which two processes can name alike."""

    def _data_name(self, _: int) -> str:
        return str(super()._data_name(uuid4().int))


def kept(**options: Any) -> Callable[[Any], Any]:
    """Compiled, and kept on disk."""

    def decorate(function: Any) -> Any:
        compiled = njit(cache=True, nogil=True, **options)(function)
        if hasattr(compiled, "_cache"):  # numba may have been told not to compile
            compiled._cache._cache_file.__class__ = OwnNames
        return compiled

    return decorate


def bare(**options: Any) -> Callable[[Any], Any]:
    """The same, for a function that makes no arrays."""
    return kept(**UNCOUNTED, **options)


@intrinsic
def fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    """a · b + c, rounded once."""
    return types.float64(types.float64, types.float64, types.float64), _fused


def _fused(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
    return builder.fma(*arguments)


def forget_stale(package: Path) -> None:
    """Delete the compiled code on disk unless it was made from the package's present compiled modules."""
    note = package / "__pycache__" / "compiled.txt"
    with suppress(OSError, ValueError):  # a folder that we may not write to, a file that has just gone
        present = _fingerprint(package)
        if note.exists() and note.read_text() == present:
            return
        for path in package.rglob("__pycache__/*.nb[ic]"):
            path.unlink(missing_ok=True)
        note.parent.mkdir(exist_ok=True)
        note.write_text(present)


def _fingerprint(package: Path) -> str:
    """A hash over the modules that hold compiled functions; others may change without any harm."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("[!.]*.py")):
        source = path.read_bytes()
        if b"compiled import" in source or b"from numba" in source:
            digest.update(str(path.relative_to(package)).encode() + b"\0" + source + b"\0")
    return digest.hexdigest()


forget_stale(Path(__file__).parent)
