"""Compiled tree search over histories of actions and observations: UCT for POMDPs (POMCP).

A simulation draws a model and its state. At a history that is in the tree it takes the action with the
least

    V(h, a) − c √(log N(h) / N(h, a)),

and an untried action before all others. The first history that is not in the tree is added to it, and from
there on actions are drawn uniformly. Afterwards V(h, a), the mean discounted cost from h on after action a,
is updated at every history that the simulation has visited. As the number of simulations grows, the least V
at the root converges to the optimal value of the `depth`-step problem, and the probability that its action is
not optimal converges to zero. The values of other actions converge slowly, because they are rarely tried
(Kocsis and Szepesvári 2006, Bandit based Monte-Carlo planning; Silver and Veness 2010, Monte-Carlo planning
in large POMDPs).

The caller passes all random numbers, three uniform ones per step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..._numba.jit import LEARNING, jit, jit_noalloc
from ..._utils.arrays import Array, Index
from ...inference.filter_bank import sample_categorical


class WeightedModels(NamedTuple):
    """N weighted kernels with their beliefs, from which simulations draw."""

    transition: Array  # [A, S, S', N]
    belief: Array  # [S, N]
    weight: Array  # [N], sums to 1
    sensor: Array  # [A, S', O]
    cost: Array  # [A, S]


class Tree(NamedTuple):
    """Histories by number, at most one more per simulation; the root is 0. And the path of one simulation."""

    visits: Index  # [K, A]: N(h, a)
    value: Array  # [K, A]: V(h, a)
    after: Index  # [K, A, O]: the next history; 0 if it is not in the tree
    nodes: Index  # [depth]
    actions: Index  # [depth]
    costs: Array  # [depth]


def empty_tree(n_simulations: int, depth: int, n_actions: int, n_observations: int) -> Tree:
    """Return the arrays for a search."""
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
def search(models: WeightedModels, tree: Tree, uniforms: Array, discount: float, exploration: float) -> None:
    """Run one simulation for each of `uniforms[n, depth + 1, 3]`; the root of the tree has the results."""
    tree.visits[:] = 0
    tree.value[:] = 0.0
    tree.after[:] = 0
    size = 1
    for i in range(len(uniforms)):
        size, length = descend(models, tree, size, uniforms[i], exploration)
        back_up(tree, length, discount)


@jit()
def descend(
    models: WeightedModels, tree: Tree, size: int, uniforms: Array, exploration: float
) -> tuple[int, int]:
    """Run one simulation; return the new size of the tree, and how many steps were taken in the tree.

    `uniforms[0]` draws the model and its state; later rows draw an action, the next state and observation.
    """
    depth, n_actions = len(tree.costs), len(models.cost)
    n = sample_categorical(models.weight, uniforms[0, 0])
    state = sample_categorical(models.belief[:, n], uniforms[0, 1])
    node, length = 0, depth
    for d in range(depth):
        row = uniforms[d + 1]
        if d < length:
            action = least_bound_action(tree.visits[node], tree.value[node], exploration, row[0])
            tree.nodes[d], tree.actions[d] = node, action
        else:
            action = int(row[0] * n_actions)
        tree.costs[d] = models.cost[action, state]
        state = sample_categorical(models.transition[action, state, :, n], row[1])
        if d + 1 < length:
            observation = sample_categorical(models.sensor[action, state], row[2])
            if tree.after[node, action, observation] == 0:
                tree.after[node, action, observation] = size
                size += 1
                length = d + 1
            node = tree.after[node, action, observation]
    return size, length


@jit_noalloc(inner=True)
def least_bound_action(visits: Index, value: Array, exploration: float, uniform: float) -> int:
    """Return the action with the least V − c √(log N / n); untried ones first, ties in random order."""
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
    """Update V(h, a) with the discounted cost that followed, at the first `length` histories of the path."""
    total = 0.0
    for d in range(len(tree.costs) - 1, -1, -1):
        total = tree.costs[d] + discount * total
        if d < length:
            node, action = tree.nodes[d], tree.actions[d]
            tree.visits[node, action] += 1
            tree.value[node, action] += (total - tree.value[node, action]) / tree.visits[node, action]
