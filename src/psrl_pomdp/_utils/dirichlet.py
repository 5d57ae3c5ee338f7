"""Random Dirichlet rows, drawn in logarithms so that tiny concentrations do not underflow."""

from __future__ import annotations

import numpy as np

from .arrays import Array


def log_dirichlet(rng: np.random.Generator, concentration: Array, axis: int = -1) -> Array:
    """Draw Dirichlet rows along `axis` and return their logarithms, −inf where the concentration is zero.

    The rows are normalized Gamma variables, computed in logarithms by log G(α) = log G(α + 1) + log(U) / α:
    for small α the variables themselves would underflow to a row of zeros.
    """
    possible = concentration > 0
    alpha = np.where(possible, concentration, 1.0)
    boost = np.log1p(-rng.random(alpha.shape)) / alpha  # 1 - U is positive
    log_gamma = np.where(possible, np.log(rng.standard_gamma(alpha + 1.0)) + boost, -np.inf)
    log_gamma -= log_gamma.max(axis=axis, keepdims=True)
    return np.asarray(log_gamma - np.log(np.exp(log_gamma).sum(axis=axis, keepdims=True)))
