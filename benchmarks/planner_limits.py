"""Time and memory limits of `plan` on models from eleven states to a thousand, and what it proves then.

    python benchmarks/planner_limits.py --files DIR [--seconds 8] [--gigabytes 1] [--processor] [--only NAME]

Every model is planned for in a process of its own. DIR holds published model files; those of the table that
are not there are left out. `study` is the gap that a study of an earlier version of the planner reached in 8
seconds of processor time. `--processor` counts the limit in processor time, so that what else the machine
does favors nobody. A limit is kept where it is passed by no more than 10 %, and a second.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from planner import by_processor, corridors, grid_by_areas, hallway, tiger_grid

from psrl_pomdp import POMDP, Setting, load, plan, problem, verify
from psrl_pomdp.planning import limits

TOLERANCE = 1e-6


def pursuit(cells: int = 29, width: int = 10) -> POMDP:
    """A robot chases a target that it sees only in its own cell, and ends the chase by tagging it there.

    States are (robot, target), and (robot, tagged), which nobody leaves. Moves cost 1, a tag that misses
    costs 10, one that hits earns 10.
    """
    place = np.array([(k % width, k // width) for k in range(cells)])
    number = {tuple(p): k for k, p in enumerate(place.tolist())}
    steps = ((0, 1), (0, -1), (1, 0), (-1, 0))

    def moved(cell: int, step: tuple[int, int]) -> int:
        x, y = place[cell]
        return number.get((int(x + step[0]), int(y + step[1])), cell)

    n, n_actions = cells * (cells + 1), 5
    transition, reward = np.zeros((n_actions, n, n)), np.zeros((n_actions, n))
    observation = np.zeros((n_actions, n, cells + 1))

    def state(robot: int, target: int) -> int:
        return robot * (cells + 1) + target

    for robot in range(cells):
        for target in range(cells + 1):
            here = state(robot, target)
            observation[:, here, cells if target == robot else robot] = 1.0
            if target == cells:
                transition[:, here, here] = 1.0
                continue
            away = [c for c in (moved(target, s) for s in steps) if c != target]
            far = [
                c
                for c in away
                if abs(place[c] - place[robot]).sum() > abs(place[target] - place[robot]).sum()
            ]
            where = [(target, 0.2)] + [(c, 0.8 / len(far)) for c in far] if far else [(target, 1.0)]
            for a in range(4):
                reward[a, here] = -1.0
                for c, chance in where:
                    transition[a, here, state(moved(robot, steps[a]), c)] += chance
            if robot == target:
                reward[4, here] = 10.0
                transition[4, here, state(robot, cells)] = 1.0
            else:
                reward[4, here] = -10.0
                for c, chance in where:
                    transition[4, here, state(robot, c)] += chance
    start = np.zeros(n)
    for robot in range(cells):
        for target in range(cells):
            start[state(robot, target)] = 1.0 / cells**2
    setting = Setting.from_rewards(observation, reward, start, first_observation=None)
    return POMDP(setting, transition, "pursuit")


def offices(rooms: int = 12, per_room: int = 6) -> POMDP:
    """A robot with a heading in square rooms joined by doors, which feels walls and looks for a charger.

    Moves cost .6; at the charger it may rest for ever at .5, and nowhere else.
    """
    free = {
        (row * (per_room + 1) + i, column * (per_room + 1) + j)
        for row in range(2)
        for column in range(rooms // 2)
        for i in range(per_room)
        for j in range(per_room)
    }
    door = per_room // 2
    for row in range(2):
        for column in range(rooms // 2 - 1):
            free.add((row * (per_room + 1) + door, column * (per_room + 1) + per_room))
    free.update((per_room, column * (per_room + 1) + door) for column in range(rooms // 2))
    cells = sorted(free)[: (1049 - 1) // 4]
    number = {cell: k for k, cell in enumerate(cells)}
    steps = ((0, 1), (1, 0), (0, -1), (-1, 0))
    home = 4 * len(cells)
    n = home + 1
    transition, cost, sensor = np.zeros((4, n, n)), np.full((4, n), 0.6), np.zeros((n, 28))

    def ahead(k: int, heading: int) -> int:
        (x, y), (dx, dy) = cells[k], steps[heading]
        return number.get((x + dx, y + dy), k)

    for k in range(len(cells)):
        for heading in range(4):
            s = 4 * k + heading
            walls = sum((ahead(k, (heading + turn) % 4) == k) << turn for turn in range(4))
            sensor[s, walls] += 0.9
            sensor[s, 16 + k % 11] += 0.1  # a sign on the floor
            transition[0, s, 4 * ahead(k, heading) + heading] += 0.9
            transition[0, s, s] += 0.1
            for a, turn in ((1, 1), (2, 3)):
                transition[a, s, 4 * k + (heading + turn) % 4] = 0.9
                transition[a, s, s] = 0.1
            transition[3, s, home if k == len(cells) // 2 else s] = 1.0
    transition[:, home, home] = 1.0
    cost[:, home] = 0.5
    sensor[home, 27] = 1.0
    start = np.append(np.full(n - 1, 1 / (n - 1)), 0.0)
    return POMDP(Setting(sensor, cost, start, first_observation=None), transition, "offices")


def sparse(n: int, n_actions: int = 4, n_readings: int = 10, moves: int = 5, seed: int = 0) -> POMDP:
    """A random model with few next states, of which some are near, and a sensor of two readings a state."""
    rng = np.random.default_rng(seed)
    transition = np.zeros((n_actions, n, n))
    for a in range(n_actions):
        for s in range(n):
            onward = np.concatenate([(s + rng.integers(1, 6, moves - 1)) % n, rng.integers(n, size=1)])
            np.add.at(transition[a, s], onward, rng.dirichlet(np.ones(moves)))
    sensor = np.zeros((n, n_readings))
    for s in range(n):
        one, two = rng.choice(n_readings, 2, replace=False)
        sensor[s, one], sensor[s, two] = 0.8, 0.2
    cost = rng.random((n_actions, n)) * np.linspace(0.2, 1.0, n)[rng.permutation(n)]
    return POMDP(Setting(sensor, cost, np.full(n, 1 / n)), transition, f"sparse-{n}")


GENERATED: dict[str, Callable[[], POMDP]] = {
    "noisy grid": lambda: grid_by_areas(4),
    "corridor": lambda: corridors(5),
    "tiger-grid": tiger_grid,
    "hallway-like": hallway,
    "sparse, 100": lambda: sparse(100),
    "pursuit, 14 cells": lambda: pursuit(14, 5),
    "sparse, 300": lambda: sparse(300),
    "pursuit, 29 cells": pursuit,
    "sparse, 1000": lambda: sparse(1000),
    "offices": offices,
}
PUBLISHED = {
    "4x3.95.POMDP": 9e-7,
    "aloha-10max.POMDP": 1.8e-5,
    "hallway2.pomdp": 3.7e-2,
    "machine.pomdp": 4e-2,
}
COLUMNS = "model S A O seconds CPU MB lower upper gap study status kept"


def peak() -> float:
    """The most memory that this process has held, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024.0 * float(line.split()[1])
    return float("nan")


def measured(model: POMDP, seconds: float, gigabytes: float, processor: bool) -> dict[str, object]:
    """What one plan takes and proves, beside its limits."""
    plan(problem("tiger"), 1e-3)  # compiles
    if processor:
        by_processor(limits)
    assert model.fingerprint
    before, begun, spent = peak(), time.perf_counter(), time.process_time()
    found = plan(model, TOLERANCE, time_limit=seconds, memory_limit=1e9 * gigabytes)
    taken, spent = time.perf_counter() - begun, time.process_time() - spent
    held = peak() - before
    verify(found, model)
    clock = spent if processor else taken
    kept = clock <= 1.1 * seconds + 1.0 and held <= 1.1e9 * gigabytes
    return {
        "S": len(found.states),
        "A": model.n_actions,
        "O": model.n_observations,
        "seconds": round(taken, 2),
        "CPU": round(spent, 2),
        "MB": round(held / 1e6),
        "lower": round(found.lower_cost, 6),
        "upper": round(found.upper_cost, 6),
        "gap": f"{found.gap:.1e}",
        "status": found.status,
        "kept": "yes" if kept else "NO",
    }


def row(name: str, options: argparse.Namespace) -> dict[str, object]:
    """The line of one model, from a process of its own."""
    command = [sys.executable, __file__, "--model", name, "--seconds", str(options.seconds)]
    command += ["--gigabytes", str(options.gigabytes)]
    command += ["--files", str(options.files)] if options.files else []
    command += ["--processor"] if options.processor else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"status": done.stderr.strip().splitlines()[-1], "kept": "NO"}
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--files", type=Path)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--model", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.model:
        made = GENERATED.get(options.model)
        model = made() if made else load(options.files / options.model)
        print(json.dumps(measured(model, options.seconds, options.gigabytes, options.processor)))
        return
    there = [name for name in PUBLISHED if options.files and (options.files / name).exists()]
    columns = COLUMNS.split()
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name in [*there, *GENERATED]:
        if options.only in name:
            study = f"{PUBLISHED[name]:.1e}" if name in PUBLISHED else ""
            cells = {"model": name, "study": study, **row(name, options)}
            print(f"| {' | '.join(str(cells.get(column, '')) for column in columns)} |", flush=True)


if __name__ == "__main__":
    main()
