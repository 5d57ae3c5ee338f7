"""Navigation problems: a swimmer in a river, and a robot in a grid whose cells look alike."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array
from ..models import Setting
from .catalogue import Assumptions, Parts, bounded, count, fraction, register, uniform

_SWIM_SOURCE = (
    "after Strehl and Littman (2008), An analysis of model-based interval estimation for Markov decision "
    "processes, Journal of Computer and System Sciences 74, with the probabilities and rewards of Osband, "
    "Russo and Van Roy (2013), (More) efficient reinforcement learning via posterior sampling; here the "
    "swimmer stays in place at the ends of the river"
)


@register(
    "river-swim",
    title="Swim up a river to a large reward, with noisy observations of the position",
    source=f"{_SWIM_SOURCE}; the noisy observations are an addition of this package",
    assumptions=Assumptions(
        bellman="open: the MDP is communicating and aperiodic",
        separation="fails: the kernels of the finite prior differ under one action only",
        belief="open: the observation model has full rank, and the influence of the past decays",
        kernel="open: the observation model has full rank, so the moments of the observations identify the "
        "kernel",
    ),
    renamed={"neighbour": "neighbor"},
)
def river_swim(n_states: int = 6, neighbor: float = 0.2, advance: float = 0.35, back: float = 0.05) -> Parts:
    """A swimmer in a river with `n_states` places; the current flows to the left.

    State: the place of the swimmer. Actions: left, which always moves the swimmer one place to the left;
    right, which moves the swimmer one place to the right with probability `advance` and one place to the left
    with probability `back`. A move that would leave the river has no effect. Observations: the place; with
    probability `neighbor` each, the observation is the next place to the left or to the right, if the river
    has such a place. Rewards: .005 for left at the left end, 1 for right at the right end.
    """
    sensor = _walk(count("n_states", n_states, 2, 300), fraction("neighbor", neighbor), neighbor)
    return _river(sensor, advance, back)


@register(
    "river-swim-observed",
    title="The river of river-swim with observed position: a fully observed problem",
    source=_SWIM_SOURCE,
    assumptions=Assumptions(
        bellman="holds: the MDP is communicating and the observation is the state",
        separation="fails: the kernels of the finite prior differ under one action only",
        belief="holds: the belief is concentrated on the state under every kernel",
        kernel="holds: the empirical kernel, computed from the true counts, is such an estimator (the "
        "paper's first example)",
    ),
)
def river_swim_observed(n_states: int = 6, advance: float = 0.35, back: float = 0.05) -> Parts:
    """The river of `river-swim`, in which the observation is the place of the swimmer.

    The state is observed. Actions and rewards are those of `river-swim`.
    """
    return _river(np.eye(count("n_states", n_states, 2, 300)), advance, back)


def _river(sensor: Array, advance: float, back: float) -> Parts:
    n = len(sensor)
    reward = np.zeros((2, n))
    reward[0, 0], reward[1, -1] = 0.005, 1.0
    setting = Setting.from_rewards(
        observation=sensor,
        reward=reward,
        initial=np.eye(n)[0],
        states=[f"place-{s + 1}" for s in range(n)],
        actions=("left", "right"),
        observations=[f"read-{s + 1}" for s in range(n)],
    )
    truth = _swim(n, fraction("advance", advance), fraction("back", back))
    others = (_swim(n, 0.05, 0.35), _swim(n, 0.6, 0.05), _swim(n, 0.2, 0.2))
    distinct = tuple(other for other in others if np.abs(other - truth).max() > 1e-3)
    # One place at a time: everything else is known to be impossible.
    near = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= 1
    return Parts(setting, truth, others=distinct, concentration=np.stack([near, near]).astype(np.float64))


def _swim(n: int, advance: float, back: float) -> Array:
    return np.stack([_walk(n, 1.0, 0.0), _walk(n, back, advance)])


def _walk(n: int, down: float, up: float) -> Array:
    """Rows of a walk on 0..n-1: one down, one up, else stay; what would leave stays."""
    bounded("the chances of moving down and up together", down + up, 0.0, 1.0 + 1e-12)
    rows = np.zeros((n, n))
    for s in range(n):
        rows[s, max(s - 1, 0)] += down
        rows[s, min(s + 1, n - 1)] += up
        rows[s, s] += max(0.0, 1.0 - down - up)
    return rows


@register(
    "noisy-grid",
    title="Find the goal in a grid from noisy observations of the adjacent walls",
    source="after the mazes of Littman, Cassandra and Kaelbling (1995), Learning policies for partially "
    "observable environments: scaling up, ICML; the grid is different",
    assumptions=Assumptions(
        bellman="open: the MDP is communicating and aperiodic",
        separation="open: there is no finite prior",
        belief="open: several cells have the same distribution of observations",
        kernel="open: there are fewer observations than cells, so that the observation model does not have "
        "full rank",
    ),
)
def noisy_grid(rows: int = 3, columns: int = 4, slip: float = 0.2, noise: float = 0.15) -> Parts:
    """A robot in a grid of `rows` by `columns` cells searches for the goal in the last corner.

    State: the cell of the robot. Actions: north, south, east, west; with probability `slip` the robot moves
    in one of the other three directions instead, and a move into a wall has no effect. From the goal the
    robot moves to another cell, drawn uniformly. Observations: the sides of the cell that have a wall, or the
    goal; with probability `noise` the observation is another one, drawn uniformly. Cost: 1 in every step,
    except at the goal.
    """
    rows, columns = count("rows", rows, 1, 20), count("columns", columns, 2, 20)
    slip, noise = fraction("slip", slip), fraction("noise", noise)
    n, goal = rows * columns, rows * columns - 1
    step = _moves(rows, columns)  # [A, S]
    transition = np.zeros((4, n, n))
    for a in range(4):
        for way in range(4):
            transition[a, np.arange(n), step[way]] += 1 - slip if way == a else slip / 3
    transition[:, goal] = np.where(np.arange(n) == goal, 0.0, 1.0 / goal)
    felt = _wall_readings(step)
    names = sorted(set(felt))
    sensor = np.full((n, len(names)), noise / max(len(names) - 1, 1))
    sensor[np.arange(n), [names.index(reading) for reading in felt]] = 1 - noise if len(names) > 1 else 1.0
    setting = Setting(
        observation=sensor,
        cost=np.where(np.arange(n) == goal, 0.0, 1.0)[None].repeat(4, axis=0),
        initial=uniform(n),
        units="steps away from the goal",
        states=[f"r{s // columns + 1}c{s % columns + 1}" for s in range(n)],
        actions=("north", "south", "east", "west"),
        observations=names,
    )
    return Parts(setting, transition)


def _moves(rows: int, columns: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Where north, south, east and west lead from each cell, `[4, S]`."""
    r, c = np.divmod(np.arange(rows * columns), columns)
    ways = ((-1, 0), (1, 0), (0, 1), (0, -1))
    return np.stack(
        [np.clip(r + dr, 0, rows - 1) * columns + np.clip(c + dc, 0, columns - 1) for dr, dc in ways]
    )


def _wall_readings(step: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> list[str]:
    """`walls-nw` and the like for each cell; the last cell is the goal."""
    readings = []
    for s in range(step.shape[1] - 1):
        sides = "".join(side for side, to in zip("nsew", step[:, s], strict=True) if to == s)
        readings.append(f"walls-{sides}" if sides else "open")
    return [*readings, "goal"]
