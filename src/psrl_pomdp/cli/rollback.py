"""`psrl-pomdp rollback`: an earlier point of the log as the state to go on from."""

from __future__ import annotations

import click

from .live_common import database_argument, open_store

_EXAMPLES = """\b
Examples:
  psrl-pomdp export plant.db --format jsonl       `seq` numbers the events
  psrl-pomdp rollback plant.db 1041
"""


@click.command("rollback", epilog=_EXAMPLES, short_help="Go on from an earlier point of the log of a plant.")
@database_argument
@click.argument("event", type=click.IntRange(min=1))
@click.option("--by", metavar="NAME", help="Who asks for it; the log says so.  [default: nobody]")
def command(database: str, event: int, by: str | None) -> None:
    """Take the state after EVENT as the one to go on from.

    The events after it stay in the log, and no longer count: what was learned from them is forgotten, and
    every unit expects the step again that it expected then. A rollback can itself be rolled back. No server
    may be running on the database.
    """
    with open_store(database) as store:
        from ..live.audit import rollback

        store.lock("rollback")
        seq = rollback(store, event, by)
        click.echo(f"{store.name}: event {seq} goes on from the state after event {event}")
