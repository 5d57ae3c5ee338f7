"""Brute-force references, written without a look at the code that they check."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import gcd
from typing import NamedTuple

import numpy as np

from psrl_pomdp import Setting
from psrl_pomdp._utils.arrays import Array


def random_kernel(rng: np.random.Generator, n_actions: int, n_states: int, density: float = 1.0) -> Array:
    """Rows with about this share of non-zero entries, at least one each."""
    keep = rng.random((n_actions, n_states, n_states)) < density
    keep[np.arange(n_actions)[:, None], np.arange(n_states), rng.integers(n_states, size=keep.shape[:2])] = (
        True
    )
    rows = np.where(keep, rng.random(keep.shape) + 0.05, 0.0)
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


def reach(edges: set[tuple[int, int]], start: int) -> set[int]:
    """Every state on a walk of length one or more from `start`."""
    found: set[int] = set()
    frontier = {start}
    while frontier:
        frontier = {t for s, t in edges if s in frontier} - found
        found |= frontier
    return found


def policies(n_actions: int, n_states: int) -> list[tuple[int, ...]]:
    return list(product(range(n_actions), repeat=n_states))


def policy_edges(transition: Array, policy: tuple[int, ...]) -> set[tuple[int, int]]:
    n = transition.shape[1]
    return {(s, t) for s in range(n) for t in range(n) if transition[policy[s], s, t] > 0}


def recurrent_somewhere(transition: Array) -> set[int]:
    """States that are recurrent under at least one deterministic stationary policy."""
    found: set[int] = set()
    for policy in policies(*transition.shape[:2]):
        edges = policy_edges(transition, policy)
        for s in range(transition.shape[1]):
            after = reach(edges, s)
            if all(s in reach(edges, t) for t in after):
                found.add(s)
    return found


def weakly_communicating(transition: Array) -> bool:
    """By the definition: some closed set in which all reach all, and all others transient always."""
    n_actions, n = transition.shape[:2]
    edges = {(s, t) for a in range(n_actions) for s in range(n) for t in range(n) if transition[a, s, t] > 0}
    recurrent = recurrent_somewhere(transition)
    closed = all(t in recurrent for s, t in edges if s in recurrent)
    return closed and all(recurrent <= reach(edges, s) for s in recurrent)


def communicating(transition: Array) -> bool:
    n_actions, n = transition.shape[:2]
    edges = {(s, t) for a in range(n_actions) for s in range(n) for t in range(n) if transition[a, s, t] > 0}
    return all(reach(edges, s) == set(range(n)) for s in range(n))


def period_of(edges: set[tuple[int, int]], state: int, longest: int) -> int:
    """gcd of the lengths, up to `longest`, of closed walks through `state`."""
    divisor, here = 0, {state}
    for length in range(1, longest + 1):
        here = {t for s, t in edges if s in here}
        if state in here:
            divisor = gcd(divisor, length)
    return divisor


def policy_gain(transition: Array, cost: Array, policy: tuple[int, ...]) -> Array:
    """Long-run average cost from each state under a policy, by the Cesàro limit of a long power."""
    n = transition.shape[1]
    chain = np.stack([transition[policy[s], s] for s in range(n)])
    paid = np.array([cost[policy[s], s] for s in range(n)])
    lazy = 0.5 * (chain + np.eye(n))  # the same stationary laws, without periods
    return np.asarray(np.linalg.matrix_power(lazy, 2**20) @ paid)


def two_state_average(
    transition: Array, observation: Array, cost: Array, gap: float = 1e-6, sweeps: int = 500
) -> tuple[float, float]:
    """Bounds on J of a two-state POMDP, by exact relative value iteration on piecewise linear functions.

    A function of the belief (1 - x, x) is kept by its values at breakpoints between which it is linear. For
    any such V, min (TV - V) ≤ J ≤ max (TV - V), and the extremes lie at breakpoints of TV and V. No grid is
    involved: the breakpoints of TV are those that V has after each action and reading, and the crossings.
    """
    x, v = np.array([0.0, 1.0]), np.zeros(2)
    low, high = 0.0, 1.0
    for _ in range(sweeps):
        new_x, new_v = _backed_up(transition, observation, cost, x, v)
        both = np.union1d(x, new_x)
        change = np.interp(both, new_x, new_v) - np.interp(both, x, v)
        low, high = max(low, float(change.min())), min(high, float(change.max()))
        if high - low < gap:
            break
        mixed = 0.5 * (np.interp(both, new_x, new_v) + np.interp(both, x, v))  # damped, against periods
        x, v = _without_flat_corners(both, mixed - mixed[0])
    return low, high


def _backed_up(transition: Array, observation: Array, cost: Array, x: Array, v: Array) -> tuple[Array, Array]:
    pieces = []
    for a in range(len(transition)):
        corners = [np.array([0.0, 1.0])]
        for o in range(observation.shape[2]):
            joint = transition[a] * observation[a][:, o]  # [s, s']
            # x' = (b M)_1 / (b M)_0+1 = k  is linear in b: solve for where the next belief meets a corner.
            for k in x[1:-1]:
                gap0, gap1 = (joint[s, 1] - k * joint[s].sum() for s in (0, 1))
                if gap0 * gap1 < 0:
                    corners.append(np.array([gap0 / (gap0 - gap1)]))
        at = np.unique(np.concatenate(corners))
        beliefs = np.stack([1 - at, at], axis=1)
        value = beliefs @ cost[a]
        for o in range(observation.shape[2]):
            after = beliefs @ (transition[a] * observation[a][:, o])
            mass = after.sum(axis=1)
            onward = np.divide(after[:, 1], mass, out=np.zeros_like(mass), where=mass > 0)
            value += mass * np.interp(onward, x, v)
        pieces.append((at, value))
    at = np.unique(np.concatenate([p[0] for p in pieces]))
    values = np.stack([np.interp(at, *piece) for piece in pieces])
    crossings = [at]
    for i in range(len(values)):
        for j in range(i):
            d = values[i] - values[j]
            change = np.flatnonzero(d[:-1] * d[1:] < 0)
            crossings.append(
                at[change] + (at[change + 1] - at[change]) * d[change] / (d[change] - d[change + 1])
            )
    at = np.unique(np.concatenate(crossings))
    return at, np.min([np.interp(at, *piece) for piece in pieces], axis=0)


def _without_flat_corners(x: Array, v: Array) -> tuple[Array, Array]:
    """Drop breakpoints where the function hardly bends: another function, for which the bounds hold too."""
    bend = np.abs(np.diff(np.diff(v) / np.diff(x))) if len(x) > 2 else np.zeros(0)
    keep = np.concatenate([[True], (bend > 1e-6) & (np.diff(x)[:-1] > 1e-9), [True]])
    return x[keep], v[keep]


class Evidence(NamedTuple):
    """What the readings say under each kernel, summed over every hidden path."""

    likelihood: Array  # [M]: P(o_1..o_t | a_1..a_{t-1}, kernel)
    belief: Array  # [M, S]: P(s_t | ...)
    visits: Array  # [M, A, S]: expected visits at steps 1..t, a_t included


def every_path(
    setting: Setting,
    kernels: Array,
    initial: Array,
    first: int | None,
    actions: Sequence[int],
    readings: Sequence[int | None],
) -> Evidence:
    """By enumeration: `readings` follow the first one, and `actions` has one more entry, the newest action.

    `initial` is [M, S]; a reading that is None was lost.
    """
    n_kernels, n_actions, n_states = kernels.shape[:3]
    found = Evidence(
        np.zeros(n_kernels), np.zeros((n_kernels, n_states)), np.zeros((n_kernels, n_actions, n_states))
    )
    for m in range(n_kernels):
        for path in product(range(n_states), repeat=len(readings) + 1):
            chance = initial[m, path[0]]
            if first is not None and setting.first_observation is not None:
                chance = chance * setting.first_observation[path[0], first]
            for i, o in enumerate(readings):
                chance = chance * kernels[m, actions[i], path[i], path[i + 1]]
                if o is not None:
                    chance = chance * setting.observation[actions[i], path[i + 1], o]
            found.likelihood[m] += chance
            found.belief[m, path[-1]] += chance
            for a, s in zip(actions, path, strict=False):
                found.visits[m, a, s] += chance
        if found.likelihood[m] > 0:
            found.belief[m] /= found.likelihood[m]
            found.visits[m] /= found.likelihood[m]
    return found
