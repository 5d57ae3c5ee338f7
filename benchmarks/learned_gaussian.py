"""Regret on the railway with its Gaussian indicator: known, or learned from a few calibration readings.

The indicator's means are 1, 0 and −1 and its standard deviations 1, 0.5 and 0.2. The agent knows them
(`known`), or has a number of readings made in each state beforehand and goes on learning (`10 readings`), or
takes the estimates from these readings as exact (`10, taken as exact`). All agents learn the kernel. Regret
is in the user's units; ± is one standard error.

    python benchmarks/learned_gaussian.py
    python benchmarks/learned_gaussian.py --horizon 10000 --seeds 8
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

from psrl_pomdp import POMDP, DirichletPrior, GaussianSensor, PSRLAgent, Setting, plan, problem, simulate
from psrl_pomdp.sensors import NormalInverseGammaSensor

MEANS, SDS = np.array([1.0, 0.0, -1.0]), np.array([1.0, 0.5, 0.2])


def prior_of(setting: Setting, concentration: np.ndarray, readings: int, fixed: bool, seed: int) -> Any:
    """Return the prior of an agent with so many calibration readings in each state; 0 if it knows all."""
    if not readings:
        return DirichletPrior(setting, concentration)
    rng = np.random.default_rng((seed, readings))
    opinion = NormalInverseGammaSensor.from_calibration(
        [rng.normal(mean, sd, readings) for mean, sd in zip(MEANS, SDS, strict=True)]
    )
    if fixed:
        return DirichletPrior(setting.replace(observation=opinion.center), concentration)
    return DirichletPrior(setting, concentration, sensor=opinion)


def main() -> None:
    """Print one line for each agent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--horizon", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    world = problem("railway")
    own = world.setting
    first = None if own.first_observation is None else GaussianSensor(MEANS, SDS)
    setting = own.replace(observation=GaussianSensor(MEANS, SDS), first_observation=first, observations=None)
    model = POMDP(setting, world.transition)
    best = plan(model, 1e-4)
    ones = np.ones(model.transition.shape)
    print(f"{'':22}{'regret':>10}{'±':>8}{'seconds a run':>15}{'sweeps':>8}{'|mean error|':>14}")
    for readings, fixed in ((0, False), (100, False), (10, False), (100, True), (10, True)):
        name = f"{readings} readings" if readings else "known"
        regrets, seconds, sweeps, errors = [], 0.0, [], []
        for seed in range(options.seeds):
            agent = PSRLAgent(prior_of(setting, ones, readings, fixed, seed), seed=seed)
            begin = time.process_time()
            trace = simulate(model, agent, options.horizon, (seed, 1))
            seconds += time.process_time() - begin
            regrets.append(float(trace.regret(best)))
            sweeps.append(agent.posterior.tuning.sweeps)
            if hasattr(agent.posterior, "mean_sensor"):
                errors.append(np.abs(agent.posterior.mean_sensor().means - MEANS).mean())
        spread = np.std(regrets, ddof=1) / np.sqrt(len(regrets))
        error = f"{np.mean(errors):14.3f}" if errors else f"{'':14}"
        print(
            f"{name + (', taken as exact' if fixed else ''):22}{np.mean(regrets):10.0f}{spread:8.0f}"
            f"{seconds / options.seeds:15.1f}{np.mean(sweeps):8.0f}{error}",
            flush=True,
        )


if __name__ == "__main__":
    main()
