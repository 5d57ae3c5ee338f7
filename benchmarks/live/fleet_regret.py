"""Regret a unit of fleets, beside that of a unit alone.

    python benchmarks/live/fleet_regret.py                              railway, T = 1000, 8 seeds
    python benchmarks/live/fleet_regret.py --units 1,40 --horizon 10000 --seeds 4 --workers 2
    python benchmarks/live/fleet_regret.py --late 10                    plans and refreshes come late

The dynamics are unknown with the problem's own prior; the sensor is known. Every unit has its own hidden
state. A row has the means over seeds of the regret a unit at T/10, T/4, T/2 and T, in costs scaled to [0,
1], the standard error at T, its ratio to that of a unit alone, the regret of all units together, the
episodes and the processor seconds of a run. Regrets are estimated with the control variate of a plan to
1e-6. The last line says whether the largest fleet with one shared sample reaches a fifth of the regret of a
unit alone.
"""

from __future__ import annotations

import argparse
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from psrl_pomdp import CoarsePlanWarning, Fleet, Plan, plan, problem
from psrl_pomdp.simulation import simulate_fleet

TARGET = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--problem", default="railway")
    parser.add_argument("--units", default="1,4,16,40")
    parser.add_argument("--own", default="4,16", help="numbers of units that also sample a kernel each")
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--late", type=int, help="the steps after which plans and refreshes are adopted")
    options = parser.parse_args()
    best = plan(problem(options.problem), 1e-6)
    print(f"{options.problem}, T = {options.horizon}, {options.seeds} seeds: scaled regret a unit")
    print(f"{'units':>6} {'samples':>8} {'T/10':>7} {'T/4':>7} {'T/2':>7} {'T':>7} {'+-':>6}"
          f" {'ratio':>6} {'total':>7} {'episodes':>9} {'late':>6} {'CPU s':>6}")  # fmt: skip
    rows = [(int(u), "shared") for u in options.units.split(",")]
    rows += [(int(u), "own") for u in options.own.split(",") if u and options.late is None]
    alone, largest = np.nan, np.nan
    for units, samples in rows:
        found = regrets(options, best, units, samples)
        curve = np.array([each[0] for each in found])
        mean, error = curve.mean(axis=0), curve[:, -1].std(ddof=1) / np.sqrt(len(curve))
        if units == 1:
            alone = mean[-1]
        if units > 1 and samples == "shared":
            largest = mean[-1] / alone
        episodes, late, seconds = np.mean([each[1:] for each in found], axis=0)
        print(f"{units:>6} {samples:>8} " + " ".join(f"{x:>7.2f}" for x in mean)
              + f" {error:>6.2f} {mean[-1] / alone:>6.3f} {units * mean[-1]:>7.1f} {episodes:>9.1f}"
              f" {late:>6.0f} {seconds:>6.1f}", flush=True)  # fmt: skip
    verdict = "reached" if largest <= TARGET else "NOT reached"
    print(f"largest fleet beside a unit alone: {largest:.3f} of its regret; at most {TARGET}: {verdict}")


def regrets(options: Any, best: Plan, units: int, samples: str) -> list[tuple[Any, ...]]:
    """Return for each seed the scaled regrets a unit at four times, the episodes, late steps and seconds."""
    one = partial(one_run, options.problem, options.horizon, best, units, samples, options.late)
    if options.workers <= 1:
        return [one(seed) for seed in range(options.seeds)]
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(one, range(options.seeds)))


def one_run(
    name: str, horizon: int, best: Plan, units: int, samples: Any, late: int | None, seed: int
) -> tuple[Any, ...]:
    warnings.simplefilter("ignore", CoarsePlanWarning)
    world, begun = problem(name), time.process_time()
    fleet = Fleet(world.prior, seed=seed, samples=samples, wait=late is None)
    times = [max(1, horizon // 10), max(1, horizon // 4), max(1, horizon // 2), horizon]
    trace = simulate_fleet(world, fleet, units, horizon, seed, checkpoints=times, delay=late or 0)
    ends = trace.regret_curve(best)
    scaled = 0.5 * (ends[0] + ends[1]) / world.setting.units.difference(1.0)
    return scaled, len(trace.episodes), trace.late_steps, time.process_time() - begun


if __name__ == "__main__":
    main()
