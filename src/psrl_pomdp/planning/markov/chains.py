"""The Markov chain over pairs (node, state) of a controller, and compiled sweeps over it.

    (T h)(n, s) = Σ_{s′} θ(s′ | s, a_n) Σ_o η(o | a_n, s′) h(σ(n, o), s′)

The inner sum is the same for every s: S·O products a node, where the entries of T are S²·O. It is not where
the observation depends on the state before the action, and then all S²·O entries are used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from ..._numba.jit import jit, jit_noalloc
from ..._utils.arrays import Array, Index
from ..dynamics import Dynamics, Factors


@dataclass(frozen=True)
class Chain:
    """The operator T for a controller's actions [N] and successors [N, O]; its vectors are flat, [N·S]."""

    dynamics: Dynamics
    actions: Index
    successors: Index

    @property
    def work(self) -> float:
        """The operations of one product T h."""
        d = self.dynamics
        products = np.diff(d.factors.indptr[:: d.n_states])
        if d.factors.is_product:
            products = d.n_states * d.factors.possible.sum(axis=1) + products
        return 2.0 * float(products[self.actions].sum())

    @property
    def nnz(self) -> int:
        """The number of nonzero entries of the matrix."""
        return int(np.count_nonzero(self.dynamics.joint, axis=(1, 2, 3))[self.actions].sum())

    def __matmul__(self, h: Array) -> Array:
        after = np.empty((len(self.actions), self.dynamics.n_states))
        apply(self.dynamics.factors, self.actions, self.successors, h.reshape(-1, after.shape[1]), after)
        return after.ravel()

    def matrix(self) -> csr_array:
        """Return T as a matrix; entries of different observations are not added up."""
        n = len(self.actions) * self.dynamics.n_states
        return csr_array(entries(self.dynamics.joint, self.actions, self.successors), shape=(n, n))


@jit()
def entries(
    joint: Array, actions: Index, successors: Index
) -> tuple[Array, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return T in compressed sparse rows: data, indices, indptr."""
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
                    probability = joint[actions[node], o, s, t]
                    if probability > 0.0:
                        indices[k] = successors[node, o] * n_states + t
                        data[k] = probability
                        k += 1
            indptr[node * n_states + s + 1] = k
    return data, indices, indptr


@jit_noalloc(inner=True)
def apply_entries(factors: Factors, actions: Index, successors: Index, h: Array, after: Array) -> None:
    """Fill in `after` = T h by the entries of M, where M is not a product."""
    n_states = h.shape[1]
    for node in range(len(actions)):
        for s in range(n_states):
            row, total = actions[node] * n_states + s, 0.0
            for k in range(factors.indptr[row], factors.indptr[row + 1]):
                total += factors.transitions[k] * h[successors[node, factors.observed[k]], factors.indices[k]]
            after[node, s] = total


@jit()
def apply(factors: Factors, actions: Index, successors: Index, h: Array, after: Array) -> None:
    """Fill in `after` = T h, for h[n, s]."""
    if factors.observation.shape[2] == 0:
        apply_entries(factors, actions, successors, h, after)
        return
    n_states = h.shape[1]
    expected = np.empty(n_states)
    for node in range(len(actions)):
        a = actions[node]
        for t in range(n_states):
            expected[t] = 0.0
        for o in range(successors.shape[1]):
            if factors.possible[a, o]:
                next_node = successors[node, o]
                for t in range(n_states):
                    expected[t] += factors.observation[a, o, t] * h[next_node, t]
        for s in range(n_states):
            row, total = a * n_states + s, 0.0
            for k in range(factors.indptr[row], factors.indptr[row + 1]):
                total += factors.transitions[k] * expected[factors.indices[k]]
            after[node, s] = total


@jit_noalloc(inner=True)
def apply_entries_transposed(
    factors: Factors, actions: Index, successors: Index, mass: Array, after: Array
) -> None:
    """Add mass T to `after` by the entries of M, where M is not a product."""
    n_states = mass.shape[1]
    for node in range(len(actions)):
        for s in range(n_states):
            share, row = mass[node, s], actions[node] * n_states + s
            if share > 0.0:
                for k in range(factors.indptr[row], factors.indptr[row + 1]):
                    next_node = successors[node, factors.observed[k]]
                    after[next_node, factors.indices[k]] += share * factors.transitions[k]


@jit()
def apply_transposed(factors: Factors, actions: Index, successors: Index, mass: Array, after: Array) -> None:
    """Add mass T to `after`."""
    if factors.observation.shape[2] == 0:
        apply_entries_transposed(factors, actions, successors, mass, after)
        return
    n_states = mass.shape[1]
    moved = np.empty(n_states)
    for node in range(len(actions)):
        a = actions[node]
        if propagate(factors, a, mass[node], moved) > 1e-18:
            for o in range(successors.shape[1]):
                if factors.possible[a, o]:
                    next_node = successors[node, o]
                    for t in range(n_states):
                        after[next_node, t] += factors.observation[a, o, t] * moved[t]


@jit_noalloc(inner=True, linked=True)
def propagate(factors: Factors, a: int, belief: Array, moved: Array) -> float:
    """Fill in `moved` = Σ_s b(s) θ(· | s, a), and return the sum of b.

    It is the same if M is not a product: each next state adds up its observations.
    """
    n_states, total = len(belief), 0.0
    for t in range(n_states):
        moved[t] = 0.0
    for s in range(n_states):
        total += belief[s]
        if belief[s] > 0.0:
            row = a * n_states + s
            for k in range(factors.indptr[row], factors.indptr[row + 1]):
                moved[factors.indices[k]] += belief[s] * factors.transitions[k]
    return total


@jit_noalloc(inner=True)
def propagate_entries(factors: Factors, a: int, belief: Array, after: Array) -> None:
    """Fill in `after[o]` = b M[a, o] by the entries of M, where M is not a product."""
    n_states = len(belief)
    for o in range(len(after)):
        for t in range(n_states):
            after[o, t] = 0.0
    for s in range(n_states):
        if belief[s] > 0.0:
            row = a * n_states + s
            for k in range(factors.indptr[row], factors.indptr[row + 1]):
                after[factors.observed[k], factors.indices[k]] += belief[s] * factors.transitions[k]


@jit()
def stationary(
    factors: Factors,
    actions: Index,
    successors: Index,
    mass: Array,
    damping: float,
    tolerance: float,
    most: int,
) -> int:
    """Move mass[n, s] toward the stationary distribution of the chain; return the number of sweeps."""
    after = np.empty(mass.shape)
    for sweep in range(most):
        after[:] = 0.0
        apply_transposed(factors, actions, successors, mass, after)
        distance = 0.0
        for node in range(len(mass)):
            for s in range(mass.shape[1]):
                step = damping * (after[node, s] - mass[node, s])
                distance += abs(step)
                mass[node, s] += step
        if distance < tolerance:
            return sweep + 1
    return most


@jit()
def relative_value_sweeps(
    factors: Factors,
    actions: Index,
    successors: Index,
    cost: Array,
    h: Array,
    damping: float,
    tolerance: float,
    most: int,
) -> tuple[float, float, int]:
    """Run damped relative value iteration h ← c + T h − gain, in place.

    Returns the least and the largest of c + T h − h, and the number of sweeps.
    """
    n_states = h.shape[1]
    change = np.empty(h.shape)
    low, high = -1e300, 1e300
    for sweep in range(most):
        low, high = 1e300, -1e300
        apply(factors, actions, successors, h, change)
        for node in range(len(actions)):
            for s in range(n_states):
                change[node, s] += cost[actions[node], s] - h[node, s]
                low = min(low, change[node, s])
                high = max(high, change[node, s])
        if high - low < tolerance or sweep == most - 1:
            return low, high, sweep + 1
        middle = 0.5 * (low + high)
        for node in range(len(actions)):
            for s in range(n_states):
                h[node, s] += damping * (change[node, s] - middle)
    return low, high, most
