"""Bounds that depend on the start, by linear programs, rational arithmetic, simulation and tampering."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from psrl_pomdp import POMDP, CertificateError, Plan, Setting, plan, problem, verify
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.errors import StartDependentError
from psrl_pomdp.models.structure import recurrent_classes
from psrl_pomdp.planning.accuracy import Accuracy
from psrl_pomdp.planning.dynamics import Dynamics
from psrl_pomdp.planning.lower.certificate import LowerCertificate
from psrl_pomdp.planning.markov.gains import (
    end_components,
    gain_and_bias,
    max_transient_steps,
    multichain_policy_iteration,
)
from psrl_pomdp.planning.mdp import optimal_gain
from psrl_pomdp.planning.multichain.bounds import MultichainBounds
from psrl_pomdp.planning.rounds import iterate
from psrl_pomdp.planning.upper.evaluation import Controller


def hypothesis_test(accuracy: float = 0.7) -> POMDP:
    """Two worlds that never change; name the right one, for ever."""
    sensor = [[accuracy, 1 - accuracy], [1 - accuracy, accuracy]]
    setting = Setting(sensor, [[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5], first_observation=None)
    return POMDP(setting, np.stack([np.eye(2), np.eye(2)]))


def sparse_kernel(rng: np.random.Generator, n_actions: int, n_states: int) -> Array:
    """Rows with one or two successors: many recurrent classes, some of them closed."""
    kernel = np.zeros((n_actions, n_states, n_states))
    for a in range(n_actions):
        for s in range(n_states):
            targets = rng.choice(n_states, rng.integers(1, 3), replace=False)
            kernel[a, s, targets] = rng.dirichlet(np.ones(len(targets)))
    return kernel


def two_random_rooms(seed: int, size: int = 2) -> tuple[POMDP, list[POMDP], Array]:
    """Two closed classes that readings tell apart in time; each by itself; and the chance to be in it."""
    rng = np.random.default_rng(seed)
    n_states, n_actions, n_readings = 2 * size, 2, 3
    kernel = np.zeros((n_actions, n_states, n_states))
    halves = slice(0, size), slice(size, n_states)
    for half in halves:
        kernel[:, half, half] = rng.dirichlet(np.ones(size), size=(n_actions, size))
    sensor, cost = rng.dirichlet(np.ones(n_readings), size=n_states), rng.random((n_actions, n_states))
    start = rng.dirichlet(np.ones(n_states))
    whole = POMDP(Setting(sensor, cost, start, first_observation=None), kernel)
    rooms = [
        POMDP(
            Setting(sensor[half], cost[:, half], start[half] / start[half].sum(), first_observation=None),
            kernel[:, half, half],
        )
        for half in halves
    ]
    return whole, rooms, np.array([start[half].sum() for half in halves])


# -- chains and decision processes ------------------------------------------------------------------


def test_gains_of_decision_processes_against_the_linear_program() -> None:
    rng = np.random.default_rng(0)
    for _ in range(150):
        n, n_actions = int(rng.integers(2, 9)), int(rng.integers(1, 4))
        kernel, cost = sparse_kernel(rng, n_actions, n), rng.random((n_actions, n))
        moves = csr_array(kernel.reshape(-1, n))
        gain, bias, policy = multichain_policy_iteration(
            moves, np.ascontiguousarray(cost.T), np.zeros(n, np.int64)
        )
        np.testing.assert_allclose(gain, optimal_gain(kernel, cost), atol=1e-6)
        chosen = kernel[policy, np.arange(n)]
        np.testing.assert_allclose(gain, chosen @ gain, atol=1e-9)
        np.testing.assert_allclose(gain + bias, cost[policy, np.arange(n)] + chosen @ bias, atol=1e-8)


def test_gains_of_a_chain_are_its_averages() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        kernel, cost = sparse_kernel(rng, 1, 6)[0], rng.random(6)
        lazy = 0.5 * (kernel + np.eye(6))  # the same averages, and no periods
        gain, _ = gain_and_bias(csr_array(kernel), cost)
        np.testing.assert_allclose(gain, np.linalg.matrix_power(lazy, 2**20) @ cost, atol=1e-7)


def test_end_components_and_the_longest_ways_between_them() -> None:
    rng = np.random.default_rng(2)
    for _ in range(150):
        n, n_actions = int(rng.integers(2, 9)), int(rng.integers(1, 4))
        kernel = sparse_kernel(rng, n_actions, n)
        moves = csr_array(kernel.reshape(-1, n))
        label, inside = end_components(moves, n_actions)
        for c in recurrent_classes(kernel > 0):
            assert len(set(label[list(c.states)])) == 1
            assert inside.reshape(n_actions, n)[:, list(c.states)].any(axis=0).all()
        recurrent = {s for c in recurrent_classes(kernel > 0) for s in c.states}
        assert set(np.flatnonzero(inside.reshape(n_actions, n).any(axis=0))) == recurrent
        ways = max_transient_steps(moves, label, inside)
        assert ways is not None
        outside = ~inside
        assert (np.tile(ways, n_actions)[outside] >= 1.0 + (moves @ ways)[outside] - 1e-9).all()


# -- the three small cases --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "average"),
    [(problem("two-rooms"), 0.5), (problem("blind-cycle"), 0.35), (hypothesis_test(), 0.0)],
    ids=["two rooms", "blind cycle", "hypothesis test"],
)
def test_start_dependent_averages_to_1e_8(model: POMDP, average: float) -> None:
    found = plan(model, tolerance=1e-8)
    assert found.status == "closed"
    assert found.depends_on_start
    low, high = verify(found, model)
    assert low <= average + 1e-15
    assert average - 1e-15 <= high <= low + 1.01e-8


def test_other_starts_have_bounds_of_their_own() -> None:
    rooms = plan(problem("two-rooms"), tolerance=1e-8)
    for p in (0.0, 0.2, 0.5, 1.0):
        low, high = rooms.bounds([p, 1 - p])
        assert low - 1e-12 <= 0.2 * p + 0.8 * (1 - p) <= high + 1e-12
        assert high - low < 1e-8
    cycle = plan(problem("blind-cycle"), tolerance=1e-8)
    low, high = cycle.bounds([1.0, 0.0])  # a known phase is worth .15, and the plan was not made for it
    assert low <= 0.2 <= high


def test_a_start_that_is_read_first() -> None:
    """With a first reading the start is one belief or another, and the bound their mean."""
    sensor = [[0.7, 0.3], [0.3, 0.7]]
    setting = Setting(sensor, [[0.2, 0.8], [0.9, 0.9]], [0.25, 0.75])
    model = POMDP(setting, np.stack([np.eye(2), np.eye(2)]))
    assert setting.first_observation is not None
    low, high = verify(plan(model, tolerance=1e-8), model)
    assert low - 1e-12 <= 0.25 * 0.2 + 0.75 * 0.8 <= high + 1e-12
    assert high - low < 1e-8


def exact_interval(found: Plan, model: POMDP) -> tuple[Fraction, Fraction]:
    """Both ends by the inequalities for gains, in rational arithmetic, with beliefs as they are given.

    For a single start that is a point, and interpolations that are exact: other ones raise.
    """
    own = Dynamics.of(model)
    joint = [[[[Fraction(float(x)) for x in r] for r in m] for m in action] for action in own.joint]
    cost = [[Fraction(float(x)) for x in row] for row in own.cost]
    states = range(own.n_states)
    gains = found.controller.gains
    nodes = found.controller
    if gains is None:
        gains = np.full(nodes.vectors.shape, found.upper_cost)
    for n, a in enumerate(nodes.actions.tolist()):
        for s in states:
            gain, value = Fraction(0), cost[a][s]
            for o, successor in enumerate(nodes.successors[n].tolist()):
                for t in states:
                    gain += joint[a][o][s][t] * Fraction(float(gains[successor, t]))
                    value += joint[a][o][s][t] * Fraction(float(nodes.vectors[successor, t]))
            assert gain <= Fraction(float(gains[n, s]))
            assert value <= Fraction(float(gains[n, s])) + Fraction(float(nodes.vectors[n, s]))
    start = [Fraction(float(b)) for b in own.start]
    upper = min(
        sum((b * Fraction(float(x)) for b, x in zip(start, row, strict=True)), Fraction(0)) for row in gains
    )
    grid = found.grid
    assert isinstance(grid, LowerCertificate)
    point_gains = np.full(len(grid.values), found.lower_cost) if grid.gains is None else grid.gains
    g, h = ([Fraction(float(x)) for x in array] for array in (point_gains, grid.values))
    points = [[Fraction(float(x)) for x in row] for row in grid.points]
    for i, point in enumerate(points):
        for a in range(own.n_actions):
            gain, value = Fraction(0), sum(b * c for b, c in zip(point, cost[a], strict=True))
            for o in range(own.n_observations):
                after = [sum(point[s] * joint[a][o][s][t] for s in states) for t in states]
                weights = [Fraction(float(w)) * sum(after) for w in grid.weights[i, a, o]]
                basis = grid.basis[i, a, o].tolist()
                made = [sum(w * points[j][t] for w, j in zip(weights, basis, strict=True)) for t in states]
                rest = [x - y for x, y in zip(after, made, strict=True)]
                assert min(rest) >= 0
                gain += sum(w * g[j] for w, j in zip(weights, basis, strict=True))
                gain += sum(r * g[t] for t, r in enumerate(rest))
                value += sum(w * h[j] for w, j in zip(weights, basis, strict=True))
                value += sum(r * h[t] for t, r in enumerate(rest))
            assert g[i] <= gain
            assert g[i] + h[i] <= value
    at_start = [j for j, point in enumerate(grid.points) if (point == own.start).all()]
    return (g[at_start[0]] if at_start else min(g)), upper


def test_certificates_in_rational_arithmetic() -> None:
    """Every inequality as it stands, without a slack, where probabilities are binary fractions."""
    rooms = Setting([[0.75, 0.25], [0.25, 0.75]], [[0.25, 0.75], [0.875, 0.875]], [0.5, 0.5],
                    first_observation=None)  # fmt: skip
    for given, average in (
        (POMDP(rooms, np.stack([np.eye(2), np.eye(2)])), Fraction(1, 2)),
        (problem("blind-cycle"), Fraction(0.3) / 2 + Fraction(0.4) / 2),
        (hypothesis_test(0.75), Fraction(0)),
    ):
        model = replace_first_reading(given)
        lower, upper = exact_interval(plan(model, tolerance=1e-8), model)
        assert average - Fraction(1, 10**8) <= lower <= average <= upper <= average + Fraction(1, 10**8)


def replace_first_reading(model: POMDP) -> POMDP:
    own = model.setting
    return POMDP(Setting(own.observation, own.cost, own.initial, first_observation=None), model.transition)


# -- larger ones ------------------------------------------------------------------------------------


def test_states_in_plain_sight_against_the_linear_program() -> None:
    rng = np.random.default_rng(3)
    several = 0
    for _ in range(40):
        n, n_actions = int(rng.integers(3, 8)), int(rng.integers(1, 3))
        kernel, cost = sparse_kernel(rng, n_actions, n), rng.random((n_actions, n))
        start = rng.dirichlet(np.ones(n))
        model = POMDP(Setting(np.eye(n), cost, start), kernel)
        found = plan(model, tolerance=1e-7, max_work=1e9)
        low, high = verify(found, model)
        average = float(start @ optimal_gain(kernel, cost))
        assert low - 1e-6 <= average <= high + 1e-6
        assert found.status == "closed", (found, average)
        several += found.depends_on_start
    assert several >= 5


@pytest.mark.parametrize("seed", range(2))
def test_rooms_told_apart_by_reading_cost_the_mean_of_the_rooms(seed: int) -> None:
    """Whoever knew the room would pay no less, and who reads on learns it for nothing in the long run."""
    model, rooms, chances = two_random_rooms(seed)
    single = [plan(room, tolerance=1e-6, max_work=1e9) for room in rooms]
    least = float(chances @ [found.lower_cost for found in single])
    most = float(chances @ [found.upper_cost for found in single])
    found = plan(model, tolerance=1e-6, max_points=60)
    verify(found, model)
    assert found.lower_cost <= most + 1e-12
    assert found.upper_cost >= least - 1e-12
    assert most - found.lower_cost < 1e-3
    assert found.gap < 2e-2


def test_the_bounds_hold_after_every_round() -> None:
    model = hypothesis_test(0.6)
    bounds = MultichainBounds(Dynamics.of(model), 200)
    last = (-1.0, 2.0)

    def look(_: object) -> None:
        nonlocal last
        assert last[0] <= bounds.lower <= 0.0 <= bounds.upper <= last[1]
        last = bounds.lower, bounds.upper

    rounds = iter([None] * 6 + ["enough"])
    assert iterate(bounds, Accuracy(1e-12), lambda: next(rounds), look) == "enough"
    assert last[1] < 0.3


def test_following_the_controller_pays_what_was_promised() -> None:
    """200 runs of 400 steps; 5 standard errors: a false alarm in 3 million."""
    model = hypothesis_test()
    found = plan(model, tolerance=1e-3)
    rng = np.random.default_rng(4)
    late = np.empty(200)
    for k in range(200):
        state, run = int(rng.integers(2)), found.follow([0.5, 0.5])
        paid = 0.0
        for t in range(400):
            paid += model.setting.cost[run.action, state] * (t >= 200)
            run.read(int(rng.random() >= model.setting.observation[run.action, state, 0]))
        late[k] = paid / 200
    assert late.mean() <= found.upper_cost + 5 * np.sqrt(found.upper_cost / 200) + 1e-12
    assert len(set(found.controller.actions)) == 2


# -- what users meet --------------------------------------------------------------------------------


def test_a_belief_alone_does_not_say_what_to_do() -> None:
    found = plan(hypothesis_test(), tolerance=1e-3)
    with pytest.raises(StartDependentError, match=r"plan\.follow"):
        found.action([0.5, 0.5])
    assert np.isnan(found.span).all()
    assert found.value([0.5, 0.5]) >= 0.0


def test_saved_and_loaded(tmp_path: Path) -> None:
    model = problem("two-rooms")
    found = plan(model, tolerance=1e-8)
    found.save(tmp_path / "rooms.npz")
    again = Plan.load(tmp_path / "rooms.npz")
    assert again.depends_on_start
    assert verify(again, model) == verify(found, model)
    assert again.bounds([0.3, 0.7]) == found.bounds([0.3, 0.7])


def leaking(chance: float) -> POMDP:
    """A state that costs 1 leaks into one that is free, for ever, and nothing is read."""
    setting = Setting(np.ones((2, 1)), [[1.0, 0.0]], [1.0, 0.0], first_observation=None)
    return POMDP(setting, [[[1.0 - chance, chance], [0.0, 1.0]]])


@pytest.mark.parametrize("chance", [5e-14, 5e-16])
def test_a_small_leak_is_no_rounding(chance: float) -> None:
    """J = 0, however small the leak; a certificate that takes it for rounding claims 1."""
    model, other = leaking(chance), leaking(0.5)
    basis = np.array([0, 1], np.int32) * np.ones((2, 1, 1, 2), np.int32)
    grid = LowerCertificate(
        1.0, np.eye(2), np.zeros(2), basis, np.zeros((2, 1, 1, 2)), np.full((2, 3), -1), np.array([1.0, 0.0])
    )
    one_node = Controller(np.zeros(1, np.int64), np.zeros((1, 1), np.int64), np.zeros((1, 2)), 1.0, 0)
    forged = replace(
        plan(other, 1e-3), grid=grid, controller=one_node, lower_cost=1.0 - 3e-12, upper_cost=1.0,
        fingerprint=model.fingerprint,
    )  # fmt: skip
    with pytest.raises(CertificateError, match="gain of point 0"):
        verify(forged, model)


@pytest.mark.parametrize("chance", [1e-3, 1e-9, 5e-14, 1e-15])
def test_leaks_of_any_size_are_planned_for(chance: float) -> None:
    found = plan(leaking(chance), 1e-6)
    assert found.lower_cost <= 1e-12  # J = 0
    verify(found, leaking(chance))


def test_tampered_gains_are_refused() -> None:
    rooms, test = problem("two-rooms"), hypothesis_test()
    of_rooms, of_test = plan(rooms, tolerance=1e-8), plan(test, tolerance=1e-3)
    assert of_rooms.grid.gains is not None
    assert of_test.controller.gains is not None
    for i in range(len(of_rooms.grid.gains)):
        raised = of_rooms.grid.gains.copy()
        raised[i] += 1e-6
        forged = replace(of_rooms, grid=replace(of_rooms.grid, gains=raised), lower_cost=of_rooms.lower_cost)
        try:
            low, _ = verify(forged, rooms)
        except CertificateError:
            continue
        assert low <= 0.5
    first = of_test.controller.gains.copy()
    first[of_test.controller.start] -= 1e-4
    lower = replace(of_test.controller, gains=first)
    with pytest.raises(CertificateError, match="gain of node"):
        verify(replace(of_test, controller=lower), test)
    wrong = replace(of_test.controller, gains=of_test.controller.gains[:, :1])
    with pytest.raises(CertificateError, match="gains of nodes"):
        verify(replace(of_test, controller=wrong), test)
    everything = of_rooms.grid.gains + 1e-3
    claimed = replace(
        of_rooms, grid=replace(of_rooms.grid, gains=everything), lower_cost=of_rooms.lower_cost + 1e-3
    )
    with pytest.raises(CertificateError, match=r"claims|contradict"):
        verify(claimed, rooms)
