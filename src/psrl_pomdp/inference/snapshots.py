"""Snapshots of filters: what a step changes, copied beforehand, so that the step can be taken back.

A step changes arrays in place. A refresh, which changes everything, makes filters anew, so that those of
before need no copy.
"""

from __future__ import annotations

from typing import NamedTuple

from .._utils.arrays import Array
from .filter_bank import FilterBank

_CHANGED = ("belief", "belief_blocks", "log_weight", "product", "scale", "expected")


class FilterSnapshot(NamedTuple):
    """Filters, and what was in those of their arrays that a step changes."""

    filters: FilterBank
    buffer_index: int
    counts: Array  # [B, A·S, X·L]: φ_t
    changed: tuple[Array, ...]


def snapshot(filters: FilterBank) -> FilterSnapshot:
    buffer_index = int(filters.buffer_index[0])
    return FilterSnapshot(
        filters,
        buffer_index,
        filters.counts[buffer_index].copy(),
        tuple(getattr(filters, name).copy() for name in _CHANGED),
    )


def restored(before: FilterSnapshot) -> FilterBank:
    """The filters as they were at the snapshot; it can be repeated."""
    filters = before.filters
    filters.buffer_index[0] = before.buffer_index
    filters.counts[before.buffer_index] = before.counts
    for name, values in zip(_CHANGED, before.changed, strict=True):
        getattr(filters, name)[...] = values
    filters.lane_sums[...] = 0.0  # which a step that was cut short may not have left so
    return filters
