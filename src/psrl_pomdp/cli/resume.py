"""`psrl-pomdp resume`: run the runs of a study that have no result."""

from __future__ import annotations

from pathlib import Path

import click

from .common import json_option
from .study_display import engine_options, finish, show_and_run

_EXAMPLES = """\b
Examples:
  psrl-pomdp resume tiger-results
  psrl-pomdp resume railway-comparison --workers 1
"""


@click.command(
    "resume", epilog=_EXAMPLES, short_help="Compute the missing runs of a study, after a crash or Ctrl-C."
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
@engine_options
@click.option("--parquet", is_flag=True, help="Write tables as Parquet instead of CSV; needs pyarrow.")
@json_option
def command(folder: Path, workers: int | None, engine: str, parquet: bool, as_json: bool) -> None:
    """Compute the missing runs of a study, after a crash or Ctrl-C.

    DIR is the folder of a study of `run`, `compare` or `demo`. Finished runs are not repeated. A damaged
    result is named, and its run is repeated. A long run continues from its last checkpoint. The results are
    the same, byte by byte, as without the interruption. The output, the files and the exit codes are those of
    `psrl-pomdp run`; `psrl-pomdp compare DIR` then prints a comparison.
    """
    from ..studies.store import Store

    store = Store.open(folder)
    progress = show_and_run(store, workers, engine)
    finish(store, progress, parquet, as_json)
