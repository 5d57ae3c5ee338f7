"""The test of the model: false alarms, the delay of true ones, and what it costs.

    python benchmarks/fit.py                   400 worlds from each prior, 30 changed ones
    python benchmarks/fit.py --worlds 2000 --horizon 5000

False alarms: worlds are drawn from a finite prior, whose posterior is exact, and from Dirichlet rows, whose
posterior is an ensemble; actions are random. The rate is that of an alarm at any time up to the horizon. The
last column is the mean of E at the horizon, which is 1 for an exact posterior, with its standard error; it is
dominated by rare large values.
Delay: the readings of a sensor that is wrong from the start, or is glued on anew in the middle.
Cost: processor seconds a step in the compiled loop, with the test and without it, in one process.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from psrl_pomdp import (
    DirichletPrior,
    FinitePrior,
    PlanningBudget,
    PSRLAgent,
    Setting,
    problem,
    simulate,
)
from psrl_pomdp._numba.jit import GROUPS
from psrl_pomdp._utils.arrays import Array

RIGHT = np.array([[0.8, 0.15, 0.05], [0.15, 0.7, 0.15], [0.05, 0.25, 0.7]])
SETTING = Setting(RIGHT, [[0.0, 30.0, 200.0], [60.0, 60.0, 90.0]], [1.0, 0.0, 0.0], first_observation=None)


def life(
    setting: Setting, kernel: Array, n: int, rng: np.random.Generator, state: int = 0
) -> tuple[list[int], list[int]]:
    """Random actions and the readings that follow."""
    actions, readings = (rng.random(n) < 0.2).astype(int).tolist(), []
    moves, emits = kernel.cumsum(axis=2), setting.observation.cumsum(axis=2)
    for action, one, two in zip(actions, *rng.random((2, n)), strict=True):
        state = min(int(np.searchsorted(moves[action, state], one)), len(moves[0]) - 1)
        readings.append(min(int(np.searchsorted(emits[action, state], two)), emits.shape[2] - 1))
    return actions, readings


def fit_after(prior: Any, lives: list[tuple[list[int], list[int]]], seed: int) -> Any:
    """What the test finds in lives that follow one another."""
    posterior = prior.posterior(np.random.default_rng((seed, 1)))
    posterior.start(None)
    for actions, readings in lives:
        posterior.update_many(actions, readings)
    return posterior.fit


def false_alarms(prior: Any, name: str, worlds: int, horizon: int) -> None:
    """Print the rate of false alarms."""
    found = []
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        found.append(fit_after(prior, [life(SETTING, prior.sample(rng), horizon, rng)], seed))
    rates = "  ".join(
        f"{level:g}: {np.mean([each.alarm(level) for each in found]):.4f}" for level in (0.1, 0.05, 0.01)
    )
    values = np.array([each.e_value for each in found])
    error = values.std() / np.sqrt(worlds)
    print(f"{name:12} {worlds} worlds, {horizon} steps   {rates}   mean E {values.mean():.3f} ± {error:.3f}")


def delays(prior: Any, name: str, kernel: Array, seeds: int) -> None:
    """Print the steps until an alarm at the level .01."""
    wrong = SETTING.replace(observation=0.8 * RIGHT + 0.2 * np.roll(RIGHT, 1, axis=1))
    glued = SETTING.replace(observation=RIGHT[::-1])
    late: dict[str, list[float]] = {"wrong by a fifth": [], "glued on anew at 1000": []}
    for seed in range(seeds):
        rng = np.random.default_rng((seed, 2))
        one = fit_after(prior, [life(wrong, kernel, 3000, rng)], seed)
        late["wrong by a fifth"].append(one.alarm_time() or np.inf)
        two = fit_after(prior, [life(SETTING, kernel, 1000, rng), life(glued, kernel, 2000, rng)], seed)
        late["glued on anew at 1000"].append((two.alarm_time() or np.inf) - 1000)
    for what, steps in late.items():
        share = np.isfinite(steps).mean()
        print(f"{name:12} {what:22} found {share:.0%}, median delay {np.median(steps):.0f}")


def cost(prior: Any, name: str, steps: int) -> None:
    """Print seconds a step with and without the test; planning is not counted."""
    model, least = problem("railway"), {True: np.inf, False: np.inf}
    for tests in (True, False) * 4:
        agent = PSRLAgent(prior, seed=1, budget=PlanningBudget(min_tolerance=0.05, max_tolerance=0.05))
        index = agent.posterior._filters.test.index
        if not tests:
            index[4 : 4 + agent.step_codes.n_codes] = -1  # every reading is taken as missing
        spent, plan_for = [0.0], agent.plan_for

        def timed(*given: Any, spent: list[float] = spent, plan_for: Any = plan_for) -> Any:
            begin = time.process_time()
            found = plan_for(*given)
            spent[0] += time.process_time() - begin
            return found

        agent.plan_for = timed  # type: ignore[method-assign]
        begin = time.process_time()
        simulate(model, agent, steps, seed=3)
        least[tests] = min(least[tests], (time.process_time() - begin - spent[0]) / steps * 1e6)
    print(
        f"{name:12} {least[True]:.2f} µs a step, {least[False]:.2f} without: {least[True] / least[False]:.3f}"
    )


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", type=int, default=400)
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=30)
    given = parser.parse_args()
    for group in GROUPS:
        group.compile()
    rng = np.random.default_rng(0)
    finite = FinitePrior(SETTING, rng.dirichlet(np.ones(3), (4, 2, 3)))
    rows = DirichletPrior(SETTING, np.ones((2, 3, 3)))
    false_alarms(finite, "finite", given.worlds, given.horizon)
    false_alarms(rows, "Dirichlet", max(1, given.worlds // 4), given.horizon)
    delays(finite, "finite", finite.kernels[0], given.seeds)
    delays(rows, "Dirichlet", finite.kernels[0], max(1, given.seeds // 4))
    model = problem("railway")
    cost(model.family, "finite", 100_000)
    cost(model.prior, "Dirichlet", 10_000)


if __name__ == "__main__":
    main()
