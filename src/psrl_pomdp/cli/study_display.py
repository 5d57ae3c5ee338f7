"""The progress of a running study, and the text that is printed at its end."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ..errors import PSRLError
from ..registry import BUILT_IN
from .common import Command, console, note, plain, plain_error, print_json, watched

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from ..studies.runner import Progress
    from ..studies.store import Store

_NUMBER = re.compile(r"\d+")
_EVERY = 4.0  # seconds between lines of progress where nobody watches a terminal


def _known_engine(context: click.Context, option: click.Parameter, value: str) -> str:
    """Return the name of an engine; an unknown one is an error before anything is written."""
    from ..studies.executors import plugin_of

    try:
        plugin_of(value)
    except PSRLError as error:
        raise click.BadParameter(str(error)) from None
    return value


def engine_options(command: Command) -> Command:
    """--workers and --engine."""
    command = click.option(
        "--engine",
        default="local",
        show_default=True,
        metavar="ENGINE",
        callback=_known_engine,
        help=f"Where the runs are computed: {', '.join(BUILT_IN['executors'])}, dask://HOST:PORT, "
        "ray://HOST:PORT, or a plug-in.",
    )(command)
    return click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of processes.  [default: one per core]",
    )(command)


def show_and_run(
    store: Store,
    workers: int | None,
    engine: str,
    *,
    in_turn: bool = False,
    news: Callable[[Progress], list[str]] | None = None,
) -> Progress:
    """Run what is missing, and say on stderr how far it is: in one line that changes, or a line now and then.

    `news` is asked after every change for lines that are ready to be printed on stdout.
    """
    from ..studies.runner import run

    line = _Line(news)
    try:
        if not watched():
            return run(store, workers=workers, engine_name=engine, report=line, in_turn=in_turn)
        from rich.console import Console
        from rich.live import Live

        with Live(line, console=Console(stderr=True), transient=True, refresh_per_second=4) as live:
            line.live = live
            return run(store, workers=workers, engine_name=engine, report=line, in_turn=in_turn)
    except KeyboardInterrupt:
        click.echo(f"interrupted; go on with: psrl-pomdp resume {store.folder}", err=True)
        raise


class _Line:
    """The line of progress, which a terminal shows and redraws several times a second.

    If stderr is no terminal, the line is printed every few seconds. A failure is reported at once.
    """

    def __init__(self, news: Callable[[Progress], list[str]] | None) -> None:
        self.progress: Progress | None = None
        self.live: Live | None = None
        self._news = news
        self._shown: set[tuple[str, str]] = set()  # complaints, without the number of the run and of the step
        self._written = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        self.progress = progress
        for text in [*progress.notes, *progress.failures]:
            self._complain(text)
        if self._news is not None:
            self._print(self._news(progress))
        unfinished = progress.done < progress.total
        if self.live is None and unfinished and time.monotonic() - self._written > _EVERY:
            self._written = time.monotonic()
            note(self._count())

    def _complain(self, text: str) -> None:
        """Print a note or a failure on stderr, and of failures that differ in numbers only the first one."""
        job, colon, why = text.partition(": ")
        like = (job.rpartition("-")[0] if colon else job, _NUMBER.sub("", why))
        if like not in self._shown:
            self._shown.add(like)
            click.echo(plain_error(text), err=True)

    def _print(self, lines: list[str]) -> None:
        """Print on stdout, with the changing line out of the way."""
        if not lines:
            return
        if self.live is not None:
            self.live.stop()
        for text in lines:
            click.echo(text)
        sys.stdout.flush()
        if self.live is not None:
            self.live.start()

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(self.words(), no_wrap=True, overflow="ellipsis")

    def words(self) -> str:
        if self.progress is None:
            return "starting ..."
        if self._news is not None:  # which prints what came out
            return self._count()
        regrets = self.progress.regrets.items()
        means = [f"{agent} {short(sum(values) / len(values))}" for agent, values in regrets]
        return f"{self._count()}; regret so far: {', '.join(means)}" if means else self._count()

    def _count(self) -> str:
        assert self.progress is not None
        now, left = self.progress, self.progress.seconds_left
        parts = [f"{now.done} of {now.total} runs"]
        if left is not None:
            parts.append(f"about {_duration(left)} left")
        if now.failures:
            parts.append(f"{len(now.failures)} failed")
        return ", ".join(parts)


def short(value: float) -> str:
    """Return a number for a narrow table: whole from 100 on, else with three digits, never as 1e+04.

    >>> [short(x) for x in (34140.2, -138.6, 12.34, 0.01234)]
    ['34,140', '-139', '12.3', '0.0123']
    """
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def _duration(seconds: float) -> str:
    """Return a duration with a suitable unit.

    >>> [_duration(s) for s in (5, 90, 7300)]
    ['5 s', '2 min', '2.0 h']
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def finish(store: Store, progress: Progress, parquet: bool, as_json: bool) -> None:
    """Tables into the folder, and a summary."""
    from ..studies.study_results import StudyResults
    from ..studies.summary import summarize
    from ..studies.tables import write_tables

    results, written, unwritten = StudyResults(store), [], ""
    try:
        written = write_tables(results, parquet)
    except OSError as error:  # such as a full disk: the summary does not need them
        unwritten = f"the tables cannot be written: {error}; psrl-pomdp resume {store.folder} writes them"
    document = summarize(results) | {"failures": progress.failures, "folder": str(store.folder)}
    if as_json:
        print_json(document)
    else:
        _print(document)
        names = f" ({', '.join(path.name for path in written)})" if written else ""
        click.echo(f"results: {store.folder}{names}")
    if unwritten:
        click.echo(plain_error(unwritten), err=True)
    exit_if_failed(store, progress)
    if unwritten:
        click.get_current_context().exit(1)


def exit_if_failed(store: Store, progress: Progress) -> None:
    """Say on stderr how many runs failed and of which agents, and exit with code 1; nothing if none did."""
    if not progress.failures:
        return
    agents = Counter(text.partition(": ")[0].rpartition("-")[0] for text in progress.failures)
    failed = f"{len(progress.failures)} of {progress.total} runs failed"
    which = ", ".join(f"{count} of {agent}" for agent, count in agents.items())
    log, again = store.folder / "log.jsonl", f"psrl-pomdp resume {store.folder}"
    click.echo(plain_error(f"{failed} ({which}); {log} says why, and {again} runs them again"), err=True)
    click.get_current_context().exit(1)


def _print(document: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    out.print(Text(plain(document["title"]), style="bold"))
    table = Table(box=None, pad_edge=False)
    for name in ("agent", "runs", "regret", "95 % of it", "growth"):
        table.add_column(name)
    for row in document["agents"]:
        interval = " to ".join(map(short, row["interval"])) if row["interval"] else "one run only"
        table.add_row(
            Text(plain(row["agent"])), str(row["runs"]), short(row["regret"]), interval,
            Text(plain(row["growth"])),
        )  # fmt: skip
    out.print(table)
