"""Hubs along the curve of posteriors of a scalar sensor, and weights that spread beliefs onto hubs.

With two states, the posteriors under equally likely states are numbers in [0, 1], and hubs are some of them.
With more states they are a curve in the simplex, and around each edge lie the corners of a small simplex
across the curve, as wide as the curve bends between two edges. Beliefs are spread onto the corners of a
Delaunay triangulation, which has the least variance of all triangulations of the hubs; with many states, onto
hubs nearby.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .._utils.arrays import Array, Bases, Index
from .base import ScalarSensor
from .cells import posteriors

MOST_TRIANGULATED = 6  # states up to which hubs are triangulated
_THICKNESS = 1.05  # width of the strip of hubs, as a multiple of what the curve bends
_NEGLIGIBLE = 1e-4  # share of the mass of a cell below which an atom may lie outside of the strip
_SAME = 1e-9  # hubs nearer than this are the same
_TRACE = 1e-8  # coordinates of hubs below this are dropped
_LARGEST_BEND = 0.3  # distance from the chord, as a share of its length, at which a further edge is put
_LARGEST_EXCESS = 0.1  # negative weight with which a belief is still put into the simplex that it is near to


@dataclass(frozen=True)
class HubPath:
    """Hubs around a curve: those at each of its places, and the small intervals between two places."""

    hubs: Array  # [m, S], the vertices first
    rings: Bases  # [P, S − 1]: the hubs around each place
    interval: Index  # [F]: the place before each small interval


def hubs_along(
    sensor: ScalarSensor, action: int, cells: Array, edges: Array, atoms: Array, weights: Array
) -> HubPath:
    """Return the vertices and the hubs around the edges of cells.

    Parameters
    ----------
    sensor, action
        The sensor and the action.
    cells
        The edges of K cells, [K + 1], from −inf to +inf.
    edges, atoms, weights
        The edges of the small intervals, [F + 1], and their atoms, [F, S, S] and [F, S].
    """
    n_states = sensor.n_states
    places = np.unique(np.concatenate([edges[1:2], cells[1:-1], edges[-2:-1]]))
    if n_states > 2:
        places = _with_turning_points(sensor, action, places, edges[1:-1])
    path = posteriors(sensor, action, places)
    interval = np.searchsorted(places, edges[:-1], side="right") - 1
    interval = np.clip(interval, 0, max(len(places) - 2, 0))
    rings = np.repeat(path[:, None, :], max(n_states - 1, 1), axis=1)  # [P, S − 1, S]
    if n_states > 2 and len(places) > 1:
        rings += _strip(path, _radii(path, interval[1:-1], atoms[1:-1], weights[1:-1]))
    points = np.concatenate([np.eye(n_states), _without_traces(rings.reshape(-1, n_states))])
    found = np.unique(np.round(points / _SAME), axis=0, return_index=True, return_inverse=True)
    first, inverse = found[1], found[2].ravel()
    order = np.argsort(first, kind="stable")  # hubs in the order of their first places
    number = np.empty(len(first), np.int32)
    number[order] = np.arange(len(first))
    numbers = number[inverse][n_states:]
    return HubPath(points[first[order]], numbers.reshape(rings.shape[:2]), interval)


def _strip(path: Array, radius: Array) -> Array:
    """Return the corners of a simplex across the curve at each place, less the place, [P, S − 1, S].

    From one place to the next, the simplices turn as little as possible.
    """
    n_states = path.shape[1]
    found = np.zeros((len(path), n_states - 1, n_states))
    before: Array | None = None
    for i in range(len(path)):
        chord = path[min(i + 1, len(path) - 1)] - path[max(i - 1, 0)]
        size = _THICKNESS * max(radius[max(i - 1, 0)], radius[min(i, len(radius) - 1)])
        length = float(np.linalg.norm(chord))
        if size >= _SAME and length >= _SAME:
            before = _across(chord / length, before)
            found[i] = size * (n_states - 2) * before
    return found


def _with_turning_points(sensor: ScalarSensor, action: int, places: Array, edges: Array) -> Array:
    """Return the places and those between two of them where the curve is far from the chord."""
    curve, at = posteriors(sensor, action, edges), np.searchsorted(edges, places)
    extra: list[float] = []
    for first, last in pairwise(np.clip(at, 0, len(edges) - 1).tolist()):
        part = curve[first : last + 1]
        chord = part[-1] - part[0]
        size = float(chord @ chord)
        along = np.clip((part - part[0]) @ chord / (size if size > 0.0 else 1.0), 0.0, 1.0)
        distance = np.linalg.norm(part - part[0] - along[:, None] * chord, axis=1)
        if distance.max() > _LARGEST_BEND * np.sqrt(size) and distance.max() > _SAME:
            extra.append(float(edges[first + int(distance.argmax())]))
    return np.union1d(places, extra)


def _without_traces(hubs: Array) -> Array:
    """Return hubs without tiny coordinates, normalized.

    A belief with less of a state than a hub cannot use much of the hub, however little both have of it.
    """
    kept = np.where(hubs < _TRACE, 0.0, hubs)
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))


def _radii(path: Array, interval: Index, atoms: Array, weights: Array) -> Array:
    """Return how far atoms that matter lie from the chord between the two points around them."""
    chord = np.diff(path, axis=0)
    length = np.linalg.norm(chord, axis=1, keepdims=True)
    direction = chord / np.where(length > 0.0, length, 1.0)
    away = atoms - path[interval][:, None, :]
    along = (away * direction[interval][:, None, :]).sum(axis=2, keepdims=True)
    distance = np.linalg.norm(away - along * direction[interval][:, None, :], axis=2)
    total = np.bincount(interval, weights.sum(axis=1), len(chord))
    matters = weights > _NEGLIGIBLE * total[interval][:, None]
    radius = np.zeros(len(chord))
    np.maximum.at(radius, interval, np.where(matters, distance, 0.0).max(axis=1))
    return radius


def _across(direction: Array, before: Array | None) -> Array:
    """Return the corners of a regular simplex around 0 in the plane across a direction, [S − 1, S].

    It is turned such that its corners are near those of the simplex before.
    """
    n_states = len(direction)
    plane = np.linalg.svd(np.stack([np.full(n_states, n_states**-0.5), direction]))[2][2:]  # [S − 2, S]
    corners = np.eye(n_states - 1) - 1.0 / (n_states - 1)
    corners = np.linalg.svd(corners)[0][:, : n_states - 2]
    corners = corners / np.linalg.norm(corners, axis=1).max()
    if before is not None:
        left, _, right = np.linalg.svd(corners.T @ before @ plane.T)
        corners = corners @ left @ right
    return np.asarray(corners @ plane)


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
            interval = np.repeat(path.interval, n_states)[some]
            corners[some], shares[some] = _in_prisms(beliefs[some], path, interval)
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
    points = hubs[corners]
    flat = np.abs(np.linalg.det(points)) < 1e-14
    corners[flat], points[flat] = vertices, np.eye(n_states)
    shares = np.linalg.solve(points.transpose(0, 2, 1), beliefs[..., None])[..., 0]
    return corners, np.maximum(shares, 0.0)


def _in_prisms(beliefs: Array, path: HubPath, interval: Index) -> tuple[Bases, Array]:
    """Return the corners of the simplex that contains each belief, of those that make up its prism.

    The prism of an interval has the hubs around the places before and after it as its ends. It is made up of
    S − 1 simplices, with some corners of one end and the others of the other end.
    """
    n_states = beliefs.shape[1]
    corners = np.tile(np.arange(n_states, dtype=np.int32), (len(beliefs), 1))
    shares = np.maximum(beliefs, 0.0)
    best = np.full(len(beliefs), -_LARGEST_EXCESS)
    for k in range(1, n_states):
        tried = np.concatenate([path.rings[interval, :k], path.rings[interval + 1, k - 1 :]], axis=1)
        points = path.hubs[tried]
        solvable = np.linalg.cond(points) < 1e13
        found = np.full(beliefs.shape, -1.0)
        wanted = beliefs[solvable][..., None]
        found[solvable] = np.linalg.solve(points[solvable].transpose(0, 2, 1), wanted)[..., 0]
        least = found.min(axis=1)
        better = least > best
        corners[better], shares[better], best[better] = tried[better], found[better], least[better]
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
