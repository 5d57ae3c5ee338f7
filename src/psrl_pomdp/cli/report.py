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


@click.command("report", short_help="Write a study as one page, with its figures.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where the page goes.  [default: DIR/report.html]",
)
@click.option(
    "--figures",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Also write the figures there, as SVG and PDF.",
)
@click.option(
    "--replay", type=click.IntRange(min=0), default=300, show_default=True, metavar="N",
    help="Steps of one run that the page can play; 0 for none.",
)  # fmt: skip
@json_option
def command(folder: Path, out: Path | None, figures: Path | None, replay: int, as_json: bool) -> None:
    """Write one page about a study: what was asked, what came out, and how to repeat it.

    The page is a single file that works offline, on a phone and on paper, with interactive
    figures and the numbers behind each of them. The page of an unfinished study shows what there is so far.

    \b
    Examples:
      psrl-pomdp report tiger-results
      psrl-pomdp report tiger-results --out tiger.html --figures figures
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
    """Says on stderr what is being worked at, once it has taken longer than a second."""
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
