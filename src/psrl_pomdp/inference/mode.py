"""A posterior mode under Dirichlet rows, by expectation-maximization (Dempster, Laird and Rubin 1977).

The mode is that of the density of log θ, up to the sums of the rows. In these coordinates Dirichlet(α) has an
interior mode for every α > 0, while the density of θ has none if α < 1. A mode is a solution of

    θ(s′ | s, a) ∝ α(s, a, s′) + ξ(s, a, s′),      ξ the expected number of such transitions under θ,

and each iteration θ ← right side, normalized, increases the density. With hidden states there may be several
modes: the starting point determines which one the iteration converges to.
"""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array
from .history import Histories, longest
from .hmc import log_likelihood_and_expected_transitions
from .rows import FreeRows
from .workspace import Workspace

MODE_PASSES = 50  # the default number of iterations
MODE_CLOSE = 1e-4  # the iteration stops when no entry changes by more than this


def mode_of_rows(
    rows: FreeRows,
    pasts: Histories,
    start: Array,
    *,
    passes: int = MODE_PASSES,
    close: float = MODE_CLOSE,
) -> Array:
    """Return the logarithms of the free rows at a mode, shape [R, W, 1].

    At most `passes` iterations start at the rows `start[R, W]`.
    """
    space = Workspace(rows.codes, 1)
    space.fit(longest(pasts))
    theta = start
    for _ in range(passes):
        _, transitions = log_likelihood_and_expected_transitions(rows, _log(theta), pasts, space)
        before, theta = theta, rows.concentration + transitions[..., 0]
        theta /= theta.sum(axis=1, keepdims=True)
        if np.abs(theta - before).max(initial=0.0) < close:
            break
    return _log(theta)


def free_rows_near(rows: FreeRows, kernel: Array | None, log_rows: Array, weights: Array) -> Array:
    """Return the free rows from which a search starts, shape [R, W].

    Those of the transition kernel are taken from `kernel`, if one is given; all others are the means of the
    ensemble `log_rows[R, W, N]` with its `weights[N]`.
    """
    theta = np.asarray(rows.probabilities(log_rows) @ weights)
    if kernel is not None:
        free = rows.where >= 0  # pairs that share a row have equal rows
        theta[rows.where[free], : kernel.shape[-1]] = kernel[free]
    return theta


def _log(theta: Array) -> Array:
    """Return log θ with an axis for a single kernel, shape [R, S′, 1]."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(theta)[..., None])
