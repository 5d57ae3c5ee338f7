"""`psrl-pomdp completion`: commands, options and problems at the press of a key."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_EXAMPLES = """\b
Examples:
  psrl-pomdp completion bash >> ~/.bashrc
  psrl-pomdp completion zsh >> ~/.zshrc
  psrl-pomdp completion fish > ~/.config/fish/completions/psrl-pomdp.fish
"""


@click.command(
    "completion", epilog=_EXAMPLES, short_help="Print a script that makes the shell complete commands."
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script with which the Tab key completes commands, options and names of problems.

    Append the script to the startup file of your shell, as in the examples, and open a new shell.
    """
    from . import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "psrl-pomdp", "_PSRL_POMDP_COMPLETE").source())
