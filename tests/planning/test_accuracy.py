"""How narrow a plan's gap has to be, and what it is compared with."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from psrl_pomdp import (
    POMDP,
    CoarsePlanWarning,
    FinitePrior,
    InvalidModelError,
    PlanningBudget,
    PSRLAgent,
    Setting,
    plan,
    problem,
    simulate,
)
from psrl_pomdp.agents.planning_budget import FINITE_RTOL
from psrl_pomdp.models import Units
from psrl_pomdp.planning import solve as planner
from psrl_pomdp.planning.accuracy import COARSE, Accuracy, at_stake


def rare_breakdowns(breakdown: float = 9000.0, overhaul: float = 2500.0, gain: bool = False) -> POMDP:
    """A machine whose breakdown is dear, rare and avoidable; with `gain`, the same numbers as rewards."""
    cost = np.array([[0.0, 20.0, breakdown], [overhaul, overhaul, breakdown]])
    sensor, start = [[0.8, 0.2, 0.0], [0.25, 0.75, 0.0], [0.0, 0.0, 1.0]], [1.0, 0.0, 0.0]
    make = Setting.from_rewards if gain else Setting
    setting = make(sensor, cost if not gain else breakdown - cost, start)
    renewed = [[1.0, 0.0, 0.0]] * 3
    return POMDP(setting, [[[0.9899, 0.01, 0.0001], [0.0, 0.97, 0.03], [1.0, 0.0, 0.0]], renewed])


def test_what_is_at_stake() -> None:
    assert at_stake(0.001, 0.004, 0.5) == 0.004  # the cost, where it is small
    assert at_stake(0.99, 0.995, 1.0) == pytest.approx(0.01)  # its distance from the worst, where gains are
    assert at_stake(0.0, 1e-9, 0.5) == pytest.approx(5e-6)  # what planning gains, where the cost is nothing
    assert 0.0 < at_stake(0.0, 0.0, 0.0) < 1e-9


def test_the_narrowest_of_the_limits_holds() -> None:
    money = Units(0.0, 9000.0, name="euro a day")
    assert Accuracy.of(0.02, None, None, money).allowed(0.0, 0.004, 1.0) == 0.02
    assert Accuracy.of(0.02, 0.1, None, money).allowed(0.0, 0.004, 0.01) == pytest.approx(0.0004)
    assert Accuracy.of(0.02, 0.1, 0.9, money).allowed(0.0, 0.004, 0.01) == pytest.approx(0.0001)
    assert Accuracy.of(1e-5, 0.1, 0.9, money).allowed(0.0, 0.004, 0.01) == 1e-5
    for wrong in ({"rtol": 0.0}, {"rtol": math.nan}, {"atol": -1.0}):
        with pytest.raises(InvalidModelError, match=next(iter(wrong))):
            plan(problem("tiger"), **wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidModelError, match=next(iter(wrong))):
            PlanningBudget(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("gain", [False, True])
def test_plans_keep_the_limits_they_are_given(gain: bool) -> None:
    model = rare_breakdowns(gain=gain)
    width = model.setting.units.high - model.setting.units.low
    coarse = plan(model, 0.02, rtol=math.inf)
    assert coarse.status == "coarse"
    assert coarse.gap <= 0.02
    assert coarse.relative_gap > 0.2
    relative = plan(model, 0.02, rtol=0.05)
    assert relative.status == "closed"
    assert relative.relative_gap <= 0.05
    absolute = plan(model, 0.02, rtol=math.inf, atol=0.5)
    assert absolute.upper - absolute.lower <= 0.5 + 1e-9 * width
    warm = plan(model, 0.02, rtol=0.01, warm_start=coarse)
    assert warm.relative_gap <= 0.01
    exact = plan(model, 1e-7)
    for found in (coarse, relative, absolute, warm):
        assert found.lower <= exact.upper
        assert exact.lower <= found.upper


def test_the_default_pays_little_more_than_the_optimum_where_a_rare_event_is_dear() -> None:
    """Known dynamics. Without the limit beside what is at stake the same agent's plan is a coarse one."""
    model = rare_breakdowns()
    best = plan(model, 1e-7)
    prior = FinitePrior(model.setting, model.transition[None])
    paid = []
    for seed in range(6):
        trace = simulate(model, PSRLAgent(prior, seed=seed), 2000, seed=seed)
        assert all(e.upper_cost - e.lower_cost <= FINITE_RTOL * e.upper_cost for e in trace.episodes)
        assert all(e.tolerance <= 0.02 for e in trace.episodes)  # the theorem's schedule, as before
        paid.append(best.upper + float(trace.regret(best)) / 2000)
    assert np.mean(paid) <= 1.02 * best.upper


def test_a_coarse_plan_is_warned_of_once() -> None:
    model = rare_breakdowns()
    prior = FinitePrior(model.setting, model.transition[None])
    agent = PSRLAgent(prior, budget=PlanningBudget(max_work=1.0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(40):
            agent.act(0)
    assert [each.category for each in caught] == [CoarsePlanWarning]
    assert "% of what is at stake away from optimal" in str(caught[0].message)
    assert caught[0].filename == __file__
    PSRLAgent(prior, budget=PlanningBudget(rtol=math.inf)).act(0)  # the user's own choice


# -- one step of look-ahead -------------------------------------------------------------------------


def looked_ahead(agent: PSRLAgent) -> np.ndarray:
    """[A]: c(b, a) + Σ_o min_n α_n·(b M[a, o]), by plain sums."""
    info, own = agent.info, agent.setting
    found = info.plan
    vectors = found.controller.vectors  # type: ignore[attr-defined]
    states = list(found.states)  # type: ignore[attr-defined]
    total = own.cost @ info.belief
    for a in range(own.n_actions):
        for o in range(own.n_observations):
            after = (info.belief @ info.kernel[a]) * own.observation[a, :, o]
            total[a] += (vectors @ after[states]).min()
    return np.asarray(total)


@pytest.mark.parametrize("name", ["railway", "tiger", "random-readout"])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_action_is_the_best_one_step_ahead_and_info_says_the_same(name: str, compiled: bool) -> None:
    world = problem(name)
    agent = PSRLAgent(world.prior, seed=3, budget=PlanningBudget(min_tolerance=0.02, rtol=math.inf))
    if compiled:
        simulate(world, agent, 50, seed=3)
    rng = np.random.default_rng(4)
    if agent.time == 0:
        agent.act(None)
    for _ in range(30):
        action = agent.act(int(rng.integers(world.setting.n_observations)))
        worth = looked_ahead(agent)
        assert worth[action] <= worth.min() + 1e-11
        more = agent.setting.units.difference(worth - worth.min())
        np.testing.assert_allclose(agent.info.advantages, more, atol=1e-9 * np.abs(more).max() + 1e-9)
        assert agent.info.advantages[action] == 0.0


def test_the_look_ahead_is_never_worse_than_the_node() -> None:
    """min_a Q(b, a) ≤ min α·b + upper at every belief, which is what makes the look-ahead safe."""
    model = rare_breakdowns()
    found = plan(model, 0.02, rtol=math.inf)
    setting, vectors = model.setting, found.controller.vectors
    for belief in np.random.default_rng(5).dirichlet(np.ones(3), 200):
        worth = setting.cost @ belief
        for a in range(2):
            for o in range(3):
                after = (belief @ model.transition[a]) * setting.observation[a, :, o]
                worth[a] += (vectors @ after).min()
        assert worth.min() <= (vectors @ belief).min() + found.upper_cost + 1e-12


def test_a_gap_that_an_attempt_closed_is_judged_whichever_attempt_won(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Attempts' bounds count as equal within rounding, so that the final gap may be slightly wider."""
    monkeypatch.setattr(planner.PlanningRun, "iterate", lambda job, model: "closed")
    found = plan(problem("tiger"), tolerance=1e-9)
    assert found.relative_gap > COARSE
    assert found.status == "coarse"
