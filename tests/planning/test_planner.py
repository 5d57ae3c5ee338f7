"""The certified planner: its bounds hold whenever it stops, its policy attains them, and verify says so."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import oracles
from model_strategies import PUBLIC_FILES, random_model
from psrl_pomdp import (
    POMDP,
    CertificateError,
    InvalidModelError,
    ParseError,
    Plan,
    Setting,
    Units,
    check_planner,
    load,
    plan,
    plan_many,
    problem,
    verify,
)
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp._utils.threads import ONE_THREAD
from psrl_pomdp.planning import Round, optimal_gain
from psrl_pomdp.planning.dynamics import Dynamics
from psrl_pomdp.planning.lower.certificate import LowerCertificate
from psrl_pomdp.planning.lower.grid import Grid
from psrl_pomdp.planning.upper.controllers import ControllerSearch

# -- known answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_two_states_against_exact_value_iteration(seed: int) -> None:
    model = random_model(seed)
    found = plan(model, tolerance=1e-6)
    low, high = oracles.two_state_average(model.transition, model.setting.observation, model.setting.cost)
    assert found.status == "closed"
    assert high - low < 1e-5
    assert found.lower_cost <= high + 1e-12
    assert low <= found.upper_cost + 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_perfect_observation_is_the_mdp(seed: int) -> None:
    rng = np.random.default_rng(seed)
    transition = oracles.random_kernel(rng, 3, 5, 0.5) * 0.95 + 0.01
    setting = Setting(np.eye(5), rng.random((3, 5)), np.full(5, 0.2))
    model = POMDP(setting, transition)
    found = plan(model, tolerance=1e-8)
    best = float(optimal_gain(model.transition, model.setting.cost).mean())
    assert found.lower_cost - 1e-8 <= best <= found.upper_cost + 1e-8
    assert found.gap <= 1e-8


def test_blind_problems_against_every_cycle_of_actions() -> None:
    """With one reading and a resetting action, a policy is a number of waits before it."""
    model = problem("no-sensor")
    cost, transition = model.setting.cost, model.transition
    averages = []
    for waits in range(60):
        belief, total = transition[1, 0], 0.0
        for step in range(waits + 1):
            action = 1 if step == waits else 0
            total += float(belief @ cost[action])
            belief = belief @ transition[action]
        averages.append(total / (waits + 1))
    found = plan(model, tolerance=1e-9)
    assert found.lower_cost <= min(averages) <= found.upper_cost + 1e-12
    assert found.gap <= 1e-9


@pytest.mark.parametrize(
    ("name", "average"),
    [("tiger", 1.0837887), ("machine-repair", 0.4220286), ("bridge-repair", 242.5966)],
)
def test_published_problems(name: str, average: float) -> None:
    found = plan(problem(name), tolerance=1e-6)
    assert found.status == "closed"
    assert found.lower - 1e-4 <= average <= found.upper + 1e-4


PUBLIC = {
    "tiger.95": 1.0837887,
    "1d": 0.3333333,
    "cheese.95": 0.1886792,
    "shuttle.95": 1.8421053,
    "4x3.95": 0.1157735,
    "ejs1": 0.4220286,
}


@pytest.mark.skipif(not PUBLIC_FILES.is_dir(), reason="no folder of public model files")
@pytest.mark.parametrize("stem", PUBLIC)
def test_public_files(stem: str) -> None:
    found = plan(load(PUBLIC_FILES / f"{stem}.POMDP"), tolerance=1e-6)
    assert found.status == "closed"
    assert found.lower - 2e-6 <= PUBLIC[stem] <= found.upper + 2e-6


def tiny(**changes: Any) -> POMDP:
    transition = changes.pop("transition")
    return POMDP(Setting(**changes), transition)


@pytest.mark.parametrize(
    ("model", "average"),
    [
        (tiny(observation=[[1.0]], cost=[[0.7], [0.4]], initial=[1.0], transition=[[[1.0]]] * 2), 0.4),
        (
            tiny(
                observation=[[0.5, 0.5]] * 2,
                cost=[[0.2, 0.6]],
                initial=[0.5, 0.5],
                transition=[[[0.9, 0.1], [0.3, 0.7]]],
            ),
            0.2 * 0.75 + 0.6 * 0.25,
        ),
        (
            tiny(
                observation=np.eye(2),
                cost=[[0.0, 1.0]] * 2,
                initial=[1, 0],
                transition=[[[0, 1], [1, 0]]] * 2,
            ),
            0.5,
        ),
        (
            tiny(
                observation=[[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]],
                cost=[[0.3, 0.3], [0.3, 0.3]],
                initial=[0.5, 0.5],
                transition=[[[0.5, 0.5], [0.5, 0.5]]] * 2,
            ),
            0.3,
        ),
    ],
    ids=["one state", "one action", "periodic", "constant cost, a reading that never comes, twin actions"],
)
def test_degenerate_models(model: POMDP, average: float) -> None:
    found = plan(model, tolerance=1e-9)
    assert found.status == "closed"
    assert found.lower_cost - 1e-12 <= average <= found.upper_cost + 1e-12


def test_unreachable_states_do_not_matter() -> None:
    """A state that costs nothing and keeps one for ever, which the start cannot reach."""
    transition = np.array([[[0.8, 0.2, 0], [0.4, 0.6, 0], [0, 0, 1.0]]])
    setting = Setting(np.eye(3), [[1.0, 0.4, 0.0]], [1, 0, 0])
    found = plan(POMDP(setting, transition), tolerance=1e-9)
    assert found.lower_cost - 1e-9 <= (1.0 * 2 + 0.4) / 3 <= found.upper_cost + 1e-9
    assert found.states == (0, 1)


# -- whenever it is stopped -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_and_only_tighten_after_every_round(seed: int) -> None:
    model = random_model(seed, 3, 3, 3)
    final = plan(model, tolerance=1e-7)
    rounds = final.rounds
    assert all(r.lower <= final.upper_cost and r.upper >= final.lower_cost for r in rounds)
    assert all(a.lower <= b.lower and a.upper >= b.upper for a, b in pairwise(rounds))
    for stop in rounds[:-1]:
        early = plan(model, tolerance=1e-7, max_work=stop.work)
        assert early.status in ("work limit", "closed")
        assert early.lower_cost <= final.upper_cost
        assert final.lower_cost <= early.upper_cost
        low, high = verify(early, model)
        assert low <= final.upper + 1e-12
        assert final.lower <= high + 1e-12


def test_every_limit_has_its_status() -> None:
    model = problem("noisy-grid")
    assert plan(model, tolerance=1e-9, max_points=20).status == "memory limit"
    assert plan(model, tolerance=1e-9, time_limit=0.0).status == "time limit"
    assert plan(model, tolerance=1e-9, max_work=1.0).status == "work limit"

    def press_control_c(done: Round) -> None:
        raise KeyboardInterrupt

    stopped = plan(model, tolerance=1e-9, progress=press_control_c)
    assert stopped.status == "interrupted"
    assert verify(stopped, model) == pytest.approx((stopped.lower, stopped.upper), abs=1e-9)
    with pytest.raises(InvalidModelError, match="tolerance"):
        plan(model, tolerance=0.0)


def test_an_interrupt_inside_of_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba hands it on as the cause of a SystemError; any other SystemError is an error."""

    def broken(cause: BaseException) -> Any:
        def tighten(*arguments: Any, **options: Any) -> None:
            raise SystemError("returned a result with an exception set") from cause

        return tighten

    monkeypatch.setattr(Grid, "tighten", broken(KeyboardInterrupt()))
    assert plan(problem("tiger")).status == "interrupted"
    monkeypatch.setattr(Grid, "tighten", broken(ValueError()))
    with pytest.raises(SystemError):
        plan(problem("tiger"))


def test_the_same_call_gives_the_same_bytes(tmp_path: Path) -> None:
    model = random_model(3, 4, 3, 3)
    for name in ("one", "two"):
        made = plan(model, tolerance=1e-6)
        replace(made, rounds=()).save(tmp_path / name)  # rounds hold seconds
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


# -- the policy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tiger", "machine-repair", "railway", "random-readout"])
def test_the_policy_costs_what_the_bound_says(name: str) -> None:
    """40 runs of 2,000 steps; the mean is at most `upper` plus 5 standard errors: false alarm 3e-7."""
    model = problem(name)
    found = plan(model, tolerance=1e-6)
    setting, dynamics = model.setting, Dynamics.of(model)
    rng = np.random.default_rng(12)
    averages = []
    for _ in range(40):
        state = int(rng.choice(model.n_states, p=setting.initial))
        k = int(rng.choice(len(dynamics.start_weights), p=dynamics.start_weights))
        belief = setting.initial.copy()
        if setting.first_observation is not None:
            k = int(rng.choice(model.n_observations, p=setting.first_observation[state]))
            belief = belief * setting.first_observation[:, k]
            belief /= belief.sum()
        total = 0.0
        for _ in range(2000):
            a = found.action(belief)
            total += setting.cost[a, state]
            state = int(rng.choice(model.n_states, p=model.transition[a, state]))
            o = int(rng.choice(model.n_observations, p=setting.observation[a, state]))
            belief = (belief @ model.transition[a]) * setting.observation[a, :, o]
            belief /= belief.sum()
        averages.append(total / 2000)
    span = found.span[1]  # what a start may cost beside the average
    error = float(np.std(averages)) / np.sqrt(len(averages))
    assert np.mean(averages) <= found.upper_cost + span / 2000 + 5 * error
    assert np.mean(averages) >= found.lower_cost - span / 2000 - 5 * error


def test_values_and_actions_at_beliefs() -> None:
    found = plan(problem("tiger"), tolerance=1e-6)
    listen, left, right = range(3)
    assert [found.action([p, 1 - p]) for p in (0.5, 0.01, 0.99)] == [listen, left, right]
    assert found.value([0.5, 0.5]) > found.value([1.0, 0.0]) >= 0.0
    low, high = found.span
    assert 0 < low <= high < 0.1
    with pytest.raises(InvalidModelError, match="shape"):
        found.action([1.0])
    with pytest.raises(InvalidModelError, match="no distribution"):
        found.action([0.5, 0.2])


# -- certificates ---------------------------------------------------------------------------------


def test_certificates_in_rational_arithmetic() -> None:
    """Both inequalities over fractions: no rounding at all, and the claims hold to 1e-12."""
    for model in (problem("tiger"), random_model(1), random_model(4, 3, 2, 2)):
        found = plan(model, tolerance=1e-5)
        low, high = rational_bounds(found, model)
        assert found.lower_cost <= low + Fraction(1, 10**12)
        assert found.upper_cost >= high - Fraction(1, 10**12)


def rational(rows: Array) -> Any:
    """Entries as fractions, rows exactly summing to one."""
    if rows.ndim > 1:
        return [rational(row) for row in rows]
    exact = [Fraction(float(x)) for x in rows]
    return [x / sum(exact) for x in exact]


def rational_bounds(found: Plan, model: POMDP) -> tuple[Fraction, Fraction]:
    theta, eta = rational(model.transition), rational(model.setting.observation)
    cost = [[Fraction(float(x)) for x in row] for row in model.setting.cost]
    n_actions, n_states, n_readings = len(theta), model.n_states, model.n_observations
    states = range(n_states)

    def joint(a: int, o: int, s: int, t: int) -> Fraction:
        return Fraction(theta[a][s][t] * eta[a][t][o])

    vectors = [[Fraction(float(x)) for x in row] for row in found.controller.vectors]
    high = max(
        cost[a][s]
        + sum(joint(a, o, s, t) * vectors[successors[o]][t] for o in range(n_readings) for t in states)
        - vectors[n][s]
        for n, (a, successors) in enumerate(
            zip(found.controller.actions.tolist(), found.controller.successors.tolist(), strict=True)
        )
        for s in states
    )
    assert isinstance(found.grid, LowerCertificate)
    points, h = rational(found.grid.points), [Fraction(float(x)) for x in found.grid.values]
    low = Fraction(10)
    for i, point in enumerate(points):
        for a in range(n_actions):
            value = sum(point[s] * cost[a][s] for s in states)
            for o in range(n_readings):
                after = [sum(point[s] * joint(a, o, s, t) for s in states) for t in states]
                mass = sum(after)
                if mass > 0:
                    basis = found.grid.basis[i, a, o].tolist()
                    weights = [Fraction(max(float(w), 0.0)) * mass for w in found.grid.weights[i, a, o]]
                    value += rational_interpolation(points, h, after, basis, weights)
            low = min(low, Fraction(value - h[i]))
    return low, Fraction(high)


def rational_interpolation(
    points: Any, h: list[Fraction], after: list[Fraction], basis: list[int], weights: list[Fraction]
) -> Fraction:
    """Weights trimmed by a common factor a column, then the rest on the vertices."""
    made = [sum(w * points[i][t] for w, i in zip(weights, basis, strict=True)) for t in range(len(after))]
    trimmed = []
    for w, i in zip(weights, basis, strict=True):
        ratios = [after[t] / made[t] for t in range(len(after)) if points[i][t] > 0 and made[t] > after[t]]
        trimmed.append(w * min([Fraction(1), *ratios]))
    rest = [
        after[t] - sum(w * points[i][t] for w, i in zip(trimmed, basis, strict=True))
        for t in range(len(after))
    ]
    assert min(rest) >= 0
    return sum((w * h[i] for w, i in zip(trimmed, basis, strict=True)), Fraction(0)) + sum(
        (r * h[t] for t, r in enumerate(rest)), Fraction(0)
    )


def test_saved_plans_come_back(tmp_path: Path) -> None:
    model = problem("railway")
    made = plan(model, tolerance=1e-4)
    made.save(tmp_path / "plan.npz")
    again = Plan.load(tmp_path / "plan.npz")
    assert repr(again) == repr(made)
    assert (again.lower_cost, again.upper_cost, again.rounds) == (
        made.lower_cost,
        made.upper_cost,
        made.rounds,
    )
    assert verify(again, model) == verify(made, model)
    assert again.action([0.2, 0.3, 0.5]) == made.action([0.2, 0.3, 0.5])
    (tmp_path / "not.npz").write_bytes(b"no archive")
    with pytest.raises(ParseError, match="not an archive of arrays"):
        Plan.load(tmp_path / "not.npz")


def tampered(found: Plan, part: str, array: str, change: Any) -> Plan:
    holder = getattr(found, part)
    spoiled = getattr(holder, array).copy()
    change(spoiled)
    return replace(found, **{part: replace(holder, **{array: spoiled})})


def test_tampered_certificates_are_refused() -> None:
    model = problem("machine-repair")
    found = plan(model, tolerance=1e-6)
    assert verify(found, model) == pytest.approx((found.lower, found.upper), abs=1e-10)

    def put(where: Any, value: float) -> Any:
        def change(array: Any) -> None:
            array[where] = value

        return change

    cases = [
        replace(found, lower_cost=found.lower_cost + 1e-6),
        replace(found, upper_cost=found.upper_cost - 1e-6),
        tampered(found, "controller", "vectors", put((0, 0), found.controller.vectors[0, 0] - 0.01)),
        tampered(found, "controller", "actions", put(0, 99)),
        tampered(found, "controller", "successors", put((0, 0), -1)),
        tampered(found, "grid", "values", put(-1, found.grid.values[-1] + 0.01)),
        tampered(found, "grid", "values", put(0, np.nan)),
        tampered(found, "grid", "points", put((-1, 0), 1.5)),
        tampered(found, "grid", "points", put((0, 0), 0.0)),
        tampered(found, "grid", "basis", put((0, 0, 0, 0), 10**6)),
        replace(found, grid=replace(found.grid, values=found.grid.values[:-1])),
    ]
    assert isinstance(found.grid, LowerCertificate)
    cases += [
        replace(found, actions=found.actions[::-1]),
        replace(found, states=found.states[::-1]),
        replace(found, units=Units(0, 1)),
        replace(found, controller=replace(found.controller, start=10**6)),
        replace(found, grid=replace(found.grid, values=np.array(1.0))),
        replace(found, grid=replace(found.grid, weights=found.grid.weights * 1j)),  # type: ignore[arg-type]
    ]
    for case in cases:
        with pytest.raises(CertificateError):
            verify(case, model)
    with pytest.raises(CertificateError, match="another model"):
        verify(found, problem("machine-repair", wear=0.11))


def slow_chain(p: float, q: float, leak: float = 0.0, n_readings: int = 1) -> POMDP:
    """One action, so that J is the chain's own average; relative values are as large as 1 / (p + q)."""
    transition = np.array([[[1 - p, p], [q, 1 - q]]]) * (1 + leak)
    sensor = np.full((2, n_readings), (1 + leak) / n_readings)
    return POMDP(Setting(sensor, [[0.0, 1.0]], [1.0, 0.0]), transition)


@pytest.mark.parametrize("leak", [0.0, -9e-14, 9e-14])
@pytest.mark.parametrize("size", [1e-3, 1e-5, 1e-7, 1e-9, 1e-12])
@pytest.mark.parametrize("n_readings", [1, 3])
def test_rounding_is_paid_for_where_relative_values_are_large(
    size: float, leak: float, n_readings: int
) -> None:
    model = slow_chain(size, 2 * size, leak, n_readings)
    found = plan(model, tolerance=1e-9, max_work=1e8)
    assert found.lower_cost <= 1 / 3 <= found.upper_cost
    low, high = verify(found, model)
    assert low <= 1 / 3 <= high


def test_shifted_certificates_prove_nothing_new() -> None:
    model = problem("machine-repair")
    found = plan(model, tolerance=1e-6)
    flat = replace(found.controller, vectors=np.full_like(found.controller.vectors, 1e18))
    with pytest.raises(CertificateError):
        verify(replace(found, lower_cost=0.0, upper_cost=0.0, controller=flat), model)
    for shift in (1e11, 1e12, 2.0**51):
        moved = replace(found.grid, values=found.grid.values + shift)
        with pytest.raises(CertificateError):
            verify(replace(found, lower_cost=found.lower_cost + 0.15, grid=moved), model)


def test_a_corrupted_warm_start_is_refused() -> None:
    model = problem("tiger")
    found = plan(model)
    controller, grid = found.controller, found.grid
    assert isinstance(grid, LowerCertificate)
    for bad in (
        replace(found, controller=replace(controller, successors=controller.successors + 10**6)),
        replace(found, controller=replace(controller, actions=controller.actions + 5)),
        replace(found, grid=replace(grid, basis=grid.basis + 10**6)),
        replace(found, grid=replace(grid, parents=grid.parents + 10**6)),
        replace(found, grid=replace(grid, values=grid.values * np.nan)),
    ):
        with pytest.raises(CertificateError):
            plan(model, warm_start=bad)


def test_spoiled_weights_prove_less_and_never_too_much() -> None:
    model = random_model(4, 3, 2, 2)
    found = plan(model, tolerance=1e-6)
    assert isinstance(found.grid, LowerCertificate)
    rng = np.random.default_rng(0)
    for _ in range(20):
        weights = found.grid.weights * rng.uniform(0.9, 1.1, found.grid.weights.shape)
        spoiled = replace(found, lower_cost=0.0, grid=replace(found.grid, weights=weights))
        assert verify(spoiled, model)[0] <= found.upper


# -- from an earlier plan, and for many kernels ---------------------------------------------------


def nearby(model: POMDP, seed: int, concentration: float = 3000.0) -> POMDP:
    rng = np.random.default_rng(seed)
    rows = [[rng.dirichlet(concentration * row + 1e-3) for row in action] for action in model.transition]
    return POMDP(model.setting, np.array(rows))


@pytest.mark.parametrize("concentration", [30.0, 3000.0, 1e6])
@pytest.mark.parametrize("seed", range(4))
def test_a_warm_start_ends_where_a_cold_one_does(seed: int, concentration: float) -> None:
    model = random_model(seed, 3, 3, 3)
    earlier = plan(model, tolerance=1e-5)
    other = nearby(model, seed, concentration)
    cold, warm = plan(other, tolerance=1e-5), plan(other, tolerance=1e-5, warm_start=earlier)
    assert warm.status == "closed"
    assert warm.lower_cost <= cold.upper_cost
    assert cold.lower_cost <= warm.upper_cost
    assert verify(warm, other) == pytest.approx((warm.lower, warm.upper), abs=1e-10)


def test_a_warm_start_saves_work_for_the_same_kernel() -> None:
    model = random_model(1, 4, 3, 3)
    earlier = plan(model, tolerance=1e-6)
    again = plan(model, tolerance=1e-6, warm_start=earlier)
    assert again.status == "closed"
    assert len(again.rounds) == 1
    assert again.rounds[-1].work < 0.5 * earlier.rounds[-1].work
    with pytest.raises(InvalidModelError, match="another shape"):
        plan(random_model(0), warm_start=earlier)


def test_plans_for_many_kernels_do_not_depend_on_the_workers() -> None:
    model = random_model(2, 3, 2, 2)
    kernels = np.stack([nearby(model, seed).transition for seed in range(12)])
    one = plan_many(model.setting, kernels, tolerance=1e-5, workers=1)
    two = plan_many(model.setting, kernels, tolerance=1e-5, workers=2)
    assert [(p.lower_cost, p.upper_cost) for p in one] == [(p.lower_cost, p.upper_cost) for p in two]
    for found, kernel in zip(one, kernels, strict=True):
        assert found.status == "closed"
        verify(found, POMDP(model.setting, kernel))


def test_a_constant_in_the_values_costs_no_digits() -> None:
    """Vectors far from zero prove the same as those moved back: rounding must not pass for a bound."""
    model = random_model(2, 3, 2, 2)
    search = ControllerSearch(Dynamics.of(model))
    found = plan(model, 1e-6).controller
    near = search.evaluate(found.actions, found.successors, found.vectors).bound
    far = search.evaluate(found.actions, found.successors, found.vectors - 1.6e11).bound
    assert far == pytest.approx(near, abs=1e-4)
    assert far >= near - 1e-9


# -- checking other planners ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoiled", "words"),
    [
        ({"lower": 1e3, "upper": -1e3}, "is above the upper bound"),
        ({"lower": 500.0, "upper": 500.0}, "does not contain the optimum"),
        ({"action": lambda belief: 7}, "not one of 0 to"),
        ({"lower": -1e3, "upper": 1e3}, "status is closed"),
        ({"action": lambda belief: 0}, "averages"),
        ({"action": None}, "raised TypeError"),
    ],
)
def test_broken_planners_are_found_out(spoiled: dict[str, Any], words: str) -> None:
    def broken(model: POMDP, tolerance: float = 1e-4, time_limit: float | None = None) -> Any:
        good = plan(model, tolerance)
        parts = {"lower": good.lower, "upper": good.upper, "status": "closed", "action": good.action}
        return SimpleNamespace(**(parts | spoiled))

    found = check_planner(broken)
    assert any(words in finding.text for finding in found), found


def test_planning_takes_one_thread_and_gives_the_others_back() -> None:
    """Also where two plans overlap and the first to begin is the first to end."""
    blas = ThreadpoolController().select(user_api="blas")

    def threads() -> list[int]:
        return [library["num_threads"] for library in blas.info()]

    with blas.limit(limits=2):
        inside: list[list[int]] = []
        plan(problem("tiger"), 1e-3, progress=lambda _: inside.append(threads()))
        assert inside
        assert all(set(found) <= {1} for found in inside)
        assert set(threads()) <= {2}
        first, second = ExitStack(), ExitStack()
        first.enter_context(ONE_THREAD)
        second.enter_context(ONE_THREAD)
        first.close()
        assert set(threads()) <= {1}
        second.close()
        assert set(threads()) <= {2}
