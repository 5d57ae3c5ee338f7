"""Sums over the kernels of a filter bank, which are stored in blocks of sixteen.

In a block `[.., S·L]`, state s of the block's kernel l has index s L + l, so that one instruction processes
several kernels, and the terms of a sum lie at distances that the compiler knows.
"""

from __future__ import annotations

from .._numba.jit import jit_inline, jit_noalloc
from .._utils.arrays import Array, States

LANES = 16  # L: the number of kernels in a block; a power of two, for `add_lanes`


@jit_inline
def propagate_lane(states: States, step: Array, before: Array, t: int, n: int) -> float:
    """Return Σ_s before(s) step(s, t) in lane n of a block."""
    mass: float = before[n] * step[t * LANES + n]
    for s in range(1, len(states)):
        mass += before[s * LANES + n] * step[(s * len(states) + t) * LANES + n]
    return mass


@jit_noalloc(inner=True, linked=True)
def add_lanes(lanes: Array) -> float:
    """Return the sum of `lanes[L]`, which are overwritten.

    The second half is added to the first, repeatedly. This order is fast and does not depend on the alignment
    of the array, unlike an order that the compiler chooses.
    """
    half = LANES // 2
    while half > 0:
        for n in range(half):
            lanes[n] += lanes[half + n]
        half //= 2
    total: float = lanes[0]
    return total


@jit_noalloc(inner=True, linked=True)
def mean_chance(weight: Array, chance: Array, lanes: Array) -> float:
    """Return Σ_n w_n P_n over all kernels, from `weight[B·L]` and `chance[B·L]`."""
    for n in range(LANES):
        lanes[n] = weight[n] * chance[n]
    for b in range(1, len(weight) // LANES):
        for n in range(LANES):
            lanes[n] += weight[b * LANES + n] * chance[b * LANES + n]
    return add_lanes(lanes)


@jit_noalloc(error_model="numpy", inner=True, linked=True)
def mean_mass(
    states: States, matrix_blocks: Array, belief_blocks: Array, weight: Array, t: int, lanes: Array
) -> float:
    """Return Σ_n w_n Σ_s h(s; θ_n) M_n(s, t) for the matrices M of a step."""
    for n in range(LANES):
        lanes[n] = 0.0
    for b in range(len(belief_blocks)):
        move, now = matrix_blocks[b], belief_blocks[b]
        for n in range(LANES):
            lanes[n] += weight[b * LANES + n] * propagate_lane(states, move, now, t, n)
    return add_lanes(lanes)
