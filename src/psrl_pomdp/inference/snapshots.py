"""Snapshots of filters, so that a step can be undone.

A step changes arrays in place, so the snapshot copies these arrays. A refresh creates new filters and leaves
the old ones unchanged, so that they need no copy, except for the test of the model, which both share.
"""

from __future__ import annotations

from typing import NamedTuple

from .._utils.arrays import Array
from .filter_bank import FilterBank

_CHANGED = ("belief", "belief_blocks", "log_weight", "product", "scale", "expected")


class FilterSnapshot(NamedTuple):
    """A filter bank, and copies of those of its arrays that a step changes."""

    filters: FilterBank
    buffer_index: int
    counts: Array  # [B, A·S, X·L]: φ_t
    changed: tuple[Array, ...]
    test: Array


def snapshot(filters: FilterBank) -> FilterSnapshot:
    """Return a snapshot of `filters`."""
    buffer_index = int(filters.buffer_index[0])
    return FilterSnapshot(
        filters,
        buffer_index,
        filters.counts[buffer_index].copy(),
        tuple(getattr(filters, name).copy() for name in _CHANGED),
        filters.test.memory.copy(),
    )


def restored(before: FilterSnapshot) -> FilterBank:
    """Return the filter bank as it was at the snapshot. A snapshot can be restored several times."""
    filters = before.filters
    filters.buffer_index[0] = before.buffer_index
    filters.counts[before.buffer_index] = before.counts
    for name, values in zip(_CHANGED, before.changed, strict=True):
        getattr(filters, name)[...] = values
    filters.test.memory[...] = before.test
    filters.lane_sums[...] = 0.0  # an interrupted step may have left other values
    return filters
