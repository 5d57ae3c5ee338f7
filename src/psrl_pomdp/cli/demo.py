"""`psrl-pomdp demo`: a first look at one problem, and what can be said of it exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .common import console, json_option, print_json, print_rows

if TYPE_CHECKING:
    from ..arrays import Array
    from ..model import POMDP

_LONGEST_CYCLE = 40


@click.command("demo")
@json_option
def command(as_json: bool) -> None:
    """Look at a machine that wears out of sight: what is it worth to see it, or to watch it at all?

    Shows the problem `machine-repair`, then its best long-run average profit, certified by the planner,
    beside what could be earned if the worn parts were in plain sight, and what is earned without ever
    looking, by replacing the parts every so many periods.
    """
    from ..problems import problem
    from .show import print_summary, summarise

    model = problem("machine-repair")
    if not as_json:
        click.echo("Planning (at its first use the planner is compiled: half a minute) ...", err=True)
    result = bracket(model)
    if as_json:
        print_json(result)
        return
    print_summary(summarise(model))
    out = console()
    out.print()
    out.print("[bold]What is the machine worth a period, on the long run?[/bold]")
    low, high = result["with_the_readings"]
    every, blind = result["replace_every"], result["never_looking"]
    rows = [
        ("if the parts were in plain sight", f"{result['in_plain_sight']:.6f}"),
        ("the best with the readings, certified", f"between {low:.6f} and {high:.6f}"),
        (f"never looking, replacing every {every} periods", f"{blind:.6f}"),
    ]
    print_rows(rows)


def bracket(model: POMDP) -> dict[str, Any]:
    """The profit of full sight, of the best policy, and of the best blind cycle, in the user's numbers."""
    import numpy as np

    from ..planning import optimal_gain, plan

    units = model.setting.units
    sight = float(model.setting.initial @ optimal_gain(model.transition, model.setting.cost))
    actions = model.setting.actions
    run, replace = actions.index("manufacture"), actions.index("replace")
    cycles = [cycle_cost(model, run, replace, length) for length in range(1, _LONGEST_CYCLE + 1)]
    best = int(np.argmin(cycles))
    best_plan = plan(model, tolerance=1e-7)
    return {
        "in_plain_sight": float(units.from_scaled(sight)),
        "with_the_readings": [best_plan.lower, best_plan.upper],
        "never_looking": float(units.from_scaled(cycles[best])),
        "replace_every": best + 1,
    }


def cycle_cost(model: POMDP, run: int, replace: int, length: int) -> float:
    """The average cost of running for `length` - 1 periods and replacing in the next, over and over.

    Replacing gives the same next state from everywhere, so that every cycle starts from the same belief.
    """
    belief: Array = model.transition[replace, 0]
    total = 0.0
    for step in range(length):
        action = replace if step == length - 1 else run
        total += float(belief @ model.setting.cost[action])
        belief = belief @ model.transition[action]
    return total / length
