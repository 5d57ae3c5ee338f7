"""Hamiltonian Monte Carlo on the exact marginal likelihood, for all kernels of an ensemble at once.

Where the sensor blurs, a hidden path and the kernel drawn given it hold each other in place, and moves that
sum the paths out are many times quicker. A row θ = (θ_1, ..) ~ Dirichlet(α) is a vector of independent
Gamma(α_k) variables divided by their sum R, and R is independent of θ: drawing R ~ Gamma(Σ α) afresh gives
z = log θ + log R, unconstrained, with

    log density of z  = log P(readings | θ) + Σ_k (α_k z_k − e^{z_k}),
    its gradient      = α_k − e^{z_k} + ξ_k − θ_k Σ_j ξ_j,

where ξ_k, by Fisher's identity, is the expected number of transitions of this row to k. Rows that are
known, or have one possible next state, and entries that are structural zeros take no part; rows shared by
several pairs (a, s) add up their ξ.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .paths import expected_transitions, tabulate

FLOOR = 1e-100  # possible transitions are never quite impossible for the filters


@njit(cache=True, nogil=True)
def kernels_from(z, concentration, where, transition):
    """θ = softmax(z) in the free rows of `transition[A, S·S·N]`; `where[A, S]` is the row, or −1."""
    n_actions, n_states = where.shape
    n_kernels = z.shape[2]
    for a in range(n_actions):
        for s in range(n_states):
            r = where[a, s]
            if r < 0:
                continue
            for n in range(n_kernels):
                top, total = -np.inf, 0.0
                for t in range(n_states):
                    if concentration[r, t] > 0.0:
                        top = max(top, z[r, t, n])
                for t in range(n_states):
                    if concentration[r, t] > 0.0:
                        total += np.exp(z[r, t, n] - top)
                for t in range(n_states):
                    if concentration[r, t] > 0.0:
                        k = (s * n_states + t) * n_kernels + n
                        transition[a, k] = max(np.exp(z[r, t, n] - top) / total, FLOOR)


@njit(cache=True, nogil=True)
def gather(expected, where, rows):
    """`rows[R, S′, N]`: the counts `expected[A, S·S·N]` of all pairs that share a row; those become 0."""
    n_rows, n_states, n_kernels = rows.shape
    for r in range(n_rows):
        for t in range(n_states):
            for n in range(n_kernels):
                rows[r, t, n] = 0.0
    for a in range(len(where)):
        for s in range(n_states):
            r = where[a, s]
            for t in range(n_states):
                for n in range(n_kernels):
                    k = (s * n_states + t) * n_kernels + n
                    if r >= 0:
                        rows[r, t, n] += expected[a, k]
                    expected[a, k] = 0.0


@njit(cache=True, nogil=True)
def slope(z, concentration, rows, log_density, gradient):
    """The prior's part of `log_density[N]` added to it, and the whole `gradient[R, S′, N]`."""
    n_rows, n_states, n_kernels = z.shape
    for r in range(n_rows):
        for n in range(n_kernels):
            top, weight, number = -np.inf, 0.0, 0.0
            for t in range(n_states):
                if concentration[r, t] > 0.0:
                    top = max(top, z[r, t, n])
                    number += rows[r, t, n]
            for t in range(n_states):
                if concentration[r, t] > 0.0:
                    weight += np.exp(z[r, t, n] - top)
            for t in range(n_states):
                gradient[r, t, n] = 0.0
                if concentration[r, t] > 0.0:
                    size = np.exp(z[r, t, n])
                    theta = np.exp(z[r, t, n] - top) / weight
                    log_density[n] += concentration[r, t] * z[r, t, n] - size
                    gradient[r, t, n] = concentration[r, t] - size + rows[r, t, n] - number * theta


@njit(cache=True, nogil=True)
def climb(states, z, rows, target, space, log_density, gradient):
    """log density and gradient at z; `target` does not change, `space` is written over."""
    concentration, where, likelihood, codes, action_of, n, start = target
    transition, joint, alpha, checkpoints, shares, expected = space
    kernels_from(z, concentration, where, transition)
    tabulate(transition, likelihood, joint)
    expected_transitions(
        states, codes, action_of, n, start, joint, alpha, checkpoints, shares, log_density, expected
    )
    gather(expected, where, rows)
    slope(z, concentration, rows, log_density, gradient)


@njit(cache=True, nogil=True, error_model="numpy")
def move(states, z, momentum, steps, scale, uniforms, leaps, target, space):
    """One trajectory of `leaps` leapfrog steps and its accept test; `z[R, S′, N]` changes in place.

    `momentum[R, S′, N]` is standard normal, `steps[N]` the step of each kernel, `scale[R, S′]` the scale of
    each coordinate, 0 where it does not move, `uniforms[N]` decide. Returns the chances `[N]` with which the
    proposals were taken.
    """
    rows, gradient = np.zeros_like(z), np.zeros_like(z)
    n_kernels = z.shape[2]
    before, after, chances = np.zeros(n_kernels), np.zeros(n_kernels), np.zeros(n_kernels)
    proposal = z.copy()
    for leap in range(leaps + 1):
        climb(states, proposal, rows, target, space, after, gradient)
        if leap == 0:
            add_energy(momentum, scale, after, before)
        else:
            kick(momentum, gradient, steps, scale)
        if leap < leaps:
            kick(momentum, gradient, steps, scale)
            drift(proposal, momentum, steps, scale)
    add_energy(momentum, scale, after, after)
    for n in range(n_kernels):
        change = after[n] - before[n]
        chances[n] = np.exp(min(0.0, change)) if change == change else 0.0
        if uniforms[n] < chances[n]:
            for r in range(len(z)):
                for t in range(z.shape[1]):
                    z[r, t, n] = proposal[r, t, n]
    return chances


@njit(cache=True, nogil=True)
def kick(momentum, gradient, steps, scale):
    """Half a step of the momentum along the gradient."""
    n_rows, n_states, n_kernels = momentum.shape
    for r in range(n_rows):
        for t in range(n_states):
            for n in range(n_kernels):
                momentum[r, t, n] += 0.5 * steps[n] * scale[r, t] * gradient[r, t, n]


@njit(cache=True, nogil=True)
def drift(z, momentum, steps, scale):
    """A step of the coordinates along the momentum; structural zeros, at −inf, stay there."""
    n_rows, n_states, n_kernels = momentum.shape
    for r in range(n_rows):
        for t in range(n_states):
            for n in range(n_kernels):
                z[r, t, n] += steps[n] * scale[r, t] * momentum[r, t, n]


@njit(cache=True, nogil=True)
def add_energy(momentum, scale, log_density, total):
    """`total[N]` = log density − half the squared momentum of the coordinates that move."""
    n_rows, n_states, n_kernels = momentum.shape
    for n in range(n_kernels):
        total[n] = log_density[n]
    for r in range(n_rows):
        for t in range(n_states):
            for n in range(n_kernels):
                if scale[r, t] > 0.0:
                    total[n] -= 0.5 * momentum[r, t, n] ** 2
