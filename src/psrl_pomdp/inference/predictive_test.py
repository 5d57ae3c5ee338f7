"""A test of the model that runs along with the filters: do readings come as the posterior predicts them?

Under the model, the next reading has the probability p_t(x) = Σ_θ f_t(θ) P(x | θ, past). If q_t is any other
distribution that is fixed before the reading comes, the product of q_t(x_t) / p_t(x_t) over time is a
nonnegative martingale with mean 1. By Ville's inequality it exceeds 1/α at some time with probability at most
α, so that an alarm at 1/α has a false-alarm rate of at most α over the whole life of the system. Such a
process is an e-process (Ramdas, Grünwald, Vovk and Shafer, Statistical Science 38, 2023).

Four alternatives learn the distribution of readings from their relative frequencies, with the estimator
(n_x + 1/2) / (n + K/2) of Krichevsky and Trofimov for K kinds of readings. Two of them count all readings, and
two forget readings that are older than about 200 of the same action; those that forget bet half of their
capital only, q = (p + KT) / 2. Two of them count readings by the last action, and two by the last action and
the reading before it.

Each alternative k may start at any reading j, with probability ω_j = 1/(j (j + 1)), so that a change in the
middle of a life is found, too (an e-detector with weights: Shin, Ramdas and Rinaldo, 2024):

    M_n = (q_n / p_n) (M_{n−1} + ω_n),      E_n = 1/5 + Σ_k v_k (M_n^k + 1/(n + 1)),      v_k = 1/(k (k + 1)).

The sum of all weights is 1, so that E_0 = 1 and E_n is a martingale.

The kind of a reading is its number, together with that of its cost if costs are seen. Real numbers are sorted
into about sixteen cells (`Setting.quantized`). Readings that are missing, wholly or in part, are not tested.
All numbers that change are in the array `memory`, of which the others are views. Compiled functions update
them in place; `filter_bank.update` calls them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._numba.jit import jit_noalloc
from .._utils.arrays import Array, Index
from .step_codes import StepCodes

LEVELS = (0.1, 0.05, 0.01, 0.001, 1e-4, 1e-6)  # α whose time of alarm is recorded
RECENT, ALL = 0, 1  # the two lengths of memory of the counts
N_ALTERNATIVES = 4
# Entries of `clock`: t; the number of readings that were tested; the kind of the last reading, K if there is
# none; the largest log E; the largest E, infinite if it is above 1e100; and t at which the test began.
TIME, TESTED, LAST, LARGEST, PEAK, SINCE = 0, 1, 2, 3, 4, 5
_N_CLOCK = 6

_WINDOW = 200.0  # readings of an action after which those that forget have forgotten most
EVERY = 16  # the expected distribution is recorded for one of so many readings
_MOST_KINDS, _MOST_COUNTS = 4096, 1 << 14  # limits of memory: K, and the counts by action and last reading
_LEAST = 1e-200  # smaller probabilities are taken as this one, which makes E smaller
_HUGE = 1e100  # M is rescaled above this number and below its inverse


class PredictiveTest(NamedTuple):
    """The numbers of the test; K is 0 if readings cannot be tested."""

    kind_of: Index  # [R]: the kind of each code, −1 if the reading is missing or has no number
    code_of: Index  # [K]: the code of each kind; empty without numbered readings
    cells: Array  # [A, K, S']: the probability of each cell, if readings have no numbers; else empty
    group_of: Index  # [K + 1]: the number of the group of the last reading; the last one is for none
    weights: Array  # [4]: v_k
    thresholds: Array  # [6]: log 1/α
    memory: Array  # all numbers that change
    clock: Array  # [6]: see TIME and the others
    mass: Array  # [4]: M exp(−log_scale)
    log_scale: Array  # [4]
    unit: Array  # [4]: exp(−log_scale)
    begin: Array  # [4]: t at which the leading start of each alternative began
    reached: Array  # [6]: t of the first alarm at each level; 0 before it
    by_action: Array  # [2, A, K]: counts of the readings after an action, recent and all
    after_action: Array  # [2, A]: their sums
    by_last: Array  # [2, A, G, K]: counts by action and group of the reading before
    after_last: Array  # [2, A, G]: their sums
    expected: Array  # [A, K]: sums of the predictive distributions of recent readings, one in sixteen
    state: Array  # [S']: scratch, like the next one
    lanes: Array  # [16]


def make_test(codes: StepCodes) -> PredictiveTest:
    """Return the test of a posterior before its first reading."""
    n_actions, n_states = codes.n_actions, codes.n_states
    kind_of, code_of = np.full(codes.n_codes, -1), np.zeros(0, np.int64)
    table = np.zeros((0, 0, n_states))
    if codes.has_rows:
        table = codes.cells.table
        n_kinds = table.shape[1]
    else:
        kind_of, code_of = codes.observation_of, codes.full_codes
        n_kinds = len(code_of)
    if n_kinds > _MOST_KINDS:
        n_kinds, kind_of, code_of = 0, np.full_like(kind_of, -1), code_of[:0]
    room = _MOST_COUNTS // max(1, n_actions * n_kinds) - 1
    n_groups = max(0, min(n_kinds, room))
    group_of = np.full(n_kinds + 1, n_groups)
    if n_groups:
        group_of[:n_kinds] = np.arange(n_kinds) * n_groups // n_kinds
    shapes = {
        "clock": (_N_CLOCK,),
        "mass": (N_ALTERNATIVES,),
        "log_scale": (N_ALTERNATIVES,),
        "unit": (N_ALTERNATIVES,),
        "begin": (N_ALTERNATIVES,),
        "reached": (len(LEVELS),),
        "by_action": (2, n_actions, n_kinds),
        "after_action": (2, n_actions),
        "by_last": (2, n_actions, n_groups + 1, n_kinds),
        "after_last": (2, n_actions, n_groups + 1),
        "expected": (n_actions, n_kinds),
    }
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
    memory = np.zeros(int(ends[-1]))
    parts = np.split(memory, ends[:-1])
    views = {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
    k = np.arange(1.0, N_ALTERNATIVES + 1.0)
    test = PredictiveTest(
        kind_of=kind_of,
        code_of=code_of,
        cells=table,
        group_of=group_of,
        weights=1.0 / (k * (k + 1.0)),
        thresholds=-np.log(LEVELS),
        memory=memory,
        state=np.zeros(n_states),
        lanes=np.zeros(16),
        **views,
    )
    begin_test(test, 0)
    return test


def begin_test(test: PredictiveTest, time: int) -> None:
    """Start the test anew at t = `time`."""
    test.memory[...] = 0.0
    test.unit[...] = 1.0
    test.clock[TIME] = test.clock[SINCE] = time
    test.clock[PEAK] = 1.0
    test.clock[LAST] = len(test.group_of) - 1


@jit_noalloc(inner=True)
def rescale(test: PredictiveTest, k: int) -> None:
    """Move the factor that has become huge or tiny from `mass` to `log_scale`, which is not negative."""
    value = math.log(test.mass[k]) + test.log_scale[k]
    test.log_scale[k] = max(0.0, value)
    test.mass[k] = math.exp(value - test.log_scale[k])
    test.unit[k] = math.exp(-test.log_scale[k])


@jit_noalloc(error_model="numpy", inner=True)
def log_total(test: PredictiveTest) -> float:
    """Return log E."""
    rest = 1.0 / (test.clock[TESTED] + 1.0)
    shift = 0.0
    for k in range(len(test.mass)):
        shift = max(shift, test.log_scale[k])
    constant = 1.0
    total = 0.0
    for k in range(len(test.mass)):
        constant -= test.weights[k] * (1.0 - rest)
        total += test.weights[k] * test.mass[k] * math.exp(test.log_scale[k] - shift)
    return shift + math.log(total + constant * math.exp(-shift))


@jit_noalloc(error_model="numpy", inner=True)
def bet(test: PredictiveTest, k: int, share: float, probability: float, start: float) -> bool:
    """Multiply the capital of alternative k by q / p, and return whether the largest part starts now.

    `share` is q for the alternatives that bet everything, `start` the weight ω_n.
    """
    ratio = share / probability
    if k < 2:
        ratio = 0.5 + 0.5 * ratio
    new = start * test.unit[k]
    starts: bool = new > test.mass[k]
    test.mass[k] = ratio * (test.mass[k] + new)
    if test.mass[k] > _HUGE or (test.mass[k] < 1.0 / _HUGE and test.log_scale[k] > 0.0):
        rescale(test, k)
    return starts


@jit_noalloc(error_model="numpy", inner=True)
def compare_reading(test: PredictiveTest, action: int, kind: int, probability: float) -> None:
    """Compare a reading with its predictive probability, and then count it.

    A reading of the kind −1 is missing: it is only counted as a step.
    """
    clock, n_kinds = test.clock, len(test.group_of) - 1
    clock[TIME] += 1.0
    if kind < 0:
        clock[LAST] = n_kinds
        return
    p = max(probability, _LEAST)
    clock[TESTED] += 1.0
    n = clock[TESTED]
    start = 1.0 / (n * (n + 1.0))
    group = test.group_of[int(clock[LAST])]
    half = 0.5 * n_kinds
    for memory in range(2):
        share = (test.by_last[memory, action, group, kind] + 0.5) / (
            test.after_last[memory, action, group] + half
        )
        if bet(test, 2 * memory, share, p, start):
            test.begin[2 * memory] = clock[TIME]
        share = (test.by_action[memory, action, kind] + 0.5) / (test.after_action[memory, action] + half)
        if bet(test, 2 * memory + 1, share, p, start):
            test.begin[2 * memory + 1] = clock[TIME]
    record_largest(test)
    keep = 1.0 - 1.0 / _WINDOW
    for x in range(n_kinds):
        test.by_action[RECENT, action, x] *= keep
        test.by_last[RECENT, action, group, x] *= keep
    test.after_action[RECENT, action] *= keep
    test.after_last[RECENT, action, group] *= keep
    for memory in range(2):
        test.by_action[memory, action, kind] += 1.0
        test.after_action[memory, action] += 1.0
        test.by_last[memory, action, group, kind] += 1.0
        test.after_last[memory, action, group] += 1.0
    clock[LAST] = kind


@jit_noalloc(error_model="numpy", inner=True)
def record_largest(test: PredictiveTest) -> None:
    """Record the largest E so far, and the time of each alarm."""
    clock = test.clock
    rest = 1.0 / (clock[TESTED] + 1.0)
    constant, total, scaled = 1.0, 0.0, False
    for k in range(len(test.mass)):
        constant -= test.weights[k] * (1.0 - rest)
        total += test.weights[k] * test.mass[k]
        scaled |= test.log_scale[k] > 0.0
    if not scaled and total + constant <= clock[PEAK]:
        return
    now = log_total(test)
    clock[PEAK] = np.inf if scaled else max(clock[PEAK], total + constant)
    if now > clock[LARGEST]:
        clock[LARGEST] = now
        for i in range(len(test.thresholds)):
            if test.reached[i] == 0.0 and now >= test.thresholds[i]:
                test.reached[i] = clock[TIME]


@jit_noalloc(inner=True)
def forget_expected(test: PredictiveTest, action: int) -> None:
    """Discount the expected distributions of an action before another one is added."""
    for x in range(test.expected.shape[1]):
        test.expected[action, x] *= 1.0 - EVERY / _WINDOW
