"""`psrl-pomdp fit`: from a CSV file with the logs of many units to a fleet that has learned from them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidModelError
from .common import (
    complete_problem,
    find_model,
    json_option,
    known_prior,
    parameter_option,
    plain,
    print_json,
    watched,
)

if TYPE_CHECKING:
    from ..models import POMDP
    from ..protocols import Prior

_SHOWN_AFTER = 1.0  # seconds
_EXAMPLES = """\b
Examples:
  psrl-pomdp fit logs.csv --model pump.json --unit pump --time date
  psrl-pomdp fit logs.csv --model plant.toml --gap-action run -o fleet.npz
  psrl-pomdp fit logs.csv --model pump.json --reading mm_s --state finding
  psrl-pomdp diagnose fleet.npz
"""


@click.command("fit", epilog=_EXAMPLES, short_help="Learn from a CSV file with the logs of many units.")
@click.argument("logs", metavar="LOGS.csv")
@click.option(
    "--model", "what", required=True, metavar="NAME|FILE", shell_complete=complete_problem,
    help="A problem of the library, a model file, or a TOML file with `model` and `prior`.",
)  # fmt: skip
@parameter_option
@click.option(
    "--prior", metavar="NAME", callback=known_prior,
    help="What is assumed of the dynamics: finite, dirichlet, or a plug-in.  [default: that of the TOML "
    "file, else the problem's own]",
)  # fmt: skip
@click.option(
    "--sensor-worth", type=click.FloatRange(min=0, min_open=True), metavar="N",
    help="Learn the observation model, too: that of the model is worth N observations in each state.  "
    "[default: it is exact]",
)  # fmt: skip
@click.option("--unit", default="unit", show_default=True, help="The column with the name of the unit.")
@click.option("--time", "when", default="time", show_default=True, help="The column with numbers or dates.")
@click.option(
    "--reading", "readings", multiple=True, default=("reading",), show_default=True,
    help="The column with the observations; several for vectors.",
)  # fmt: skip
@click.option(
    "--action", default="action", show_default=True, help="The column with the action after the observation."
)
@click.option(
    "--cost", metavar="COLUMN",
    help="The column with the cost of the action, if the model says that costs are seen.  [default: none]",
)  # fmt: skip
@click.option(
    "--state", metavar="COLUMN",
    help="A column with true states, where known, which are compared with the observations.  [default: none]",
)  # fmt: skip
@click.option(
    "--gap-action", metavar="ACTION",
    help="The action at times that are missing in the file.  [default: a gap counts as one step]",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all random numbers."
)
@click.option(
    "-o", "--output", default="fleet.npz", show_default=True, metavar="FLEET.npz",
    help="The file to write; an older one is replaced.",
)  # fmt: skip
@json_option
def command(
    logs: str,
    what: str,
    parameters: tuple[str, ...],
    prior: str | None,
    sensor_worth: float | None,
    unit: str,
    when: str,
    readings: tuple[str, ...],
    action: str,
    cost: str | None,
    state: str | None,
    gap_action: str | None,
    seed: int,
    output: str,
    as_json: bool,
) -> None:
    """Learn from a CSV file with the logs of many units, and write a fleet.

    The first line of the file names its columns. Every other line has the observation of one unit at one
    time, and the action that was taken after it. Lines may be in any order. Observations, actions and states
    are the names or the numbers of the model; an empty field, NA or nan is a missing observation. The last
    line of a unit may lack its action.

    All units are assumed to have the same dynamics, which are learned, whatever the model says of them. If
    lines cannot be used, each of them is named on stderr with its number, its column and what is allowed, and
    nothing is written. What merely looks wrong is a warning: gaps in time, states whose observations are
    alike, labels that contradict the sensor or the possible transitions, and units whose observations do not
    come as the model predicts them.

    The fleet is a file for `psrl-pomdp diagnose` and `Fleet.load`. The exit code is 0, or 1 after an error.
    """
    from ..agents.log_fitting import fit_logs
    from ..agents.log_tables import BadLinesError

    if Path(output).suffix.lower() != ".npz":
        raise click.UsageError(f"--output {output}: the name of a fleet ends in .npz")
    chosen = _prior(what, parameters, prior, sensor_worth, seed)
    columns: Any = readings[0] if len(readings) == 1 else readings
    try:
        found = fit_logs(
            logs, chosen, unit=unit, time=when, reading=columns, action=action, cost=cost, state=state,
            gap_action=gap_action, progress=_progress(), seed=seed,
        )  # fmt: skip
    except BadLinesError as error:
        click.echo(f"psrl-pomdp: {plain(error.path)}: {len(error.lines)} bad rows", err=True)
        for line in error.lines:
            click.echo(f"  {plain(line)}", err=True)
        click.get_current_context().exit(1)
    found.fleet.save(output)
    if as_json:
        print_json({**found.to_dict(), "output": output})
        return
    for line in str(found).splitlines():
        click.echo(plain(line))
    click.echo(f"Wrote {plain(output)}; psrl-pomdp diagnose {plain(output)} shows what was learned.")


def _prior(
    what: str, parameters: tuple[str, ...], name: str | None, sensor_worth: float | None, seed: int
) -> Prior:
    """Return the prior for a problem, a model file, or a TOML file that names one of them."""
    from ..studies.priors import prior_of

    wanted: Any = name or ""
    if what.lower().endswith(".toml"):
        what, given = _plant(Path(what))
        wanted = name or given
    model: POMDP = find_model(what, parameters)
    if sensor_worth is not None:
        if wanted not in ("", "dirichlet"):
            raise click.UsageError("--sensor-worth goes with --prior dirichlet")
        wanted = {"kind": "dirichlet", "sensor": {"worth": sensor_worth}}
    found: Prior = prior_of(model, wanted, (seed,))
    return found


def _plant(path: Path) -> tuple[str, Any]:
    """Return the model and the prior that a TOML file names; a path is relative to the file."""
    from .._serialization.reading import read_toml

    keys = read_toml(path, "a plant")
    model, prior = keys.get("model"), keys.get("prior", "")
    if not isinstance(model, str):
        raise InvalidModelError(f"{path.name}: model is {model!r}, not the name of a problem or a file")
    if not isinstance(prior, str) and not (isinstance(prior, dict) and isinstance(prior.get("kind"), str)):
        raise InvalidModelError(f"{path.name}: prior is {prior!r}, not a name or a table with `kind`")
    beside = path.parent / model
    return (str(beside) if beside.is_file() else model), prior


def _progress() -> Callable[[int, int], None] | None:
    """Return what shows a line of progress on a terminal after a second."""
    if not watched():
        return None
    begun = time.monotonic()

    def show(done: int, of: int) -> None:
        if time.monotonic() - begun < _SHOWN_AFTER:
            return
        end = "\r\x1b[K" if done == of else ""
        sys.stderr.write(f"\r{done} of {of} units, {time.monotonic() - begun:.0f} s{end}")
        sys.stderr.flush()

    return show
