"""The compiled steps of the lower bound: geometry, interpolation, Bellman's operator, the certificate.

Arrays of the grid, for n points of which the first S are the vertices:

    points[s, i]      coordinate s of point i
    reach[i, a, o]    P(o | g_i, a)
    tau[i, a, o, s]   the belief after action a and reading o
    basis, weights[i, a, o, k]   its interpolation between points
    cost[i, a]        c(g_i, a)
    h[i]              the relative values
    q[i, a], best[i]  the right side of Bellman's equation, and its least
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .interpolation import interpolate, repaired_value

_NEVER = 1e-300  # readings less likely than this are left out


@njit(cache=True, nogil=True)
def scratch(n, n_states):
    """Room for `interpolate`."""
    return np.empty(n), np.empty((n_states, 2 * n_states)), np.empty((n_states, n_states)), np.empty(n)


@njit(cache=True, nogil=True)
def next_beliefs(joint, belief, action, chances, beliefs):
    """P(o | b, a) and τ(b, a, o) for every reading."""
    n_observations, n_states = beliefs.shape
    for o in range(n_observations):
        after = beliefs[o]
        after[:] = 0.0
        for s in range(n_states):
            share = belief[s]
            if share > 0.0:
                for t in range(n_states):
                    after[t] += share * joint[action, o, s, t]
        total = after.sum()
        if total > _NEVER:
            chances[o] = total
            for t in range(n_states):
                after[t] /= total
        else:
            chances[o] = 0.0


@njit(cache=True, nogil=True)
def geometry(joint, state_cost, points, first, n, reach, tau, cost):
    """What follows from each of the points first..n-1 under each action."""
    n_actions, n_states = state_cost.shape
    belief = np.empty(n_states)
    for i in range(first, n):
        for s in range(n_states):
            belief[s] = points[s, i]
        for a in range(n_actions):
            cost[i, a] = 0.0
            for s in range(n_states):
                cost[i, a] += belief[s] * state_cost[a, s]
            next_beliefs(joint, belief, a, reach[i, a], tau[i, a])


@njit(cache=True, nogil=True)
def weigh_new(points, h, first, n, reach, tau, basis, weights, cost):
    """Interpolations for the points first..n-1: by the vertices, and better ones for actions that may win.

    A better interpolation only raises an action's value, so that one whose value by the vertices already
    loses cannot win and is left as it is.
    """
    n_actions, n_observations, n_states = tau.shape[1:]
    reduced, table, inverse, barred = scratch(n, n_states)
    by_vertices = np.empty(n_actions)
    work = 0.0
    for i in range(first, n):
        for a in range(n_actions):
            by_vertices[a] = cost[i, a]
            for o in range(n_observations):
                for s in range(n_states):
                    basis[i, a, o, s] = s
                    weights[i, a, o, s] = tau[i, a, o, s] if reach[i, a, o] > 0.0 else 0.0
                    by_vertices[a] += reach[i, a, o] * weights[i, a, o, s] * h[s]
        best = 1e300
        for a in np.argsort(by_vertices):
            if by_vertices[a] >= best:
                break
            value = cost[i, a]
            for o in range(n_observations):
                if reach[i, a, o] > 0.0:
                    inner, spent = interpolate(
                        points, h, n, tau[i, a, o], basis[i, a, o], weights[i, a, o], False,
                        reduced, table, inverse, barred,
                    )  # fmt: skip
                    value += reach[i, a, o] * inner
                    work += spent
            best = min(best, value)
    return work


@njit(cache=True, nogil=True)
def weigh_from(points, h, n, reach, tau, basis, weights):
    """Interpolations for all points and actions from the bases that are there; the work."""
    n_actions, n_observations, n_states = tau.shape[1:]
    reduced, table, inverse, barred = scratch(n, n_states)
    work = 0.0
    for i in range(n):
        for a in range(n_actions):
            for o in range(n_observations):
                if reach[i, a, o] > 0.0:
                    _, spent = interpolate(
                        points, h, n, tau[i, a, o], basis[i, a, o], weights[i, a, o], True,
                        reduced, table, inverse, barred,
                    )  # fmt: skip
                    work += spent
    return work


@njit(cache=True, nogil=True)
def reweigh(points, h, n, reach, tau, basis, weights, q, best, margin, chosen):
    """Interpolations anew, for the chosen points and the actions within `margin` of the best.

    Returns the most that an interpolated value rose by, and the work.
    """
    n_actions, n_observations, n_states = tau.shape[1:]
    reduced, table, inverse, barred = scratch(n, n_states)
    old_basis, old_weights = np.empty(n_states, np.int32), np.empty(n_states)
    work, raised = 0.0, 0.0
    for i in range(n):
        if not chosen[i]:
            continue
        for a in range(n_actions):
            if q[i, a] > best[i] + margin:
                continue
            for o in range(n_observations):
                if reach[i, a, o] > 0.0:
                    before = 0.0
                    for k in range(n_states):
                        old_basis[k], old_weights[k] = basis[i, a, o, k], weights[i, a, o, k]
                        before += old_weights[k] * h[old_basis[k]]
                    after, spent = interpolate(
                        points, h, n, tau[i, a, o], basis[i, a, o], weights[i, a, o], True,
                        reduced, table, inverse, barred,
                    )  # fmt: skip
                    work += spent
                    if after >= before:
                        raised = max(raised, after - before)
                    else:  # a basis that went bad: what there was is better
                        basis[i, a, o] = old_basis
                        weights[i, a, o] = old_weights
    return raised, work


@njit(cache=True, nogil=True)
def _action_value(i, a, reach, basis, weights, cost, h):
    value = cost[i, a]
    n_observations, n_states = weights.shape[2:]
    for o in range(n_observations):
        if reach[i, a, o] > 0.0:
            inner = 0.0
            for k in range(n_states):
                if weights[i, a, o, k] > 0.0:
                    inner += weights[i, a, o, k] * h[basis[i, a, o, k]]
            value += reach[i, a, o] * inner
    return value


@njit(cache=True, nogil=True)
def bellman(n, reach, basis, weights, cost, h, q, best, policy):
    """q and its minimum over actions; the least and the largest of best − h."""
    low, high = 1e300, -1e300
    for i in range(n):
        best[i] = 1e300
        for a in range(cost.shape[1]):
            q[i, a] = _action_value(i, a, reach, basis, weights, cost, h)
            if q[i, a] < best[i] - 1e-14:
                best[i] = q[i, a]
                policy[i] = a
        low = min(low, best[i] - h[i])
        high = max(high, best[i] - h[i])
    return low, high


@njit(cache=True, nogil=True)
def damped_sweeps(n, reach, basis, weights, cost, h, policy, gain, damping, count):
    """h toward the relative values of the policy; damped, because beliefs may be periodic."""
    new = np.empty(n)
    for _ in range(count):
        for i in range(n):
            new[i] = h[i] + damping * (
                _action_value(i, policy[i], reach, basis, weights, cost, h) - gain - h[i]
            )
        for i in range(n):
            h[i] = new[i] - new[0]


@njit(cache=True, nogil=True)
def settle(n, reach, basis, weights, policy, mass, damping, tolerance, most):
    """mass toward the long-run shares of the points under the policy; how many sweeps it took."""
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
                flow = damping * mass[i] * reach[i, a, o]
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


@njit(cache=True, nogil=True)
def certified_residual(points, n, reach, tau, basis, weights, cost, h):
    """min over points and actions of [c + Σ P h̃ − h] with repaired interpolation: a lower bound on J."""
    n_actions, n_observations, n_states = tau.shape[1:]
    made, kept = np.empty(n_states), np.empty(n_states)
    lowest = 1e300
    for i in range(n):
        for a in range(n_actions):
            value = cost[i, a]
            for o in range(n_observations):
                if reach[i, a, o] > 0.0:
                    value += reach[i, a, o] * repaired_value(
                        points, h, tau[i, a, o], basis[i, a, o], weights[i, a, o], made, kept
                    )
            lowest = min(lowest, value - h[i])
    return lowest


@njit(cache=True, nogil=True)
def lookahead(joint, state_cost, points, h, n, belief, chances, beliefs, room):
    """min_a {c(b, a) + Σ P h̃(τ)} at any belief: its value, the action, h̃(b), and the work.

    `chances` and `beliefs` are left as they are after the best action.
    """
    n_actions, n_states = state_cost.shape
    n_observations = joint.shape[1]
    reduced, table, inverse, barred = room
    basis, weights = np.zeros(n_states, np.int32), np.zeros(n_states)
    all_chances = np.empty((n_actions, n_observations))
    all_beliefs = np.empty((n_actions, n_observations, n_states))
    here, work = interpolate(points, h, n, belief, basis, weights, False, reduced, table, inverse, barred)
    rough, costs = np.empty(n_actions), np.zeros(n_actions)
    for a in range(n_actions):
        for s in range(n_states):
            costs[a] += belief[s] * state_cost[a, s]
        next_beliefs(joint, belief, a, all_chances[a], all_beliefs[a])
        rough[a] = costs[a]
        for o in range(n_observations):
            if all_chances[a, o] > 0.0:
                for s in range(n_states):
                    rough[a] += all_chances[a, o] * all_beliefs[a, o, s] * h[s]
    best, action = 1e300, 0
    for a in np.argsort(rough):
        if rough[a] >= best:
            break
        value = costs[a]
        for o in range(n_observations):
            if all_chances[a, o] > 0.0:
                inner, spent = interpolate(
                    points, h, n, all_beliefs[a, o], basis, weights, False, reduced, table, inverse, barred
                )
                value += all_chances[a, o] * inner
                work += spent
        if value < best:
            best, action = value, a
    chances[:] = all_chances[action]
    beliefs[:] = all_beliefs[action]
    return best, action, here, work


@njit(cache=True, nogil=True)
def residuals(joint, state_cost, points, h, n, candidates, gain):
    """How much a point at each candidate belief would lift h there: [T h̃ − gain − h̃](b)."""
    n_observations, n_states = joint.shape[1], state_cost.shape[1]
    room = scratch(n, n_states)
    chances, beliefs = np.empty(n_observations), np.empty((n_observations, n_states))
    out = np.empty(len(candidates))
    work = 0.0
    for i in range(len(candidates)):
        best, _, here, spent = lookahead(
            joint, state_cost, points, h, n, candidates[i], chances, beliefs, room
        )
        out[i] = best - gain - here
        work += spent
    return out, work


@njit(cache=True, nogil=True)
def wander(joint, state_cost, points, h, n, belief, uniforms, gain):
    """Beliefs along a trajectory of the policy that is greedy for h̃, and what a point would lift there."""
    n_observations, n_states = joint.shape[1], state_cost.shape[1]
    room = scratch(n, n_states)
    chances, beliefs = np.empty(n_observations), np.empty((n_observations, n_states))
    visited, lift = np.empty((len(uniforms), n_states)), np.empty(len(uniforms))
    belief = belief.copy()
    work = 0.0
    for step in range(len(uniforms)):
        visited[step] = belief
        best, _, here, spent = lookahead(joint, state_cost, points, h, n, belief, chances, beliefs, room)
        lift[step] = best - gain - here
        work += spent
        o, passed = 0, chances[0]
        while uniforms[step] > passed and o < n_observations - 1:
            o += 1
            passed += chances[o]
        while chances[o] <= 0.0:
            o -= 1
        belief[:] = beliefs[o]
    return visited, lift, belief, work
