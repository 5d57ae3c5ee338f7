"""`psrl-pomdp sensitivity`: the regret that errors in the observation model cause."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidModelError
from .common import (
    console,
    find_model,
    json_option,
    model_argument,
    parameter_option,
    plain,
    print_json,
    watched,
)

if TYPE_CHECKING:
    from ..analysis import RegretCurve
    from ..studies.sensor_sensitivity import SensorSensitivity

INTERRUPTED = 130  # the exit code after Ctrl-C
OLD_NAME = "doubt"  # of the command; it works until version 0.4
_EXAMPLES = """\b
Examples:
  psrl-pomdp sensitivity railway --range 0.05 --horizon 500
  psrl-pomdp sensitivity my-model.pomdp --horizon 500 --seeds 4 --json
"""


@click.command(
    "sensitivity",
    epilog=_EXAMPLES,
    short_help="Estimate the regret that errors in the observation model cause.",
)
@model_argument("what")
@parameter_option
@click.option(
    "--range", "radius", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.1,
    show_default=True, help="The largest error of a probability of an observation.",
)  # fmt: skip
@click.option(
    "--horizon", type=click.IntRange(min=1), default=2000, show_default=True, help="Steps of each run."
)
@click.option(
    "--seeds", type=click.IntRange(min=2), default=8, show_default=True,
    help="Random observation models for each size of error.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all random numbers."
)
@click.option(
    "--cells",
    type=click.IntRange(min=2),
    metavar="K",
    help="Put the observations of a density into K cells.  [default: a density is an error]",
)
@click.option(
    "--worth", type=click.FloatRange(min=0, min_open=True), default=50.0, show_default=True,
    help="Observations in each state that the wrong observation model is worth to the agent that learns it.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Number of processes.  [default: one per core]"
)
@json_option
def command(
    what: str,
    parameters: tuple[str, ...],
    radius: float,
    horizon: int,
    seeds: int,
    seed: int,
    cells: int | None,
    worth: float,
    workers: int | None,
    as_json: bool,
) -> None:
    """Estimate the regret that errors in the observation model cause.

    The simulated system has the observation model of the problem. The agents use random observation models,
    in which no probability is wrong by more than a quarter, a half and all of --range. The first agent knows
    the transition probabilities, and the second learns them from a Dirichlet prior. The third agent learns
    the observation model, too: the wrong model is an estimate for it, worth --worth observations in each
    state. The table has one row for each size of error: the regret of the agents with half the width of a
    95 % interval, the share of actions in which the first agent differs from the optimal policy, and the
    share of runs in which the observations gave each agent an alarm, at a false-alarm rate of 1 %. In the
    first row the error is 0. A density of observations has no probabilities that could be wrong: --cells
    replaces it by K cells, for the simulated system, too. No file is written. The exit code is 0, or 1 after
    an error, which is described on stderr. After Ctrl-C it is 130, and the rows that are complete are
    printed.
    """
    from ..inference.choosing import dirichlet_prior_of
    from ..studies.executors import local
    from ..studies.sensor_sensitivity import sensitivity_by_radius
    from ..studies.variants import in_cells

    model = find_model(what, parameters)
    if cells is not None:
        model = in_cells(model, cells)
    elif not model.setting.is_finite:
        raise InvalidModelError(
            f"{what} has {model.setting.sensor.described()}, which have no table whose entries could be "
            "wrong; --cells K puts them into K cells"
        )
    radii = (0.0, 0.25 * radius, 0.5 * radius, radius)
    rows: list[dict[str, Any]] = []
    try:
        with local(workers or os.cpu_count() or 1) as pool:
            found = sensitivity_by_radius(
                model, radii, dirichlet_prior_of(model), horizon, seeds, seed, worth=worth, executor=pool,
                progress=_progress,
            )  # fmt: skip
            rows.extend(map(_row, found))
    except KeyboardInterrupt:
        if not rows:
            raise
    document = {
        "problem": what,
        "horizon": horizon,
        "seeds": seeds,
        "unit": model.setting.units.total_name,
        "rows": rows,
    }
    if click.get_current_context().info_name == OLD_NAME:
        document["doubts"] = [_old_row(row) for row in rows]
    if as_json:
        print_json(document)
    else:
        _print(document)
    if len(rows) < len(radii):
        click.echo(f"interrupted: {len(rows)} of {len(radii)} sizes of error are complete", err=True)
        click.get_current_context().exit(INTERRUPTED)


def _progress(done: int, total: int) -> None:
    if watched():
        click.echo(f"\r{done} of {total} runs", err=True, nl=done == total)


def _row(found: SensorSensitivity) -> dict[str, Any]:
    row: dict[str, Any] = {"range": found.radius, "other_action": found.other_action}
    for name in ("known_dynamics", "learned_dynamics"):
        row[name] = _regret_of(getattr(found, name))
    row["learned_sensor"] = None if found.learned_sensor is None else _regret_of(found.learned_sensor)
    row["alarms"] = [None if math.isnan(share) else share for share in found.alarms]
    return row


def _regret_of(curve: RegretCurve) -> dict[str, Any]:
    low, high = curve.interval
    return {"regret": float(curve.middle[-1]), "interval": [float(low[-1]), float(high[-1])]}


def _old_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with the keys of `psrl-pomdp doubt --json`."""
    return {
        "range": row["range"],
        "other_action": row["other_action"],
        "knows": row["known_dynamics"],
        "learns": row["learned_dynamics"],
    }


def _print(document: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    unit = f" [{document['unit']}]" if document["unit"] else ""
    runs = f"{document['horizon']} steps of {document['problem']}{unit}"
    title = f"Regret after {runs}, {document['seeds']} observation models"
    out.print(Text(plain(title), style="bold"))
    table = Table(box=None, pad_edge=False)
    columns = (
        "largest error",
        "known dynamics",
        "learned dynamics",
        "learned sensor",
        "other actions",
        "alarms",
    )
    for name in columns:
        table.add_column(name, justify="right")
    for row in document["rows"]:
        regrets = [_regret(row[name]) for name in ("known_dynamics", "learned_dynamics", "learned_sensor")]
        alarms = " ".join("-" if share is None else f"{share:.0%}" for share in row["alarms"])
        table.add_row(f"{row['range']:g}", *regrets, f"{row['other_action']:.1%}", alarms)
    out.print(table)


def _regret(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-"
    low, high = found["interval"]
    return f"{found['regret']:.4g} ± {0.5 * (high - low):.2g}"
