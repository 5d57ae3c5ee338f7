"""Average costs that depend on the start: chains and decision processes with several recurrent classes.

In a finite chain P with costs c the gain g(i), the average cost from i, and a bias h solve

    g = P g,   g + h = c + P h;

in a decision process the least gains solve g = min_a P_a g, and g + h = min {c_a + P_a h} over the actions
that attain the first (Puterman 1994, chapter 9). Here they are solved by closed classes and absorption, with
Howard's iteration on top. `end_components` and `longest_ways` are what makes a proof of such a solution.
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

_TIE = 1e-10  # gains and values this near are the same for Howard's iteration
_DENSE = 400  # states up to which a dense solve is the quickest


def gain_and_bias(chain: csr_array, cost: Array) -> tuple[Array, Array]:
    """g and h of a chain whose entries are all positive; the bias is 0 at one state of each class."""
    closed, label = _classes(chain)
    gain, bias = np.zeros(len(cost)), np.zeros(len(cost))
    alone = closed[label] & (np.bincount(label)[label] == 1)
    gain[alone] = cost[alone]
    for c in np.flatnonzero(closed & (np.bincount(label) > 1)):
        inside = np.flatnonzero(label == c)
        gain[inside], bias[inside] = _one_class(chain[inside][:, inside], cost[inside])
    inside, outside = np.flatnonzero(closed[label]), np.flatnonzero(~closed[label])
    if len(outside):
        away = chain[outside]
        solve = splu(csc_array(identity(len(outside)) - away[:, outside])).solve
        gain[outside] = solve(away[:, inside] @ gain[inside])
        bias[outside] = solve(cost[outside] - gain[outside] + away[:, inside] @ bias[inside])
    return gain, bias


def _classes(chain: csr_array) -> tuple[Mask, npt.NDArray[np.int32]]:
    """Which communicating classes are closed, and the class of each state."""
    count, label = connected_components(chain, directed=True, connection="strong")
    edges = chain.tocoo()
    closed = np.ones(count, np.bool_)
    closed[label[edges.row[label[edges.row] != label[edges.col]]]] = False
    return closed, label


def _one_class(chain: csr_array, cost: Array) -> tuple[Array, Array]:
    """The gain and h with h_1 = 0 of an irreducible chain."""
    n = len(cost)
    right = np.append(cost, 0.0)
    if n <= _DENSE:
        system = np.zeros((n + 1, n + 1))
        system[:n, :n] = np.eye(n) - chain.toarray()
        system[:n, n] = 1.0
        system[n, 0] = 1.0
        solution = np.linalg.solve(system, right)
    else:
        corner, ones = csc_array(([1.0], ([0], [0])), shape=(1, n)), csc_array(np.ones((n, 1)))
        solution = splu(bmat([[identity(n) - chain, ones], [corner, None]], format="csc")).solve(right)
    return np.full(n, solution[n]), solution[:n]


def optimal(moves: csr_array, cost: Array, policy: Index) -> tuple[Array, Array, Index]:
    """The least gains of a decision process, biases to them, and a policy that attains both.

    `moves` holds P_a for one action after another, [A·n, n]; `cost` is [n, A]. Howard's iteration for several
    classes, which raises no state's gain from turn to turn, from the `policy` given.
    """
    n, n_actions = cost.shape
    rows = np.arange(n)
    for _ in range(100):
        gain, bias = gain_and_bias(moves[policy * n + rows], cost[rows, policy])
        onward = (moves @ gain).reshape(n_actions, n).T
        value = cost + (moves @ bias).reshape(n_actions, n).T
        value[onward > onward.min(axis=1, keepdims=True) + _TIE] = np.inf
        best = value.argmin(axis=1)
        worse = onward[rows, policy] > onward.min(axis=1) + _TIE
        if not worse.any():
            worse = value[rows, policy] > value[rows, best] + _TIE
        if not worse.any():
            break
        policy = np.where(worse, best, policy)
    return gain, bias, policy


def end_components(moves: csr_array, n_actions: int) -> tuple[Index, Mask]:
    """The maximal end components of a decision process: a label for each state, and the pairs inside, [A·n].

    States in none have labels of their own, and no pair inside. Parts are split, and actions that may leave
    their part are dropped, until nothing changes (see `structure`).
    """
    n = moves.shape[1]
    edges = moves.tocoo()
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


def longest_ways(moves: csr_array, label: Index, inside: Mask) -> Array | None:
    """t with t_i ≥ 1 + P_a t for every pair outside of the end components, the same within each: [n].

    The most steps outside of components that anybody can make, on average: finite, because whoever never
    stopped making them would be in an end component. None where it cannot be solved for.
    """
    n = moves.shape[1]
    outside = np.flatnonzero(~inside)
    home = label[outside % n]
    count = int(label.max()) + 1
    t = np.zeros(count)
    if not len(outside):
        return t[label]
    merged = csr_array((np.ones(n), (np.arange(n), label)), shape=(n, count))
    onward = moves[outside] @ merged  # [pairs, components]
    movers, first = np.unique(home, return_index=True)
    chosen = first
    for _ in range(200):
        chain = onward[chosen][:, movers]
        try:
            t[movers] = splu(csc_array(identity(len(movers)) - chain)).solve(np.ones(len(movers)))
        except RuntimeError:
            return None
        if not np.isfinite(t).all() or t.max() > 1e12:
            return None
        steps = 1.0 + onward @ t
        order = np.lexsort((steps, home))
        longest = order[np.append(np.flatnonzero(np.diff(home[order])), len(order) - 1)]
        better = steps[longest] > steps[chosen] * (1 + 1e-9)
        if not better.any():
            return t[label] * (1 + 1e-6)
        chosen = np.where(better, longest, chosen)
    return None


def margin(dynamics: BeliefDynamics, gains: Array, residual: float) -> float:
    """Twice what rounding and inexact beliefs may do to Σ P γ (g − min g), and what storing g may."""
    terms = dynamics.n_states * dynamics.n_observations + dynamics.n_states + 10
    spread, largest = float(np.ptp(gains)), float(np.abs(gains).max())
    stored = sys.float_info.epsilon * largest if spread > 0.0 else 0.0
    return 2.0 * (spread * (terms * sys.float_info.epsilon + residual) + stored)
