"""A plan as plain data and as text: the output of `psrl-pomdp solve` and `psrl-pomdp verify`."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any

from .common import console, plain, print_rows

if TYPE_CHECKING:
    from ..models import POMDP, Units
    from ..planning import Plan, Round

_STATUS = {
    "closed": "closed: the gap is within the tolerance",
    "coarse": "coarse: the gap is within the tolerance, but above a fifth of the reference value",
    "time limit": "stopped at the time limit; more time may close the gap",
    "work limit": "stopped at the work limit; more work may close the gap",
    "memory limit": "stopped at the memory limit; raise --memory-limit or --max-points",
    "interrupted": "interrupted; the bounds are valid",
    "sensor limit": "stopped at the largest number of cells; the bounds are valid",
    "stalled": "stalled: neither bound improves any more; `psrl-pomdp show` may say why",
}


def plan_document(plan: Plan, model: POMDP, tolerance: float) -> dict[str, Any]:
    """Return the output of `solve` as plain data.

    Costs in `*_cost` and `vector` are scaled to [0, 1]. With a discount, `lower` and `upper` are totals,
    `*_cost` are 1 − discount times totals, and `vector` has totals.
    """
    from ..report.policy_text import describe

    setting, units = model.setting, plan.value_units
    return {
        "model": model.name,
        "kind": units.kind,
        "discount": plan.discount if plan.is_discounted else None,
        "unit": units.name if plan.is_discounted else units.average_name,
        "scale": [units.low, units.high],
        "status": plan.status,
        "status_in_words": _STATUS.get(plan.status, plan.status),
        "lower": plan.lower,
        "upper": plan.upper,
        "lower_cost": plan.lower_cost,
        "upper_cost": plan.upper_cost,
        "gap": plan.gap,
        "relative_gap": plan.relative_gap,
        "tolerance": tolerance,
        "depends_on_start": plan.depends_on_start,
        "span": None if plan.depends_on_start else list(plan.span),
        "cells": plan.cells,
        "points": len(plan.grid),
        "nodes": len(plan.controller),
        "seconds": plan.rounds[-1].seconds if plan.rounds else 0.0,
        "states": [setting.states[s] for s in plan.states],
        "states_left_out": [name for s, name in enumerate(setting.states) if s not in plan.states],
        "policy": describe(plan, model),
        "controller": _controller(plan, model),
        "rounds": [_round(r, units) for r in plan.rounds],
    }


def _controller(plan: Plan, model: POMDP) -> dict[str, Any]:
    """Return the nodes of the controller with names. `vector` is over `states`.

    A successor of null belongs to an observation that is impossible there. The observations of a density are
    the cells of the plan.
    """
    from ..report.observation_text import controller_labels, with_costs
    from ..report.policy_text import successors

    setting = model.setting
    observations = setting.observations if setting.is_finite else controller_labels(plan, model)
    if setting.seen_cost is not None:
        observations = with_costs(setting, observations)
    rows = zip(plan.controller.actions, successors(plan, model), plan.controller.vectors, strict=True)
    nodes = [
        {
            "action": plan.actions[int(action)],
            "successors": dict(zip(observations, following, strict=True)),
            "vector": vector.tolist(),
        }
        for action, following, vector in rows
    ]
    return {"start": plan.controller.start, "nodes": nodes}


def _round(each: Round, units: Units) -> dict[str, Any]:
    low, high = sorted(units.from_scaled([each.lower, each.upper]).tolist())
    return {
        "lower": low,
        "upper": high,
        "lower_cost": each.lower,
        "upper_cost": each.upper,
        "points": each.points,
        "nodes": each.nodes,
        "work": each.work,
        "seconds": each.seconds,
    }


def print_plan(document: dict[str, Any]) -> None:
    """Print the bounds and the policy of a plan."""
    from rich.text import Text

    out = console()
    out.print(Text(plain(document["model"] or "a model"), style="bold"))
    out.print()
    print_rows(_rows(document))
    policy = document["policy"]["words"]
    out.print()
    out.print(Text(plain(policy["title"]), style="bold"))
    for line in policy["lines"]:
        out.print(Text(f"  {plain(line)}"))


def _rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    kind, unit = document["kind"], f" {document['unit']}" if document["unit"] else ""
    low, high = outward(document["lower"], document["upper"], document["scale"][1] - document["scale"][0])
    attained = f"earns at least {low}" if kind == "reward" else f"costs at most {high}"
    rows = [
        (criterion(document), f"{low} to {high}{unit}"),
        ("policy", f"{attained}{unit}"),
        (
            "gap",
            (
                f"{document['gap']:.2e}, scaled (tolerance {document['tolerance']:g}); "
                f"{100 * document['relative_gap']:.2g} % of the reference value"
            ),
        ),
        ("status", document["status_in_words"]),
        *([("cells", str(document["cells"]))] if document["cells"] else []),
        ("grid points", str(document["points"])),
        ("controller nodes", str(document["nodes"])),
        ("rounds", str(len(document["rounds"]))),
        ("seconds", f"{document['seconds']:.2f}"),
    ]
    if document["discount"] is not None:
        rows.append(("holds for", "the initial distribution of the model"))
    elif document["depends_on_start"]:
        rows.append(
            ("holds for", "the initial distribution of the model, on which the optimal average may depend")
        )
    else:
        rows.append(("span", "{:.4g} to {:.4g}, scaled (an estimate, not proved)".format(*document["span"])))
    left_out = document["states_left_out"]
    if left_out:
        more = ", ..." if len(left_out) > 6 else ""
        rows.append(("never reached", f"{', '.join(left_out[:6])}{more}: left out of the plan"))
    return rows


def criterion(document: dict[str, Any]) -> str:
    """Return what the bounds of a document are on, such as "average cost"."""
    discount = document["discount"]
    return f"average {document['kind']}" if discount is None else f"{document['kind']}, discount {discount:g}"


def outward(lower: float, upper: float, scale: float) -> tuple[str, str]:
    """Return both bounds as text with enough digits to show the gap, rounded outward.

    The printed numbers are bounds too. `scale` is the range of the costs or rewards; digits far below it are
    not printed.

    >>> outward(71.7417804, 71.8221666, 990.0)
    ('71.7417', '71.8222')
    >>> outward(0.0, 1e-12, 1.0)
    ('0.000000000000', '0.000000000001')
    """
    first = math.floor(math.log10(max(abs(lower), abs(upper), 1e-3 * scale)))
    place = first - 5
    if upper > lower:
        place = min(place, math.floor(math.log10(upper - lower)) - 1)
    place = max(place, first - 9)
    if not -25 < place < 5:  # very small or very large numbers: exponents
        return repr(lower), repr(upper)
    unit = Decimal(1).scaleb(min(0, place))
    low = Decimal(lower).quantize(unit, ROUND_FLOOR)
    high = Decimal(upper).quantize(unit, ROUND_CEILING)
    return f"{low:f}", f"{high:f}"
