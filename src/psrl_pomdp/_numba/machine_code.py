"""How numba compiles the functions of `jit`, and how the compiled code is cached on disk.

There are three differences from numba's default.

*Callers declare a function instead of copying it.* Numba links the code of every function into each function
that calls it and optimizes it there again, which took half of the compilation time. Here the caller only
declares the function, and the system's linker finds it. So the cache stores with each function what it calls,
and loads that first. Small functions in hot loops are copied (`linked`).

*Names identify code.* Numba numbers functions in the order in which a process meets them, so the same name
may stand for different code in two processes. Here the number is a hash of the function's name and of all
modules with compiled functions. It does not depend on the process, and stale code is not found because it has
other names.

*Every file has a random name.* Numba numbers the files of a function consecutively. Two processes that
compile it for different arguments at the same time use the same number, and then code for three states may be
loaded and run instead of code for two. (In numba's own folders, old files stay until they are deleted by
hand.)
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

# Without counting references to array arguments, a step takes up to a quarter less time. The option is
# internal to numba; a version of numba without it is slower.
UNCOUNTED: dict[str, Any] = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}


def dispatcher(loop: AnyLoop) -> Any:
    """Return the compiled form of a function.

    It is loaded or compiled at the first call with each combination of argument types.
    """
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
    """Numba's compiler, with names that identify code, and with declared callees."""

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
    """The code of one function for one kind of arguments, which callers declare instead of linking it."""

    place: tuple[str, str, Any]  # module, name, argument types
    linked: bool
    needs: list[tuple[str, str, Any]]  # the places of the declared functions

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
        """Return the object code and the names of its functions, instead of all of the LLVM code."""
        if self.linked:
            return super().serialize_using_object_code()
        self._ensure_finalized()
        names = "".join(f'define void @"{f.name}"() {{ ret void }}\n' for f in self.get_defined_functions())
        return self.name, "object", (self._get_compiled_object(), llvm.parse_assembly(names).as_bitcode())


# -- the cache on disk ------------------------------------------------------------------------------


class UniqueCacheFile(IndexDataCacheFile):
    """The cache files of a function, with random names that two processes cannot share."""

    def _data_name(self, _: int) -> str:
        return str(super()._data_name(uuid4().int))


class WithNeeds(CompileResultCacheImpl):
    """Code with the places and symbols of the functions that must be loaded before it."""

    def reduce(self, made: Any) -> Any:
        library = made.library
        needs = {place: _loaded(place) for place in library.needs}
        return library.place, library.linked, needs, super().reduce(made)

    def rebuild(self, target: Any, kept: Any) -> Any:
        place, linked, needs, payload = kept
        if any(_loaded(need) != symbol for need, symbol in needs.items()):
            return None  # compiled with other settings of numba, so compile it again
        made = super().rebuild(target, payload)
        made.library.__class__ = PackageLibrary
        made.library.place, made.library.linked, made.library.needs = place, linked, list(needs)
        return made


class PackageCache(FunctionCache):
    """The cache of one function."""

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
    """Load or compile a function and return the symbol of its code."""
    module, name, kinds = place
    own = _loop(module, name).dispatcher
    own.compile(kinds)
    return str(own.overloads[kinds].fndesc.llvm_func_name)


# -- types and code for numba -----------------------------------------------------------------------


@typeof_impl.register(Loop)
def _(loop: AnyLoop, _context: Any) -> Any:
    return types.Dispatcher(loop.dispatcher)


@type_callable(fma)
def _(_context: Any) -> Any:
    return lambda _a, _b, _c: types.float64


@lower_builtin(fma, types.float64, types.float64, types.float64)
def _(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
    return builder.fma(*arguments)
