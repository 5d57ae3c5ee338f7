"""How much longer a run with Gaussian observations takes than one with a table of eight classes.

The table is `quantized(8)` of the same Gaussian observations. Both runs have the same kernel, prior, seeds
and planning budget. They alternate within one process, so that the load of the machine affects both alike.
The ratio is that of the smallest CPU times. The second pair of columns leaves out the time of planning.

    python benchmarks/density_speed.py
    python benchmarks/density_speed.py --horizon 100000 --repeats 5
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

from psrl_pomdp import POMDP, DirichletPrior, FinitePrior, GaussianSensor, PlanningBudget, PSRLAgent, Setting
from psrl_pomdp import plan as plan_of
from psrl_pomdp.simulation import simulate


class Timed:
    """The package's planner, with its CPU time."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, *args: Any, **options: Any) -> Any:
        begin = time.process_time()
        found = plan_of(*args, **options)
        self.seconds += time.process_time() - begin
        return found


def settings(n_states: int) -> tuple[Setting, Setting]:
    """Return Gaussian observations, and eight classes of them."""
    cost = np.stack([np.linspace(0.0, 1.0, n_states), np.full(n_states, 0.4)])
    start = np.full(n_states, 1.0 / n_states)
    density = Setting(GaussianSensor(np.arange(float(n_states)), np.full(n_states, 0.8)), cost, start)
    return density, density.quantized(8)


def run(setting: Setting, kernels: np.ndarray, kind: str, horizon: int, seed: int) -> tuple[float, float]:
    """Return the CPU seconds of one run, and those without planning."""
    prior: Any = FinitePrior(setting, kernels)
    if kind == "rows":
        prior = DirichletPrior(setting, np.ones(kernels.shape[1:]))
    planner = Timed()
    budget = PlanningBudget(min_tolerance=1e-3, max_tolerance=0.1)
    agent = PSRLAgent(prior, seed=seed, budget=budget, planner=planner)
    begin = time.process_time()
    simulate(POMDP(setting, kernels[0]), agent, horizon, seed)
    total = time.process_time() - begin
    return total, total - planner.seconds


def main() -> None:
    """Print one line for each number of states and each prior."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--horizon", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--states", type=int, nargs="+", default=[3, 6])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'':14}{'Gaussian':>10}{'table':>10}{'ratio':>8}   without planning")
    for n_states in options.states:
        kernels = np.random.default_rng(0).dirichlet(np.full(n_states, 0.7), size=(8, 2, n_states))
        for kind in ("finite", "rows"):
            best = np.full((2, 2), np.inf)
            for which in settings(n_states):  # the first run compiles
                run(which, kernels, kind, 200, 0)
            for seed in range(options.repeats):
                for i, which in enumerate(settings(n_states)):
                    best[i] = np.minimum(best[i], run(which, kernels, kind, options.horizon, seed))
            (density, own), (table, other) = best.tolist()
            name = f"{n_states} states {kind}"
            print(
                f"{name:14}{density:9.2f}s{table:9.2f}s{density / table:8.2f}"
                f"   {own:8.2f}s{other:9.2f}s{own / other:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
