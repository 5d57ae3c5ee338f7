"""Hubs along the curve of posteriors of a scalar sensor.

Under equally likely states, the posteriors after all readings are a curve in the simplex. With two states,
hubs are points of the curve. With three states, they are pairs of points across the curve at the edges of
cells, as far from one another as the curve bends between two edges. With more states, each part of the curve
between two edges gets a simplex of its own: the control points of the polynomial curve that is nearest to the
part, moved outwards until the simplex contains what matters. States that are unlikely everywhere in a part
are left to their vertices.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import comb

import numpy as np

from .._utils.arrays import Array, Bases, Index
from .base import ScalarSensor
from .cells import posteriors

_THICKNESS = 1.05  # width of the strip of hubs, as a multiple of what the curve bends
_NEGLIGIBLE = 1e-4  # share of the mass of a cell below which an atom may lie outside of its simplex
_SAME = 1e-9  # hubs nearer than this are the same
_TRACE = 1e-8  # coordinates of hubs below this are dropped
_LARGEST_BEND = 0.3  # distance from the chord, as a share of its length, at which a further edge is put
MOST_TRIANGULATED = 6  # states up to which beliefs may be spread onto hubs of several parts (`spreads`)
_MOST_UNLIKELY = 0.03  # posterior of a state that is left to its vertex, at most,
_UNLIKELY, _UNLIKELY_IN_OWN_PART = 0.04, 0.2  # and at most these numbers divided by that of the cells


@dataclass(frozen=True)
class HubPath:
    """Hubs around the parts of a curve."""

    hubs: Array  # [m, S], the vertices first
    part: Index  # [F]: the part in which each small interval is
    own: Bases  # [P, S]: the hubs of each part, filled up with vertices; with few states, vertices only


def hubs_along(
    sensor: ScalarSensor, action: int, cells: Array, edges: Array, atoms: Array, weights: Array
) -> HubPath:
    """Return the vertices and the hubs around the parts of the curve between the edges of cells.

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
    part = np.searchsorted(places, edges[:-1], side="right") - 1
    part = np.clip(part, 0, max(len(places) - 2, 0))
    own = np.tile(np.arange(n_states, dtype=np.int32), (max(len(places) - 1, 1), 1))
    hubs = np.eye(n_states)
    if n_states <= 3 or len(places) == 1:
        path = posteriors(sensor, action, places)
        if n_states == 3 and len(places) > 1:
            path = _strip(path, _radii(path, part[1:-1], atoms[1:-1], weights[1:-1]))
        points = np.concatenate([hubs, _without_traces(path)])
        first = np.unique(np.round(points / _SAME), axis=0, return_index=True)[1]
        return HubPath(np.ascontiguousarray(points[np.sort(first)]), part, own)
    unlikely = _UNLIKELY if n_states <= MOST_TRIANGULATED else _UNLIKELY_IN_OWN_PART
    unlikely = min(_MOST_UNLIKELY, unlikely / (len(cells) - 1))
    found = [hubs]
    count = n_states
    for i in range(len(own)):
        inside = np.flatnonzero((part == i) & (weights.sum(axis=1) > 0.0))
        corners = _simplex(atoms[inside], weights[inside], unlikely) if len(inside) else hubs[:0]
        own[i, : len(corners)] = count + np.arange(len(corners))
        if len(corners):  # a state that is a corner by its vertex may not be one twice
            unused = np.flatnonzero(corners.sum(axis=0) == 0.0)
            own[i, len(corners) :] = unused
        found.append(corners)
        count += len(corners)
    return HubPath(np.concatenate(found), part, own)


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
    """Return hubs without negative and tiny coordinates, normalized.

    A belief with less of a state than a hub cannot use much of the hub, however little both have of it.
    """
    kept = np.where(hubs < _TRACE, 0.0, hubs)
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))


# -- three states ---------------------------------------------------------------------------------


def _radii(path: Array, part: Index, atoms: Array, weights: Array) -> Array:
    """Return how far atoms that matter lie from the chord between the two points around them."""
    chord = np.diff(path, axis=0)
    length = np.linalg.norm(chord, axis=1, keepdims=True)
    direction = (chord / np.where(length > 0.0, length, 1.0))[part]
    away = atoms - path[part][:, None, :]
    along = (away * direction[:, None, :]).sum(axis=2, keepdims=True)
    distance = np.linalg.norm(away - along * direction[:, None, :], axis=2)
    total = np.bincount(part, weights.sum(axis=1), len(chord))
    matters = weights > _NEGLIGIBLE * total[part][:, None]
    radius = np.zeros(len(chord))
    np.maximum.at(radius, part, np.where(matters, distance, 0.0).max(axis=1))
    return radius


def _strip(path: Array, radius: Array) -> Array:
    """Return the points on both sides of the curve at each place, [2 P, 3]."""
    normal = np.full(3, 3**-0.5)
    found = []
    for i, point in enumerate(path):
        chord = path[min(i + 1, len(path) - 1)] - path[max(i - 1, 0)]
        length = float(np.linalg.norm(chord))
        size = _THICKNESS * max(radius[max(i - 1, 0)], radius[min(i, len(radius) - 1)])
        across = np.cross(normal, chord) / length if length >= _SAME <= size else np.zeros(3)
        found += [point + size * across, point - size * across]
    return np.array(found)


# -- more states ----------------------------------------------------------------------------------


def _simplex(atoms: Array, weights: Array, unlikely: float) -> Array:
    """Return the corners of a simplex around the atoms of a part of the curve, [n, S] with n ≤ S.

    Parameters
    ----------
    atoms, weights
        The atoms of the intervals of the part, [f, S, S] and [f, S], in the order of readings.
    unlikely
        States with smaller posteriors at all atoms that matter are left to their vertices.
    """
    n_states = atoms.shape[2]
    matters = weights > _NEGLIGIBLE * weights.sum()
    likely = np.flatnonzero(atoms[matters].max(axis=0) > unlikely)
    n = len(likely)
    if n < 2:
        return np.empty((0, n_states))
    beliefs = atoms[..., likely] / np.maximum(atoms[..., likely].sum(axis=2, keepdims=True), 1e-300)
    plane = np.linalg.svd(np.ones((1, n)))[2][1:].T  # [n, n − 1]
    points = beliefs @ plane
    curve = (points * weights[..., None]).sum(axis=1) / weights.sum(axis=1, keepdims=True)
    control, away = _control_points(curve, points)
    middle = control.mean(axis=0)
    left, sizes, right = np.linalg.svd(control - middle, full_matrices=False)
    thickness = float(np.linalg.norm(away, axis=2)[matters].max()) + 1e-12
    sizes, left, right = np.maximum(sizes, thickness)[: n - 1], left[:, : n - 1], right[: n - 1]
    corners = middle + (left * sizes) @ right
    # Each face is moved outwards to the farthest atom.
    lifted = np.column_stack([corners, np.ones(n)])
    outside = points[matters]
    try:
        coordinates = np.linalg.solve(lifted.T, np.column_stack([outside, np.ones(len(outside))]).T)
    except np.linalg.LinAlgError:
        return np.empty((0, n_states))
    excess = np.maximum(0.0, -coordinates.min(axis=1)) * (1.0 + 1e-7)
    corners = corners * (1.0 + excess.sum()) - excess @ corners
    hubs = np.zeros((n, n_states))
    hubs[:, likely] = _without_traces(corners @ plane.T + 1.0 / n)
    return hubs


def _control_points(curve: Array, points: Array) -> tuple[Array, Array]:
    """Return the Bernstein control points of the polynomial curve nearest to a curve in n − 1 dimensions.

    Returns also what it is away from the points beside the curve.
    """
    n = curve.shape[1] + 1
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=1))])
    if len(curve) < n or not length[-1] > 0.0:
        control = np.repeat(curve.mean(axis=0)[None], n, axis=0)
        return control, points - control[0]
    t = length / length[-1]
    basis = np.stack([comb(n - 1, k) * t**k * (1.0 - t) ** (n - 1 - k) for k in range(n)], axis=1)
    control = np.linalg.lstsq(basis, curve, rcond=1e-10)[0]
    return control, points - (basis @ control)[:, None, :]
