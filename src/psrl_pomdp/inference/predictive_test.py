"""A test of the model that runs along with the filters: whether readings come as the posterior predicts them.

Under the model, the next reading has the probability p_t(x) = Σ_θ f_t(θ) P(x | θ, past). If q_t is any other
distribution that is fixed before the reading comes, the product of q_t(x_t) / p_t(x_t) over time is a
nonnegative martingale with mean 1. By Ville's inequality it exceeds 1/α at some time with probability at most
α, so that an alarm at 1/α has a false-alarm rate of at most α over the whole life of the system. Such a
process is an e-process (Ramdas, Grünwald, Vovk and Shafer, Statistical Science 38, 2023).

Four alternatives learn the distribution of readings from their relative frequencies, with the estimator
(n_x + 1/2) / (n + K/2) of Krichevsky and Trofimov for K kinds of readings that the action makes possible. Two
of them count all readings, and two forget readings that are older than about 200 of the same action; those
that forget bet half of their capital only, q = (p + KT) / 2. Two of them count readings by the last action,
and two by the last action and the reading before it.

Each alternative k may start at any reading j, with probability ω_j = 1/(j (j + 1)), so that a change in the
middle of a life is found, too (an e-detector with weights: Shin, Ramdas and Rinaldo, 2024):

    M_n = (q_n / p_n) (M_{n−1} + ω_n),      E_n = 1/5 + Σ_k v_k (M_n^k + 1/(n + 1)),      v_k = 1/(k (k + 1)).

The sum of all weights is 1, so that E_0 = 1, and E_n is a martingale. (If q gives a positive probability to
readings that the past has made impossible, its mean decreases, and the guarantee holds all the more.)

The kind of a reading is its number, together with that of its cost if costs are seen. Real numbers are sorted
into about sixteen cells (`Setting.quantized`). Readings that are missing, wholly or in part, are not tested.
All numbers that change are in one array. Compiled functions update it in place; `filter_bank.update` calls
them. There are few arrays, because each takes time in every call of a compiled function.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._numba.jit import jit_noalloc
from .._utils.arrays import Array, Index
from .lanes import LANES
from .step_codes import StepCodes

LEVELS = (0.1, 0.05, 0.01, 0.001, 1e-4, 1e-6)  # α whose time of alarm is recorded
RECENT, ALL = 0, 1  # the two lengths of memory of the counts
EVERY = 16  # the expected distribution is recorded for one of so many readings

# Entries of `PredictiveTest.numbers`: t; the number of readings that were tested; the kind of the last
# reading, K if there is none; the largest log E; the largest E, infinite if it is above 1e100; t at which the
# test began; for each of four alternatives M exp(−log_scale), log_scale, exp(−log_scale), the largest of the
# terms of `MASS` that belong to one start each, and t of this start; and t of the first alarm at each level,
# 0 before it.
TIME, TESTED, LAST, LARGEST, PEAK, SINCE = 0, 1, 2, 3, 4, 5
MASS, LOG_SCALE, UNIT, LEADING, BEGIN, REACHED, _END = 6, 10, 14, 18, 22, 26, 32
# Entries of `PredictiveTest.layout`: the number of rows of `counts` for one action and memory; A; K; R; and
# then the kind of each code, −1 if the reading is missing or has no number; the code of each kind; and the
# group of each kind as the last reading, and of none.
_WIDTH, N_ACTIONS, _N_KINDS, _N_CODES, _KINDS = 0, 1, 2, 3, 4

_SHARES = (1.0 / 2.0, 1.0 / 6.0, 1.0 / 12.0, 1.0 / 20.0)  # v_k
_THRESHOLDS = tuple(-math.log(level) for level in LEVELS)
_WINDOW = 200.0  # readings of an action after which those that forget have forgotten most
_KEEP = 1.0 - 1.0 / _WINDOW
KEEP_EXPECTED = 1.0 - EVERY / _WINDOW  # the same for the expected distributions
_MOST_KINDS, _MOST_COUNTS = 4096, 1 << 14  # limits of memory: K, and the counts by action and last reading
_LEAST = 1e-200  # smaller probabilities are taken as this one, which makes E smaller
_HUGE = 1e100  # M is rescaled above this number and below its inverse


class PredictiveTest(NamedTuple):
    """The numbers of the test; K is 0 if readings cannot be tested."""

    memory: Array  # all numbers that change: `numbers`, then `counts`
    numbers: Array  # [32]: see TIME and the others
    # [2 A (G + 1) + A, K + 1]: counts of readings by memory, action and group of the last reading, and of all
    # groups together; then the sums of the predictive distributions of recent readings after each action, one
    # in sixteen. The last column has the sums of the rows.
    counts: Array
    layout: Index  # see _WIDTH and the others
    cells: Array  # [A, K, S']: the probability of each cell, if readings have no numbers; else empty
    scratch: Array  # [A + S + 16]: K/2 for the kinds that are possible after each action; then scratch

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the memory alone: views of it would become arrays of their own."""
        return _with_views, (self.memory, len(self.counts), self.layout, self.cells, self.scratch)


def _with_views(memory: Array, n_rows: int, layout: Index, cells: Array, scratch: Array) -> PredictiveTest:
    """Return a test with its numbers and counts as views of its memory."""
    counts = memory[_END:].reshape(n_rows, -1)
    return PredictiveTest(memory, memory[:_END], counts, layout, cells, scratch)


class Counts(NamedTuple):
    """The counts of a test, as views."""

    by_last: Array  # [2, A, G, K]: recent and all, by action and group of the last reading
    by_action: Array  # [2, A, K]
    expected: Array  # [A, K]
    totals: Array  # [2, A, G + 1]: the sums of the first two


def make_test(codes: StepCodes) -> PredictiveTest:
    """Return the test of a posterior before its first reading."""
    n_actions, n_states = codes.n_actions, codes.n_states
    kind_of, code_of = np.full(codes.n_codes, -1), np.zeros(0, np.int64)
    table = np.zeros((0, 0, n_states))
    if codes.has_rows:
        table = codes.cells.table
        n_kinds = table.shape[1]
    elif len(codes.full_codes) <= _MOST_KINDS:
        kind_of, code_of = codes.observation_of, codes.full_codes
        n_kinds = len(code_of)
    else:
        n_kinds = 0
    n_groups = max(0, min(n_kinds, _MOST_COUNTS // max(1, n_actions * n_kinds) - 1))
    group_of = np.full(n_kinds + 1, n_groups)
    if n_groups:
        group_of[:n_kinds] = np.arange(n_kinds) * n_groups // n_kinds
    width = n_groups + 2  # the groups, none, and all together
    rows = (2 * width + 1) * n_actions
    memory = np.zeros(_END + rows * (n_kinds + 1))
    layout = np.concatenate([[width, n_actions, n_kinds, codes.n_codes], kind_of, code_of, group_of])
    scratch = np.concatenate([0.5 * _possible_kinds(codes, table, code_of), np.zeros(n_states + LANES)])
    test = _with_views(memory, rows, layout.astype(np.int64), table, scratch)
    begin_test(test, 1)
    return test


def make_test_like(test: PredictiveTest) -> PredictiveTest:
    """Return the test of another unit before its first reading; what does not change is shared."""
    memory, scratch = np.zeros_like(test.memory), test.scratch.copy()
    scratch[int(test.layout[N_ACTIONS]) :] = 0.0
    found = _with_views(memory, len(test.counts), test.layout, test.cells, scratch)
    begin_test(found, 1)
    return found


def _possible_kinds(codes: StepCodes, table: Array, code_of: Index) -> Index:
    """Return how many kinds of readings are possible after each action, shape [A]."""
    if codes.has_rows and len(table):
        return np.asarray(table.any(axis=2).sum(axis=1))
    if codes.factors is not None:
        found = codes.factors.any(axis=(1, 2)).reshape(codes.n_actions, -1)
        return np.asarray(found[:, code_of].sum(axis=1))
    if codes.has_rows or codes.by_code:
        return np.full(codes.n_actions, len(code_of))
    return np.asarray(codes.likelihood[:, code_of].any(axis=2).sum(axis=1))


def begin_test(test: PredictiveTest, time: int) -> None:
    """Start the test anew at t = `time`."""
    test.memory[...] = 0.0
    test.numbers[UNIT:LEADING] = test.numbers[PEAK] = 1.0
    test.numbers[TIME] = test.numbers[SINCE] = time
    test.numbers[LAST] = test.layout[_N_KINDS]


def counts_of(test: PredictiveTest) -> Counts:
    """Return the counts of a test by action."""
    width, n_actions = (int(n) for n in test.layout[:2])
    table = test.counts[:-n_actions].reshape(2, n_actions, width, -1)
    return Counts(table[:, :, :-1, :-1], table[:, :, -1, :-1], test.counts[-n_actions:, :-1], table[..., -1])


@jit_noalloc(inner=True, linked=True)
def kind_of_code(test: PredictiveTest, code: int) -> int:
    """Return the kind of a numbered reading, −1 if it is missing."""
    kind: int = test.layout[_KINDS + code]
    return kind


@jit_noalloc(inner=True, linked=True)
def code_of_kind(test: PredictiveTest, kind: int) -> int:
    """Return the code of a kind of numbered readings."""
    code: int = test.layout[_KINDS + test.layout[_N_CODES] + kind]
    return code


@jit_noalloc(inner=True)
def rescale(numbers: Array, k: int) -> None:
    """Move the factor of M that has become huge or tiny to `log_scale`, which is not negative."""
    value, leading = math.log(numbers[MASS + k]) + numbers[LOG_SCALE + k], numbers[LEADING + k]
    leading /= numbers[MASS + k]
    numbers[LOG_SCALE + k] = max(0.0, value)
    numbers[MASS + k] = math.exp(value - numbers[LOG_SCALE + k])
    numbers[LEADING + k] = leading * numbers[MASS + k]
    numbers[UNIT + k] = math.exp(-numbers[LOG_SCALE + k])


@jit_noalloc(error_model="numpy", inner=True)
def log_total(numbers: Array) -> float:
    """Return log E."""
    rest, shift = 1.0 / (numbers[TESTED] + 1.0), 0.0
    for k in range(4):
        shift = max(shift, numbers[LOG_SCALE + k])
    constant, total = 1.0, 0.0
    for k in range(4):
        constant -= _SHARES[k] * (1.0 - rest)
        total += _SHARES[k] * numbers[MASS + k] * math.exp(numbers[LOG_SCALE + k] - shift)
    return shift + math.log(total + constant * math.exp(-shift))


@jit_noalloc(inner=True)
def record_largest(numbers: Array, peak: float) -> None:
    """Record the largest E so far, and the time of each alarm; `peak` is E, or infinite if E is scaled."""
    numbers[PEAK] = peak
    now = log_total(numbers)
    if now > numbers[LARGEST]:
        numbers[LARGEST] = now
        for i in range(len(_THRESHOLDS)):
            if numbers[REACHED + i] == 0.0 and now >= _THRESHOLDS[i]:
                numbers[REACHED + i] = numbers[TIME]


@jit_noalloc(error_model="numpy", inner=True, linked=True)
def compare_reading(test: PredictiveTest, action: int, kind: int, probability: float) -> None:
    """Compare a reading with its predictive probability, and then count it.

    A reading of the kind −1 is missing: it is only counted as a step.
    """
    numbers, layout = test.numbers, test.layout
    n_kinds, width = layout[_N_KINDS], layout[_WIDTH]
    numbers[TIME] += 1.0
    if kind < 0:
        numbers[LAST] = n_kinds
        return
    group = layout[len(layout) - n_kinds - 1 + int(numbers[LAST])]
    inverse, half = 1.0 / max(probability, _LEAST), test.scratch[action]
    numbers[TESTED] += 1.0
    rest = 1.0 / (numbers[TESTED] + 1.0)
    start = rest / numbers[TESTED]  # ω_n
    total, largest_scale = 0.0, 0.0
    for k in range(4):
        first = (k // 2 * layout[N_ACTIONS] + action) * width
        counts = test.counts[first + (group if k % 2 == 0 else width - 1)]
        ratio = inverse * (counts[kind] + 0.5) / (counts[n_kinds] + half)
        if k < 2:
            ratio = 0.5 + 0.5 * ratio
            for x in range(n_kinds + 1):
                counts[x] *= _KEEP
        counts[kind] += 1.0
        counts[n_kinds] += 1.0
        new = start * numbers[UNIT + k]
        if new > numbers[LEADING + k]:
            numbers[BEGIN + k] = numbers[TIME]
        numbers[LEADING + k] = ratio * max(numbers[LEADING + k], new)
        mass = ratio * (numbers[MASS + k] + new)
        numbers[MASS + k] = mass
        if mass > _HUGE or (mass < 1.0 / _HUGE and numbers[LOG_SCALE + k] > 0.0):
            rescale(numbers, k)
        total += _SHARES[k] * (numbers[MASS + k] + rest)
        largest_scale = max(largest_scale, numbers[LOG_SCALE + k])
    numbers[LAST] = kind
    peak = total + 0.2 if largest_scale == 0.0 else np.inf
    if peak > numbers[PEAK] or largest_scale > 0.0:
        record_largest(numbers, peak)
