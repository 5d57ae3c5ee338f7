"""A posterior mode under Dirichlet rows, by expectation-maximization (Dempster, Laird and Rubin 1977).

The mode is that of the density of log θ, up to the sums of the rows. In these coordinates Dirichlet(α) has an
interior mode for every α > 0, while the density of θ has none if α < 1. A mode is a solution of

    θ(s′ | s, a) ∝ α(s, a, s′) + ξ(s, a, s′),      ξ the expected number of such transitions under θ,

and each iteration θ ← right side, normalized, increases the density. With hidden states there may be several
modes: the starting point determines which one the iteration converges to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._utils.arrays import Array
from .history import History
from .hmc import log_likelihood_and_expected_transitions
from .rows import FreeRows, to_kernels
from .workspace import Workspace

if TYPE_CHECKING:
    from .dirichlet_posterior import DirichletPosterior

_PASSES = 50
_CLOSE = 1e-4  # the iteration stops when no entry changes by more than this


def posterior_mode(
    posterior: DirichletPosterior,
    near: Array | None = None,
    *,
    passes: int = _PASSES,
    close: float = _CLOSE,
) -> Array:
    """Return a mode, shape [A, S, S′], by iterations that start at the kernel `near`, by default the mean.

    >>> from psrl_pomdp import problem
    >>> posterior = problem("separated").prior.posterior(np.random.default_rng(0))
    >>> posterior.start(0)
    >>> posterior_mode(posterior)[0, 0].round(3).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    likelihood = posterior.filter_bank()[0].likelihood
    start = posterior.mean() if near is None else near
    return mode_of_rows(posterior._rows, posterior._past, likelihood, start, passes=passes, close=close)


def mode_of_rows(
    rows: FreeRows,
    past: History,
    likelihood: Array,
    start: Array,
    *,
    passes: int = _PASSES,
    close: float = _CLOSE,
) -> Array:
    """Return a mode, shape [A, S, S′], by at most `passes` iterations that start at the kernel `start`."""
    space = Workspace(likelihood, 1)
    space.fit(past.length)
    theta = _free(rows, start)
    for _ in range(passes):
        _, transitions = log_likelihood_and_expected_transitions(rows, _log(theta), past, space)
        before, theta = theta, rows.concentration + transitions[..., 0]
        theta /= theta.sum(axis=1, keepdims=True)
        if np.abs(theta - before).max(initial=0.0) < close:
            break
    return np.asarray(to_kernels(rows, _log(theta))[..., 0])


def _free(rows: FreeRows, kernel: Array) -> Array:
    """Return the free rows of a kernel [A, S, S′], shape [R, S′]."""
    theta = np.empty_like(rows.concentration)
    theta[rows.where[rows.where >= 0]] = kernel[rows.where >= 0]  # pairs that share a row have equal rows
    return theta


def _log(theta: Array) -> Array:
    """Return log θ with an axis for a single kernel, shape [R, S′, 1]."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(theta)[..., None])
