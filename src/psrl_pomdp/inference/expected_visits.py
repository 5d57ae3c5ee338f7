"""Expected visits with the present state, φ(a, s; x) = E[n(s, a) 1{present state = x} | readings], afresh.

The forward recursion of `filter_bank` needs φ to start from. For kernels that are new, it is found by
one pass back over the history. With B_i(s, x) = P(what follows step i, present state x | s_i = s),

    B at the end = identity,   B_i = K_i B_{i+1},   φ(a, s; x) = Σ_{i: a_i = a} α_i(s) B_i(s, x) / Z.

What happened long ago says nothing of the present state: the columns of B become proportional, B_i(s, x) ≈
b_i(s) h(x) with h the present belief. From there back one vector b does for all of them. The switch is made
where the joint law of (s_i, present state) is within 1e-12 of a product, and since all earlier states
depend on the present one only through s_i, no earlier step is further off than that. Chains that forget
slowly are followed for as long as it takes.
"""

from __future__ import annotations

import numpy as np

from .._numba.jit import jit, jit_noalloc
from .._utils.arrays import Array, Codes, States
from .hidden_paths import SEGMENT, add_up, copy, filter_all, rescale, segment_again, smooth_back, tabulate

_MERGED = 1e-12
_SMALL = 1e-60


@jit_noalloc(error_model="numpy")
def backward_pass(
    states: States,
    joint: Array,
    codes: Codes,
    action_of: Codes,
    begin: int,
    end: int,
    alpha: Array,
    onward: Array,
    column: Array,
    counts: Array,
) -> None:
    """Visits from `end` down to `begin`, added to `counts[A, S·X·N]`; `onward[S·X·N]`, B, moves along."""
    n_states = len(states)
    n_kernels = len(column) // n_states
    for i in range(end - begin - 1, -1, -1):
        code = codes[begin + i]
        for x in range(n_states):
            for s in range(n_states):
                for n in range(n_kernels):
                    chance = 0.0
                    for t in range(n_states):
                        entry = onward[(t * n_states + x) * n_kernels + n]
                        chance += joint[code, (s * n_states + t) * n_kernels + n] * entry
                    column[s * n_kernels + n] = chance
            for s in range(n_states):
                for n in range(n_kernels):
                    onward[(s * n_states + x) * n_kernels + n] = column[s * n_kernels + n]
        visit(states, alpha[i], onward, n_kernels, counts[action_of[code]])


@jit_noalloc(error_model="numpy", inner=True, linked=True)
def visit(states: States, alpha: Array, onward: Array, n_kernels: int, counted: Array) -> None:
    """P(s_i = s, present state x) = α_i(s) B_i(s, x) / Z added to `counted[S·X·N]`; B rescaled when small."""
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
    """B at the end: [S·X·N]."""
    onward = np.zeros(n_states * n_states * n_kernels)
    for s in range(n_states):
        for n in range(n_kernels):
            onward[(s * n_states + s) * n_kernels + n] = 1.0
    return onward


@jit_noalloc(inner=True)
def merge(onward: Array, n_states: int, beta: Array) -> None:
    """b(s) = Σ_x B(s, x), the chance of all that follows, `beta[S·N]`."""
    n_kernels = len(beta) // n_states
    for s in range(n_states):
        for n in range(n_kernels):
            beta[s * n_kernels + n] = 0.0
            for x in range(n_states):
                beta[s * n_kernels + n] += onward[(s * n_states + x) * n_kernels + n]


@jit_noalloc(error_model="numpy", inner=True)
def has_merged(alpha: Array, onward: Array, belief: Array, beta: Array, n_states: int) -> bool:
    """Whether (s_i, present state) is as good as independent for every kernel; `beta` is `merge`'s."""
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
    transition: Array,
    likelihood: Array,
    codes: Codes,
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
    """The present `belief[S·N]` and φ, added to `counts[A, S·X·N]`, of kernels `transition[A, S·S·N]`."""
    n_states, size = len(states), len(belief)
    beta, column = np.zeros(size), np.zeros(size)
    scratch, share = np.zeros(size // n_states), np.zeros(size // n_states)
    tabulate(transition, likelihood, joint)
    last = filter_all(states, joint, codes, n, start, alpha, checkpoints, scratch)
    copy(alpha[n - last * SEGMENT], belief)
    rescale(belief, scratch)
    onward = identity(n_states, size // n_states)
    forgotten = False
    for k in range(last, -1, -1):
        if k < last:
            segment_again(states, joint, codes, k, alpha, checkpoints, scratch)
        begin, end = k * SEGMENT, min(n, (k + 1) * SEGMENT)
        if forgotten:
            smooth_back(states, joint, codes, begin, end, alpha, beta, shares, column, scratch, share)
            continue
        backward_pass(states, joint, codes, action_of, begin, end, alpha, onward, column, counts)
        merge(onward, n_states, beta)
        forgotten = has_merged(alpha[0], onward, belief, beta, n_states)
    older = np.zeros(transition.shape)
    add_up(joint, action_of, shares, older)
    spread(older, belief, n_states, counts)


@jit_noalloc(inner=True)
def spread(older: Array, belief: Array, n_states: int, counts: Array) -> None:
    """Add the visits of forgotten steps, Σ_s′ ξ(a, s, s′), independently of the present state."""
    n_kernels = len(belief) // n_states
    for a in range(len(counts)):
        for s in range(n_states):
            for n in range(n_kernels):
                number = 0.0
                for t in range(n_states):
                    number += older[a, (s * n_states + t) * n_kernels + n]
                for x in range(n_states):
                    counts[a, (s * n_states + x) * n_kernels + n] += number * belief[x * n_kernels + n]
