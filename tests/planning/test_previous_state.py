"""Planning where an observation depends on the state before the action: tables [A, S, S', O]."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from model_strategies import previous_state_model, remembering_states
from psrl_pomdp import (
    POMDP,
    CertificateError,
    InvalidModelError,
    Plan,
    Setting,
    StartDependentError,
    Units,
    check_model,
    plan,
    problem,
    verify,
)
from psrl_pomdp._numba.jit import running
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.planning import solve as planner
from psrl_pomdp.planning.dynamics import BeliefDynamics, Dynamics
from psrl_pomdp.planning.lower.certificate import LowerCertificate
from psrl_pomdp.planning.lower.informed import InformedCertificate
from psrl_pomdp.planning.markov.chains import Chain, apply_transposed
from psrl_pomdp.planning.multichain.closed_classes import ClosedClass, closed_classes
from psrl_pomdp.planning.parameters import PlannerParameters, RepresentationParameters
from psrl_pomdp.planning.sparse.dynamics import SparseDynamics
from psrl_pomdp.planning.upper import nodes
from psrl_pomdp.testing.planner_checks import planner_violations

PLAIN = Units(0.0, 1.0)


def averaged(model: POMDP) -> POMDP:
    """What a reader would make of the table who forgets the state before the action: its mean over it."""
    return POMDP(model.setting.replace(observation=model.setting.observation.mean(axis=1)), model.transition)


def thin_model(seed: int, n_states: int = 6) -> POMDP:
    """Many zeros: three next states a row, two readings a pair, a state that no start reaches."""
    rng = np.random.default_rng(seed)
    transition, sensor = np.zeros((2, n_states, n_states)), np.zeros((2, n_states, n_states, 4))
    for a in range(2):
        for s in range(n_states):
            after = rng.choice(n_states - 1, 3, replace=False)
            transition[a, s, after] = rng.dirichlet(np.ones(3))
            for t in range(n_states):
                sensor[a, s, t, rng.choice(3 + a, 2, replace=False)] = rng.dirichlet(np.ones(2))
    start = np.append(np.full(n_states - 1, 1 / (n_states - 1)), 0.0)
    return POMDP(Setting(sensor, rng.random((2, n_states)), start, units=PLAIN), transition)


def changes_only(faulty: float, start: float, hint: float = 0.0) -> POMDP:
    """Two states that come by the toss of a coin; what is read is whether the state has changed.

    Who knows the state once knows it for ever, but for faulty readings. Guessing it wrong costs 1. State 0
    gives itself away with the probability `hint`.
    """
    changed = np.array([[faulty, 1 - faulty], [1 - faulty, faulty]])
    sensor = np.stack([1 - changed, changed, np.zeros((2, 2))], axis=-1)
    sensor[:, 0] = (1 - hint) * sensor[:, 0] + hint * np.array([0.0, 0.0, 1.0])
    setting = Setting(np.stack([sensor] * 2), 1.0 - np.eye(2), [start, 1 - start], units=PLAIN)
    return POMDP(setting, np.full((2, 2, 2), 0.5))


def force_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `plan` take small models for large ones."""
    limits = RepresentationParameters(dense_entries=0, dense_work=0)
    monkeypatch.setattr(planner, "PARAMETERS", PlannerParameters(representation=limits))


# -- the joint matrices ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_joint_matrices_by_loops_dense_and_sparse(seed: int) -> None:
    model = thin_model(seed)
    dense, sparse = Dynamics.of(model), SparseDynamics.of(model)
    assert dense.states == sparse.states == (0, 1, 2, 3, 4)
    expected = np.zeros((2, 4, 5, 5))
    for a, o, s, t in np.ndindex(expected.shape):
        expected[a, o, s, t] = model.transition[a, s, t] * model.setting.observation[a, s, t, o]
    np.testing.assert_allclose(dense.joint, expected, atol=1e-15)
    assert max(dense.leak, sparse.leak) < 1e-15
    assert sparse.n_observations == 4
    assert sparse.entries.tolist() == np.count_nonzero(expected, axis=(1, 2, 3)).tolist()
    beliefs = np.random.default_rng(seed).dirichlet(np.full(5, 0.5), size=7)
    beliefs[0] = [1.0, 0.0, 0.0, 0.0, 0.0]
    for a in range(2):
        np.testing.assert_allclose(sparse.transitions[a].toarray(), expected[a].sum(axis=0), atol=1e-15)
        for o in range(4):
            np.testing.assert_allclose(sparse.joint_matrix(a, o).toarray(), expected[a, o], atol=1e-15)
        after = sparse.next_beliefs(csr_array(beliefs), a)
        found = np.zeros((7, 4, 5))
        found[after.belief, after.observation] = after.mass.toarray()
        wanted = np.einsum("bs,ost->bot", beliefs, expected[a])
        np.testing.assert_allclose(found, wanted, atol=1e-15)
        np.testing.assert_allclose(sparse.joint_beliefs(beliefs, np.full(7, a)), wanted, atol=1e-15)
    mixed = np.array([0, 1, 0, 1, 1, 0, 0])
    np.testing.assert_allclose(
        sparse.joint_beliefs(beliefs, mixed), np.einsum("bs,bost->bot", beliefs, expected[mixed]), atol=1e-15
    )
    np.testing.assert_allclose(sparse.after_uniform(), expected.sum(axis=2), atol=1e-15)


@pytest.mark.parametrize("of", [Dynamics.of, SparseDynamics.of])
def test_sweeps_and_flows_are_those_of_the_joint_matrices(of: type) -> None:
    model = thin_model(7)
    dense = Dynamics.of(model)
    d: BeliefDynamics = of(model)
    assert (d.factors.possible == dense.joint.any(axis=(2, 3))).all()
    assert not d.factors.possible.all()
    assert not d.factors.is_product
    rng = np.random.default_rng(1)
    actions, successors = rng.integers(2, size=6), rng.integers(6, size=(6, 4))
    mass = rng.random((6, 5)) * (rng.random((6, 5)) < 0.7)
    mass[2] = 0.0
    steps = np.zeros((6, 5, 6, 5))
    for node, a in enumerate(actions):
        for o in range(4):
            steps[node, :, successors[node, o]] += dense.joint[a, o]
    chain = Chain(d, actions, successors)  # type: ignore[arg-type]
    h = rng.random(30)
    assert chain @ h == pytest.approx(steps.reshape(30, 30) @ h, abs=1e-14)
    assert chain.work == 2.0 * np.count_nonzero(dense.joint, axis=(1, 2, 3))[actions].sum()
    after = np.zeros((6, 5))
    apply_transposed(d.factors, actions, successors, mass, after)
    assert after.ravel() == pytest.approx(mass.ravel() @ steps.reshape(30, 30), abs=1e-14)
    beliefs, flows, edges = nodes.edge_flows(d.factors, actions, mass)
    expected = {
        (node, o): mass[node] @ dense.joint[a, o]
        for node, a in enumerate(actions.tolist())
        for o in range(4)
        if (mass[node] @ dense.joint[a, o]).sum() > 1e-12
    }
    assert {tuple(edge) for edge in edges.tolist()} == set(expected)
    for belief, flow, edge in zip(beliefs, flows, edges.tolist(), strict=True):
        assert flow * belief == pytest.approx(expected[tuple(edge)], abs=1e-14)
        assert belief.sum() == pytest.approx(1.0)


# -- the same system with more states --------------------------------------------------------------


def assert_same_optimum(one: POMDP, other: POMDP, tolerance: float = 1e-6) -> tuple[Plan, Plan]:
    """The bounds of both meet each other to `tolerance`, and are what their certificates prove."""
    first, second = plan(one, tolerance), plan(other, tolerance)
    assert first.status == second.status == "closed"
    for found, model in ((first, one), (second, other)):
        lower, upper = verify(found, model)
        assert lower == pytest.approx(found.lower, abs=1e-9)
        assert upper == pytest.approx(found.upper, abs=1e-9)
    assert first.lower <= second.upper + 1e-12
    assert second.lower <= first.upper + 1e-12
    return first, second


@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_is_that_of_states_that_remember(seed: int) -> None:
    model = previous_state_model(seed, 2 + seed % 2, 2, 2 + seed % 2)
    found, _ = assert_same_optimum(model, remembering_states(model))
    assert isinstance(found.grid, LowerCertificate)
    assert found.upper - found.lower <= 1e-6


@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_is_the_same_on_sparse_arrays(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed < 3:
        model = previous_state_model(seed, 2 + seed % 2)
    elif seed < 5:
        model = changes_only(0.1, 0.5, hint=0.2 * (seed - 2))
    else:
        model = thin_model(seed)
    dense = plan(model, 1e-6)
    force_sparse(monkeypatch)
    for each in (model, remembering_states(model)):
        found = plan(each, 1e-4, max_work=1e8)
        assert isinstance(found.grid, InformedCertificate)
        assert found.lower_cost <= dense.upper_cost + 1e-12
        assert dense.lower_cost <= found.upper_cost + 1e-12
        assert found.gap < (0.01, 0.08, 0.08, 0.2, 0.2, 0.25)[seed]
        lower, upper = verify(found, each)
        assert lower == pytest.approx(found.lower, abs=1e-9)
        assert upper == pytest.approx(found.upper, abs=1e-9)


@pytest.mark.parametrize("start", [0.0, 0.3, 0.5, 1.0])
def test_what_is_known_once_is_known_for_ever(start: float) -> None:
    """The optimum depends on the start: min(p, 1 - p), for the state stays as unknown as it was."""
    model = changes_only(0.0, start)
    found, other = assert_same_optimum(model, remembering_states(model), 1e-4)
    assert found.lower == pytest.approx(min(start, 1 - start), abs=1e-4)
    assert found.depends_on_start
    assert other.depends_on_start
    run = found.follow([start, 1 - start])
    wrong = 1 - start if run.action == 0 else start
    assert wrong == pytest.approx(min(start, 1 - start))
    if start != 0.5:  # from there, no memory does better than the belief
        with pytest.raises(StartDependentError):
            found.action([0.5, 0.5])


def test_gains_of_closed_classes() -> None:
    """One state leads to two classes of two states each; which one it was is read on the way only."""
    rng = np.random.default_rng(3)
    transition, sensor = np.zeros((2, 5, 5)), np.full((2, 5, 5, 2), 0.5)
    for block in (slice(1, 3), slice(3, 5)):
        transition[:, block, block] = rng.dirichlet(np.ones(2), size=(2, 2))
        sensor[:, block, block] = rng.dirichlet(np.full(2, 0.4), size=(2, 2, 2))
    transition[:, 0, 1:] = 0.25
    sensor[:, 0, 1:3], sensor[:, 0, 3:] = [0.9, 0.1], [0.1, 0.9]
    cost = rng.random((2, 5)) * [0.5, 0.5, 0.5, 1.0, 1.0]
    cost[1] = cost[1, ::-1]
    model = POMDP(Setting(sensor, cost, np.eye(5)[0], units=PLAIN), transition)
    whole = Dynamics.of(model)
    for states in closed_classes(whole):
        inside = ClosedClass.of(whole, states, 10, lambda: False).bounds.dynamics
        assert not inside.factors.is_product
        h = rng.random((1, 2))
        repeated = Chain(inside, np.array([1]), np.zeros((1, 2), np.int64))
        assert repeated @ h == pytest.approx(inside.joint[1].sum(axis=0) @ h[0], abs=1e-15)
    found, _ = assert_same_optimum(model, remembering_states(model), 1e-4)
    assert found.depends_on_start
    again = Plan.from_bytes(found.to_bytes(), "plan")
    assert verify(again, model) == verify(found, model)
    low, high = found.bounds(np.eye(5)[3])
    alone = plan(POMDP(model.setting.replace(initial=np.eye(5)[3]), transition), 1e-4)
    assert max(low, alone.lower) <= min(high, alone.upper) + 1e-9


def test_sparse_bounds_from_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lower bound is that of revealed states, which is 0; the upper one is proved by a controller."""
    model = changes_only(0.0, 0.3)
    force_sparse(monkeypatch)
    found = plan(model, 0.1, max_work=1e7)
    lower, upper = verify(found, model)
    assert lower <= 0.3 <= upper <= 0.51


# -- brute force -----------------------------------------------------------------------------------


def least_cost(model: POMDP, steps: int) -> float:
    """The least expected sum of costs of so many steps from the start, over the tree of all histories."""
    own, n = model.setting, model.n_states

    def after(weights: list[float], left: int) -> float:
        """For unnormalized weights of the states."""
        if not left or sum(weights) == 0.0:
            return 0.0
        best = np.inf
        for a in range(model.n_actions):
            total = sum(weights[s] * float(own.cost[a, s]) for s in range(n))
            for o in range(model.n_observations):
                moved = [0.0] * n
                for s in range(n):
                    for t in range(n):
                        chance = float(model.transition[a, s, t] * own.observation[a, s, t, o])
                        moved[t] += weights[s] * chance
                total += after(moved, left - 1)
            best = min(best, total)
        return best

    return after(own.initial.tolist(), steps)


def allowed_sums(found: Plan, steps: int) -> tuple[float, float]:
    """Between which sums the bounds of a plan put the least cost of so many steps.

    V_k ≥ k lower + h̃ - max h̃ for the relative values h of the lower bound, and V_k ≤ k upper + α - min α for
    those of the controller, by induction from V_0 = 0.
    """
    assert isinstance(found.grid, LowerCertificate)
    most = float(found.controller.vectors.max() - found.controller.vectors.min())
    low = steps * found.lower_cost - float(np.ptp(found.grid.values))
    return low - 1e-9, steps * found.upper_cost + most + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_bounds_against_all_histories(seed: int) -> None:
    model = previous_state_model(seed)
    low, high = allowed_sums(plan(model, 1e-6), 6)
    assert low <= least_cost(model, 6) <= high


def test_a_mean_over_the_state_before_is_caught_by_all_histories() -> None:
    """The oracle tells the two apart: this is what a planner with η(o | a, s') would compute."""
    model = changes_only(0.02, 0.0, hint=0.2)
    exact = least_cost(model, 6)
    low, high = allowed_sums(plan(model, 1e-5), 6)
    assert low <= exact <= high
    low, high = allowed_sums(plan(averaged(model), 1e-5), 6)
    assert exact < low
    mutant, other = plan(averaged(model), 1e-5), plan(remembering_states(model), 1e-5)
    assert mutant.lower > other.upper + 0.05


def value_after(found: Plan, model: POMDP, belief: Array) -> float:
    """The least of c(b, a) + E min α·τ over the actions, by loops over both states and the reading."""
    own, best = model.setting, np.inf
    for a in range(model.n_actions):
        total = float(belief @ own.cost[a])
        for o in range(model.n_observations):
            after = np.zeros(model.n_states)
            for s in range(model.n_states):
                after += belief[s] * model.transition[a, s] * own.observation[a, s, :, o]
            total += float((found.controller.vectors @ after).min())
        best = min(best, total)
    return best


@pytest.mark.parametrize("seed", [1, 3])
def test_vectors_fall_by_the_bound_at_every_belief(seed: int) -> None:
    model = previous_state_model(seed, 3)
    found = plan(model, 1e-6)
    for belief in np.random.default_rng(seed).dirichlet(np.full(3, 0.5), size=50):
        here = float((found.controller.vectors @ belief).min())
        assert value_after(found, model, belief) <= here + found.upper_cost + 1e-12


def test_the_policy_costs_what_the_plan_says() -> None:
    """20,000 steps, 6 standard errors: a false alarm in 10^8 runs, and the seed is fixed."""
    model = changes_only(0.02, 0.5, hint=0.2)
    found = plan(model, 1e-4)
    optimum = 0.5 * (found.lower + found.upper)
    assert list(planner_violations(plan, model, optimum, 20_000, 0)) == []

    def careless(model: POMDP, tolerance: float = 1e-4, time_limit: float | None = None) -> Plan:
        return plan(averaged(model), tolerance, time_limit)

    wrong = list(planner_violations(careless, model, optimum, 5000, 0))
    assert len(wrong) == 1
    assert "does not contain the optimum" in wrong[0]


# -- seen costs ------------------------------------------------------------------------------------


def with_seen_costs(model: POMDP) -> POMDP:
    """The model whose observation is a pair: what was read before, and the cost of the step."""
    own = model.setting
    costs = np.unique(own.cost)
    seen = own.cost[..., None] == costs  # [A, S, C]
    pairs = np.einsum("ato,asc->astoc", own.observation, seen)
    first = np.zeros((own.n_states, own.n_observations, len(costs)))
    if own.first_observation is not None:
        first[:, :, 0] = own.first_observation
    setting = own.replace(
        observation=pairs.reshape(*pairs.shape[:3], -1),
        first_observation=first.reshape(own.n_states, -1) if own.has_first_observation else None,
        observations=None,
    )
    return POMDP(setting, model.transition)


def test_model_checks_of_pairs_of_states() -> None:
    """A name for an entry, a reading that never comes, and actions that differ before the move only."""
    model = previous_state_model(0, 2, 2, 3)
    table = model.setting.observation.copy()
    table[..., 2], table[1] = 0.0, table[0]
    table /= table.sum(axis=-1, keepdims=True)
    table[1, 0, 1] = [1 - 1e-14, 1e-14, 0.0]
    costs = np.repeat(model.setting.cost[:1], 2, axis=0)
    setting = model.setting.replace(observation=table, cost=costs)
    found = [each.text for each in check_model(POMDP(setting, model.transition[[0, 0]]))]
    assert any("observation[a=1, s=0, s′=1, o=1] is 1e-14: was zero meant?" in text for text in found)
    assert any("observations with probability 0 in every state: 2" in text for text in found)
    assert not any("identical" in text for text in found)
    twice = setting.replace(observation=table[[0, 0]])
    found = [each.text for each in check_model(POMDP(twice, model.transition[[0, 0]]))]
    assert any("actions 0 and 1 have identical transitions, observations and costs" in each for each in found)


def test_seen_costs_save_a_sixth_on_the_railway() -> None:
    blind, model = problem("railway"), with_seen_costs(problem("railway"))
    assert model.setting.observation.shape == (2, 3, 3, 36)
    before = plan(blind, 1e-5)
    found, _ = assert_same_optimum(model, remembering_states(model), 1e-5)
    assert before.lower_cost == pytest.approx(0.0624, abs=5e-5)
    assert found.upper_cost == pytest.approx(0.0522, abs=1e-4)
    assert found.upper_cost < before.lower_cost


# -- certificates, files, warm starts --------------------------------------------------------------


def test_a_certificate_of_the_mean_proves_nothing() -> None:
    """Plans for the mean table, passed off as plans for the model, are refused."""
    for seed in (1, 3):
        model = previous_state_model(seed)
        wrong = replace(plan(averaged(model), 1e-6), fingerprint=model.fingerprint)
        with pytest.raises(CertificateError):
            verify(wrong, model)


@pytest.mark.parametrize("forced", [False, True])
def test_spoiled_certificates_are_refused(forced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if forced:
        force_sparse(monkeypatch)
    model = changes_only(0.1, 0.5, hint=0.2)
    found = plan(model, 1e-3, max_work=1e8)
    verify(found, model)
    controller = found.controller
    assert len(controller) > 1
    vectors, values = controller.vectors.copy(), found.grid.values.copy()
    vectors[0, 1] -= 0.01
    values[1] += 0.01
    swapped = (controller.successors + 1) % len(controller)
    spoiled = [
        replace(found, controller=replace(controller, vectors=vectors)),
        replace(found, controller=replace(controller, successors=swapped)),
        replace(found, controller=replace(controller, actions=1 - controller.actions)),
        replace(found, upper_cost=found.upper_cost - 1e-7),
        replace(found, lower_cost=found.lower_cost + 1e-7),
        replace(found, grid=replace(found.grid, values=values)),
    ]
    for wrong in spoiled:
        with pytest.raises(CertificateError):
            verify(wrong, model)


@pytest.mark.parametrize("forced", [False, True])
def test_saved_plans_and_warm_starts(forced: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if forced:
        force_sparse(monkeypatch)
    model = changes_only(0.1, 0.5, hint=0.2)
    found = plan(model, 1e-3, max_work=1e8)
    found.save(tmp_path / "plan.npz")
    again = Plan.load(tmp_path / "plan.npz")
    assert verify(again, model) == verify(found, model)
    near = POMDP(model.setting, model.transition + 0.001 * np.array([1.0, -1.0]))
    warm, cold = plan(near, 1e-3, warm_start=again, max_work=1e8), plan(near, 1e-3, max_work=1e8)
    assert max(warm.lower, cold.lower) <= min(warm.upper, cold.upper) + 1e-12
    verify(warm, near)
    if not forced:
        assert warm.rounds[-1].work < cold.rounds[-1].work
    with pytest.raises(InvalidModelError, match="another shape"):
        plan(previous_state_model(5, 2), 1e-4, warm_start=found)


def test_a_plan_for_the_mean_table_is_a_warm_start() -> None:
    """Only its shape has to fit: the bounds are proved for the model that is planned for."""
    model = previous_state_model(1)
    warm, cold = plan(model, 1e-5, warm_start=plan(averaged(model), 1e-5)), plan(model, 1e-5)
    assert max(warm.lower, cold.lower) <= min(warm.upper, cold.upper) + 1e-12
    verify(warm, model)


def test_a_table_that_repeats_an_ordinary_one_has_its_optimum() -> None:
    """The same M by another way: equal bounds, up to rounding."""
    model = problem("tiger")
    own = model.setting
    table = np.repeat(own.observation[:, None], own.n_states, axis=1)
    same = POMDP(own.replace(observation=table), model.transition)
    assert same.setting.sensor_depends_on_previous
    np.testing.assert_allclose(Dynamics.of(same).joint, Dynamics.of(model).joint, atol=1e-16)
    found, ordinary = plan(same, 1e-6), plan(model, 1e-6)
    assert found.lower == pytest.approx(ordinary.lower, abs=1e-6)
    assert found.upper == pytest.approx(ordinary.upper, abs=1e-6)


def test_plans_are_the_same_interpreted_and_compiled() -> None:
    model = changes_only(0.1, 0.5, hint=0.2)
    found = []
    for way in (False, True):
        with running(way):
            made = plan(model, 1e-2)
        assert isinstance(made.grid, LowerCertificate)
        arrays = (made.controller.vectors, made.controller.successors, made.grid.values, made.grid.weights)
        found.append((made.lower_cost, made.upper_cost, *(array.tobytes() for array in arrays)))
    assert found[0] == found[1]
