"""`psrl-pomdp report`: a study as one page for people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING

import click

from .common import json_option, note, plain, print_json

if TYPE_CHECKING:
    from ..report.page_data import ProgressCallback

_PATIENCE = 1.0  # seconds before anything is said
_EXAMPLES = """\b
Examples:
  psrl-pomdp report tiger-results
  psrl-pomdp report tiger-results --out tiger.html --figures figures
"""


@click.command("report", epilog=_EXAMPLES, short_help="Write an HTML page about a study, with its figures.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the page to this file.  [default: DIR/report.html]",
)
@click.option(
    "--figures",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Also write the figures to this folder, as SVG and PDF.  [default: only in the page]",
)
@click.option(
    "--replay", type=click.IntRange(min=0), default=300, show_default=True, metavar="N",
    help="Steps of one run that the page can replay; 0 for none.",
)  # fmt: skip
@json_option
def command(folder: Path, out: Path | None, figures: Path | None, replay: int, as_json: bool) -> None:
    """Write an HTML page about a study: the question, the results, and how to repeat it.

    DIR is the folder of a study of `run`, `compare` or `demo`. The page is one file that works offline, with
    interactive figures and the numbers behind them. The page of an unfinished study has the results so far.
    The command prints the main result and the name of the file. It needs the extra `report`:
    pip install "psrl-pomdp[report]". The exit code is 0, or 1 after an error, which is described on stderr.
    """
    from ..report.page import need_extras, write_page
    from ..report.page_text import size
    from ..studies.study_results import StudyResults

    need_extras()
    results = StudyResults.open(folder, skip_damaged=True)
    path = out or folder / "report.html"
    with _told_late() as say:
        written = write_page(results, path, figures=figures, steps=replay, say=say)
    if as_json:
        print_json(written)
        return
    for sentence in written["verdict"]:
        click.echo(plain(sentence))
    for text in written["notes"]:
        note(f"Note: {text}")
    if written["missing"]:
        note(f"{len(written['missing'])} of {written['runs_expected']} runs have no result")
    if figures is not None:
        click.echo(f"figures: {figures} ({len(written['figures'])} files)")
    click.echo(f"page: {path} ({size(written['bytes'])})")


@contextmanager
def _told_late() -> Iterator[ProgressCallback]:
    """Give a function that reports the present task on stderr if the work takes longer than a second."""
    now, talking = ["starting"], False

    def begin() -> None:
        nonlocal talking
        talking = True
        note(f"working on {now[0]} ...")

    def say(what: str) -> None:
        now[0] = what
        if talking:
            note(f"working on {what} ...")

    timer = Timer(_PATIENCE, begin)
    timer.daemon = True
    timer.start()
    try:
        yield say
    finally:
        timer.cancel()
