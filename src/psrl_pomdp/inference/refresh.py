"""Resample and move: how an ensemble of kernels is refreshed.

Between refreshes only the weights of the kernels change (iterated batch importance sampling; Chopin,
Biometrika 89, 2002). When the effective sample size falls below half of the number of kernels, the kernels
are resampled by weight, and each is moved by Markov kernels that leave the posterior given the whole history
invariant:

- *Gibbs over hidden paths*: draw the path given the kernel, count its transitions, draw each row from
  Dirichlet(concentration + counts). It mixes fast if observations are informative, and very slowly if not.
- *HMC* on the exact marginal likelihood (`hmc.py`), which mixes fast if observations are uninformative.

The choice is adaptive. One Gibbs sweep is always done. The correlation r of the entries of θ before and after
it, over the ensemble and smoothed over refreshes, gives the autocorrelation time τ = (1 + r)/(1 − r). If
τ ≤ 8, max(1, ⌈τ⌉ − 2) more sweeps follow; otherwise one HMC move.

If the observation model or the costs are unknown too, all free rows move together. A sharper observation
model with faster dynamics may then explain the observations as well, and HMC has to follow this ridge:
trajectories are longer, the number of moves follows from the measured autocorrelation time of a move, and
each kernel is offered a renaming of the states (`permutations`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from . import hmc, permutations
from .dirichlet_prior import log_dirichlet
from .expected_visits import visits
from .hidden_paths import log_likelihoods, sample_paths
from .history import Histories, History, longest, steps_in
from .rows import FreeRows
from .workspace import Workspace, flat

_LEAPS = 6
_PATH, _MOST_LEAPS = 4.5, 48  # with unknown tables: the wanted step size times leaps, and the most leaps
_MOST_MOVES = 8  # HMC moves of a refresh, with unknown tables
_LONGEST_GIBBS = 8.0
_ACCEPTANCE = 0.75
_WIDEST = 3.0  # the largest scale of an HMC coordinate: beyond it, the term e^z is steep


@dataclass
class AdaptationState:
    """The statistics that a refresh passes to the next one.

    They affect how well moves mix, not their invariance.
    """

    refreshes: int = 0
    correlation: float = 0.0  # smoothed correlation of θ before and after one Gibbs sweep
    step: float = 0.6  # step size of HMC
    counts: Array = field(default_factory=lambda: np.zeros((0, 0)))  # [R, S']: mean path counts, last refresh
    length: int = 0  # length of the history at the last refresh
    hmc_moves: int = 0
    sweeps: int = 0
    hmc_correlation: float = 0.5  # smoothed correlation before and after one HMC move, with unknown tables
    sharpness: Array = field(default_factory=lambda: np.zeros(0))  # [A]: see `scales`; empty before a refresh


def systematic(weights: Array, uniform: float) -> npt.NDArray[np.int64]:
    """Return N indices by systematic resampling: index n occurs about N·weights[n] times."""
    cumulative = np.cumsum(weights)
    points = (uniform + np.arange(len(weights))) / len(weights) * cumulative[-1]
    return np.asarray(np.minimum(np.searchsorted(cumulative, points, side="right"), len(weights) - 1))


def refresh(
    rows: FreeRows,
    log_rows: Array,
    weights: Array,
    pasts: Histories,
    space: Workspace,
    tuning: AdaptationState,
    rng: np.random.Generator,
) -> Array:
    """Return equally weighted `log_rows[R, S′, N]` from weighted ones, resampled and moved."""
    space.fit(longest(pasts))
    chosen = systematic(weights, rng.random())
    before = np.ascontiguousarray(log_rows[:, :, chosen])
    after, counts = gibbs(rows, before, pasts, space, rng)
    tuning.refreshes += 1
    tuning.sweeps += 1
    _update_correlation(rows, before, after, counts, tuning)
    r = tuning.correlation
    time = (1 + r) / max(1 - r, 1e-3)
    if time <= _LONGEST_GIBBS:
        for _ in range(max(1, ceil(time) - 2)):
            after, counts = gibbs(rows, after, pasts, space, rng)
            tuning.sweeps += 1
    elif not rows.has_tables:
        after = hamiltonian(rows, after, pasts, space, tuning, rng)
    else:
        after = _several_moves(rows, after, counts, pasts, space, tuning, rng)
    if rows.permutations:
        after = rename_states(rows, after, pasts, space, rng)
    tuning.counts, tuning.length = counts.mean(axis=-1), steps_in(pasts)
    if rows.has_tables:
        tuning.sharpness = _sharpness(rows, after)
    return after


def _several_moves(
    rows: FreeRows,
    before: Array,
    counts: Array,
    pasts: Histories,
    space: Workspace,
    tuning: AdaptationState,
    rng: np.random.Generator,
) -> Array:
    """Do max(1, ⌈τ⌉ − 2) HMC moves; earlier refreshes measured the autocorrelation time τ of one."""
    r = tuning.hmc_correlation
    wanted = min(_MOST_MOVES, max(1, ceil((1 + r) / max(1 - r, 1e-3)) - 2))
    after = hamiltonian(rows, before, pasts, space, tuning, rng)
    found = row_correlation(rows, before, after, counts)
    if found is not None:
        tuning.hmc_correlation = 0.8 * r + 0.2 * found
    for _ in range(wanted - 1):
        after = hamiltonian(rows, after, pasts, space, tuning, rng)
    return after


def rename_states(
    rows: FreeRows, log_rows: Array, pasts: Histories, space: Workspace, rng: np.random.Generator
) -> Array:
    """Offer each kernel a random renaming of the states, by the rule of Metropolis and Hastings."""
    proposed, hopeful = permutations.renamed(rows, log_rows, rng)
    uniforms = rng.random(log_rows.shape[-1])
    if not hopeful.any():
        return log_rows
    new = log_likelihood(rows, proposed, pasts, space) + permutations.log_prior(rows, proposed)
    old = log_likelihood(rows, log_rows, pasts, space) + permutations.log_prior(rows, log_rows)
    with np.errstate(invalid="ignore"):
        accepted = hopeful & (np.log(uniforms) < new - old)  # False for NaN
    return np.where(accepted, proposed, log_rows)


def log_likelihood(rows: FreeRows, log_rows: Array, pasts: Histories, space: Workspace) -> Array:
    """Return log P(observations | θ) up to a constant, shape [N]."""
    logs, total = np.zeros(log_rows.shape[-1]), np.zeros(log_rows.shape[-1])
    space.tabulate(rows.kernels(log_rows), rows.factors(log_rows))
    for past in pasts:
        log_likelihoods(
            space.states, space.joint, past.codes, past.rows, past.length,
            space.start(rows.start(log_rows, past)), space.alpha, space.checkpoints, logs,
        )  # fmt: skip
        total += logs
    return total


def gibbs(
    rows: FreeRows, log_rows: Array, pasts: Histories, space: Workspace, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Do one Gibbs sweep: draw paths given kernels, then rows given paths.

    Returns the logarithms of the new rows and the counts of the paths, both [R, S′, N].
    """
    kernels = rows.kernels(log_rows)
    space.tabulate(kernels, rows.factors(log_rows))
    by_step = rows.codes.by_code
    matrices, matrix_of = space.by_step if by_step else (flat(kernels), space.action_of)
    n_states, size = kernels.shape[2:]
    transitions = np.zeros((len(matrices), n_states, n_states, size), dtype=np.int32)
    firsts = np.zeros((len(pasts), size), dtype=np.uint32)
    for past, first in zip(pasts, firsts, strict=True):
        sample_paths(
            space.states,
            matrices,
            matrix_of,
            past.codes,
            past.rows,
            past.length,
            space.start(rows.start(log_rows, past)),
            space.joint,
            space.alpha,
            space.checkpoints,
            rng.integers(2**64, dtype=np.uint64),
            first,
            flat(transitions),
        )
    counts = rows.aggregate(transitions, firsts[:, None] == np.arange(n_states)[:, None], pasts)
    return log_dirichlet(rng, rows.concentration[..., None] + counts, axis=1), counts


def _update_correlation(
    rows: FreeRows, before: Array, after: Array, counts: Array, tuning: AdaptationState
) -> None:
    """Update the correlation of θ before and after a sweep."""
    found = row_correlation(rows, before, after, counts)
    if found is not None:
        first = tuning.refreshes == 1
        tuning.correlation = found if first else 0.8 * tuning.correlation + 0.2 * found


def row_correlation(rows: FreeRows, before: Array, after: Array, counts: Array) -> float | None:
    """Return the correlation of θ before and after a move, over kernels, averaged over rows.

    A row without visits is drawn from its prior, however informative the observations are. Therefore a row
    with n visits has the weight n / (n + Σ α). The result is None if no row was visited.

    If there are unknown tables, the mean over the rows of each table is taken, and the largest is returned:
    the rows of an observation model often mix more slowly than those of the transition kernel.
    """
    x, y = np.exp(before), np.exp(after)
    x -= x.mean(axis=-1, keepdims=True)
    y -= y.mean(axis=-1, keepdims=True)
    spread = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    visited = counts.mean(axis=-1).sum(axis=1, keepdims=True)
    weight = np.where(
        spread > 1e-30, visited / (visited + rows.concentration.sum(axis=1, keepdims=True)), 0.0
    )
    if not weight.any():
        return None
    products = weight * (x * y).sum(axis=-1) / np.maximum(spread, 1e-30)
    if not rows.has_tables:
        return float(products.sum() / weight.sum())
    parts = [np.unique(table.where[table.where >= 0]) for table in rows.tables]
    return max(float(products[p].sum() / weight[p].sum()) for p in parts if weight[p].any())


def hamiltonian(
    rows: FreeRows,
    log_rows: Array,
    pasts: Histories,
    space: Workspace,
    tuning: AdaptationState,
    rng: np.random.Generator,
) -> Array:
    """Do one HMC move of every kernel; the step size adapts to an acceptance rate of 3/4 over refreshes."""
    alpha, size = rows.concentration, log_rows.shape[-1]
    total = log_gamma(rng, np.repeat(alpha.sum(axis=1)[:, None], size, axis=1))
    jitter = tuning.step * (0.7 + 0.6 * rng.random(size))
    step = scales(rows, steps_in(pasts), space.likelihood, tuning)[..., None] * jitter
    leaps = min(_MOST_LEAPS, max(_LEAPS, ceil(_PATH / tuning.step))) if rows.has_tables else _LEAPS
    z, acceptance = hmc.move(rows, log_rows + total[:, None, :], step, leaps, pasts, space, rng)
    tuning.step *= float(np.exp((acceptance.mean() - _ACCEPTANCE) / np.sqrt(0.25 * tuning.hmc_moves + 1.0)))
    tuning.step = min(1.5, tuning.step)
    tuning.hmc_moves += 1
    return hmc.normalized(z)


def log_gamma(rng: np.random.Generator, shape: Array) -> Array:
    """Draw logarithms of Gamma(shape) variables, also for shapes for which the variables underflow."""
    return np.asarray(np.log(rng.standard_gamma(shape + 1.0)) + np.log1p(-rng.random(shape.shape)) / shape)


def scales(rows: FreeRows, length: int, likelihood: Array, tuning: AdaptationState) -> Array:
    """Return the scale of each HMC coordinate, shape [R, S′]: 1/√(α + σ² n p (1 − p)), 0 at structural zeros.

    n p are the path counts of the last refresh, scaled to the present length of the histories. σ is the
    smallest singular value of the observation model after the row's action, which measures how informative
    observations are. Only earlier refreshes enter, so that a move does not depend on its own state. If there
    is no table of the observation model, σ is 1.
    """
    if rows.codes.has_rows:
        sharpness = np.ones(len(likelihood))
    elif rows.codes.by_code:
        known = _sharpness(rows, np.log(np.maximum(_mean_rows(rows), 1e-300))[..., None])
        sharpness = tuning.sharpness if len(tuning.sharpness) else known
    else:
        sharpness = np.linalg.svd(likelihood[:, :-1], compute_uv=False).min(axis=-1)
    # A row of the observation model or of the costs is informed by the observations after any action.
    sigma = np.full(len(rows.concentration), sharpness.max() if rows.has_tables else 0.0)
    sigma[np.unique(rows.where[rows.where >= 0])] = 0.0
    a, s = np.nonzero(rows.where >= 0)
    np.maximum.at(sigma, rows.where[a, s], sharpness[a])
    counts = tuning.counts if tuning.length else np.zeros_like(rows.concentration)
    number = counts.sum(axis=1, keepdims=True)
    share = (counts + 0.5) / (number + 0.5 * counts.shape[1])
    seen = number * (length / max(tuning.length, 1)) * share * (1 - share)
    alpha = np.where(rows.concentration > 0, rows.concentration, 1.0)
    scale = np.minimum(1.0 / np.sqrt(alpha + sigma[:, None] ** 2 * seen), _WIDEST)
    return np.where(rows.concentration > 0, scale, 0.0)


def _mean_rows(rows: FreeRows) -> Array:
    """Return the prior means of the free rows, shape [R, W]."""
    return np.asarray(rows.concentration / rows.concentration.sum(axis=1, keepdims=True))


def _sharpness(rows: FreeRows, log_rows: Array) -> Array:
    """Return the smallest singular value of each action's mean table, shape [A].

    The table is that of the observations and the seen costs.
    """
    mean = rows.observation(log_rows).mean(axis=-1)
    table = mean.mean(axis=1) if mean.ndim == 4 else mean  # [A, S, O]
    costs = rows.seen_costs(log_rows)
    if costs is not None:
        table = np.concatenate([table, costs.mean(axis=-1)], axis=2)
    if table.shape[2] < table.shape[1]:
        return np.zeros(len(table))
    return np.asarray(np.linalg.svd(table, compute_uv=False).min(axis=-1))


def beliefs_and_visits(
    kernels: Array,
    past: History,
    space: Workspace,
    factors: Array | None = None,
    start: Array | None = None,
    rows: Array | None = None,
) -> tuple[Array, Array]:
    """Return h_t [S, N] and φ_t [A, S, X, N] of kernels [A, S, S′, N], from the whole history.

    `factors` and `start` are those of each kernel, if the kernels have observation models of their own, and
    `rows[T, S·N]` are the likelihoods of readings, if these differ between kernels.
    """
    space.fit(past.length)
    space.tabulate(kernels, factors)
    n_actions, n_states, _, n_kernels = kernels.shape
    belief, counts = np.zeros((n_states, n_kernels)), np.zeros((n_actions, n_states, n_states, n_kernels))
    visits(
        space.states,
        past.codes,
        past.rows if rows is None else rows,
        space.action_of,
        past.length,
        space.start(past.start if start is None else start),
        space.joint,
        space.alpha,
        space.checkpoints,
        space.shares,
        belief.reshape(-1),
        flat(counts),
    )
    return belief, counts
