"""Gains and biases of Markov chains and decision processes with several recurrent classes.

In a finite chain P with costs c the gain g(i), the average cost from i, and a bias h solve

    g = P g,   g + h = c + P h;

in a decision process the least gains solve g = min_a P_a g, and g + h = min {c_a + P_a h} over the actions
that attain the first (Puterman 1994, chapter 9). Chains are solved one closed class after another, and then
for absorption; decision processes by policy iteration. `end_components` and `max_transient_steps` help to
prove such a solution in floating point (`bounds`).
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt
from scipy.sparse import bmat, csc_array, csr_array, identity
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from ..._utils.arrays import Array, Index, Mask
from ..dynamics import BeliefDynamics

_TIE = 1e-10  # gains and values nearer than this are equal for policy iteration
_DENSE_STATES = 400  # states up to which a dense solve is the quickest


def gain_and_bias(chain: csr_array, cost: Array) -> tuple[Array, Array]:
    """Return the gain and a bias of a chain, [n] each; the bias is 0 at one state of each closed class.

    All stored entries of `chain` have to be positive.
    """
    closed, label = _classes(chain)
    gain, bias = np.zeros(len(cost)), np.zeros(len(cost))
    alone = closed[label] & (np.bincount(label)[label] == 1)
    gain[alone] = cost[alone]
    for c in np.flatnonzero(closed & (np.bincount(label) > 1)):
        inside = np.flatnonzero(label == c)
        gain[inside], bias[inside] = _solve_recurrent_class(chain[inside][:, inside], cost[inside])
    inside, outside = np.flatnonzero(closed[label]), np.flatnonzero(~closed[label])
    if len(outside):
        away = chain[outside]
        solve = splu(csc_array(identity(len(outside)) - away[:, outside])).solve
        gain[outside] = solve(away[:, inside] @ gain[inside])
        bias[outside] = solve(cost[outside] - gain[outside] + away[:, inside] @ bias[inside])
    return gain, bias


def _classes(chain: csr_array) -> tuple[Mask, npt.NDArray[np.int32]]:
    """Return which communicating classes are closed, and the class of each state."""
    count, label = connected_components(chain, directed=True, connection="strong")
    edges = chain.tocoo()
    closed = np.ones(count, np.bool_)
    closed[label[edges.row[label[edges.row] != label[edges.col]]]] = False
    return closed, label


def _solve_recurrent_class(chain: csr_array, cost: Array) -> tuple[Array, Array]:
    """Return the gain (the same at every state) and the bias with h_1 = 0 of an irreducible chain."""
    n = len(cost)
    right = np.append(cost, 0.0)
    if n <= _DENSE_STATES:
        system = np.zeros((n + 1, n + 1))
        system[:n, :n] = np.eye(n) - chain.toarray()
        system[:n, n] = 1.0
        system[n, 0] = 1.0
        solution = np.linalg.solve(system, right)
    else:
        corner, ones = csc_array(([1.0], ([0], [0])), shape=(1, n)), csc_array(np.ones((n, 1)))
        solution = splu(bmat([[identity(n) - chain, ones], [corner, None]], format="csc")).solve(right)
    return np.full(n, solution[n]), solution[:n]


def multichain_policy_iteration(
    transitions: csr_array, cost: Array, policy: Index
) -> tuple[Array, Array, Index]:
    """Solve a decision process with several recurrent classes by Howard's policy iteration.

    No state's gain rises from one iteration to the next.

    Parameters
    ----------
    transitions
        `[A·n, n]`: P_a for one action after another.
    cost
        `[n, A]`.
    policy
        `[n]`: the policy to begin with.

    Returns
    -------
    tuple
        The least gains `[n]`, biases to them `[n]`, and a policy that attains both `[n]`.
    """
    n, n_actions = cost.shape
    rows = np.arange(n)
    for _ in range(100):
        gain, bias = gain_and_bias(transitions[policy * n + rows], cost[rows, policy])
        next_gain = (transitions @ gain).reshape(n_actions, n).T
        value = cost + (transitions @ bias).reshape(n_actions, n).T
        value[next_gain > next_gain.min(axis=1, keepdims=True) + _TIE] = np.inf
        best = value.argmin(axis=1)
        worse = next_gain[rows, policy] > next_gain.min(axis=1) + _TIE
        if not worse.any():
            worse = value[rows, policy] > value[rows, best] + _TIE
        if not worse.any():
            break
        policy = np.where(worse, best, policy)
    return gain, bias, policy


def end_components(transitions: csr_array, n_actions: int) -> tuple[Index, Mask]:
    """Find the maximal end components of a decision process.

    Parts are split, and actions that may leave their part are dropped, until nothing changes.

    Returns
    -------
    tuple
        A label for each state `[n]`, and which pairs (action, state) stay inside of a component `[A·n]`. A
        state that is in no component has a label of its own, and none of its pairs stays inside.
    """
    n = transitions.shape[1]
    edges = transitions.tocoo()
    pair, source, target = edges.row, edges.row % n, edges.col
    inside = np.ones(n_actions * n, np.bool_)
    while True:
        used = inside[pair]
        graph = csr_array((np.ones(int(used.sum())), (source[used], target[used])), shape=(n, n))
        _, label = connected_components(graph, directed=True, connection="strong")
        stays = inside.copy()
        stays[pair[label[source] != label[target]]] = False
        if (stays == inside).all():
            return label.astype(np.int64), inside
        inside = stays


def max_transient_steps(transitions: csr_array, label: Index, inside: Mask) -> Array | None:
    """Return t with t_i ≥ 1 + P_a t for every pair outside of end components, equal within each: [n].

    This is the largest expected number of steps outside of end components. It is finite, because a policy
    that never stopped making such steps would stay in an end component. None where it cannot be computed.
    """
    n = transitions.shape[1]
    outside = np.flatnonzero(~inside)
    home = label[outside % n]
    count = int(label.max()) + 1
    t = np.zeros(count)
    if not len(outside):
        return t[label]
    merged = csr_array((np.ones(n), (np.arange(n), label)), shape=(n, count))
    to_component = transitions[outside] @ merged  # [pairs, components]
    movers, first = np.unique(home, return_index=True)
    chosen = first
    for _ in range(200):
        chain = to_component[chosen][:, movers]
        try:
            t[movers] = splu(csc_array(identity(len(movers)) - chain)).solve(np.ones(len(movers)))
        except RuntimeError:
            return None
        if not np.isfinite(t).all() or t.max() > 1e12:
            return None
        steps = 1.0 + to_component @ t
        order = np.lexsort((steps, home))
        longest = order[np.append(np.flatnonzero(np.diff(home[order])), len(order) - 1)]
        better = steps[longest] > steps[chosen] * (1 + 1e-9)
        if not better.any():
            return t[label] * (1 + 1e-6)
        chosen = np.where(better, longest, chosen)
    return None


def rounding_margin(dynamics: BeliefDynamics, gains: Array, residual: float) -> float:
    """Return twice the error of Σ P γ (g − min g) by rounding and inexact beliefs, and of storing g."""
    terms = dynamics.n_states * dynamics.n_observations + dynamics.n_states + 10
    spread, largest = float(np.ptp(gains)), float(np.abs(gains).max())
    stored = sys.float_info.epsilon * largest if spread > 0.0 else 0.0
    return 2.0 * (spread * (terms * sys.float_info.epsilon + residual + dynamics.slack) + stored)
