"""Cyclic controllers: they plan for a fixed number of steps, forget what they observed, and begin again.

Value iteration at beliefs makes vectors for one step, two steps, ... to go. The vectors for k steps have
those for k − 1 as successors, and the last layer is followed by the first. Such a controller does well where
a hidden goal has to be searched for again and again. Controllers without layers often repeat a loop of nodes
that never finds it.
"""

from __future__ import annotations

import numpy as np

from ..._utils.arrays import Array, Index
from ..markov.chains import Chain
from ..upper import nodes
from .controllers import SparseControllerSearch


def improve_by_cycles(
    search: SparseControllerSearch, beliefs: Array, last: Array, depth: int, limit: float
) -> None:
    """Evaluate a cyclic controller with `depth` layers; the search keeps it if it is the best so far.

    Parameters
    ----------
    search
        The search that evaluates controllers.
    beliefs
        `[n, S]`, at which the layers are backed up.
    last
        `[A, S]`, a vector for each action: the layer with one step to go.
    depth
        Number of layers, at most.
    limit
        Work at which no further layer is added.
    """
    d = search.sparse
    actions: list[Index] = [np.arange(d.n_actions)]
    successors: list[Index] = []
    chains: list[Chain] = []
    vectors = last
    for _ in range(depth):
        action, successor, _ = search.backup(beliefs, vectors)
        first, _ = nodes.distinct_nodes(action, successor)
        actions.append(action[first])
        successors.append(successor[first])
        chains.append(search.chain(action[first], successor[first]))
        vectors = d.cost[action[first]] + (chains[-1] @ vectors).reshape(len(first), -1)
        search.work += chains[-1].work
        if search.work > limit or sum(map(len, actions)) > search.most_nodes:
            break
    restart = (search.after_uniform @ vectors.T).argmin(axis=2)
    chains.insert(0, search.chain(actions[0], restart))
    successors.insert(0, restart)
    layers, worth = _values(search, actions, chains, vectors, limit)
    if worth >= search.bound and not search.has_several_classes:
        return
    firsts = np.cumsum([0] + [len(layer) for layer in layers])
    shifted = [successors[0] + firsts[-2]]
    shifted += [successor + first for successor, first in zip(successors[1:], firsts, strict=False)]
    search.try_from_anywhere(np.concatenate(actions), np.concatenate(shifted), np.concatenate(layers))


def _values(
    search: SparseControllerSearch, actions: list[Index], chains: list[Chain], top: Array, limit: float
) -> tuple[list[Array], float]:
    """Return the vectors of all layers, the last step first, and the bound that they prove.

    Passes around all layers are made until the vectors repeat, or hardly come nearer to it.
    """
    d, gain, before, parameters = search.sparse, 0.0, np.inf, search.sparse_parameters
    for turn in range(parameters.cycle_passes):
        layers = [top]
        for action, chain in zip(actions, chains, strict=True):
            successor = (chain @ layers[-1]).reshape(len(action), -1)
            layers.append(d.cost[action] - gain + successor)
            search.work += chain.work
        search.limits.require()
        drift = layers[-1] - top
        low, high = float(drift.min()), float(drift.max())
        if high - low < search.tolerance or search.work > limit:
            break
        if turn % parameters.cycle_check_every == parameters.cycle_check_every - 1:
            if high - low > 0.5 * before or gain + low / len(actions) >= search.bound:
                break
            before = high - low
        gain += 0.5 * (low + high) / len(actions)
        top = layers[-1] - 0.5 * (low + high)
    return layers[1:], gain + max(0.0, high)
