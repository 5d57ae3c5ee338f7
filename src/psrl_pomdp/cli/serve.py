"""`psrl-pomdp serve`: an agent in front of a real plant, over HTTP."""

from __future__ import annotations

import click

from .live_common import database_option, wanted_packages

_EXAMPLES = """\b
Examples:
  psrl-pomdp serve plant.toml
  psrl-pomdp serve plant.toml --db postgresql://localhost/plant --port 8642
  psrl-pomdp token add scada --role operate
  psrl-pomdp serve plant.toml --host 0.0.0.0
"""


@click.command("serve", epilog=_EXAMPLES, short_help="Take observations over HTTP, answer with actions.")
@click.argument("plant", metavar="PLANT.toml")
@database_option
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen. Other hosts than this one need tokens (psrl-pomdp token).",
)
@click.option("--port", type=click.IntRange(0, 65535), default=8642, show_default=True)
def command(plant: str, database: str, host: str, port: int) -> None:
    """Take observations over HTTP, answer with actions.

    The file describes the plant: the model, the prior, the fallback action. Every observation and every
    decision is on the disk before the answer is sent; a restart goes on exactly, also after a kill or a power
    failure. The log is JSON lines on stderr. SIGTERM or Ctrl-C stops the service.
    """
    wanted_packages()
    from ..live.config import read_plant
    from ..live.server import log_as_json, serve

    found = read_plant(plant)
    log_as_json()
    serve(
        found,
        database,
        host,
        port,
        started=lambda url: click.echo(f"{found.name}: {url}"),
    )
