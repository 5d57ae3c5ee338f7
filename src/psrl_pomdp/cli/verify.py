"""`psrl-pomdp verify`: a saved plan, checked against a model without the code that made it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .common import (
    find_model,
    json_option,
    model_argument,
    normalize_option,
    parameter_option,
    print_json,
    print_rows,
)
from .plan_text import outward

if TYPE_CHECKING:
    from ..models import POMDP
    from ..planning import Plan


@click.command("verify", short_help="Prove the bounds of a saved plan again.")
@click.argument("plan", metavar="PLAN.npz")
@model_argument("model")
@parameter_option
@normalize_option
@json_option
def command(plan: str, model: str, parameters: tuple[str, ...], normalize: bool, as_json: bool) -> None:
    """Check what a plan that `solve --save` wrote proves about a model.

    Every inequality behind both bounds is computed again from the plan's certificates. A plan for another
    model, or one that claims more than it proves, is refused with exit code 1.

    \b
    Example:
      psrl-pomdp solve tiger --save tiger.npz
      psrl-pomdp verify tiger.npz tiger
    """
    from ..planning import Plan

    found = find_model(model, parameters, normalize)
    document = check(Plan.load(plan), found)
    if as_json:
        print_json(document)
        return
    low, high = outward(document["lower"], document["upper"], document["scale"][1] - document["scale"][0])
    unit = f" {document['unit']}" if document["unit"] else ""
    print_rows(
        [
            (f"average {document['kind']}", f"{low} to {high}{unit}"),
            ("verified", "both bounds, from the certificates alone"),
            ("gap", f"{document['gap']:.2e}, scaled"),
            ("by", f"{document['points']} grid points and {document['nodes']} controller nodes"),
        ]
    )


def check(plan: Plan, model: POMDP) -> dict[str, Any]:
    """What the plan proves of the model, as plain data; raises where it proves less than it claims."""
    from ..planning import verify

    lower, upper = verify(plan, model)
    units = model.setting.units
    return {
        "verified": True,
        "model": model.name,
        "kind": units.kind,
        "unit": units.average_name,
        "scale": [units.low, units.high],
        "lower": lower,
        "upper": upper,
        "gap": (upper - lower) / (units.high - units.low),
        "claimed": [plan.lower, plan.upper],
        "points": len(plan.grid),
        "nodes": len(plan.controller),
    }
