"""How a running study looks, and what is printed when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..errors import did_you_mean
from .common import Command, console, plain, print_json, watched

if TYPE_CHECKING:
    from rich.text import Text

    from ..experiment.runner import Progress
    from ..experiment.store import Store

ENGINES = ("local", "dask", "ray")


def _known_engine(context: click.Context, option: click.Parameter, value: str) -> str:
    """Told before anything is written."""
    kind = value.split("://")[0]
    if kind not in ENGINES:
        raise click.BadParameter(f"{value!r} is none of {', '.join(ENGINES)}{did_you_mean(kind, ENGINES)}")
    return value


def engine_options(command: Command) -> Command:
    """--workers and --engine."""
    command = click.option(
        "--engine",
        default="local",
        show_default=True,
        metavar="ENGINE",
        callback=_known_engine,
        help="local, dask, ray, dask://HOST:PORT or ray://HOST:PORT.",
    )(command)
    return click.option(
        "--workers", type=click.IntRange(min=1), metavar="N", help="Processes.  [default: one a core]"
    )(command)


def show_and_run(store: Store, workers: int | None, engine: str) -> Progress:
    """Run what is missing, with a line on stderr that says how far it is."""
    from ..experiment.runner import run

    line = _Line()
    try:
        if not watched():
            return run(store, workers=workers, engine_name=engine, report=line)
        from rich.console import Console
        from rich.live import Live

        with Live(line, console=Console(stderr=True), transient=True, refresh_per_second=4):
            return run(store, workers=workers, engine_name=engine, report=line)
    except KeyboardInterrupt:
        click.echo(f"interrupted; go on with: psrl-pomdp resume {store.folder}", err=True)
        raise


class _Line:
    """Called after every change, drawn several times a second; failures are told as they happen."""

    def __init__(self) -> None:
        self.progress: Progress | None = None
        self._told = 0

    def __call__(self, progress: Progress) -> None:
        self.progress = progress
        for text in [*progress.notes, *progress.failures][self._told :]:
            click.echo(plain(text), err=True)
            self._told += 1

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(self.words(), no_wrap=True, overflow="ellipsis")

    def words(self) -> str:
        if self.progress is None:
            return "starting ..."
        now = self.progress
        left = now.seconds_left
        parts = [f"{now.done} of {now.total} runs"]
        if left is not None:
            parts.append(f"about {_duration(left)} left")
        parts += [f"{agent} {_mean(values):.4g}" for agent, values in now.regrets.items()]
        if now.failures:
            parts.append(f"{len(now.failures)} failed")
        return ", ".join(parts)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _duration(seconds: float) -> str:
    """
    >>> [_duration(s) for s in (5, 90, 7300)]
    ['5 s', '2 min', '2.0 h']
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def finish(store: Store, progress: Progress, parquet: bool, as_json: bool) -> None:
    """Tables into the folder, and a summary."""
    from ..experiment.summary import summarise
    from ..experiment.tables import write_tables

    written = write_tables(store, parquet)
    document = summarise(store) | {"failures": progress.failures, "folder": str(store.folder)}
    if as_json:
        print_json(document)
    else:
        _print(document)
        click.echo(f"results: {store.folder} ({', '.join(path.name for path in written)})")
    if progress.failures:
        click.echo(f"{len(progress.failures)} of {progress.total} runs failed", err=True)
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
        interval = "{:.5g} to {:.5g}".format(*row["interval"]) if row["interval"] else "one run only"
        table.add_row(
            Text(plain(row["agent"])), str(row["runs"]), f"{row['regret']:.5g}", interval,
            Text(plain(row["growth"])),
        )  # fmt: skip
    out.print(table)
