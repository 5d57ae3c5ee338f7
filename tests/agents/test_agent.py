"""Algorithm 1 against plain reimplementations of its rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import (
    POMDP,
    DirichletPrior,
    DoublingSchedule,
    FinitePrior,
    InvalidModelError,
    OutOfOrderError,
    ParseError,
    PSRLAgent,
    Setting,
    TSDESchedule,
    UnknownNameError,
    plan,
    problem,
    simulate,
)
from psrl_pomdp._numba import jit as compiled
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.agents.psrl import REASONS, PlanningBudget
from psrl_pomdp.agents.schedules import FixedSchedule, Schedule
from psrl_pomdp.simulation import Simulation
from random_agents import COARSE, dirichlet, family


def in_plain_sight(seed: int, n_states: int = 3) -> Setting:
    rng = np.random.default_rng(seed)
    return Setting(np.eye(n_states), rng.random((2, n_states)), np.full(n_states, 1 / n_states))


def driven(world: POMDP, agent: PSRLAgent, n: int, seed: int = 0) -> Iterator[tuple[int, int]]:
    """(state, action) of a run by plain numpy, one reading at a time."""
    rng = np.random.default_rng(seed)
    own = world.setting
    state = int(rng.choice(world.n_states, p=own.initial))
    reading = None
    if own.first_observation is not None:
        reading = int(rng.choice(world.n_observations, p=own.first_observation[state]))
    for _ in range(n):
        action = agent.act(reading)
        yield state, action
        state = int(rng.choice(world.n_states, p=world.transition[action, state]))
        reading = int(rng.choice(world.n_observations, p=own.observation[action, state]))


# -- episodes ---------------------------------------------------------------------------------------


def test_doubling_starts() -> None:
    prior = family(0)
    agent = PSRLAgent(prior, budget=COARSE)
    for _ in driven(prior.model(0), agent, 130):
        pass
    starts = [episode.start for episode in agent.episodes] + [agent.info.episode_start]
    assert starts == [1, 3, 7, 15, 31, 63, 127]
    assert {episode.ended for episode in agent.episodes} == {"schedule and pseudo-counts"}
    assert [episode.length for episode in agent.episodes] == [2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize("kind", ["finite", "dirichlet"])
def test_tsde_episodes_and_the_definition_of_a_pseudo_count(kind: str) -> None:
    finite = family(1, first=False)
    prior = finite if kind == "finite" else dirichlet(finite.setting)
    agent = PSRLAgent(prior, TSDESchedule(), seed=2, budget=COARSE)
    before = m_start = np.zeros((2, 3), np.int64)
    start, previous = 0, 1
    for t, _ in enumerate(driven(finite.model(0), agent, 300, seed=3), start=1):
        counts, expected = agent.pseudo_counts, agent.posterior.expected_counts
        assert (counts >= before).all()
        assert (counts >= np.ceil(expected - 1e-9)).all()
        assert (counts <= t).all()
        wanted = np.maximum(before, np.ceil(np.round(expected, 9)))
        assert (counts == wanted).all()
        if t == 1 or t > start + previous or (counts > 2 * m_start).any():
            previous, start, m_start = t - start, t, counts
        assert (agent.info.episode_start, agent.info.previous_length) == (start, previous)
        before = counts
    lengths = [1] + [episode.length for episode in agent.episodes]
    assert all(later <= earlier + 1 for earlier, later in pairwise(lengths))
    assert {episode.ended for episode in agent.episodes} <= set(REASONS[1:])
    assert len({episode.ended for episode in agent.episodes}) > 1


def test_fixed_lengths_and_sched_of_ones_own() -> None:
    prior = family(2)
    fixed = PSRLAgent(prior, FixedSchedule(5), budget=COARSE)
    own = PSRLAgent(prior, Schedule("tripling", lambda start, length: 3 * start, "none"), budget=COARSE)
    for agent, starts in ((fixed, [1, 6, 11, 16, 21]), (own, [1, 4, 13])):
        for _ in driven(prior.model(0), agent, 24):
            pass
        assert [e.start for e in agent.episodes] + [agent.info.episode_start] == starts


# -- perfect observation: TSDE for MDPs (Ouyang et al. 2017) -----------------------------------------


def test_in_plain_sight_pseudo_counts_are_counts_and_episodes_are_those_of_tsde() -> None:
    setting = in_plain_sight(4)
    world = POMDP(setting, np.random.default_rng(5).dirichlet(np.ones(3), size=(2, 3)))
    agent = PSRLAgent(dirichlet(setting), seed=6, budget=COARSE)
    visits = np.zeros((2, 3), np.int64)
    start, previous, at_start = 0, 1, visits.copy()
    for t, (state, action) in enumerate(driven(world, agent, 400, seed=7), start=1):
        if t == 1 or t > start + previous or (visits > 2 * at_start).any():
            previous, start, at_start = t - start, t, visits.copy()
        assert agent.info.episode_start == start
        assert (agent.pseudo_counts == visits).all()
        np.testing.assert_allclose(agent.info.belief, np.eye(3)[state], atol=1e-12)
        visits[action, state] += 1


def test_in_plain_sight_a_finite_set_is_tsde_step_for_step() -> None:
    """The whole algorithm by true states and counts, with the same numbers drawn for the samples."""
    rng = np.random.default_rng(8)
    setting = in_plain_sight(9)
    kernels = rng.dirichlet(np.ones(3), size=(4, 2, 3))
    prior = FinitePrior(setting, kernels)
    plans = [plan(prior.model(m), 1e-6) for m in range(4)]
    fine = PlanningBudget(tolerance=lambda start: 1e-6)
    agent = PSRLAgent(prior, TSDESchedule(), seed=10, budget=fine)
    samples = np.random.default_rng(np.random.SeedSequence(10, spawn_key=(0,)).spawn(2)[0])
    log_weights, visits = np.zeros(4), np.zeros((2, 3))
    start, previous, last = 0, 1, (-1, -1)
    at_start = visits.copy()
    for t, (state, action) in enumerate(driven(prior.model(1), agent, 200, seed=11), start=1):
        if t > 1:
            log_weights += np.log(kernels[:, last[1], last[0], state])
        if t == 1 or t > start + previous or (visits > 2 * at_start).any():
            previous, start, at_start = t - start, t, visits.copy()
            weights = np.exp(log_weights - log_weights.max())
            total = np.cumsum(weights / weights.sum())
            chosen = int(np.searchsorted(total, samples.random() * total[-1], side="right"))
        assert agent.info.kernel_number == chosen
        assert action == plans[chosen].action(np.eye(3)[state])
        visits[action, state] += 1
        last = (state, action)


# -- sampling ---------------------------------------------------------------------------------------


def test_the_posterior_sampling_identity() -> None:
    """E g(θ_k, X) = E g(θ*, X) for θ* ~ f: 2,000 runs, 6 paired differences in z below 4.5 each.

    A false alarm in 25,000. A sampler that takes the likeliest kernel fails (z = 6.6).
    """
    prior = family(12, n_kernels=3)
    rng = np.random.default_rng(13)
    plans = {m: plan(prior.model(m), 0.05) for m in range(3)}
    differences = []
    for run in range(2000):
        truth = int(rng.integers(3))
        agent = PSRLAgent(prior, seed=run, budget=COARSE)
        agent.plans = dict(plans)  # not planned again
        played = [action for _, action in driven(prior.model(truth), agent, 7, seed=100_000 + run)]
        sampled = agent.info.kernel_number
        assert sampled is not None
        assert agent.info.episode_start == 7
        difference = np.eye(3)[sampled] - np.eye(3)[truth]
        known = agent.posterior.weights + sum(played[:6])  # what θ_3 was drawn by, and nothing after
        differences.append(np.concatenate([difference, difference * known]))
    table = np.array(differences)
    z = table.mean(axis=0) / (table.std(axis=0, ddof=1) / np.sqrt(len(table)))
    assert np.abs(z).max() < 4.5, z


# -- streaming --------------------------------------------------------------------------------------


def test_a_lost_reading_predicts_and_teaches_nothing() -> None:
    prior = family(14)
    agent = PSRLAgent(prior, seed=1, budget=COARSE)
    action = agent.act(0)
    weights, belief = agent.posterior.weights, agent.info.belief
    kernel = agent.info.kernel
    agent.act(None)
    np.testing.assert_allclose(agent.posterior.weights, weights)
    if agent.info.episode == 1:
        np.testing.assert_allclose(agent.info.belief, belief @ kernel[action])
    assert agent.time == 2


def test_a_log_is_as_good_as_having_been_there() -> None:
    prior = family(15)
    readings, actions = [0, 1, None, 2, 1, 0], [0, 1, 1, 0, 1, 0]
    agent = PSRLAgent(prior, seed=3, budget=COARSE)
    agent.learn(readings, actions)
    by_hand = prior.posterior()
    by_hand.start(0)
    for action, reading in zip(actions, [*readings[1:], 2], strict=True):
        by_hand.update(action, reading)
    agent.act(2)
    np.testing.assert_allclose(agent.posterior.weights, by_hand.weights)
    assert (agent.time, agent.info.episode, agent.info.episode_start) == (7, 1, 7)
    assert agent.info.previous_length == 1
    assert agent.episodes == []
    with pytest.raises(OutOfOrderError, match="a log comes before"):
        agent.learn([0], [0])
    with pytest.raises(InvalidModelError, match="a log of 2 observations and 1 actions"):
        PSRLAgent(prior).learn([0, 1], [0])


def test_a_bad_log_leaves_the_agent_as_it_was() -> None:
    prior = family(15)
    for each in (prior, dirichlet(prior.setting)):
        agent, fresh = (PSRLAgent(each, seed=3, budget=COARSE) for _ in range(2))
        with pytest.raises(LookupError, match="action 9"):
            agent.learn([0, 1], [9, 0])
        with pytest.raises(UnknownNameError, match=r"observations\[1\]: observation -1 is out of range"):
            agent.learn([0, -1], [0, 0])
        assert [agent.act(o) for o in (0, 1, 2, 0)] == [fresh.act(o) for o in (0, 1, 2, 0)]
        assert np.array_equal(agent.posterior.weights, fresh.posterior.weights)


def test_a_kernel_that_was_ruled_out_is_not_played_on() -> None:
    """Kernels that stay or move for certain: one reading tells, and no belief is left under the other."""
    setting = Setting(np.eye(2), [[0.0, 1.0]], [1.0, 0.0])
    stays, moves = np.eye(2)[None], np.eye(2)[::-1][None]
    prior = FinitePrior(setting, [stays, moves], weights=[0.01, 0.99])
    seed = next(s for s in range(50) if _sampled(PSRLAgent(prior, FixedSchedule(9), s)) == 1)
    agent = PSRLAgent(prior, FixedSchedule(9), seed)
    agent.act(0)
    agent.act(0)
    assert agent.episodes[0].ended == "kernel ruled out"
    assert agent.info.kernel_number == 0


def _sampled(agent: PSRLAgent) -> int | None:
    agent.act(0)
    return agent.info.kernel_number


def test_info_explains() -> None:
    model = problem("separated")
    assert model.family is not None
    agent = PSRLAgent(model.family, seed=1)
    with pytest.raises(OutOfOrderError, match="no action"):
        _ = agent.info
    action = agent.act(0)
    info = agent.info
    assert info.action == action
    assert info.plan.lower <= info.plan.upper
    assert info.advantages.min() == 0.0
    np.testing.assert_allclose(info.costs, model.setting.units.from_scaled(model.setting.cost @ info.belief))
    assert info.last_ended is None
    best = int(info.advantages.argmin())
    assert info.advantages[action] < 0.1 or action == best
    assert repr(agent).startswith("PSRLAgent(t=1, episode 1, doubling")


def test_tolerances_shrink_as_the_theorems_want() -> None:
    prior = family(16)
    finite = PSRLAgent(prior, seed=0, budget=PlanningBudget(max_tolerance=1.0, min_tolerance=1e-3))
    general = PSRLAgent(
        dirichlet(prior.setting), seed=0, budget=PlanningBudget(max_tolerance=1.0, min_tolerance=0.2)
    )
    for agent, power, floor in ((finite, 1.0, 1e-3), (general, 0.5, 0.2)):
        for _ in driven(prior.model(0), agent, 100):
            pass
        for episode in agent.episodes:
            assert episode.tolerance == pytest.approx(max(floor, episode.start**-power))
            assert episode.upper_cost - episode.lower_cost <= episode.tolerance
            assert episode.shortfall == 0.0
    starving = PlanningBudget(tolerance=lambda t: 1e-13, min_tolerance=1e-13, max_work=1.0)
    starved = PSRLAgent(prior, seed=0, budget=starving)
    starved.act(0)
    assert starved.present_record.shortfall > 0.0
    assert starved.present_record.status == "work limit"


def test_somebody_elses_planner_can_take_its_place() -> None:
    prior = family(17)
    asked: list[float] = []

    def simple(model: POMDP, tolerance: float = 1e-4, time_limit: float | None = None) -> Any:
        asked.append(tolerance)
        return SimpleNamespace(lower=0.0, upper=0.005, status="closed", action=lambda belief: 1)

    agent = PSRLAgent(prior, planner=simple)
    assert [agent.act(0) for _ in range(10)] == [1] * 10
    assert 1 <= len(asked) <= 3
    trace = simulate(prior.model(0), PSRLAgent(prior, planner=simple), 50)
    assert (trace.actions == 1).all()


def test_parts_that_cannot_be_left_are_played_by_the_controller() -> None:
    model = problem("two-rooms")
    setting = Setting([[0.7, 0.3], [0.3, 0.7]], [[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5])
    prior = FinitePrior(setting, model.transition[None])
    any_gap = PlanningBudget(rtol=np.inf)  # the optimum is 0: no gap is a small share of it
    agent = PSRLAgent(prior, seed=0, budget=any_gap)
    paid = 0.0
    for t, (state, action) in enumerate(driven(POMDP(setting, model.transition), agent, 300, seed=5)):
        paid += setting.cost[action, state] * (t >= 200)
    assert paid <= 10
    agent.act(None)
    assert agent.info.belief == pytest.approx(agent.posterior.belief(model.transition))
    world = POMDP(setting, model.transition)
    one = simulate(world, PSRLAgent(prior, budget=any_gap), 200, seed=1, driver="streaming")
    two = simulate(world, PSRLAgent(prior, budget=any_gap), 200, seed=1, driver="compiled")
    assert (one.actions == two.actions).all()


def test_the_controller_is_followed_reading_by_reading() -> None:
    setting = Setting([[0.7, 0.3], [0.3, 0.7]], [[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5], first_observation=None)
    prior = FinitePrior(setting, np.stack([np.eye(2), np.eye(2)])[None])
    agent = PSRLAgent(prior, FixedSchedule(40), budget=PlanningBudget(tolerance=lambda t: 1e-3, rtol=np.inf))
    agent.act(None)
    run = agent.info.plan.follow(agent.info.belief)  # type: ignore[attr-defined]
    rng = np.random.default_rng(6)
    played = []
    for reading in rng.integers(2, size=39):
        run.read(int(reading))
        played.append(agent.act(int(reading)))
        assert played[-1] == run.action
    assert len(set(played)) == 2


# -- files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["finite", "dirichlet"])
@pytest.mark.parametrize("schedule", [DoublingSchedule(), TSDESchedule()])
def test_saved_in_the_middle_of_an_episode_is_as_if_never_stopped(
    kind: str, schedule: Schedule, tmp_path: Path
) -> None:
    finite = family(18, first=False, sensors=2)
    prior = finite if kind == "finite" else dirichlet(finite.setting)
    world = finite.model(2)
    whole = simulate(world, PSRLAgent(prior, schedule, seed=4, budget=COARSE), 300, seed=5)
    run = Simulation(world, PSRLAgent(prior, schedule, seed=4, budget=COARSE), 5)
    run.until(131)
    assert isinstance(run.agent, PSRLAgent)
    run.agent.save(tmp_path / "agent.npz")
    loaded: Any = PSRLAgent.load(tmp_path / "agent.npz", schedule=schedule)
    run.agent = run.learner = loaded
    halves = run.until(300)
    assert (halves.actions == whole.actions).all()
    assert halves.episodes == whole.episodes
    assert np.array_equal(halves.checkpoints.sums[-1], whole.checkpoints.sums[-1])
    assert np.array_equal(halves.checkpoints.expected[-1], whole.checkpoints.expected[-1])


def test_known_and_tied_rows_survive_a_file(tmp_path: Path) -> None:
    setting = family(19).setting
    prior = DirichletPrior(
        setting,
        np.ones((2, 3, 3)),
        known={(0, 0): [0.5, 0.5, 0.0]},
        ties=[[(0, 1), (1, 2)]],
    )
    agent = PSRLAgent(prior, seed=1, budget=COARSE)
    agent.act(0)
    agent.save(tmp_path / "agent.npz")
    again = PSRLAgent.load(tmp_path / "agent.npz")
    assert again.prior == prior
    assert [agent.act(1), agent.act(2)] == [again.act(1), again.act(2)]


def test_files_that_are_no_agents(tmp_path: Path) -> None:
    agent = PSRLAgent(family(20), budget=PlanningBudget(tolerance=lambda t: 0.05))
    with pytest.raises(InvalidModelError, match=r"\.npz"):
        agent.save(tmp_path / "agent.pkl")
    agent.act(0)
    agent.save(tmp_path / "agent.npz")
    with pytest.raises(InvalidModelError, match="tolerance of your own"):
        PSRLAgent.load(tmp_path / "agent.npz")
    assert PSRLAgent.load(tmp_path / "agent.npz", tolerance=lambda t: 0.05).act(1) == agent.act(1)
    tripling = Schedule("tsde", lambda start, length: 3 * start, "none")
    PSRLAgent(family(20), tripling).save(tmp_path / "own.npz")
    with pytest.raises(InvalidModelError, match="schedule of your own"):
        PSRLAgent.load(tmp_path / "own.npz")
    PSRLAgent(family(20), planner=lambda *words, **more: plan(*words, **more)).save(tmp_path / "own.npz")
    with pytest.raises(InvalidModelError, match="planner of your own"):
        PSRLAgent.load(tmp_path / "own.npz")
    data = (tmp_path / "agent.npz").read_bytes()
    (tmp_path / "half.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(ParseError, match=r"half\.npz"):
        PSRLAgent.load(tmp_path / "half.npz")
    np.savez(tmp_path / "other.npz", words=np.frombuffer(b"{}", np.uint8))
    with pytest.raises(ParseError, match="not a saved agent"):
        PSRLAgent.load(tmp_path / "other.npz")


def test_the_prior_is_checked_at_the_door() -> None:
    with pytest.raises(InvalidModelError, match="prior is a list"):
        PSRLAgent([1, 2])  # type: ignore[arg-type]


def test_expected_counts_add_up_to_the_steps() -> None:
    prior = family(21)
    agent = PSRLAgent(prior, TSDESchedule(), budget=COARSE)
    for t, _ in enumerate(driven(prior.model(0), agent, 60)):
        total: Array = agent.posterior.expected_counts
        assert total.sum() == pytest.approx(t)
        assert ceil(total.max() - 1e-9) <= agent.pseudo_counts.max()


def test_ctrl_c_while_planning_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that was interrupted is usable, but whoever pressed Ctrl-C wants to stop."""
    import psrl_pomdp.agents.planning_budget as module

    def interrupted(model: POMDP, tolerance: float, *_: object, **__: object) -> object:
        return replace(plan(model, tolerance), status="interrupted")

    monkeypatch.setattr(module, "plan", interrupted)
    agent = PSRLAgent(family(2))
    with pytest.raises(KeyboardInterrupt):
        agent.act(0)


def test_an_agent_with_a_time_limit_waits_for_compiled_code_when_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And not inside of `act`. Small models are interpreted; agents without a limit do not wait."""
    asked: list[bool] = []
    monkeypatch.setattr(compiled.PLANNING, "hurry", asked.append)
    rng = np.random.default_rng(0)
    large = Setting(rng.dirichlet(np.ones(6), size=16), rng.random((3, 16)), np.full(16, 1 / 16))
    PSRLAgent(dirichlet(large))
    PSRLAgent(family(1), budget=PlanningBudget(time_limit=1.0))
    assert asked == []
    PSRLAgent(dirichlet(large), budget=PlanningBudget(time_limit=1.0))
    assert asked == [True]


def test_what_is_no_schedule_or_no_effort_is_refused() -> None:
    with pytest.raises(InvalidModelError, match="schedule is 'doubling', not Schedule"):
        PSRLAgent(family(1), "doubling")  # type: ignore[arg-type]
    with pytest.raises(InvalidModelError, match="budget is 3, not PlanningBudget"):
        PSRLAgent(family(1), budget=3)  # type: ignore[arg-type]
