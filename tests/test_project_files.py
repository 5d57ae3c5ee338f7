"""What is written down twice says the same, and a wheel holds what it should."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import psrl_pomdp

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
in_repository = pytest.mark.skipif(
    not (ROOT / ".github").is_dir(), reason="the source distribution does not hold these files"
)


def test_the_citation_has_the_version_of_the_package() -> None:
    found = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text("utf-8"), flags=re.MULTILINE)
    assert found is not None
    assert found[1] == psrl_pomdp.__version__


@in_repository
def test_the_public_tests_run_on_every_python_that_is_promised() -> None:
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    tested = re.search(r"^ +python: \[(.*)\]$", workflow, flags=re.MULTILINE)
    assert tested is not None
    assert tested[1] == ", ".join(f'"{version}"' for version in promised)
    assert PROJECT["requires-python"] == f">={promised[0]}"


@in_repository
def test_hooks_have_the_versions_that_the_tests_pass_with() -> None:
    pinned = (ROOT / "constraints.txt").read_text("utf-8")
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    for name, repository in (("ruff", "ruff-pre-commit"), ("mypy", "mirrors-mypy")):
        version = re.search(rf"^{name}==(.*)$", pinned, flags=re.MULTILINE)
        hook = re.search(rf"/{repository}\n +rev: v(.*)$", hooks, flags=re.MULTILINE)
        assert version is not None
        assert hook is not None
        assert version[1] == hook[1]


@in_repository
def test_the_quick_tests_of_nox_exist() -> None:
    """The session `interpreted` names test files, which may be renamed."""
    tree = ast.parse((ROOT / "noxfile.py").read_text("utf-8"))
    (quick,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "QUICK"
    ]
    assert [name for name in quick if not (ROOT / "tests" / name).exists()] == []
    assert quick


def private_names_imported(code: str) -> list[str]:
    """Return the names with one leading underscore that relative imports take from another module."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.level and node.module is not None:
            found += [name.name for name in node.names if re.match(r"_(?!_)", name.name)]
    return found


def test_no_module_imports_a_private_name_of_another() -> None:
    """Modules with a leading underscore are private to the package, which may import them."""
    assert private_names_imported("from .a import b, _c\nfrom . import _d\nfrom ._e import __f__") == ["_c"]
    found = {
        str(path.relative_to(ROOT)): names
        for path in sorted((ROOT / "src").rglob("*.py"))
        if (names := private_names_imported(path.read_text("utf-8")))
    }
    assert found == {}


def test_a_wheel_holds_the_package_and_its_types_and_no_tests(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    words = ["-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    written = {
        f"psrl_pomdp/{path.relative_to(ROOT / 'src' / 'psrl_pomdp').as_posix()}"
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "psrl_pomdp/py.typed" in names
    assert {name for name in names if ".dist-info/" not in name} == written
    assert any(name.endswith("/licenses/LICENSE") for name in names)
