"""The steps of an ensemble of kernels between refreshes, compiled.

Beside the ensemble's filters go two things. The *kernel in use*, which an agent has sampled, keeps its
filter when the ensemble moves on. And the *possible states* are followed through the prior's structural
zeros: a reading that none of them can give is impossible under the prior itself, whatever the ensemble
says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._numba.jit import bare, kept
from .._utils.arrays import Array, Codes, Mask
from .filter_bank import Filters, linear_weights, update

_SURPRISE = 1e-20
DONE, REFRESH, IMPOSSIBLE, TOO_UNLIKELY = 0, 1, 2, 3


class Used(NamedTuple):
    """The kernel in use, as filters of one."""

    transition: Array  # [A, S, S', 1]
    belief: Array  # [S, 1]; zeros where there is none
    predicted: Array  # [S, 1]
    chance: Array  # [1]


class Possible(NamedTuple):
    """Which states the prior's structural zeros leave possible at present."""

    support: Mask  # [A, S, S']
    now: Mask  # [S]
    then: Mask  # [S]: scratch


NOTHING_POSSIBLE = Possible(np.zeros((0, 0, 0), bool), np.zeros(0, bool), np.zeros(0, bool))


@bare(inner=True, linked=True)
def reach(possible: Possible, likelihood: Array, action: int) -> bool:
    """`possible.then`: states that can follow and can give the reading; whether there is one."""
    n_states = len(possible.now)
    some = False
    for t in range(n_states):
        found = False
        for s in range(n_states):
            found |= possible.now[s] and possible.support[action, s, t]
        possible.then[t] = found and likelihood[t] > 0.0
        some |= possible.then[t]
    return some


@bare(error_model="numpy", linked=True)
def follow(used: Used, likelihood: Array, action: int) -> None:
    """The belief of the kernel in use, one step on; `chance` is 1 / P, or 0 for an impossible reading."""
    transition, belief, predicted = used.transition, used.belief, used.predicted
    total = 0.0
    for t in range(len(belief)):
        mass = 0.0
        for s in range(len(belief)):
            mass += transition[action, s, t, 0] * belief[s, 0]
        predicted[t, 0] = mass * likelihood[t]
        total += predicted[t, 0]
    inverse = 1.0 / total if total > 0.0 else 0.0
    for t in range(len(belief)):
        belief[t, 0] = predicted[t, 0] * inverse
    used.chance[0] = inverse


@bare(inner=True, linked=True)
def surprised(inverse: Array) -> bool:
    """Whether no kernel had expected the reading at all: weights alone cannot say so, they may stay equal."""
    least = np.inf
    for n in range(len(inverse)):
        if inverse[n] > 0.0:
            least = min(least, inverse[n])
    return least > 1.0 / _SURPRISE


@bare(inner=True, linked=True)
def refresh_due(filters: Filters, least_size: float) -> bool:
    """Whether, after an update, fewer than `least_size` kernels count, or none had expected the reading.

    A `least_size` of 0 stands for kernels that are not to be moved.
    """
    size = linear_weights(filters.product, filters.scale, filters.weight)
    return size < least_size or (least_size > 0.0 and surprised(filters.chance))


@bare()
def advance(
    filters: Filters, used: Used, possible: Possible, codes: Codes, begin: int, end: int, least_size: float
) -> tuple[int, int]:
    """Take the steps from `begin` on, up to `end` or to the first after which a refresh is due.

    Returns how far it came and why it stopped; a step that is not possible has changed nothing.
    """
    n_readings = filters.likelihood.shape[1]
    for i in range(begin, end):
        a, o = codes[i] // n_readings, codes[i] % n_readings
        likelihood = filters.likelihood[a, o]
        if not reach(possible, likelihood, a):
            return i, IMPOSSIBLE
        if not update(filters, a, o):
            return i, TOO_UNLIKELY
        for s in range(len(possible.now)):
            possible.now[s] = possible.then[s]
        follow(used, likelihood, a)
        if refresh_due(filters, least_size):
            return i + 1, REFRESH
    return end, DONE


@kept()
def filter_one(transition: Array, likelihood: Array, start: Array, codes: Codes, n: int) -> Array:
    """h_t `[S]` of any one kernel `[A, S, S′]`, over the whole history; zeros where it is impossible."""
    n_states, n_readings = len(start), likelihood.shape[1]
    belief, after = start.copy(), np.empty(n_states)
    for i in range(n):
        a, o = codes[i] // n_readings, codes[i] % n_readings
        total = 0.0
        for t in range(n_states):
            after[t] = 0.0
            for s in range(n_states):
                after[t] += belief[s] * transition[a, s, t]
            after[t] *= likelihood[a, o, t]
            total += after[t]
        for t in range(n_states):
            belief[t] = after[t] / total if total > 0.0 else 0.0
    return belief
