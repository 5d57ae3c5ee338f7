"""Compiled code that is kept on disk, and thrown away when it is old."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import psrl_pomdp
from psrl_pomdp.compiled import UNCOUNTED, OwnNames, forget_stale
from psrl_pomdp.planning.bases import by_inverse

PACKAGE = Path(psrl_pomdp.__file__).parent


def test_compiled_code_is_deleted_when_a_module_with_compiled_functions_has_changed(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    sources = [tmp_path / "one.py", tmp_path / "part" / "other.py"]
    kept = [tmp_path / "__pycache__" / "one.f-1.nbi", tmp_path / "part" / "__pycache__" / "other.g-1.nbc"]
    for path in sources:
        path.write_text("from .compiled import kept\n")

    def compile_and_start() -> list[bool]:
        for path in kept:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"")
        forget_stale(tmp_path)
        return [path.exists() for path in kept]

    assert compile_and_start() == [False, False]  # nothing tells which modules it was made from
    assert compile_and_start() == [True, True]
    os.utime(sources[1], (1, 1))  # the same code
    assert compile_and_start() == [True, True]
    sources[1].write_text("from .compiled import kept  # and changed\n")
    assert compile_and_start() == [False, False]
    assert compile_and_start() == [True, True]
    (tmp_path / "plain.py").write_text("")
    assert compile_and_start() == [True, True]
    (tmp_path / "new.py").write_text("from numba import njit\n")
    assert compile_and_start() == [False, False]
    (tmp_path / ".#new.py").symlink_to("an editor's mark, which is no file")
    assert compile_and_start() == [True, True]


def test_a_folder_that_cannot_be_written_to_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("")
    (tmp_path / "__pycache__").write_text("not a folder")
    forget_stale(tmp_path)
    assert (tmp_path / "__pycache__").read_text() == "not a folder"


def test_every_compiled_function_is_kept_by_these_rules() -> None:
    sources = [path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "compiled.py"]
    assert sum(len(re.findall(r"^@(?:kept|bare)\(", text, flags=re.M)) for text in sources) > 100
    ways = [way for text in sources for way in re.findall(r"\bn?jit\(.*", text)]
    assert {way for way in ways if way != 'njit(inline="always")'} == set()


def test_two_processes_that_keep_code_at_one_time_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    """One writes what it has compiled after the other has written, and has noted its name before."""
    one, other = (OwnNames(str(tmp_path), "belief.predict-1", "stamp") for _ in range(2))
    index, late = one._load_index(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one, "_save_data", lambda name, code: late.append((name, code)))
        one.save("for two states", "code for two")
        patch.setattr(other, "_load_index", lambda: index)
        other.save("for three states", "code for three")
    one._save_data(*late[0])
    assert one.load("for three states") == "code for three"
    assert one.load("for two states") is None  # lost, and compiled again by whoever needs it
    one.save("for two states", "code for two")
    assert other.load("for two states") == "code for two"
    assert other.load("for three states") == "code for three"


def test_every_compiled_function_is_kept_in_files_of_its_own() -> None:
    kept = [one for one in compiled_functions() if "inline" not in one.targetoptions]
    assert len(kept) > 100
    assert {type(one._cache._cache_file) for one in kept} == {OwnNames}


def functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions and methods that are written in a module, compiled ones as Python has them."""
    for thing in vars(module).values():
        for one in vars(thing).values() if isinstance(thing, type) else (thing,):
            plain = getattr(one, "py_func", getattr(one, "fget", one))
            if isinstance(plain, FunctionType) and plain.__module__ == module.__name__:
                yield plain


def names_in(code: CodeType) -> Iterator[str]:
    """Names that a function uses, and the functions inside it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from names_in(inner)


def called(function: FunctionType) -> Iterator[Dispatcher]:
    """The compiled functions that a function names, by themselves or through their module."""
    names, known = list(names_in(function.__code__)), function.__globals__
    for name in names:
        if isinstance(known.get(name), Dispatcher):
            yield known[name]
        elif isinstance(known.get(name), ModuleType):
            yield from (
                vars(known[name])[other]
                for other in names
                if isinstance(vars(known[name]).get(other), Dispatcher)
            )


def modules() -> list[ModuleType]:
    """Those of the package that need nothing else installed."""
    return [
        importlib.import_module(".".join(("psrl_pomdp", *path.relative_to(PACKAGE).with_suffix("").parts)))
        for path in PACKAGE.rglob("*.py")
        if not path.name.startswith("__") and "torch" not in path.read_text()
    ]


def compiled_functions() -> set[Any]:
    return {one for module in modules() for one in vars(module).values() if isinstance(one, Dispatcher)}


def test_no_rounding_is_left_to_the_compiler() -> None:
    """It would depend on what else a process has compiled, and results on that."""
    harmless = {"nnan", "nsz"}
    free = {
        one.py_func.__name__: one.targetoptions["fastmath"]
        for one in compiled_functions()
        if one.targetoptions.get("fastmath")
    }
    assert {name for name, freedom in free.items() if not set(freedom) <= harmless} == set()


def test_a_fused_product_is_rounded_once() -> None:
    a, b, out = 1.0 + 2.0**-30, 1.0 - 2.0**-30, np.empty(2)
    by_inverse(np.array([[1.0, 0.0], [b, 0.0]]), 2, np.array([-1.0, a]), out)
    assert a * b - 1.0 == 0.0
    assert out[0] == -(2.0**-60)


@pytest.mark.skipif(not UNCOUNTED, reason="this numba does not tell which functions make no arrays")
def test_what_returns_arrays_is_called_from_python_or_from_compiled_code_and_not_from_both() -> None:
    """Kept by several processes, it would crash: `psrl_pomdp.compiled` says why."""
    compiled = compiled_functions()
    plain = {one.py_func for one in compiled}
    from_compiled = {other for one in compiled for other in called(one.py_func)}
    from_python = {
        other
        for module in modules()
        for one in functions(module)
        if one not in plain
        for other in called(one)
    }
    assert len(from_compiled) > 50
    assert len(from_python) > 30
    both = {
        one.py_func.__name__
        for one in from_compiled & from_python
        if one.targetoptions.get("_nrt", True) and "return " in inspect.getsource(one.py_func)
    }
    assert both == set()
