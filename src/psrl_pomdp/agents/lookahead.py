"""The action of a policy at the belief of the sampled kernel, by a look-ahead over one step, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._numba.jit import jit_noalloc
from .._utils.arrays import Array, Index
from ..inference.sampled_filter import SampledFilter
from ..planning.upper.nodes import best_vector

_ROUNDING = 1e-12  # rounding error of an action value
_MANY = 16  # number of vectors from which loops over them are quicker


class CompiledPolicy(NamedTuple):
    """The policy of an episode: a look-ahead with v(b) = min α·b, or a finite-state controller."""

    vectors: Array  # [N, S]: the vectors α
    columns: Array  # [S, N]: the same, for sums of many vectors at once
    actions: Index  # [N]: the action of each vector, which is a node of the controller
    successors: Index  # [N, O]: the node that follows each observation
    node: Index  # [1]: the present node of the controller; −1 if the policy is a function of the belief
    # [A, O + 1, S']: η(o | s′) of the observations that the plan tells apart, and ones; empty if these are in
    # the matrices.
    likelihood: Array
    codes: Index  # [O]: the codes of what the plan tells apart if steps have matrices by code; else empty
    observation_of: Index  # [R]: the observation of each code, −1 if it is incomplete; empty without codes
    cost: Array  # [A, S]
    action_values: Array  # [A]: c(b, a) + E[v(b′)]; computed if the policy is a function of the belief
    scratch: Array  # [2, S]
    products: Array  # [N]: scratch


@jit_noalloc(linked=True)
def best_action(policy: CompiledPolicy, sampled: SampledFilter) -> int:
    """Return a_t = π_k(h_t(·; θ_k)): the action of the controller's node, or the one of the least value.

    The plan proves min_a [c(b, a) + E v(b′)] ≤ v(b) + upper for v(b) = min α·b. Summed over time, this shows
    that the action that attains the minimum costs at most `upper` on average. The action of the vector that
    attains v(b) has the same guarantee; it is preferred if the values differ by rounding errors only.
    """
    if policy.node[0] >= 0:
        action: int = policy.actions[policy.node[0]]
        return action
    belief, values = sampled.belief, policy.action_values
    own: int = policy.actions[best_vector(policy.vectors, belief[:, 0])]
    best = own
    lookahead_value(policy, sampled, own)
    for a in range(len(values)):
        if a != own:
            lookahead_value(policy, sampled, a)
            if values[a] < values[best] - (_ROUNDING if best == own else 0.0):
                best = a
    return best


@jit_noalloc(inner=True, linked=True)
def value_at(vectors: Array, belief: Array) -> float:
    """Return min α_n·b."""
    n = best_vector(vectors, belief)
    total = 0.0
    for s in range(len(belief)):
        total += vectors[n, s] * belief[s]
    return total


def _least_by_arrays(columns: Array, belief: Array, _products: Array) -> np.float64:
    """Do the same as `least_product`, by array operations that add up in the same order."""
    total: Array = columns[0] * belief[0] + 0.0
    for s in range(1, len(belief)):
        total += columns[s] * belief[s]
    return np.float64(total.min())


@jit_noalloc(inner=True, linked=True, python=_least_by_arrays)
def least_product(columns: Array, belief: Array, products: Array) -> float:
    """Return min α_n·b from `columns[S, N]`; `products[N]` is scratch.

    Each loop is over the vectors, so that one instruction processes several of them, and takes two states at
    a time. The sums are those of `value_at`, to the last bit.
    """
    n_states, count = columns.shape
    if n_states % 2 == 1:
        for n in range(count):
            products[n] = columns[0, n] * belief[0]
    else:
        for n in range(count):
            products[n] = columns[0, n] * belief[0] + columns[1, n] * belief[1]
    for s in range(2 - n_states % 2, n_states, 2):
        for n in range(count):
            products[n] = products[n] + columns[s, n] * belief[s] + columns[s + 1, n] * belief[s + 1]
    while count > 1:
        half = (count + 1) // 2
        for n in range(count - half):
            products[n] = min(products[n], products[half + n])
        count = half
    least: float = products[0]
    return least


@jit_noalloc(inner=True, linked=True)
def next_value(policy: CompiledPolicy, belief: Array) -> float:
    """Return min α_n·b."""
    if len(policy.vectors) < _MANY:
        return value_at(policy.vectors, belief)
    return least_product(policy.columns, belief, policy.products)


@jit_noalloc(inner=True, linked=True)
def lookahead_value(policy: CompiledPolicy, sampled: SampledFilter, action: int) -> None:
    """Set `action_values[a]` to c(b, a) + Σ_o min_n α_n·(b M[a, o]) at the belief of the sampled kernel."""
    belief, predicted, joint = sampled.belief, policy.scratch[0], policy.scratch[1]
    n_states = len(predicted)
    total = 0.0
    for s in range(n_states):
        total += policy.cost[action, s] * belief[s, 0]
    if len(policy.codes) > 0:
        first = action * len(policy.observation_of)
        for o in range(len(policy.codes)):
            unnormalized(sampled.matrices, first + policy.codes[o], belief, joint)
            if policy.likelihood.shape[1] == 0:
                total += next_value(policy, joint)
            for x in range(policy.likelihood.shape[1] - 1):  # cells of a density, beside seen costs
                for t in range(n_states):
                    predicted[t] = joint[t] * policy.likelihood[action, x, t]
                total += next_value(policy, predicted)
        policy.action_values[action] = total
        return
    for t in range(n_states):
        mass = 0.0
        for s in range(n_states):
            mass += belief[s, 0] * sampled.transition[action, s, t, 0]
        predicted[t] = mass
    for o in range(policy.likelihood.shape[1] - 1):
        for t in range(n_states):
            joint[t] = predicted[t] * policy.likelihood[action, o, t]
        total += next_value(policy, joint)
    policy.action_values[action] = total


@jit_noalloc(inner=True, linked=True)
def unnormalized(matrices: Array, matrix: int, belief: Array, joint: Array) -> None:
    """Compute b M in `joint[S']`, for the belief of a sampled kernel and the matrix with this number."""
    for t in range(len(joint)):
        mass = 0.0
        for s in range(len(joint)):
            mass += belief[s, 0] * matrices[matrix, s, t, 0]
        joint[t] = mass
