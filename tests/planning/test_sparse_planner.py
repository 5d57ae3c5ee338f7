"""Planning for models whose arrays would be too large: the informed bound, sparse controllers, limits."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from model_strategies import random_model
from psrl_pomdp import (
    POMDP,
    CertificateError,
    InvalidModelError,
    ParseError,
    Plan,
    Setting,
    StartDependentError,
    plan,
    problem,
    verify,
)
from psrl_pomdp._serialization.archives import SizeLimit, pack, unpack
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.planning import Round
from psrl_pomdp.planning import solve as planner
from psrl_pomdp.planning.dynamics import Dynamics
from psrl_pomdp.planning.limits import LimitReached, Limits, unlimited
from psrl_pomdp.planning.lower.informed import InformedCertificate
from psrl_pomdp.planning.multichain.closed_classes import AbsorbingStates, closed_class_problems
from psrl_pomdp.planning.parameters import PlannerParameters, RepresentationParameters
from psrl_pomdp.planning.sparse.beliefs import covering_points
from psrl_pomdp.planning.sparse.bound_pair import SparseBoundPair
from psrl_pomdp.planning.sparse.controllers import SparseControllerSearch
from psrl_pomdp.planning.sparse.dynamics import SparseDynamics
from psrl_pomdp.planning.sparse.informed_bound import InformedBound
from psrl_pomdp.planning.upper.controllers import ControllerSearch


def with_arrays(**changes: float) -> PlannerParameters:
    """Parameters with these limits for dense arrays."""
    return PlannerParameters(representation=RepresentationParameters(**changes))  # type: ignore[arg-type]


@pytest.fixture
def sparse_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `plan` take small models for large ones."""
    monkeypatch.setattr(planner, "PARAMETERS", with_arrays(dense_entries=0, dense_work=0))


def sparse_model(n_states: int, seed: int = 0, n_actions: int = 3, n_readings: int = 6) -> POMDP:
    """Random, with four next states a row and two readings a state."""
    rng = np.random.default_rng(seed)
    transition = np.zeros((n_actions, n_states, n_states))
    for a in range(n_actions):
        for s in range(n_states):
            np.add.at(transition[a, s], rng.integers(n_states, size=4), rng.dirichlet(np.ones(4)))
    sensor = np.zeros((n_states, n_readings))
    for s in range(n_states):
        sensor[s, rng.choice(n_readings, 2, replace=False)] = 0.8, 0.2
    start = np.full(n_states, 1 / n_states)
    return POMDP(Setting(sensor, rng.random((n_actions, n_states)), start), transition)


def search_for_a_door(length: int) -> POMDP:
    """A dark corridor with a door at a place that nobody knows; moving costs .6, being outside .5, for ever.

    States are (place, door) and outside. A bump at the ends is all that is read.
    """
    n = length * length + 1
    transition, cost = np.zeros((3, n, n)), np.full((3, n), 0.6)
    sensor = np.zeros((n, 3))
    for place in range(length):
        for door in range(length):
            s = place * length + door
            sensor[s, 1 if place in (0, length - 1) else 0] = 1.0
            for a, step in ((0, -1), (1, 1)):
                onward = min(max(place + step, 0), length - 1) * length + door
                transition[a, s, onward] += 0.9
                transition[a, s, s] += 0.1
            transition[2, s, n - 1 if place == door else s] = 1.0
    transition[:, n - 1, n - 1] = 1.0
    cost[:, n - 1] = 0.5
    sensor[n - 1, 2] = 1.0
    start = np.append(np.full(n - 1, 1 / (n - 1)), 0.0)
    return POMDP(Setting(sensor, cost, start, first_observation=None), transition)


# -- the same model, kept sparse -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tiger", "railway", "noisy-grid", "two-rooms", "river-swim"])
def test_sparse_dynamics_are_the_dense_ones(name: str) -> None:
    model = problem(name)
    dense, sparse = Dynamics.of(model), SparseDynamics.of(model)
    assert sparse.states == dense.states
    np.testing.assert_allclose(sparse.starts, dense.starts)
    rng = np.random.default_rng(0)
    values = rng.random((4, dense.n_states))
    assert sparse.rounding(values) == pytest.approx(dense.rounding(values), rel=0.5)
    for a in range(dense.n_actions):
        for o in range(dense.n_observations):
            np.testing.assert_allclose(sparse.joint_matrix(a, o).toarray(), dense.joint[a, o], atol=1e-15)
    for a in range(dense.n_actions):
        beliefs = rng.dirichlet(np.ones(dense.n_states), size=5)
        after = sparse.next_beliefs(in_rows(beliefs), a)
        found = np.zeros((5, dense.n_observations, dense.n_states))
        found[after.belief, after.observation] = after.mass.toarray()
        np.testing.assert_allclose(found, np.einsum("bs,ost->bot", beliefs, dense.joint[a]), atol=1e-15)


def in_rows(beliefs: Array) -> csr_array:
    return csr_array(beliefs)


def test_states_that_the_start_cannot_reach_are_left_out() -> None:
    transition = np.array([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.3, 0.3, 0.4]]])
    model = POMDP(Setting(np.full((3, 2), 0.5), np.array([[0.1, 0.2, 0.9]]), [1, 0, 0]), transition)
    assert SparseDynamics.of(model).states == Dynamics.of(model).states == (0, 1)


# -- the informed bound ----------------------------------------------------------------------------


def by_loops(informed: InformedCertificate, dynamics: Dynamics) -> float:
    """What the certificate proves, number by number, and that its points make up what they ought to."""
    n_states = dynamics.n_states
    points = np.concatenate([np.eye(n_states), informed.points.toarray()])
    alpha = informed.values[:n_states]
    share: dict[tuple[int, int, int], list[tuple[int, float]]] = {}
    for (a, i, o, j), weight in zip(informed.uses.tolist(), informed.shares.tolist(), strict=True):
        share.setdefault((a, i, o), []).append((j, weight))
    lowest = np.inf
    for i, belief in enumerate(points):
        for a in range(dynamics.n_actions):
            total = float(belief @ dynamics.cost[a]) - informed.values[i, a]
            for o in range(dynamics.n_observations):
                rest = belief @ dynamics.joint[a, o]
                worth = np.zeros(dynamics.n_actions)
                for j, weight in share.get((a, i, o), []):
                    rest = rest - weight * points[n_states + j]
                    worth += weight * informed.values[n_states + j]
                assert (rest >= -1e-15).all()
                total += float((worth + rest @ alpha).min())
            lowest = min(lowest, total)
    return lowest


@pytest.mark.parametrize("seed", range(8))
def test_the_informed_bound_is_below_the_optimum_and_is_what_its_certificate_proves(seed: int) -> None:
    model = random_model(seed, n_states=3 + seed % 4, n_readings=2 + seed % 3)
    best = plan(model, tolerance=1e-4)
    informed = InformedBound(SparseDynamics.of(model), unlimited())
    informed.solve_mdp(1e-8)
    in_plain_sight = informed.bound
    informed.solve_informed(1e-8)
    bounds = [in_plain_sight, informed.bound]
    for _ in range(6):
        informed.refine(best.controller.vectors, 8)
        informed.solve_informed(1e-7)
        bounds.append(informed.bound)
    assert bounds == sorted(bounds)
    assert bounds[-1] <= best.upper_cost
    assert bounds[-1] > best.lower_cost - 0.3 * (best.lower_cost - bounds[1]) - 1e-4
    proved = by_loops(informed.best_certificate, Dynamics.of(model))
    assert informed.bound <= proved <= informed.bound + 1e-9


def test_with_perfect_sight_of_the_last_state_the_informed_bound_is_the_optimum() -> None:
    """Where a reading tells the state, being told it one step late is no help."""
    rng = np.random.default_rng(3)
    transition = rng.dirichlet(np.ones(5), size=(3, 5))
    model = POMDP(Setting(np.eye(5), rng.random((3, 5)), np.full(5, 0.2)), transition)
    best = plan(model, tolerance=1e-8)
    informed = InformedBound(SparseDynamics.of(model), unlimited())
    informed.solve_mdp(1e-10)
    informed.solve_informed(1e-10)
    assert informed.bound == pytest.approx(best.lower_cost, abs=1e-7)


def test_covering_points_lie_below_the_row() -> None:
    rng = np.random.default_rng(0)
    mass = rng.dirichlet(np.ones(6), size=40) * (rng.random((40, 6)) < 0.7) * 0.5
    points = rng.random((9, 6)) * (rng.random((9, 6)) < 0.4) + 1e-3 * np.eye(9, 6)
    points[points.sum(axis=1) == 0.0, 0] = 1.0
    points /= points.sum(axis=1, keepdims=True)
    found = covering_points(in_rows(mass), in_rows(points), unlimited())
    assert len(found.rows) > 10
    for row, point, share in zip(found.rows, found.points, found.shares, strict=True):
        assert (share * points[point] <= mass[row]).all()
        assert (1.001 * share * points[point] > mass[row]).any()


# -- sparse controllers ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_sparse_backups_and_values_are_the_dense_ones(seed: int) -> None:
    model = random_model(seed, n_states=5, n_readings=3)
    sparse = SparseControllerSearch(SparseDynamics.of(model), unlimited())
    sparse.prepare()
    dense = ControllerSearch(Dynamics.of(model))
    rng = np.random.default_rng(seed)
    beliefs, vectors = rng.dirichlet(np.ones(5), size=30), rng.random((7, 5))
    for one, other in zip(sparse.backup(beliefs, vectors), dense.backup(beliefs, vectors), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    actions, successors = rng.integers(3, size=6), rng.integers(6, size=(6, 3))
    found, same = (search.evaluate(actions, successors, np.zeros((6, 5))) for search in (sparse, dense))
    assert found.bound == pytest.approx(same.bound, abs=1e-6) or min(found.bound, same.bound) > sparse.bound


@pytest.mark.parametrize("seed", range(6))
def test_sparse_and_dense_intervals_overlap(seed: int, sparse_only: None) -> None:
    model = random_model(seed, n_states=3 + seed, n_readings=2 + seed % 2)
    sparse = plan(model, tolerance=1e-3, max_work=1e10)
    assert isinstance(sparse.grid, InformedCertificate)
    assert verify(sparse, model) == pytest.approx((sparse.lower, sparse.upper), abs=1e-9)
    with pytest.MonkeyPatch.context() as again:
        again.setattr(planner, "PARAMETERS", with_arrays(dense_work=0))
        dense = plan(model, tolerance=1e-4)
    assert sparse.lower_cost <= dense.upper_cost
    assert dense.lower_cost <= sparse.upper_cost
    assert sparse.gap < 0.02


# -- from the model's start ------------------------------------------------------------------------


def test_a_search_for_an_absorbing_goal_is_closed(sparse_only: None) -> None:
    model = search_for_a_door(6)
    found = plan(model, tolerance=1e-5)
    assert found.status == "closed"
    assert found.lower_cost <= 0.5 <= found.upper_cost
    assert verify(found, model) == pytest.approx((found.lower, found.upper), abs=1e-9)


def test_parts_with_different_averages_are_bounded_from_the_start(sparse_only: None) -> None:
    model = problem("two-rooms")
    found = plan(model, tolerance=1e-6, max_work=2e8)
    assert found.lower_cost <= 0.5 <= found.upper_cost
    assert found.lower_cost > 0.5 - 1e-6
    assert found.grid.gains is not None
    assert found.bounds([1, 0])[0] == pytest.approx(0.2, abs=1e-6)
    low, high = verify(found, model)
    assert low <= 0.5 <= high


def test_a_controller_is_valued_by_what_the_start_reaches(sparse_only: None) -> None:
    """A good part and a bad one, and a choice at the start: from elsewhere nothing better than .9 is sure."""
    transition = np.zeros((2, 3, 3))
    transition[0, 0, 1] = transition[1, 0, 2] = 1.0
    transition[:, 1, 1] = transition[:, 2, 2] = 1.0
    cost = np.array([[0.5, 0.1, 0.9], [0.5, 0.1, 0.9]])
    model = POMDP(Setting(np.full((3, 2), 0.5), cost, [1.0, 0.0, 0.0], first_observation=None), transition)
    found = plan(model, tolerance=1e-6)
    assert found.status == "closed"
    assert found.lower_cost == pytest.approx(0.1, abs=1e-6)
    assert found.upper_cost == pytest.approx(0.1, abs=1e-6)
    assert found.depends_on_start
    low, high = verify(found, model)
    assert low <= 0.1 <= high
    run = found.follow([1.0, 0.0, 0.0])
    assert run.action == 0
    with pytest.raises(StartDependentError):
        found.action([1.0, 0.0, 0.0])
    assert found.controller.gains is not None
    cheaper = replace(found.controller, gains=found.controller.gains - 1e-3)
    with pytest.raises(CertificateError):
        verify(replace(found, controller=cheaper, upper_cost=found.lower_cost), model)


def test_absorbing_states_are_one_room() -> None:
    model = search_for_a_door(3)
    transition = model.transition.copy()
    transition[2, 0] = 0.0
    transition[2, 0, :2] = 0.5  # a second state that nobody leaves
    transition[:, 1] = np.eye(10)[1]
    own = model.setting
    found = closed_class_problems(
        Dynamics.of(POMDP(Setting(own.observation, own.cost, own.initial, None), transition)),
        100,
        lambda: False,
    )
    assert [type(room) for room in found] == [AbsorbingStates]
    assert found[0].states.tolist() == [1, 9]


# -- verification ----------------------------------------------------------------------------------


@pytest.fixture
def sparse_plan(sparse_only: None) -> tuple[Plan, POMDP]:
    model = random_model(2, n_states=5, n_readings=3)
    return plan(model, tolerance=1e-3, max_work=3e9), model


def test_tampered_sparse_plans_prove_less_or_are_refused(sparse_plan: tuple[Plan, POMDP]) -> None:
    found, model = sparse_plan
    informed = found.grid
    assert isinstance(informed, InformedCertificate)
    assert len(informed.shares)
    assert informed.points.shape[0]
    raised = informed.values.copy()
    raised[-1] += 0.01
    moved = informed.points.copy()
    moved.data = moved.data * 1.01
    changed: list[dict[str, Any]] = [
        {"values": raised},
        {"values": raised[:-1]},
        {"values": np.where(np.arange(raised.size).reshape(raised.shape) == 3, np.nan, raised)},
        {"shares": 1.5 * informed.shares},
        {"shares": -informed.shares},
        {"points": moved},
        {"uses": informed.uses + 1},
        {"uses": informed.uses.astype(float)},
        {"gains": np.linspace(0.2, 0.9, 5)},
        {"gains": np.full(4, 0.2)},
    ]
    for change in changed:
        with pytest.raises(CertificateError):
            verify(replace(found, grid=replace(informed, **change)), model)
    with pytest.raises(CertificateError, match="from below"):
        verify(replace(found, lower_cost=found.lower_cost + 1e-5), model)
    # An honest, smaller claim is what is left where points are said to be larger than what they make up.
    spoiled = replace(found, lower_cost=0.0, grid=replace(informed, shares=1.5 * informed.shares))
    low, _ = verify(spoiled, model)
    assert low < found.lower - 1e-6


def test_sparse_plans_are_played_saved_and_loaded(sparse_plan: tuple[Plan, POMDP]) -> None:
    found, model = sparse_plan
    data = found.to_bytes()
    again = Plan.from_bytes(data, "plan")
    assert again.to_bytes() == data
    assert verify(again, model) == verify(found, model)
    assert repr(again) == repr(found)
    belief = np.full(5, 0.2)
    assert again.action(belief) == found.action(belief) == found.follow(belief).action
    assert again.value(belief) == found.value(belief)
    assert found.bounds(belief) == pytest.approx((found.lower, found.upper))
    low, high = found.span
    assert 0.0 < low <= high
    assert again.grid.span == pytest.approx(found.grid.span)


def test_a_file_with_spoiled_points_is_refused(sparse_plan: tuple[Plan, POMDP]) -> None:
    found, _ = sparse_plan
    arrays = unpack(found.to_bytes(), "plan", SizeLimit(10**7))
    for name, spoiled_array in (
        ("point_ends", arrays["point_ends"][::-1]),
        ("point_ends", arrays["point_ends"][:-1]),
        ("point_states", arrays["point_states"] + 5),
        ("point_coordinates", 2.0 * arrays["point_coordinates"]),
        ("uses", arrays["uses"] + 10**6),
        ("shares", -arrays["shares"]),
    ):
        spoiled = pack({**arrays, name: spoiled_array})
        with pytest.raises(ParseError):
            Plan.from_bytes(spoiled, "plan")


def test_sparse_plans_start_from_others(sparse_plan: tuple[Plan, POMDP]) -> None:
    found, model = sparse_plan
    warm = plan(model, tolerance=1e-3, warm_start=found, max_work=1.0)
    assert warm.upper_cost <= found.upper_cost + 1e-6
    with pytest.raises(InvalidModelError, match="another shape"):
        plan(random_model(0, n_states=4, n_readings=3), warm_start=found)
    with pytest.MonkeyPatch.context() as again:
        again.setattr(planner, "PARAMETERS", with_arrays(dense_work=0))
        dense = plan(model, tolerance=1e-3, warm_start=found)
    assert dense.status == "closed"
    assert plan(model, tolerance=1e-3, warm_start=dense, max_work=1.0).upper_cost <= dense.upper_cost + 1e-6


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.01, 0.5])
def test_a_time_limit_is_kept_and_leaves_a_certified_interval(seconds: float) -> None:
    model = sparse_model(900)
    plan(problem("tiger"), tolerance=0.5)  # compiles
    begun = time.monotonic()
    found = plan(model, tolerance=1e-6, time_limit=seconds)
    assert time.monotonic() - begun < 3 * (seconds + 0.5)
    assert found.status == "time limit"
    assert 0.0 <= found.lower_cost < found.upper_cost <= 1.0
    assert verify(found, model) == pytest.approx((found.lower, found.upper), abs=1e-9)


def test_a_memory_limit_is_kept_and_leaves_a_certified_interval() -> None:
    model = sparse_model(900)
    assert model.fingerprint
    plan(problem("tiger"), tolerance=0.5)
    tracemalloc.start()
    try:
        found = plan(model, tolerance=1e-6, memory_limit=4e7, max_work=3e9)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * 4e7
    assert found.gap < 0.3
    assert verify(found, model) == pytest.approx((found.lower, found.upper), abs=1e-9)


def test_no_memory_at_all_leaves_what_needs_none() -> None:
    model = random_model(1, n_states=5)
    found = plan(model, memory_limit=1.0)
    assert found.status == "memory limit"
    assert isinstance(found.grid, InformedCertificate)
    assert found.upper_cost == pytest.approx(float(model.setting.cost.max(axis=1).min()))
    assert verify(found, model) == pytest.approx((found.lower, found.upper), abs=1e-9)
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidModelError, match="memory_limit"):
            plan(model, memory_limit=wrong)


def test_limits_count_what_is_held() -> None:
    limits = Limits(None, 100.0)
    limits.reserve(60.0)
    assert limits.fits(40.0)
    assert not limits.fits(41.0)
    with pytest.raises(LimitReached, match="memory limit"):
        limits.require(41.0)
    limits.reserve(-60.0)
    limits.require(100.0)
    late = Limits(0.0)
    assert late.expired()
    with pytest.raises(LimitReached, match="time limit"):
        late.require()
    late.exclude_time(60.0)
    assert not late.expired()


def test_counted_work_gives_the_same_sparse_plan_every_time(sparse_only: None) -> None:
    model = sparse_model(60)

    def planned() -> Plan:
        found = plan(model, tolerance=1e-6, max_work=2e9)
        return replace(found, rounds=tuple(replace(r, seconds=0.0) for r in found.rounds))

    first, second = planned(), planned()
    assert first.status == "work limit"
    assert first.to_bytes() == second.to_bytes()


def test_an_interrupt_keeps_the_sparse_bounds(sparse_only: None) -> None:
    model = sparse_model(60)

    def press_control_c(done: Round) -> None:
        raise KeyboardInterrupt

    found = plan(model, tolerance=1e-6, progress=press_control_c)
    assert found.status == "interrupted"
    assert verify(found, model) == pytest.approx((found.lower, found.upper), abs=1e-9)


def test_the_sparse_bounds_are_a_start_for_the_dense_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they become slow, the grid of points takes over, and holds their bounds from the first on."""
    monkeypatch.setattr(planner, "PARAMETERS", with_arrays(dense_entries=0))
    monkeypatch.setattr(SparseBoundPair, "slow", property(lambda self: len(self.rounds) > 2))
    model = random_model(4, n_states=6, n_readings=3)
    found = plan(model, tolerance=1e-5)
    assert found.status == "closed"
    assert verify(found, model) == pytest.approx((found.lower, found.upper), abs=1e-9)
    bounds = [(r.lower, r.upper) for r in found.rounds]
    assert all(one[0] <= other[0] + 1e-12 for one, other in pairwise(bounds))
    assert all(one[1] >= other[1] - 1e-12 for one, other in pairwise(bounds))


def test_steps_that_memory_does_not_suffice_for_are_left_out(
    monkeypatch: pytest.MonkeyPatch, sparse_only: None
) -> None:
    def refuse(*arguments: Any) -> Callable[..., None]:
        raise LimitReached("memory limit")

    monkeypatch.setattr(SparseControllerSearch, "backup", refuse)
    model = sparse_model(40)
    found = plan(model, tolerance=1e-6, max_work=5e7)
    assert found.status in ("work limit", "memory limit")
    assert len(found.grid) > 40  # points were added all the same
    assert verify(found, model) == pytest.approx((found.lower, found.upper), abs=1e-9)


def test_claims_that_no_certificate_proves_are_refused(sparse_plan: tuple[Plan, POMDP]) -> None:
    """Values so large that rounding costs everything excuse no claim, and neither does what is no number."""
    found, model = sparse_plan
    values, vectors = found.grid.values.copy(), found.controller.vectors.copy()
    values[-1, -1], vectors[-1] = -1e16, vectors[-1] + 1e16
    huge = replace(found.grid, values=values)
    forged = replace(found, lower_cost=0.99, upper_cost=1.0, grid=huge)
    with pytest.raises(CertificateError, match="from below"):
        verify(forged, model)
    far = replace(found.controller, vectors=vectors)
    with pytest.raises(CertificateError, match="from above"):
        verify(replace(found, upper_cost=found.lower_cost, controller=far), model)
    nonsense: list[dict[str, Any]] = [
        {"lower_cost": np.nan},
        {"upper_cost": np.nan},
        {"upper_cost": 2.0},
        {"lower_cost": -1.0},
    ]
    for change in nonsense:
        with pytest.raises(CertificateError, match="no interval"):
            verify(replace(found, **change), model)


def two_ends() -> POMDP:
    """One step, and then one of two ends, which cost .2 or .3 and .7 or .8, for ever."""
    transition = np.zeros((2, 3, 3))
    transition[:, 1, 1] = transition[:, 2, 2] = 1.0
    transition[:, 0] = [0.0, 0.5, 0.5], [0.0, 0.9, 0.1]
    cost = np.array([[0.5, 0.2, 0.8], [0.5, 0.3, 0.7]])
    return POMDP(Setting(np.ones((3, 1)), cost, np.array([1.0, 0.0, 0.0])), transition)


@pytest.mark.parametrize("small", [0, 400_000])
def test_gains_are_refused_that_the_bounds_from_the_start_do_not_need(
    small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Plan.bounds` reads gains off: all are to be proved, even where the interval allows for more."""
    monkeypatch.setattr(planner, "PARAMETERS", with_arrays(dense_entries=small, dense_work=0))
    model = two_ends()
    found = plan(model, tolerance=1e-4, max_work=1e8)
    verify(found, model)
    assert found.grid.gains is not None
    raised = replace(found, grid=replace(found.grid, gains=found.grid.gains + 0.05))
    with pytest.raises(CertificateError, match=r"claims gains of (states|points)"):
        verify(raised, model)
    if found.controller.gains is not None:
        lowered = replace(found.controller, gains=found.controller.gains - 0.05)
        with pytest.raises(CertificateError, match="claims gains of nodes"):
            verify(replace(found, controller=lowered), model)


def test_gains_that_fall_by_less_than_rounding_are_refused(sparse_only: None) -> None:
    """A state of gain .9 that leaves with chance 1e-15, for ever, for one of gain .88: its average is .88.

    The mean of the gains that follow it comes out above .9, by rounding.
    """
    gains = np.array([0.9, 0.9, 0.9, 0.9, 0.88]) - 1e-11
    for seed in range(100):
        transition = np.zeros((1, 5, 5))
        transition[0, 0] = [*np.random.default_rng(seed).dirichlet(np.ones(4)), 1e-15]
        transition[0, 1:4, 0] = transition[0, 4, 4] = 1.0
        mean = csr_array(transition[0] / transition[0].sum(axis=1, keepdims=True)) @ gains
        if mean[0] > gains[0]:
            break
    assert mean[0] > gains[0]
    model = POMDP(Setting(np.ones((5, 1)), np.array([[0.9] * 4 + [0.88]]), np.eye(5)[0]), transition)
    found = plan(model, max_work=1e8)
    assert found.lower_cost <= 0.88
    verify(found, model)
    empty = csr_array((0, 5)), np.empty((0, 4), np.int64), np.empty(0)
    forged = InformedCertificate(0.9, np.zeros((5, 1)), *empty, gains)
    with pytest.raises(CertificateError, match="gain of state 0"):
        verify(replace(found, grid=forged, lower_cost=0.9 - 2e-11, upper_cost=1.0), model)
