"""What it costs not to know the sensor: regret, processor time and calibration.

    python benchmarks/learned_sensors.py                            regret of 8 seeds at T = 10^4
    python benchmarks/learned_sensors.py --seeds 2 --arms known,calibrated-100 --results runs.jsonl
    python benchmarks/learned_sensors.py --speed --earlier ../v0.2.0/src
    python benchmarks/learned_sensors.py --sbc 3000
    python benchmarks/learned_sensors.py --mixing

*Regret.* The dynamics are unknown with Dirichlet(1) rows. An agent is told the sensor exactly (`known`);
learns it with the dynamics, from N readings in each state (`calibrated-N`); is told the shares of the same
readings as if they were exact (`plugged-N`); is told a sensor that is wrong by up to 5 % (`wrong`); knows
nothing of it (`flat`); or knows nothing of it and is shown random costs (`flat-seen`), which the optimal
policy that it is compared with uses, too. A line is printed for each run, and added to the file of results if
one is named; runs that the file has are not repeated. The table has means over seeds at T/10, T/4, T/2 and T,
with the standard error at T; costs are scaled to [0, 1].

*Speed.* Processor seconds of whole runs, in pairs that alternate, the least of several: a learned sensor
beside a known one at T = 10^5, and the known one of this version beside that of an earlier one.

*SBC.* z-scores of the sampling identity for many replicates, for ensembles of 32 and 128 kernels, and with
the sensor known: they would show a bias of order 1/N.

*Mixing.* Autocorrelation times of an HMC move at T = 5,000, for sensors that are sharp, in between and
blurred, with weak and strong calibration.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from psrl_pomdp import (
    POMDP,
    CoarsePlanWarning,
    DirichletPrior,
    PSRLAgent,
    Setting,
    plan,
    problem,
    simulate,
)

PROBLEMS = ("railway", "random-readout")
ARMS = (
    "known", "calibrated-1000", "calibrated-100", "calibrated-10", "plugged-1000", "plugged-100",
    "plugged-10", "wrong", "flat", "flat-seen",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--horizon", type=int, default=10_000)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--results", type=Path)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--earlier", type=Path, help="the folder src of an earlier version")
    parser.add_argument("--sbc", type=int, metavar="REPLICATES")
    parser.add_argument("--mixing", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", CoarsePlanWarning)
    if options.sbc:
        calibration(options.sbc)
    elif options.mixing:
        mixing()
    elif options.speed:
        speed(options.horizon, options.repeats, options.earlier)
    else:
        regret(options)


# -- regret ------------------------------------------------------------------------------------------


def regret(options: argparse.Namespace) -> None:
    """Print a line for each run, and the table of means."""
    warnings.filterwarnings("ignore", message=".*cannot be learned from observations")
    found: dict[tuple[str, str], list[list[float]]] = {}
    done = {}
    if options.results and options.results.exists():
        for line in options.results.read_text().splitlines():
            row = json.loads(line)
            done[row["problem"], row["arm"], row["seed"], row["horizon"]] = row
    for name in options.problems.split(","):
        for seed in range(options.seeds):
            for arm in options.arms.split(","):
                row = done.get((name, arm, seed, options.horizon))
                if row is None:
                    row = one_run(name, arm, seed, options.horizon)
                    if options.results:
                        with options.results.open("a") as file:
                            file.write(json.dumps(row) + "\n")
                found.setdefault((name, arm), []).append(row["regret"])
                shown = " ".join(f"{value:.1f}" for value in row["regret"])
                print(f"{name} seed {seed} {arm}: {shown} ({row['seconds']:.1f} s)", flush=True)
    print()
    for (name, arm), rows in found.items():
        mean, n = np.mean(rows, axis=0), len(rows)
        error = np.std([row[-1] for row in rows], ddof=1) / np.sqrt(n) if n > 1 else np.nan
        print(f"{name:15} {arm:16} {' '.join(f'{v:7.1f}' for v in mean)}  ± {error:.1f} (n = {n})")


def one_run(name: str, arm: str, seed: int, horizon: int) -> dict[str, Any]:
    """Return the regret of one run at four times, for costs in [0, 1]."""
    world, prior = world_and_prior(name, arm, seed)
    times = [horizon // 10, horizon // 4, horizon // 2, horizon]
    start = time.process_time()
    trace = simulate(world, PSRLAgent(prior, seed=(seed, 1)), horizon, seed=(seed, 2), checkpoints=times)
    seconds = time.process_time() - start
    best = plan_of(world)
    sums = trace.control_variate_sums(best)
    at = [int(np.flatnonzero(trace.times == t)[0]) for t in times]
    middle = 0.5 * (best.lower_cost + best.upper_cost)
    values = [float(sums[i] - trace.times[i] * middle) for i in at]
    return {
        "problem": name,
        "arm": arm,
        "seed": seed,
        "horizon": horizon,
        "regret": values,
        "seconds": seconds,
    }


_PLANS: dict[str, Any] = {}


def plan_of(world: POMDP) -> Any:
    """Return a plan for a true model, computed once."""
    if world.fingerprint not in _PLANS:
        _PLANS[world.fingerprint] = plan(world, 1e-5, max_work=1e10)
    return _PLANS[world.fingerprint]


def world_and_prior(name: str, arm: str, seed: int) -> tuple[POMDP, Any]:
    """Return the true model and what the agent knows of it."""
    from psrl_pomdp import DirichletSensor
    from psrl_pomdp.sensors.costs import SeenCosts
    from psrl_pomdp.studies.sensor_sensitivity import perturbed

    model: POMDP = problem(name)
    own, flat = model.setting, np.ones_like(model.transition)
    table = own.observation[0]
    rng = np.random.default_rng((seed, 3))
    kind, _, number = arm.partition("-")
    if kind in ("calibrated", "plugged"):
        counts = np.stack([rng.multinomial(int(number), row) for row in table])
        if kind == "calibrated":
            return model, DirichletPrior(own, flat, sensor=DirichletSensor.from_calibration(counts))
        shares = (counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True)
        first = shares if own.has_first_observation else None
        return model, DirichletPrior(own.replace(observation=shares, first_observation=first), flat)
    if kind == "wrong":
        return model, DirichletPrior(perturbed(own, 0.05, rng), flat)
    if kind == "flat":
        if number == "seen":
            ends, chance = own.units.from_scaled(np.array([0.0, 1.0])), own.cost
            order = np.argsort(ends)
            chances = np.stack([1.0 - chance, chance], axis=2)[..., order]
            own = own.replace(seen_cost=SeenCosts(ends[order], chances))
            model = POMDP(own, model.transition)
        return model, DirichletPrior(own, flat, sensor=DirichletSensor(np.ones_like(table)))
    return model, DirichletPrior(own, flat)


# -- speed -------------------------------------------------------------------------------------------


def speed(horizon: int, repeats: int, earlier: Path | None) -> None:
    """Print processor seconds of whole runs, in pairs that alternate."""
    arms = ("known", "calibrated-100", "calibrated-10")
    for arm in arms:
        run_once(arm, 2_000)  # compiles
    times: dict[str, list[float]] = {arm: [] for arm in arms}
    for _ in range(repeats):
        for arm in arms:
            times[arm].append(run_once(arm, horizon))
            print(f"{arm}: {times[arm][-1]:.2f} s", flush=True)
    least = {arm: min(values) for arm, values in times.items()}
    for arm in arms[1:]:
        print(f"{arm} beside known, T = {horizon:g}: {least[arm] / least['known']:.2f} times the time")
    if earlier is None:
        return
    sources = {"now": Path(__file__).parents[1] / "src", "earlier": earlier}
    found: dict[str, list[float]] = {name: [] for name in sources}
    for i in range(repeats + 1):
        for name, source in sources.items():
            seconds = in_another_process(source, horizon)
            print(f"known, {name}: {seconds:.2f} s{' (warms up)' if i == 0 else ''}", flush=True)
            if i:
                found[name].append(seconds)
    ratio = min(found["now"]) / min(found["earlier"])
    print(f"known sensor, this version beside the earlier one, T = {horizon:g}: {ratio:.2f} times the time")


def run_once(arm: str, horizon: int) -> float:
    """Return the processor seconds of a run."""
    world, prior = world_and_prior("random-readout", arm, 0)
    start = time.process_time()
    simulate(world, PSRLAgent(prior, seed=1), horizon, seed=2)
    return time.process_time() - start


def in_another_process(source: Path, horizon: int) -> float:
    """Return the processor seconds of a run with a known sensor under the code in a folder."""
    code = (
        "import warnings; warnings.simplefilter('ignore'); import numpy as np, time; "
        "from psrl_pomdp import DirichletPrior, PSRLAgent, problem, simulate\n"
        "model = problem('random-readout'); prior = DirichletPrior(model.setting, "
        "np.ones_like(model.transition))\n"
        "simulate(model, PSRLAgent(prior, seed=1), 2000, seed=2); start = time.process_time()\n"
        f"simulate(model, PSRLAgent(prior, seed=1), {horizon}, seed=2); print(time.process_time() - start)"
    )
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout.split()[-1])


# -- calibration and mixing ----------------------------------------------------------------------------


def learned(n_states: int, sharpness: float, worth: float | None) -> DirichletPrior:
    """Return a prior with a sensor that is so sharp, known or worth so many readings in each state."""
    from psrl_pomdp import DirichletSensor

    table = np.full((n_states, n_states), (1 - sharpness) / n_states) + sharpness * np.eye(n_states)
    own = Setting(table, np.zeros((2, n_states)), np.full(n_states, 1 / n_states))
    unknown = None if worth is None else DirichletSensor.around(table, worth)
    return DirichletPrior(own, np.ones((2, n_states, n_states)), sensor=unknown)


def calibration(replicates: int) -> None:
    """Print z-scores of the sampling identity."""
    from psrl_pomdp.inference.dirichlet_posterior import DirichletPosterior
    from psrl_pomdp.testing.calibration import sampling_identity

    for worth in (10.0, None):
        for size in (32, 128):
            prior, start = learned(2, 0.5, worth), time.process_time()

            def posterior(
                rng: np.random.Generator, prior: DirichletPrior = prior, size: int = size
            ) -> DirichletPosterior:
                return DirichletPosterior(prior, rng, size=size)

            z = sampling_identity(prior, posterior, replicates, 40, np.random.default_rng(7))
            what = "known" if worth is None else f"worth {worth:g} readings"
            print(
                f"sensor {what}, {size} kernels, {replicates} replicates: log-likelihood {z[0]:+.2f}, its "
                f"square {z[1]:+.2f}, largest of {len(z)} {np.abs(z).max():.2f} "
                f"({time.process_time() - start:.0f} s)",
                flush=True,
            )


def mixing(length: int = 5_000, moves: int = 60) -> None:
    """Print autocorrelation times of one HMC move, and what the refreshes measured."""
    from psrl_pomdp.inference.refresh import hamiltonian
    from psrl_pomdp.testing.calibration import replay, simulate_from_prior

    for sharpness in (0.9, 0.4, 0.1):
        for worth in (100.0, 10.0):
            prior, rng = learned(3, sharpness, worth), np.random.default_rng(5)
            posterior: Any = replay(prior.posterior(rng), simulate_from_prior(prior, length, rng).history)
            start = time.process_time()
            rows, past, space, tuning = posterior._rows, posterior._past, posterior._space, posterior.tuning
            chain, log_rows = [], posterior._log_rows
            for _ in range(moves):
                log_rows = hamiltonian(rows, log_rows, past, space, tuning, rng)
                chain.append(log_rows.copy())
            times = autocorrelation_times(np.array(chain)[moves // 6 :])
            measured = (1 + tuning.hmc_correlation) / max(1 - tuning.hmc_correlation, 1e-3)
            print(
                f"sharpness {sharpness:g}, worth {worth:g}: tau of a move {np.median(times):.1f} median, "
                f"{times.max():.1f} largest; refreshes measured {measured:.1f}; "
                f"{(time.process_time() - start) / moves * 1e3:.0f} ms a move",
                flush=True,
            )


def autocorrelation_times(chain: Any) -> Any:
    """Return τ of each coordinate of chain[moves, R, W, N], by the window of Sokal.

    The N chains have one distribution, so that their common mean is subtracted.
    """
    values = chain - chain.mean(axis=(0, -1), keepdims=True)
    variance = (values**2).mean(axis=(0, -1))
    tau = np.ones(variance.shape)
    active = np.ones(variance.shape, dtype=bool)
    for lag in range(1, len(values) // 2):
        products = (values[lag:] * values[:-lag]).mean(axis=(0, -1))
        tau += np.where(active, 2.0 * products / np.maximum(variance, 1e-300), 0.0)
        active &= lag < 5 * tau
        if not active.any():
            break
    return tau[variance > 1e-12]


if __name__ == "__main__":
    main()
