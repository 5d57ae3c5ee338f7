"""`psrl-pomdp doubt`: what a roughly known sensor may cost."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

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
    from ..studies.sensor_sensitivity import Doubt


@click.command("doubt", short_help="Estimate what a sensor that is only roughly known may cost.")
@model_argument("what")
@parameter_option
@click.option(
    "--range", "radius", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.1,
    show_default=True, help="Probabilities of readings may be wrong by this much.",
)  # fmt: skip
@click.option(
    "--horizon", type=click.IntRange(min=1), default=2000, show_default=True, help="Steps of a run."
)
@click.option("--seeds", type=click.IntRange(min=2), default=8, show_default=True, help="Sensors drawn.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of all randomness.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes.  [default: one a core]")
@json_option
def command(
    what: str,
    parameters: tuple[str, ...],
    radius: float,
    horizon: int,
    seeds: int,
    seed: int,
    workers: int | None,
    as_json: bool,
) -> None:
    """Give agents a sensor that is not quite the true one, and measure what it costs.

    Wrong sensors are drawn at random within a quarter, half and all of the range. Two agents use each of
    them: one knows the dynamics, and the other learns them from a Dirichlet prior. In the first row they use
    the true sensor: its figures are what learning costs anyway.

    \b
    Examples:
      psrl-pomdp doubt railway --range 0.05
      psrl-pomdp doubt my-model.pomdp --horizon 10000 --seeds 16 --json
    """
    from ..studies.executors import local
    from ..studies.jobs import dirichlet_of
    from ..studies.sensor_sensitivity import sensor_doubt

    model = find_model(what, parameters)
    radii = (0.0, 0.25 * radius, 0.5 * radius, radius)
    with local(workers or os.cpu_count() or 1) as pool:
        found = sensor_doubt(
            model,
            radii,
            prior=dirichlet_of(model),
            horizon=horizon,
            seeds=seeds,
            seed=seed,
            executor=pool,
            progress=_progress,
        )
    document = {
        "problem": what,
        "horizon": horizon,
        "seeds": seeds,
        "unit": model.setting.units.total_name,
        "doubts": [_row(doubt) for doubt in found],
    }
    if as_json:
        print_json(document)
    else:
        _print(document)


def _progress(done: int, total: int) -> None:
    if watched():
        click.echo(f"\r{done} of {total} runs", err=True, nl=done == total)


def _row(doubt: Doubt) -> dict[str, Any]:
    words: dict[str, Any] = {"range": doubt.radius, "other_action": doubt.other_action}
    for name, curve in (("knows", doubt.knows), ("learns", doubt.learns)):
        low, high = curve.interval
        words[name] = {"regret": float(curve.middle[-1]), "interval": [float(low[-1]), float(high[-1])]}
    return words


def _print(document: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    unit = f" [{document['unit']}]" if document["unit"] else ""
    runs = f"{document['horizon']} steps of {document['problem']}{unit}, {document['seeds']} sensors"
    words = f"Regret after {runs}"
    out.print(Text(plain(words), style="bold"))
    table = Table(box=None, pad_edge=False)
    for name in ("sensor wrong by", "knows the dynamics", "learns them", "other actions"):
        table.add_column(name, justify="right")
    for row in document["doubts"]:
        regrets = [
            f"{row[who]['regret']:.4g} ± {0.5 * (row[who]['interval'][1] - row[who]['interval'][0]):.2g}"
            for who in ("knows", "learns")
        ]
        table.add_row(f"{row['range']:g}", *regrets, f"{row['other_action']:.1%}")
    out.print(table)
