"""Databases for the tests of the service."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("litestar")
pytest.importorskip("sqlalchemy")

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
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'plant.db'}"
    from plants import new_database

    return new_database(request.getfixturevalue("postgres"), f"plant{next(_numbers)}")
