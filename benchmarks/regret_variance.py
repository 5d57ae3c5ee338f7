"""How much less the control variate wanders than the sums it replaces, and that all three agree.

    python benchmarks/regret_variance.py                     about a minute
    python benchmarks/regret_variance.py --seeds 100 --horizon 10000

For each problem, runs of Algorithm 1 with the finite family, in the first of its worlds, and two phases. The
*whole run* has the learning in it: how long the truth is searched for differs by run, and no control variate
takes that off. The *late phase* is the second half, when the truth is mostly known and the policy nearly the
best: what is left there is the noise that the control variate is for. Printed are the standard deviations
over runs of the three estimators, in scaled cost, and the ratios of variances; the mean differences of the
first two to the third, in standard errors, should look like draws from a normal distribution.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from psrl_pomdp import PSRLAgent, plan, problem, simulate
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.agents.psrl import PlanningBudget
from psrl_pomdp.analysis.estimators import ESTIMATORS, run_sums

PROBLEMS = ("separated", "tiger", "river-swim", "spectrum-access", "railway")
EFFORT = PlanningBudget(min_tolerance=1e-4, max_work=3e7)


def runs(name: str, seeds: int, horizon: int) -> dict[str, Array]:
    """[R, K] for each estimator: its sums without −J at half of the horizon and at all of it."""
    world = problem(name)
    assert world.family is not None
    truth = world.family.model(0)
    best = plan(truth, 1e-6, max_work=3e8)
    traces = [
        simulate(
            truth,
            PSRLAgent(world.family, seed=seed, budget=EFFORT),
            horizon,
            seed,
            checkpoints=[horizon // 2],
        )
        for seed in range(seeds)
    ]
    return {which: np.array([run_sums(trace, best, which) for trace in traces]) for which in ESTIMATORS}


def report(name: str, phase: str, sums: dict[str, Array]) -> None:
    """One line: standard deviations, ratios of variances, and the agreement of means; `[R]` each."""
    spread = {which: values.std(ddof=1) for which, values in sums.items()}
    floor = max(spread["control_variate"], 1e-12)
    cells = [f"{spread[which]:11.4g}" for which in ESTIMATORS]
    cells += [f"{(spread[which] / floor) ** 2:11.3g}" for which in ("plain", "expected")]
    for which in ("plain", "expected"):
        difference = sums[which] - sums["control_variate"]
        error = difference.std(ddof=1) / np.sqrt(len(difference))
        cells.append(f"{difference.mean() / max(error, 1e-300):7.2f}")
    print(f"{name:16} {phase:6}", *cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--horizon", type=int, default=4000)
    options = parser.parse_args()
    print(f"{options.seeds} runs of {options.horizon} steps")
    heads = [f"{which[:10]:>11}" for which in (*ESTIMATORS, "plain/c", "expected/c")]
    print(f"{'':16} {'phase':6}", *heads, f"{'z plain':>7} {'z exp.':>7}")
    for name in PROBLEMS:
        begun = time.process_time()
        sums = runs(name, options.seeds, options.horizon)
        report(name, "whole", {which: values[:, -1] for which, values in sums.items()})
        report(name, "late", {which: values[:, -1] - values[:, 0] for which, values in sums.items()})
        print(f"{'':16} {time.process_time() - begun:.1f} s")


if __name__ == "__main__":
    main()
