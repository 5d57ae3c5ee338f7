"""`psrl-pomdp verify`: a saved plan, checked against a model without the code that made it."""

from __future__ import annotations

import math
from fractions import Fraction
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
from .plan_text import criterion, outward

if TYPE_CHECKING:
    from ..models import POMDP
    from ..planning import Plan
_EXAMPLES = """\b
Examples:
  psrl-pomdp solve tiger --save tiger.npz
  psrl-pomdp verify tiger.npz tiger
  psrl-pomdp verify --exact tiger.npz tiger
"""


@click.command("verify", epilog=_EXAMPLES, short_help="Prove the bounds of a saved plan again.")
@click.argument("plan", metavar="PLAN.npz")
@model_argument("model")
@parameter_option
@normalize_option
@click.option(
    "--exact",
    is_flag=True,
    help="Compute in fractions of whole numbers. The printed bounds are rounded outward.  [default: doubles]",
)
@json_option
def command(
    plan: str, model: str, parameters: tuple[str, ...], normalize: bool, exact: bool, as_json: bool
) -> None:
    """Prove the bounds of a plan again that `psrl-pomdp solve --save` wrote.

    Every inequality behind the two bounds is computed again from the saved certificates, without the planner.
    The output has the verified bounds on the optimal average, or on the optimal discounted total. The exit
    code is 0 if they are proved. It is 1 if the plan belongs to another model or claims more than it proves;
    an error on stderr says so.

    `psrl-pomdp certificate` writes the proof to a file that others can check without this program.
    """
    from ..planning import Plan

    found = find_model(model, parameters, normalize)
    if exact:
        _show_exact(Plan.load(plan), found, as_json)
        return
    document = check(Plan.load(plan), found)
    if as_json:
        print_json(document)
        return
    low, high = outward(document["lower"], document["upper"], document["scale"][1] - document["scale"][0])
    unit = f" {document['unit']}" if document["unit"] else ""
    print_rows(
        [
            (criterion(document), f"{low} to {high}{unit}"),
            ("verified", "both bounds, from the certificates alone"),
            ("gap", f"{document['gap']:.2e}, scaled"),
            ("by", f"{document['points']} grid points and {document['nodes']} controller nodes"),
        ]
    )


def _show_exact(plan: Plan, model: POMDP, as_json: bool) -> None:
    """Print the bounds that the plan proves in exact arithmetic, rounded outward."""
    from ..planning import verify
    from ..planning.proofs.document import number_text, rounded_outward

    lower, upper = verify(plan, model, exact=True)
    units = model.setting.units
    digits = max(0, 12 - math.floor(math.log10(units.high - units.low)))
    low, high = rounded_outward(lower, upper, digits)
    if as_json:
        print_json({
            "verified": True,
            "exact": True,
            "model": model.name,
            "kind": units.kind,
            "unit": units.average_name,
            "scale": [units.low, units.high],
            "lower": low,
            "upper": high,
            "lower_fraction": number_text(lower),
            "upper_fraction": number_text(upper),
            "claimed": [plan.lower, plan.upper],
        })  # fmt: skip
        return
    unit = f" {units.average_name}" if units.average_name else ""
    discount = getattr(plan, "discount", 1.0)
    what, step = "average", 1.0
    if discount < 1.0:
        what, step, unit = f"discounted by {discount:g},", 1.0 - discount, unit and f" {units.name}"
    gap = step * float((upper - lower) / (Fraction(units.high) - Fraction(units.low)))
    print_rows(
        [
            (f"{what} {units.kind}", f"{low} to {high}{unit}"),
            ("verified", "both bounds, in exact arithmetic"),
            ("gap", f"{gap:.2e}, scaled"),
            ("by", f"{len(plan.grid)} grid points and {len(plan.controller)} controller nodes"),
        ]
    )


def check(plan: Plan, model: POMDP) -> dict[str, Any]:
    """Return the bounds that the certificate of the plan proves, as plain data.

    Raises an error if the plan states tighter bounds.
    """
    from ..planning import verify

    lower, upper = verify(plan, model)
    units = plan.value_units
    return {
        "verified": True,
        "model": model.name,
        "kind": units.kind,
        "discount": plan.discount if plan.is_discounted else None,
        "unit": units.name if plan.is_discounted else units.average_name,
        "scale": [units.low, units.high],
        "lower": lower,
        "upper": upper,
        "gap": (upper - lower) / (units.high - units.low),
        "claimed": [plan.lower, plan.upper],
        "points": len(plan.grid),
        "nodes": len(plan.controller),
    }
