"""TSDE: its counts and episodes by hand, equal to ours in plain sight, linear where memory matters."""

import numpy as np
import pytest
from scipy import stats

from psrl_pomdp import (
    POMDP,
    DirichletPrior,
    InvalidModelError,
    PSRLAgent,
    Setting,
    check_agent,
    plan,
    problem,
    simulate,
)
from psrl_pomdp.agents.baselines.tsde import TSDEAgent, observed_concentration, observed_setting
from psrl_pomdp.agents.psrl import PlanningBudget
from psrl_pomdp.analysis import regret_curve

COARSE = PlanningBudget(min_tolerance=0.02)


def in_plain_sight(seed: int) -> tuple[POMDP, DirichletPrior]:
    rng = np.random.default_rng(seed)
    setting = Setting(np.eye(3), rng.random((2, 3)), np.full(3, 1 / 3))
    return POMDP(setting, rng.dirichlet(np.ones(3), size=(2, 3))), DirichletPrior(setting, np.ones((2, 3, 3)))


def test_counts_and_episodes_by_hand() -> None:
    world, prior = in_plain_sight(1)
    agent = TSDEAgent(prior, seed=2, budget=COARSE)
    rng = np.random.default_rng(3)
    state, visits, seen = int(rng.integers(3)), np.zeros((2, 3), int), np.zeros((2, 3, 3), int)
    start, length, at_start = 0, 1, visits.copy()
    for t in range(1, 301):
        if t == 1 or t > start + length or (visits > 2 * at_start).any():
            length, start, at_start = t - start, t, visits.copy()
        action = agent.act(state)
        assert (agent.start, agent.length) == (start, length)
        visits[action, state] += 1
        after = int(rng.choice(3, p=world.transition[action, state]))
        seen[action, state, after] += 1
        state = after
    agent.act(state)
    np.testing.assert_array_equal(agent.counts, seen)


def test_it_draws_kernels_from_the_dirichlet_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """4,000 draws: each entry within 5 standard errors of the mean; a false alarm in 100,000."""
    import psrl_pomdp.agents.planning_budget as module

    drawn = []

    def planned(model: POMDP, *_: object, **__: object) -> _Nothing:
        drawn.append(model.transition)
        return _Nothing()

    monkeypatch.setattr(module, "plan", planned)
    _, prior = in_plain_sight(4)
    agent = TSDEAgent(prior, seed=5)
    agent.time = 1
    agent.counts[:] = np.random.default_rng(6).integers(0, 9, size=(2, 3, 3))
    for _ in range(4000):
        agent._begin_episode(agent.counts.sum(axis=2))
    alpha = 1.0 + agent.counts
    total = alpha.sum(axis=2, keepdims=True)
    mean = alpha / total
    error = np.sqrt(mean * (1 - mean) / (total + 1) / 4000)
    assert (np.abs(np.mean(drawn, axis=0) - mean) < 5 * error).all()


def test_known_and_shared_rows_stay_known_and_shared() -> None:
    """State s gives reading s + 1. What is counted of one of two pairs with one row is known of both.

    Two shared rows of Dirichlet(1 + 60, 1 + 20): the mean of 500 draws within 5 standard errors of 61 / 82
    (false alarm 6e-7).
    """
    setting = Setting(np.eye(3)[1:], np.zeros((2, 2)), [0.5, 0.5])
    prior = DirichletPrior(setting, np.ones((2, 2, 2)), known={(0, 0): [0.3, 0.7]}, ties=[[(1, 0), (1, 1)]])
    agent = TSDEAgent(prior, seed=1)
    agent.counts[1, 1, 1], agent.counts[1, 2, 2] = 60, 20
    agent.counts[0, 1, 1] = 1000  # says nothing new of a known row
    drawn = np.array([agent._sampled_kernel() for _ in range(500)])
    np.testing.assert_allclose(drawn[:, 0, 1], np.broadcast_to([0.0, 0.3, 0.7], (500, 3)))
    np.testing.assert_array_equal(drawn[:, 1, 1], drawn[:, 1, 2])
    mean = 61 / 82
    assert abs(drawn[:, 1, 1, 1].mean() - mean) < 5 * np.sqrt(mean * (1 - mean) / 83 / 500)
    assert (drawn[:, 0, 2, 1] != drawn[:, 1, 2, 1]).all()


def test_effort_is_heeded_and_a_tolerance_of_ones_own_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    import psrl_pomdp.agents.planning_budget as module

    limits = []

    def planned(model: POMDP, tolerance: float, time_limit: float | None = None, **_: object) -> _Nothing:
        limits.append(time_limit)
        return _Nothing()

    monkeypatch.setattr(module, "plan", planned)
    _, prior = in_plain_sight(9)
    agent = TSDEAgent(prior, budget=PlanningBudget(tolerance=lambda t: 0.1, time_limit=0.5))
    agent.act(0)
    assert limits == [0.5]
    with pytest.raises(InvalidModelError, match="code"):
        agent.to_bytes()


class _Nothing:
    status = "closed"

    def action(self, belief: np.ndarray) -> int:
        return 0


def test_in_plain_sight_it_is_psrl_pomdp() -> None:
    """Regret at 300 steps over 40 runs of each, by Welch's test and by Smirnov's: a false alarm in 500."""
    world, prior = in_plain_sight(7)
    best = plan(world, 1e-8)
    regrets = []
    for kind in (TSDEAgent, PSRLAgent):
        traces = [simulate(world, kind(prior, seed=(i, 1), budget=COARSE), 300, seed=i) for i in range(40)]
        regrets.append(regret_curve(traces, best).upper[:, -1])
    assert stats.ttest_ind(*regrets, equal_var=False).pvalue > 1e-3
    assert stats.ks_2samp(*regrets).pvalue > 1e-3


def test_where_memory_matters_its_regret_is_linear() -> None:
    """The tiger: one reading is not enough to open a door. Twice the time, twice the regret."""
    world = problem("tiger")
    best = plan(world, 1e-6)
    at = [2000, 4000, 8000]
    runs = [simulate(world, TSDEAgent(world.prior, seed=i), 8000, seed=i, checkpoints=at) for i in range(4)]
    low, middle, high = regret_curve(runs, best).lower.mean(axis=0)
    assert 0.8 < (high - middle) / (2 * (middle - low)) < 1.25
    assert high > 8000 * 0.5


def test_what_it_takes_a_problem_for() -> None:
    world = problem("random-readout")
    setting = observed_setting(world.setting)
    sensor = world.setting.observation[0]
    for o in range(4):
        wanted = world.setting.cost @ (sensor[:, o] / sensor[:, o].sum())
        np.testing.assert_allclose(setting.cost[:, o], wanted)
    assert (observed_concentration(world.prior) == 1.0).all()
    observed = problem("river-swim-observed")
    np.testing.assert_array_equal(observed_concentration(observed.prior), observed.prior.concentration)


def test_states_that_are_read_under_other_numbers() -> None:
    """State s gives reading (s + 1) mod 4 of four; the prior's zeros move along."""
    sensor = np.eye(4)[[1, 2, 3]]
    concentration = np.array([[[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [1.0, 0.0, 4.0]]])
    prior = DirichletPrior(Setting(sensor, np.zeros((1, 3)), np.full(3, 1 / 3)), concentration)
    found = observed_concentration(prior)
    np.testing.assert_array_equal(found[0, 1:, 1:], concentration[0])
    assert (found[0, 1:, 0] == 0).all()
    assert check_agent(lambda seed: TSDEAgent(prior, seed), POMDP(prior.setting, prior.mean)) == []


@pytest.mark.parametrize("name", ["river-swim-observed", "machine-repair", "tiger"])
def test_it_keeps_to_the_protocol(name: str) -> None:
    world = problem(name)
    assert check_agent(lambda seed: TSDEAgent(world.prior, seed), world) == []


def test_what_follows_a_lost_reading_is_not_counted() -> None:
    _, prior = in_plain_sight(8)
    agent = TSDEAgent(prior)
    for reading in (0, None, 1, 2, None, None, 0, 1):
        agent.act(reading)
    assert agent.counts.sum() == 2  # 1 -> 2 and 0 -> 1


def test_a_finite_set_has_no_rows_to_count() -> None:
    with pytest.raises(InvalidModelError, match="needs a DirichletPrior"):
        TSDEAgent(problem("separated").family)  # type: ignore[arg-type]
