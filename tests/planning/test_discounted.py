"""Discounted totals: intervals against value iteration, an exact reduction, and exact values of policies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracles
from model_strategies import PUBLIC_FILES
from psrl_pomdp import (
    POMDP,
    CertificateError,
    InvalidModelError,
    ParseError,
    Plan,
    PSRLAgent,
    Setting,
    load,
    plan,
    problem,
    simulate,
    verify,
)
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.planning import solve as planner
from psrl_pomdp.planning.dynamics import Dynamics
from psrl_pomdp.planning.lower.informed import InformedCertificate
from psrl_pomdp.planning.parameters import PlannerParameters, RepresentationParameters
from psrl_pomdp.planning.single_points import interpolated_by_one_point, largest_weights
from psrl_pomdp.planning.sparse.dynamics import SparseDynamics


@pytest.fixture
def sparse_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `plan` take small models for large ones."""
    limits = RepresentationParameters(dense_entries=0, dense_work=0)
    monkeypatch.setattr(planner, "PARAMETERS", PlannerParameters(representation=limits))


def drawn(seed: int, n_states: int, kind: str = "cost") -> tuple[POMDP, float]:
    """A random model with or without a first observation, and a discount."""
    rng = np.random.default_rng(seed)
    n_actions, n_observations = int(rng.integers(2, 4)), int(rng.integers(2, 4))
    transition = oracles.random_kernel(rng, n_actions, n_states, float(rng.choice([0.4, 1.0])))
    sensor = rng.dirichlet(np.full(n_observations, float(rng.choice([0.3, 1.0]))), n_states)
    initial = rng.dirichlet(np.ones(n_states))
    first = sensor if rng.random() < 0.5 else None
    make = Setting if kind == "cost" else Setting.from_rewards
    values = 10.0 * rng.random((n_actions, n_states)) - 3.0
    setting = make(sensor, values, initial, first_observation=first)
    return POMDP(setting, transition), float(rng.choice([0.5, 0.9, 0.97]))


def starts_of(model: POMDP) -> Iterator[tuple[float, Array]]:
    """The probabilities of the first observations, and the beliefs after them."""
    initial, first = model.setting.initial, model.setting.first_observation
    if first is None:
        yield 1.0, initial
        return
    for o in range(first.shape[1]):
        together = initial * first[:, o]
        if together.sum() > 0.0:
            yield float(together.sum()), together / together.sum()


def two_state_total(model: POMDP, discount: float, points: int = 401) -> tuple[float, float]:
    """Both bounds on the scaled total of two states, by value iteration on a fine line of beliefs.

    V is concave: linear interpolation from 0 stays below it. Vectors that are backed up from those of
    constant actions are values of policies: their minimum is above it.
    """
    cost, sensor = model.setting.cost, model.setting.observation
    theta = model.transition
    p = np.linspace(0.0, 1.0, points)
    beliefs = np.stack([1 - p, p], axis=1)
    joint = np.einsum("ast,ato->aost", theta, sensor)
    after = np.einsum("ps,aost->aopt", beliefs, joint)
    weight = after.sum(axis=-1)
    where = np.divide(after[..., 1], weight, out=np.zeros_like(weight), where=weight > 0)
    steps = int(np.ceil(np.log(1e-8 * (1 - discount)) / np.log(discount)))
    value = np.zeros(points)
    vectors = np.stack(
        [np.linalg.solve(np.eye(2) - discount * t, c) for t, c in zip(theta, cost, strict=True)]
    )
    for _ in range(steps):
        inner = (weight * np.interp(where, p, value)).sum(axis=1)
        value = (cost @ beliefs.T + discount * inner).min(axis=0)
    for _ in range(450):
        best = (after @ vectors.T).argmin(axis=-1)  # [A, O, p]
        ahead = np.einsum("aost,aopt->aops", joint, vectors[best])
        backed = cost[:, None, :] + discount * ahead.sum(axis=1)
        chosen = np.einsum("aps,ps->ap", backed, beliefs).argmin(axis=0)
        vectors = np.unique(backed[chosen, np.arange(points)].round(13), axis=0)
    low = sum(w * float(np.interp(b[1], p, value)) for w, b in starts_of(model))
    high = sum(w * float((vectors @ b).min()) for w, b in starts_of(model))
    return low, high


def scaled(found: Plan, end: str) -> float:
    """An end of the interval as a total of scaled costs."""
    return float(getattr(found, f"{end}_cost")) / (1.0 - found.discount)


def controller_total(found: Plan, model: POMDP) -> float:
    """The scaled total of the controller from its best nodes, by a linear solve."""
    actions, successors = found.controller.actions, found.controller.successors
    states, n = list(found.states), len(found.states)
    theta = model.transition[:, states][:, :, states]
    sensor = model.setting.observation[:, states]
    size = len(actions) * n
    chain, cost = np.zeros((size, size)), np.zeros(size)
    for node, a in enumerate(actions):
        rows = slice(node * n, (node + 1) * n)
        cost[rows] = model.setting.cost[a][states]
        for o in range(sensor.shape[2]):
            first = successors[node, o] * n
            chain[rows, first : first + n] += theta[a] * sensor[a, :, o]
    values = np.linalg.solve(np.eye(size) - found.discount * chain, cost).reshape(-1, n)
    return sum(w * float((values @ b[states]).min()) for w, b in starts_of(model))


def reduced(model: POMDP, discount: float) -> POMDP:
    """The average-cost model in which each step draws the start afresh with probability 1 − γ.

    That is seen, by observations that no other step gives, and so is the first observation after it.
    """
    setting = model.setting
    n_states, n_observations = setting.observation.shape[1:]
    first = setting.first_observation
    again = np.ones((n_states, 1)) if first is None else first
    stays, starts = discount * model.transition, (1 - discount) * setting.initial
    kernel = stays + starts
    seen = stays[..., None] * setting.observation[:, None]
    fresh = np.broadcast_to(starts[:, None] * again, (*stays.shape, again.shape[1]))
    table = np.concatenate([seen, fresh], axis=-1)
    safe = np.where(kernel > 0.0, kernel, 1.0)[..., None]
    table = np.where(kernel[..., None] > 0.0, table / safe, np.eye(table.shape[-1])[0])
    before = None if first is None else np.concatenate([np.zeros((n_states, n_observations)), first], axis=1)
    own = Setting(table, setting.cost, setting.initial, first_observation=before)
    return POMDP(own, kernel)


# -- oracles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_two_states_against_value_iteration_on_a_line(seed: int) -> None:
    model, discount = drawn(seed, 2, "cost" if seed % 2 else "reward")
    found = plan(model, tolerance=1e-7, discount=discount)
    low, high = two_state_total(model, discount)
    assert found.status == "closed"
    assert high - low < 1e-3
    assert scaled(found, "lower") <= high + 1e-9
    assert low <= scaled(found, "upper") + 1e-9


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sparse", [False, True])
def test_full_observation_is_the_discounted_mdp(
    seed: int, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    transition = oracles.random_kernel(rng, 3, 5, 0.6)
    eye, first = np.eye(5), np.eye(5) if seed % 2 else None
    setting = Setting(eye, rng.random((3, 5)), np.full(5, 0.2), first_observation=first)
    discount = [0.8, 0.95][seed // 2]
    if sparse:
        limits = RepresentationParameters(dense_entries=0, dense_work=0)
        monkeypatch.setattr(planner, "PARAMETERS", PlannerParameters(representation=limits))
    found = plan(POMDP(setting, transition), tolerance=1e-5 if sparse else 1e-9, discount=discount)
    value = np.zeros(5)
    for _ in range(1000):
        ahead = setting.cost + discount * transition @ value
        value = ahead.min(axis=0)
    right = value.mean() if first is not None else ahead.mean(axis=1).min()
    assert found.gap < 1e-4
    assert scaled(found, "lower") - 1e-9 <= right <= scaled(found, "upper") + 1e-9


@pytest.mark.parametrize("seed", range(9))
def test_the_reduction_to_an_average_bounds_the_same_number(seed: int) -> None:
    model, discount = drawn(100 + seed, 2 + seed % 3)
    found = plan(model, tolerance=1e-5, discount=discount, max_work=5e8)
    twin = plan(reduced(model, discount), tolerance=1e-5, max_work=5e8)
    assert found.gap < 1e-3
    assert twin.gap < 1e-3
    assert found.lower_cost <= twin.upper_cost + 1e-11
    assert twin.lower_cost <= found.upper_cost + 1e-11


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sparse", [False, True])
def test_bounds_hold_for_the_controller_and_from_any_belief(
    seed: int, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sparse:
        limits = RepresentationParameters(dense_entries=0, dense_work=0)
        monkeypatch.setattr(planner, "PARAMETERS", PlannerParameters(representation=limits))
    model, discount = drawn(200 + seed, 3, "cost" if seed % 2 else "reward")
    found = plan(model, tolerance=1e-3, discount=discount, max_work=2e8)
    assert isinstance(found.grid, InformedCertificate) == sparse
    total = controller_total(found, model)
    assert scaled(found, "lower") - 1e-9 <= total <= scaled(found, "upper") + 1e-9
    low, high = verify(found, model)
    assert found.lower == pytest.approx(low, abs=1e-8)
    assert found.upper == pytest.approx(high, abs=1e-8)
    mean = np.zeros(2)
    for weight, start in starts_of(model):
        mean += weight * np.array(found.value_bounds(start))
    assert mean[0] >= found.lower - 1e-7
    assert mean[1] <= found.upper + 1e-7
    rng = np.random.default_rng(seed)
    for belief in rng.dirichlet(np.full(3, 0.5), 3):
        there = model.setting.replace(initial=belief, first_observation=None)
        other = plan(POMDP(there, model.transition), tolerance=1e-3, discount=discount, max_work=2e8)
        bounds = found.value_bounds(belief)
        assert bounds == found.bounds(belief)
        assert bounds[0] <= other.upper + 1e-8
        assert other.lower <= bounds[1] + 1e-8


def test_the_policy_keeps_its_bound_in_simulation() -> None:
    """2,000 runs of 100 steps; a z-score below 4 fails once in 15,000 (one-sided 3e-5)."""
    model, discount = problem("tiger"), 0.9
    found = plan(model, tolerance=1e-6, discount=discount)
    rng = np.random.default_rng(0)
    reward = model.setting.own_cost
    sensor, theta = model.setting.observation, model.transition
    n = 2_000
    state, belief, total = rng.integers(2, size=n), np.full((n, 2), 0.5), np.zeros(n)
    seen: dict[bytes, int] = {}
    for step in range(100):
        keys = belief.round(12)
        kinds, kind = np.unique(keys, axis=0, return_inverse=True)
        for each in kinds:
            seen.setdefault(each.tobytes(), found.action(each / each.sum()))
        action = np.array([seen[each.tobytes()] for each in kinds])[kind.ravel()]
        total += discount**step * reward[action, state]
        state = (rng.random(n) > theta[action, state, 0]).astype(np.int64)
        observation = (rng.random(n) > sensor[action, state, 0]).astype(np.int64)
        belief = np.einsum("ns,nst->nt", belief, theta[action]) * sensor[action, :, observation]
        belief /= belief.sum(axis=1, keepdims=True)
    error = total.std() / np.sqrt(n)
    assert found.lower - 4 * error <= total.mean() <= found.upper + 4 * error


def test_tiger_has_the_known_value() -> None:
    """19.3713683559 is the published value of the classic file with discount .95."""
    found = plan(problem("tiger"), tolerance=1e-9, discount=0.95)
    assert found.lower - 1e-6 <= 19.3713683559 <= found.upper + 1e-6
    assert found.upper - found.lower < 1e-5


@pytest.mark.parametrize("name", ["tiger.95.POMDP", "cheese.95.POMDP", "shuttle.95.POMDP", "1d.POMDP"])
def test_public_files_agree_with_their_reduction(name: str) -> None:
    if not (PUBLIC_FILES / name).exists():
        pytest.skip("no public files here")
    model = load(PUBLIC_FILES / name)
    discount = model.discount
    assert discount == (0.75 if name == "1d.POMDP" else 0.95)
    found = plan(model, tolerance=1e-6, discount=discount)
    assert found.gap <= 1e-6
    verify(found, model)
    twin = plan(reduced(model, discount), tolerance=1e-5, max_work=5e9)
    assert twin.gap < 1e-3
    assert found.lower_cost <= twin.upper_cost + 1e-10
    assert twin.lower_cost <= found.upper_cost + 1e-10


# -- certificates -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
def test_what_is_tampered_with_is_refused(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if sparse:
        limits = RepresentationParameters(dense_entries=0, dense_work=0)
        monkeypatch.setattr(planner, "PARAMETERS", PlannerParameters(representation=limits))
    model, _ = drawn(7, 3)
    found = plan(model, tolerance=1e-4, discount=0.9)
    verify(found, model)
    lower_values = replace(found.grid, values=found.grid.values + 1e-6)
    upper_vectors = replace(found.controller, vectors=found.controller.vectors - 1e-6)
    one_vector = found.controller.vectors.copy()
    one_vector[0, 0] -= 1e-3
    for bad in (
        replace(found, grid=lower_values),
        replace(found, controller=upper_vectors),
        replace(found, controller=replace(found.controller, vectors=one_vector)),
        replace(found, discount=0.91),
        replace(found, discount=1.0),
        replace(found, lower_cost=found.lower_cost + 1e-6, upper_cost=found.upper_cost + 1e-6),
        replace(found, upper_cost=found.lower_cost),
        replace(found, controller=replace(found.controller, gains=np.zeros_like(one_vector))),
    ):
        with pytest.raises(CertificateError):
            verify(bad, model)


def test_plans_are_saved_with_their_discount(tmp_path: Path) -> None:
    model, _ = drawn(3, 3)
    found = plan(model, tolerance=1e-3, discount=0.9)
    found.save(tmp_path / "plan.npz")
    again = Plan.load(tmp_path / "plan.npz")
    assert again.discount == 0.9
    assert (again.lower, again.upper) == (found.lower, found.upper)
    assert again.value_bounds(model.setting.initial) == found.value_bounds(model.setting.initial)
    verify(again, model)
    assert "discounted by 0.9" in repr(again)
    bad = replace(found, discount=0.0)
    bad.save(tmp_path / "bad.npz")
    with pytest.raises(ParseError, match="discount"):
        Plan.load(tmp_path / "bad.npz")


@pytest.mark.usefixtures("sparse_only")
def test_sparse_and_dense_dynamics_have_the_same_rows() -> None:
    model, discount = drawn(11, 4)
    dense, sparse = Dynamics.of(model, discount=discount), SparseDynamics.of(model, discount=discount)
    for a in range(model.n_actions):
        for o in range(model.n_observations):
            assert dense.joint_matrix(a, o).toarray() == pytest.approx(sparse.joint_matrix(a, o).toarray())
    assert dense.joint.sum(axis=(1, 3)) == pytest.approx(np.full(dense.cost.shape, discount))
    assert max(dense.leak, sparse.leak) < 1e-14


def test_one_point_and_the_vertices_make_up_a_belief() -> None:
    """The weights leave nothing negative, are as large as that allows, and give a point its own value."""
    rng = np.random.default_rng(2)
    points, beliefs = rng.dirichlet(np.ones(4), 6), rng.dirichlet(np.ones(4), 3)
    beliefs[0] = points[2]
    weights = largest_weights(points, beliefs)
    rest = beliefs[:, None] - weights[..., None] * points
    assert rest.min(axis=-1) == pytest.approx(np.zeros((3, 6)), abs=1e-15)
    at_vertices, at_points = np.zeros(4), 1.0 + rng.random(6)
    values = interpolated_by_one_point(weights, points, at_vertices, at_points, beliefs)
    assert values == pytest.approx((weights * at_points).max(axis=1))
    assert values[0] >= at_points[2]


# -- use --------------------------------------------------------------------------------------------


def test_warm_starts_from_any_discount() -> None:
    model, _ = drawn(21, 3)
    first = plan(model, tolerance=1e-5, discount=0.9)
    for earlier in (first, plan(model, tolerance=1e-3)):
        for discount in (0.9, 0.8, None):
            again = plan(model, tolerance=1e-5, discount=discount, warm_start=earlier, max_work=2e9)
            fresh = plan(model, tolerance=1e-5, discount=discount, max_work=2e9)
            verify(again, model)
            assert again.lower <= fresh.upper + 1e-9
            assert fresh.lower <= again.upper + 1e-9


def test_the_same_call_gives_the_same_plan_and_limits_end_it() -> None:
    model, _ = drawn(33, 4)
    plans = [plan(model, tolerance=1e-7, discount=0.97, max_work=1e8) for _ in range(2)]
    assert plans[0].lower_cost == plans[1].lower_cost
    assert np.array_equal(plans[0].controller.vectors, plans[1].controller.vectors)
    rounds: list[Any] = []
    stopped = plan(model, tolerance=1e-11, discount=0.97, max_work=1e6, progress=rounds.append)
    assert stopped.status == "work limit"
    assert len(rounds) == len(stopped.rounds) >= 1
    verify(stopped, model)
    few = plan(model, tolerance=1e-9, discount=0.97, max_points=1)
    assert few.status == "memory limit"
    verify(few, model)
    least = plan(model, discount=0.97, memory_limit=1000.0)
    assert least.status == "memory limit"
    verify(least, model)


@pytest.mark.parametrize("discount", [0.0, 1.0, -0.5, 2, float("nan"), "0.9", True])
def test_other_discounts_are_refused(discount: Any) -> None:
    with pytest.raises(InvalidModelError, match="discount is"):
        plan(problem("tiger"), discount=discount)


def test_atol_is_in_the_units_of_totals() -> None:
    found = plan(problem("tiger"), tolerance=1.0, atol=0.5, discount=0.95)
    assert found.status == "closed"
    assert found.upper - found.lower <= 0.5


def test_averages_have_no_values_of_beliefs_and_agents_refuse_discounts() -> None:
    model = problem("tiger")
    with pytest.raises(InvalidModelError, match="long-run average"):
        plan(model).value_bounds([0.5, 0.5])
    trace = simulate(model, PSRLAgent(model.prior, seed=1), 20, seed=1)
    with pytest.raises(InvalidModelError, match=r"discount 0\.9, and regret is about"):
        trace.regret(plan(model, discount=0.9))

    def discounting(model: POMDP, tolerance: float = 1e-2, time_limit: float | None = None) -> Plan:
        return plan(model, tolerance, discount=0.9)

    with pytest.raises(InvalidModelError, match=r"discount 0\.9, and this agent is about"):
        simulate(model, PSRLAgent(model.prior, seed=1, planner=discounting), 5, seed=1)


def test_densities_have_discounted_bounds() -> None:
    model = problem("railway-gaussian")
    found = plan(model, tolerance=2e-3, discount=0.9)
    assert found.status == "closed"
    verify(found, model)
    low, high = found.value_bounds(model.setting.initial)
    assert low >= found.lower - 1e-6
    assert high <= found.upper + 1e-6
    fine = plan(model, tolerance=5e-4, discount=0.9)
    assert fine.lower <= found.upper
    assert found.lower <= fine.upper
