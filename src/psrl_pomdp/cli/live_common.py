"""What the commands about a live plant share."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import click

from ..errors import PluginError

if TYPE_CHECKING:
    from ..live.store import Store

database_argument = click.argument("database", metavar="PLANT.db")
database_option = click.option(
    "--db",
    "database",
    metavar="URL",
    default="sqlite:///plant.db",
    show_default=True,
    help="The database: sqlite:///FILE, postgresql://HOST/NAME, or the path of a SQLite file.",
)


def wanted_packages() -> None:
    """Raise `PluginError` where the packages of the extra `serve` are missing."""
    missing = [name for name in ("litestar", "uvicorn", "sqlalchemy") if not importlib.util.find_spec(name)]
    if missing:
        raise PluginError(f"{', '.join(missing)}: not installed; pip install 'psrl-pomdp[serve]' brings it")


def open_store(database: str, *, create: bool = False) -> Store:
    """Return the database of a plant."""
    wanted_packages()
    from ..live.store import Store

    return Store(database, create=create)
