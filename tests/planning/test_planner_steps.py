"""The steps inside of the planner, each by another route."""

from __future__ import annotations

import copy
from dataclasses import FrozenInstanceError, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array

from model_strategies import random_model
from psrl_pomdp import POMDP, Setting, plan, problem, verify
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.planning import solve as planner
from psrl_pomdp.planning.accuracy import Accuracy
from psrl_pomdp.planning.beliefs import distinct_beliefs
from psrl_pomdp.planning.bound_pair import BoundPair
from psrl_pomdp.planning.dynamics import Dynamics
from psrl_pomdp.planning.interpolation.programs import UNLIMITED_EFFORT
from psrl_pomdp.planning.limits import never_expired
from psrl_pomdp.planning.lower import interpolation_steps as steps
from psrl_pomdp.planning.lower.grid import Grid
from psrl_pomdp.planning.lower.refinement import GridRefinement
from psrl_pomdp.planning.markov.chains import Chain, apply_transposed
from psrl_pomdp.planning.markov.relative_values import solve_gmres, solve_lu
from psrl_pomdp.planning.parameters import (
    ControllerParameters,
    GridParameters,
    PlannerParameters,
    RefinementParameters,
    SearchParameters,
)
from psrl_pomdp.planning.rounds import iterate
from psrl_pomdp.planning.upper.controllers import ControllerSearch
from psrl_pomdp.planning.upper.nodes import belief_trajectory


def test_points_without_little_coordinates_still_close_the_gap() -> None:
    """A grid on which next to everything is left out, and that is sharpened when no point is left to add."""
    model = random_model(5, n_states=4, n_readings=3)
    bounds = BoundPair(Dynamics.of(model), 5000)
    bounds.run_round(1e-6)
    bounds.refine()
    bounds.grid.min_coordinate = 0.3
    bounds.run_round(1e-6)
    assert bounds.gap > 1e-4
    assert iterate(bounds, Accuracy(1e-6), lambda: None) == "closed"
    assert bounds.grid.min_coordinate < 1e-5
    exact = plan(model, 1e-7)
    assert bounds.lower <= exact.upper_cost
    assert bounds.upper >= exact.lower_cost
    points = bounds.grid.beliefs
    assert ((points == 0.0) | (points >= GridParameters().min_coordinate)).all()


def test_points_that_come_when_time_is_up_keep_the_bound_valid() -> None:
    """Plain interpolations, whatever had been found for the points before."""
    model = random_model(4, n_states=4, n_readings=3)
    best = plan(model, tolerance=1e-5)
    for ends in (0, 1, 2):
        grid = Grid(Dynamics.of(model), 500)
        grid.tighten(1e-9, 0.1)
        beliefs = np.random.default_rng(1).dirichlet(np.ones(4), size=60)
        answers = iter([False] * ends + [True] * 1000)
        grid.expired = answers.__next__
        grid.append(beliefs, grid.interpolated(beliefs), np.full((60, 3), -1))
        grid.certify()
        grid.tighten(1e-9, 0.1)
        assert grid.bound <= best.upper_cost


def test_beliefs_that_are_alike_count_once() -> None:
    rng = np.random.default_rng(5)
    some = rng.dirichlet(np.ones(4), size=300)
    beliefs = np.concatenate([some, some[::-1] + 1e-9, np.eye(4)])
    first, which = distinct_beliefs(beliefs)
    different = np.unique(np.round(beliefs * 1e7), axis=0)
    assert len(first) == len(different)
    assert np.abs(beliefs[first][which] - beliefs).max() < 1e-7
    assert all((which[: k + 1] == which[k]).argmax() == first[which[k]] for k in range(len(beliefs)))


def test_what_a_controller_meets_follows_its_belief_policy() -> None:
    """Every belief is the last one filtered, for the action of its least vector and the reading drawn."""
    model = random_model(3, n_states=3, n_readings=3)
    d, rng = Dynamics.of(model), np.random.default_rng(2)
    actions, vectors, uniforms = rng.integers(0, d.n_actions, 7), rng.random((7, 3)), rng.random(200)
    visited = belief_trajectory(d.joint, actions, vectors, d.start, uniforms)
    belief = d.start
    for step, uniform in enumerate(uniforms):
        assert visited[step] == pytest.approx(belief, abs=1e-12)
        after = belief @ d.joint[actions[(vectors @ belief).argmin()]]  # [O, S]
        reading = int(np.searchsorted(np.cumsum(after.sum(axis=1)), uniform))
        belief = after[reading] / after[reading].sum()
    assert len(np.unique(visited.round(7), axis=0)) > 20


def begun(n_states: int = 3) -> BoundPair:
    """Both bounds after three rounds, with the gap still open."""
    bounds = BoundPair(Dynamics.of(random_model(3, n_states=n_states, n_readings=3)), 500)
    for _ in range(3):
        bounds.run_round(1e-9)
        bounds.refine()
    bounds.run_round(1e-9)
    return bounds


def test_a_look_ahead_backs_up_what_its_policy_meets() -> None:
    """Every belief is the start or follows from another by the action of its backup, and is met once."""
    bounds = begun(4)
    search, d = bounds.search, bounds.dynamics
    assert search.best is not None
    vectors = search.best.vectors
    beliefs, actions, successors = search.lookahead_beliefs(vectors, 150, np.random.default_rng(1), np.inf)
    assert 150 <= len(beliefs) < 250
    assert len(np.unique(np.round(beliefs, 7), axis=0)) == len(beliefs)
    again = search.backup(beliefs, vectors)
    assert (again[0] == actions).all()
    assert (again[1] == successors).all()
    after = np.einsum("ns,nost->not", beliefs, d.joint[actions])
    chances = after.sum(axis=2, keepdims=True)
    follow = np.concatenate([d.start[None], (after / np.maximum(chances, 1e-300)).reshape(-1, d.n_states)])
    for belief in beliefs:
        assert np.abs(follow - belief).max(axis=1).min() < 1e-9
    few, *_ = search.lookahead_beliefs(vectors, 150, np.random.default_rng(1), search.work)
    assert len(few) == 1  # no work left beyond the start


def test_a_look_ahead_meets_beliefs_that_recur_only_once() -> None:
    bounds = BoundPair(Dynamics.of(problem("tiger")), 100)
    bounds.run_round(1e-3)
    assert bounds.search.best is not None
    beliefs, *_ = bounds.search.lookahead_beliefs(
        bounds.search.best.vectors, 1000, np.random.default_rng(1), np.inf
    )
    assert 3 < len(beliefs) < 100
    assert len(np.unique(np.round(beliefs, 7), axis=0)) == len(beliefs)


def test_a_look_ahead_finds_a_better_controller() -> None:
    """On a noisy grid, from a controller of the first rounds; and iterating makes a better one still."""
    model = problem("noisy-grid", rows=3, columns=3)
    bounds = BoundPair(Dynamics.of(model), 2000)
    for _ in range(8):
        bounds.run_round(1e-9)
        bounds.refine()
    search, gap = bounds.search, bounds.gap
    assert search.best is not None
    before, best, count = search.bound, search.best, 3 * len(search.best) + 200
    ahead = search.work
    search.lookahead_beliefs(best.vectors, count, np.random.default_rng(2), np.inf)
    ahead = search.work - ahead
    search.improve_by_lookahead(count, np.random.default_rng(2), 1e-2 * gap, search.work + 1.01 * ahead)
    once = search.bound
    assert once <= before
    search.best = best
    search.improve_by_lookahead(count, np.random.default_rng(2), 1e-2 * gap, np.inf)
    assert bounds.grid.bound < search.bound < min(once, before - 0.01 * gap)


def test_looking_ahead_proves_and_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """From early on, in a whole plan."""
    looks: list[float] = []
    improve_by_lookahead = ControllerSearch.improve_by_lookahead

    def counted(search: ControllerSearch, *how: Any) -> None:
        looks.append(search.bound)
        improve_by_lookahead(search, *how)
        looks.append(search.bound)

    early = PlannerParameters(search=SearchParameters(lookahead_min_work=1e7))
    monkeypatch.setattr(planner, "PARAMETERS", early)
    monkeypatch.setattr(ControllerSearch, "improve_by_lookahead", counted)
    model = problem("railway")
    plans = [plan(model, 1e-6, max_work=1e9) for _ in range(2)]
    half = len(looks) // 2
    assert looks[:half] == looks[half:]
    assert any(after < before for before, after in zip(looks[::2], looks[1::2], strict=True))
    for name in ("actions", "successors", "vectors"):
        assert np.array_equal(*(getattr(found.controller, name) for found in plans))
    assert verify(plans[0], model) == pytest.approx((plans[0].lower, plans[0].upper), abs=1e-9)


def test_after_a_look_ahead_in_vain_the_next_one_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = BoundPair(Dynamics.of(problem("railway")), 100)
    bounds.run_round(1e-9)
    gains = iter([0.04, 0.06])

    def improve(search: ControllerSearch, *_: Any) -> None:
        assert search.best is not None
        search.best = replace(search.best, bound=search.bound - next(gains) * bounds.gap)

    monkeypatch.setattr(ControllerSearch, "improve_by_lookahead", improve)
    for waits in (2.0, 1.0):
        bounds._lookahead_due = 0.0
        bounds._improve_by_lookahead()
        assert bounds._lookahead_due == waits * bounds.work
    bounds._lookahead_due = 2.0 * bounds.work
    bounds._improve_by_lookahead()  # it is not due: nothing is left in `gains` for another one


@pytest.mark.parametrize("seed", [1, 5])
def test_bounds_hold_whatever_the_parameters(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that are too long, too short or too few make bounds that are wide, and never wrong ones."""
    model = random_model(seed, n_states=4, n_readings=3)
    exact = plan(model, 1e-6)
    odd = PlannerParameters(
        grid=GridParameters(
            damping=1.5, policy_iterations=1, min_coordinate=1e-2, point_separation=1e-2, face_share=5.0
        ),
        refinement=RefinementParameters(growth=2.0, dropped_share=0.9),
        search=SearchParameters(long_search_patience=0.5, lookahead_min_work=0.0, trajectory_steps=3),
        controllers=ControllerParameters(
            damping=1.5, scores_at_once=7, max_edges=2, mass_sweeps=1, trajectories=1, dense_pairs=0
        ),
    )
    monkeypatch.setattr(planner, "PARAMETERS", odd)
    found = plan(model, 1e-6, max_work=5e8)
    assert found.lower_cost <= exact.upper_cost
    assert exact.lower_cost <= found.upper_cost
    assert found.gap > exact.gap
    assert verify(found, model) == pytest.approx((found.lower, found.upper), abs=1e-9)


def test_parameters_cannot_be_changed_in_place() -> None:
    with pytest.raises(FrozenInstanceError):
        planner.PARAMETERS.grid.damping = 0.5  # type: ignore[misc]


class Chooser(GridRefinement):
    """A refinement that only chooses between its ways, with bounds and work that are given."""

    def __init__(self) -> None:
        dynamics = SimpleNamespace(start=np.ones(1))
        grid: Any = SimpleNamespace(work=1.0, dynamics=dynamics)
        super().__init__(grid, np.random.default_rng(0), RefinementParameters())
        self.n_rounds, self.lower = 0, 0.0

    def after(self, gain: float, work: float) -> int:
        """The way to refine after a round that raised the bound so much for that much work."""
        self.lower, self.grid.work = self.lower + gain, self.grid.work + work
        self.n_rounds += 1
        self._choose_way(self.n_rounds, self.lower, 1.0)
        return self._way


def test_the_way_to_refine_that_gains_more_for_its_work_is_taken() -> None:
    chooser, kept = Chooser(), 1 - RefinementParameters().rate_decay
    assert chooser.after(0.1, 1.0) == 0  # the first points come before any refinement
    assert chooser.after(0.09, 2.0) == 1  # a tenth of the gap for two units of four; now the other way
    assert chooser.after(0.0405, 4.0) == 0  # a twentieth for four units of eight: less
    assert chooser._rates[0] == pytest.approx(0.2 * kept)
    assert chooser._rates[1] == pytest.approx(0.1)
    assert chooser.after(0.1, 8.0) == 1  # better still; but every so often it is the other's turn
    assert chooser._rates[0] == pytest.approx(0.5 * (0.2 * kept + 0.1 / 0.7695 * 16 / 8))
    assert chooser.after(0.0, 8.0) == 0


def test_a_greedy_trajectory_looks_one_step_ahead() -> None:
    """Against HiGHS: h̃ at every belief, an action that attains min_a {c + Σ P h̃}, and what a point would lift
    there; then the filter."""
    bounds, uniforms = begun(), np.random.default_rng(4).random(25)
    d, grid = bounds.dynamics, bounds.grid
    points, h = grid.points[:, : grid.n], grid.h[: grid.n]

    def interpolated(belief: Array) -> float:
        return -float(linprog(-h, A_eq=points, b_eq=belief, bounds=(0, None), method="highs").fun)

    visited, residual, end = grid.sample_trajectory(d.start, uniforms)
    onward = np.concatenate([visited.beliefs[1:], [end]])
    assert len(np.unique(onward.round(7), axis=0)) > 10
    for belief, value, gain, uniform, after in zip(
        visited.beliefs, visited.values, residual, uniforms, onward, strict=True
    ):
        assert value == pytest.approx(interpolated(belief), abs=1e-8)
        joint = belief @ d.joint  # [A, O, S]
        chance = joint.sum(axis=2)
        values = d.cost @ belief + [
            sum(p * interpolated(j / p) for p, j in zip(*of, strict=True))
            for of in zip(chance, joint, strict=True)
        ]
        assert gain == pytest.approx(values.min() - grid.bound - value, abs=1e-8)
        readings = [int(np.searchsorted(np.cumsum(p), uniform)) for p in chance]
        greedy = np.flatnonzero(values < values.min() + 1e-8)
        assert (
            min(np.abs(joint[a, readings[a]] / chance[a, readings[a]] - after).max() for a in greedy) < 1e-9
        )


def test_points_along_a_trajectory_are_new_and_lift_most() -> None:
    bounds = begun(4)
    grid = bounds.grid
    refinement = bounds.refinement
    uniforms = copy.deepcopy(refinement._rng).random(60)
    visited, residual, _ = grid.sample_trajectory(refinement._belief, uniforms)
    known = visited.beliefs[7:9]
    found = refinement._points_along_trajectory(30, known)
    old = np.concatenate([grid.beliefs, known])
    new = np.array([np.abs(old - belief).max(axis=1).min() > 1e-6 for belief in visited.beliefs])
    best = [
        visited.beliefs[k] for k in np.argsort(-residual, kind="stable") if new[k] and residual[k] > 1e-12
    ]
    first = np.sort(np.unique(np.round(best, 7), axis=0, return_index=True)[1])
    assert 5 < len(found.beliefs) <= 30
    assert found.beliefs == pytest.approx(np.array(best)[first][: len(found.beliefs)], abs=1e-9)


def test_points_that_look_cheap_are_looked_at_again() -> None:
    """Old interpolations make a point look so cheap that nobody visits it any more, and then nobody asks."""
    bounds = begun(4)
    grid, d = bounds.grid, bounds.dynamics
    grid.tighten(1e-10, bounds.gap, everywhere=True)
    best = grid.solve(1e-10)
    worst = d.n_states + int(grid.mass[d.n_states : grid.n].argmax())
    found = []
    for missed_points in ([], [worst]):
        again = copy.deepcopy(bounds)
        arrays = again.grid
        steps.interpolate_by_vertices(
            worst, worst + 1, arrays.h, arrays.obs_prob, arrays.tau, arrays.basis, arrays.weights, arrays.cost
        )
        arrays.solve(1e-10)
        arrays.reinterpolate(arrays.h, 1.0, np.arange(arrays.n) != worst, UNLIMITED_EFFORT)  # away from it
        arrays.missed_points = np.array(missed_points, np.int64)
        arrays.tighten(1e-10, 1e-4)
        found.append(arrays.solve(1e-10))
    assert found[0] < best - 1e-6
    # Not all of it: at the other points that it changed, nobody asks again until they are visited.
    assert best - found[1] < 0.3 * (best - found[0])
    bounds.grid.missed_points = np.empty(0, np.int64)
    bounds.refine()
    known = grid.beliefs[grid.missed_points]
    onward = grid.tau[: grid.n].reshape(-1, d.n_states)
    assert all(np.abs(onward - belief).max(axis=1).min() < 1e-6 for belief in known)


# -- formulas by another route --------------------------------------------------------------------


def test_vectors_of_nodes_against_loops() -> None:
    model = random_model(2, 3, 2, 2)
    search = ControllerSearch(Dynamics.of(model))
    rng = np.random.default_rng(1)
    actions, successors, old = rng.integers(2, size=4), rng.integers(5, size=(4, 2)), rng.random((5, 3))
    found = search.node_vectors(actions, successors, old, gain=0.3)
    for n, a in enumerate(actions):
        for s in range(3):
            value = model.setting.cost[a, s] - 0.3
            for o in range(2):
                for t in range(3):
                    chance = model.transition[a, s, t] * model.setting.observation[a, t, o]
                    value += chance * old[successors[n, o], t]
            assert found[n, s] == pytest.approx(value, abs=1e-12)


def test_chains_by_factors_are_chains_by_entries() -> None:
    """Also where readings never come, and where a state is never moved to."""
    rng = np.random.default_rng(8)
    transition, sensor = rng.dirichlet(np.ones(4), size=(2, 4)), rng.dirichlet(np.ones(3), size=(2, 4))
    transition[0, :, 2], sensor[1, :, 0], sensor[0, 1] = 0.0, 0.0, [0.0, 1.0, 0.0]
    transition[1, 0] = [0.0, 0.0, 0.0, 1.0]
    transition, sensor = (of / of.sum(axis=2, keepdims=True) for of in (transition, sensor))
    d = Dynamics.of(POMDP(Setting(sensor, rng.random((2, 4)), np.full(4, 0.25)), transition))
    moves = csr_array((d.factors.transitions, d.factors.indices, d.factors.indptr), shape=(8, 4)).toarray()
    joint = np.einsum("ast,aot->aost", moves.reshape(2, 4, 4), d.factors.observation)
    assert joint == pytest.approx(d.joint, abs=1e-15)
    assert ((joint > 0) == (d.joint > 0)).all()
    assert (d.factors.possible == [[True, True, True], [False, True, True]]).all()
    actions, successors = rng.integers(2, size=5), rng.integers(5, size=(5, 3))
    chain, h = Chain(d, actions, successors), rng.random(20)
    matrix = chain.matrix()
    assert matrix.nnz == chain.nnz
    assert matrix.sum(axis=1) == pytest.approx(np.ones(20), abs=1e-12)
    assert chain @ h == pytest.approx(matrix @ h, abs=1e-14)
    after = np.zeros((5, 4))
    apply_transposed(d.factors, actions, successors, h.reshape(5, 4), after)
    assert after.ravel() == pytest.approx(matrix.T @ h, abs=1e-14)


def test_flows_are_those_of_the_long_run() -> None:
    """Against the stationary distribution by a dense solve, for two controllers in turn: what is kept is the
    last one's, and of nobody else."""
    model = random_model(4, n_states=3, n_readings=3)
    d, rng = Dynamics.of(model), np.random.default_rng(6)
    search = ControllerSearch(d)
    some = [
        search.evaluate(rng.integers(d.n_actions, size=n), rng.integers(n, size=(n, 3)), np.zeros((n, 3)))
        for n in (4, 6)
    ]
    for controller in (some[0], some[1], some[1], some[0]):
        n = len(controller)
        steps = np.zeros((n, 3, n, 3))
        for node, a in enumerate(controller.actions):
            for o in range(3):
                steps[node, :, controller.successors[node, o]] += d.joint[a, o]
        chain = steps.reshape(3 * n, 3 * n)
        mass = np.zeros(3 * n)
        mass[3 * controller.start : 3 * controller.start + 3] = d.start
        mass = (mass @ np.linalg.matrix_power(0.5 * np.eye(3 * n) + 0.5 * chain, 2**14)).reshape(n, 3)
        beliefs, flow, edges = search._edge_flows(controller)
        assert len(flow) == 3 * (mass.sum(axis=1) > 1e-9).sum()
        assert flow.sum() == pytest.approx(1.0, abs=1e-6)
        assert (np.diff(flow) <= 0.0).all()
        for belief, share, (node, o) in zip(beliefs, flow, edges, strict=True):
            after = mass[node] @ d.joint[controller.actions[node], o]
            assert share * belief == pytest.approx(after, abs=1e-6)


@pytest.mark.parametrize("with_factors", [False, True])
def test_relative_values_of_chains(with_factors: bool) -> None:
    """Against a dense solve; a ring that hardly ever turns mixes slowly, and has the help of factors."""
    rng = np.random.default_rng(11)
    n = 300
    slow = 0.01 * np.roll(np.eye(n), 1, axis=1) + 0.99 * np.eye(n)
    quick = rng.dirichlet(np.full(n, 0.02), size=n)
    for matrix in (quick, *([0.99 * slow + 0.01 * quick] if with_factors else [])):
        chain, paid = csr_array(matrix), rng.random(n)
        bordered = np.block([[np.eye(n) - matrix, np.ones((n, 1))], [np.eye(1, n), np.zeros((1, 1))]])
        exact = np.linalg.solve(bordered, np.append(paid, 0.0))
        h, work = solve_gmres(chain, paid, np.zeros(n), 1e-9, never_expired, chain if with_factors else None)
        assert h is not None
        assert work > 0.0
        assert np.ptp(paid + matrix @ h - h) <= 2e-9
        assert paid + matrix @ h - h == pytest.approx(np.full(n, exact[n]), abs=2e-9)
        direct, _ = solve_lu(chain, paid)
        assert direct == pytest.approx(exact[:n], abs=1e-7 * max(1.0, np.abs(exact).max()))


def test_relative_values_are_not_needed_where_the_gain_is_too_large() -> None:
    rng, n = np.random.default_rng(12), 400
    matrix = 0.5 * np.eye(n) + 0.4999 * np.roll(np.eye(n), 1, axis=1) + 0.0001 / n
    chain, paid = csr_array(matrix), 0.5 + 0.1 * rng.random(n)
    _, work = solve_gmres(chain, paid, np.zeros(n), 1e-12, never_expired)
    h, less = solve_gmres(chain, paid, np.zeros(n), 1e-12, never_expired, give_up_above=0.3)
    assert less < work
    assert h is not None
    assert (paid + matrix @ h - h).min() >= 0.3


def test_relative_values_that_there_are_not() -> None:
    """Two closed classes of different cost: no gain is that of both."""
    chain, paid = csr_array(np.eye(2)), np.array([0.0, 1.0])
    assert solve_gmres(chain, paid, np.zeros(2), 1e-9, never_expired)[0] is None
    assert solve_gmres(chain, paid, np.zeros(2), 1e-9, never_expired, factored=chain)[0] is None
    with pytest.raises(RuntimeError):
        solve_lu(chain, paid)
