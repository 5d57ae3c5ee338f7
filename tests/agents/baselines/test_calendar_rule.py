"""Rules of the calendar: their average cost against a long exact rollout, and the best among all of them."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import (
    POMDP,
    InvalidModelError,
    ParseError,
    Setting,
    UnknownNameError,
    plan,
    problem,
    simulate,
)
from psrl_pomdp.agents.baselines.calendar_rule import Calendar, CalendarAgent, best_calendar
from psrl_pomdp.cli.common import find_model
from psrl_pomdp.studies.comparison import default_agents, information_of
from psrl_pomdp.studies.runner import run
from psrl_pomdp.studies.savings import Amount, savings
from psrl_pomdp.studies.store import Store
from psrl_pomdp.studies.study import study_from
from psrl_pomdp.studies.summary import curves


def random_model(seed: int, n_states: int = 3, n_actions: int = 2) -> POMDP:
    rng = np.random.default_rng(seed)
    setting = Setting(
        np.full((n_states, 2), 0.5), rng.random((n_actions, n_states)), rng.dirichlet(np.ones(n_states))
    )
    return POMDP(setting, rng.dirichlet(np.full(n_states, 0.4), size=(n_actions, n_states)))


def rolled_out(model: POMDP, every: int, usual: int, service: int, rounds: int = 3000) -> float:
    """The average cost of the second half of a long time, by pushing the distribution of the state on."""
    state, costs = model.setting.initial, []
    for step in range(1, every * rounds + 1):
        action = service if step % every == 0 else usual
        costs.append(float(state @ model.setting.cost[action]))
        state = state @ model.transition[action]
    return float(np.mean(costs[len(costs) // 2 :]))


@pytest.mark.parametrize("seed", range(6))
def test_the_average_cost_is_that_of_a_long_rollout(seed: int) -> None:
    model = random_model(seed)
    for every, (usual, service) in product((1, 2, 5), ((0, 1), (1, 0))):
        rule = best_calendar(model, every, usual, service)
        assert (rule.every, rule.usual, rule.service) == (every, usual, service)
        assert rule.average_cost == pytest.approx(rolled_out(model, every, usual, service), abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_the_best_rule_is_the_best_of_all(seed: int) -> None:
    model = random_model(seed, n_actions=3)
    averages = {
        (every, a, b): rolled_out(model, every, a, b, rounds=400)
        for every, a, b in product(range(1, 9), range(3), range(3))
    }
    best = best_calendar(model, longest=8)
    assert best.average_cost == pytest.approx(min(averages.values()), abs=1e-5)
    assert averages[best.every, best.usual, best.service] == pytest.approx(best.average_cost, abs=1e-5)
    assert best.average_cost >= plan(model, 1e-4).lower_cost - 1e-6


def test_of_rules_that_cost_the_same_the_shortest_is_taken() -> None:
    setting = Setting(np.eye(2), [[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0])
    assert best_calendar(POMDP(setting, np.full((2, 2, 2), 0.5))).every == 1


def test_where_a_class_cannot_be_left_the_average_is_that_of_the_start() -> None:
    setting = Setting(np.eye(2), [[0.2, 0.8]], [0.25, 0.75])
    rule = best_calendar(POMDP(setting, [np.eye(2)]))
    assert rule.average_cost == pytest.approx(0.25 * 0.2 + 0.75 * 0.8, abs=1e-6)


def test_large_models_are_tried_with_shorter_rounds() -> None:
    assert best_calendar(random_model(0, n_states=900), longest=200).every == 1


def test_the_agent_keeps_time() -> None:
    world = problem("railway")
    agent = CalendarAgent(world, every=3, usual="do-nothing", service="repair")
    assert [agent.act(reading) for reading in (5, None, 0, 2, 3, 4, 1)] == [0, 0, 1, 0, 0, 1, 0]
    again = CalendarAgent.from_bytes(agent.to_bytes())
    assert [again.act(None) for _ in range(4)] == [agent.act(None) for _ in range(4)]


def test_a_simulated_calendar_pays_its_average() -> None:
    """A bound of 5 standard deviations: false alarms in under 1 in a million."""
    world = problem("railway")
    agent = CalendarAgent(world)
    trace = simulate(world, agent, 40_000, seed=3)
    want = float(world.setting.units.from_scaled(agent.rule.average_cost))
    best = plan(world, 1e-6)
    found = best.upper + float(trace.regret(best)) / 40_000
    assert found == pytest.approx(want, abs=2.0)


@pytest.mark.parametrize(
    ("told", "error"),
    [
        ({"every": -1}, "every is -1"),
        ({"every": 2.5}, "every is 2.5"),
        ({"usual": "repiar"}, "did you mean 'repair'"),
        ({"service": 7}, "action 7"),
    ],
)
def test_wrong_options_are_named(told: dict[str, Any], error: str) -> None:
    with pytest.raises((InvalidModelError, UnknownNameError), match=error):
        CalendarAgent(problem("railway"), **told)
    with pytest.raises(InvalidModelError, match="a str is not a POMDP"):
        CalendarAgent("railway")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"rule":{"every":0,"usual":0,"service":0,"average_cost":0.5},"time":0}', b"[1]"]
)
def test_bytes_that_are_no_calendar_are_refused(data: bytes) -> None:
    with pytest.raises(ParseError):
        CalendarAgent.from_bytes(data)


def test_a_calendar_is_a_contestant_that_is_told_everything() -> None:
    chosen = default_agents(find_model("railway"))
    assert chosen["calendar"] == {"kind": "calendar", "name": "calendar"}
    study = study_from({"problem": "railway", "horizon": 1, "seeds": 1, "agents": [chosen["calendar"]]})
    assert information_of(study.agents[0]) == "everything"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Store:
    agents = [
        {"kind": "calendar"},
        {"kind": "calendar", "name": "yearly", "options": {"every": 12, "service": "repair"}},
        {"kind": "random"},
    ]
    words = {"problem": "railway", "horizon": 400, "seeds": 3, "tolerance": 1e-5, "agents": agents}
    store = Store.create(tmp_path_factory.mktemp("savings") / "study", study_from(words))
    assert run(store, workers=1, in_turn=True).failures == []
    return store


def test_savings_are_differences_of_what_was_paid(done: Store) -> None:
    found, regrets = savings(done, "calendar"), curves(done)
    base = found["calendar"]
    assert base.saved is None
    assert base.share is None
    assert 80 < base.average < 110
    for name in ("yearly", "random"):
        own = found[name]
        assert own.saved is not None
        assert own.saved.mean == pytest.approx(base.total.mean - own.total.mean)
        assert own.saved.mean == pytest.approx(regrets["calendar"].middle[-1] - regrets[name].middle[-1])
        assert own.share == pytest.approx(own.saved.mean / base.total.mean)
        assert own.saved.half_width is not None
        gaps = regrets["calendar"].lower[:, -1] - regrets[name].lower[:, -1]
        assert own.saved.half_width == pytest.approx(4.302653 * gaps.std(ddof=1) / np.sqrt(3), rel=1e-5)
    assert savings(done, "nobody")["random"].saved is None


def test_savings_of_rewards_are_positive_where_more_is_earned(tmp_path: Path) -> None:
    agents = [{"kind": "random"}, {"kind": "calendar"}]
    words = {"problem": "machine-repair", "horizon": 300, "seeds": 2, "tolerance": 1e-4, "agents": agents}
    store = Store.create(tmp_path / "study", study_from(words))
    run(store, workers=1)
    found = savings(store, "random")
    saved = found["calendar"].saved
    assert saved is not None
    assert found["calendar"].average > found["random"].average
    assert saved.mean == pytest.approx(found["calendar"].total.mean - found["random"].total.mean)
    assert saved.mean > 0


def test_amounts() -> None:
    assert Amount.of(np.array([2.0])) == Amount(2.0, None)
    assert Amount.of(np.array([1.0, 3.0])).half_width == pytest.approx(12.7062, rel=1e-4)
    assert Calendar(2, 0, 1, 0.5).action(2) == 1
