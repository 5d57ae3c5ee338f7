"""OAS-UCRL, SEEU and SM-UCRL: the protocol, their schedules, what they count, and what they achieve."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import (
    POMDP,
    InvalidModelError,
    PlanningBudget,
    Setting,
    check_agent,
    check_planner,
    plan,
    problem,
    simulate,
)
from psrl_pomdp.agents.baselines.base import EstimateAndPlanAgent, ModelPolicy, belief_after
from psrl_pomdp.agents.baselines.coarse_planner import CoarsePlanner, grid, nearest
from psrl_pomdp.agents.baselines.memoryless import best_memoryless
from psrl_pomdp.agents.baselines.oas_ucrl import OASUCRL, ActionWiseOASUCRL
from psrl_pomdp.agents.baselines.seeu import SEEU, SEEUKnownSensor
from psrl_pomdp.agents.baselines.sm_ucrl import SMUCRL

COARSE = PlanningBudget(min_tolerance=0.02, max_tolerance=0.05)
READOUT, RAILWAY = problem("random-readout"), problem("railway")

# Options that make many phases of sixty steps.
QUICK: list[tuple[type[EstimateAndPlanAgent], dict[str, Any]]] = [
    (OASUCRL, {"first_length": 7}),
    (OASUCRL, {"first_length": 7, "radius": 0.01, "models": 2}),
    (ActionWiseOASUCRL, {"first_length": 7}),
    (SEEUKnownSensor, {"tau1": 9, "tau2": 6}),
    (SEEUKnownSensor, {"tau1": 9, "tau2": 6, "planner": "coarse", "radius": 0.01, "models": 1}),
    (SEEU, {"tau1": 25, "tau2": 3, "models": 2}),
    (SEEU, {"tau1": 25, "tau2": 3, "models": 1, "planner": "coarse"}),
    (SMUCRL, {"first_count": 6, "models": 1}),
]
KINDS: list[type[EstimateAndPlanAgent]] = [OASUCRL, ActionWiseOASUCRL, SEEU, SEEUKnownSensor, SMUCRL]


def maker(kind: Any, setting: Setting, options: dict[str, Any]) -> Callable[[int], Any]:
    return lambda seed: kind(setting, seed=seed, budget=COARSE, **options)


@pytest.mark.parametrize(("kind", "options"), QUICK)
@pytest.mark.parametrize("model", [READOUT, RAILWAY], ids=["readout", "railway"])
def test_they_keep_to_the_protocol(
    kind: type[EstimateAndPlanAgent], options: dict[str, Any], model: POMDP
) -> None:
    assert check_agent(maker(kind, model.setting, options), model) == []


@pytest.mark.parametrize(("kind", "options"), QUICK)
def test_saved_at_any_time_they_go_on_the_same(
    kind: type[EstimateAndPlanAgent], options: dict[str, Any]
) -> None:
    readings = [None, *np.random.default_rng(2).integers(4, size=79).tolist()]
    agent = maker(kind, READOUT.setting, options)(5)
    for i, reading in enumerate(readings):
        action = agent.act(reading)
        if i % 10 == 9:
            data = agent.to_bytes()
            agent = kind.from_bytes(data)
            assert agent.to_bytes() == data
            assert agent.action == action


@pytest.mark.parametrize("kind", KINDS)
def test_they_say_what_they_are_told_and_take_nothing_first(kind: type[EstimateAndPlanAgent]) -> None:
    own = READOUT.setting
    silent = Setting(own.observation, own.cost, own.initial, None)
    options = {"first_length": 5} if issubclass(kind, OASUCRL) else {}
    assert kind.information
    assert check_agent(maker(kind, silent, options), POMDP(silent, READOUT.transition), steps=30) == []


# -- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_they_refuse_where_they_do_not_apply(kind: Any) -> None:
    with pytest.raises(InvalidModelError, match="depends on the action"):
        kind(problem("tiger").setting)
    blind = Setting([[0.5, 0.5], [0.5, 0.5]], [[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0])
    with pytest.raises(InvalidModelError, match="rank 1, less than the number of states 2"):
        kind(blind)
    with pytest.raises(InvalidModelError, match="least is 0"):
        kind(READOUT.setting, least=0.0)
    with pytest.raises(InvalidModelError, match="radius is -1"):
        kind(READOUT.setting, radius=-1.0)


@pytest.mark.parametrize("value", [1.5, "many", True, float("nan")])
def test_whole_numbers_are_not_rounded_and_words_are_named(value: Any) -> None:
    with pytest.raises(InvalidModelError, match=f"first_length is {value!r}: a whole number from 1 to"):
        OASUCRL(READOUT.setting, first_length=value)
    with pytest.raises(InvalidModelError, match="iota is 'little': a number from 1e-09 to 1"):
        OASUCRL(READOUT.setting, iota="little")  # type: ignore[arg-type]


def test_planners_are_known_and_grids_small() -> None:
    with pytest.raises(InvalidModelError, match="'clever'"):
        SEEU(READOUT.setting, planner="clever")
    with pytest.raises(InvalidModelError, match="take a larger step"):
        SEEUKnownSensor(problem("river-swim").setting, planner="coarse")


def test_a_tolerance_of_ones_own_is_not_saved() -> None:
    agent = OASUCRL(READOUT.setting, budget=PlanningBudget(tolerance=lambda t: 0.1))
    with pytest.raises(InvalidModelError, match="code"):
        agent.to_bytes()


# -- schedules --------------------------------------------------------------------------------------


def phases(agent: EstimateAndPlanAgent, model: POMDP, steps: int) -> list[tuple[int, int, bool]]:
    """(t, k, whether a plan is played) at the first step of every phase."""
    seen: list[tuple[int, int, bool]] = []
    rng = np.random.default_rng(0)
    for _ in range(steps):
        agent.act(int(rng.integers(model.n_observations)))
        now = (agent.time, agent.episode, agent.model_policy is not None)
        if not seen or now[1:] != seen[-1][1:]:
            seen.append(now)
    return seen


def test_episodes_double() -> None:
    agent = OASUCRL(READOUT.setting, budget=COARSE, first_length=10)
    assert phases(agent, READOUT, 160) == [
        (1, 1, False),
        (11, 2, True),
        (31, 3, True),
        (71, 4, True),
        (151, 5, True),
    ]


def test_exploration_and_exploitation_take_turns() -> None:
    agent = SEEUKnownSensor(READOUT.setting, budget=COARSE, tau1=5, tau2=10)
    assert phases(agent, READOUT, 45) == [
        (1, 1, False), (6, 1, True), (16, 2, False), (21, 2, True), (36, 3, False), (41, 3, True),
    ]  # fmt: skip


def test_an_episode_ends_when_a_count_doubles() -> None:
    agent, taken = SMUCRL(READOUT.setting, first_count=10, models=0), np.full(3, 10)
    rng = np.random.default_rng(0)
    start, episode, ends = taken.copy(), 1, 0
    for _ in range(300):
        action = agent.act(int(rng.integers(4)))
        if agent.episode != episode:
            assert (taken >= 2 * start).any()
            start, episode, ends = taken.copy(), agent.episode, ends + 1
        else:
            assert (taken < 2 * start).all()
        taken[action] += 1
    assert ends >= 4


# -- what they count --------------------------------------------------------------------------------


def test_lost_readings_enter_no_moments() -> None:
    """Against the pairs and triples of readings that are whole, listed one by one."""
    rng = np.random.default_rng(3)
    readings = [None if rng.random() < 0.3 else int(rng.integers(4)) for _ in range(120)]
    known = SEEUKnownSensor(READOUT.setting, tau1=1000)
    unknown = SEEU(READOUT.setting, tau1=1000)
    uniform = SMUCRL(READOUT.setting, first_count=1000)
    pairs, triples = np.zeros((4, 4)), np.zeros((4, 4, 4))
    for t, reading in enumerate(readings):
        for agent in (known, unknown, uniform):
            agent.act(reading)
        if t >= 1 and None not in readings[t - 1 : t + 1]:
            pairs[tuple(readings[t - 1 : t + 1])] += 3.0
        if t >= 2 and None not in readings[t - 2 : t + 1]:
            triples[tuple(readings[t - 2 : t + 1])] += 3.0
    np.testing.assert_allclose(known.moments.weighted.sum(axis=0), pairs)
    np.testing.assert_allclose(unknown.triples.weighted.sum(axis=0), triples)
    np.testing.assert_allclose(uniform.triples.weighted.sum(axis=0), triples)


def test_the_probabilities_that_weigh_are_those_that_were_played() -> None:
    """E[1{a_t = a} / p_t(a)] = 1 for every action: within 5 standard errors for three (false alarm 2e-6)."""
    agent = OASUCRL(READOUT.setting, seed=1, budget=COARSE, first_length=500, burn_in=0.0)
    simulate(READOUT, agent, 3400, seed=1)
    moments = agent.moments
    assert agent.model_policy is not None
    assert moments.pairs[0] > 1800
    mean = moments.weighted.sum(axis=(1, 2)) / moments.pairs[0]
    assert (np.abs(mean - 1.0) <= 5.0 * np.sqrt(moments.squares) / moments.pairs[0]).all()
    assert (moments.squares > 2.0 * 3.0 * moments.pairs[0]).all()  # far from uniform, which has 3 a pair


def test_beliefs_are_those_of_the_whole_history() -> None:
    """Against the sum over every hidden path."""
    own, actions, readings = READOUT.setting, [0, 2, 1], [3, 4, 1]  # 4 stands for a lost one
    total = np.zeros(3)
    sensor = np.column_stack([own.observation[0], np.ones(3)])
    for path in product(range(3), repeat=4):
        chance = own.initial[path[0]] * sensor[path[0], 2]
        for t in range(3):
            chance *= READOUT.transition[actions[t], path[t], path[t + 1]] * sensor[path[t + 1], readings[t]]
        total[path[-1]] += chance
    found = belief_after(READOUT, 2, np.array(actions), np.array(readings))
    np.testing.assert_allclose(found, total / total.sum(), atol=1e-12)
    agent = SEEUKnownSensor(own, budget=COARSE, tau1=3, tau2=50)
    for reading in (2, 3, None, 1, 0, 0):
        agent.act(reading)
    assert agent.model_policy is not None
    codes, after = np.divmod(np.array(agent.history), 5)
    again = belief_after(agent.model_policy.model, 2, codes, after)
    np.testing.assert_allclose(agent.model_policy.belief, again, atol=1e-12)


def test_a_plan_that_depends_on_the_start_is_followed() -> None:
    """In two rooms that nobody leaves, the controller with a memory of its own is played."""
    world = problem("two-rooms")
    found = plan(world, 1e-3)
    assert found.controller.gains is not None
    player, run = ModelPolicy(world, found, world.setting.initial), found.follow(world.setting.initial)
    for reading in (0, 1, 1, 0):
        assert player.action() == run.action
        player.update(run.action, reading)
        run.read(reading)
    player.update(player.action(), world.n_observations)  # a lost reading: the best node for the belief
    assert player.action() == found.follow(player.belief).action


# -- what they achieve ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ActionWiseOASUCRL, SEEUKnownSensor])
def test_with_the_sensor_known_they_learn_the_kernel(kind: Any) -> None:
    agent = kind(READOUT.setting, seed=2, budget=COARSE)
    trace = simulate(READOUT, agent, 6000, seed=2)
    assert agent.model_policy is not None or isinstance(agent, SEEUKnownSensor)
    moments = agent.total if isinstance(agent, ActionWiseOASUCRL) else agent.moments
    assert np.abs(moments.kernel(1e-3) - READOUT.transition).sum(axis=2).mean() < 0.35
    uniform = 0.0466 * 6000  # what uniform actions lose: their stationary average less the optimum
    assert float(trace.regret(plan(READOUT, 1e-4))) < 0.7 * uniform


def test_memoryless_learning_is_linear_where_memory_matters() -> None:
    """No memoryless policy averages less than the best one, so SM-UCRL loses at least that much a step."""
    best, horizon = plan(RAILWAY, 1e-3), 6000
    gap = best_memoryless(RAILWAY).average_cost - best.upper_cost
    trace = simulate(RAILWAY, SMUCRL(RAILWAY.setting, seed=1, models=1), horizon, seed=1)
    scale = RAILWAY.setting.units.high - RAILWAY.setting.units.low
    assert gap > 0.004
    assert float(trace.regret(best)) / scale > gap * horizon


# -- the coarse planner -----------------------------------------------------------------------------


def test_the_coarse_planner_promises_only_what_it_keeps() -> None:
    assert check_planner(CoarsePlanner(), steps=1000) == []
    for name, near in (("machine-repair", 0.004), ("random-readout", 0.004), ("railway", 0.002)):
        model = problem(name)
        assert CoarsePlanner()(model).estimate == pytest.approx(plan(model, 1e-3).upper_cost, abs=near)


def test_points_of_the_grid_are_all_there_and_the_nearest_is_found() -> None:
    points, place = grid(3, 5)
    assert len(points) == len({tuple(p) for p in points}) == 21
    assert (points.sum(axis=1) == 5).all()
    assert sorted(place[points[:, 0] + 6 * points[:, 1]].tolist()) == list(range(21))
    beliefs = np.random.default_rng(1).dirichlet(np.ones(3), 200)
    found = nearest(beliefs, 5)
    distances = ((beliefs[:, None] - points / 5) ** 2).sum(axis=2)
    np.testing.assert_allclose(((beliefs - found / 5) ** 2).sum(axis=1), distances.min(axis=1), atol=1e-12)
    np.testing.assert_array_equal(nearest(points / 5, 5), points)
