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
from .._utils.arrays import Array, Codes, States
from .filter_bank import FilterBank, update
from .hidden_paths import SEGMENT, draw_end, draw_step, filter_all, segment_again
from .lanes import LANES
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
    begin: int,
    end: int,
    rule: RefreshRule,
    row: Array,
    ones: Array,
    likelihood: Array,
) -> tuple[int, int]:
    """Take the steps from `begin` up to `end`, or up to the first step after which a refresh is due.

    A code is 2 a, or 2 a + 1 if the reading is missing. `used_means[A, S]` and `used_sds[A, S]` belong to the
    sampled kernel. `row[S, B·L]` and `likelihood[S]` are scratch, `ones[S]` are ones. Returns the number of
    the next step and the reason for stopping.
    """
    for i in range(begin, end):
        action, matrix = codes[i] // 2, codes[i] // 2
        if codes[i] % 2 == 0:
            fill_matrix(filters, action, values[i], means, sds, row)
            matrix = len(filters.matrix_blocks) - 1
        if not update(filters, action, matrix, NOT_TESTED, ones):
            return i, TOO_UNLIKELY
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
