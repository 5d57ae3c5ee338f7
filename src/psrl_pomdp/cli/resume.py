"""`psrl-pomdp resume`: what is missing of a study."""

from __future__ import annotations

from pathlib import Path

import click

from .common import json_option
from .study_display import engine_options, finish, show_and_run


@click.command("resume", short_help="Run what is missing of a study, after a crash or Ctrl-C.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
@engine_options
@click.option("--parquet", is_flag=True, help="Write tables as Parquet instead of CSV.")
@json_option
def command(folder: Path, workers: int | None, engine: str, parquet: bool, as_json: bool) -> None:
    """Run what is missing of a study, after a crash or Ctrl-C.

    Finished jobs are not run again. Damaged results are named, and their jobs are run again. Long jobs go
    on from their last checkpoint. The results are the same bytes as without the interruption.

    \b
    Example:
      psrl-pomdp resume separated-finite --workers 2
    """
    from ..studies.store import Store

    store = Store.open(folder)
    progress = show_and_run(store, workers, engine)
    finish(store, progress, parquet, as_json)
