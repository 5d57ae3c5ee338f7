"""What the planner reaches, and how fast, beside a fixed computation and, if given, a peer.

    python benchmarks/planner.py                     start-dependent, random and hard models
    python benchmarks/planner.py --files FOLDER      the public model files in a folder, too
    python benchmarks/planner.py --certified --files FOLDER   only these and the start-dependent models
    python benchmarks/planner.py --peer PEER.py      beside another solver in the same run
    python benchmarks/planner.py --hard --peer DIR   only the hard classes, beside the planner studies in DIR
    python benchmarks/planner.py --seconds 60        as long as the hard classes may take each
    python benchmarks/planner.py --warm              only what planning from an earlier plan saves

A peer is a Python file with `solve(transition, observation, cost, initial, tolerance, seconds)` that returns
(lower, upper), with arrays as in this package: [A, S, S], [A, S, O], [A, S] in [0, 1], [S]; or a folder with
the feasibility studies `core.py` and `planner2/`. Times are in seconds and in units of the fixed computation
(ten products of 600 x 600 matrices), which tells how fast the machine was at that moment. The hard classes
are limited in processor time, so that what else the machine does favours nobody.
"""

from __future__ import annotations

import argparse
import importlib
import runpy
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from psrl_pomdp import POMDP, Setting, load, plan, plan_many, problem, verify
from psrl_pomdp._numba.jit import GROUPS
from psrl_pomdp.planning import bound_pair, limits

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


class ProcessorClock:
    """Stands in for the module `time`: every clock is the processor's."""

    time = monotonic = perf_counter = process_time = staticmethod(time.process_time)


def by_processor(*modules: ModuleType) -> None:
    """Let these modules measure their limits in processor time."""
    for module in modules:
        vars(module)["time"] = ProcessorClock


def studies_from(folder: Path, room: Path) -> dict[str, Solver]:
    """The feasibility studies in a folder, copied to where they may leave compiled code."""
    for kind in ("*.py", "planner2/*.py"):
        for source in folder.glob(kind):
            shutil.copy(source, room)
    sys.path.insert(0, str(room))
    problems, core, second, *parts = (
        importlib.import_module(name) for name in ("problems", "core", "plan2", "lower", "upper")
    )
    by_processor(core, second, *parts)

    def posed(model: POMDP) -> tuple[Any, int]:
        own = model.setting
        most = int(1.5e9 / (20 * own.observation.size))  # points that fit into 1.5 GB
        return problems.POMDP(model.transition, own.observation, own.cost.T, own.initial), min(most, 20_000)

    def first_study(model: POMDP, tolerance: float, seconds: float) -> tuple[float, float]:
        problem, most = posed(model)
        planner = core.Planner(problem, cap=most)
        planner.run(tolerance, seconds)
        return float(planner.Jlo), float(planner.Jhi)

    def second_study(model: POMDP, tolerance: float, seconds: float) -> tuple[float, float]:
        problem, most = posed(model)
        lower, upper = second.Plan(problem, cap=most).run(tolerance, seconds)
        return float(lower), float(upper)

    return {"study 1": first_study, "study 2": second_study}


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


def grid_by_areas(columns: int, noise: float = 0.15) -> POMDP:
    """The noisy grid of four rows, read by areas: the upper or lower half of the first, second or a later
    column, or with probability `noise` another area. The goal is never seen as such."""
    moves = problem("noisy-grid", rows=4, columns=columns)
    row, column = np.divmod(np.arange(moves.n_states), columns)
    sensor = np.full((moves.n_states, 6), noise / 5)
    sensor[np.arange(moves.n_states), 2 * np.minimum(column, 2) + (row >= 2)] = 1 - noise
    start = np.full(moves.n_states, 1 / moves.n_states)
    return POMDP(Setting(sensor, moves.setting.cost, start, first_observation=None), moves.transition)


def corridors(length: int) -> POMDP:
    """Two rooms on a corridor with four headings, walls felt with errors, as in the public hallway models."""
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


def maze(
    places: list[tuple[int, int]],
    goal: tuple[int, int],
    landmarks: list[tuple[int, int]],
    reward: dict[tuple[int, int], float],
    start: list[int],
) -> POMDP:
    """Places by (row, column) with four headings, moved through and felt as in the public robot mazes
    (Littman, Cassandra and Kaelbling 1995): motion that may go astray, walls on four sides each felt with
    errors, landmarks seen facing south, a goal that is seen and left for one of the starts."""
    steps = ((-1, 0), (0, 1), (1, 0), (0, -1))  # north, east, south, west
    n_states, at_goal = 4 * len(places), 4 * places.index(goal) + np.arange(4)
    transition = np.zeros((5, n_states, n_states))  # nothing, forward, turn right, about, left
    sensor = np.zeros((n_states, 17 + len(landmarks)))
    for state in range(n_states):
        (row, column), heading = places[state // 4], state % 4
        beside = [(row + dr, column + dc) for dr, dc in steps]
        base = state - heading
        seen: np.ndarray[tuple[int, ...], np.dtype[Any]] = np.ones(1)
        transition[0, state, state] = 1.0
        transition[1, state, state] = 0.05
        for turn, chance in enumerate((0.8, 0.05, 0.05, 0.05)):  # ahead, right, back, left
            way = (heading + turn) % 4
            if beside[way] not in places:
                transition[1, state, state] += chance
                continue
            there = 4 * places.index(beside[way])
            for facing in (way,) if turn != 2 else (way, heading):  # pushed back, it may have turned
                transition[1, state, there + facing] += chance if turn != 2 else chance / 2
        for action, chances in ((2, (1, 7, 1, 1)), (3, (1, 1.5, 6, 1.5)), (4, (1, 1, 1, 7))):
            for turn, chance in enumerate(chances):
                transition[action, state, base + (heading + turn) % 4] = chance / 10
        for turn in (0, 1, 2, 3):  # a wall ahead counts 8, to the right 4, behind 2, to the left 1
            felt = 0.05 if beside[(heading + turn) % 4] in places else 0.9
            seen = np.kron(seen, [1 - felt, felt])
        sensor[state, :16] = seen
        if heading == 2 and (row, column) in landmarks:
            sensor[state] = np.eye(sensor.shape[1])[17 + landmarks.index((row, column))]
    sensor[at_goal] = np.eye(sensor.shape[1])[16]
    initial = np.zeros(n_states)
    initial[start] = 1 / len(start)
    transition[:, at_goal] = initial
    worth = np.repeat([reward.get(place, 0.0) for place in places], 4)
    paid = transition @ worth  # on arrival
    cost = (paid.max() - paid) / np.ptp(paid)
    return POMDP(Setting(sensor, cost, initial, first_observation=None), transition)


def tiger_grid() -> POMDP:
    """The public tiger-grid: nine places, a prize in the middle, tigers in two corners."""
    places = [(0, c) for c in range(5)] + [(1, c) for c in (0, 1, 3, 4)]
    return maze(places, (0, 2), [], {(0, 2): 1.0, (0, 0): -1.0, (0, 4): -1.0}, start=[24, 28])


def hallway() -> POMDP:
    """A maze of the size of the public model `hallway`: eleven places in a row and four rooms to the south of
    them, of which the last is the goal; landmarks in front of the others and at the western end."""
    doors = [2, 4, 6, 8]
    places = [(0, c) for c in range(11)] + [(1, c) for c in doors]
    landmarks = [(0, 0)] + [(0, c) for c in doors[:-1]]
    anywhere = [state for state in range(60) if state // 4 != 14]
    return maze(places, (1, 8), landmarks, {(1, 8): 1.0}, start=anywhere)


def hypothesis_test(accuracy: float = 0.7) -> POMDP:
    """Two worlds that never change; name the right one, for ever."""
    sensor = [[accuracy, 1 - accuracy], [1 - accuracy, accuracy]]
    setting = Setting(sensor, [[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5], first_observation=None)
    return POMDP(setting, np.stack([np.eye(2), np.eye(2)]))


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


def certified_section(files: Path | None, seconds: float) -> None:
    """One line a model: time, gap, and the best average in the model's own units, as `verify` finds it."""
    print(f"{'the best average':<28} {'to':>7} {'seconds':>9} {'units':>8} {'gap':>9} {'proved':>29}")
    models = {
        "two rooms, .5": problem("two-rooms"),
        "blind cycle, .35": problem("blind-cycle"),
        "hypothesis test, 0": hypothesis_test(),
    }
    for name, model in models.items():
        certified(name, model, 1e-8, seconds)
    for path in files_in(files):
        try:
            model = load(path)
        except ValueError as error:
            print(f"{path.stem:<28} refused: {error}")
            continue
        certified(path.stem, model, 1e-3 if model.n_states > 20 else 1e-6, seconds)


def files_in(folder: Path | None) -> list[Path]:
    return sorted(folder.glob("*.[pP][oO][mM][dD][pP]")) if folder else []


def certified(name: str, model: POMDP, tolerance: float, seconds: float) -> None:
    unit, begun = reference_seconds(), time.perf_counter()
    found = plan(model, tolerance, time_limit=seconds)
    taken = time.perf_counter() - begun
    lower, upper = verify(found, model)
    print(
        f"{name:<28} {tolerance:>7.0e} {taken:>9.3f} {taken / unit:>8.1f} {found.gap:>9.1e}"
        f" {lower:>14.7f} {upper:>14.7f}",
        flush=True,
    )


def _agreement(intervals: dict[str, list[tuple[float, float]]]) -> str:
    """Certified intervals of different solvers must overlap."""
    for row in zip(*intervals.values(), strict=True):
        if max(low for low, _ in row) > min(high for _, high in row) + 1e-9:
            return "   DISAGREE"
    return ""


def hard_classes(files: Path | None) -> list[tuple[str, POMDP, float]]:
    """Name, model, and the gap that a minute on one core should reach; one of them is a public file."""
    classes: list[tuple[str, POMDP, float]] = [
        (f"nearly deterministic {noise}", nearly_deterministic(noise), target)
        for noise, target in ((0.001, 5e-6), (0.01, 5e-6), (0.05, 1e-4))
    ]
    for columns, target in ((3, 1e-5), (4, 1e-4)):
        classes.append((f"grid 4 x {columns} read by areas", grid_by_areas(columns), target))
        walls = problem("noisy-grid", rows=4, columns=columns)
        classes.append((f"grid 4 x {columns} read by walls", walls, target))
    for length, target in ((3, 2e-3), (7, 2e-3), (13, 5e-3)):
        classes.append((f"corridors, {4 * (length + 2)} states", corridors(length), target))
    classes.append(("tiger-grid, 36 states", tiger_grid(), 2e-3))
    classes.append(("hallway, 60 states", hallway(), 5e-3))
    classes += [(path.stem, load(path), 3e-6) for path in files_in(files) if path.stem.startswith("aloha-10")]
    return classes


def hard_section(seconds: float, solvers: dict[str, Solver], only: str, files: Path | None) -> None:
    """One line a class: the gap of each solver, its interval, and the target of the class."""
    by_processor(limits, bound_pair)
    print(f"gaps and intervals after {seconds:.0f} s of processor time, beside what a minute should reach")
    print(f"{'':<28} {'target':>7} " + "   ".join(f"{who:>31}" for who in solvers))
    for name, model, target in hard_classes(files):
        if only not in name:
            continue
        intervals = {who: [solver(model, 1e-7, seconds)] for who, solver in solvers.items()}
        cells = [f"{high - low:>9.1e} [{low:.7f}, {high:.7f}]" for ((low, high),) in intervals.values()]
        print(f"{name:<28} {target:>7.0e} " + "   ".join(cells) + _agreement(intervals), flush=True)


def main() -> None:
    for group in GROUPS:
        group.compile()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=Path)
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--certified", action="store_true", help="only what has a known best average")
    parser.add_argument("--quick", action="store_true", help="skip the hard classes")
    parser.add_argument("--hard", action="store_true", help="only the hard classes")
    parser.add_argument("--only", default="", help="of the hard classes, those with this in their name")
    parser.add_argument("--warm", action="store_true", help="only plans from earlier plans")
    options = parser.parse_args()
    if options.warm:
        warm_section()
        return
    with tempfile.TemporaryDirectory() as room:
        compare(options, Path(room))


def compare(options: argparse.Namespace, room: Path) -> None:
    """Everything that is measured beside peers; `room` is where the studies are copied to."""
    solvers: dict[str, Solver] = {"ours": ours}
    for path in map(Path, options.peer):
        solvers |= studies_from(path, room) if path.is_dir() else {path.stem: peer_from(str(path))}
    for solver in solvers.values():  # compiling is not what is measured
        solver(random_model(3, 2, 2, 0), 1e-3, 5.0)
    if options.hard:
        hard_section(options.seconds, solvers, options.only, options.files)
        return
    print(f"fixed computation: {reference_seconds():.3f} s")
    certified_section(options.files, options.seconds)
    if options.certified:
        return
    print("\nmedian time in seconds and in units of the fixed computation, worst gap")
    print(f"{'':<28} {'to':>7} " + "   ".join(f"{who:>28}" for who in solvers))
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
    hard_section(options.seconds, solvers, options.only, options.files)


if __name__ == "__main__":
    main()
