"""The free rows of a prior: the unknown rows of its tables, each once even if several places share it.

The tables are the transition kernel and, if they are unknown, the observation model and the distribution of
seen costs. A row is not free if it is known or has only one possible entry. An ensemble stores the logarithms
of its free rows, [R, W, N], so that tiny probabilities keep their precision; rows of narrower tables are
padded with structural zeros. Filters use kernels [A, S, S′, N], and factors [A·R, S, S′, N] of unknown
tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Index
from .dirichlet_prior import DirichletPrior
from .history import Histories, History
from .permutations import allowed_permutations
from .step_codes import StepCodes, kernel_factors

FLOOR = 1e-100  # the smallest probability of a possible entry in the filters


@dataclass(frozen=True)
class RowTable:
    """The places of free rows in one table."""

    where: Index  # [..]: the free row of a place, or -1
    fixed: Array  # [.., K]: rows that are not free; the prior mean elsewhere

    @property
    def width(self) -> int:
        """K, the number of entries of a row."""
        return int(self.fixed.shape[-1])

    def expanded(self, rows: Array) -> Array:
        """Return the table [.., K, N] with its free rows from `rows[R, W, N]`."""
        table = np.repeat(self.fixed[..., None], rows.shape[-1], axis=-1)
        free = self.where >= 0
        table[free] = rows[self.where[free]][:, : self.width]
        return table

    def add_counts(self, counts: npt.NDArray[Any], total: Array) -> None:
        """Add counts [.., K, N] of the places to `total[R, W, N]`; places that share a row are added."""
        free = self.where >= 0
        np.add.at(total[:, : self.width], self.where[free], counts[free])


@dataclass(frozen=True)
class FreeRows:
    """The R free rows of a prior, and the other rows of its tables."""

    concentration: Array  # [R, W]
    kernel: RowTable  # places [A, S]
    support: npt.NDArray[np.bool_]  # [A, S, S']: the possible transitions
    codes: StepCodes
    sensor: RowTable | None = None  # places [S] or [A, S]; None if the observation model is known
    costs: RowTable | None = None  # places [A, S]; None if the costs are known
    initial: Array | None = None  # [S]: h

    @property
    def where(self) -> Index:
        """The free row of each pair (a, s), or −1, shape [A, S]."""
        return self.kernel.where

    @property
    def tables(self) -> list[RowTable]:
        """The transition kernel, and the unknown observation model and costs."""
        return [table for table in (self.kernel, self.sensor, self.costs) if table is not None]

    @property
    def parameters(self) -> int:
        """The number of unknown parameters."""
        return int((self.concentration > 0).sum() - len(self.concentration))

    @property
    def has_tables(self) -> bool:
        """Whether observation model or costs are unknown, so that each kernel has its own."""
        return self.sensor is not None or self.costs is not None

    def probabilities(self, log_rows: Array) -> Array:
        """Return the free rows [R, W, N] from their logarithms."""
        return np.where(self.concentration[..., None] > 0, np.maximum(np.exp(log_rows), FLOOR), 0.0)

    def kernels(self, log_rows: Array) -> Array:
        """Return kernels [A, S, S′, N] from the logarithms of the free rows."""
        return self.kernel.expanded(self.probabilities(log_rows))

    def observation(self, log_rows: Array) -> Array:
        """Return the observation models, shape [A, S′, O, N] or [A, S, S′, O, N]; N is 1 if it is known."""
        known = self.codes.setting.observation
        if self.sensor is None:
            return known[..., None]
        table = self.sensor.expanded(self.probabilities(log_rows))
        return np.broadcast_to(table, (len(known), *table.shape)) if table.ndim == 3 else table

    def seen_costs(self, log_rows: Array) -> Array | None:
        """Return the distributions of seen costs, shape [A, S, C, N]; N is 1 if they are known."""
        if self.costs is not None:
            return self.costs.expanded(self.probabilities(log_rows))
        seen = self.codes.setting.seen_cost
        return None if seen is None else seen.probabilities[..., None]

    def factors(self, log_rows: Array) -> Array | None:
        """Return η κ of each kernel by step number, shape [A·R, S, S′, N]; None if both are known."""
        if not self.has_tables:
            return None
        found = kernel_factors(self.observation(log_rows), self.seen_costs(log_rows))
        return np.broadcast_to(found, (*found.shape[:3], log_rows.shape[-1]))

    @property
    def learns_from_first(self) -> bool:
        """Whether the observation before the first action informs about the unknown observation model."""
        places = self.sensor is not None and self.sensor.where.ndim == 1
        return places and self.codes.setting.has_first_observation

    def first_likelihood(self, log_rows: Array, past: History) -> Array:
        """Return η(o_1 | s) under each kernel, shape [S, N]."""
        shared = self.codes.first_likelihood(past.first)
        if past.first is None or not self.learns_from_first:
            return np.repeat(shared[:, None], log_rows.shape[-1], axis=1)
        assert self.sensor is not None
        return self.sensor.expanded(self.probabilities(log_rows))[:, past.first.code]

    def start(self, log_rows: Array, past: History) -> Array:
        """Return h_1 up to a factor, shape [S]; or h(s) η(o_1 | s) under each kernel, shape [S, N]."""
        if past.first is None or not self.learns_from_first:
            return past.start
        assert self.initial is not None
        return self.initial[:, None] * self.first_likelihood(log_rows, past)

    def aggregate(self, counts: npt.NDArray[Any], first: npt.NDArray[Any], pasts: Histories) -> Array:
        """Return counts by free row, shape [R, W, N].

        Parameters
        ----------
        counts
            Transition counts by action [A, S, S′, N], or by step number [A·R, S, S′, N].
        first
            The counts of s_1 of each history, shape [U, S, N].
        pasts
            The histories, with their first observations.
        """
        codes, total = self.codes, np.zeros((*self.concentration.shape, counts.shape[-1]))
        if len(counts) == codes.n_actions:
            self.kernel.add_counts(counts, total)
            return total
        shape = (codes.n_actions, -1, codes.n_costs + 1, *counts.shape[1:])
        by_code = counts.reshape(shape)  # [A, O + 1, C + 1, S, S', N]
        self.kernel.add_counts(by_code.sum(axis=(1, 2)), total)
        if self.sensor is not None:
            emitted = by_code[:, :-1].sum(axis=(2, 3)).transpose(0, 2, 1, 3)  # [A, S', O, N]
            if self.sensor.where.ndim == 1:
                emitted = emitted.sum(axis=0)
                if self.learns_from_first:
                    emitted = emitted.astype(np.float64)
                    for past, counted in zip(pasts, first, strict=True):
                        if past.first is not None:
                            emitted[:, past.first.code] += counted
            self.sensor.add_counts(emitted, total)
        if self.costs is not None:
            paid = by_code[:, :, :-1].sum(axis=(1, 4)).transpose(0, 2, 1, 3)  # [A, S, C, N]
            self.costs.add_counts(paid, total)
        return total

    @cached_property
    def permutations(self) -> list[Index]:
        """The renamings of the states that leave the known parts of the tables unchanged."""
        return allowed_permutations(self) if self.has_tables else []

    @cached_property
    def renamings(self) -> list[Index]:
        """The renamings of the states that leave the rows unchanged, if the density is unknown."""
        return allowed_permutations(self)


def free_rows(prior: DirichletPrior) -> FreeRows:
    """Return the free rows of a prior, and the places that they belong to."""
    codes = prior.step_codes
    tables = [(prior.concentration, prior.known, prior.row)]
    for unknown in (prior.sensor, prior.costs):
        if unknown is not None:
            tables.append((unknown.counts, unknown.known, unknown.row))
    width = max(table[0].shape[-1] for table in tables)
    rows: list[Array] = []
    places = []
    for concentration, known, row in tables:
        where, free = _places(concentration, known, row)
        places.append(np.where(where >= 0, where + sum(map(len, rows)), -1))
        rows.append(np.pad(free, ((0, 0), (0, width - free.shape[1]))))
    found = [RowTable(where, _mean(table[0])) for where, table in zip(places, tables, strict=True)]
    others = iter(found[1:])
    return FreeRows(
        np.ascontiguousarray(np.concatenate(rows)),
        RowTable(places[0], prior.mean),
        prior.concentration > 0,
        codes,
        None if prior.sensor is None else next(others),
        None if prior.costs is None else next(others),
        prior.setting.initial,
    )


def _places(
    concentration: Array, known: npt.NDArray[np.bool_], row: Index
) -> tuple[npt.NDArray[np.int64], Array]:
    """Return the number of the free row of each place, or −1, and the concentrations of the free rows."""
    free = ~known & ((concentration > 0).sum(axis=-1) > 1)
    labels, first = np.unique(row[free], return_index=True)
    where = np.full(free.shape, -1, dtype=np.int64)
    where[free] = np.searchsorted(labels, row[free])
    return where, concentration[free][first].reshape(-1, concentration.shape[-1])


def _mean(concentration: Array) -> Array:
    return np.asarray(concentration / concentration.sum(axis=-1, keepdims=True))
