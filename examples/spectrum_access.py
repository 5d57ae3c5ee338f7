"""Which radio channel is idle? Two channels come and go; listening to one says nothing of the other.

    python examples/spectrum_access.py
    python examples/spectrum_access.py --slots 20000 --seeds 8

A guest may use a channel while its owner is silent. It hears only the channel that it used last, with errors,
and does not know how the owners behave. Three guests meet the same owners: one knows them, one chooses
between four candidate descriptions of them, and one learns every probability from nothing. Printed is the
share of slots that each used well, and what not knowing cost in slots.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from psrl_pomdp import FinitePrior, PlanningBudget, PSRLAgent, plan, problem, regret_curve, simulate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--slots", type=int, default=1000, help="how long each guest stays (default 1000)")
    parser.add_argument("--seeds", type=int, default=2, help="how many times it is tried (default 2)")
    parser.add_argument("--false-alarm", type=float, default=0.1, help="an idle channel sounds busy (.1)")
    given = parser.parse_args()

    world = problem("spectrum-access", false_alarm=given.false_alarm)
    family = world.family
    assert family is not None
    best = plan(world, tolerance=1e-4, max_work=1e9)
    print(f"With the owners known, {best.lower:.4f} to {best.upper:.4f} of all slots can be used.")

    budget = PlanningBudget(
        min_tolerance=1e-3, max_work=3e7
    )  # plans of this size are good enough for so few slots
    known = FinitePrior(world.setting, world.transition[None])
    guests: dict[str, Callable[[int], PSRLAgent]] = {
        "knows the owners": lambda seed: PSRLAgent(known, seed=seed, budget=budget),
        f"has {len(family)} candidates": lambda seed: PSRLAgent(family, seed=seed, budget=budget),
        "knows nothing": lambda seed: PSRLAgent(world.prior, seed=seed, budget=budget),
    }
    for name, guest in guests.items():
        runs = [simulate(world, guest(i), given.slots, seed=i) for i in range(given.seeds)]
        used = sum(run.average_cost for run in runs) / len(runs)
        lost = float(regret_curve(runs, best).middle[-1])
        print(f"{name:18s} used {used:.3f}, lost {lost:6.1f} slots of {given.slots}")


if __name__ == "__main__":
    main()
