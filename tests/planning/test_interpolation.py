"""Interpolation between beliefs against linear programs, and the repair of its weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.planning.beliefs import drop_small_coordinates
from psrl_pomdp.planning.interpolation.bases import ratio_test
from psrl_pomdp.planning.interpolation.pricing import LIST, make_workspace
from psrl_pomdp.planning.interpolation.programs import (
    FACE_TOLERANCE,
    UNLIMITED_EFFORT,
    interpolate,
    repaired_value,
)
from psrl_pomdp.planning.verification import interpolated_mean, repaired_weights


def workspace_for(points: Array, face: float = FACE_TOLERANCE) -> Any:
    """A workspace, made without compiling the function that compiled functions make theirs with."""
    return make_workspace.py_func(points, points.shape[1], face)


def cloud(rng: np.random.Generator, n_states: int, extra: int) -> Array:
    """The vertices, points on faces, and points inside, as columns."""
    inner = rng.dirichlet(np.full(n_states, 0.5), size=extra)
    inner[inner < 0.05] = 0.0
    points = np.concatenate([np.eye(n_states), inner / inner.sum(axis=1, keepdims=True)])
    return np.ascontiguousarray(points.T)


@pytest.mark.parametrize("extra", [40, 7 * LIST])
@pytest.mark.parametrize("n_states", [2, 3, 5, 9])
def test_interpolation_solves_its_linear_program(n_states: int, extra: int) -> None:
    """Against HiGHS, cold and from the last basis; with points that a short list holds, or not."""
    rng = np.random.default_rng(n_states)
    for _ in range(20):
        points = cloud(rng, n_states, extra)
        h, n = rng.random((points.shape[1],)), points.shape[1]
        basis, weights = np.full(n_states, -1, np.int32), np.zeros(n_states)
        for _ in ("from the vertices", "from the last basis"):
            tau = rng.dirichlet(np.full(n_states, 0.5))
            tau[rng.integers(n_states)] *= rng.integers(2) if n_states > 2 else 1  # on a face now and then
            tau /= tau.sum()
            value, _ = interpolate(points, h, n, tau, basis, weights, workspace_for(points), UNLIMITED_EFFORT)
            best = linprog(-h, A_eq=points, b_eq=tau, bounds=(0, None), method="highs")
            assert value == pytest.approx(-best.fun, abs=1e-8)
            assert points[:, basis] @ weights == pytest.approx(tau, abs=1e-9)


@pytest.mark.parametrize("face", [1e-3, 0.05])
def test_little_coordinates_are_left_to_the_vertices(face: float) -> None:
    """Against HiGHS on the rest; and from there on a larger face, for which the basis is complete."""
    rng = np.random.default_rng(21)
    left = 0
    for _ in range(60):
        n_states = int(rng.integers(3, 10))
        points = cloud(rng, n_states, 40)
        points = np.concatenate([np.eye(n_states), points[:, points.max(axis=0) < 1.0]], axis=1)
        n = points.shape[1]
        h: Array = np.asarray(rng.random(n) + 0.2)
        tau = rng.dirichlet(np.full(n_states, 0.3))
        kept = tau > face
        left += int((~kept & (tau > FACE_TOLERANCE)).sum())
        basis, weights = np.full(n_states, -1, np.int32), np.zeros(n_states)
        value, _ = interpolate(
            points, h, n, tau, basis, weights, workspace_for(points, face), UNLIMITED_EFFORT
        )
        inside = (points[~kept] == 0.0).all(axis=0)
        part: Any = linprog(
            -h[inside], A_eq=points[kept][:, inside], b_eq=tau[kept], bounds=(0, None), method="highs"
        )
        assert value == pytest.approx(-part.fun + h[:n_states][~kept] @ tau[~kept], abs=1e-8)
        assert points[:, basis] @ weights == pytest.approx(tau, abs=1e-9)
        assert weights @ h[basis] == pytest.approx(value, abs=1e-12)
        whole, _ = interpolate(points, h, n, tau, basis, weights, workspace_for(points), UNLIMITED_EFFORT)
        exact: Any = linprog(-h, A_eq=points, b_eq=tau, bounds=(0, None), method="highs")
        assert whole == pytest.approx(-exact.fun, abs=1e-8)
        assert whole >= value - 1e-9
    assert left > 30


def test_little_effort_never_loses_and_comes_to_the_same_in_the_end() -> None:
    rng = np.random.default_rng(8)
    stopped_early = 0
    for _ in range(20):
        points = cloud(rng, 6, 7 * LIST)
        n, tau = points.shape[1], rng.dirichlet(np.full(6, 0.5))
        h = 1.0 - (points**2).sum(axis=0)  # concave, so that every point is of use somewhere
        basis, weights = np.full(6, -1, np.int32), np.zeros(6)
        interpolate(
            points,
            rng.random((n,)),
            n,
            tau,
            basis,
            weights,
            workspace_for(points),
            UNLIMITED_EFFORT,
        )
        best = -linprog(-h, A_eq=points, b_eq=tau, bounds=(0, None), method="highs").fun
        last = float(weights @ h[basis])
        for turn in range(50):
            value, _ = interpolate(points, h, n, tau, basis, weights, workspace_for(points), 0.0)
            assert value == pytest.approx(float(weights @ h[basis]), abs=1e-12)
            assert last - 1e-12 <= value <= best + 1e-9
            assert points[:, basis] @ weights == pytest.approx(tau, abs=1e-9)
            if value > best - 1e-9:
                stopped_early += turn > 0
                break
            last = value
        assert value == pytest.approx(best, abs=1e-9)
    assert stopped_early > 10


@pytest.mark.parametrize("listed", [True, False])
def test_a_basis_of_a_belief_near_by_is_a_good_start(listed: bool) -> None:
    """Its prices are right and some weights negative, which takes few pivots; from a smaller face, too."""
    rng = np.random.default_rng(9)
    cold_work, near_work = np.zeros(2), np.zeros(2)  # from a smaller face, and on the same
    for turn in range(40):
        points = cloud(rng, 9, 4 * LIST)
        n, there, here = points.shape[1], rng.dirichlet(np.ones(9)), rng.dirichlet(np.ones(9))
        h = 1.0 - (points**2).sum(axis=0)
        one, other = np.sort(rng.permutation(9)[:2])
        there[[one, other]] *= turn % 2
        there /= there.sum()
        here = 0.9 * there + 0.1 * here
        here[one] *= turn % 2
        here /= here.sum()
        cold, near, weights = np.full(9, -1, np.int32), np.full(9, -1, np.int32), np.zeros(9)
        interpolate(points, h, n, there, near, weights, workspace_for(points), UNLIMITED_EFFORT)
        near_enough = np.argsort(((points - here[:, None]) ** 2).sum(axis=0))[: LIST - 9]
        values = []
        for basis in (cold, near):
            workspace = workspace_for(points)
            if listed:
                workspace.short_list[: LIST - 9], workspace.short_list[LIST] = near_enough, LIST - 9
            value, work = interpolate(points, h, n, here, basis, weights, workspace, UNLIMITED_EFFORT)
            assert points[:, basis] @ weights == pytest.approx(here, abs=1e-9)
            values.append(value)
            (cold_work if basis is cold else near_work)[turn % 2] += work
        assert values[1] == pytest.approx(values[0], abs=1e-9)
    assert (near_work < 0.7 * cold_work).all()


def test_a_start_near_by_loses_nothing_between_points_that_nearly_coincide() -> None:
    """Pivots of rounding ruin a basis there, and then it has to begin again, not to end at the vertices."""
    rng = np.random.default_rng(10)
    for _ in range(150):
        inner = rng.dirichlet(np.full(6, 0.5), size=60)
        twins = inner[:40] * (1.0 + 1e-6 * rng.standard_normal((40, 6)))
        inner[rng.integers(60, size=40)] = twins / twins.sum(axis=1, keepdims=True)
        points = np.ascontiguousarray(np.concatenate([np.eye(6), inner]).T)
        n, h = points.shape[1], 1.0 - (points**2).sum(axis=0)
        near, weights = np.full(6, -1, np.int32), np.zeros(6)
        for tau in rng.dirichlet(np.full(6, 0.5), size=12):
            cold = np.full(6, -1, np.int32)
            best, _ = interpolate(points, h, n, tau, cold, weights, workspace_for(points), UNLIMITED_EFFORT)
            value, _ = interpolate(points, h, n, tau, near, weights, workspace_for(points), UNLIMITED_EFFORT)
            assert value == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("seed", [3107, 10677, 13106, 20601, 22428, 33553])
def test_a_ruined_basis_is_made_again_with_more_care(seed: int) -> None:
    """Beliefs that are points themselves, among many that nearly coincide: the point alone will do."""
    rng = np.random.default_rng(seed)
    inner = drop_small_coordinates(np.asarray(rng.dirichlet(np.full(6, 0.5), size=200)), 1e-8)
    twins = inner[:100] * (1 + 1e-6 * rng.standard_normal((100, 6)))
    inner[100:] = twins / twins.sum(axis=1, keepdims=True)
    points = np.ascontiguousarray(np.concatenate([np.eye(6), inner]).T)
    n, h = points.shape[1], np.asarray(rng.random(points.shape[1]))
    for k in rng.integers(200, size=12):
        basis, weights, workspace = (
            np.full(6, -1, np.int32),
            np.zeros(6),
            workspace_for(points),
        )
        value, _ = interpolate(points, h, n, inner[k], basis, weights, workspace, UNLIMITED_EFFORT)
        assert value >= h[6 + k] - 1e-9


def test_the_row_to_leave_has_a_pivot_that_is_not_rounding() -> None:
    """Weights of zero and of rounding limit a step alike; a pivot of rounding would ruin the basis."""
    x, column = np.array([0.0, 1e-16, 0.5]), np.array([1e-8, 0.5, 0.1])
    leave, step = ratio_test(x, column, 3)
    assert leave == 1
    assert step == pytest.approx(2e-16, rel=1e-9)
    assert (x - step * column >= -1e-13).all()
    assert ratio_test(x, -column, 3)[0] == -1


def test_interpolation_between_a_list_of_points_alone() -> None:
    """The program over the listed points; those outside the face of the belief cannot take part."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        n_states = int(rng.integers(4, 8))
        points = cloud(rng, n_states, 40)
        n = points.shape[1]
        h = np.asarray(rng.random(size=(n,)))
        tau = rng.dirichlet(np.full(n_states, 0.5))
        tau[0] = 0.0
        tau /= tau.sum()
        listed = np.concatenate([np.arange(n_states), np.arange(n_states, n, 3)])
        basis, weights = np.full(n_states, -1, np.int32), np.zeros(n_states)
        workspace = workspace_for(points)
        workspace.short_list[: len(listed)], workspace.short_list[LIST] = listed, len(listed)
        value, _ = interpolate(points, h, 0, tau, basis, weights, workspace, UNLIMITED_EFFORT)
        best = linprog(-h[listed], A_eq=points[:, listed], b_eq=tau, bounds=(0, None), method="highs")
        assert value == pytest.approx(-best.fun, abs=1e-8)
        assert points[:, basis] @ weights == pytest.approx(tau, abs=1e-9)
        assert workspace.short_list[LIST] == 0  # a list is for one belief


def test_repaired_values_lie_below_every_concave_function() -> None:
    """Also with weights that are wrong on purpose: they only make the value smaller."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        n_states = int(rng.integers(2, 6))
        points = cloud(rng, n_states, 20)
        planes = rng.standard_normal((6, n_states))
        h = (planes @ points).min(axis=0)
        tau = rng.dirichlet(np.full(n_states, 0.5))
        basis, weights = np.full(n_states, -1, np.int32), np.zeros(n_states)
        n = points.shape[1]
        interpolate(points, h, n, tau, basis, weights, workspace_for(points), UNLIMITED_EFFORT)
        workspace = np.empty(n_states), np.empty(n_states)
        good = repaired_value(points, h, tau, basis, weights, *workspace)
        assert good <= (planes @ tau).min() + 1e-12
        for largest in (1.5, 1e17):
            spoiled = (weights + 1e-3) * rng.uniform(0.5, largest, n_states)
            assert repaired_value(points, h, tau, basis, spoiled, *workspace) <= (planes @ tau).min() + 1e-12


@pytest.mark.parametrize("largest", [2.0, 1e17])
def test_the_repair_of_verify_lies_below_every_concave_function(largest: float) -> None:
    """With weights that make up too much: trimming must take value away with the weight, and leave no room
    for more where what is subtracted is so large that nothing but rounding remains."""
    rng = np.random.default_rng(9)
    for _ in range(200):
        n_states = int(rng.integers(2, 6))
        points = cloud(rng, n_states, 20).T
        planes = rng.standard_normal((6, n_states)) + 5.0
        h = (points @ planes.T).min(axis=1)
        tau = rng.dirichlet(np.ones(n_states), size=4)
        basis = rng.integers(len(points), size=(4, n_states)).astype(np.int32)
        kept, rest = repaired_weights(points, tau, basis, rng.uniform(0.0, largest, (4, n_states)))
        value = interpolated_mean(kept, h[basis], rest, h)
        assert (value <= (tau @ planes.T).min(axis=1) + 1e-12).all()
