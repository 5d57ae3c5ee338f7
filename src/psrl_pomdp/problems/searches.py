"""Search problems: a rover that samples rocks, and a robot that looks for a target which moves away."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._utils.arrays import Array
from ..errors import InvalidModelError
from ..models import Setting
from .catalogue import Assumptions, Parts, bounded, count, fraction, register

Cell = tuple[int, int]  # (x, y)

_MOST_ENTRIES = 150_000_000  # of a kernel: 1.2 GB
_WAYS = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}

# The rocks of the sizes that publications use, as in the public implementations of RockSample.
_ROCKS: dict[tuple[int, int], tuple[Cell, ...]] = {
    (4, 4): ((3, 1), (2, 1), (1, 3), (1, 0)),
    (5, 5): ((2, 4), (0, 4), (3, 3), (2, 2), (4, 1)),
    (5, 7): ((1, 0), (2, 1), (1, 2), (2, 2), (4, 2), (0, 3), (3, 4)),
}


@register(
    "rock-sample",
    title="Drive a rover over a field, find out which rocks are good, and sample these",
    source="Smith and Simmons (2004), Heuristic search value iteration for POMDPs, UAI; the places of the "
    "rocks for 4 x 4, 5 x 5 and 5 x 7 and the distance of 20 as in the public implementations. Another field "
    "after the exit is an addition of this package",
    assumptions=Assumptions(
        bellman="holds: from every belief the rover can leave within `size` steps, to the known belief about "
        "a new field, and without leaving it earns a bounded reward only",
        separation="open: there is no finite prior",
        belief="open: what is known about a field does not matter after it is left",
        kernel="open: the information about the rocks depends on how often they are checked",
    ),
)
def rock_sample(
    size: int = 3,
    rocks: int = 2,
    half_distance: float = 20.0,
    good: float = 0.5,
    leave: float = 10.0,
    restart: bool = True,
    seed: int = 0,
) -> Parts:
    """A rover drives over a field of `size` by `size` cells with `rocks` rocks, of which some are good.

    State: the cell of the rover, which it knows, and which rocks are good, which it does not. Actions: north,
    south, east, west; sample the rock in the same cell; check a rock from afar. A move off the field has no
    effect, except to the east, which leaves the field. Rewards: `leave` for leaving the field, 10 for
    sampling a good rock, −10 for sampling a bad one; a good rock is bad after it was sampled. Observations:
    after a check, good or bad, which is right with probability (1 + 2^(−d / `half_distance`)) / 2 at a
    distance d; otherwise nothing. Every rock is good with probability `good`. The rover begins in the middle
    of the west side. After it leaves, it begins in another field with the same places of rocks; without
    `restart` it stays outside, without rewards, which is the problem that publications discount by .95. With
    another field it pays on small fields to leave at once, again and again, unless `leave` is less than the
    published 10. `seed` determines the places of the rocks for sizes without published ones. The Dirichlet
    prior knows everything but how often rocks are good, which it learns from field to field.

    The kernel is a dense array: 4 x 4 with four rocks has 257 states and takes 5 MB, 5 x 5 with five rocks 51
    MB, 5 x 5 with seven rocks 1 GB (with the prior, 6 GB while it is made); 7 x 7 with eight rocks would take
    16 GB and is refused.
    """
    size, rocks = count("size", size, 1, 20), count("rocks", rocks, 0, 12)
    half_distance, good = bounded("half_distance", half_distance, 1e-3), fraction("good", good)
    leave = bounded("leave", leave, 0.0)
    _check_restart(restart)
    places = _rock_places(size, rocks, count("seed", seed, 0, 2**63 - 1))
    n_masks, n_actions = 2**rocks, 5 + rocks
    n = size * size * n_masks + (0 if restart else 1)
    _check_size("rock-sample", n_actions, n)
    masks = np.arange(n_masks)  # bit i: whether rock i is good
    is_good = (masks[:, None] >> np.arange(rocks)) & 1
    chances = np.where(is_good, good, 1.0 - good).prod(axis=1)
    start = np.zeros(n)
    first = (size // 2) * size * n_masks  # x = 0
    start[first : first + n_masks] = chances
    after_exit = start if restart else np.eye(n)[-1]

    kernel, reward, table = np.zeros((n_actions, n, n)), np.zeros((n_actions, n)), np.zeros((n_actions, n, 3))
    table[:, :, 0] = 1.0
    exits: list[tuple[int, int]] = []
    for y in range(size):
        for x in range(size):
            here = (y * size + x) * n_masks + masks
            for a, (dx, dy) in enumerate(_WAYS.values()):
                if x + dx == size:
                    kernel[a, here] = after_exit
                    reward[a, here] = leave
                    exits += [(a, int(s)) for s in here]
                    continue
                to = min(max(y + dy, 0), size - 1) * size + max(x + dx, 0)
                kernel[a, here, to * n_masks + masks] = 1.0
            sampled = masks
            if (x, y) in places:
                rock = places.index((x, y))
                sampled = masks & ~(1 << rock)
                reward[4, here] = np.where(is_good[:, rock], 10.0, -10.0)
            kernel[4, here, here[0] + sampled] = 1.0
            for rock, (u, v) in enumerate(places):
                kernel[5 + rock, here, here] = 1.0
                right = 0.5 + 0.5 * 2.0 ** (-np.hypot(x - u, y - v) / half_distance)
                seen_good = np.where(is_good[:, rock], right, 1.0 - right)
                table[5 + rock, here] = np.stack([np.zeros(n_masks), seen_good, 1.0 - seen_good], axis=1)
    names = [f"x{s % size}y{s // size}" for s in range(size * size)]
    words = ["-" + "".join("g" if bit else "b" for bit in row) if rocks else "" for row in is_good]
    if not restart:
        kernel[:, -1, -1] = 1.0
    setting = Setting.from_rewards(
        observation=table,
        reward=reward,
        initial=start,
        first_observation=None,
        states=[f"{name}{word}" for name in names for word in words] + ([] if restart else ["outside"]),
        actions=[*_WAYS, "sample", *(f"check-{rock + 1}" for rock in range(rocks))],
        observations=("nothing", "looks-good", "looks-bad"),
    )
    known = np.ones((n_actions, n), bool)
    if restart:
        known[tuple(np.array(exits).T)] = False
    concentration = (kernel > 0.0).astype(np.float64)
    if restart:
        concentration[tuple(np.array(exits).T)] = _field_starts(first, n_masks, n)
    return Parts(setting, kernel, concentration=concentration, known=known, ties=[exits] if restart else [])


def _field_starts(first: int, n_masks: int, n: int) -> Array:
    """Return 1 for the states in which a field can begin, and 0 for the others."""
    states = np.arange(n)
    return ((states >= first) & (states < first + n_masks)).astype(np.float64)


def _rock_places(size: int, rocks: int, seed: int) -> tuple[Cell, ...]:
    if (size, rocks) in _ROCKS:
        return _ROCKS[size, rocks]
    if rocks > size * size:
        raise InvalidModelError(f"parameter rocks is {rocks}, more than the {size * size} cells of the field")
    cells = np.random.default_rng(seed).permutation(size * size)[:rocks]
    return tuple((int(cell) % size, int(cell) // size) for cell in cells)


@register(
    "tag",
    title="Find a target that moves away and is seen only in one's own cell, and tag it",
    source="Pineau, Gordon and Thrun (2003), Point-based value iteration: an anytime algorithm for POMDPs, "
    "IJCAI. Another game after a tag, and other grids, are additions of this package",
    assumptions=Assumptions(
        bellman="holds: from every belief the robot can tag the target within a bounded expected time, after "
        "which the known belief about a new game follows, and without tagging it earns at most 0 a step",
        separation="open: there is no finite prior",
        belief="open: what is known about a game does not matter after the tag",
        kernel="open: the target is seen only in the cell of the robot",
    ),
)
def tag(columns: int = 3, rows: int = 2, tower: int = 0, flee: float = 0.8, restart: bool = True) -> Parts:
    """A robot chases a target in a grid, and sees it only when they are in the same cell.

    State: the cells of the robot and the target. The grid has `columns` by `rows` cells and above them, from
    the middle column on, a square of `tower` by `tower` cells. Actions: north, south, east, west, tag. A move
    into a wall has no effect. Before the robot moves, the target moves away from it with probability `flee`,
    half of the time along each axis; along an axis where both are level, in either direction equally likely;
    a move into a wall leaves it where it is. Observations: the cell of the robot, or that the target is in
    the same cell. Rewards: −1 for a move; 10 for a tag in the same cell, −10 for a tag that misses. After a
    tag, both are placed anew, uniformly; without `restart` the game is over, without rewards, which is the
    problem that publications discount by .95: `columns` = 10, `rows` = 2, `tower` = 3 has 29 cells and 870
    states, and its dense kernel takes 30 MB. The Dirichlet prior knows how the robot moves, and that the
    target stays or moves by one cell; it learns how the target moves, which depends on where the robot was.
    """
    columns, rows, tower = (
        count("columns", columns, 1, 60),
        count("rows", rows, 1, 60),
        count("tower", tower, 0),
    )
    flee = fraction("flee", flee)
    _check_restart(restart)
    left = columns // 2
    if left + tower > columns:
        raise InvalidModelError(
            f"parameter tower is {tower}, wider than the {columns - left} columns below it"
        )
    cells = [(x, y) for y in range(rows) for x in range(columns)]
    cells += [(left + x, rows + y) for y in range(tower) for x in range(tower)]
    number = {cell: k for k, cell in enumerate(cells)}
    n_cells = len(cells)
    n_targets = n_cells + (0 if restart else 1)  # the last one: tagged
    n = n_cells * n_targets
    _check_size("tag", 5, n)

    def moved(cell: int, way: Sequence[int]) -> int:
        x, y = cells[cell]
        return number.get((x + way[0], y + way[1]), cell)

    playing = np.zeros((n_cells, n_targets))
    playing[:, :n_cells] = 1.0 / n_cells**2
    kernel, reward = np.zeros((5, n, n)), np.zeros((5, n))
    possible, known = np.zeros((5, n, n)), np.zeros((5, n), bool)
    ties: list[list[tuple[int, int]]] = []
    for robot in range(n_cells):
        for target in range(n_targets):
            s = robot * n_targets + target
            if target == n_cells:
                kernel[:, s, s] = possible[:, s, s] = 1.0
                known[:, s] = True
                continue
            next_robot = [moved(robot, way) for way in _WAYS.values()] + [robot]
            for a, to in enumerate(next_robot):
                for cell, chance in _fleeing(cells[robot], cells[target], flee):
                    kernel[a, s, to * n_targets + number.get(cell, target)] += chance
                for way in ((0, 0), *_WAYS.values()):
                    possible[a, s, to * n_targets + moved(target, way)] = 1.0
            reward[:, s] = [-1.0, -1.0, -1.0, -1.0, 10.0 if robot == target else -10.0]
            hit = robot == target
            if hit:
                kernel[4, s] = playing.ravel() if restart else np.eye(n)[robot * n_targets + n_cells]
                known[4, s] = True
            alike = [
                [(a, s) for a in range(4 if hit else 5) if next_robot[a] == to] for to in set(next_robot)
            ]
            ties += [group for group in alike if len(group) > 1]
    possible[known] = kernel[known] > 0.0
    same = np.arange(n) // n_targets == np.arange(n) % n_targets
    table = np.zeros((n, n_cells + 1))
    table[np.arange(n), np.where(same, n_cells, np.arange(n) // n_targets)] = 1.0
    names = [f"x{x}y{y}" for x, y in cells]
    setting = Setting.from_rewards(
        observation=table,
        reward=reward,
        initial=playing.ravel(),
        first_observation=None,
        states=[f"{r}-{t}" for r in names for t in [*names, "tagged"][:n_targets]],
        actions=[*_WAYS, "tag"],
        observations=[*(f"at-{name}" for name in names), "same-cell"],
    )
    return Parts(setting, kernel, concentration=possible, known=known, ties=ties)


def _fleeing(robot: Cell, target: Cell, flee: float) -> list[tuple[Cell, float]]:
    """Return where the target moves, also through walls, with the probabilities."""
    places = [(target, 1.0 - flee)]
    for axis, (own, other) in enumerate(zip(target, robot, strict=True)):
        signs = [(1, 0.5), (-1, 0.5)] if own == other else [(1 if own > other else -1, 1.0)]
        for sign, share in signs:
            step = (sign, 0) if axis == 0 else (0, sign)
            places.append(((target[0] + step[0], target[1] + step[1]), 0.5 * flee * share))
    return places


def _check_restart(restart: bool) -> None:
    if not isinstance(restart, bool):
        raise InvalidModelError(f"parameter restart is {restart!r}, not true or false")


def _check_size(name: str, n_actions: int, n_states: int) -> None:
    """Refuse a kernel that is too large as a dense array."""
    entries = n_actions * n_states**2
    if entries > _MOST_ENTRIES:
        raise InvalidModelError(
            f"{name}: {n_states} states and {n_actions} actions are too many: the kernel is a dense array, "
            f"which would take {8e-9 * entries:.1f} GB, and at most {8e-9 * _MOST_ENTRIES:.1f} GB are allowed"
        )
