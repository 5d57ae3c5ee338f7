"""Compiled steps for kernels of which each has its own Gaussian observation model.

A reading y has the likelihood N(y; μ_n(s), σ_n(s)) under kernel n. A step then multiplies the belief of
kernel n by θ_n(s′ | s, a) N(y; μ_n(s′), σ_n(s′)): `fill_matrix` writes these products to one more matrix of
the filter bank, for which `update` does a step as for any other. Likelihoods are divided by the largest among
all kernels of positive weight, so that they do not underflow; this cancels from the weights.

For passes over the history the likelihoods of all steps are computed at once (`fill_rows`), each divided by
the largest among the states of its kernel; the logarithms of these divisors are added up. `hidden_paths`
takes rows [T, S·N] as well as rows [T, S].
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from .._numba.jit import jit, jit_noalloc
from .._utils.arrays import Array, Codes, Index, States
from .filter_bank import FilterBank, update
from .hidden_paths import SEGMENT, draw_end, draw_step, filter_all, segment_again
from .kernel_weights import linear_weights
from .lanes import LANES
from .predictive_test import (
    EVERY,
    KEEP_EXPECTED,
    LAST,
    N_ACTIONS,
    TESTED,
    TIME,
    PredictiveTest,
    compare_reading,
)
from .sampled_filter import (
    DONE,
    REFRESH,
    TOO_UNLIKELY,
    RefreshRule,
    SampledFilter,
    refresh_due,
    update_sampled_filter,
)

_FARTHEST = 1e150  # standard deviations: its square is finite
_HALF_ROOT = math.sqrt(0.5)
_LARGEST = 300.0  # log likelihood of kernels of weight 0, relative to the others


@jit_noalloc(inner=True, linked=True)
def log_gaussian(value: float, mean: float, sd: float) -> float:
    """Return the log density of a Gaussian up to a constant."""
    z = min(abs(value - mean) / sd, _FARTHEST)
    return -0.5 * z * z - math.log(sd)


@jit_noalloc(inner=True, linked=True)
def fill_matrix(filters: FilterBank, action: int, value: float, means: Array, sds: Array, row: Array) -> None:
    """Write θ_n(s′ | s, a) ℓ_n(s′) to the last matrix of the filter bank, for a reading.

    `means[A, S, N]` and `sds[A, S, N]` are those of each kernel; `row[S, B·L]` is scratch.
    """
    n_states, n_kernels = means.shape[1], means.shape[2]
    largest = -np.inf
    for s in range(n_states):
        for n in range(n_kernels):
            row[s, n] = log_gaussian(value, means[action, s, n], sds[action, s, n])
            if filters.product[n] > 0.0:
                largest = max(largest, row[s, n])
    for s in range(n_states):
        for n in range(n_kernels):
            row[s, n] = math.exp(min(row[s, n] - largest, _LARGEST))
    last = len(filters.matrix_blocks) - 1
    for b in range(filters.matrix_blocks.shape[1]):
        move, step = filters.matrix_blocks[action, b], filters.matrix_blocks[last, b]
        for s in range(n_states):
            for t in range(n_states):
                for n in range(LANES):
                    k = (s * n_states + t) * LANES + n
                    step[k] = move[k] * row[t, b * LANES + n]


NOT_TESTED = -1  # in place of the kind of a reading in the test of the model


@jit_noalloc(inner=True, linked=True)
def gaussian_mass(low: float, high: float, mean: float, sd: float) -> float:
    """Return the probability of an interval; small ones of tails keep their digits."""
    below, above = (low - mean) / sd * _HALF_ROOT, (high - mean) / sd * _HALF_ROOT
    if below > 0.0:
        return 0.5 * (math.erfc(below) - math.erfc(above))
    if above < 0.0:
        return 0.5 * (math.erfc(-above) - math.erfc(-below))
    return 1.0 - 0.5 * (math.erfc(-below) + math.erfc(above))


@jit_noalloc(inner=True, linked=True)
def cell_probability(
    filters: FilterBank, action: int, low: float, high: float, means: Array, sds: Array
) -> float:
    """Return the probability of a cell under the posterior; `filters.weight` are f_t."""
    n_states, n_kernels = filters.belief.shape
    total = 0.0
    for n in range(n_kernels):
        if filters.weight[n] > 0.0:
            for t in range(n_states):
                mass = 0.0
                for s in range(n_states):
                    mass += filters.belief[s, n] * filters.transition[action, s, t, n]
                inside = gaussian_mass(low, high, means[action, t, n], sds[action, t, n])
                total += filters.weight[n] * mass * inside
    return total


@jit_noalloc(error_model="numpy", inner=True, linked=True)
def predictive_of_cell(
    filters: FilterBank, action: int, kind: int, edges: Array, means: Array, sds: Array
) -> float:
    """Return p_t of the cell of a reading; of one in sixteen, the expected shares of all cells are recorded.

    `edges[A, K + 1]` are those of the cells after each action.
    """
    test = filters.test
    linear_weights(filters.product, filters.scale, filters.weight)
    if int(test.numbers[TESTED]) % EVERY == 0:
        expected = test.counts[len(test.counts) - test.layout[N_ACTIONS] + action]
        n_kinds = len(expected) - 1
        expected[n_kinds] *= KEEP_EXPECTED
        for x in range(n_kinds):
            mass = cell_probability(filters, action, edges[action, x], edges[action, x + 1], means, sds)
            expected[x] = expected[x] * KEEP_EXPECTED + mass
            expected[n_kinds] += mass
    low, high = edges[action, kind], edges[action, kind + 1]
    return cell_probability(filters, action, low, high, means, sds)


@jit_noalloc(inner=True, linked=True)
def compare_now(test: PredictiveTest, action: int, kind: int, probability: float, last: float) -> None:
    """Compare a reading of a step that `update` has counted as one without; `last` is the kind before it."""
    test.numbers[TIME] -= 1.0
    test.numbers[LAST] = last
    compare_reading(test, action, kind, probability)


@jit_noalloc()
def own_filter_steps(
    filters: FilterBank,
    used: SampledFilter,
    used_means: Array,
    used_sds: Array,
    means: Array,
    sds: Array,
    codes: Codes,
    values: Array,
    kinds: Index,
    edges: Array,
    begin: int,
    end: int,
    rule: RefreshRule,
    row: Array,
    ones: Array,
    likelihood: Array,
) -> tuple[int, int]:
    """Take the steps from `begin` up to `end`, or up to the first step after which a refresh is due.

    A code is 2 a, or 2 a + 1 if the reading is missing. `used_means[A, S]` and `used_sds[A, S]` belong to the
    sampled kernel. `kinds[T]` are the cells of the readings, and `edges[A, K + 1]` those between the cells,
    for the test of the model. `row[S, B·L]` and `likelihood[S]` are scratch, `ones[S]` are ones. Returns the
    number of the next step and the reason for stopping.
    """
    for i in range(begin, end):
        action, matrix = codes[i] // 2, codes[i] // 2
        kind, last, probability = kinds[i], filters.test.numbers[LAST], 1.0
        if codes[i] % 2 == 0:
            fill_matrix(filters, action, values[i], means, sds, row)
            matrix = len(filters.matrix_blocks) - 1
        if kind >= 0:
            probability = predictive_of_cell(filters, action, kind, edges, means, sds)
        if not update(filters, action, matrix, NOT_TESTED, ones):
            return i, TOO_UNLIKELY
        if kind >= 0:
            compare_now(filters.test, action, kind, probability, last)
        largest = -np.inf
        for s in range(len(ones)):
            likelihood[s] = 0.0
            if codes[i] % 2 == 0:
                likelihood[s] = log_gaussian(values[i], used_means[action, s], used_sds[action, s])
            largest = max(largest, likelihood[s])
        for s in range(len(ones)):
            likelihood[s] = math.exp(likelihood[s] - largest)
        update_sampled_filter(used, likelihood, action)
        if refresh_due(filters, rule):
            return i + 1, REFRESH
    return end, DONE


@jit_noalloc()
def fill_rows(
    codes: Codes, values: Array, n: int, means: Array, sds: Array, rows: Array, logs: Array
) -> None:
    """Write the likelihoods of n steps under every kernel to `rows[T, S·N]`.

    The logarithms of their divisors are added to `logs[N]`.
    """
    n_states, n_kernels = means.shape[1], means.shape[2]
    for i in range(n):
        action, row = codes[i] // 2, rows[i]
        if codes[i] % 2 == 1:
            for k in range(len(row)):
                row[k] = 1.0
            continue
        for m in range(n_kernels):
            largest = -np.inf
            for s in range(n_states):
                found = log_gaussian(values[i], means[action, s, m], sds[action, s, m])
                row[s * n_kernels + m] = found
                largest = max(largest, found)
            logs[m] += largest
            for s in range(n_states):
                row[s * n_kernels + m] = math.exp(row[s * n_kernels + m] - largest)


@jit()
def sample_paths_with_readings(
    states: States,
    matrices: Array,
    codes: Codes,
    rows: Array,
    values: Array,
    n: int,
    start: Array,
    joint: Array,
    alpha: Array,
    checkpoints: Array,
    counter: np.uint64,
    state: npt.NDArray[np.uint32],
    transitions: npt.NDArray[np.int32],
    centers: Array,
    sums: Array,
) -> None:
    """Draw one hidden path for each kernel, and add up the readings in each state.

    The paths are drawn as by `hidden_paths.sample_paths`. `matrices[A, S·S·N]` are θ, `transitions` the
    counts of the same shape. `sums[3, A, S, N]` gets the number of readings in each state after each action,
    the sum of u and that of u², where u is the reading minus `centers[A, S]`.
    """
    n_states, n_kernels = len(states), len(state)
    log_scale = np.zeros(n_kernels)
    last = filter_all(states, joint, codes, rows, n, start, alpha, checkpoints, log_scale)
    counter = draw_end(alpha[n - last * SEGMENT], state, counter)
    for k in range(last, -1, -1):
        if k < last:
            segment_again(states, joint, codes, rows, k, alpha, checkpoints, log_scale)
        begin, end = k * SEGMENT, min(n, (k + 1) * SEGMENT)
        for i in range(end - begin - 1, -1, -1):
            code = codes[begin + i]
            a = code // 2
            if code % 2 == 0:
                for m in range(n_kernels):
                    s = state[m]
                    u = values[begin + i] - centers[a, s]
                    sums[0, a, s, m] += 1.0
                    sums[1, a, s, m] += u
                    sums[2, a, s, m] += u * u
            counter = draw_step(n_states, n_kernels, matrices[a], alpha[i], transitions[a], state, counter)
