"""Chains over pairs (node, state) of a controller, and the compiled sweeps over them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy.sparse import csr_array

from ..arrays import Array

Index = npt.NDArray[np.int32]  # half the memory to run through, and what scipy wants


class Chain(NamedTuple):
    """A sparse transition matrix by rows; scipy's own class costs more to make than to use."""

    indptr: Index
    indices: Index
    data: Array

    @property
    def nnz(self) -> int:
        return len(self.data)

    def matrix(self) -> csr_array:
        n = len(self.indptr) - 1
        return csr_array((self.data, self.indices, self.indptr), shape=(n, n))


@njit(cache=True, nogil=True)
def pairs(joint, actions, successors):
    """The rows of the chain over pairs (node, state), entry by entry."""
    n_observations, n_states = joint.shape[1:3]
    count = 0
    for node in range(len(actions)):
        for o in range(n_observations):
            for s in range(n_states):
                for t in range(n_states):
                    if joint[actions[node], o, s, t] > 0.0:
                        count += 1
    indptr = np.zeros(len(actions) * n_states + 1, np.int32)
    indices, data = np.empty(count, np.int32), np.empty(count)
    k = 0
    for node in range(len(actions)):
        for s in range(n_states):
            for o in range(n_observations):
                for t in range(n_states):
                    chance = joint[actions[node], o, s, t]
                    if chance > 0.0:
                        indices[k] = successors[node, o] * n_states + t
                        data[k] = chance
                        k += 1
            indptr[node * n_states + s + 1] = k
    return indptr, indices, data


@njit(cache=True, nogil=True)
def stationary(indptr, indices, data, mass, damping, tolerance, most):
    """mass toward the long-run shares of the pairs; how many sweeps it took."""
    n = len(mass)
    new = np.empty(n)
    for sweep in range(most):
        for i in range(n):
            new[i] = (1.0 - damping) * mass[i]
        for i in range(n):
            if mass[i] > 1e-18:
                for k in range(indptr[i], indptr[i + 1]):
                    new[indices[k]] += damping * mass[i] * data[k]
        moved = 0.0
        for i in range(n):
            moved += abs(new[i] - mass[i])
            mass[i] = new[i]
        if moved < tolerance:
            return sweep + 1
    return most


@njit(cache=True, nogil=True)
def relax(indptr, indices, data, cost, h, damping, tolerance, most):
    """Damped sweeps of h ← c + T h − gain; the least and the largest of c + T h − h, and sweeps done."""
    n = len(cost)
    change = np.empty(n)
    low, high = -1e300, 1e300
    for sweep in range(most):
        low, high = 1e300, -1e300
        for i in range(n):
            total = cost[i]
            for k in range(indptr[i], indptr[i + 1]):
                total += data[k] * h[indices[k]]
            change[i] = total - h[i]
            low = min(low, change[i])
            high = max(high, change[i])
        if high - low < tolerance or sweep == most - 1:
            return low, high, sweep + 1
        middle = 0.5 * (low + high)
        for i in range(n):
            h[i] += damping * (change[i] - middle)
    return low, high, most
