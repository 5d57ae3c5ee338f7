"""What a plan's tolerance costs where a rare event is dear, and what it costs elsewhere.

    python benchmarks/rare_costs.py                  ten models of rare events, then the library's problems
    python benchmarks/rare_costs.py --seeds 32       with narrower intervals
    python benchmarks/rare_costs.py --only rare      the first part alone

An agent knows the dynamics (a finite set of one kernel), so that all it pays beyond the optimum is owed to
its plan. Three ways to plan, in one run on the same worlds with the same chance:

    range     a gap of 2 % of the cost's range, and the action of the plan's own node: the rule of version 0.1
    + ahead   the same gap, and one step of look-ahead on the plan's vectors
    default   a gap of 2 % (10 % where kernels are sampled) of what is at stake, and the look-ahead

A ratio is what was paid over the optimum, or one plus the loss over the optimum where rewards are earned; by
the control variate, so that little of it is noise. Planning is in processor seconds.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Sequence

import numpy as np

from psrl_pomdp import (
    POMDP,
    CoarsePlanWarning,
    DirichletPrior,
    FinitePrior,
    Plan,
    PlanningBudget,
    PSRLAgent,
    Setting,
    plan,
    problem,
    simulate,
)
from psrl_pomdp._utils.stopwatch import PLANNING

# Breakdown, overhaul, chance of wear, chance that a worn machine breaks: euro, euro, a day, a day.
MACHINES = (
    (60, 40, 0.1, 0.3),
    (2_000, 300, 0.03, 0.1),
    (9_000, 2_500, 0.01, 0.03),
    (9_000, 400, 0.01, 0.05),
    (20_000, 500, 0.005, 0.05),
    (50_000, 1_000, 0.004, 0.02),
    (100_000, 1_500, 0.003, 0.03),
    (10_000_000, 2_000, 0.002, 0.05),
)
GAINS = ((3_000, 15, 0.03, 0.3), (20_000, 30, 0.01, 0.3))  # reward, price of a try, ready, seen when ready
RULES = ("range", "+ ahead", "default")


class NodeAgent(PSRLAgent):
    """Plays the action of the plan's node, as version 0.1 did."""

    @property
    def can_compile(self) -> bool:
        return False

    def choose_action(self) -> int:
        found, belief = self.current_episode.plan, self.current_episode.belief
        return super().choose_action() if found.controller.gains is not None else int(found.action(belief))


def machine(breakdown: float, overhaul: float, wear: float, breaks: float) -> POMDP:
    """Sound, worn, broken; run or overhaul."""
    setting = Setting(
        observation=[[0.8, 0.2, 0.0], [0.25, 0.75, 0.0], [0.0, 0.0, 1.0]],
        cost=[[0.0, 20.0, breakdown], [overhaul, overhaul, breakdown]],
        initial=[1.0, 0.0, 0.0],
    )
    sound = [1.0, 0.0, 0.0]
    run = [[1.0 - wear - 1e-4, wear, 1e-4], [0.0, 1.0 - breaks, breaks], sound]
    return POMDP(setting, [run, [sound] * 3], name=f"breakdown {breakdown:,}, overhaul {overhaul:,}")


def harvest(reward: float, price: float, ready: float, seen: float) -> POMDP:
    """A crop that is seldom ready; waiting is free, and cutting pays only then."""
    setting = Setting.from_rewards(
        observation=[[0.95, 0.05], [1.0 - seen, seen]],
        reward=[[0.0, 0.0], [-price, reward]],
        initial=[1.0, 0.0],
    )
    wait, cut = [[1.0 - ready, ready], [0.0, 1.0]], [[1.0 - ready, ready], [1.0, 0.0]]
    return POMDP(setting, [wait, cut], name=f"harvest {reward:,}, price {price}")


def lives(
    world: POMDP, prior: FinitePrior | DirichletPrior, rule: str, horizon: int, seeds: int, best: Plan
) -> tuple[np.ndarray, float]:
    """The regret of each life, and the processor seconds of planning."""
    budget = PlanningBudget() if rule == "default" else PlanningBudget(rtol=math.inf)
    make = NodeAgent if rule == "range" else PSRLAgent
    before, found = PLANNING.seconds, []
    for seed in range(seeds):
        trace = simulate(world, make(prior, seed=seed, budget=budget), horizon, seed=seed)
        found.append(float(trace.regret(best)))
    return np.array(found), PLANNING.seconds - before


def rare_events(horizon: int, seeds: int) -> None:
    print(f"Known dynamics, {seeds} lives of {horizon} steps: paid over optimum, and planning seconds\n")
    head = f"{'model':36} {'range/optimum':>13}" + "".join(f" {rule:>9} {'s':>6}" for rule in RULES)
    print(head)
    worst = dict.fromkeys(RULES, 0.0)
    for model in (*(machine(*numbers) for numbers in MACHINES), *(harvest(*numbers) for numbers in GAINS)):
        best, units = plan(model, 1e-9, max_work=1e10, rtol=1e-4), model.setting.units
        optimum = best.upper if units.kind == "cost" else best.lower
        row = f"{model.name:36} {(units.high - units.low) / optimum:13.0f}"
        for rule in RULES:
            regret, seconds = lives(
                model, FinitePrior(model.setting, model.transition[None]), rule, horizon, seeds, best
            )
            ratio = 1.0 + regret.mean() / horizon / optimum
            worst[rule] = max(worst[rule], ratio)
            row += f" {ratio:9.3f} {seconds:6.2f}"
        print(row, flush=True)
    print(f"{'worst':50}" + "".join(f" {worst[rule]:9.3f} {'':6}" for rule in RULES))


def library(horizon: int, seeds: int, names: Sequence[str]) -> None:
    print(f"\nThe library's problems, {seeds} lives of {horizon} steps: regret, and planning seconds\n")
    print(f"{'problem':32} {'range':>10} {'s':>6} {'default':>10} {'s':>6} {'default - range':>18}")
    for name in names:
        world = problem(name)
        best = plan(world, 1e-7, max_work=3e9)
        for kind, prior in (("finite", world.family), ("Dirichlet", world.prior)):
            if prior is None:
                continue
            before, old = lives(world, prior, "range", horizon, seeds, best)
            after, new = lives(world, prior, "default", horizon, seeds, best)
            change = after - before
            error = change.std(ddof=1) / math.sqrt(seeds)
            label = f"{name}, {kind}"
            print(
                f"{label:32} {before.mean():10.4g} {old:6.2f} {after.mean():10.4g} {new:6.2f}"
                f" {change.mean():9.3g} ± {2 * error:.2g}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--horizon", type=int, default=3000)
    parser.add_argument("--only", choices=("rare", "library"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", CoarsePlanWarning)  # which plans are coarse is what is measured
    if options.only != "library":
        rare_events(options.horizon, options.seeds)
    if options.only != "rare":
        names = ("tiger", "machine-repair", "river-swim", "railway", "spectrum-access", "random", "separated")
        library(options.horizon, options.seeds, (*names, "random-readout"))


if __name__ == "__main__":
    main()
