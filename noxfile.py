#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""Development tasks, each in an environment of its own; `nox --list` lists them.

`python3 go.py test` runs every check that must pass, in one environment, and needs only Python. Nox adds
single tasks, other versions of Python, and the newest versions of the dependencies.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"

PROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)
PINNED = ("--constraint", "constraints.txt")
# Tests that take only seconds without compiled code.
QUICK = (
    "agents/test_planning_budget.py",
    "agents/test_schedule.py",
    "inference/test_belief.py",
    "inference/test_priors.py",
    "models",
)


def install_group(session: nox.Session, group: str, *options: str) -> None:
    """Install the package editable with a dependency group; pip before 25.1 cannot read groups."""
    session.install(*options, "--editable", ".", *nox.project.dependency_groups(PROJECT, group))


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests; arguments after `--` go to pytest."""
    install_group(session, "test", *PINNED)
    session.run("pytest", *(session.posargs or ("-n", "auto", "--dist", "worksteal")))


@nox.session
def lint(session: nox.Session) -> None:
    """Run ruff, mypy and import-linter."""
    install_group(session, "test", *PINNED)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the manual into build/html; a warning is an error."""
    install_group(session, "docs", *PINNED)
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "build/html")


@nox.session(default=False)
def links(session: nox.Session) -> None:
    """Follow every link of the manual."""
    install_group(session, "docs", *PINNED)
    session.run("sphinx-build", "-b", "linkcheck", "docs", "build/links")


@nox.session
def build(session: nox.Session) -> None:
    """Build the source distribution and the wheel into dist, and solve a problem with the installed wheel."""
    shutil.rmtree("dist", ignore_errors=True)
    session.install("build", "twine")
    session.run("python", "-m", "build")
    session.run("twine", "check", "--strict", *map(str, Path("dist").iterdir()))
    (wheel,) = Path("dist").glob("*.whl")
    session.install(*PINNED, str(wheel))
    session.run("psrl-pomdp", "solve", "tiger")


@nox.session(default=False)
def interpreted(session: nox.Session) -> None:
    """Run the tests that take only seconds without compiled code."""
    install_group(session, "test", *PINNED)
    files = [f"tests/{path}" for path in QUICK]
    session.run("pytest", *files, *session.posargs, env={"PSRL_POMDP_CODE": "interpreted"})


@nox.session(default=False)
@nox.parametrize("kind", ["releases", "prereleases"], ids=["releases", "prereleases"])
def newest(session: nox.Session, kind: str) -> None:
    """Run the tests with the newest releases or prereleases of the dependencies."""
    options = ["--upgrade"]
    if kind == "prereleases":
        options.append("--prerelease=allow" if session.venv_backend == "uv" else "--pre")
    install_group(session, "test", *options)
    session.run("pytest", "-n", "auto", "--dist", "worksteal", *session.posargs)


if __name__ == "__main__":
    nox.main()
