"""Weights that spread beliefs onto hubs.

Beliefs are spread onto the corners of a Delaunay triangulation of the hubs, which has the least variance of
all triangulations; with many states, onto the hubs of their part of the curve.
"""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array, Bases
from .hubs import MOST_TRIANGULATED, HubPath

_LARGEST_CONDITION = 1e14  # of the equations for the weights


def spread(atoms: Array, weights: Array, path: HubPath) -> tuple[Bases, Array]:
    """Return hubs that make up each atom, and weights of which no coordinate exceeds that of the atom.

    Parameters
    ----------
    atoms, weights
        Beliefs, [F, S, S], and their weights, [F, S]; those without weight are not spread.
    path
        The hubs.

    Returns
    -------
    tuple
        The hubs and their weights for each atom, [F, S, S].
    """
    hubs, n_states = path.hubs, path.hubs.shape[1]
    beliefs = atoms.reshape(-1, n_states)
    corners = np.tile(np.arange(n_states, dtype=np.int32), (len(beliefs), 1))
    shares = np.zeros(corners.shape)
    some = np.flatnonzero(weights.ravel() > 0.0)
    if len(some):
        if n_states == 1:
            shares[some] = 1.0
        elif n_states == 2:
            corners[some], shares[some] = _between(beliefs[some], hubs)
        elif n_states <= MOST_TRIANGULATED:
            corners[some], shares[some] = _triangulated(beliefs[some], hubs)
        else:
            part = np.repeat(path.part, n_states)[some]
            for i in np.unique(part):  # all beliefs of a part have the same hubs
                here = some[part == i]
                corners[here] = path.own[i]
                shares[here] = _in_simplex(beliefs[here], hubs[path.own[i]])
        if n_states <= MOST_TRIANGULATED:
            shares[some] = trimmed(beliefs[some], hubs[corners[some]], shares[some])
    return corners.reshape(*weights.shape, n_states), shares.reshape(*weights.shape, n_states)


def _between(beliefs: Array, hubs: Array) -> tuple[Bases, Array]:
    """Return the hubs on both sides of each belief over two states, and their weights."""
    order = np.argsort(hubs[:, 0], kind="stable").astype(np.int32)
    at = hubs[order, 0]
    left = np.clip(np.searchsorted(at, beliefs[:, 0], side="right") - 1, 0, len(at) - 2)
    share = np.clip((beliefs[:, 0] - at[left]) / (at[left + 1] - at[left]), 0.0, 1.0)
    return np.stack([order[left], order[left + 1]], axis=1), np.stack([1.0 - share, share], axis=1)


def _triangulated(beliefs: Array, hubs: Array) -> tuple[Bases, Array]:
    """Return the corners of the Delaunay simplex that contains each belief, and its coordinates."""
    from scipy.spatial import Delaunay  # imported here because the import is slow

    n_states = hubs.shape[1]
    # Coordinates in the plane of the simplex: exchanging states must not change distances.
    plane = np.linalg.svd(np.ones((1, n_states)))[2][1:].T
    triangulation = Delaunay(hubs @ plane)
    simplex = triangulation.find_simplex(beliefs @ plane, tol=1e-10)
    vertices = np.arange(n_states, dtype=np.int32)
    corners = np.where(simplex[:, None] >= 0, triangulation.simplices[simplex], vertices).astype(np.int32)
    return _coordinates(beliefs, hubs, corners)


def _in_simplex(beliefs: Array, points: Array) -> Array:
    """Return trimmed coordinates of beliefs in a simplex, [n, S]; zeros if the simplex is flat."""
    if not np.linalg.cond(points) < _LARGEST_CONDITION:
        return np.zeros(beliefs.shape)
    shares = np.asarray(np.linalg.solve(points.T, beliefs.T).T, dtype=np.float64)
    return trimmed(beliefs, np.broadcast_to(points, (len(beliefs), *points.shape)), shares)


def _coordinates(beliefs: Array, hubs: Array, corners: Bases) -> tuple[Bases, Array]:
    """Return coordinates of beliefs; those in flat simplices have coordinates at the vertices."""
    n_states = hubs.shape[1]
    unique, inverse = np.unique(corners, axis=0, return_inverse=True)
    flat = ~(np.linalg.cond(hubs[unique]) < _LARGEST_CONDITION)
    corners[flat[inverse.ravel()]] = np.arange(n_states)
    shares = np.linalg.solve(hubs[corners].transpose(0, 2, 1), beliefs[..., None])[..., 0]
    return corners, np.maximum(shares, 0.0)


def trimmed(beliefs: Array, points: Array, shares: Array) -> Array:
    """Return weights γ that are lowered until Σ γ h ≤ b in every coordinate, [n, S].

    What a coordinate has too much of is taken from the hub that has most of it.
    """
    shares = np.where(shares > 0.0, shares, 0.0)
    rows = np.arange(len(beliefs))
    for s in range(beliefs.shape[1]):
        for _ in range(beliefs.shape[1]):
            excess = np.einsum("nk,nk->n", shares, points[:, :, s]) - beliefs[:, s]
            if not (excess > 0.0).any():
                break
            part = np.where(shares > 0.0, points[:, :, s], 0.0)
            most = part.argmax(axis=1)
            largest = part[rows, most]
            wanted = np.where(excess > 0.0, excess / np.maximum(largest, 1e-300) * (1 + 1e-12) + 1e-300, 0.0)
            cut = np.where(largest > 0.0, np.minimum(wanted, shares[rows, most]), 0.0)
            shares[rows, most] -= cut
    # Rounding of the sums above: a factor that is one but for a few digits.
    made = np.einsum("nk,nks->ns", shares, points) * (1.0 + 1e-14)
    with np.errstate(divide="ignore", invalid="ignore"):
        fits = np.where(made > 0.0, beliefs / made, np.inf).min(axis=1)
    return np.asarray(shares * np.minimum(fits, 1.0)[:, None])
