"""`psrl-pomdp diagnose`: what a saved fleet or agent has learned, and whether its model fits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidModelError, ParseError
from .common import console, json_option, plain, print_json

if TYPE_CHECKING:
    from ..agents.fleet import Fleet
    from ..agents.psrl import PSRLAgent

_MOST_UNITS = 10
_MOST_READINGS = 8
_EXAMPLES = """\b
Examples:
  psrl-pomdp fit logs.csv --model pump.json -o fleet.npz
  psrl-pomdp diagnose fleet.npz
  psrl-pomdp diagnose agent.npz --level 0.95 --json
"""


@click.command("diagnose", epilog=_EXAMPLES, short_help="What a saved fleet or agent has learned; alarms.")
@click.argument("path", metavar="FLEET.npz|AGENT.npz")
@click.option(
    "--level", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.9, show_default=True,
    help="The probability of intervals.",
)  # fmt: skip
@json_option
def command(path: str, level: float, as_json: bool) -> None:
    """Show what a saved fleet or agent has learned, and whether its observations come as predicted.

    The alarms come first. Under the model, the probability of any alarm over the whole life is at most the
    stated rate. Then come the units whose observations speak most against the model (an e-value of 100
    is evidence of 100 to 1), the observations that lately came most differently from what was expected, the
    mean and an interval of each unknown number beside those of the prior, and hidden states whose names
    cannot be learned. The exit code is 0 without an alarm, 3 with one, and 1 after an error.
    """
    found = loaded(path)
    document = diagnosis(found, level)
    if as_json:
        print_json(document)
    else:
        _show(document)
    if document["alarm"]:
        click.get_current_context().exit(3)


def loaded(path: str) -> Fleet | PSRLAgent:
    """Return the fleet or the agent in a file."""
    from .._serialization.reading import read_bytes
    from ..agents.fleet import Fleet
    from ..agents.psrl import PSRLAgent

    data, name = read_bytes(Path(path)), Path(path).name
    try:
        return Fleet.from_bytes(data)
    except InvalidModelError as error:
        of_fleet = error
    except ParseError as error:
        of_fleet = InvalidModelError(error.reason)
    try:
        return PSRLAgent.from_bytes(data)
    except (InvalidModelError, ParseError) as error:
        raise ParseError(f"neither a fleet ({of_fleet}) nor an agent ({error})", path=name) from None


def diagnosis(found: Fleet | PSRLAgent, level: float) -> dict[str, Any]:
    """Return everything that is shown, as plain data with texts."""
    from ..agents.fleet import Fleet
    from ..inference.labels import label_symmetries

    summary = getattr(found.posterior, "summary", None)
    labels = [each.text(found.setting) for each in label_symmetries(found.prior)]
    document: dict[str, Any] = {
        "kind": "fleet" if isinstance(found, Fleet) else "agent",
        "setting": repr(found.setting),
        "posterior": None if summary is None else summary(level).to_dict(),
        "posterior_text": "" if summary is None else str(summary(level)),
        "labels": labels,
    }
    if isinstance(found, Fleet):
        histories = [(unit.name, unit.posterior) for unit in found.all_units()]
        watch = found.watch
        document |= {"watch": watch.to_dict(), "watch_text": str(watch), "alarm": watch.alarm}
    else:
        histories, fit = [("agent", found.posterior)], found.fit
        document |= {
            "watch_text": str(fit or "Readings are not tested."),
            "alarm": fit is not None and fit.alarm(),
        }
    document["units"] = [_unit(name, posterior) for name, posterior in histories]
    document["readings"] = [
        {"unit": name, "deviations": each.deviations, "text": str(each)}
        for name, posterior in histories
        for each in getattr(posterior, "predictive_check", tuple)()
    ]
    return document


def _unit(name: str, posterior: Any) -> dict[str, Any]:
    """Return how many readings a unit has, and what they say about the model."""
    fit = getattr(posterior, "fit", None)
    return {
        "unit": name,
        "readings": int(getattr(posterior, "time", 0)),
        "log_e_value": None if fit is None else fit.log_e_value,
        "largest_log_e_value": None if fit is None else fit.largest_log_e_value,
    }


def _show(document: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    click.echo(f"{document['kind'].capitalize()}: {plain(document['setting'])}\n")
    for line in document["watch_text"].splitlines():
        click.echo(plain(line))
    tested = [unit for unit in document["units"] if unit["largest_log_e_value"] is not None]
    if len(tested) > 1:
        worst = sorted(tested, key=lambda unit: -unit["largest_log_e_value"])[:_MOST_UNITS]
        table = Table(box=None, pad_edge=False, title_justify="left")
        for title in ("unit", "readings", "largest e-value", "now"):
            table.add_column(title, justify="left" if title == "unit" else "right")
        for unit in worst:
            values = (_power(unit[key]) for key in ("largest_log_e_value", "log_e_value"))
            table.add_row(Text(plain(unit["unit"])), f"{unit['readings']:,}", *values)
        click.echo(f"\nUnits, the strangest first ({len(worst)} of {len(tested)})")
        console().print(table)
    strange = sorted(document["readings"], key=lambda each: -abs(each["deviations"]))[:_MOST_READINGS]
    if strange:
        click.echo("\nReadings that lately came most differently from what was expected")
        for each in strange:
            click.echo(plain(f"  {each['unit']}: {each['text']} ({each['deviations']:+.1f} sd)"))
    click.echo("")
    for line in document["posterior_text"].splitlines():
        click.echo(plain(line))
    if document["labels"]:
        click.echo("\nNames of hidden states")
        for line in document["labels"]:
            click.echo(plain(f"  {line}"))


def _power(logarithm: float) -> str:
    """Return a number, given by its natural logarithm."""
    tens = logarithm / 2.302585092994046
    return f"{10.0**tens:,.3g}" if tens < 4.0 else f"10^{tens:.1f}"
