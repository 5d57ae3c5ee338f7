"""Recompute φ(a, s; x) = E[n(s, a) 1{present state = x} | observations] of new kernels from the history.

The forward recursion of `filter_bank` needs an initial φ. For new kernels it is computed by one backward pass
over the history. With B_i(s, x) = P(observations after step i, present state x | s_i = s),

    B at the end = identity,   B_i = K_i B_{i+1},   φ(a, s; x) = Σ_{i: a_i = a} α_i(s) B_i(s, x) / Z.

The distant past is almost independent of the present state: the columns of B become proportional,
B_i(s, x) ≈ b_i(s) h(x) with h the present belief. From there on back, one vector b replaces all columns. The
pass switches to b when the joint distribution of (s_i, present state) is within 1e-12 of a product. Since
earlier states depend on the present state only through s_i, the error of earlier steps is no larger. For
chains that mix slowly the switch happens late or never.
"""

from __future__ import annotations

import numpy as np

from .._numba.jit import jit, jit_noalloc
from .._utils.arrays import Array, Codes, States
from .hidden_paths import SEGMENT, add_up, copy, filter_all, rescale, segment_again, smooth_back, weigh

_MERGED = 1e-12
_SMALL = 1e-60


@jit_noalloc(error_model="numpy")
def backward_pass(
    states: States,
    joint: Array,
    codes: Codes,
    rows: Array,
    action_of: Codes,
    begin: int,
    end: int,
    alpha: Array,
    onward: Array,
    column: Array,
    counts: Array,
) -> None:
    """Add the visits from `end` down to `begin` to `counts[A, S·X·N]`; `onward[S·X·N]`, B, is updated."""
    n_states = len(states)
    n_kernels = len(column) // n_states
    for i in range(end - begin - 1, -1, -1):
        code = codes[begin + i]
        if len(rows) > 0:
            weigh_columns(onward, rows[begin + i], n_states)
        for x in range(n_states):
            for s in range(n_states):
                for n in range(n_kernels):
                    total = 0.0
                    for t in range(n_states):
                        entry = onward[(t * n_states + x) * n_kernels + n]
                        total += joint[code, (s * n_states + t) * n_kernels + n] * entry
                    column[s * n_kernels + n] = total
            for s in range(n_states):
                for n in range(n_kernels):
                    onward[(s * n_states + x) * n_kernels + n] = column[s * n_kernels + n]
        visit(states, alpha[i], onward, n_kernels, counts[action_of[code]])


@jit_noalloc(inner=True)
def weigh_columns(onward: Array, row: Array, n_states: int) -> None:
    """Multiply B(s′, x) in `onward[S·X·N]` by the likelihoods of s′: `row[S]`, or `row[S·N]` by kernel."""
    if len(row) == n_states:
        weigh(onward, row)  # each of its S parts belongs to one s′
        return
    n_kernels = len(row) // n_states
    for t in range(n_states):
        for x in range(n_states):
            for n in range(n_kernels):
                onward[(t * n_states + x) * n_kernels + n] *= row[t * n_kernels + n]


@jit_noalloc(error_model="numpy", inner=True, linked=True)
def visit(states: States, alpha: Array, onward: Array, n_kernels: int, counted: Array) -> None:
    """Add P(s_i = s, present state x) = α_i(s) B_i(s, x) / Z to `counted[S·X·N]`.

    B is rescaled if it is small.
    """
    n_states = len(states)
    for n in range(n_kernels):
        evidence, total = 0.0, 0.0
        for s in range(n_states):
            for x in range(n_states):
                entry = onward[(s * n_states + x) * n_kernels + n]
                evidence += alpha[s * n_kernels + n] * entry
                total += entry
        inverse = 1.0 / evidence if evidence > 0.0 else 0.0
        shrink = 1.0 / total if 0.0 < total < _SMALL else 1.0
        for s in range(n_states):
            for x in range(n_states):
                k = (s * n_states + x) * n_kernels + n
                counted[k] += alpha[s * n_kernels + n] * onward[k] * inverse
                onward[k] *= shrink


@jit(inner=True)
def identity(n_states: int, n_kernels: int) -> Array:
    """Return B at the end, shape [S·X·N]."""
    onward = np.zeros(n_states * n_states * n_kernels)
    for s in range(n_states):
        for n in range(n_kernels):
            onward[(s * n_states + s) * n_kernels + n] = 1.0
    return onward


@jit_noalloc(inner=True)
def merge(onward: Array, n_states: int, beta: Array) -> None:
    """Compute b(s) = Σ_x B(s, x), the probability of all later observations, in `beta[S·N]`."""
    n_kernels = len(beta) // n_states
    for s in range(n_states):
        for n in range(n_kernels):
            beta[s * n_kernels + n] = 0.0
            for x in range(n_states):
                beta[s * n_kernels + n] += onward[(s * n_states + x) * n_kernels + n]


@jit_noalloc(error_model="numpy", inner=True)
def has_merged(alpha: Array, onward: Array, belief: Array, beta: Array, n_states: int) -> bool:
    """Return whether s_i and the present state are independent up to 1e-12 for every kernel.

    `beta` is the result of `merge`.
    """
    n_kernels = len(beta) // n_states
    worst = 0.0
    for n in range(n_kernels):
        evidence = 0.0
        for s in range(n_states):
            evidence += alpha[s * n_kernels + n] * beta[s * n_kernels + n]
        for s in range(n_states):
            for x in range(n_states):
                product = beta[s * n_kernels + n] * belief[x * n_kernels + n]
                gap = abs(onward[(s * n_states + x) * n_kernels + n] - product)
                worst = max(worst, alpha[s * n_kernels + n] * gap / evidence)
    return worst <= _MERGED


@jit()
def visits(
    states: States,
    codes: Codes,
    rows: Array,
    action_of: Codes,
    n: int,
    start: Array,
    joint: Array,
    alpha: Array,
    checkpoints: Array,
    shares: Array,
    belief: Array,
    counts: Array,
) -> None:
    """Compute the present `belief[S·N]` and add φ to `counts[A, S·X·N]`, for the kernels in `joint`."""
    n_states, size = len(states), len(belief)
    beta, column = np.zeros(size), np.zeros(size)
    scratch, share = np.zeros(size // n_states), np.zeros(size // n_states)
    last = filter_all(states, joint, codes, rows, n, start, alpha, checkpoints, scratch)
    copy(alpha[n - last * SEGMENT], belief)
    rescale(belief, scratch)
    onward = identity(n_states, size // n_states)
    has_mixed = False
    for k in range(last, -1, -1):
        if k < last:
            segment_again(states, joint, codes, rows, k, alpha, checkpoints, scratch)
        begin, end = k * SEGMENT, min(n, (k + 1) * SEGMENT)
        if has_mixed:
            smooth_back(states, joint, codes, rows, begin, end, alpha, beta, shares, column, scratch, share)
            continue
        backward_pass(states, joint, codes, rows, action_of, begin, end, alpha, onward, column, counts)
        merge(onward, n_states, beta)
        has_mixed = has_merged(alpha[0], onward, belief, beta, n_states)
    older = np.zeros((len(counts), joint.shape[1]))
    add_up(joint, action_of, shares, older)
    spread(older, belief, n_states, counts)


@jit_noalloc(inner=True)
def spread(older: Array, belief: Array, n_states: int, counts: Array) -> None:
    """Add the visits Σ_s′ ξ(a, s, s′) of steps before the switch.

    They are independent of the present state.
    """
    n_kernels = len(belief) // n_states
    for a in range(len(counts)):
        for s in range(n_states):
            for n in range(n_kernels):
                number = 0.0
                for t in range(n_states):
                    number += older[a, (s * n_states + t) * n_kernels + n]
                for x in range(n_states):
                    counts[a, (s * n_states + x) * n_kernels + n] += number * belief[x * n_kernels + n]
