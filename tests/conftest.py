"""The order of the tests, and databases."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import Browser
from psrl_pomdp._numba import jit as compiled

for group in compiled.GROUPS:
    group.compile()  # what the tests spend their time with; programs that they start do as users' do

# The tests of the live service fork servers, and need the packages of the extra `serve`.
if os.name != "posix" or not all(
    map(importlib.util.find_spec, ("litestar", "uvicorn", "sqlalchemy", "httpx"))
):
    collect_ignore = ["live"]

COMPILE_NOTHING = {"io", "models"}  # folders
COMPILE_NOTHING |= {"test_docstrings", "test_go", "test_priors", "test_project_files"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What compiles nothing comes first: with two workers, which begin at the start and in the middle, one is
    busy with it while the other compiles, and then finds compiled what it needs."""
    items.sort(key=lambda item: COMPILE_NOTHING.isdisjoint((item.path.stem, item.path.parent.name)))


# -- databases of the live service ------------------------------------------------------------------------

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The folder of a running PostgreSQL."""
    from plants import postgres_folder, postgresql

    pytest.importorskip("psycopg")
    if postgres_folder() is None:
        pytest.skip("PostgreSQL is not installed")
    with postgresql() as folder:
        yield folder


@pytest.fixture(params=["sqlite", "postgresql"])
def either_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new database: of SQLite, and of PostgreSQL where it is installed."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'plant.db'}"
    from plants import new_database

    return new_database(request.getfixturevalue("postgres"), f"plant{next(_numbers)}")


# -- a browser for the page of the live service -----------------------------------------------------------


@pytest.fixture(scope="session")
def live_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser without a window, which the tests of the page share."""
    with Browser(tmp_path_factory.mktemp("chromium"), patience=20.0) as found:
        yield found
