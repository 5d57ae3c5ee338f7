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
_REPEATED = 1 << 18  # numbers that repeated kernels may take: what a cache holds


class Filters(NamedTuple):
    """N kernels, what each believes of the state, and how much each is believed; updated in place."""

    transition: Array  # [A, S, S', N]
    likelihood: Array  # [A, O + 1, S']: η(o | s′), and ones for a lost reading
    belief: Array  # [S, N]: h_t(s; θ_n); zero everywhere once a reading was impossible under θ_n
    counts: Array  # [X, A, S, N]: φ_t(a, s; x), by the present state x first
    log_weight: Array  # [N]: log f_t up to a constant and up to `product`
    product: Array  # [N]: of the chances of the readings since the last logarithm
    scale: Array  # [N]: exp(log_weight)
    expected: Array  # [A, S]: ñ_t
    moves: Array  # [A, S, S', L]: `transition`, repeated for several pairs (a, s) so that loops are long
    predicted: Array  # [S, N]: scratch, as are all below
    rows: Array  # [S, L]
    inverse: Array  # [L]: 1 / P, repeated
    total: Array  # [A·S·N]
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
    pairs = n_actions * n_states
    repeats = pairs if pairs * kernels.size <= _REPEATED else 1
    transition = np.ascontiguousarray(kernels.transpose(1, 2, 3, 0))
    return Filters(
        transition=transition,
        likelihood=likelihoods(setting),
        belief=np.zeros((n_states, n_kernels)),
        counts=np.zeros((n_states, n_actions, n_states, n_kernels)),
        log_weight=log_weight,
        product=(weights > 0.0).astype(np.float64),
        scale=weights.copy(),
        expected=np.zeros((n_actions, n_states)),
        moves=np.tile(transition, repeats),
        predicted=np.zeros((n_states, n_kernels)),
        rows=np.zeros((n_states, repeats * n_kernels)),
        inverse=np.zeros(repeats * n_kernels),
        total=np.zeros(pairs * n_kernels),
        chance=np.zeros(n_kernels),
        weight=weights.copy(),
    )


def put_kernels(filters: Filters, transition: Array) -> None:
    """Other kernels `[A, S, S′, N]` in the places of these."""
    filters.transition[...] = transition
    filters.moves[...] = np.tile(transition, filters.moves.shape[-1] // transition.shape[-1])


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
def expect(counts, weight, expected, total):
    """ñ_{t+1}(s, a) = Σ_θ f_t(θ) Σ_x φ(a, s; x), where φ holds the present step; `total` is scratch."""
    n_states, n_actions, _, n_kernels = counts.shape
    flat = counts.reshape(n_states, n_actions * n_states * n_kernels)
    total[:] = flat[0]
    for x in range(1, n_states):
        part = flat[x]
        for i in range(len(total)):
            total[i] += part[i]
    for a in range(n_actions):
        for s in range(n_states):
            number, first = 0.0, (a * n_states + s) * n_kernels
            for n in range(n_kernels):
                number += weight[n] * total[first + n]
            expected[a, s] = number


@njit(cache=True, nogil=True)
def visit(counts, belief, action):
    """The present step in φ: φ_t(a_t, s; s) + h_t(s)."""
    for s in range(belief.shape[0]):
        for n in range(belief.shape[1]):
            counts[s, action, s, n] += belief[s, n]


@njit(cache=True, nogil=True)
def count(moves, likelihood, counts, inverse, rows):
    """φ_{t+1} from φ_t with the present step, in place.

    `moves[S, S′, L]` and `inverse[L]`, 1 / P, are repeated for L / N pairs (a, s) at a time: one long loop
    takes a fraction of the time of many short ones. `rows[S, L]` is scratch.
    """
    n_states, length = rows.shape
    flat = counts.reshape(n_states, counts.size // n_states)
    for first in range(0, flat.shape[1], length):
        for t in range(n_states):
            row, move, old = rows[t], moves[0, t], flat[0, first : first + length]
            for i in range(length):
                row[i] = move[i] * old[i]
            for x in range(1, n_states):
                move, old = moves[x, t], flat[x, first : first + length]
                for i in range(length):
                    row[i] += move[i] * old[i]
        for t in range(n_states):
            row, new = rows[t], flat[t, first : first + length]
            for i in range(length):
                new[i] = row[i] * (likelihood[t] * inverse[i])


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
    visit(filters.counts, belief, action)
    expect(filters.counts, weight, filters.expected, filters.total)
    reweigh(filters.log_weight, filters.product, filters.scale, chance)
    invert(chance)
    for first in range(0, len(filters.inverse), len(chance)):
        filters.inverse[first : first + len(chance)] = chance
    count(filters.moves[action], likelihood, filters.counts, filters.inverse, filters.rows)
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
