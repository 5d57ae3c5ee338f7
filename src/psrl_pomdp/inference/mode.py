"""The likeliest kernel under Dirichlet rows, by expectation-maximisation (Dempster, Laird and Rubin 1977).

The mode is that of the density of log θ, up to the rows' sums: there Dirichlet(α) has its mode in the inside
for every α > 0, where the density of θ itself has none for α < 1. It solves

    θ(s′ | s, a) ∝ α(s, a, s′) + ξ(s, a, s′),      ξ the expected number of such transitions under θ,

and each pass of putting the right side for the left raises the density. Hidden states make several modes
possible: which one is found depends on where the search begins.
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
_CLOSE = 1e-4  # entries that change by less have converged


def posterior_mode(
    posterior: DirichletPosterior,
    near: Array | None = None,
    *,
    passes: int = _PASSES,
    close: float = _CLOSE,
) -> Array:
    """[A, S, S]: a mode, sought from the kernel `near`, by default the mean.

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
    """Return a mode [A, S, S'], sought from the kernel `start`, by at most `passes` passes."""
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
    """[R, S′]: the free rows of a kernel `[A, S, S′]`."""
    theta = np.empty_like(rows.concentration)
    theta[rows.where[rows.where >= 0]] = kernel[rows.where >= 0]  # pairs that share a row have the same
    return theta


def _log(theta: Array) -> Array:
    """[R, S′, 1]."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(theta)[..., None])
