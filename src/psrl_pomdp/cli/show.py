"""`psrl-pomdp show`: one model, in words and numbers."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click

from .common import (
    console,
    find_model,
    json_option,
    model_argument,
    normalize_option,
    parameter_option,
    plain,
    print_json,
    print_rows,
)
from .sensor_words import parameters_in_words, sensor_facts

if TYPE_CHECKING:
    from ..models import POMDP
    from ..problems import Problem

_MOST_LISTED = 12
_EXAMPLES = """\b
Examples:
  psrl-pomdp show tiger -p accuracy=0.9
  psrl-pomdp show my-model.pomdp --json
"""


@click.command("show", epilog=_EXAMPLES, short_help="Summarize a problem or a model file, and check it.")
@model_argument("model")
@parameter_option
@normalize_option
@json_option
def command(model: str, parameters: tuple[str, ...], normalize: bool, as_json: bool) -> None:
    """Summarize a problem of the library or a model file, and check it for mistakes.

    The output has the states, actions and observations, the range of the costs or rewards, the initial
    distribution, the sensor and the structure of the transitions. For a problem of the library it also has
    the parameters, the source and the assumptions of the paper. Findings of the check come last. A FILE ends
    in .pomdp, .pomdpx, .json or .npz. The exit code is 0, or 1 if the model cannot be read.
    """
    found = find_model(model, parameters, normalize)
    summary = summarize(found)
    if as_json:
        print_json(summary)
    else:
        print_summary(summary)


def summarize(model: POMDP) -> dict[str, Any]:
    """Everything that `show` knows about a model, as plain data."""
    import numpy as np

    from ..models.structure import analyze_structure
    from ..problems import as_problem
    from ..testing.checks import check_model

    setting, facts = model.setting, analyze_structure(model)
    own, units = setting.own_cost, setting.units
    summary: dict[str, Any] = {
        "name": model.name,
        "states": list(setting.states),
        "actions": list(setting.actions),
        "observations": list(setting.observations) if setting.is_finite else [],
        "sensor": sensor_facts(setting),
        "first_sensor": sensor_facts(setting, first=True) if setting.has_first_observation else None,
        "values": {
            "kind": units.kind,
            "unit": units.name,
            "least": float(own.min()),
            "most": float(own.max()),
            "scale": [units.low, units.high],
        },
        "start": {
            setting.names.state(int(s)): float(setting.initial[s]) for s in np.flatnonzero(setting.initial)
        },
        "sensor_depends_on_action": setting.sensor_depends_on_action,
        "sensor_depends_on_previous": setting.sensor_depends_on_previous,
        "reads_before_first_action": setting.has_first_observation,
        "structure": {
            "communicating": facts.communicating,
            "weakly_communicating": facts.weakly_communicating,
            "weakly_communicating_from_start": facts.weakly_communicating_from_start,
            "recurrent_classes": [
                {
                    "states": [setting.names.state(s) for s in c.states],
                    "closed": c.closed,
                    "period": c.period,
                }
                for c in facts.recurrent_classes
            ],
            "aperiodic": facts.aperiodic,
            "transient_states": [setting.names.state(s) for s in facts.transient_states],
            "reachable_states": len(facts.reachable_states),
            "perfect_observation": facts.perfect_observation,
            "sensor_margin": facts.sensor_margin,
            "smallest_positive_transition": float(model.transition[model.transition > 0].min()),
        },
        "findings": [issue.to_dict() for issue in check_model(model)],
    }
    found = as_problem(model)
    return summary if found is None else summary | _problem_facts(found)


def _problem_facts(model: Problem) -> dict[str, Any]:
    from dataclasses import asdict

    from ..analysis.separation import separation

    facts: dict[str, Any] = {
        "title": model.entry.title,
        "about": model.entry.about,
        "source": model.entry.source,
        "parameters": model.parameters,
        "assumptions": asdict(model.entry.assumptions),
    }
    if model.family is not None:
        facts["family"] = {"kernels": len(model.family), "epsilon": separation(model.family).epsilon}
    return facts


def print_summary(summary: dict[str, Any]) -> None:
    """Print the description of a model."""
    from rich.text import Text

    out = console()
    name = plain(summary["name"] or "a model")
    out.print(Text(name, style="bold"), Text(summary.get("title", "")), sep="  ")
    if "about" in summary:
        out.print()
        for paragraph in summary["about"].split("\n\n"):
            out.print(Text(textwrap.dedent(paragraph).replace("\n", " ")))
    out.print()
    print_rows(_rows(summary))
    _print_findings(out, summary["findings"])


def _print_findings(out: Any, findings: list[dict[str, str]]) -> None:
    from rich.text import Text

    styles = {"error": "bold red", "warning": "yellow", "info": "dim"}
    if findings:
        out.print()
    for finding in findings:
        line = Text(f"{finding['severity']}: ", style=styles[finding["severity"]])
        out.print(line.append(plain(finding["text"]), style="default"))


def _rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    facts, values = summary["structure"], summary["values"]
    unit = f" {values['unit']}" if values["unit"] else ""
    rows = [
        ("states", _count_and_names(summary["states"])),
        ("actions", _count_and_names(summary["actions"])),
        *_observations(summary),
        (values["kind"], f"{values['least']:g} to {values['most']:g}{unit}"),
        ("start", _start(summary["start"], len(summary["states"]))),
        (
            "first observation",
            "before the first action" if summary["reads_before_first_action"] else "after it",
        ),
        ("sensor", _sensor(summary)),
        ("dynamics", _dynamics(facts)),
    ]
    if "family" in summary:
        family = summary["family"]
        rows.append(
            ("finite family", f"{family['kernels']} kernels, separated by ε ≥ {family['epsilon']:.3g}")
        )
    if "assumptions" in summary:
        labels = ("1 Bellman", "2 separation", "3 belief", "4 kernel")
        texts = summary["assumptions"].values()
        rows += [(f"assumption {label}", text) for label, text in zip(labels, texts, strict=True)]
        rows.append(("parameters", ", ".join(f"{k}={v}" for k, v in summary["parameters"].items()) or "none"))
        rows.append(("source", summary["source"]))
    return rows


def _observations(summary: dict[str, Any]) -> list[tuple[str, str]]:
    sensor = summary["sensor"]
    if sensor["is_finite"]:
        return [("observations", _count_and_names(summary["observations"]))]
    rows: list[tuple[str, str]] = []
    for label, found in (("observations", sensor), ("before the actions", summary["first_sensor"])):
        if found is not None and (found != sensor or not rows):
            words = parameters_in_words(found["parameters"], summary["states"], summary["actions"])
            rows.append((label, "; ".join([found["described"], *words])))
    return rows


def _count_and_names(names: list[str]) -> str:
    if names == [str(i) for i in range(len(names))]:
        return str(len(names))
    more = f", and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"{len(names)}: {', '.join(names[:_MOST_LISTED])}{more}"


def _start(start: dict[str, float], n_states: int) -> str:
    if len(start) == 1:
        return f"always {next(iter(start))}"
    if max(start.values()) - min(start.values()) < 1e-12:
        return "uniform" if len(start) == n_states else f"uniform over {', '.join(start)}"
    shown = [f"{name} {p:.3g}" for name, p in list(start.items())[:_MOST_LISTED]]
    return ", ".join(shown) + (" ..." if len(start) > _MOST_LISTED else "")


def _sensor(summary: dict[str, Any]) -> str:
    facts = summary["structure"]
    by_action = (
        "changes with the action" if summary["sensor_depends_on_action"] else "the same for all actions"
    )
    if summary["sensor_depends_on_previous"]:
        by_action += " and with the state before it"
    classes = "" if summary["sensor"]["is_finite"] else f" of {summary['sensor']['classes']} classes"
    if facts["perfect_observation"]:
        return f"{by_action}; shows the state"
    return f"{by_action}; smallest singular value{classes} {facts['sensor_margin']:.3g}"


def _dynamics(facts: dict[str, Any]) -> str:
    if facts["communicating"]:
        kind = "communicating"
    elif facts["weakly_communicating"]:
        kind = "weakly communicating"
    elif facts["weakly_communicating_from_start"]:
        kind = "weakly communicating from the start, not everywhere"
    else:
        kind = f"{len(facts['recurrent_classes'])} recurrent classes"
    return f"{kind}, {'aperiodic' if facts['aperiodic'] else 'periodic'}"
