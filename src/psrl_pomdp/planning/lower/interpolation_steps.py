"""Compiled interpolation of the next beliefs of grid points (`grid_steps` says what the arrays hold)."""

from __future__ import annotations

import numpy as np

from ..._numba.jit import jit, jit_noalloc
from ..._utils.arrays import Array, Bases, Index, Mask
from ..interpolation.pricing import LIST, SimplexWorkspace, make_workspace
from ..interpolation.programs import UNLIMITED_EFFORT, interpolate
from .grid_steps import sort_order


@jit_noalloc(inner=True)
def _interpolate_by_vertices(
    i: int, h: Array, obs_prob: Array, tau: Array, basis: Bases, weights: Array, cost: Array, values: Array
) -> None:
    """Interpolate the next beliefs of point i by the vertices, and fill in the value of each action."""
    n_actions, n_observations, n_states = tau.shape[1:]
    for a in range(n_actions):
        values[a] = cost[i, a]
        for o in range(n_observations):
            for s in range(n_states):
                basis[i, a, o, s] = s
                weights[i, a, o, s] = tau[i, a, o, s] if obs_prob[i, a, o] > 0.0 else 0.0
                values[a] += obs_prob[i, a, o] * weights[i, a, o, s] * h[s]


@jit()
def interpolate_by_vertices(
    first: int, n: int, h: Array, obs_prob: Array, tau: Array, basis: Bases, weights: Array, cost: Array
) -> None:
    """Interpolate the next beliefs of the points first..n-1 by the vertices."""
    values = np.empty(cost.shape[1])
    for i in range(first, n):
        _interpolate_by_vertices(i, h, obs_prob, tau, basis, weights, cost, values)


@jit_noalloc(inner=True)
def list_support_points(
    a: int, o: int, basis: Bases, weights: Array, own: Bases, seen: Index, short_list: Index
) -> None:
    """List the points that make up the next beliefs of the points `own` after action a and observation o.

    seen[i] is the number of the last list with point i in it, and its last entry counts lists.
    """
    seen[-1] += 1
    count = 0
    for i in own:
        if i >= 0:
            for k in range(len(own)):
                j = basis[i, a, o, k]
                if weights[i, a, o, k] > 0.0 and seen[j] != seen[-1] and count < LIST:
                    seen[j] = seen[-1]
                    short_list[count] = j
                    count += 1
    short_list[LIST] = count


@jit_noalloc(inner=True, linked=True)
def _any_point(numbers: Bases) -> bool:
    """Return whether any entry is the number of a point rather than -1."""
    found = False
    for k in range(len(numbers)):
        found |= numbers[k] >= 0
    return found


@jit_noalloc(inner=True)
def _raise_by_list(
    i: int,
    a: int,
    own: Bases,
    value: float,
    best: float,
    arrays: tuple[Array, Array, Array, Array, Bases, Array],
    seen: Index,
    workspace: SimplexWorkspace,
) -> tuple[float, float]:
    """Interpolate the next beliefs of point i after action a between nearby points; return value and work.

    The nearby points are those that make up the next beliefs of the points `own` that make up point i. So the
    value is at least Σ γ_k q(g_k, a), and an action whose value by that is not the best stays so.
    """
    points, h, obs_prob, tau, basis, weights = arrays
    work = 0.0
    for o in range(obs_prob.shape[2]):
        if value >= best:
            break
        if obs_prob[i, a, o] > 0.0:
            before = 0.0
            for s in range(len(own)):
                before += tau[i, a, o, s] * h[s]
            list_support_points(a, o, basis, weights, own, seen, workspace.short_list)
            basis[i, a, o, 0] = -1
            none = int(np.int64(0))  # not a literal, for which `interpolate` would be compiled again
            inner, spent = interpolate(
                points, h, none, tau[i, a, o], basis[i, a, o], weights[i, a, o], workspace, UNLIMITED_EFFORT
            )
            value += obs_prob[i, a, o] * (inner - before)
            work += spent
    return value, work


@jit()
def interpolate_new_points(
    points: Array,
    h: Array,
    first: int,
    last: int,
    n: int,
    obs_prob: Array,
    tau: Array,
    basis: Bases,
    weights: Array,
    cost: Array,
    known: Bases,
    own: Bases,
    face_tolerance: float,
) -> float:
    """Interpolate the next beliefs of the points first..last-1, and return the work.

    All are interpolated by the vertices first. A better interpolation only raises the value of an action, and
    the action of the least value counts; so an action whose value is above the least is left as it is.
    known[i − first, a, o, k] holds bases to begin with, or -1, and own[i − first, k] the points that make up
    point i, or -1.
    """
    n_actions, n_observations, n_states = tau.shape[1:]
    workspace, seen = make_workspace(points, n, face_tolerance), np.zeros(n + 1, np.int64)
    arrays = points, h, obs_prob, tau, basis, weights
    values, warm = np.empty(n_actions), np.empty(n_actions, np.bool_)
    promise = np.empty(n_actions)
    order: Index = np.empty(n_actions, np.int64)
    work = 0.0
    for i in range(first, last):
        _interpolate_by_vertices(i, h, obs_prob, tau, basis, weights, cost, values)
        best = 1e300
        start = known[i - first]
        for a in range(n_actions):
            warm[a] = False
            for o in range(n_observations):
                warm[a] |= _any_point(start[a, o])
            promise[a] = values[a] - 1e6 * warm[a]
        sort_order(promise, order)
        for a in order:
            near = not warm[a] and _any_point(own[i - first])
            if near:
                values[a], spent = _raise_by_list(
                    i, a, own[i - first], values[a], best, arrays, seen, workspace
                )
                work += spent
            for o in range(n_observations):
                if values[a] >= best:
                    break
                if obs_prob[i, a, o] > 0.0:
                    before = 0.0
                    for k in range(n_states):
                        before += weights[i, a, o, k] * h[basis[i, a, o, k]]
                    if warm[a]:
                        basis[i, a, o] = start[a, o]
                    elif not near:
                        basis[i, a, o, 0] = -1
                    inner, spent = interpolate(
                        points, h, n, tau[i, a, o], basis[i, a, o], weights[i, a, o], workspace,
                        UNLIMITED_EFFORT,
                    )  # fmt: skip
                    values[a] += obs_prob[i, a, o] * (inner - before)
                    work += spent
            best = min(best, values[a])
    return work


@jit()
def reinterpolate(
    points: Array,
    h: Array,
    n: int,
    obs_prob: Array,
    tau: Array,
    basis: Bases,
    weights: Array,
    q: Array,
    best: Array,
    margin: float,
    chosen: Mask,
    effort: float,
    face_tolerance: float,
) -> tuple[float, float]:
    """Renew interpolations at the chosen points for actions with values within `margin` of the best.

    `effort` limits the pricing in each linear program (`interpolate`). Returns the largest increase of an
    interpolated value, and the work.
    """
    n_actions, n_observations, n_states = tau.shape[1:]
    workspace = make_workspace(points, n, face_tolerance)
    old_basis, old_weights = np.empty(n_states, np.int32), np.empty(n_states)
    work, raised = 0.0, 0.0
    for i in range(n):
        if not chosen[i]:
            continue
        for a in range(n_actions):
            if q[i, a] > best[i] + margin:
                continue
            for o in range(n_observations):
                if obs_prob[i, a, o] > 0.0:
                    before = 0.0
                    for k in range(n_states):
                        old_basis[k], old_weights[k] = basis[i, a, o, k], weights[i, a, o, k]
                        before += old_weights[k] * h[old_basis[k]]
                    after, spent = interpolate(
                        points, h, n, tau[i, a, o], basis[i, a, o], weights[i, a, o], workspace, effort
                    )
                    work += spent
                    if after >= before:
                        raised = max(raised, after - before)
                    else:  # rounding has ruined the basis: the old one is better
                        basis[i, a, o] = old_basis
                        weights[i, a, o] = old_weights
    return raised, work


@jit()
def interpolated(
    points: Array, h: Array, n: int, beliefs: Array, face_tolerance: float
) -> tuple[Array, float]:
    """Return h̃ at these beliefs, and the work."""
    n_states = len(points)
    workspace = make_workspace(points, n, face_tolerance)
    basis, weights = np.empty(n_states, np.int32), np.empty(n_states)
    values, work = np.empty(len(beliefs)), 0.0
    for i in range(len(beliefs)):
        basis[0] = -1
        values[i], spent = interpolate(points, h, n, beliefs[i], basis, weights, workspace, UNLIMITED_EFFORT)
        work += spent
    return values, work
