"""`psrl-pomdp problems`: the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .common import console, json_option, print_json, print_rows

if TYPE_CHECKING:
    from ..models import Setting

_EXAMPLES = """\b
Examples:
  psrl-pomdp problems
  psrl-pomdp show river-swim
"""


@click.command("problems", epilog=_EXAMPLES, short_help="List the problems of the library.")
@json_option
def command(as_json: bool) -> None:
    """List the problems of the library.

    The table has a row for each problem: its name, the numbers of states (S), actions (A) and observations
    (O), the number of kernels of its finite prior if it has one, and a title. The names of problems from
    other packages come below the table. --json adds the parameters.
    """
    from ..problems import catalogue, problem
    from ..registry import BUILT_IN, names

    rows: list[dict[str, Any]] = []
    for entry in catalogue():
        model = problem(entry.name)
        rows.append(
            {
                "name": entry.name,
                "states": model.n_states,
                "actions": model.n_actions,
                "observations": observations_of(model.setting),
                "family": len(model.family) if model.family else 0,
                "title": entry.title,
                "parameters": entry.parameters,
            }
        )
    if as_json:
        print_json(rows)
        return
    if console().width < 80:
        print_rows([(_sizes(row), row["title"]) for row in rows], narrow=1000)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("name", no_wrap=True)
    for column in ("S", "A", "O", "kernels"):
        table.add_column(column, justify="right")
    table.add_column("what it is about")
    for row in rows:
        sizes = (str(row[key]) for key in ("states", "actions", "observations"))
        table.add_row(row["name"], *sizes, str(row["family"] or "-"), row["title"])
    console().print(table)
    if others := [name for name in names("problems") if name not in BUILT_IN["problems"]]:
        click.echo(f"\nOther packages bring: {', '.join(others)}.")
    click.echo(
        "\nS states, A actions, O observations; kernels: the size of the finite prior, if there is one."
    )


def observations_of(setting: Setting) -> int | str:
    """Return the number of observations; "real" or "counts" if there are infinitely many."""
    if setting.is_finite:
        return setting.n_observations
    if getattr(setting.sensor, "is_discrete", False):
        return "counts"
    dimension = getattr(setting.sensor, "dimension", None)
    return "real" if dimension is None else f"vectors of {dimension}"


def _sizes(row: dict[str, Any]) -> str:
    sizes = ", ".join(f"{row[key]} {key}" for key in ("states", "actions", "observations"))
    return f"{row['name']} ({sizes})"
