"""Compiled steps of the lower bound: next beliefs, Bellman operator, stationary mass, certificate.

Arrays of the grid, for n points of which the first S are the vertices:

    points[s, i]      coordinate s of point i
    obs_prob[i, a, o] P(o | g_i, a)
    tau[i, a, o, s]   the belief after action a and observation o
    basis, weights[i, a, o, k]   its interpolation between points
    cost[i, a]        c(g_i, a)
    h[i]              the relative values
    q[i, a], best[i]  the right side of Bellman's equation, and its minimum over actions
    mass[i]           the stationary distribution of the points under the policy
    policy[i]         the action of each point
    parents[i, 3]     the point, action and observation that led to point i, or -1
"""

from __future__ import annotations

import numpy as np

from ..._numba.jit import jit, jit_noalloc
from ..._utils.arrays import Array, Bases, Index
from ..interpolation.programs import repaired_value

_IMPOSSIBLE = 1e-300  # observations less likely than this are left out


@jit_noalloc(inner=True, linked=True)
def sort_order(values: Array, order: Index) -> None:
    """Fill `order` with the places of `values`, from the least to the largest, equal ones in their order."""
    for i in range(len(values)):
        k = i
        while k > 0 and values[order[k - 1]] > values[i]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = i


@jit_noalloc()
def next_beliefs(joint: Array, belief: Array, action: int, probabilities: Array, beliefs: Array) -> None:
    """Fill `probabilities` with P(o | b, a) and `beliefs` with τ(b, a, o), for every observation o."""
    n_observations, n_states = beliefs.shape
    for o in range(n_observations):
        after = beliefs[o]
        for t in range(n_states):
            after[t] = 0.0
        for s in range(n_states):
            share = belief[s]
            if share > 0.0:
                for t in range(n_states):
                    after[t] += share * joint[action, o, s, t]
        total = 0.0
        for t in range(n_states):
            total += after[t]
        if total > _IMPOSSIBLE:
            probabilities[o] = total
            for t in range(n_states):
                after[t] /= total
        else:
            probabilities[o] = 0.0


@jit()
def geometry(
    joint: Array,
    state_cost: Array,
    points: Array,
    first: int,
    n: int,
    obs_prob: Array,
    tau: Array,
    cost: Array,
) -> None:
    """Fill in the costs and next beliefs of the points first..n-1 under each action."""
    n_actions, n_states = state_cost.shape
    belief = np.empty(n_states)
    for i in range(first, n):
        for s in range(n_states):
            belief[s] = points[s, i]
        for a in range(n_actions):
            cost[i, a] = 0.0
            for s in range(n_states):
                cost[i, a] += belief[s] * state_cost[a, s]
            next_beliefs(joint, belief, a, obs_prob[i, a], tau[i, a])


@jit_noalloc(inner=True, linked=True)
def _action_value(
    i: int, a: int, obs_prob: Array, basis: Bases, weights: Array, cost: Array, h: Array
) -> float:
    """Return c(g_i, a) + Σ_o P(o | g_i, a) h̃(τ(g_i, a, o))."""
    value: float = cost[i, a]
    n_observations, n_states = weights.shape[2:]
    for o in range(n_observations):
        if obs_prob[i, a, o] > 0.0:
            inner = 0.0
            for k in range(n_states):
                if weights[i, a, o, k] > 0.0:
                    inner += weights[i, a, o, k] * h[basis[i, a, o, k]]
            value += obs_prob[i, a, o] * inner
    return value


@jit_noalloc()
def bellman(
    n: int,
    obs_prob: Array,
    basis: Bases,
    weights: Array,
    cost: Array,
    h: Array,
    q: Array,
    best: Array,
    policy: Index,
) -> tuple[float, float]:
    """Fill q, its minimum `best`, and `policy`; return the least and the largest of best − h."""
    low, high = 1e300, -1e300
    for i in range(n):
        best[i] = 1e300
        for a in range(cost.shape[1]):
            q[i, a] = _action_value(i, a, obs_prob, basis, weights, cost, h)
            if q[i, a] < best[i] - 1e-14:
                best[i] = q[i, a]
                policy[i] = a
        low = min(low, best[i] - h[i])
        high = max(high, best[i] - h[i])
    return low, high


@jit()
def damped_sweeps(
    n: int,
    obs_prob: Array,
    basis: Bases,
    weights: Array,
    cost: Array,
    h: Array,
    policy: Index,
    gain: float,
    damping: float,
    count: int,
) -> None:
    """Run `count` damped sweeps of relative value iteration for the policy, in place."""
    new = np.empty(n)
    for _ in range(count):
        for i in range(n):
            new[i] = h[i] + damping * (
                _action_value(i, policy[i], obs_prob, basis, weights, cost, h) - gain - h[i]
            )
        for i in range(n):
            h[i] = new[i] - new[0]


@jit()
def stationary_mass(
    n: int,
    obs_prob: Array,
    basis: Bases,
    weights: Array,
    policy: Index,
    mass: Array,
    damping: float,
    tolerance: float,
    most: int,
) -> int:
    """Move `mass` toward the stationary distribution of the policy's chain; return the number of sweeps."""
    n_observations, n_states = weights.shape[2:]
    new = np.empty(n)
    for sweep in range(most):
        for i in range(n):
            new[i] = (1.0 - damping) * mass[i]
        for i in range(n):
            if mass[i] <= 1e-18:
                continue
            a = policy[i]
            for o in range(n_observations):
                flow = damping * mass[i] * obs_prob[i, a, o]
                if flow > 0.0:
                    for k in range(n_states):
                        if weights[i, a, o, k] > 0.0:
                            new[basis[i, a, o, k]] += flow * weights[i, a, o, k]
        moved = 0.0
        for i in range(n):
            moved += abs(new[i] - mass[i])
            mass[i] = new[i]
        if moved < tolerance:
            return sweep + 1
    return most


@jit()
def certified_residual(
    points: Array, n: int, obs_prob: Array, tau: Array, basis: Bases, weights: Array, cost: Array, h: Array
) -> float:
    """Return min over points and actions of [c + Σ P h̃ − h], with repaired weights: a lower bound on J."""
    n_actions, n_observations, n_states = tau.shape[1:]
    combination, trimmed = np.empty(n_states), np.empty(n_states)
    lowest = 1e300
    for i in range(n):
        for a in range(n_actions):
            value = cost[i, a]
            for o in range(n_observations):
                if obs_prob[i, a, o] > 0.0:
                    value += obs_prob[i, a, o] * repaired_value(
                        points, h, tau[i, a, o], basis[i, a, o], weights[i, a, o], combination, trimmed
                    )
            lowest = min(lowest, value - h[i])
    return lowest
