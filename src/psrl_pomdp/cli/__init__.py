"""The command `psrl-pomdp`: one file per command, which is imported when the command is called.

A command imports the modules that it computes with inside its function, so that `--help` does not wait for
scipy.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path

import click

from .._version import __version__
from ..errors import PSRLError, did_you_mean
from ..registry import search_current_directory
from .common import be_quiet, note, plain_error

# Command -> its module here; the order is the order of the help.
_COMMANDS = (
    "demo", "problems", "show", "solve", "verify", "certificate", "check", "run", "resume", "compare",
    "report", "sensitivity", "fit", "diagnose", "serve", "token", "audit", "export", "rollback", "plugins",
    "completion",
)  # fmt: skip
_RENAMED = {"doubt": "sensitivity"}  # not listed, but understood until version 0.4


class _Commands(click.Group):
    """Finds commands by the name of their module."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        name = _RENAMED.get(name, name)
        if name not in _COMMANDS:
            return None
        command: click.Command = import_module(f".{name}", __name__).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in (*_COMMANDS, *_RENAMED):
            hint = did_you_mean(args[0], _COMMANDS)
            ctx.fail(f"no command is called {args[0]!r}{hint}; known are {', '.join(_COMMANDS)}")
        if args and args[0] in _RENAMED:
            new = _RENAMED[args[0]]
            note(f"psrl-pomdp {args[0]} is now psrl-pomdp {new}; the old name works until version 0.4")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="psrl-pomdp")
@click.option(
    "--debug", is_flag=True, help="Show the traceback of an error; can be given after the command too."
)
@click.option(
    "--quiet",
    is_flag=True,
    help="Print only errors and the output of --json; can be given after the command too.",
)
def cli(debug: bool, quiet: bool) -> None:
    """Learn to control systems whose state is hidden and whose dynamics are unknown.

    \b
    Start here:
      psrl-pomdp demo                     an example, within a minute
      psrl-pomdp problems                 the problems of the library
      psrl-pomdp show machine-repair      a summary of one problem
      psrl-pomdp show my-model.pomdp      a summary and a check of your model
      psrl-pomdp solve machine-repair     bounds on the optimal average, a policy
      psrl-pomdp verify plan.npz tiger    prove the bounds of a saved plan again
      psrl-pomdp certificate plan.npz tiger  write a proof that others can check
      psrl-pomdp check separated          which of the paper's assumptions hold
      psrl-pomdp run tiger                simulate agents, measure their regret
      psrl-pomdp resume tiger-results     continue after a crash or Ctrl-C
      psrl-pomdp compare railway          test which agent has less regret
      psrl-pomdp report tiger-results     write an HTML page about a study
      psrl-pomdp sensitivity railway      the cost of an inexact observation model
      psrl-pomdp fit logs.csv --model m   learn from the logs of many units
      psrl-pomdp diagnose fleet.npz       what was learned; does the model fit?
      psrl-pomdp serve plant.toml         observations in, actions out, over HTTP
      psrl-pomdp plugins                  list the agents, priors, executors, ...
    """


@contextmanager
def _silence(wanted: bool) -> Iterator[None]:
    """Nothing on stdout."""
    if not wanted:
        yield
        return
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        yield


def _told(error: Exception) -> str:
    """Return the message of an error; a system error has its file first, and no number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror[:1].lower()}{error.strerror[1:]}"
    return str(error)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors on purpose are one line on stderr and exit code 1."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ε gets a question mark
    debug, quiet = ("--debug" in words), ("--quiet" in words)
    words = [word for word in words if word not in ("--debug", "--quiet")]
    be_quiet(quiet)
    search_current_directory()
    try:
        with _silence(quiet and "--json" not in words):
            code = cli.main(args=words, prog_name="psrl-pomdp", standalone_mode=False)
    except click.ClickException as error:
        error.message = plain_error(error.message)  # type: ignore[misc]
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output left; saying so would fail too
        sys.exit(1)
    except (PSRLError, OSError) as error:
        if debug:
            traceback.print_exc()
        click.echo(f"psrl-pomdp: {plain_error(_told(error))}", err=True)
        sys.exit(1)
    if isinstance(code, int) and code:  # what click passes on of `ctx.exit(code)`
        sys.exit(code)
