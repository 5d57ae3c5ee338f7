"""How numba compiles the functions of `compiled`, and keeps what it has compiled on disk.

Three things differ from what numba does by itself.

*Callers name a function instead of holding a copy of it.* Numba links the code of every function into each
function that calls it, and optimizes it there once more, which was half of the time that compiling took. Here
the caller only declares it, and the system's linker finds it. So what a caller needs is kept beside its code,
and loaded before it. Small functions in hot loops are the exception (`linked`).

*Names tell what code they stand for.* Numba numbers functions as a process comes across them, and in two
processes the same name may stand for different code. Here the number is a hash of the function's place and
of all modules with compiled functions, so that whichever process compiled it, a name means one thing; code
that is stale has other names and is not found.

*Every file has a random name.* Numba numbers the files of a function as they come, and two processes that
compile it for different arguments at one time take the same number: then code for three states may be found
where code for two is asked for, and runs. (In folders of numba's own, old files then stay until somebody
empties them.)
"""

# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False, disallow-untyped-decorators=False

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib import import_module
from typing import Any
from uuid import uuid4

import llvmlite.binding as llvm
from numba import njit, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.cpu import CPUTargetOptions
from numba.core.imputils import lower_builtin
from numba.extending import type_callable, typeof_impl

from .jit import FINGERPRINT, AnyLoop, Loop, fma

# Not to count references to arrays that a function is given saves up to a quarter of a step; the option is
# numba's own affair, and a numba without it only costs that.
UNCOUNTED: dict[str, Any] = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}


def dispatcher(loop: AnyLoop) -> Any:
    """The compiled form of a function: for each kind of arguments, loaded or compiled when first called."""
    options = dict(loop.targetoptions)
    if "inline" in options:
        return njit(**options)(loop.py_func)
    options.pop("linked", None)
    if options.pop("uncounted", False):
        options |= UNCOUNTED
    if options.pop("inner", False):
        options["no_cpython_wrapper"] = True
    options |= {"cache": True, "nogil": True, "no_cfunc_wrapper": True, "pipeline_class": PackageCompiler}
    made = njit(**options)(loop.py_func)
    made._cache = PackageCache(loop.py_func)
    return made


# -- names and declarations -------------------------------------------------------------------------


class PackageCompiler(Compiler):
    """Numba's, with names that tell what code they stand for, and callees declared."""

    def _compile_bytecode(self) -> Any:
        who = self.state.func_id
        place = f"{FINGERPRINT} {who.modname} {who.func_qualname}"
        who.unique_id = int(hashlib.sha256(place.encode()).hexdigest()[:12], 16)
        who.unique_name = f"{who.func_qualname}${who.unique_id}"
        loop = _loop(who.modname, who.func_qualname)
        library = self.state.library = self.state.targetctx.codegen().create_library(who.func_qualname)
        library.enable_object_caching()
        library.__class__, library.needs, library.linked = PackageLibrary, [], "linked" in loop.targetoptions
        library.place = who.modname, who.func_qualname, tuple(self.state.args)
        return super()._compile_bytecode()


class PackageLibrary(JITCodeLibrary):
    """The code of one function for one kind of arguments, which callers declare instead of linking it in."""

    place: tuple[str, str, Any]  # module, name, argument types
    linked: bool
    needs: list[tuple[str, str, Any]]  # the places of what is declared

    def add_linking_library(self, library: Any) -> None:
        if isinstance(library, PackageLibrary):
            self.needs += library.needs if library.linked else [library.place]
        super().add_linking_library(library)

    def _get_module_for_linking(self) -> Any:
        if self.linked:
            return super()._get_module_for_linking()
        self._ensure_finalized()
        nothing = llvm.parse_assembly("")
        nothing.triple, nothing.data_layout = self._final_module.triple, self._final_module.data_layout
        return nothing

    def serialize_using_object_code(self) -> Any:
        """The object code, and beside it not all of the code in LLVM's language, but the names in it."""
        if self.linked:
            return super().serialize_using_object_code()
        self._ensure_finalized()
        names = "".join(f'define void @"{f.name}"() {{ ret void }}\n' for f in self.get_defined_functions())
        return self.name, "object", (self._get_compiled_object(), llvm.parse_assembly(names).as_bitcode())


# -- what is kept on disk ---------------------------------------------------------------------------


class UniqueCacheFile(IndexDataCacheFile):
    """The files of a function's kept code, none of which two processes can name alike."""

    def _data_name(self, _: int) -> str:
        return str(super()._data_name(uuid4().int))


class WithNeeds(CompileResultCacheImpl):
    """Code with the places and symbols of what has to be loaded before it."""

    def reduce(self, made: Any) -> Any:
        library = made.library
        needs = {place: _loaded(place) for place in library.needs}
        return library.place, library.linked, needs, super().reduce(made)

    def rebuild(self, target: Any, kept: Any) -> Any:
        place, linked, needs, payload = kept
        if any(_loaded(need) != symbol for need, symbol in needs.items()):
            return None  # made with other settings of numba: to be compiled anew
        made = super().rebuild(target, payload)
        made.library.__class__ = PackageLibrary
        made.library.place, made.library.linked, made.library.needs = place, linked, list(needs)
        return made


class PackageCache(FunctionCache):
    """Of one function."""

    _impl_class = WithNeeds

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file.__class__ = UniqueCacheFile

    def _index_key(self, kind: Any, codegen: Any) -> Any:
        return FINGERPRINT, super()._index_key(kind, codegen)


def _loop(module: str, name: str) -> AnyLoop:
    found = getattr(import_module(module), name)
    assert isinstance(found, Loop)
    return found


def _loaded(place: tuple[str, str, Any]) -> str:
    """Loads or compiles a function; the symbol of its code."""
    module, name, kinds = place
    own = _loop(module, name).dispatcher
    own.compile(kinds)
    return str(own.overloads[kinds].fndesc.llvm_func_name)


# -- what numba is told -----------------------------------------------------------------------------


@typeof_impl.register(Loop)
def _(loop: AnyLoop, _context: Any) -> Any:
    return types.Dispatcher(loop.dispatcher)


@type_callable(fma)
def _(_context: Any) -> Any:
    return lambda _a, _b, _c: types.float64


@lower_builtin(fma, types.float64, types.float64, types.float64)
def _(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
    return builder.fma(*arguments)
