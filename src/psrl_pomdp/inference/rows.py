"""The free rows of a kernel: the unknown rows, each once even if several pairs (a, s) share it.

A row is not free if it is known or has only one possible next state. An ensemble stores the logarithms of its
free rows, [R, S′, N], so that tiny probabilities keep their precision; filters use kernels [A, S, S′, N].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from .dirichlet_prior import DirichletPrior

FLOOR = 1e-100  # the smallest probability of a possible transition in the filters


class FreeRows(NamedTuple):
    """The R free rows of a prior, and the other rows of its kernels."""

    concentration: Array  # [R, S']
    where: npt.NDArray[np.int64]  # [A, S]: the free row of a pair, or -1
    fixed: Array  # [A, S, S']: rows that are not free; the prior mean elsewhere
    support: npt.NDArray[np.bool_]  # [A, S, S']: the possible transitions

    @property
    def parameters(self) -> int:
        """The number of unknown parameters."""
        return int((self.concentration > 0).sum() - len(self.concentration))


def free_rows(prior: DirichletPrior) -> FreeRows:
    """Return the free rows of a prior, and the pairs (a, s) that they belong to."""
    n_states = prior.setting.n_states
    free = ~prior.known & ((prior.concentration > 0).sum(axis=-1) > 1)
    labels, first = np.unique(prior.row[free], return_index=True)
    where = np.full(free.shape, -1, dtype=np.int64)
    where[free] = np.searchsorted(labels, prior.row[free])
    concentration = prior.concentration[free][first].reshape(-1, n_states)
    return FreeRows(np.ascontiguousarray(concentration), where, prior.mean, prior.concentration > 0)


def to_kernels(rows: FreeRows, log_rows: Array) -> Array:
    """Return kernels [A, S, S′, N] from the logarithms [R, S′, N] of their free rows."""
    kernels = np.repeat(rows.fixed[..., None], log_rows.shape[-1], axis=-1)
    free = rows.where >= 0
    theta = np.where(rows.concentration[..., None] > 0, np.maximum(np.exp(log_rows), FLOOR), 0.0)
    kernels[free] = theta[rows.where[free]]
    return kernels


def aggregate_counts(rows: FreeRows, transitions: npt.NDArray[Any]) -> Array:
    """Return counts by free row [R, S′, N] from counts [A, S, S′, N]; pairs that share a row are added."""
    free = rows.where >= 0
    counts = np.zeros((len(rows.concentration), *transitions.shape[2:]))
    np.add.at(counts, rows.where[free], transitions[free])
    return counts
