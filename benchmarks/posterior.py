"""How fast the posteriors are, beside a plain loop and, if given, a peer.

    python benchmarks/posterior.py                   10^4 and 10^5 steps
    python benchmarks/posterior.py --long            10^6 steps, too
    python benchmarks/posterior.py --peer PEER.py    beside another posterior in the same run

Times are processor seconds, which other work on the machine changes least. The continuous case has 3
states, 3 actions and 4 readings, actions at random, and a sensor that is sharp, in between or a blur. The
exponent is that of the time between the two longest runs: 1 would be a cost a step that does not grow. A
peer is a Python file with `run(sensor, n_actions, horizon, seed)`, with sensor[S, O], that lives through
that many steps with its own posterior and actions at random. The finite case is 16 kernels of 4 states, in
updates a second, beside the same recursions in numpy.
"""

from __future__ import annotations

import argparse
import runpy
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from psrl_pomdp import DirichletPrior, FinitePrior, Setting
from psrl_pomdp._numba.jit import GROUPS
from psrl_pomdp._utils.arrays import Array

Index = npt.NDArray[np.int64]
Peer = Callable[[Array, int, int, int], object]
SENSORS = {"sharp": 0.9, "between": 0.4, "blur": 0.1}


def sensor(n_states: int, n_readings: int, sharpness: float) -> Array:
    """Tells the state with this much above chance."""
    return np.full((n_states, n_readings), (1 - sharpness) / n_readings) + sharpness * np.eye(
        n_states, n_readings
    )


def life(told: Array, n_actions: int, horizon: int, seed: int) -> tuple[Index, Index]:
    """Actions at random and their readings, in a world with rows uniform on the simplex."""
    rng = np.random.default_rng(seed)
    n_states = len(told)
    rows = rng.dirichlet(np.ones(n_states), size=(n_actions, n_states)).cumsum(axis=-1)
    shown = told.cumsum(axis=-1)
    actions, chances = rng.integers(n_actions, size=horizon), rng.random((horizon, 2))
    readings, state = np.zeros(horizon, dtype=np.int64), 0
    for t in range(horizon):
        state = min(int(np.searchsorted(rows[actions[t], state], chances[t, 0])), n_states - 1)
        readings[t] = min(int(np.searchsorted(shown[state], chances[t, 1])), told.shape[1] - 1)
    return actions, readings


def continuous(told: Array, horizon: int, seed: int) -> float:
    """Seconds for one life with Dirichlet(1) rows."""
    actions, readings = life(told, 3, horizon, seed)
    setting = Setting(told, np.zeros((3, 3)), np.full(3, 1 / 3), first_observation=None)
    posterior = DirichletPrior(setting, np.ones((3, 3, 3))).posterior(np.random.default_rng(seed))
    posterior.start(None)
    begun = time.process_time()
    posterior.update_many(actions, readings)
    return time.process_time() - begun


def report(name: str, horizons: list[int], peer: Peer | None) -> None:
    """One line: seconds at each horizon, and how they grow."""
    told = sensor(3, 4, SENSORS[name])
    continuous(told, 3000, 0)  # compile
    times = [continuous(told, horizon, 1) for horizon in horizons]
    growth = np.log(times[-1] / times[-2]) / np.log(horizons[-1] / horizons[-2])
    cells = "  ".join(f"10^{np.log10(h):.0f}: {t:7.2f} s" for h, t in zip(horizons, times, strict=True))
    line = f"{name:<8} {cells}  exponent {growth:.2f}"
    if peer is not None:
        peer(told, 3, 3000, 0)
        begun = time.process_time()
        peer(told, 3, horizons[-1], 1)
        theirs = time.process_time() - begun
        line += f"  peer {theirs:7.2f} s, ours / peer {times[-1] / theirs:.2f}"
    print(line, flush=True)


def plain(prior: FinitePrior, actions: Index, readings: Index) -> Array:
    """Weights, beliefs and expected visits in numpy, a step at a time."""
    kernels, own = prior.kernels, prior.setting
    belief, logs = prior.initial.copy(), np.log(prior.weights)
    visits = np.zeros((len(prior), own.n_actions, own.n_states, own.n_states))
    states = np.arange(own.n_states)
    for a, o in zip(actions, readings, strict=True):
        visits[:, a, states, states] += belief
        step = kernels[:, a] * own.observation[a, :, o]
        after = np.einsum("ms,mst->mt", belief, step)
        chance = after.sum(axis=1)
        visits = np.einsum("masx,mxy->masy", visits, step / chance[:, None, None])
        belief, logs = after / chance[:, None], logs + np.log(chance)
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def finite() -> None:
    """Updates a second, compiled, streamed from Python, and in plain numpy."""
    rng = np.random.default_rng(0)
    setting = Setting(sensor(4, 4, 0.4), np.zeros((3, 4)), np.full(4, 0.25), first_observation=None)
    prior = FinitePrior(setting, rng.dirichlet(np.ones(4), size=(16, 3, 4)))
    actions, readings = life(sensor(4, 4, 0.4), 3, 200_000, 0)
    posterior, streamed = prior.posterior(), prior.posterior()
    posterior.start(None)
    streamed.start(None)
    posterior.update_many(actions[:10], readings[:10])
    rates = {}
    begun = time.process_time()
    posterior.update_many(actions[10:], readings[10:])
    rates["compiled loop"] = (len(actions) - 10) / (time.process_time() - begun)
    begun = time.process_time()
    for a, o in zip(actions[:20_000].tolist(), readings[:20_000].tolist(), strict=True):
        streamed.update(a, o)
    rates["one by one"] = 20_000 / (time.process_time() - begun)
    begun = time.process_time()
    weights = plain(prior, actions[:5000], readings[:5000])
    rates["numpy"] = 5000 / (time.process_time() - begun)
    again = prior.posterior()
    again.start(None)
    again.update_many(actions[:5000], readings[:5000])
    print("updates a second: " + "  ".join(f"{name} {rate:,.0f}" for name, rate in rates.items()))
    print(f"largest difference of weights from numpy {np.abs(again.weights - weights).max():.1e}")


def main() -> None:
    for group in GROUPS:
        group.compile()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--long", action="store_true", help="10^6 steps, too")
    parser.add_argument("--peer", help="a Python file with run(sensor, n_actions, horizon, seed)")
    given = parser.parse_args()
    peer = runpy.run_path(given.peer)["run"] if given.peer else None
    finite()
    horizons = [10_000, 100_000] + ([1_000_000] if given.long else [])
    for name in SENSORS:
        report(name, horizons, peer)


if __name__ == "__main__":
    main()
