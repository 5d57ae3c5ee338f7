"""The cost of a step of a fleet beside that of an agent, and the memory of a unit.

    python benchmarks/live/fleet_speed.py                     railway: fleets of 1, 40 and 1,000 units
    python benchmarks/live/fleet_speed.py --units 1,40 --rounds 5

Agent and fleet take steps with random readings in turn, a block of each in every round, so that both see
the same load of the machine. A row has the medians of the microseconds of `PSRLAgent.act` and `Fleet.act`
over all steps (a median leaves out the few steps that plan or refresh), the median over rounds of their
ratio, the mean of a fleet's step with plans and refreshes, and the kilobytes of a unit in memory after its
first step, and in a file at the end.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings
from typing import Any

import numpy as np

from psrl_pomdp import CoarsePlanWarning, Fleet, PSRLAgent, problem

BLOCK = 400  # steps of a block


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--problem", default="railway")
    parser.add_argument("--units", default="1,40,1000")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", CoarsePlanWarning)
    print(
        f"{'units':>6} {'agent us':>9} {'fleet us':>9} {'ratio':>6} {'mean us':>9} {'kB':>6} {'kB file':>9}"
    )
    for units in [1, *map(int, options.units.split(","))][1:]:
        row = one_row(problem(options.problem), units, options.rounds)
        print(f"{units:>6} {row[0]:>9.1f} {row[1]:>9.1f} {row[2]:>6.2f} {row[3]:>9.1f} {row[4]:>6.1f}"
              f" {row[5]:>9.1f}", flush=True)  # fmt: skip


def one_row(world: Any, units: int, rounds: int) -> tuple[float, ...]:
    rng = np.random.default_rng(1)
    agent, fleet = PSRLAgent(world.prior, seed=1), Fleet(world.prior, seed=1)
    n_readings = world.n_observations
    names = [f"unit {i}" for i in range(units)]
    agent.act(None)
    fleet.act(names[0], None)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for name in names[1:]:
        fleet.act(name, None)
    first = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    steps = max(BLOCK // units, 1)
    found: list[list[float]] = [[], [], []]
    alone, together = [], []
    for _ in range(rounds):
        blocks: list[list[float]] = [[], []]
        for reading in rng.integers(n_readings, size=BLOCK).tolist():
            begun = time.perf_counter()
            agent.act(reading)
            blocks[0].append(time.perf_counter() - begun)
        for _ in range(steps):
            for name, reading in zip(names, rng.integers(n_readings, size=units).tolist(), strict=True):
                begun = time.perf_counter()
                fleet.act(name, reading)
                blocks[1].append(time.perf_counter() - begun)
        alone += blocks[0]
        together += blocks[1]
        found[0].append(float(np.median(blocks[1]) / np.median(blocks[0])))
    later = len(fleet.to_bytes())
    memory = (first - before) / max(units - 1, 1) / 1000 if units > 1 else np.nan
    return (
        1e6 * float(np.median(alone)),
        1e6 * float(np.median(together)),
        float(np.median(found[0])),
        1e6 * float(np.mean(together)),
        memory,
        later / units / 1000,
    )


if __name__ == "__main__":
    main()
