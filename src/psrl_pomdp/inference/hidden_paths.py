"""Hidden paths: forward filtering, backward sampling and smoothing, for all kernels of an ensemble at once.

For a kernel θ and the steps (a_1, o_2), ..., (a_n, o_{n+1}), with K_i(s, s′) = θ(s′ | s, a_i) η(o_{i+1} |
s′),

    α_1 = h(s) η(o_1 | s),   α_{i+1} = α_i K_i      (forward: Σ_s α_{n+1}(s) is the likelihood),
    β_{n+1} = 1,             β_i = K_i β_{i+1}      (backward: the probability of the later observations),

a path is drawn from its end, P(s_i = s | s_{i+1}, observations) ∝ α_i(s) θ(s_{i+1} | s, a_i), and the
expected number of transitions is ξ(a, s, s′) = Σ_{i: a_i = a} α_i(s) K_i(s, s′) β_{i+1}(s′) / Σ_x α_i(x)
β_i(x).

α and β are rescaled only when they become small. Only every 256th α is stored. The backward pass recomputes
each segment of 256 steps, so that memory is 1/256 of that for all α and the working set fits in the cache.

A step is one code, a R + r (`step_codes`); `action_of[code]` is its action. If observations are not numbered,
`joint[code]` is θ alone, and `rows[i]` are the likelihoods of the observation of step i for every s′: they
multiply α_{i+1} in the forward pass and β_{i+1} in the backward pass. Otherwise `rows` is empty.
Arrays are flat with the N kernels innermost: in a vector `[S·N]`, state s of kernel n is at s N + n; in a
table `[.., S·S·N]`, (s, s′) of kernel n is at (s S + s′) N + n. The tuple `states` has one entry per state.
The compiler knows its length, and unrolls sums over states inside loops over kernels, four kernels to an
instruction. This makes the loops two to four times faster.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._numba.jit import jit, jit_inline, jit_noalloc
from .._utils.arrays import Array, Codes, States
from .kernel_weights import logarithm

SEGMENT = 256  # a power of two
COMMON = 32  # the most common number of kernels: addresses that the compiler knows save time
_SMALL = 1e-60
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_u32 = np.uint32  # unsigned indices need no test for negative values


@jit_noalloc()
def tabulate(transition: Array, likelihood: Array, joint: Array) -> None:
    """Write θ(s′ | s, a) η(o | s′) to `joint[code, S·S·N]`, from `transition[A, S·S·N]`."""
    n_actions, n_readings, n_states = likelihood.shape
    n_kernels = transition.shape[1] // (n_states * n_states)
    for a in range(n_actions):
        for o in range(n_readings):
            for pair in range(n_states * n_states):
                for k in range(pair * n_kernels, (pair + 1) * n_kernels):
                    joint[a * n_readings + o, k] = transition[a, k] * likelihood[a, o, pair % n_states]


@jit_noalloc(error_model="numpy")
def forward(
    states: States,
    joint: Array,
    codes: Codes,
    rows: Array,
    begin: int,
    end: int,
    alpha: Array,
    log_scale: Array,
) -> None:
    """Compute α at `begin` + i in `alpha[i]` up to `end`, from `alpha[0]`.

    The logarithms of the divisors are added to `log_scale[N]`.
    """
    n_states, n_kernels = len(states), len(log_scale)
    for i in range(end - begin):
        step, before, after = joint[codes[begin + i]], alpha[i], alpha[i + 1]
        for t in range(n_states):
            for n in range(n_kernels):
                mass = 0.0
                for s in range(n_states):
                    mass += before[s * n_kernels + n] * step[(s * n_states + t) * n_kernels + n]
                after[t * n_kernels + n] = mass
        if len(rows) > 0:
            weigh(after, rows[begin + i])
        if any_small(states, after, n_kernels):
            rescale(after, log_scale)


@jit_noalloc(inner=True)
def weigh(vector: Array, row: Array) -> None:
    """Multiply the part of every state in `vector[S·N]` by its likelihood in `row[S]`."""
    n_kernels = len(vector) // len(row)
    for s in range(len(row)):
        for k in range(s * n_kernels, (s + 1) * n_kernels):
            vector[k] *= row[s]


@jit_noalloc(inner=True, linked=True)
def any_small(states: States, vector: Array, n_kernels: int) -> bool:
    """Return whether the part of some kernel in `vector[S·N]` has a sum so small that it must be rescaled."""
    small = 0
    for n in range(n_kernels):
        total = 0.0
        for s in range(len(states)):
            total += vector[s * n_kernels + n]
        small += int(total < _SMALL)
    return small > 0


@jit_noalloc(error_model="numpy", inner=True)
def rescale(vector: Array, log_scale: Array) -> None:
    """Divide `vector[S·N]` by its sums and add their logarithms to `log_scale[N]`; zeros stay zeros."""
    n_kernels = len(log_scale)
    for n in range(n_kernels):
        total = 0.0
        for k in range(n, len(vector), n_kernels):
            total += vector[k]
        log_scale[n] += logarithm(total)
        inverse = 1.0 / total if total > 0.0 else 0.0
        for k in range(n, len(vector), n_kernels):
            vector[k] *= inverse


@jit_noalloc(inner=True)
def copy(source: Array, target: Array) -> None:
    """Copy `source` to `target` in a loop, which compiles ten times faster than an assignment."""
    for k in range(len(source)):
        target[k] = source[k]


@jit_noalloc(inner=True)
def filter_all(
    states: States,
    joint: Array,
    codes: Codes,
    rows: Array,
    n: int,
    start: Array,
    alpha: Array,
    checkpoints: Array,
    log_scale: Array,
) -> int:
    """Run the forward pass over n steps and return the number of segments before the last.

    `start[S·N]` is h(s) η(o_1 | s) under each kernel. `alpha` contains the last segment afterwards,
    `checkpoints` the first α of each of the others.
    """
    n_kernels = len(log_scale)
    for k in range(n_kernels):
        log_scale[k] = 0.0
        for s in range(len(states)):
            alpha[0, s * n_kernels + k] = start[s * n_kernels + k]
    last = max(0, (n - 1) // SEGMENT)
    for k in range(last + 1):
        if k < last:
            copy(alpha[0], checkpoints[k])
        forward(states, joint, codes, rows, k * SEGMENT, min(n, (k + 1) * SEGMENT), alpha, log_scale)
        if k < last:
            copy(alpha[SEGMENT], alpha[0])
    return last


@jit_noalloc(inner=True)
def segment_again(
    states: States,
    joint: Array,
    codes: Codes,
    rows: Array,
    k: int,
    alpha: Array,
    checkpoints: Array,
    scratch: Array,
) -> None:
    """Recompute α over segment k from its checkpoint; `scratch[N]` is scratch."""
    copy(checkpoints[k], alpha[0])
    forward(states, joint, codes, rows, k * SEGMENT, (k + 1) * SEGMENT, alpha, scratch)


@jit_noalloc(inner=True)
def log_likelihood(alpha_end: Array, log_scale: Array) -> None:
    """Compute log P(o_1..o_{n+1} | a_1..a_n, θ) in `log_scale[N]`, from the last α and the log divisors."""
    for n in range(len(log_scale)):
        total = 0.0
        for k in range(n, len(alpha_end), len(log_scale)):
            total += alpha_end[k]
        log_scale[n] += logarithm(total)


@jit()
def log_likelihoods(
    states: States,
    joint: Array,
    codes: Codes,
    rows: Array,
    n: int,
    start: Array,
    alpha: Array,
    checkpoints: Array,
    log_scale: Array,
) -> None:
    """Compute log P(o_1..o_{n+1} | a_1..a_n, θ) of the kernels in `joint` in `log_scale[N]`."""
    last = filter_all(states, joint, codes, rows, n, start, alpha, checkpoints, log_scale)
    log_likelihood(alpha[n - last * SEGMENT], log_scale)


@jit_noalloc(inner=True, linked=True)
def uniform(counter: np.uint64) -> float:
    """Return a number in [0, 1 − 2⁻⁵²] for a counter: the output function of splitmix64."""
    z = (counter ^ (counter >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64(np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(12))) * 2.220446049250313e-16


@jit_noalloc(inner=True)
def draw_end(alpha_end: Array, state: npt.NDArray[np.uint32], counter: np.uint64) -> np.uint64:
    """Draw s_{n+1} ~ α_{n+1} for each kernel, and return the new counter."""
    n_kernels = len(state)
    for n in range(n_kernels):
        counter += _GOLDEN
        total = 0.0
        for k in range(n, len(alpha_end), n_kernels):
            total += alpha_end[k]
        x, below = uniform(counter) * total, 0.0
        chosen = _u32(0)
        for k in range(n, len(alpha_end) - n_kernels, n_kernels):
            below += alpha_end[k]
            chosen += _u32(x >= below)
        state[n] = chosen
    return counter


@jit_inline
def draw_step(
    n_states: int,
    n_kernels: int,
    step: Array,
    before: Array,
    counted: npt.NDArray[np.int32],
    state: npt.NDArray[np.uint32],
    counter: np.uint64,
) -> np.uint64:
    """Draw s_i given s_{i+1} for each kernel: P(s_i = s) ∝ α_i(s) θ(s_{i+1} | s, a_i)."""
    for n in range(n_kernels):
        counter += _GOLDEN
        into = _u32(state[n] * _u32(n_kernels) + _u32(n))
        total = 0.0
        for s in range(n_states):
            total += before[s * n_kernels + n] * step[_u32(s * n_states * n_kernels) + into]
        x, below = uniform(counter) * total, 0.0
        chosen = _u32(0)
        for s in range(n_states - 1):
            below += before[s * n_kernels + n] * step[_u32(s * n_states * n_kernels) + into]
            chosen += _u32(x >= below)
        counted[_u32(chosen * _u32(n_states * n_kernels) + into)] += 1
        state[n] = chosen
    return counter


@jit_noalloc(error_model="numpy")
def draw_back(
    states: States,
    matrices: Array,
    codes: Codes,
    matrix_of: Codes,
    begin: int,
    end: int,
    alpha: Array,
    state: npt.NDArray[np.uint32],
    transitions: npt.NDArray[np.int32],
    counter: np.uint64,
) -> np.uint64:
    """Draw s_i given s_{i+1} from `end` down to `begin`, and count the transitions.

    They are counted by matrix in `transitions[K, S·S·N]`. `matrices[K, S·S·N]` are θ by action, or M by step
    number if η depends on s or on the kernel; `matrix_of[code]` is the matrix of a step. A factor η(o | s′)
    that all kernels share cancels.
    """
    n_states, n_kernels = len(states), len(state)
    for i in range(end - begin - 1, -1, -1):
        k = matrix_of[codes[begin + i]]
        if n_kernels == COMMON:
            counter = draw_step(n_states, COMMON, matrices[k], alpha[i], transitions[k], state, counter)
        else:
            counter = draw_step(n_states, n_kernels, matrices[k], alpha[i], transitions[k], state, counter)
    return counter


@jit()
def sample_paths(
    states: States,
    matrices: Array,
    matrix_of: Codes,
    codes: Codes,
    rows: Array,
    n: int,
    start: Array,
    joint: Array,
    alpha: Array,
    checkpoints: Array,
    counter: np.uint64,
    state: npt.NDArray[np.uint32],
    transitions: npt.NDArray[np.int32],
) -> None:
    """Draw one hidden path for each kernel given all observations; count it in `transitions[K, S·S·N]`.

    `matrices` and `matrix_of` are as in `draw_back`. The first states s_1 are written to `state[N]`.
    """
    log_scale = np.zeros(len(state))
    last = filter_all(states, joint, codes, rows, n, start, alpha, checkpoints, log_scale)
    counter = draw_end(alpha[n - last * SEGMENT], state, counter)
    for k in range(last, -1, -1):
        if k < last:
            segment_again(states, joint, codes, rows, k, alpha, checkpoints, log_scale)
        begin, end = k * SEGMENT, min(n, (k + 1) * SEGMENT)
        counter = draw_back(
            states, matrices, codes, matrix_of, begin, end, alpha, state, transitions, counter
        )


@jit_noalloc(error_model="numpy")
def smooth_back(
    states: States,
    joint: Array,
    codes: Codes,
    rows: Array,
    begin: int,
    end: int,
    alpha: Array,
    beta: Array,
    shares: Array,
    onward: Array,
    inverse: Array,
    share: Array,
) -> None:
    """Compute β from `end` down to `begin`, and add α_i(s) β_{i+1}(s′) / Σ α_i β_i to `shares` by code.

    `shares[code, S·S·N]` times `joint` is ξ by code. `beta[S·N]` is updated; `onward[S·N]`, `inverse[N]` and
    `share[N]` are scratch.
    """
    n_states, n_kernels = len(states), len(inverse)
    for i in range(end - begin - 1, -1, -1):
        code = codes[begin + i]
        step, counted = joint[code], shares[code]
        before = alpha[i & (SEGMENT - 1)]  # i, in a form that does not keep the compiler from using SIMD
        if len(rows) > 0:
            weigh(beta, rows[begin + i])
        if n_kernels == COMMON:
            if smooth_step(states, n_kernels, step, before, beta, onward, counted):
                rescale(beta, inverse)
            continue
        for s in range(n_states):
            for n in range(n_kernels):
                total = 0.0
                for t in range(n_states):
                    total += step[(s * n_states + t) * n_kernels + n] * beta[t * n_kernels + n]
                onward[s * n_kernels + n] = total
        for n in range(n_kernels):
            evidence = 0.0
            for s in range(n_states):
                evidence += before[s * n_kernels + n] * onward[s * n_kernels + n]
            inverse[n] = 1.0 / evidence if evidence > 0.0 else 0.0
        for s in range(n_states):
            for n in range(n_kernels):
                share[n] = before[s * n_kernels + n] * inverse[n]
            for t in range(n_states):
                row = counted[(s * n_states + t) * n_kernels : (s * n_states + t + 1) * n_kernels]
                for n in range(n_kernels):
                    row[n] += share[n] * beta[t * n_kernels + n]
        for k in range(n_states * n_kernels):
            beta[k] = onward[k]
        if any_small(states, beta, n_kernels):
            rescale(beta, inverse)


@jit_inline
def smooth_step(
    states: States, n_kernels: int, step: Array, before: Array, beta: Array, onward: Array, counted: Array
) -> bool:
    """Do a step of `smooth_back` for the common number of kernels in one loop, with the same results.

    Numbers stay in registers. Returns whether a sum of β is too small. The number of kernels is a constant in
    the addresses but not in the loop, because a loop of known length would be unrolled before it is
    vectorized.
    """
    n_states, small = len(states), 0
    for n in range(n_kernels):
        evidence, whole = 0.0, 0.0
        for s in range(n_states):
            total = 0.0
            for t in range(n_states):
                total += step[(s * n_states + t) * COMMON + n] * beta[t * COMMON + n]
            onward[s * COMMON + n] = total
            evidence += before[s * COMMON + n] * total
            whole += total
        small += int(whole < _SMALL)
        inverse = 1.0 / evidence if evidence > 0.0 else 0.0
        for s in range(n_states):
            share = before[s * COMMON + n] * inverse
            for t in range(n_states):
                counted[(s * n_states + t) * COMMON + n] += share * beta[t * COMMON + n]
    for k in range(n_states * COMMON):
        beta[k] = onward[k]
    return small > 0


@jit_noalloc(inner=True)
def add_up(joint: Array, matrix_of: Codes, shares: Array, expected: Array) -> None:
    """Add ξ(·, s, s′) to `expected[K, S·S·N]`, from the shares by code, and reset these to zero."""
    for code in range(len(joint)):
        for k in range(joint.shape[1]):
            expected[matrix_of[code], k] += shares[code, k] * joint[code, k]
            shares[code, k] = 0.0


@jit()
def expected_transitions(
    states: States,
    matrix_of: Codes,
    codes: Codes,
    rows: Array,
    n: int,
    start: Array,
    joint: Array,
    alpha: Array,
    checkpoints: Array,
    shares: Array,
    log_scale: Array,
    first: Array,
    expected: Array,
) -> None:
    """Add ξ of the kernels in `joint` to `expected[K, S·S·N]`; write log-likelihoods to `log_scale[N]`.

    `matrix_of[code]` is the action of a step, or its number itself for ξ by step number. The distribution of
    s_1 given all observations is written to `first[S·N]`.
    """
    size, n_kernels = alpha.shape[1], len(log_scale)
    beta, onward, inverse, share = np.ones(size), np.zeros(size), np.zeros(n_kernels), np.zeros(n_kernels)
    last = filter_all(states, joint, codes, rows, n, start, alpha, checkpoints, log_scale)
    log_likelihood(alpha[n - last * SEGMENT], log_scale)
    for k in range(last, -1, -1):
        if k < last:
            segment_again(states, joint, codes, rows, k, alpha, checkpoints, inverse)
        begin, end = k * SEGMENT, min(n, (k + 1) * SEGMENT)
        smooth_back(states, joint, codes, rows, begin, end, alpha, beta, shares, onward, inverse, share)
    for k in range(size):
        first[k] = alpha[0, k] * beta[k]
    rescale(first, inverse)
    add_up(joint, matrix_of, shares, expected)
