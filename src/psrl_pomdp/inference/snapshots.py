"""Snapshots of filters, so that a step can be undone.

A step changes arrays in place, so the snapshot copies these arrays. A refresh creates new filters and leaves
the old ones unchanged, so that they need no copy, except for the test of the model, which both share.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from .._utils.arrays import Array
from .filter_bank import FilterBank

_CHANGED = ("belief", "belief_blocks", "log_weight", "product", "scale", "expected")


class SharedKernels(Protocol):
    """The kernels that the posteriors of several units share."""

    units: list[Any]
    banks: list[FilterBank]
    groups: Any
    refresh_due: bool


class FilterSnapshot(NamedTuple):
    """What units share, the filters of one of them, and copies of those arrays that its steps change."""

    banks: list[FilterBank]
    n_units: int
    groups: Any
    refresh_due: bool
    filters: FilterBank
    buffer_index: int
    counts: Array  # [B, A·S, X·L]: φ_t
    changed: tuple[Array, ...]
    test: Array


def snapshot(shared: SharedKernels, number: int) -> FilterSnapshot:
    """Return a snapshot of what units share and of the filters of unit `number`."""
    filters = shared.banks[number]
    buffer_index = int(filters.buffer_index[0])
    return FilterSnapshot(
        shared.banks,
        len(shared.banks),
        shared.groups,
        shared.refresh_due,
        filters,
        buffer_index,
        filters.counts[buffer_index].copy(),
        tuple(getattr(filters, name).copy() for name in _CHANGED),
        filters.test.memory.copy(),
    )


def restore(shared: SharedKernels, before: FilterSnapshot) -> None:
    """Restore a snapshot, and forget units that have joined since. This may be repeated."""
    shared.banks, shared.groups, shared.refresh_due = before.banks, before.groups, before.refresh_due
    del shared.banks[before.n_units :]
    del shared.units[before.n_units :]
    filters = before.filters
    filters.buffer_index[0] = before.buffer_index
    filters.counts[before.buffer_index] = before.counts
    for name, values in zip(_CHANGED, before.changed, strict=True):
        getattr(filters, name)[...] = values
    filters.test.memory[...] = before.test
    filters.lane_sums[...] = 0.0  # an interrupted step may have left other values
