"""`psrl-pomdp token`: who may use the service of a plant."""

from __future__ import annotations

import click

from .common import json_option, print_json, print_rows
from .live_common import database_option, open_store

_EXAMPLES = """\b
Examples:
  psrl-pomdp token add scada --role operate
  psrl-pomdp token list --db plant.db
  psrl-pomdp token revoke scada
"""


@click.group("token", epilog=_EXAMPLES, short_help="Create, list and revoke tokens for the service.")
def command() -> None:
    """Create, list and revoke tokens for the service of a plant.

    Without tokens the service answers on this machine only. From the first token on every request needs one.
    Roles: `read` sees everything; `operate` also sends observations and overrides; `admin` may do everything.
    The database has the hashes of tokens only. A running server knows of a change within a second.
    """


@command.command("add", short_help="Create a token, and print it once.")
@click.argument("name")
@click.option("--role", required=True, metavar="ROLE", help="read, operate or admin.")
@database_option
def add(name: str, role: str, database: str) -> None:
    """Create a token, and print it. It is not shown again."""
    with open_store(database, create=True) as store:
        from ..live.tokens import new_token

        click.echo(new_token(store, name, role))


@command.command("list", short_help="List the tokens.")
@database_option
@json_option
def list_tokens(database: str, as_json: bool) -> None:
    """List the names and roles of the tokens."""
    with open_store(database) as store:
        rows = store.token_rows()
    if as_json:
        print_json(
            [{"name": r.name, "role": r.role, "created": r.created, "revoked": r.revoked} for r in rows]
        )
    elif rows:
        texts = [
            f"{r.role}, since {r.created}" + (f", revoked {r.revoked}" if r.revoked else "") for r in rows
        ]
        print_rows([(row.name, text) for row, text in zip(rows, texts, strict=True)])
    else:
        click.echo("no tokens: the service answers on this machine only")


@command.command("revoke", short_help="Make a token void.")
@click.argument("name")
@database_option
def revoke(name: str, database: str) -> None:
    """Make a token void."""
    with open_store(database) as store:
        import time

        from ..live.events import LiveError, time_text

        if not store.revoke_token(name, time_text(time.time())):
            raise LiveError(f"there is no valid token {name!r}")
        click.echo(f"{name}: revoked")
