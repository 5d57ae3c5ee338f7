"""What the planner reaches, and how fast, beside a fixed computation and, if given, a peer.

    python benchmarks/planner.py                     random models and hard classes
    python benchmarks/planner.py --files FOLDER      the public model files in a folder, too
    python benchmarks/planner.py --peer PEER.py      beside another solver in the same run
    python benchmarks/planner.py --seconds 60        as long as the hard classes may take each
    python benchmarks/planner.py --warm              only what planning from an earlier plan saves

A peer is a Python file with `solve(transition, observation, cost, initial, tolerance, seconds)` that returns
(lower, upper), with arrays as in this package: [A, S, S], [A, S, O], [A, S] in [0, 1], [S]. Times are in
seconds and in units of the fixed computation (ten products of 600 x 600 matrices), which tells how fast the
machine was at that moment.
"""

from __future__ import annotations

import argparse
import runpy
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from psrl_pomdp import POMDP, Setting, load, plan, plan_many, problem

Solver = Callable[[POMDP, float, float], tuple[float, float]]


def reference_seconds() -> float:
    """The fixed computation."""
    matrix = np.random.default_rng(0).random((600, 600))
    begun = time.perf_counter()
    for _ in range(10):
        matrix = matrix @ matrix
        matrix /= matrix.max()
    return time.perf_counter() - begun


def ours(model: POMDP, tolerance: float, seconds: float) -> tuple[float, float]:
    found = plan(model, tolerance, time_limit=seconds)
    return found.lower_cost, found.upper_cost


def peer_from(path: str) -> Solver:
    solve = runpy.run_path(path)["solve"]

    def peer(model: POMDP, tolerance: float, seconds: float) -> tuple[float, float]:
        own = model.setting
        lower, upper = solve(model.transition, own.observation, own.cost, own.initial, tolerance, seconds)
        return float(lower), float(upper)

    return peer


def random_model(n_states: int, n_actions: int, n_readings: int, seed: int) -> POMDP:
    """Rows uniform on the simplex, a sensor that no action changes, uniform costs."""
    rng = np.random.default_rng([seed, n_states, n_actions, n_readings])
    sensor = rng.dirichlet(np.ones(n_readings), size=n_states)
    start = np.full(n_states, 1 / n_states)
    setting = Setting(sensor, rng.random((n_actions, n_states)), start, first_observation=None)
    return POMDP(setting, rng.dirichlet(np.ones(n_states), size=(n_actions, n_states)))


def nearly_deterministic(noise: float, n_states: int = 4) -> POMDP:
    """A ring with steps to either side; only the first place is seen, only the last is cheap."""
    stay = np.eye(n_states)
    moves = np.stack([stay, np.roll(stay, 1, axis=1), np.roll(stay, -1, axis=1)])
    sensor = np.tile([5 * noise, 1 - 5 * noise], (n_states, 1))
    sensor[0] = sensor[0][::-1]
    cost = np.full((3, n_states), 0.5)
    cost[0] = 1.0
    cost[0, -1] = 0.0
    setting = Setting(sensor, cost, np.full(n_states, 1 / n_states), first_observation=None)
    return POMDP(setting, (1 - noise) * moves + noise / n_states)


def corridors(length: int) -> POMDP:
    """Two rooms on a corridor with four headings, walls felt with errors: of the hallway's kind."""
    places = length + 2
    n_states = 4 * places
    facing = np.arange(n_states) % 4
    place = np.arange(n_states) // 4
    forward = np.where(facing == 1, np.minimum(place + 1, length - 1), place)
    forward = np.where(facing == 3, np.maximum(place - 1, 0), forward)
    forward = np.where(
        place >= length, np.where(facing == 0, (place - length) * (length - 1), place), forward
    )
    side = np.where((facing == 2) & ((place == 0) | (place == length - 1)), length + (place > 0), forward)
    ahead = 4 * np.where(place < length, side, forward) + facing
    turn = [4 * place + (facing + k) % 4 for k in (1, 2, 3)]
    here = np.arange(n_states)
    transition = np.zeros((4, n_states, n_states))
    for a, target in enumerate((ahead, *turn)):
        transition[a, here, target] += 0.85
        transition[a, here, here] += 0.1
        transition[a, here, ahead] += 0.05
    goal = 4 * (length + 1) + np.arange(4)
    transition[:, goal] = 1.0 / n_states
    wall = (ahead == here).astype(int) + 2 * (turn[0] % 2 == 0)
    sensor = np.full((n_states, 5), 0.04)
    sensor[here, np.where(np.isin(here, goal), 4, wall)] += 0.8
    cost = np.ones((4, n_states))
    cost[:, goal] = 0.0
    return POMDP(Setting(sensor, cost, np.full(n_states, 1 / n_states), first_observation=None), transition)


def nearby(model: POMDP, concentration: float, count: int) -> list[POMDP]:
    """Kernels as a posterior would draw them: Dirichlet rows about those of the model."""
    rng = np.random.default_rng([int(concentration), model.n_states])
    kernels = [rng.gamma(concentration * model.transition) + 1e-300 for _ in range(count)]
    kernels = [np.where(model.transition > 0, kernel, 0.0) for kernel in kernels]
    return [POMDP(model.setting, kernel / kernel.sum(axis=2, keepdims=True)) for kernel in kernels]


def warm_report(name: str, model: POMDP, tolerance: float, concentration: float, count: int = 7) -> None:
    """One line: what planning from an earlier plan takes, as a share of planning afresh; medians."""
    first = plan(model, tolerance)
    worlds = nearby(model, concentration, count)
    seconds, work = [], []
    cold = 0.0
    for world in worlds:
        taken, done = [], []
        for start in (None, first):
            begun = time.perf_counter()
            found = plan(world, tolerance, warm_start=start)
            taken.append(time.perf_counter() - begun)
            done.append(found.rounds[-1].work)
        cold += taken[0]
        seconds.append(taken[1] / taken[0])
        work.append(done[1] / done[0])
    begun = time.perf_counter()
    plan_many(model.setting, np.stack([world.transition for world in worlds]), tolerance, workers=1)
    many = (time.perf_counter() - begun) / cold
    print(
        f"{name:<28} {tolerance:>7.0e} {concentration:>9.0e} {np.median(seconds):>9.2f}"
        f" {np.median(work):>9.2f} {max(seconds):>9.2f} {many:>9.2f}",
        flush=True,
    )


def warm_section() -> None:
    print(
        "\nfrom an earlier plan, as a share of planning afresh: median time and work, worst time; plan_many"
    )
    print(f"{'':<28} {'to':>7} {'draws of':>9} {'time':>9} {'work':>9} {'worst':>9} {'many':>9}")
    for sizes, tolerance in (((3, 3, 3), 1e-5), ((4, 3, 3), 1e-5), ((6, 3, 3), 1e-5), ((10, 3, 3), 1e-4)):
        for concentration in (1e3, 1e4, 1e5):
            warm_report(f"random S, A, O = {sizes}", random_model(*sizes, 1), tolerance, concentration)
    for concentration in (1e3, 1e5):
        warm_report("noisy grid 4 x 3", problem("noisy-grid", rows=4, columns=3), 1e-3, concentration)
        warm_report("nearly deterministic 0.01", nearly_deterministic(0.01), 1e-3, concentration)


def report(
    name: str, models: list[POMDP], tolerance: float, seconds: float, solvers: dict[str, Solver]
) -> None:
    """One line: median time and worst gap of each solver over the models."""
    unit = reference_seconds()
    cells = []
    intervals: dict[str, list[tuple[float, float]]] = {}
    for who, solver in solvers.items():
        times, gaps = [], []
        for model in models:
            begun = time.perf_counter()
            lower, upper = solver(model, tolerance, seconds)
            times.append(time.perf_counter() - begun)
            gaps.append(upper - lower)
            intervals.setdefault(who, []).append((lower, upper))
        middle = float(np.median(times))
        cells.append(f"{middle:>9.3f} {middle / unit:>8.1f} {max(gaps):>9.1e}")
    print(f"{name:<28} {tolerance:>7.0e} " + "   ".join(cells) + _agreement(intervals), flush=True)


def _agreement(intervals: dict[str, list[tuple[float, float]]]) -> str:
    """Certified intervals of different solvers must overlap."""
    for row in zip(*intervals.values(), strict=True):
        if max(low for low, _ in row) > min(high for _, high in row) + 1e-9:
            return "   DISAGREE"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=Path)
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--quick", action="store_true", help="skip the hard classes")
    parser.add_argument("--warm", action="store_true", help="only plans from earlier plans")
    options = parser.parse_args()
    if options.warm:
        warm_section()
        return
    solvers: dict[str, Solver] = {"ours": ours} | {Path(path).stem: peer_from(path) for path in options.peer}
    for solver in solvers.values():  # compiling is not what is measured
        solver(random_model(3, 2, 2, 0), 1e-3, 5.0)
    print(
        f"fixed computation: {reference_seconds():.3f} s; median time in seconds and in its units, worst gap"
    )
    print(f"{'':<28} {'to':>7} " + "   ".join(f"{who:>28}" for who in solvers))
    for path in sorted(options.files.glob("*.[pP][oO][mM][dD][pP]")) if options.files else []:
        try:
            model = load(path)
        except ValueError as error:
            print(f"{path.stem:<28} refused: {error}")
            continue
        report(path.stem, [model], 1e-3 if model.n_states > 20 else 1e-6, options.seconds, {"ours": ours})
    for sizes, count, tolerance in (
        ((3, 3, 3), 20, 1e-6),
        ((4, 3, 3), 20, 1e-6),
        ((6, 3, 3), 10, 1e-6),
        ((4, 4, 6), 6, 1e-6),
        ((10, 3, 3), 6, 1e-6),
        ((10, 4, 6), 6, 1e-5),
    ):
        models = [random_model(*sizes, seed) for seed in range(count)]
        report(f"random S, A, O = {sizes}", models, tolerance, 10.0, solvers)
    warm_section()
    if options.quick:
        return
    hard = {f"nearly deterministic {noise}": nearly_deterministic(noise) for noise in (0.001, 0.01, 0.05)}
    hard |= {"noisy grid 4 x 3": problem("noisy-grid", rows=4, columns=3)}
    hard |= {"noisy grid 4 x 4": problem("noisy-grid", rows=4, columns=4)}
    hard |= {f"corridors, {4 * (n + 2)} states": corridors(n) for n in (3, 7, 13)}
    for name, model in hard.items():
        report(name, [model], 1e-7, options.seconds, solvers)


if __name__ == "__main__":
    main()
