"""`psrl-pomdp export`: the log of a plant as CSV or as JSON lines."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .common import note
from .live_common import database_argument, open_store

_EXAMPLES = """\b
Examples:
  psrl-pomdp export plant.db > observations.csv
  psrl-pomdp export plant.db --format jsonl -o events.jsonl
"""


@click.command("export", epilog=_EXAMPLES, short_help="Write the log of a plant as CSV or JSON lines.")
@database_argument
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "jsonl"]),
    default="csv",
    show_default=True,
    help="Observations and actions as CSV, or all events as JSON lines.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="The file.  [default: stdout]")
def command(database: str, kind: str, output: str | None) -> None:
    """Write the log of a plant.

    The CSV file has a line for each observation, with the action that was really taken after it. Rows that a
    rollback has made void are in the events only.
    """
    with open_store(database) as store:
        from ..live.audit import export_events, export_readings

        write = export_readings if kind == "csv" else export_events
        if output is None:
            n = write(store, sys.stdout)
        else:
            with Path(output).open("w", encoding="utf-8", newline="") as stream:
                n = write(store, stream)
    note(f"{n} lines")
