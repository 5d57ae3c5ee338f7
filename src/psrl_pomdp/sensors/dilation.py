"""Finite sensors above a density in Blackwell's order: hubs, onto which every likelihood vector is spread.

Let ℓ(y) be the likelihoods of reading y under all states, and suppose that ℓ(y) = Σ_j γ_j(y) h_j for hubs h_j
and weights γ_j(y) ≥ 0. Then the finite sensor with the columns h_j ∫ γ_j tells at least as much as the
density: given hub j, draw a reading from the density γ_j(y) / ∫ γ_j, which does not depend on the state. So
the optimal average cost with this sensor is at most that with the density.

Nothing is integrated but the density itself. In each of many small intervals, the ratios of the likelihoods
to that of a reference state are in a box (`frames`), and the corners of a simplex around this box are hubs
whose ∫ γ_j follow from the masses of the interval. These corners, the atoms, are spread onto fewer hubs in
turn (`hubs`): a spread of a spread is a spread.

Hubs may be any points, and weights may be too small: what they leave of a column is given to the vertices,
which reveal the state. So every weight is rounded down by all that it may be wrong by, the last S columns are
what is missing to one, and no error has to be added to the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .._utils.arrays import Array, Bases, frozen
from .base import ScalarSensor
from .cells import cell_edges, fine_edges, interval_masses
from .frames import Frames, frames
from .hubs import hubs_along
from .spreads import spread

_FINE_PER_CELL, _LEAST_FINE, _MOST_FINE = 64, 1024, 4096
_MOST_ENTRIES = 10_000_000  # of the atoms
ROUNDED_DOWN = 1e-11  # share of every column that is given to the vertices, for rounding errors of sums


@dataclass(frozen=True)
class Dilation:
    """The hubs of one action, how small intervals are spread onto them, and the resulting columns."""

    edges: Array  # [F + 1]: of the small intervals, from −inf to +inf
    frames: Frames  # the simplices around their boxes of ratios
    hubs: Array  # [m, S], rows sum to 1; the first S are the vertices
    corners: Bases  # [F, S, S]: the hubs onto which each atom of each interval is spread
    shares: Array  # [F, S, S]: the weights of these hubs
    table: Array  # [S, m]: the columns, rows sum to 1


@lru_cache(maxsize=64)
def dilation(sensor: ScalarSensor, action: int, n_cells: int) -> Dilation:
    """Return the dilation with hubs along the edges of `n_cells` cells."""
    n_fine = min(max(_FINE_PER_CELL * n_cells, _LEAST_FINE), _MOST_FINE, _MOST_ENTRIES // sensor.n_states**2)
    edges = fine_edges(sensor, action, n_fine)
    found = frames(sensor, action, edges)
    weights = atom_weights(sensor, action, edges, found)
    cells = cell_edges(sensor, action, n_cells)
    path = hubs_along(sensor, action, cells, edges, found.atoms(), weights)
    corners, shares = spread(found.atoms(), weights, path)
    table = columns(path.hubs, corners, shares, weights)
    return Dilation(frozen(edges), found, frozen(path.hubs), corners, frozen(shares), frozen(table))


def atom_weights(sensor: ScalarSensor, action: int, edges: Array, found: Frames) -> Array:
    """Return lower bounds on the weights of all atoms, [F, S], from the masses of the intervals."""
    masses, errors = interval_masses(sensor, action, edges)
    return found.weights(masses.T, errors.T)


def columns(hubs: Array, corners: Bases, shares: Array, weights: Array) -> Array:
    """Return the columns of the dilated sensor, [S, m]: those of the hubs, rounded down, and the vertices."""
    n_states = hubs.shape[1]
    total: Array = np.zeros(len(hubs))
    np.add.at(total, corners, shares * weights[..., None])
    total[:n_states] = 0.0
    table = hubs.T * (total * (1.0 - ROUNDED_DOWN))
    rest = np.maximum(1.0 - table.sum(axis=1), 0.0)
    table[np.arange(n_states), np.arange(n_states)] = rest
    return np.asarray(table / table.sum(axis=1, keepdims=True))
