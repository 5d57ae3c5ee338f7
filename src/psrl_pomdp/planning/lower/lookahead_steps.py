"""Compiled look ahead from any belief: min_a {c(b, a) + Σ_o P(o | b, a) h̃(τ(b, a, o))}; greedy policy.

`grid` stands for the arrays (points, h, q, basis, weights), which `grid_steps` explains.
"""

from __future__ import annotations

import numpy as np

from ..._numba.jit import jit
from ..._utils.arrays import Array, Bases, Index
from ...inference.filter_bank import sample_categorical
from ..interpolation.pricing import SimplexWorkspace, make_workspace
from ..interpolation.programs import UNLIMITED_EFFORT, interpolate
from .grid_steps import next_beliefs, sort_order
from .interpolation_steps import list_support_points


@jit(inner=True)
def lookahead(
    joint: Array,
    state_cost: Array,
    grid: tuple[Array, Array, Array, Bases, Array],
    n: int,
    belief: Array,
    own_basis: Bases,
    own_weights: Array,
    probabilities: Array,
    beliefs: Array,
    bases: Bases,
    seen: Index,
    workspace: SimplexWorkspace,
) -> tuple[float, int, float]:
    """Return min_a {c(b, a) + Σ P h̃(τ)} at a belief b = Σ γ_k g_k, the action that attains it, and the work.

    The value of an action is at least Σ γ_k q(g_k, a); actions for which that is above the best value are
    skipped. Fills `probabilities`, `beliefs` and `bases` for all other actions; `bases` has -1 for those
    skipped.
    """
    n_actions, n_states = state_cost.shape
    n_observations = joint.shape[1]
    points, h, q, basis, weights = grid
    floor, own = np.zeros(n_actions), np.full(n_states, -1, np.int32)
    heaviest, most = own_basis[0], own_weights[0]
    for k in range(n_states):
        if own_weights[k] > most:
            heaviest, most = own_basis[k], own_weights[k]
        if own_weights[k] > 0.0:
            own[k] = own_basis[k]
            for a in range(n_actions):
                floor[a] += own_weights[k] * q[own_basis[k], a]
    bases[:] = -1
    best, action, work = 1e300, 0, 0.0
    found = np.empty(n_states)
    order: Index = np.empty(n_actions, np.int64)
    sort_order(floor, order)
    for a in order:
        if floor[a] >= best:
            break
        value = 0.0
        for s in range(n_states):
            value += belief[s] * state_cost[a, s]
        next_beliefs(joint, belief, a, probabilities[a], beliefs[a])
        for o in range(n_observations):
            if probabilities[a, o] > 0.0:
                list_support_points(a, o, basis, weights, own, seen, workspace.short_list)
                last = -1
                for k in range(n_states):  # the basis at the heaviest point is nearly right here
                    bases[a, o, k] = basis[heaviest, a, o, k]
                    last = max(last, bases[a, o, k])
                if last < n_states:  # only vertices: the short list is a better start
                    bases[a, o, 0] = -1
                inner, spent = interpolate(
                    points, h, n, beliefs[a, o], bases[a, o], found, workspace, UNLIMITED_EFFORT
                )
                value += probabilities[a, o] * inner
                work += spent
        if value < best:
            best, action = value, a
    return best, action, work


@jit()
def residuals(
    joint: Array,
    state_cost: Array,
    grid: tuple[Array, Array, Array, Bases, Array],
    n: int,
    candidates: Array,
    parents: Index,
    here: Array,
    gain: float,
    face_tolerance: float,
) -> tuple[Array, Bases, float]:
    """Return how much a point at each candidate belief b would raise h there: [T h̃ − gain − h̃](b).

    parents[c] is the point, action and observation that lead to candidate c, and here[c] is h̃ there. Returns
    also the bases found for the next beliefs, and the work.
    """
    n_actions, n_observations, n_states = joint.shape[:3]
    points, basis, weights = grid[0], grid[3], grid[4]
    workspace, seen = make_workspace(points, n, face_tolerance), np.zeros(n + 1, np.int64)
    probabilities, beliefs = (
        np.empty((n_actions, n_observations)),
        np.empty((n_actions, n_observations, n_states)),
    )
    out = np.empty(len(candidates))
    bases = np.empty((len(candidates), n_actions, n_observations, n_states), np.int32)
    work = 0.0
    for c in range(len(candidates)):
        i, a, o = parents[c]
        best, _, spent = lookahead(
            joint, state_cost, grid, n, candidates[c], basis[i, a, o], weights[i, a, o],
            probabilities, beliefs, bases[c], seen, workspace,
        )  # fmt: skip
        out[c] = best - gain - here[c]
        work += spent
    return out, bases, work


@jit()
def sample_trajectory(
    joint: Array,
    state_cost: Array,
    grid: tuple[Array, Array, Array, Bases, Array],
    n: int,
    belief: Array,
    uniforms: Array,
    gain: float,
    face_tolerance: float,
) -> tuple[Array, Array, Array, Bases, Bases, Array, float]:
    """Simulate the greedy policy for h̃ from a belief, one step for each of the `uniforms`.

    Returns the beliefs, how much a point would raise h at each, h̃ at each, the points that make up each, the
    bases found for the next beliefs, the last belief, and the work.
    """
    n_actions, n_observations, n_states = joint.shape[:3]
    points, h = grid[0], grid[1]
    workspace, seen = make_workspace(points, n, face_tolerance), np.zeros(n + 1, np.int64)
    probabilities, beliefs = (
        np.empty((n_actions, n_observations)),
        np.empty((n_actions, n_observations, n_states)),
    )
    visited = np.empty((len(uniforms), n_states))
    residual, inner = np.empty(len(uniforms)), np.empty(len(uniforms))
    bases = np.empty((len(uniforms), n_actions, n_observations, n_states), np.int32)
    own_basis, own_weights = np.full(n_states, -1, np.int32), np.zeros(n_states)
    own = np.empty((len(uniforms), n_states), np.int32)
    belief = belief.copy()
    work = 0.0
    for step in range(len(uniforms)):
        visited[step] = belief
        inner[step], first = interpolate(
            points, h, n, belief, own_basis, own_weights, workspace, UNLIMITED_EFFORT
        )
        for k in range(n_states):
            own[step, k] = own_basis[k] if own_weights[k] > 0.0 else -1
        best, a, spent = lookahead(
            joint, state_cost, grid, n, belief, own_basis, own_weights, probabilities, beliefs, bases[step],
            seen, workspace,
        )  # fmt: skip
        residual[step] = best - gain - inner[step]
        work += first + spent
        o = sample_categorical(probabilities[a], uniforms[step])
        belief[:] = beliefs[a, o]
        own_basis[:] = bases[step, a, o]
    return visited, residual, inner, own, bases, belief, work
