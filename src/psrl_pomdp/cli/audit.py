"""`psrl-pomdp audit`: the log of a plant, proved by a replay."""

from __future__ import annotations

import click

from .common import json_option, plain, print_json
from .live_common import database_argument, open_store

_EXAMPLES = """\b
Examples:
  psrl-pomdp audit plant.db
  psrl-pomdp audit postgresql://localhost/plant --json
"""


@click.command("audit", epilog=_EXAMPLES, short_help="Replay the log of a plant, and compare every decision.")
@database_argument
@json_option
@click.pass_context
def command(context: click.Context, database: str, as_json: bool) -> None:
    """Verify the log of a plant.

    The chain of hashes shows whether a row was changed, removed or added. Then all events are replayed from
    the first one on, and every decision is compared, with its belief, to the last bit. A server may run
    meanwhile. The exit code is 1 if anything was found; the first bad row is named.
    """
    with open_store(database) as store:
        from ..live.audit import audit

        report = audit(store)
        name = store.name
    if as_json:
        print_json(
            {
                "good": report.good,
                "events": report.events,
                "decisions": report.decisions,
                "snapshots": report.snapshots,
                "hash": report.hash,
                "findings": list(report.findings),
            }
        )
    elif report.good:
        click.echo(
            f"{name}: good. {report.events} events with {report.decisions} decisions: the chain of hashes "
            f"holds, a replay gives the same decisions, and {report.snapshots} snapshots are what it reaches."
        )
        click.echo(f"hash of the last event: {report.hash}")
    else:
        click.echo(f"{name}: not good.")
        for finding in report.findings:
            click.echo(f"  {plain(finding)}")
    if not report.good:
        context.exit(1)
