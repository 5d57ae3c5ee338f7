"""Resample and move: how an ensemble of kernels is made to follow the posterior again.

Between refreshes kernels only change their weights (iterated batch importance sampling; Chopin, Biometrika
89, 2002). When the effective number of kernels falls below half, kernels are resampled by weight and each
is moved by Markov kernels that leave the posterior invariant given the whole history:

- *Gibbs over hidden paths*: draw the path given the kernel, count its transitions, draw each row from
  Dirichlet(concentration + counts). Quick where the sensor is sharp, very slow where it blurs.
- *HMC* on the exact marginal likelihood (`hmc.py`): the other way round.

Which, is measured: one Gibbs sweep is always done, and the correlation r of the entries of θ before and
after it, across the ensemble and smoothed over refreshes, gives its autocorrelation time τ = (1 + r)/(1 −
r). If τ ≤ 8, max(1, ⌈τ⌉ − 2) more sweeps follow; else one HMC move.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from . import hmc
from .dirichlet_prior import log_dirichlet
from .expected_visits import visits
from .hidden_paths import sample_paths
from .history import History
from .rows import FreeRows, aggregate_counts, to_kernels
from .workspace import Workspace, flat

_LEAPS = 6
_LONGEST_GIBBS = 8.0
_ACCEPTANCE = 0.75
_WIDEST = 3.0  # the scale of a coordinate of HMC: flatter ones end in the wall of e^z


@dataclass
class AdaptationState:
    """What a refresh learns for the next: it steers how well moves mix, not what they leave invariant."""

    refreshes: int = 0
    correlation: float = 0.0  # of θ before and after one Gibbs sweep, smoothed
    step: float = 0.6  # of HMC
    counts: Array = field(default_factory=lambda: np.zeros((0, 0)))  # [R, S']: mean path counts, last time
    length: int = 0  # of the history then
    hmc_moves: int = 0
    sweeps: int = 0


def systematic(weights: Array, uniform: float) -> npt.NDArray[np.int64]:
    """Systematic resampling: N indices, index n about N·weights[n] times."""
    cumulative = np.cumsum(weights)
    points = (uniform + np.arange(len(weights))) / len(weights) * cumulative[-1]
    return np.asarray(np.minimum(np.searchsorted(cumulative, points, side="right"), len(weights) - 1))


def refresh(
    rows: FreeRows,
    log_rows: Array,
    weights: Array,
    past: History,
    space: Workspace,
    tuning: AdaptationState,
    rng: np.random.Generator,
) -> Array:
    """New `log_rows[R, S′, N]` from weighted ones, all of the same weight."""
    space.fit(past.length)
    chosen = systematic(weights, rng.random())
    before = np.ascontiguousarray(log_rows[:, :, chosen])
    after, counts = gibbs(rows, before, past, space, rng)
    tuning.refreshes += 1
    tuning.sweeps += 1
    _measure(rows, before, after, counts, tuning)
    r = tuning.correlation
    time = (1 + r) / max(1 - r, 1e-3)
    if time <= _LONGEST_GIBBS:
        for _ in range(max(1, ceil(time) - 2)):
            after, counts = gibbs(rows, after, past, space, rng)
            tuning.sweeps += 1
    else:
        after = hamiltonian(rows, after, past, space, tuning, rng)
    tuning.counts, tuning.length = counts.mean(axis=-1), past.length
    return after


def gibbs(
    rows: FreeRows, log_rows: Array, past: History, space: Workspace, rng: np.random.Generator
) -> tuple[Array, Array]:
    """One sweep: paths given kernels, then rows given paths. Also the counts `[R, S′, N]` of the paths."""
    kernels = to_kernels(rows, log_rows)
    transitions = np.zeros(kernels.shape, dtype=np.int32)
    sample_paths(
        space.states,
        flat(kernels),
        space.likelihood,
        past.codes,
        space.action_of,
        past.length,
        past.start,
        space.joint,
        space.alpha,
        space.checkpoints,
        rng.integers(2**64, dtype=np.uint64),
        flat(transitions),
    )
    counts = aggregate_counts(rows, transitions)
    return log_dirichlet(rng, rows.concentration[..., None] + counts, axis=1), counts


def _measure(rows: FreeRows, before: Array, after: Array, counts: Array, tuning: AdaptationState) -> None:
    """The correlation of θ before and after a sweep, over kernels, averaged over what data have shaped.

    A row that was hardly visited is drawn from its prior, whatever the sensor: rows weigh n / (n + Σ α).
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
        return
    found = float((weight * (x * y).sum(axis=-1) / np.maximum(spread, 1e-30)).sum() / weight.sum())
    first = tuning.refreshes == 1
    tuning.correlation = found if first else 0.8 * tuning.correlation + 0.2 * found


def hamiltonian(
    rows: FreeRows,
    log_rows: Array,
    past: History,
    space: Workspace,
    tuning: AdaptationState,
    rng: np.random.Generator,
) -> Array:
    """One HMC move of every kernel; the step adapts from refresh to refresh towards an acceptance of 3/4."""
    alpha, size = rows.concentration, log_rows.shape[-1]
    total = log_gamma(rng, np.repeat(alpha.sum(axis=1)[:, None], size, axis=1))
    jitter = tuning.step * (0.7 + 0.6 * rng.random(size))
    step = scales(rows, past.length, space.likelihood, tuning)[..., None] * jitter
    z, chances = hmc.move(rows, log_rows + total[:, None, :], step, _LEAPS, past, space, rng)
    tuning.step *= float(np.exp((chances.mean() - _ACCEPTANCE) / np.sqrt(0.25 * tuning.hmc_moves + 1.0)))
    tuning.step = min(1.5, tuning.step)
    tuning.hmc_moves += 1
    return hmc.normalised(z)


def log_gamma(rng: np.random.Generator, shape: Array) -> Array:
    """log of Gamma(shape) variables, also where they underflow."""
    return np.asarray(np.log(rng.standard_gamma(shape + 1.0)) + np.log1p(-rng.random(shape.shape)) / shape)


def scales(rows: FreeRows, length: int, likelihood: Array, tuning: AdaptationState) -> Array:
    """[R, S′]: 1/√(α + σ² n p (1 − p)), from the last refresh's path counts scaled to the present length; 0
    where a transition is impossible.

    σ is the smallest singular value of the sensor that is read after the row's action: how much a transition
    tells. From earlier refreshes only, so that a move does not steer itself.
    """
    sharpness = np.linalg.svd(likelihood[:, :-1], compute_uv=False).min(axis=-1)
    sigma = np.zeros(len(rows.concentration))
    a, s = np.nonzero(rows.where >= 0)
    np.maximum.at(sigma, rows.where[a, s], sharpness[a])
    counts = tuning.counts if tuning.length else np.zeros_like(rows.concentration)
    number = counts.sum(axis=1, keepdims=True)
    share = (counts + 0.5) / (number + 0.5 * counts.shape[1])
    seen = number * (length / max(tuning.length, 1)) * share * (1 - share)
    alpha = np.where(rows.concentration > 0, rows.concentration, 1.0)
    scale = np.minimum(1.0 / np.sqrt(alpha + sigma[:, None] ** 2 * seen), _WIDEST)
    return np.where(rows.concentration > 0, scale, 0.0)


def beliefs_and_visits(kernels: Array, past: History, space: Workspace) -> tuple[Array, Array]:
    """h_t `[S, N]` and φ_t `[A, S, X, N]` of kernels `[A, S, S′, N]`, from the whole history."""
    space.fit(past.length)
    n_actions, n_states, _, n_kernels = kernels.shape
    belief, counts = np.zeros((n_states, n_kernels)), np.zeros((n_actions, n_states, n_states, n_kernels))
    visits(
        space.states,
        flat(kernels),
        space.likelihood,
        past.codes,
        space.action_of,
        past.length,
        past.start,
        space.joint,
        space.alpha,
        space.checkpoints,
        space.shares,
        belief.reshape(-1),
        flat(counts),
    )
    return belief, counts
