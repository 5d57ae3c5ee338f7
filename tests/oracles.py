"""Brute-force references, written without a look at the code that they check."""

from __future__ import annotations

from itertools import product
from math import gcd

import numpy as np

from psrl_pomdp.arrays import Array


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
