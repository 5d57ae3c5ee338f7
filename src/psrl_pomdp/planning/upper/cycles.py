"""Controllers that look some steps ahead and then begin anew, as if nothing had been read.

Value iteration at beliefs makes vectors for one step, two steps, ... more to go. The vectors for k steps
point to those for k − 1, and the last ones back to the first: a controller in layers, which plays what is
best for so many steps, forgets, and repeats. Where a goal is hidden it tries again and again for it, which
controllers whose vectors point among themselves often do not: they run in circles.
"""

from __future__ import annotations

import numpy as np

from ..._utils.arrays import Array, Index
from ..sparse.controllers import SparseControllerSearch
from . import nodes
from .chains import Chain

_PASSES, _LOOK = 400, 10  # around all layers, at most; and between looks at whether they still help


def improve_by_cycles(
    search: SparseControllerSearch, beliefs: Array, last: Array, depth: int, limit: float
) -> None:
    """Value a controller with `depth` layers made at the beliefs, on top of a vector `last` for each action.

    It becomes the best of the search where it is, from any start or from the model's.
    """
    d = search.sparse
    actions: list[Index] = [np.arange(d.n_actions)]
    onwards: list[Index] = []
    chains: list[Chain] = []
    vectors = last
    for _ in range(depth):
        action, onward, _ = search.backup(beliefs, vectors)
        first, _ = nodes.distinct(action, onward)
        actions.append(action[first])
        onwards.append(onward[first])
        chains.append(search.chain(action[first], onward[first]))
        vectors = d.cost[action[first]] + (chains[-1] @ vectors).reshape(len(first), -1)
        search.work += chains[-1].work
        if search.work > limit or sum(map(len, actions)) > search.most_nodes:
            break
    again = (search.evenly @ vectors.T).argmin(axis=2)
    chains.insert(0, search.chain(actions[0], again))
    onwards.insert(0, again)
    layers, worth = _values(search, actions, chains, vectors, limit)
    if worth >= search.bound and not search.apart:
        return
    firsts = np.cumsum([0] + [len(layer) for layer in layers])
    shifted = [onwards[0] + firsts[-2]]
    shifted += [onward + first for onward, first in zip(onwards[1:], firsts, strict=False)]
    search.try_from_anywhere(np.concatenate(actions), np.concatenate(shifted), np.concatenate(layers))


def _values(
    search: SparseControllerSearch, actions: list[Index], chains: list[Chain], top: Array, limit: float
) -> tuple[list[Array], float]:
    """The vectors of all layers, the last steps first, and what they prove, by going around until they
    repeat or it seems that they never will."""
    d, gain, before = search.sparse, 0.0, np.inf
    for turn in range(_PASSES):
        layers = [top]
        for action, chain in zip(actions, chains, strict=True):
            onward = (chain @ layers[-1]).reshape(len(action), -1)
            layers.append(d.cost[action] - gain + onward)
            search.work += chain.work
        search.limits.need()
        drift = layers[-1] - top
        low, high = float(drift.min()), float(drift.max())
        if high - low < search.tolerance or search.work > limit:
            break
        if turn % _LOOK == _LOOK - 1:
            if high - low > 0.5 * before or gain + low / len(actions) >= search.bound:
                break
            before = high - low
        gain += 0.5 * (low + high) / len(actions)
        top = layers[-1] - 0.5 * (low + high)
    return layers[1:], gain + max(0.0, high)
