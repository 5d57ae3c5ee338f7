"""Filter bank: the beliefs under many kernels, their weights and the expected counts.

For one kernel θ, the belief h_t(s; θ) = P(s_t = s | o_1..o_t, a_1..a_{t−1}, θ) is updated by prediction and
Bayes' rule (the paper's update h_{t+1} = τ(h_t, a_t, o_{t+1}; θ); `unnormalized_beliefs`, then
`normalize_beliefs`):

    p(s′)        = Σ_s θ(s′ | s, a_t) h_t(s)
    h_{t+1}(s′)  = η(o_{t+1} | s′) p(s′) / P,      P = Σ_s′ η(o_{t+1} | s′) p(s′),

and the likelihood P of the observation updates the weight of θ: f_{t+1}(θ) ∝ P f_t(θ).

The expected number of times that action a was taken in state s is updated without the history. With
φ_t(a, s; x) = E[n_t(s, a) 1{s_t = x} | o_1..o_t, a_1..a_{t−1}, θ],

    φ_{t+1}(a, s; x′) = Σ_x (φ_t(a, s; x) + 1{a = a_t, x = s} h_t(s)) θ(x′ | x, a_t) η(o_{t+1} | x′) / P,
    ñ_{t+1}(s, a)     = Σ_θ f_t(θ) (Σ_x φ_t(a, s; x) + 1{a = a_t} h_t(s; θ)):

ñ_{t+1} counts steps 1..t and depends on the observations up to o_t, not on o_{t+1} (the paper's F_{t+}).

All functions are compiled and update plain arrays in place. The kernels are the last axis, so that one
instruction processes several kernels. φ, which takes most of the time, is stored in blocks of sixteen
kernels, so that the terms of a sum lie at distances that the compiler knows. A missing observation has number
O, one past the last; its likelihood is 1 in every state, so nothing is learned from it. `kernel_weights`
updates the weights.

A step multiplies a belief by the matrix M(s, s′) = θ(s′ | s, a) η(o | a, s, s′). Where η depends on s′ alone,
the bank has one matrix θ(· | ·, a) for each action, and `update` takes the likelihoods η(o | ·) of the
observation that came, which may be a number or a vector of numbers. Otherwise, if η depends on s or is
another one under each kernel, the bank has one matrix M for each step code (`step_codes`), and all
likelihoods are 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._numba.jit import jit_inline, jit_noalloc
from .._utils.arrays import Array, Index, States
from .kernel_weights import any_possible, linear_weights, update_weights
from .lanes import LANES, propagate_lane
from .predictive import predictive_probability
from .predictive_test import PredictiveTest, compare_reading, kind_of_code, make_test, make_test_like
from .step_codes import StepCodes

_FEW = 8  # up to this number of states, loops over states and next states are unrolled


class FilterBank(NamedTuple):
    """N kernels with their beliefs, weights and expected counts, updated in place.

    In a block `[.., S·L]`, state s of the block's kernel l has index s L + l. The last of the B blocks is
    padded with zeros.
    """

    states: tuple[int, ...]  # one entry per state, so that the compiler knows the number of states
    transition: Array  # [A, S, S', N]
    likelihood: Array  # [A, R, S']: η(o | s′) by code; ones for a missing observation, or if M is by code
    stride: Index  # [1]: 1 if matrices are by action; else R, and the code (a, r) has matrix number a R + r
    belief: Array  # [S, N]: h_t(s; θ_n); zeros after an observation of probability 0 under θ_n
    log_weight: Array  # [N]: log f_t up to a constant and up to `product`
    product: Array  # [N]: product of the likelihoods P since the last logarithm
    scale: Array  # [N]: exp(log_weight)
    expected: Array  # [A, S]: ñ_t
    matrix_blocks: Array  # [K, B, S·S'·L]: the K matrices of all kernels, in blocks
    belief_blocks: Array  # [B, S·L]: `belief` in blocks
    counts: Array  # [2, B, A·S, X·L]: φ_t(a, s; x) by the present state x, and a buffer for φ_{t+1}
    buffer_index: Index  # [1]: which of the two buffers contains φ_t
    predicted: Array  # [B, S·L]: scratch, like all arrays below
    steps: Array  # [B, S·S'·L]: θ(s′ | s, a) η(o | s′) / P
    lane_sums: Array  # [A·S, L]: zeros
    chance: Array  # [B·L]: likelihood P of the newest observation, then 1 / P
    weight: Array  # [B·L]: f_t
    test: PredictiveTest  # whether readings come as they are predicted


def make_filter_bank(
    codes: StepCodes,
    kernels: Array,
    weights: Array,
    factors: Array | None = None,
    test: PredictiveTest | None = None,
) -> FilterBank:
    """Return a filter bank for `kernels[N, A, S, S′]` before the first observation.

    `factors[A·R, S, S′, N]` are η(o | a, s, s′) under each kernel, if the observation models are not all
    equal. `test` is the test of an earlier filter bank, which goes on.
    """
    n_kernels, n_actions, n_states = kernels.shape[:3]
    n_blocks, length = -(-n_kernels // LANES), n_states * LANES
    n_matrices = n_actions * codes.stride if codes.by_code else n_actions
    with np.errstate(divide="ignore"):
        log_weight = np.log(weights)
    filters = FilterBank(
        states=(0,) * n_states,
        transition=np.zeros((n_actions, n_states, n_states, n_kernels)),
        likelihood=codes.likelihood,
        stride=np.array([codes.stride]),
        belief=np.zeros((n_states, n_kernels)),
        log_weight=log_weight,
        product=(weights > 0.0).astype(np.float64),
        scale=weights.copy(),
        expected=np.zeros((n_actions, n_states)),
        matrix_blocks=aligned_zeros(n_matrices, n_blocks, n_states * length),
        belief_blocks=aligned_zeros(n_blocks, length),
        counts=aligned_zeros(2, n_blocks, n_actions * n_states, length),
        buffer_index=np.zeros(1, dtype=np.int64),
        predicted=aligned_zeros(n_blocks, length),
        steps=aligned_zeros(n_blocks, n_states * length),
        lane_sums=aligned_zeros(n_actions * n_states, LANES),
        chance=aligned_zeros(n_blocks * LANES),
        weight=aligned_zeros(n_blocks * LANES),
        test=make_test(codes) if test is None else test,
    )
    transition = kernels.transpose(1, 2, 3, 0)
    set_kernels(filters, transition, codes.matrices(transition, factors))
    return filters


def filters_of_another_unit(
    filters: FilterBank, codes: StepCodes, test: PredictiveTest | None = None
) -> FilterBank:
    """Return filters before the first observation of another unit, with the same kernels and weights.

    Both banks update the same arrays of weights, since the observations of all units inform about θ. The
    other unit has beliefs, counts and a test of the model of its own.
    """
    return filters._replace(
        belief=np.zeros_like(filters.belief),
        expected=np.zeros_like(filters.expected),
        belief_blocks=aligned_zeros(*filters.belief_blocks.shape),
        counts=aligned_zeros(*filters.counts.shape),
        buffer_index=np.zeros(1, dtype=np.int64),
        test=make_test_like(filters.test) if test is None else test,
    )


def aligned_zeros(*shape: int) -> Array:
    """Return zeros aligned to a cache line; a load that crosses two lines takes twice as long."""
    size = int(np.prod(shape))
    buffer = np.zeros(size + 8)
    begin = -buffer.ctypes.data // 8 % 8
    return buffer[begin : begin + size].reshape(shape)


def _in_blocks(values: Array) -> Array:
    """Return an array [.., N] in blocks [B, .., L]."""
    *outer, n_kernels = values.shape
    n_blocks = -(-n_kernels // LANES)
    wide = np.zeros((*outer, n_blocks * LANES))
    wide[..., :n_kernels] = values
    return np.moveaxis(wide.reshape(*outer, n_blocks, LANES), -2, 0)


def set_kernels(filters: FilterBank, transition: Array, matrices: Array) -> None:
    """Replace the kernels by `transition[A, S, S′, N]`, with their `matrices[K, S, S′, N]`."""
    filters.transition[...] = transition
    filters.matrix_blocks[...] = _in_blocks(matrices).swapaxes(0, 1).reshape(filters.matrix_blocks.shape)


def set_beliefs(filters: FilterBank, belief: Array) -> None:
    """Set the beliefs h_t, shape [S, N]."""
    filters.belief[...] = belief
    filters.belief_blocks[...] = _in_blocks(belief).reshape(filters.belief_blocks.shape)


def set_counts(filters: FilterBank, counts: Array) -> None:
    """Set φ_t, shape [X, A, S, N] with the present state first."""
    present = filters.counts[filters.buffer_index[0]]
    present[...] = _in_blocks(counts.transpose(1, 2, 0, 3)).reshape(present.shape)


def counts(filters: FilterBank) -> Array:
    """Return φ_t(a, s; x), shape [X, A, S, N]."""
    n_actions, n_states, _, n_kernels = filters.transition.shape
    blocks = filters.counts[filters.buffer_index[0]].reshape(-1, n_actions, n_states, n_states, LANES)
    wide = blocks.transpose(3, 1, 2, 0, 4).reshape(n_states, n_actions, n_states, -1)
    return np.asarray(wide[..., :n_kernels].copy())


def filter_state(filters: FilterBank) -> dict[str, Array]:
    """Return copies of the arrays that change with time."""
    names = ("belief", "log_weight", "product", "scale", "expected")
    return {"counts": counts(filters), **{name: getattr(filters, name).copy() for name in names}}


def load_filter_state(filters: FilterBank, given: dict[str, Array]) -> None:
    """Restore arrays that `filter_state` returned."""
    set_counts(filters, given["counts"])
    set_beliefs(filters, given["belief"])
    for name in ("log_weight", "product", "scale", "expected"):
        getattr(filters, name)[...] = given[name]


@jit_noalloc(error_model="numpy", inner=True, linked=True)
def unnormalized_beliefs(
    states: States,
    matrix_blocks: Array,
    belief_blocks: Array,
    likelihood: Array,
    predicted: Array,
    chance: Array,
) -> None:
    """Write η(o | s′) p(s′) to `predicted` and its sum P to `chance[B·L]`.

    Here p(s′) = Σ_s θ(s′ | s, a) h_t(s).
    """
    for b in range(len(belief_blocks)):
        move, now, then = matrix_blocks[b], belief_blocks[b], predicted[b]
        for n in range(LANES):
            total = 0.0
            for t in range(len(states)):
                joint = propagate_lane(states, move, now, t, n) * likelihood[t]
                then[t * LANES + n] = joint
                total += joint
            chance[b * LANES + n] = total


@jit_noalloc(error_model="numpy", inner=True, linked=True)
def conditional_steps(
    states: States, matrix_blocks: Array, likelihood: Array, inverse: Array, steps: Array
) -> None:
    """Write θ(s′ | s, a) η(o | s′) / P to `steps`, given 1 / P in `inverse`."""
    n_states = len(states)
    for b in range(len(steps)):
        move, step = matrix_blocks[b], steps[b]
        for n in range(LANES):
            for t in range(n_states):
                factor = likelihood[t] * inverse[b * LANES + n]
                for s in range(n_states):
                    k = (s * n_states + t) * LANES + n
                    step[k] = move[k] * factor


@jit_noalloc(error_model="numpy", inner=True, linked=True)
def propagate_visits(
    states: States, steps: Array, old: Array, new: Array, weight: Array, lane_sums: Array
) -> None:
    """Compute φ_{t+1} in `new` from φ_t with the present step in `old`.

    f_t(θ) Σ_x φ_t(a, s; x) is added to `lane_sums`.

    The speed depends on which sums are unrolled in one loop over lanes. With many states the unrolled loop
    would be too long for the compiler, so there is one loop for each next state.
    """
    n_states, lanes = len(states), lane_sums.shape[1]
    for b in range(len(old)):
        step = steps[b]
        for pair in range(len(lane_sums)):
            before, after, share = old[b, pair], new[b, pair], lane_sums[pair]
            for n in range(LANES):
                total = before[n]
                for x in range(1, n_states):
                    total += before[x * LANES + n]
                share[n] += weight[b * LANES + n] * total
                if n_states <= _FEW:
                    for t in range(n_states):
                        after[t * LANES + n] = propagate_lane(states, step, before, t, n)
            if n_states > _FEW:
                for t in range(n_states):
                    for n in range(lanes):
                        after[t * LANES + n] = propagate_lane(states, step, before, t, n)


@jit_noalloc(error_model="numpy", inner=True, linked=True)
def reciprocal(chance: Array) -> None:
    """Replace P by 1 / P, or by 0 if the observation has probability 0 under the kernel."""
    for n in range(len(chance)):
        chance[n] = 1.0 / chance[n] if chance[n] > 0.0 else 0.0


@jit_noalloc(inner=True, linked=True)
def normalize_beliefs(predicted: Array, inverse: Array, belief_blocks: Array, belief: Array) -> None:
    """Compute h_{t+1}(s′) = η(o | s′) p(s′) / P.

    The belief is zero for a kernel under which the observation is impossible.
    """
    n_states, n_kernels = belief.shape
    for b in range(len(belief_blocks)):
        lanes = min(LANES, n_kernels - b * LANES)
        for s in range(n_states):
            for n in range(lanes):
                h = predicted[b, s * LANES + n] * inverse[b * LANES + n]
                belief_blocks[b, s * LANES + n] = h
                belief[s, b * LANES + n] = h


@jit_noalloc(inner=True, linked=True)
def add_visit(counts: Array, belief_blocks: Array, first: int) -> None:
    """Add the present step to φ: φ_t(a_t, s; s) + h_t(s). The pair (a_t, 0) has number `first`."""
    for b in range(len(belief_blocks)):
        for s in range(belief_blocks.shape[1] // LANES):
            for n in range(s * LANES, (s + 1) * LANES):
                counts[b, first + s, n] += belief_blocks[b, n]


@jit_noalloc(inner=True, linked=True)
def update_expected_counts(lane_sums: Array, expected: Array) -> None:
    """Compute ñ_{t+1}(s, a) = Σ_θ f_t(θ) Σ_x φ(a, s; x) from sums by lane, and reset these to zero.

    The sums are added as in `add_lanes`, whose code is repeated here because this is faster.
    """
    n_actions, n_states = expected.shape
    for a in range(n_actions):
        for s in range(n_states):
            share, half = lane_sums[a * n_states + s], LANES // 2
            while half > 0:
                for n in range(half):
                    share[n] += share[half + n]
                half //= 2
            expected[a, s] = share[0]
            for n in range(LANES):
                share[n] = 0.0


@jit_noalloc()
def start_filters(filters: FilterBank, initial: Array, likelihood: Array) -> bool:
    """Compute h_1 and f_1 from h and the first observation.

    `initial[S, N]` is h(s; θ_n), `likelihood[S, N]` is η(o_1 | s) under each kernel. Returns False, and
    changes nothing, if the observation has probability 0.
    """
    predicted, chance = filters.predicted, filters.chance
    for n in range(initial.shape[1]):
        chance[n] = 0.0
        for s in range(len(initial)):
            joint = initial[s, n] * likelihood[s, n]
            predicted[n // LANES, s * LANES + n % LANES] = joint
            chance[n] += joint
    if not any_possible(filters.product, chance):
        return False
    update_weights(filters.log_weight, filters.product, filters.scale, chance)
    reciprocal(chance)
    normalize_beliefs(predicted, chance, filters.belief_blocks, filters.belief)
    return True


@jit_inline
def matrix_number(filters: FilterBank, action: int, code: int) -> int:
    """Return the number of the matrix of a step: the action, or if matrices are by code, a R + code."""
    stride: int = filters.stride[0]
    return action if stride == 1 else action * stride + code


@jit_noalloc()
def update(filters: FilterBank, action: int, matrix: int, kind: int, likelihood: Array) -> bool:
    """Update f, h, φ and ñ to t + 1 with action a_t and observation o_{t+1}.

    The observation is given by the number of its matrix and by its likelihoods η(o_{t+1} | s′), shape [S′];
    `kind` is its number in the test of the model, −1 if it is missing. Returns False, and changes nothing, if
    it has probability 0.
    """
    states = filters.states
    matrix_blocks = filters.matrix_blocks[matrix]
    chance, buffer_index = filters.chance, filters.buffer_index[0]
    unnormalized_beliefs(states, matrix_blocks, filters.belief_blocks, likelihood, filters.predicted, chance)
    if not any_possible(filters.product, chance):
        return False
    old, new = filters.counts[buffer_index], filters.counts[1 - buffer_index]
    linear_weights(filters.product, filters.scale, filters.weight)
    probability = predictive_probability(
        states, filters.matrix_blocks, filters.belief_blocks, filters.likelihood[action], filters.stride[0],
        filters.weight, chance, filters.test, action, matrix, kind,
    )  # fmt: skip
    compare_reading(filters.test, action, kind, probability)
    update_weights(filters.log_weight, filters.product, filters.scale, chance)
    add_visit(old, filters.belief_blocks, action * len(states))
    reciprocal(chance)
    conditional_steps(states, matrix_blocks, likelihood, chance, filters.steps)
    propagate_visits(states, filters.steps, old, new, filters.weight, filters.lane_sums)
    update_expected_counts(filters.lane_sums, filters.expected)
    normalize_beliefs(filters.predicted, chance, filters.belief_blocks, filters.belief)
    filters.buffer_index[0] = 1 - buffer_index
    return True


@jit_noalloc()
def update_many(filters: FilterBank, actions: Index, codes: Index, rows: Array, kinds: Index) -> int:
    """Update by each step in turn and return the number of steps taken.

    An impossible step and those after it are not taken. If observations are not numbered, `rows[T, S′]` are
    their likelihoods and `kinds[T]` their cells; else both are empty.
    """
    for i in range(len(actions)):
        a, code = actions[i], codes[i]
        likelihood = rows[i] if len(rows) > 0 else filters.likelihood[a, code]
        kind = kinds[i] if len(rows) > 0 else kind_of_code(filters.test, code)
        if not update(filters, a, matrix_number(filters, a, code), kind, likelihood):
            return i
    return len(actions)


def weights(filters: FilterBank) -> Array:
    """Return the normalized weights f_t(θ_n), shape [N]."""
    with np.errstate(divide="ignore"):
        logs = filters.log_weight + np.log(filters.product)
    linear = np.exp(logs - logs.max())
    return np.asarray(linear / linear.sum())


@jit_noalloc(linked=True)
def sample_categorical(probabilities: Array, uniform: float) -> int:
    """Return the outcome that a uniform number in [0, 1) selects by inversion."""
    passed = 0.0
    last = 0
    for k in range(len(probabilities)):
        if probabilities[k] > 0.0:
            passed += probabilities[k]
            last = k
            if uniform < passed:
                return k
    return last
