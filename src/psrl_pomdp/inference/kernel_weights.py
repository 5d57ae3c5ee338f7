"""The weights of the kernels in a filter bank: f_{t+1}(θ) ∝ P f_t(θ) for the likelihood P of an observation.

Log weights are stored with a running product: a logarithm is taken only when the product has become small,
and weights neither underflow nor lose digits in 10^7 steps. All functions are compiled and update plain
arrays in place.
"""

from __future__ import annotations

import math

import numpy as np

from .._numba.jit import jit_noalloc
from .._utils.arrays import Array

_SMALL = 1e-200  # smaller products are moved into the log weights


@jit_noalloc(linked=True, inner=True)
def logarithm(number: float) -> float:
    """Return the logarithm of a nonnegative number, −inf for 0."""
    return math.log(number) if number > 0.0 else -np.inf


@jit_noalloc(inner=True)
def renormalize_log_weights(log_weight: Array, product: Array, scale: Array) -> None:
    """Move the running products into the log weights, and shift these so that the largest is 0."""
    largest = -np.inf
    for n in range(len(product)):
        if product[n] > 0.0:
            log_weight[n] += math.log(product[n])
            product[n] = 1.0
            largest = max(largest, log_weight[n])
        else:
            log_weight[n] = -np.inf
    for n in range(len(product)):
        log_weight[n] -= largest
        scale[n] = math.exp(log_weight[n])


@jit_noalloc(inner=True, linked=True)
def any_possible(product: Array, chance: Array) -> bool:
    """Return whether the observation has positive probability under a kernel of positive weight."""
    found = False
    for n in range(len(product)):
        found |= product[n] > 0.0 and chance[n] > 0.0
    return found


@jit_noalloc(inner=True, linked=True)
def update_weights(log_weight: Array, product: Array, scale: Array, chance: Array) -> None:
    """Update f_{t+1}(θ) ∝ P f_t(θ). The weight of a kernel with P = 0 stays 0 for ever."""
    small, ruled_out = False, False
    for n in range(len(product)):
        small |= product[n] * chance[n] < _SMALL and product[n] > 0.0 and chance[n] > 0.0
        ruled_out |= product[n] > 0.0 and chance[n] == 0.0
    if small:
        renormalize_log_weights(log_weight, product, scale)
    for n in range(len(product)):
        product[n] *= chance[n]
    if ruled_out:  # the remaining weights may be tiny compared with the weight that is lost
        renormalize_log_weights(log_weight, product, scale)


@jit_noalloc(error_model="numpy", inner=True, linked=True)
def linear_weights(product: Array, scale: Array, weight: Array) -> float:
    """Write the normalized weights f_t(θ_n) to `weight[N]`, without logarithms, and return 1 / Σ f².

    There are four partial sums, so that the order of summation does not depend on the compiler.
    """
    n_kernels = len(product)
    a = b = c = d = 0.0
    for n in range(n_kernels):
        weight[n] = product[n] * scale[n]
    for n in range(0, n_kernels - 3, 4):
        a, b, c, d = a + weight[n], b + weight[n + 1], c + weight[n + 2], d + weight[n + 3]
    for n in range(n_kernels - n_kernels % 4, n_kernels):
        a += weight[n]
    inverse = 1.0 / ((a + b) + (c + d))
    a = b = c = d = 0.0
    for n in range(n_kernels):
        weight[n] *= inverse
    for n in range(0, n_kernels - 3, 4):
        a, b = a + weight[n] * weight[n], b + weight[n + 1] * weight[n + 1]
        c, d = c + weight[n + 2] * weight[n + 2], d + weight[n + 3] * weight[n + 3]
    for n in range(n_kernels - n_kernels % 4, n_kernels):
        a += weight[n] * weight[n]
    return 1.0 / ((a + b) + (c + d))
