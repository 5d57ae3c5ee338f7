"""Hamiltonian Monte Carlo on the exact marginal likelihood, for all kernels of an ensemble at once.

Where the sensor blurs, a hidden path and the kernel drawn given it hold each other in place, and moves that
sum the paths out are many times quicker. A row θ = (θ_1, ..) ~ Dirichlet(α) is a vector of independent
Gamma(α_k) variables divided by their sum R, and R is independent of θ: drawing R ~ Gamma(Σ α) afresh gives
z = log θ + log R, unconstrained, with

    log density of z  = log P(readings | θ) + Σ_k (α_k z_k − e^{z_k}),
    its gradient      = α_k − e^{z_k} + ξ_k − θ_k Σ_j ξ_j,

where ξ_k, by Fisher's identity, is the expected number of transitions of this row to k. Rows that are known,
or have one possible next state, and entries that are structural zeros take no part; rows shared by several
pairs (a, s) add up their ξ. (Neal, MCMC using Hamiltonian dynamics, 2011.)
"""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array
from .hidden_paths import expected_transitions, tabulate
from .history import History
from .rows import FreeRows, aggregate_counts, to_kernels
from .workspace import Workspace, flat


def normalised(z: Array) -> Array:
    """log θ `[R, S′, N]` from z: each row less the logarithm of its sum; −inf stays."""
    z = z - z.max(axis=1, keepdims=True)
    return np.asarray(z - np.log(np.exp(z).sum(axis=1, keepdims=True)))


def log_likelihood_and_expected_transitions(
    rows: FreeRows, log_rows: Array, past: History, space: Workspace
) -> tuple[Array, Array]:
    """log P(readings | θ) `[N]`, and ξ by free row `[R, S′, N]`."""
    kernels = to_kernels(rows, log_rows)
    expected, logs = np.zeros_like(kernels), np.zeros(kernels.shape[-1])
    tabulate(flat(kernels), space.likelihood, space.joint)
    expected_transitions(
        space.states,
        past.codes,
        space.action_of,
        past.length,
        past.start,
        space.joint,
        space.alpha,
        space.checkpoints,
        space.shares,
        logs,
        flat(expected),
    )
    return logs, aggregate_counts(rows, expected)


def log_density(rows: FreeRows, z: Array, past: History, space: Workspace) -> tuple[Array, Array]:
    """The log density `[N]` at z `[R, S′, N]`, and its gradient, zero where a transition is impossible."""
    alpha = rows.concentration[..., None]
    possible = alpha > 0
    log_rows = normalised(z)
    logs, xi = log_likelihood_and_expected_transitions(rows, log_rows, past, space)
    size = np.exp(z)
    prior = np.where(possible, alpha * np.where(possible, z, 0.0) - size, 0.0)
    slope = alpha - size + xi - np.exp(log_rows) * xi.sum(axis=1, keepdims=True)
    return logs + prior.sum(axis=(0, 1)), np.where(possible, slope, 0.0)


def move(
    rows: FreeRows,
    z: Array,
    step: Array,
    leaps: int,
    past: History,
    space: Workspace,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """One trajectory of `leaps` leapfrog steps and its accept test.

    `step[R, S′, N]` is the step of each coordinate, 0 for those that do not move. Returns the new z and the
    chances `[N]` with which the proposals were taken; a trajectory that ran off to infinity has none.
    """
    momentum = np.where(step > 0, rng.standard_normal(z.shape), 0.0)
    uniforms = rng.random(z.shape[-1])
    with np.errstate(over="ignore", invalid="ignore"):
        density, gradient = log_density(rows, z, past, space)
        before = density - 0.5 * np.square(momentum).sum(axis=(0, 1))
        proposal = z
        for _ in range(leaps):
            momentum = momentum + 0.5 * step * gradient
            proposal = proposal + step * momentum
            density, gradient = log_density(rows, proposal, past, space)
            momentum = momentum + 0.5 * step * gradient
        change = density - 0.5 * np.square(momentum).sum(axis=(0, 1)) - before
        chances = np.where(np.isnan(change), 0.0, np.exp(np.minimum(change, 0.0)))
    return np.where(uniforms < chances, proposal, z), chances
