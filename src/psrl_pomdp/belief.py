"""The filter: what is known of the state given a kernel, for many kernels at once.

For one kernel θ, the belief h_t(s; θ) = P(s_t = s | o_1..o_t, a_1..a_{t−1}, θ) moves in two steps, `predict`
and `condition` (the paper's update h_{t+1} = τ(h_t, a_t, o_{t+1}; θ)):

    p(s′)        = Σ_s θ(s′ | s, a_t) h_t(s)
    h_{t+1}(s′)  = η(o_{t+1} | s′) p(s′) / P,      P = Σ_s′ η(o_{t+1} | s′) p(s′),

and P is by how much the reading changes the weight of θ: f_{t+1}(θ) ∝ P f_t(θ).

How often was action a taken in state s? The expected number, re-estimated as readings arrive, needs no
history: with φ_t(a, s; x) = E[n_t(s, a) 1{s_t = x} | o_1..o_t, a_1..a_{t−1}, θ],

    φ_{t+1}(a, s; x′) = Σ_x (φ_t(a, s; x) + 1{a = a_t, x = s} h_t(s)) θ(x′ | x, a_t) η(o_{t+1} | x′) / P,
    ñ_{t+1}(s, a)     = Σ_θ f_t(θ) (Σ_x φ_t(a, s; x) + 1{a = a_t} h_t(s; θ)):

ñ_{t+1} counts steps 1..t and knows the readings up to o_t, not o_{t+1} (the paper's F_{t+}).

Everything here is compiled and works in place on plain arrays with the kernels as their last axis, so that
one instruction serves several kernels. A lost reading is number O, one past the last: it is equally likely in
every state, and nothing is learned from it. Log weights are kept with a running product beside them: a
logarithm is taken only when the product has become small, and weights neither underflow nor lose digits in
10^7 steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from .arrays import Array
from .model import Setting

_SMALL = 1e-200  # products below this are folded into the logarithms


class Filters(NamedTuple):
    """N kernels, what each believes of the state, and how much each is believed; updated in place."""

    transition: Array  # [A, S, S', N]
    likelihood: Array  # [A, O + 1, S']: η(o | s′), and ones for a lost reading
    belief: Array  # [S, N]: h_t(s; θ_n); zero everywhere once a reading was impossible under θ_n
    counts: Array  # [A, S, S, N]: φ_t(a, s; x)
    log_weight: Array  # [N]: log f_t up to a constant and up to `product`
    product: Array  # [N]: of the chances of the readings since the last logarithm
    scale: Array  # [N]: exp(log_weight)
    expected: Array  # [A, S]: ñ_t
    predicted: Array  # [S, N]: scratch, as are all below
    row: Array  # [S, N]
    chance: Array  # [N]: P of the newest reading, then 1 / P
    weight: Array  # [N]: f_t


def likelihoods(setting: Setting) -> Array:
    """[A, O + 1, S′]: the sensor by reading, with the lost reading last."""
    n_actions, n_states, n_observations = setting.observation.shape
    table = np.ones((n_actions, n_observations + 1, n_states))
    table[:, :-1] = setting.observation.transpose(0, 2, 1)
    return table


def filters(setting: Setting, kernels: Array, weights: Array) -> Filters:
    """Filters for `kernels[N, A, S, S]`, before the start."""
    n_kernels, n_actions, n_states = kernels.shape[:3]
    with np.errstate(divide="ignore"):
        log_weight = np.log(weights)
    return Filters(
        transition=np.ascontiguousarray(kernels.transpose(1, 2, 3, 0)),
        likelihood=likelihoods(setting),
        belief=np.zeros((n_states, n_kernels)),
        counts=np.zeros((n_actions, n_states, n_states, n_kernels)),
        log_weight=log_weight,
        product=(weights > 0.0).astype(np.float64),
        scale=weights.copy(),
        expected=np.zeros((n_actions, n_states)),
        predicted=np.zeros((n_states, n_kernels)),
        row=np.zeros((n_states, n_kernels)),
        chance=np.zeros(n_kernels),
        weight=weights.copy(),
    )


def first_likelihood(setting: Setting, reading: int | None) -> Array:
    """[S]: η(o_1 | s), or ones where nothing is read before the first action."""
    if reading is None or setting.first_observation is None:
        return np.ones(setting.n_states)
    return np.ascontiguousarray(setting.first_observation[:, reading])


@njit(cache=True, nogil=True)
def predict(transition, belief, predicted):
    """p(s′) = Σ_s θ(s′ | s, a) h(s): from `belief[S, N]` by `transition[S, S′, N]` to `predicted[S′, N]`."""
    n_states, n_kernels = belief.shape
    for t in range(n_states):
        for n in range(n_kernels):
            predicted[t, n] = transition[0, t, n] * belief[0, n]
        for s in range(1, n_states):
            for n in range(n_kernels):
                predicted[t, n] += transition[s, t, n] * belief[s, n]


@njit(cache=True, nogil=True)
def condition(predicted, likelihood, chance):
    """Bayes' rule up to its constant: p(s′) becomes η(o | s′) p(s′); `chance[N]` is their sum P."""
    n_states, n_kernels = predicted.shape
    for n in range(n_kernels):
        chance[n] = 0.0
    for t in range(n_states):
        for n in range(n_kernels):
            predicted[t, n] *= likelihood[t]
            chance[n] += predicted[t, n]


@njit(cache=True, nogil=True)
def invert(chance):
    """P becomes 1 / P, and 0 where the reading is impossible under the kernel."""
    for n in range(len(chance)):
        chance[n] = 1.0 / chance[n] if chance[n] > 0.0 else 0.0


@njit(cache=True, nogil=True)
def normalise(predicted, inverse, belief):
    """h(s′) = η(o | s′) p(s′) / P; zeros for a kernel under which the reading is impossible."""
    n_states, n_kernels = belief.shape
    for t in range(n_states):
        for n in range(n_kernels):
            belief[t, n] = predicted[t, n] * inverse[n]


@njit(cache=True, nogil=True)
def fold(log_weight, product, scale):
    """Move the running products into the log weights, of which the largest becomes 0."""
    largest = -np.inf
    for n in range(len(product)):
        if product[n] > 0.0:
            log_weight[n] += np.log(product[n])
            product[n] = 1.0
            largest = max(largest, log_weight[n])
        else:
            log_weight[n] = -np.inf
    for n in range(len(product)):
        log_weight[n] -= largest
        scale[n] = np.exp(log_weight[n])


@njit(cache=True, nogil=True)
def possible(product, chance):
    """Whether some kernel that still has weight gives the reading a chance."""
    found = False
    for n in range(len(product)):
        found |= product[n] > 0.0 and chance[n] > 0.0
    return found


@njit(cache=True, nogil=True)
def reweigh(log_weight, product, scale, chance):
    """f_{t+1}(θ) ∝ P f_t(θ); a kernel that gave the reading no chance never comes back."""
    for n in range(len(product)):
        if product[n] * chance[n] < _SMALL and product[n] > 0.0 and chance[n] > 0.0:
            fold(log_weight, product, scale)
            break
    for n in range(len(product)):
        product[n] *= chance[n]


@njit(cache=True, nogil=True)
def linear_weights(product, scale, weight):
    """`weight[N]` = f_t(θ_n), normalised, without a logarithm; its effective number of kernels 1 / Σ f²."""
    total, squares = 0.0, 0.0
    for n in range(len(product)):
        weight[n] = product[n] * scale[n]
        total += weight[n]
    for n in range(len(product)):
        weight[n] /= total
        squares += weight[n] * weight[n]
    return 1.0 / squares


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def expect(counts, belief, action, weight, expected):
    """ñ_{t+1}(s, a) = Σ_θ f_t(θ) (Σ_x φ_t(a, s; x) + 1{a = a_t} h_t(s)), before o_{t+1} is taken in."""
    n_actions, n_states, _, n_kernels = counts.shape
    for a in range(n_actions):
        for s in range(n_states):
            number = 0.0
            for x in range(n_states):
                for n in range(n_kernels):
                    number += weight[n] * counts[a, s, x, n]
            expected[a, s] = number
    for s in range(n_states):
        for n in range(n_kernels):
            expected[action, s] += weight[n] * belief[s, n]


@njit(cache=True, nogil=True)
def count(transition, likelihood, belief, counts, action, inverse, row):
    """φ_{t+1} from φ_t and h_t, in place; `inverse[N]` is 1 / P, `row[S, N]` is scratch."""
    n_actions, n_states, _, n_kernels = counts.shape
    for s in range(n_states):
        for n in range(n_kernels):
            counts[action, s, s, n] += belief[s, n]
    for a in range(n_actions):
        for s in range(n_states):
            predict(transition, counts[a, s], row)
            for t in range(n_states):
                for n in range(n_kernels):
                    counts[a, s, t, n] = row[t, n] * (likelihood[t] * inverse[n])


@njit(cache=True, nogil=True)
def begin(filters, initial, likelihood):
    """h_1 and f_1 from h and the first reading; False, and nothing changed, where it is impossible.

    `initial[S, N]` is h(s; θ_n), `likelihood[S]` is η(o_1 | s).
    """
    predicted, chance = filters.predicted, filters.chance
    for s in range(len(initial)):
        for n in range(len(chance)):
            predicted[s, n] = initial[s, n]
    condition(predicted, likelihood, chance)
    if not possible(filters.product, chance):
        return False
    reweigh(filters.log_weight, filters.product, filters.scale, chance)
    invert(chance)
    normalise(predicted, chance, filters.belief)
    return True


@njit(cache=True, nogil=True)
def update(filters, action, reading):
    """f, h, φ and ñ at t + 1 from a_t and o_{t+1}; False, and nothing changed, where it is impossible."""
    transition, likelihood = filters.transition[action], filters.likelihood[action, reading]
    belief, predicted, chance = filters.belief, filters.predicted, filters.chance
    predict(transition, belief, predicted)
    condition(predicted, likelihood, chance)
    if not possible(filters.product, chance):
        return False
    weight = filters.weight
    linear_weights(filters.product, filters.scale, weight)
    expect(filters.counts, belief, action, weight, filters.expected)
    reweigh(filters.log_weight, filters.product, filters.scale, chance)
    invert(chance)
    count(transition, likelihood, belief, filters.counts, action, chance, filters.row)
    normalise(predicted, chance, belief)
    return True


@njit(cache=True, nogil=True)
def update_many(filters, actions, readings):
    """`update` for each step in turn; how many were taken, fewer than all before an impossible reading."""
    for i in range(len(actions)):
        if not update(filters, actions[i], readings[i]):
            return i
    return len(actions)


def weights(filters: Filters) -> Array:
    """[N]: f_t(θ_n), normalised."""
    with np.errstate(divide="ignore"):
        logs = filters.log_weight + np.log(filters.product)
    linear = np.exp(logs - logs.max())
    return np.asarray(linear / linear.sum())
