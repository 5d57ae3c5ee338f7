"""Tree search over histories of actions and readings, compiled: UCT for partially observed worlds (POMCP).

A simulation draws a world and its state, and plays. At a history that the tree holds it takes the action with
the least

    V(h, a) − c √(log N(h) / N(h, a)),

and one that was never tried before all others; the first history that the tree does not hold is added to it,
and from there on actions are drawn uniformly. Afterwards V(h, a), the mean discounted cost from h on after
action a, takes in what followed, at every history on the way. As simulations grow in number the least V at
the root converges to the optimal value of the `depth`-step problem, and the chance that its action is not
optimal to zero; the values of other actions follow slowly, because they are rarely tried (Kocsis and
Szepesvári 2006, Bandit based Monte-Carlo planning; Silver and Veness 2010, Monte-Carlo planning in large
POMDPs).

All chance is handed in, three uniform numbers a step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..._numba.jit import LEARNING, jit, jit_noalloc
from ..._utils.arrays import Array, Index
from ...inference.filter_bank import sample_categorical


class Worlds(NamedTuple):
    """What is simulated: N kernels, and what each believes of the state."""

    transition: Array  # [A, S, S', N]
    belief: Array  # [S, N]
    weight: Array  # [N], sums to 1
    sensor: Array  # [A, S', O]
    cost: Array  # [A, S]


class Tree(NamedTuple):
    """Histories by number, with room for one a simulation; the root is 0. And the way of one simulation."""

    visits: Index  # [K, A]: N(h, a)
    value: Array  # [K, A]: V(h, a)
    after: Index  # [K, A, O]: the history that follows; 0 where the tree does not hold it
    nodes: Index  # [depth]
    actions: Index  # [depth]
    costs: Array  # [depth]


def empty_tree(n_simulations: int, depth: int, n_actions: int, n_observations: int) -> Tree:
    """Room for a search."""
    LEARNING.want("others")
    histories = (n_simulations + 1, n_actions)
    return Tree(
        np.zeros(histories, np.int64),
        np.zeros(histories),
        np.zeros((*histories, n_observations), np.int64),
        np.zeros(depth, np.int64),
        np.zeros(depth, np.int64),
        np.zeros(depth),
    )


@jit()
def search(worlds: Worlds, tree: Tree, uniforms: Array, discount: float, exploration: float) -> None:
    """One simulation for each of `uniforms[n, depth + 1, 3]`; the answers are at the root of the tree."""
    tree.visits[:] = 0
    tree.value[:] = 0.0
    tree.after[:] = 0
    size = 1
    for i in range(len(uniforms)):
        size, length = descend(worlds, tree, size, uniforms[i], exploration)
        back_up(tree, length, discount)


@jit()
def descend(worlds: Worlds, tree: Tree, size: int, uniforms: Array, exploration: float) -> tuple[int, int]:
    """One simulation; the new size of the tree, and how many of its steps were taken in the tree.

    `uniforms[0]` draws the world and its state; later rows an action, the next state and its reading.
    """
    depth, n_actions = len(tree.costs), len(worlds.cost)
    n = sample_categorical(worlds.weight, uniforms[0, 0])
    state = sample_categorical(worlds.belief[:, n], uniforms[0, 1])
    node, length = 0, depth
    for d in range(depth):
        chance = uniforms[d + 1]
        if d < length:
            action = promising(tree.visits[node], tree.value[node], exploration, chance[0])
            tree.nodes[d], tree.actions[d] = node, action
        else:
            action = int(chance[0] * n_actions)
        tree.costs[d] = worlds.cost[action, state]
        state = sample_categorical(worlds.transition[action, state, :, n], chance[1])
        if d + 1 < length:
            reading = sample_categorical(worlds.sensor[action, state], chance[2])
            if tree.after[node, action, reading] == 0:
                tree.after[node, action, reading] = size
                size += 1
                length = d + 1
            node = tree.after[node, action, reading]
    return size, length


@jit_noalloc(inner=True)
def promising(visits: Index, value: Array, exploration: float, uniform: float) -> int:
    """The action with the least V − c √(log N / n), untried ones first; equals are met in a random order."""
    n_actions, tried = len(visits), 0
    for a in range(n_actions):
        tried += visits[a]
    scale = exploration * math.sqrt(math.log(max(1, tried)))
    first = int(uniform * n_actions)
    best, least = first, np.inf
    for k in range(n_actions):
        a = (first + k) % n_actions
        if visits[a] == 0:
            return a
        bound = value[a] - scale / math.sqrt(visits[a])
        if bound < least:
            best, least = a, bound
    return best


@jit_noalloc(inner=True)
def back_up(tree: Tree, length: int, discount: float) -> None:
    """V(h, a) takes in the discounted cost that followed, for the first `length` histories on the way."""
    total = 0.0
    for d in range(len(tree.costs) - 1, -1, -1):
        total = tree.costs[d] + discount * total
        if d < length:
            node, action = tree.nodes[d], tree.actions[d]
            tree.visits[node, action] += 1
            tree.value[node, action] += (total - tree.value[node, action]) / tree.visits[node, action]
