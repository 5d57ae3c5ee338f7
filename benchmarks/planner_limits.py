"""Time and memory limits of `plan` on models from a few states to a thousand, and what it proves within them.

    python benchmarks/planner_limits.py --files DIR [--seconds 8] [--gigabytes 2]

Every model is planned for in a process of its own. DIR holds published model files; those that are named in
the table below and are not there are replaced by generated models of the same kind and size.
"""

from __future__ import annotations

import numpy as np

from psrl_pomdp import POMDP, Setting


def pursuit(cells: int = 29, width: int = 10, seed: int = 0) -> POMDP:
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


def offices(side: int = 16, floors: int = 4, seed: int = 0) -> POMDP:
    """A robot with a heading on floors with walls, which senses walls, and rests for ever where it is at home."""
    rng = np.random.default_rng(seed)
    wall = rng.random((floors, side, side)) < 0.25
    free = np.argwhere(~wall)
    number = {tuple(p): k for k, p in enumerate(free.tolist())}
    steps = ((0, 1), (1, 0), (0, -1), (-1, 0))
    cells = len(free)
    n = 4 * cells + 1
    home = n - 1
    transition, cost = np.zeros((4, n, n)), np.full((4, n), 0.6)
    sensor = np.zeros((n, 28))
    goal = int(rng.integers(cells))

    def ahead(cell: int, heading: int) -> int:
        floor, x, y = free[cell]
        return number.get((int(floor), int(x + steps[heading][0]), int(y + steps[heading][1])), cell)

    for cell in range(cells):
        for heading in range(4):
            s = 4 * cell + heading
            seen = sum((ahead(cell, (heading + k) % 4) == cell) << k for k in range(4))
            sensor[s, seen] = 0.8
            sensor[s, 16 + seen % 11] += 0.2
            forward = 4 * ahead(cell, heading) + heading
            for a, turned in ((1, 1), (2, 3)):
                transition[a, s, 4 * cell + (heading + turned) % 4] = 0.9
                transition[a, s, s] += 0.1
            transition[0, s, forward] += 0.85
            transition[0, s, s] += 0.15
            if cell == goal:
                transition[3, s, home] = 1.0
            else:
                transition[3, s, s] = 1.0
                cost[3, s] = 1.0
    transition[:, home, home] = 1.0
    cost[:, home] = 0.5
    sensor[home, 27] = 1.0
    start = np.full(n, 1.0 / (n - 1))
    start[home] = 0.0
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


GENERATED = {
    "pursuit": pursuit,
    "offices": offices,
    "sparse-100": lambda: sparse(100),
    "sparse-300": lambda: sparse(300),
    "sparse-1000": lambda: sparse(1000),
}
