"""Hamiltonian Monte Carlo on the exact marginal likelihood, for all kernels of an ensemble at once.

If the observations are uninformative, a hidden path and the kernel drawn given this path are strongly
dependent, and moves that integrate the paths out mix many times faster. A row θ = (θ_1, ..) ~ Dirichlet(α) is
a vector of independent Gamma(α_k) variables divided by their sum R, and R is independent of θ. With a new
draw R ~ Gamma(Σ α), z = log θ + log R is unconstrained and

    log density of z  = log P(observations | θ) + Σ_k (α_k z_k − e^{z_k}),
    its gradient      = α_k − e^{z_k} + ξ_k − θ_k Σ_j ξ_j,

where ξ_k, by Fisher's identity, is the expected number of transitions of this row to k. For a row of an
unknown observation model or of unknown costs, it is the expected number of observations or costs k. Known
rows, rows with a single possible next state and structural zeros are not moved; the ξ of all pairs (a, s)
that share a row are added. (Neal, MCMC using Hamiltonian dynamics, 2011.)
"""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array
from .hidden_paths import expected_transitions
from .history import Histories
from .rows import FreeRows
from .workspace import Workspace, flat


def normalized(z: Array) -> Array:
    """Return log θ, shape [R, S′, N], from z: z minus the logarithm of the sum of each row's exponentials."""
    z = z - z.max(axis=1, keepdims=True)
    return np.asarray(z - np.log(np.exp(z).sum(axis=1, keepdims=True)))


def log_likelihood_and_expected_transitions(
    rows: FreeRows, log_rows: Array, pasts: Histories, space: Workspace
) -> tuple[Array, Array]:
    """Return log P(observations | θ), shape [N], and ξ of the free rows, shape [R, W, N]."""
    kernels = rows.kernels(log_rows)
    space.tabulate(kernels, rows.factors(log_rows))
    by_step = rows.codes.by_code
    n_states, size = kernels.shape[2:]
    n_matrices = len(space.number_of) if by_step else len(kernels)
    expected, logs = np.zeros((n_matrices, n_states, n_states, size)), np.zeros(size)
    total, firsts = np.zeros(size), np.zeros((len(pasts), n_states, size))
    for past, first in zip(pasts, firsts, strict=True):
        expected_transitions(
            space.states,
            space.number_of if by_step else space.action_of,
            past.codes,
            past.rows,
            past.length,
            space.start(rows.start(log_rows, past)),
            space.joint,
            space.alpha,
            space.checkpoints,
            space.shares,
            logs,
            first.reshape(-1),
            flat(expected),
        )
        total += logs
    return total, rows.aggregate(expected, firsts, pasts)


def log_density(rows: FreeRows, z: Array, pasts: Histories, space: Workspace) -> tuple[Array, Array]:
    """Return the log density at z, shape [N], and its gradient, shape [R, S′, N].

    The gradient is zero at structural zeros.
    """
    alpha = rows.concentration[..., None]
    possible = alpha > 0
    log_rows = normalized(z)
    logs, xi = log_likelihood_and_expected_transitions(rows, log_rows, pasts, space)
    size = np.exp(z)
    prior = np.where(possible, alpha * np.where(possible, z, 0.0) - size, 0.0)
    slope = alpha - size + xi - np.exp(log_rows) * xi.sum(axis=1, keepdims=True)
    return logs + prior.sum(axis=(0, 1)), np.where(possible, slope, 0.0)


def move(
    rows: FreeRows,
    z: Array,
    step: Array,
    leaps: int,
    pasts: Histories,
    space: Workspace,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Simulate one trajectory of `leaps` leapfrog steps for each kernel and accept or reject its end.

    `step[R, S′, N]` is the step size of each coordinate, 0 for coordinates that do not move. Returns the new
    z and the acceptance probabilities [N], which are 0 for trajectories that diverge.
    """
    momentum = np.where(step > 0, rng.standard_normal(z.shape), 0.0)
    uniforms = rng.random(z.shape[-1])
    with np.errstate(over="ignore", invalid="ignore"):
        density, gradient = log_density(rows, z, pasts, space)
        before = density - 0.5 * np.square(momentum).sum(axis=(0, 1))
        proposal = z
        for _ in range(leaps):
            momentum = momentum + 0.5 * step * gradient
            proposal = proposal + step * momentum
            density, gradient = log_density(rows, proposal, pasts, space)
            momentum = momentum + 0.5 * step * gradient
        change = density - 0.5 * np.square(momentum).sum(axis=(0, 1)) - before
        acceptance = np.where(np.isnan(change), 0.0, np.exp(np.minimum(change, 0.0)))
    return np.where(uniforms < acceptance, proposal, z), acceptance
