"""What several commands share: finding a model by name or file, and printing."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..registry import BUILT_IN

if TYPE_CHECKING:
    from rich.console import Console

    from ..models import POMDP

Command = TypeVar("Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
_quiet = False
_UNSEEN = re.compile(r"[^\n -~]")  # what may not be printable
_LONGEST = 1000  # characters of an error


def be_quiet(quiet: bool) -> None:
    """Whether only errors, and documents of --json, are wanted; set at the start of every command line."""
    global _quiet  # noqa: PLW0603 - a process has one command line
    _quiet = quiet


def watched() -> bool:
    """Return whether stderr is a terminal on which the user wants to see progress."""
    return sys.stderr.isatty() and not _quiet


def note(text: str) -> None:
    """Print a remark on stderr, unless the user asked for silence."""
    if not _quiet:
        click.echo(plain(text), err=True)


def complete_problem(context: click.Context, parameter: click.Parameter, begun: str) -> list[Any]:
    """Names of problems for the shell, and its own files."""
    from click.shell_completion import CompletionItem

    from ..registry import names as names_of

    names = [CompletionItem(name) for name in names_of("problems") if name.startswith(begun)]
    return names or [CompletionItem(begun, type="file")]


def model_argument(name: str, metavar: str = "NAME|FILE") -> Callable[[Command], Command]:
    """Return the argument of a command that is a problem of the library or a file."""
    return click.argument(name, metavar=metavar, shell_complete=complete_problem)


parameter_option = click.option(
    "-p",
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a parameter of a problem of the library, such as -p accuracy=0.9; may be repeated.  "
    "[default: as psrl-pomdp show NAME prints it]",
)


def known_prior(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Return the name of a prior; one that does not exist is refused before anything is done."""
    from ..errors import PSRLError
    from ..registry import find

    try:
        if value is not None:
            find("priors", value)
    except PSRLError as error:
        raise click.BadParameter(str(error)) from None
    return value


def prior_option(default: str) -> Callable[[Command], Command]:
    """--prior, with a description of its default."""
    return click.option(
        "--prior",
        metavar="NAME",
        callback=known_prior,
        help=f"Prior of the agents that use one: {', '.join(BUILT_IN['priors'])}, or a plug-in.  "
        f"[default: {default}]",
    )


seen_costs_option = click.option(
    "--seen-costs", is_flag=True, help="Let the agents see the cost of every step.  [default: they do not]"
)

normalize_option = click.option(
    "--normalize",
    is_flag=True,
    help="Rescale rows of probabilities in a file whose sum differs from 1 by at most 0.01.  "
    "[default: such a file is an error]",
)


def find_model(name_or_file: str, parameters: Sequence[str] = (), normalize: bool = False) -> POMDP:
    """Return the problem of this name, or the model in this file; `normalize` rescales its rows."""
    from ..io import endings, load
    from ..problems import is_problem, problem

    path = Path(name_or_file)
    if not is_problem(name_or_file) and (path.suffix.lower() in endings() or path.is_file()):
        if parameters:
            raise click.UsageError("a file has no parameters")
        return load(path, normalize=normalize)
    if normalize:
        raise click.UsageError("--normalize is for files; problems of the library need none")
    return problem(name_or_file, **dict(map(parameter, parameters)))


def folder_for(what: str, ending: str) -> Path:
    """Return the default folder for results, whose name comes from the problem, the file or the study."""
    from ..registry import is_path

    return Path(f"{what.rpartition(':')[2] if is_path(what) else Path(what).stem}-{ending}")


def parameter(text: str) -> tuple[str, Any]:
    """Return the name and the value in a text such as `accuracy=0.9`."""
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"parameter {text!r}: wanted NAME=VALUE")
    try:
        return name.replace("-", "_"), json.loads(value)
    except (ValueError, RecursionError):
        shown = value if len(value) <= 60 else f"{value[:60]}..."
        raise click.UsageError(
            f"parameter {name}: {shown!r} is neither number, list nor text in quotes"
        ) from None


def console() -> Console:
    """Where tables go; rich heeds NO_COLOR and pipes."""
    from rich.console import Console

    return Console(highlight=False)


def plain(text: str) -> str:
    """Return a text from a file without control characters, which could change the terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def plain_error(text: str) -> str:
    """Return an error message on one line, without control characters, and shortened if it is long."""
    shown = plain(text)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


def print_rows(rows: Sequence[Sequence[str]], narrow: int = 60) -> None:
    """Rows of a label and a text side by side, or the text under its label where there is no room."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    if out.width < narrow:
        for label, text in rows:
            out.print(Text(plain(label), style="dim"))
            out.print(Text(f"  {plain(text)}"))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(Text(plain(label)), Text(plain(text)))
    out.print(table)


def print_json(document: object) -> None:
    """Print a document as JSON, with invisible characters escaped."""
    click.echo(_UNSEEN.sub(_escape, json.dumps(document, indent=2, ensure_ascii=False)))


def _escape(found: re.Match[str]) -> str:
    """Return the JSON escape of an invisible character, which occurs only inside strings."""
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]
