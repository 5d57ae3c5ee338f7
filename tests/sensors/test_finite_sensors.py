"""Finite sensors below and above a density: their order by linear programs, masses and symmetries."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from psrl_pomdp import CertificateError, InvalidModelError, Setting
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.planning.sensor_checks import check_hubs
from psrl_pomdp.sensors import (
    ExponentialSensor,
    GammaSensor,
    GaussianSensor,
    LogNormalSensor,
    MixtureSensor,
    MultivariateGaussianSensor,
    NegativeBinomialSensor,
    PoissonSensor,
    ScalarSensor,
    StudentSensor,
    by_action,
)
from psrl_pomdp.sensors.bracket import dilated, quantized
from psrl_pomdp.sensors.cells import cell_edges, cell_table, quantization
from psrl_pomdp.sensors.dilation import Dilation, atom_weights, columns, dilation
from psrl_pomdp.sensors.frames import frames
from psrl_pomdp.sensors.hubs import HubPath
from psrl_pomdp.sensors.spreads import spread

RAILWAY = GaussianSensor([1.0, 0.0, -1.0], [1.0, 0.5, 0.2])
SENSORS: dict[str, ScalarSensor] = {
    "railway": RAILWAY,
    "two states": GaussianSensor([0.0, 1.0], [1.0, 1.0]),
    "four states": GaussianSensor(np.arange(4.0), np.ones(4)),
    "equal states": GaussianSensor([0.0, 0.0, 1.0], [1.0, 1.0, 2.0]),
    "student": StudentSensor([0.0, 1.0, 2.0], [1.0, 0.5, 1.0], 1.0),
    "gamma": GammaSensor([0.5, 2.0, 3.0], [1.0, 1.0, 0.5]),
    "exponential": ExponentialSensor([1.0, 2.0, 4.0]),
    "poisson": PoissonSensor([0.0, 2.0, 6.0]),
    "many counts": PoissonSensor([1000.0, 1030.0, 1060.0]),
    "negative binomial": NegativeBinomialSensor([1.0, 4.0, 10.0], [2.0, 2.0, 2.0]),
    "mixture": MixtureSensor(
        [GaussianSensor([0.0, 1.0, 2.0], np.ones(3)), StudentSensor(np.ones(3), 5 * np.ones(3), 1.0)],
        [0.9, 0.1],
    ),
    "eight states": GaussianSensor(np.arange(8.0), np.ones(8)),
}


def violation(big: Array, small: Array) -> float:
    """How far `small` is from a garbling of `big`: the least largest error of big G = small, G stochastic."""
    n_states, m = big.shape
    n = small.shape[1]
    product, rows = sp.kron(sp.csr_matrix(big), sp.eye(n)), sp.kron(sp.eye(m), np.ones((1, n)))
    ones = sp.csr_matrix(np.ones((n_states * n, 1)))
    found = linprog(
        np.append(np.zeros(m * n), 1.0),
        A_ub=sp.vstack([sp.hstack([product, -ones]), sp.hstack([-product, -ones])]),
        b_ub=np.concatenate([small.ravel(), -small.ravel()]),
        A_eq=sp.hstack([rows, sp.csr_matrix((m, 1))]),
        b_eq=np.ones(m),
        method="highs",
    )
    return float(found.x[-1])


# -- Blackwell's order ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SENSORS)
def test_hubs_tell_more_than_many_cells_and_these_more_than_few(name: str) -> None:
    sensor = SENSORS[name]
    hubs, many, few = (
        dilated(sensor, None, 4).table,
        quantized(sensor, None, 40).table,
        quantized(sensor, None, 5).table,
    )
    assert violation(hubs, many) < 1e-9
    assert violation(many, few) < 1e-9
    if name != "poisson":  # whose few counts are cells of their own
        assert violation(few, many) > 1e-4
        assert violation(many, hubs) > 1e-4


def mutant_without_vertices(sensor: ScalarSensor, n_cells: int) -> Array:
    """Hubs moved towards their center, and their weights normalized in place of the vertices."""
    table = dilation(sensor, 0, n_cells).table[:, sensor.n_states :]
    weight = table.sum(axis=0)
    hubs = table / np.where(weight > 0.0, weight, 1.0)
    center = table.sum(axis=1) / weight.sum()
    moved = (0.9 * hubs + 0.1 * center[:, None]) * weight
    return np.asarray(moved / moved.sum(axis=1, keepdims=True))


def mutant_chords(sensor: ScalarSensor, n_cells: int) -> Array:
    """Masses of cells as combinations of the ends of the cell alone, clipped and normalized."""
    cells = quantization(sensor, 0, n_cells)
    ends = np.clip(cells.edges, -6.0, 8.0)
    points = np.exp(sensor.log_likelihood(0, ends)).T
    columns = []
    for k in range(len(ends) - 1):
        weights = np.linalg.lstsq(points[:, k : k + 2], cells.table[:, k], rcond=None)[0]
        columns.append(points[:, k : k + 2] * np.maximum(weights, 0.0))
    table = np.concatenate(columns, axis=1)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("mutant", [mutant_without_vertices, mutant_chords])
def test_wrong_dilations_are_caught_by_the_program(mutant: Any) -> None:
    for name in ("railway", "four states"):
        many = quantized(SENSORS[name], None, 40).table
        assert violation(mutant(SENSORS[name], 6), many) > 1e-4


@pytest.mark.parametrize("name", SENSORS)
def test_dilations_pass_the_independent_check(name: str) -> None:
    for n_cells in (3, 16):
        check_hubs(SENSORS[name], 0, dilation(SENSORS[name], 0, n_cells))


def changed(claim: Dilation, part: str, where: Any, value: Any) -> Dilation:
    array: Any = np.array(getattr(claim, part))
    array[where] = value
    changes: dict[str, Any] = {part: array}
    return replace(claim, **changes)


def test_dilations_that_claim_too_much_are_refused() -> None:
    """Each change tells less about the state than the density, or makes numbers no dilation."""
    claim = dilation(RAILWAY, 0, 4)
    middle = len(claim.edges) // 2
    hub = int(np.argmax(claim.table[:, 3:].sum(axis=0))) + 3
    most = claim.table[:, hub]
    atom = tuple(int(i) for i in np.argwhere(claim.shares > 0.5)[0])
    less = claim.table.copy()
    less[:, hub] += 1e-9 * most
    less[np.arange(3), np.arange(3)] -= 1e-9 * most
    frames = claim.frames
    narrow = frames.width.copy()
    narrow[middle] *= 0.9
    higher = frames.base.copy()
    higher[middle] *= 1.0 + 1e-6
    wrong = [
        (replace(claim, table=less), "more probability"),
        (
            changed(claim, "shares", atom, claim.shares[atom] * (1.0 + 1e-9)),
            r"more of an atom|more probability",
        ),
        (changed(claim, "hubs", hub, [0.2, 0.3, 0.5]), r"more of an atom|more probability"),
        (changed(claim, "hubs", 0, [0.9, 0.1, 0.0]), "vertices"),
        (changed(claim, "edges", 5, claim.edges[6]), "increase"),
        (replace(claim, frames=replace(frames, width=narrow)), r"outside of its simplex|more"),
        (replace(claim, frames=replace(frames, base=higher)), r"outside of its simplex|reference"),
        (changed(claim, "corners", atom, len(claim.hubs)), "outside of the hubs"),
        (replace(claim, table=0.999 * claim.table), "sum to 1"),
    ]
    check_hubs(RAILWAY, 0, claim)
    for bad, message in wrong:
        with pytest.raises(CertificateError, match=message):
            check_hubs(RAILWAY, 0, bad)


class Steps(ScalarSensor):
    """A density that is constant between the edges 0, 1, .., n: as good as n observations."""

    family = "steps"

    def __init__(self, table: Array) -> None:
        self._set(table=np.asarray(table), n_states=len(table), n_actions=None)

    table: Array

    def _contents(self) -> tuple[str, list[Array]]:
        return "steps", [self.table]

    def described(self) -> str:
        return "steps"

    def log_likelihood(self, action: int, observations: Array) -> Array:
        inside = np.clip(np.ceil(observations) - 1, 0, self.table.shape[1] - 1).astype(int)
        return np.log(self.table[:, inside]).T

    def draw(self, rng: Any, action: int, states: Any, previous: Any = None) -> Array:
        raise NotImplementedError

    def interval_masses(self, action: int, edges: Array) -> tuple[Array, Array]:
        at = np.clip(edges, 0.0, self.table.shape[1])
        total = np.concatenate([np.zeros((len(self.table), 1)), np.cumsum(self.table, axis=1)], axis=1)
        below = np.stack([np.interp(at, np.arange(total.shape[1]), row) for row in total])
        masses = np.diff(below, axis=1)
        return masses, 1e-15 * np.ones(masses.shape)

    def log_density_bounds(self, action: int, edges: Array) -> tuple[Array, Array]:
        n = self.table.shape[1]
        log = np.log(np.concatenate([np.full((len(self.table), 1), 1e-300), self.table], axis=1))
        first = np.clip(np.floor(edges[:-1]), -1, n - 1).astype(int) + 1
        last = np.clip(np.ceil(edges[1:]) - 1, -1, n - 1).astype(int) + 1
        low = np.full((len(self.table), len(first)), np.inf)
        high = -low
        for k, (a, b) in enumerate(zip(first, last, strict=True)):
            part = log[:, a : b + 1]
            low[:, k], high[:, k] = part.min(axis=1), part.max(axis=1)
        outside = (edges[:-1] < 0.0) | (edges[1:] > n)
        return np.where(outside, -np.inf, low), high


def test_steps_are_as_good_as_finitely_many_observations() -> None:
    table = np.array([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]])
    sensor = Steps(table)
    aligned = np.array([-np.inf, 0.0, 1.0, 2.0, 3.0, np.inf])
    cells, error = cell_table(sensor, 0, aligned)
    np.testing.assert_allclose(cells[:, 1:4], table, atol=1e-14)
    assert error < 1e-13
    hubs = np.concatenate([np.eye(2), (table / table.sum(axis=0)).T])
    found = frames(sensor, 0, aligned)
    weights = atom_weights(sensor, 0, aligned, found)
    path = HubPath(hubs, np.zeros(5, np.int64), np.zeros((1, 2), np.int32))
    corners, shares = spread(found.atoms(), weights, path)
    claim = Dilation(aligned, found, hubs, corners, shares, columns(hubs, corners, shares, weights))
    check_hubs(sensor, 0, claim)
    assert violation(claim.table, table) < 1e-9
    assert violation(table, claim.table) < 1e-7


def test_hubs_with_more_cells_are_nearer_to_the_density() -> None:
    for name in ("railway", "two states", "four states", "student"):
        sensor = SENSORS[name]
        posterior = []
        for n_cells in (8, 16, 32, 64):
            table = dilated(sensor, None, n_cells).table
            below = quantized(sensor, None, n_cells).table
            # The mean square of the posterior under equally likely states rises with what a sensor tells.
            posterior.append(
                [(t**2 / np.maximum(t.sum(axis=0), 1e-300)).sum() / len(t) for t in (below, table)]
            )
        low, high = np.array(posterior).T
        assert (np.diff(low) > 0.0).all()
        assert (np.diff(high) < 0.0).all()
        assert (high > low[-1]).all()
        assert high[-1] - low[-1] < 0.1 * (high[0] - low[0])


def test_nested_cells_are_unions() -> None:
    for sensor in SENSORS.values():
        for n_cells in (2, 4, 8, 16):
            few, many = cell_edges(sensor, 0, n_cells), cell_edges(sensor, 0, 2 * n_cells)
            assert np.isin(few, many).all()


# -- masses ---------------------------------------------------------------------------------------


def exact_tail(z: str, digits: int = 40) -> Decimal:
    """The probability of a standard normal number above z, by its series or continued fraction."""
    with localcontext() as context:
        context.prec = 80
        x = Decimal(z)
        pi = Decimal(
            "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534"
        )
        density = (-x * x / 2).exp() / (2 * pi).sqrt()
        if x < 4:
            term = total = x
            k = 0
            while abs(term) > Decimal(10) ** -digits * Decimal("1e-20"):
                k += 1
                term = term * x * x / (2 * k + 1)
                total += term
            return Decimal("0.5") - density * total
        fraction = x
        for k in range(4000, 0, -1):
            fraction = x + k / fraction
        return density / fraction


def test_masses_of_gaussian_cells_far_out_against_forty_digits() -> None:
    sensor = GaussianSensor([0.0, 1.0], [1.0, 1.0])
    inner = ["0.5", "1", "2.25", "4", "5", "8", "12.5", "20", "30"]
    edges = np.concatenate([[-np.inf], [float(x) for x in inner], [np.inf]])
    masses, errors = sensor.interval_masses(0, edges)
    for s, mean in enumerate(("0", "1")):
        tails = [Decimal(1)]
        for x in inner:
            z = Decimal(x) - Decimal(mean)
            tails.append(exact_tail(str(z)) if z >= 0 else 1 - exact_tail(str(-z)))
        tails.append(Decimal(0))
        for k in range(len(inner) + 1):
            right = tails[k] - tails[k + 1]
            assert abs(Decimal(float(masses[s, k])) - right) <= Decimal(float(errors[s, k]))


def test_rows_sum_to_one_and_far_cells_stay_possible() -> None:
    for sensor in SENSORS.values():
        for n_cells in (1, 4, 64):
            for table in (quantized(sensor, None, n_cells).table, dilated(sensor, None, n_cells).table):
                np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-12)
                assert (table >= 0.0).all()
    sharp = GaussianSensor([0.0, 1.0], [1e-3, 1e-3])
    assert (quantization(sharp, 0, 8).table > 0.0).all()  # a reading far away is never impossible


# -- symmetries -----------------------------------------------------------------------------------


def test_units_and_the_order_of_states_do_not_matter() -> None:
    means, sds = np.array([1.0, 0.0, -1.0]), np.array([1.0, 0.5, 0.2])
    for n_cells in (6, 16):
        cells, hubs = (make(RAILWAY, None, n_cells).table for make in (quantized, dilated))
        log = LogNormalSensor(means, sds)
        np.testing.assert_allclose(quantized(log, None, n_cells).table, cells, atol=1e-4)
        moved = GaussianSensor(8.0 * means + 32.0, 8.0 * sds)
        np.testing.assert_allclose(quantized(moved, None, n_cells).table, cells, atol=1e-9)
        order = [2, 0, 1]
        other = GaussianSensor(means[order], sds[order])
        np.testing.assert_allclose(quantized(other, None, n_cells).table, cells[order], atol=1e-9)
        again = dilated(other, None, n_cells).table
        for table, right in ((again, hubs[order]), (dilated(moved, None, n_cells).table, hubs)):
            moments = [(t[i] * t[j] / np.maximum(t.sum(axis=0), 1e-300)).sum()
                       for t in (table, right) for i in range(3) for j in range(3)]  # fmt: skip
            np.testing.assert_allclose(moments[:9], moments[9:], atol=1e-6)


# -- settings -------------------------------------------------------------------------------------


def test_settings_with_cells_and_hubs() -> None:
    cost = [[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]]
    setting = Setting(RAILWAY, cost, [1.0, 0.0, 0.0], states=["good", "fair", "poor"], units="euro")
    for found in (setting.quantized(4), setting.dilated(4)):
        assert found.is_finite
        assert found.first_observation is not None
        assert found.states == setting.states
        assert found.units == setting.units
        assert found.quantized(3) is found
        assert found.dilated(3) is found
    assert setting.quantized(4).n_observations == 4
    silent = Setting(by_action([None, RAILWAY]), cost, [1.0, 0.0, 0.0])
    table = silent.quantized(4).observation
    assert (table[0] == [[1.0, 0.0, 0.0, 0.0]] * 3).all()
    hubs = silent.dilated(4).observation[0]
    np.testing.assert_allclose((hubs**2 / np.maximum(hubs.sum(axis=0), 1e-300)).sum(), 1.0, atol=1e-9)
    assert silent.quantized(4).first_observation is None


def test_what_has_no_finite_sensors_is_refused() -> None:
    plane = MultivariateGaussianSensor([[0.0, 0.0], [1.0, 1.0]], [np.eye(2), 2.0 * np.eye(2)])
    setting = Setting(plane, [[0.0, 1.0]], [1.0, 0.0])
    with pytest.raises(InvalidModelError, match="Gaussian vectors"):
        setting.quantized(4)
    with pytest.raises(InvalidModelError, match="cells"):
        Setting(RAILWAY, [[0.0, 1.0, 1.0]], [1.0, 0.0, 0.0]).quantized(0)
