"""The steps of an ensemble of kernels between refreshes, compiled.

Two further objects are updated with the ensemble's filters. The *sampled filter* is the belief of the kernel
that an agent has sampled, which may be moved away from the ensemble by a refresh. The *possible states*
follow from the prior's structural zeros: an observation that has probability 0 in all of them is impossible
under the prior, even if the ensemble gives it a positive probability or none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._numba.jit import jit, jit_noalloc
from .._utils.arrays import Array, Codes, Index, Mask
from .filter_bank import FilterBank, matrix_number, update
from .kernel_weights import linear_weights
from .predictive_test import kind_of_code
from .step_codes import StepCodes

_SURPRISE = 1e-20  # below this probability under all kernels, an observation triggers a refresh
DONE, REFRESH, IMPOSSIBLE, TOO_UNLIKELY = 0, 1, 2, 3


class SampledFilter(NamedTuple):
    """The sampled kernel θ_k, the matrices of its steps and its belief."""

    transition: Array  # [A, S, S', 1]
    matrices: Array  # [K, S, S', 1]: those of the filter bank, for this kernel
    belief: Array  # [S, 1]; zeros after an observation of probability 0
    predicted: Array  # [S, 1]
    chance: Array  # [1]


def no_sampled_filter(codes: StepCodes) -> SampledFilter:
    """Return a filter of zeros, before the first kernel is sampled."""
    n_actions, n_states = codes.n_actions, codes.n_states
    shape = (n_states, n_states, 1)
    return SampledFilter(
        np.zeros((n_actions, *shape)),
        np.zeros((codes.number_of_matrices, *shape)),
        np.zeros((n_states, 1)),
        np.zeros((n_states, 1)),
        np.zeros(1),
    )


class PossibleStates(NamedTuple):
    """The states that are possible at present under the prior's structural zeros."""

    support: Mask  # [K, S, S']: the entries of the matrices that are possible
    now: Mask  # [S]
    then: Mask  # [S]: scratch


NO_POSSIBLE_STATES = PossibleStates(np.zeros((0, 0, 0), bool), np.zeros(0, bool), np.zeros(0, bool))


class RefreshRule(NamedTuple):
    """Which groups of kernels are resampled and moved, and when.

    Group g consists of the kernels `begin[g]` to `end[g]` − 1. It is refreshed when its effective size falls
    below `least[g]`, or when the newest observation had a probability below 1e-20 under each of its kernels.
    The weights of kernels in no group, such as those of a finite set, change but the kernels are not moved.
    """

    begin: Index  # [G]
    end: Index  # [G]
    least: Array  # [G]


NO_REFRESH = RefreshRule(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


@jit_noalloc(inner=True, linked=True)
def reachable_states(possible: PossibleStates, likelihood: Array, matrix: int) -> bool:
    """Compute in `possible.then` the states that can follow and emit the observation.

    Returns whether there are any. `matrix` is the number of the step's matrix, `likelihood[S′]` the
    likelihoods of the observation.
    """
    n_states = len(possible.now)
    some = False
    for t in range(n_states):
        found = False
        for s in range(n_states):
            found |= possible.now[s] and possible.support[matrix, s, t]
        possible.then[t] = found and likelihood[t] > 0.0
        some |= possible.then[t]
    return some


@jit_noalloc(error_model="numpy", linked=True)
def update_sampled_filter(used: SampledFilter, likelihood: Array, matrix: int) -> None:
    """Update the belief of the sampled kernel.

    `chance` becomes 1 / P, or 0 if the observation is impossible. `matrix` is the number of the step's
    matrix, `likelihood[S′]` the likelihoods of the observation.
    """
    matrices, belief, predicted = used.matrices, used.belief, used.predicted
    total = 0.0
    for t in range(len(belief)):
        mass = 0.0
        for s in range(len(belief)):
            mass += matrices[matrix, s, t, 0] * belief[s, 0]
        predicted[t, 0] = mass * likelihood[t]
        total += predicted[t, 0]
    inverse = 1.0 / total if total > 0.0 else 0.0
    for t in range(len(belief)):
        belief[t, 0] = predicted[t, 0] * inverse
    used.chance[0] = inverse


@jit_noalloc(inner=True, linked=True)
def all_unlikely(inverse: Array, begin: int, end: int) -> bool:
    """Return whether all kernels `begin` to `end` − 1 gave the observation a probability below 1e-20.

    The weights do not show this, because they may stay equal. A group in which the observation is impossible
    under every kernel has lost all its weight and is not refreshed any more.
    """
    least = np.inf
    for n in range(begin, end):
        if inverse[n] > 0.0:
            least = min(least, inverse[n])
    return 1.0 / _SURPRISE < least < np.inf


@jit_noalloc(inner=True, linked=True)
def group_size(weight: Array, begin: int, end: int) -> float:
    """Return the effective size (Σ w)² / Σ w² of the kernels `begin` to `end` − 1.

    It is infinite if all weights are 0.
    """
    total, squares = 0.0, 0.0
    for n in range(begin, end):
        total += weight[n]
        squares += weight[n] * weight[n]
    return total * total / squares if squares > 0.0 else np.inf


@jit_noalloc(inner=True, linked=True)
def refresh_due(filters: FilterBank, rule: RefreshRule) -> bool:
    """Return whether a group of kernels must be refreshed after an update."""
    size = linear_weights(filters.product, filters.scale, filters.weight)
    due = False
    for g in range(len(rule.least)):
        due |= group_due(filters, rule, g, size)
    return due


@jit_noalloc(inner=True, linked=True)
def group_due(filters: FilterBank, rule: RefreshRule, g: int, size: float) -> bool:
    """Return whether group g must be refreshed; `size` is the effective size of all kernels together."""
    begin, end = rule.begin[g], rule.end[g]
    if end - begin < len(filters.product):
        size = group_size(filters.weight, begin, end)
    return size < rule.least[g] or all_unlikely(filters.chance, begin, end)


@jit_noalloc()
def filter_steps(
    filters: FilterBank,
    used: SampledFilter,
    possible: PossibleStates,
    codes: Codes,
    rows: Array,
    kinds: Index,
    begin: int,
    end: int,
    rule: RefreshRule,
) -> tuple[int, int]:
    """Take the steps from `begin` up to `end`, or up to the first step after which a refresh is due.

    If observations are not numbered, `rows[T, S′]` are their likelihoods and `kinds[T]` their cells; else
    both are empty. Returns the number of the next step and the reason for stopping. An impossible step
    changes nothing.
    """
    n_codes = filters.likelihood.shape[1]
    for i in range(begin, end):
        a, code = codes[i] // n_codes, codes[i] % n_codes
        likelihood = rows[i] if len(rows) > 0 else filters.likelihood[a, code]
        matrix = matrix_number(filters, a, code)
        if not reachable_states(possible, likelihood, matrix):
            return i, IMPOSSIBLE
        kind = kinds[i] if len(rows) > 0 else kind_of_code(filters.test, code)
        if not update(filters, a, matrix, kind, likelihood):
            return i, TOO_UNLIKELY
        for s in range(len(possible.now)):
            possible.now[s] = possible.then[s]
        update_sampled_filter(used, likelihood, matrix)
        if refresh_due(filters, rule):
            return i + 1, REFRESH
    return end, DONE


@jit()
def filter_one(
    matrices: Array, stride: int, likelihood: Array, start: Array, codes: Codes, rows: Array, n: int
) -> Array:
    """Return the belief h_t of one kernel after the whole history, shape [S]; zeros if it is impossible.

    `matrices[K, S, S′]` are those of the kernel; `stride`, `likelihood` and `rows` are as in `filter_steps`.
    """
    n_states, n_codes = len(start), likelihood.shape[1]
    belief, after = start.copy(), np.empty(n_states)
    for i in range(n):
        a, code = codes[i] // n_codes, codes[i] % n_codes
        k = a if stride == 1 else a * stride + code
        weights = rows[i] if len(rows) > 0 else likelihood[a, code]
        total = 0.0
        for t in range(n_states):
            after[t] = 0.0
            for s in range(n_states):
                after[t] += belief[s] * matrices[k, s, t]
            after[t] *= weights[t]
            total += after[t]
        for t in range(n_states):
            belief[t] = after[t] / total if total > 0.0 else 0.0
    return belief
