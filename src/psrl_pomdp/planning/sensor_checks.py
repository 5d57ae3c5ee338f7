"""Check that the finite sensors of a plan are below and above the density of a model, by independent code.

The probabilities of all intervals are taken again from the sensor of the model, added up from parts and
compared with the ratios of densities. Every interval's simplex is compared with the box of its ratios, every
atom with the hubs that make it up, and the columns of the table with what the hubs may have at most. Nothing
of how cells and hubs were chosen matters.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from .._utils.arrays import Array, Index
from ..models import POMDP
from ..sensors.base import ScalarSensor
from ..sensors.bracket import DilatedSensors, QuantizedSensors
from ..sensors.cells import Quantization, scalar
from ..sensors.dilation import Dilation
from .certificate_checks import CertificateError
from .sensor_bracket import SensorBracket

_PARTS = 16  # into which intervals are divided: at least as many as for the claim
_PIECES = 8  # of which the mass of a cell is added up
_RELATIVE = 1e-13  # error of a sum of a few products
_MOST_ENTRIES = 10_000_000  # of an array
_SUMS = 4e-12  # error of the longest sums of nonnegative numbers


def checked_slack(bracket: SensorBracket, model: POMDP) -> float:
    """Return by how much the rows of the table of cells may be wrong, after a check of both sensors.

    Raises `CertificateError`.
    """
    setting = model.setting
    _check_settings(bracket, model)
    sensor = scalar(setting.sensor)
    n_sensors = sensor.n_actions or 1
    if len(bracket.cells.by_action) != n_sensors or len(bracket.hubs.by_action) != n_sensors:
        raise CertificateError(f"the plan has no cells and hubs for {n_sensors} densities")
    if (bracket.cells.first is None) != (setting.first_sensor is None) or (bracket.hubs.first is None) != (
        setting.first_sensor is None
    ):
        raise CertificateError(
            "the plan and the model do not agree on an observation before the first action"
        )
    slack = 0.0
    for action in range(n_sensors):
        slack = max(slack, _checked_cells(sensor, action, bracket.cells.by_action[action]))
        check_hubs(sensor, action, bracket.hubs.by_action[action])
    if setting.first_sensor is not None:
        first = scalar(setting.first_sensor)
        assert bracket.cells.first is not None
        assert bracket.hubs.first is not None
        slack = max(slack, _checked_cells(first, 0, bracket.cells.first))
        check_hubs(first, 0, bracket.hubs.first)
    return slack


def _check_settings(bracket: SensorBracket, model: POMDP) -> None:
    """Check that the finite settings are the model's but for the observations."""
    pairs: list[tuple[str, QuantizedSensors | DilatedSensors, object]] = [
        ("cells", bracket.cells, bracket.quantized_setting),
        ("hubs", bracket.hubs, bracket.dilated_setting),
    ]
    for name, sensors, found in pairs:
        right = model.setting.replace(observation=sensors.table, first_observation=sensors.first_table)
        if found != right:
            raise CertificateError(f"the setting with {name} is not that of the model")


def _edges(edges: Array) -> Array:
    """Return edges after a check that they increase from −inf to +inf."""
    if edges.ndim != 1 or len(edges) < 2 or edges[0] != -np.inf or edges[-1] != np.inf:
        raise CertificateError("edges do not begin with −inf and end with +inf")
    if not np.isfinite(edges[1:-1]).all() or not (np.diff(edges) > 0.0).all():
        raise CertificateError("edges do not increase")
    return edges


def _checked_cells(sensor: ScalarSensor, action: int, cells: Quantization) -> float:
    """Return a bound on the error of a row of the table of cells."""
    edges = _edges(cells.edges)
    if cells.table.shape != (sensor.n_states, len(edges) - 1) or not (cells.table >= 0.0).all():
        raise CertificateError("the table of cells has not one column for each cell")
    masses, errors = _masses(sensor, action, edges)
    if not sensor.is_discrete:
        parts = _divided(edges, _PIECES)
        pieces, more = _masses(sensor, action, parts)
        owner = np.searchsorted(edges[1:-1], parts[:-1], side="right")
        total, doubt = np.zeros_like(masses), np.zeros_like(errors)
        np.add.at(total.T, owner, pieces.T)
        np.add.at(doubt.T, owner, more.T)
        if not (np.abs(total - masses) <= errors + doubt + 1e-14 * (masses + 1e-300)).all():
            raise CertificateError("the masses of the parts of a cell do not add up to that of the cell")
    possible = sensor.log_density_bounds(action, edges)[1] > -np.inf
    if ((cells.table == 0.0) & (possible | (errors > 0.0))).any():
        raise CertificateError("a cell that can be met has probability 0 in the table")
    wrong = np.abs(cells.table - masses) + errors + 1e-15 * masses
    return float(wrong.sum(axis=1).max()) * (1.0 + _RELATIVE)


def _masses(sensor: ScalarSensor, action: int, edges: Array) -> tuple[Array, Array]:
    masses, errors = sensor.interval_masses(action, edges)
    if not (np.isfinite(masses) & np.isfinite(errors) & (errors >= 0.0)).all():
        raise CertificateError("the sensor of the model returns masses that are no numbers")
    return np.maximum(masses, 0.0), errors


def _divided(edges: Array, parts: int) -> Array:
    """Return edges with the finite intervals divided into parts."""
    inner = edges[1:-1]
    steps = np.linspace(0.0, 1.0, parts, endpoint=False)
    fine = [a + (b - a) * steps for a, b in pairwise(inner)]
    return np.unique(np.concatenate([edges[[0, -1]], inner[-1:], *fine]))


def check_hubs(sensor: ScalarSensor, action: int, claim: Dilation) -> None:
    """Check that a table tells at least as much as the density.

    Raises `CertificateError`.
    """
    edges, hubs, n_states = _edges(claim.edges), claim.hubs, sensor.n_states
    if hubs.shape[1:] != (n_states,) or len(hubs) < n_states or not (hubs >= 0.0).all():
        raise CertificateError("hubs are no likelihoods")
    if (hubs[:n_states] != np.eye(n_states)).any():
        raise CertificateError("the hubs do not begin with the vertices")
    points = _checked_corners(sensor, action, edges, claim)
    masses, errors = (each.T for each in _masses(sensor, action, edges))
    weights = _least_weights(claim, masses, errors)
    size = points.sum(axis=2)
    corners, shares = claim.corners, claim.shares
    shape = (*size.shape, n_states)
    if corners.shape != shape or shares.shape != shape or corners.min() < 0 or corners.max() >= len(hubs):
        raise CertificateError("corners point outside of the hubs")
    if not (shares >= 0.0).all():
        raise CertificateError("a share is negative")
    at_once = max(1, _MOST_ENTRIES // n_states**3)
    for part in (slice(f, f + at_once) for f in range(0, len(points), at_once)):
        made = np.einsum("fak,faks->fas", shares[part], hubs[corners[part]]) * size[part][..., None]
        if not ((made <= points[part] * (1.0 + _RELATIVE)) | (weights[part] <= 0.0)[..., None]).all():
            raise CertificateError("hubs make up more of an atom than there is")
    total = np.bincount(corners.ravel(), (shares * (weights * size)[..., None]).ravel(), len(hubs))
    most = (hubs.T * total)[:, n_states:] * (1.0 - _SUMS)
    table = claim.table
    if table.shape != (n_states, len(hubs)) or not (table >= 0.0).all():
        raise CertificateError("the table of hubs has not one column for each hub")
    if not (table[:, n_states:] <= most).all():
        raise CertificateError("a hub has more probability than the density gives it")
    vertices = table[:, :n_states]
    if (vertices != np.diag(np.diag(vertices))).any() or np.abs(table.sum(axis=1) - 1.0).max() > _SUMS:
        raise CertificateError("the columns of the vertices do not make the rows of the table sum to 1")


def _checked_corners(sensor: ScalarSensor, action: int, edges: Array, claim: Dilation) -> Array:
    """Return the atoms of all intervals, after a check that they are around the ratios of the densities."""
    n, n_states, frame = len(edges) - 1, sensor.n_states, claim.frames
    shapes = {frame.slope.shape, frame.base.shape, frame.width.shape}
    flat = {frame.reference.shape, frame.pivot.shape, frame.used.shape}
    if shapes != {(n, n_states)} or flat != {(n,)} or not (frame.width >= 0.0).all():
        raise CertificateError("there is not one simplex for each interval")
    rows, pivot = np.arange(n), frame.pivot
    at = np.arange(n_states)
    own = (at == frame.reference[:, None]) | (at == pivot[:, None])
    square = frame.width[rows, pivot] == 0.0
    if (frame.slope[own] != 0.0).any() or (frame.slope[square] != 0.0).any():
        raise CertificateError("a pivot has a slope")
    if (frame.width[rows, frame.reference] != 0.0).any() or (
        frame.used & (frame.base[rows, frame.reference] != 1.0)
    ).any():
        raise CertificateError("the likelihood of the reference is not 1")
    for part in range(0, n, 512):
        _check_boxes(sensor, action, edges, claim, np.arange(part, min(part + 512, n)))
    return _corners(claim)


def _corners(claim: Dilation) -> Array:
    """Return the atoms, [F, S, S], rounded down."""
    frame = claim.frames
    n_states = frame.base.shape[1]
    count = np.maximum((frame.width > 0.0).sum(axis=1), 1)
    points = np.empty((len(frame.base), n_states, n_states))
    for k in range(n_states):
        d = frame.base.copy()
        d[:, k] += count * frame.width[:, k]
        at_pivot = np.take_along_axis(d, frame.pivot[:, None], axis=1)
        moved = frame.slope * at_pivot
        points[:, k] = d + moved - 5e-16 * (np.abs(d) + np.abs(moved)) * (moved != 0.0)
    if (points[frame.used] < -1e-12).any():
        raise CertificateError("an atom has a negative likelihood")
    return np.where(frame.used[:, None, None], np.maximum(points, 0.0), 1.0)


def _check_boxes(sensor: ScalarSensor, action: int, edges: Array, claim: Dilation, some: Index) -> None:
    """Check that the ratios in these intervals are inside of their simplices."""
    frame = claim.frames
    some = some[frame.used[some]]
    if not len(some):
        return
    if not np.isfinite(edges[some]).all() or not np.isfinite(edges[some + 1]).all():
        raise CertificateError("an infinite interval has no simplex")
    low, high = _ratios(sensor, action, edges, frame.reference, some)  # [n, parts, S]
    slope, at = frame.slope[some][:, None], frame.pivot[some][:, None, None]
    first = slope * np.take_along_axis(low, at, axis=2)
    second = slope * np.take_along_axis(high, at, axis=2)
    least = (low - np.maximum(first, second)).min(axis=1)
    most = (high - np.minimum(first, second)).max(axis=1)
    base, width = frame.base[some], frame.width[some]
    inside = (least >= base) & ((width == 0.0) | (most <= base + width))
    inside[np.arange(len(some)), frame.reference[some]] = True
    if not inside.all():
        wrong = int(some[np.argwhere(~inside)[0][0]])
        raise CertificateError(f"interval {wrong} has ratios of likelihoods outside of its simplex")


def _ratios(
    sensor: ScalarSensor, action: int, edges: Array, reference: Index, some: Index
) -> tuple[Array, Array]:
    """Return bounds on the ratios to the reference in the parts of intervals, [n, parts, S] each."""
    parts = 1 if sensor.is_discrete else _PARTS
    low, high = [], []
    ref = reference[some][:, None]
    for k in range(parts):
        left = edges[some] + (edges[some + 1] - edges[some]) * (k / parts)
        right = edges[some] + (edges[some + 1] - edges[some]) * ((k + 1) / parts)
        if k == parts - 1:
            right = edges[some + 1]
        line, place = np.unique(np.concatenate([left, right]), return_inverse=True)
        below, above = sensor.log_density_bounds(action, np.concatenate([[-np.inf], line, [np.inf]]))
        begin, end = place[: len(some)], place[len(some) :]
        if (end - begin != 1).any():
            raise CertificateError("parts of intervals overlap")
        under, over = below[:, 1 + begin].T, above[:, 1 + begin].T
        base, top = np.take_along_axis(under, ref, axis=1), np.take_along_axis(over, ref, axis=1)
        with np.errstate(invalid="ignore", over="ignore"):
            low.append(np.exp(under - top - 1e-15 * (5.0 + np.abs(under) + np.abs(top))))
            high.append(np.exp(over - base + 1e-15 * (5.0 + np.abs(over) + np.abs(base))))
    least, most = np.nan_to_num(np.stack(low, axis=1), nan=0.0), np.stack(high, axis=1)
    most = np.where(np.isnan(most), np.inf, most)
    if sensor.is_discrete:
        masses, errors = (each.T[some] for each in _masses(sensor, action, edges))
        single = np.floor(edges[some + 1]) - np.floor(edges[some]) == 1.0
        mass, error = (np.take_along_axis(each, ref, axis=1) for each in (masses, errors))
        known = single[:, None] & (mass > 2.0 * error)
        with np.errstate(divide="ignore", invalid="ignore"):
            under = np.maximum(masses - errors, 0.0) / (mass + error) * (1.0 - 5e-16)
            over = (masses + errors) / np.maximum(mass - error, 1e-300) * (1.0 + 5e-16)
        least[:, 0] = np.where(known, np.maximum(least[:, 0], under), least[:, 0])
        most[:, 0] = np.where(known, np.minimum(most[:, 0], over), most[:, 0])
    return least, most


def _least_weights(claim: Dilation, masses: Array, errors: Array) -> Array:
    """Return lower bounds on the weights of the atoms as they are in `_corners`, [F, S]."""
    frame = claim.frames
    n, n_states = frame.base.shape
    weights = np.zeros((n, n_states))
    rows = np.arange(n)
    count = np.maximum((frame.width > 0.0).sum(axis=1), 1)
    base = np.where(frame.used[:, None], frame.base, 0.0)
    q_ref, e_ref = masses[rows, frame.reference], errors[rows, frame.reference]
    q_pivot, e_pivot = masses[rows, frame.pivot], errors[rows, frame.pivot]
    first = q_ref - e_ref
    for k in range(n_states):
        slope, b, spread = frame.slope[:, k], base[:, k], frame.width[:, k] > 0.0
        terms = masses[:, k], slope * q_pivot, b * q_ref
        middle = terms[0] - terms[1] - terms[2]
        error = errors[:, k] + np.abs(slope) * e_pivot + np.abs(b) * e_ref
        error += 5e-16 * (terms[0] + np.abs(terms[1]) + np.abs(terms[2]))
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.where(spread, 1.0 / (count * frame.width[:, k]), 0.0)
            weights[:, k] = np.maximum((middle - error) * scale, 0.0)
            first -= np.maximum((middle + error) * scale, 0.0)
    weights[rows, frame.reference] = np.maximum(first, 0.0)
    return np.where(frame.used[:, None], weights, 0.0)
