"""How fast a prior of one's own is, beside Dirichlet rows, and whether its posterior is calibrated.

    python benchmarks/own_prior.py                   20 000 steps, and 300 lives for the calibration
    python benchmarks/own_prior.py --steps 100000 --lives 1000

A pump wears at two rates, which a `ParametricPrior` knows and Dirichlet rows do not. Both agents look after
the same pump, in the compiled loop and one observation at a time. Times are processor seconds a step without
those of the planner, in the same run; refreshes of the posterior are included. Read the ratios: the seconds
depend on what else the machine does. `same` says whether the actions of a row are those of the compiled row
above it.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

from psrl_pomdp import (
    POMDP,
    CoarsePlanWarning,
    DirichletPrior,
    ParametricPrior,
    PlanningBudget,
    PSRLAgent,
    Setting,
    Simulation,
)
from psrl_pomdp._numba.jit import GROUPS
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.planning import plan
from psrl_pomdp.testing.calibration import sampling_identity

SETTING = Setting(
    [[0.8, 0.15, 0.05], [0.15, 0.7, 0.15], [0.05, 0.25, 0.7]],
    [[0.0, 30.0, 200.0], [60.0, 60.0, 90.0]],
    [1.0, 0.0, 0.0],
)


class WearPrior(ParametricPrior):
    """Two rates of wear, each Beta(1, 9)."""

    def sample_parameters(self, rng: np.random.Generator, size: int) -> Array:
        return rng.beta(1.0, 9.0, (size, 2))

    def log_density(self, parameters: Array) -> Array:
        inside = ((parameters > 0) & (parameters < 1)).all(axis=1)
        safe = np.where(inside[:, None], parameters, 0.5)
        return np.where(inside, 8 * np.log1p(-safe).sum(axis=1), -np.inf)

    def kernels(self, parameters: Array) -> Array:
        kernels = np.zeros((len(parameters), 2, 3, 3))
        for s in range(2):
            kernels[:, 0, s, s], kernels[:, 0, s, s + 1] = 1 - parameters[:, s], parameters[:, s]
        kernels[:, 0, 2, 2] = kernels[:, 1, :, 0] = 1.0
        return kernels


class CoreOnly:
    """A posterior of which only the names of the protocol are known."""

    def __init__(self, own: Any) -> None:
        self.setting, self.start, self.update = own.setting, own.start, own.update
        self.sample, self.belief, self._own = own.sample, own.belief, own

    @property
    def expected_counts(self) -> Array:
        return np.asarray(self._own.expected_counts)


class CorePrior:
    """The prior of such a posterior."""

    def __init__(self, own: Any) -> None:
        self.setting, self.sample, self._own = own.setting, own.sample, own

    def posterior(self, rng: np.random.Generator) -> CoreOnly:
        return CoreOnly(self._own.posterior(rng))


class TimedPlanner:
    """`plan`, with the seconds that it has taken, within the limits of an budget."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def planned(self, *args: Any, **kwargs: Any) -> Any:
        begin = time.process_time()
        try:
            return plan(*args, **kwargs)
        finally:
            self.seconds += time.process_time() - begin


def run(prior: Any, truth: POMDP, steps: int, driver: Any) -> tuple[float, list[int], int, Any]:
    """Microseconds a step without planning, the actions, the number of episodes, and the posterior."""
    import psrl_pomdp.agents.planning_budget as where

    timed = TimedPlanner()
    before, where.plan = where.plan, timed.planned
    try:
        agent = PSRLAgent(
            prior,
            seed=1,
            budget=PlanningBudget(min_tolerance=0.01, max_tolerance=0.05, rtol=np.inf, max_work=2e6),
        )
        begin = time.process_time()
        trace = Simulation(truth, agent, 2, driver=driver).until(steps)
        spent = time.process_time() - begin - timed.seconds
    finally:
        where.plan = before
    return 1e6 * spent / steps, trace.actions.tolist(), len(trace.episodes), agent.posterior


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=20_000, help="of every run")
    parser.add_argument("--lives", type=int, default=300, help="for the calibration; 0 leaves it out")
    options = parser.parse_args()
    warnings.simplefilter("ignore", CoarsePlanWarning)
    for group in GROUPS:
        group.compile()
    own, rows = WearPrior(SETTING), DirichletPrior(SETTING, np.ones((2, 3, 3)))
    truth = POMDP(SETTING, own.kernels(np.array([[0.04, 0.10]]))[0])
    for prior in (own, rows):
        run(prior, truth, 300, "auto")  # loads what is compiled
    kinds = [
        ("Dirichlet rows, compiled", rows, "compiled"),
        ("Dirichlet rows, streamed", rows, "streaming"),
        ("two rates, compiled", own, "compiled"),
        ("two rates, streamed", own, "streaming"),
        ("two rates, core protocol", CorePrior(own), "auto"),
    ]
    print(f"{'':28} {'us/step':>8} {'ratio':>6} {'episodes':>8} {'kernels':>7} {'refreshes':>9} same")
    first, reference = 0.0, [0]
    for name, prior, driver in kinds:
        microseconds, actions, episodes, posterior = run(prior, truth, options.steps, driver)
        first = first or microseconds
        reference = actions if driver == "compiled" else reference
        ensemble = getattr(posterior, "_own", posterior)
        tuning = ensemble._groups[0].tuning
        refreshes = int(tuning["refreshes"] if isinstance(tuning, dict) else tuning.refreshes)
        print(
            f"{name:28} {microseconds:8.2f} {microseconds / first:6.2f} {episodes:8} {ensemble.size:7} "
            f"{refreshes:9} {'yes' if actions == reference else 'NO'}",
            flush=True,
        )
    if options.lives:
        begin = time.process_time()
        scores = sampling_identity(own, own.posterior, options.lives, 150, np.random.default_rng(1))
        print(
            f"calibration over {options.lives} lives of 150 steps: z-scores {np.round(scores, 1).tolist()} "
            f"(largest {np.abs(scores).max():.1f}; {time.process_time() - begin:.0f} s)"
        )


if __name__ == "__main__":
    main()
