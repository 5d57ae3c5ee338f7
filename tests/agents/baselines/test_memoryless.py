"""Memoryless policies: averages and gradients against brute force, the best against enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from oracles import random_kernel
from psrl_pomdp import (
    POMDP,
    InvalidModelError,
    Setting,
    UnknownNameError,
    check_agent,
    plan,
    problem,
    simulate,
)
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp._utils.stopwatch import PLANNING
from psrl_pomdp.agents.baselines.memoryless import MemorylessAgent, average_cost, best_memoryless, gradient


def random_model(seed: int, *, first: bool = True, by_action: bool = False) -> POMDP:
    rng = np.random.default_rng(seed)
    n_actions, n_states, n_readings = 2, 3, 3
    sensors = rng.dirichlet(np.ones(n_readings), (n_actions if by_action else 1, n_states))
    sensor = np.broadcast_to(sensors, (n_actions, n_states, n_readings))
    cost = rng.random((n_actions, n_states))
    first_sensor = rng.dirichlet(np.ones(n_readings), n_states) if first else None
    setting = Setting(sensor, cost, rng.dirichlet(np.ones(n_states)), first_sensor)
    return POMDP(setting, random_kernel(rng, n_actions, n_states))


def random_policy(model: POMDP, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(model.n_actions), model.n_observations + 1)


def average_by_steps(model: POMDP, policy: Array, steps: int) -> float:
    """The mean of E C(s_t, a_t) over the second half of a run, by the joint law of (s, o) at each step."""
    own = model.setting
    law = np.zeros((model.n_states, model.n_observations + 1))
    if own.first_observation is None:
        law[:, -1] = own.initial
    else:
        law[:, :-1] = own.initial[:, None] * own.first_observation
    paid = []
    for _ in range(steps):
        with_action = np.einsum("so,oa->sa", law, policy)
        paid.append(float((with_action * own.cost.T).sum()))
        law[:, :-1] = np.einsum("sa,ast,ato->to", with_action, model.transition, own.observation)
        law[:, -1] = 0.0
    return float(np.mean(paid[steps // 2 :]))


@pytest.mark.parametrize("seed", range(4))
def test_averages_agree_with_stepping_through_time(seed: int) -> None:
    model = random_model(seed, first=seed % 2 == 0, by_action=seed >= 2)
    policy = random_policy(model, seed)
    assert average_cost(model, policy) == pytest.approx(average_by_steps(model, policy, 600), abs=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_gradients_agree_with_differences(seed: int) -> None:
    """Along directions that keep rows distributions; the average is defined for no others."""
    model = random_model(seed, first=seed % 2 == 0, by_action=seed >= 2)
    policy, rng = random_policy(model, seed), np.random.default_rng(seed)
    exact = gradient(model, policy)
    for _ in range(5):
        direction = rng.standard_normal(policy.shape)
        direction -= direction.mean(axis=1, keepdims=True)
        step = 1e-5 * direction * policy.min()
        change = average_cost(model, policy + step) - average_cost(model, policy - step)
        assert change == pytest.approx(2.0 * float((exact * step).sum()), abs=1e-13)


@pytest.mark.parametrize("seed", range(6))
def test_the_best_is_no_worse_than_any_deterministic_or_any_near_it(seed: int) -> None:
    model = random_model(seed, by_action=seed % 2 == 1)
    found = best_memoryless(model)
    rows = product(range(2), repeat=3)
    least = min(average_cost(model, np.eye(2)[[*row, 0]]) for row in rows)
    assert found.average_cost <= least + 1e-9
    assert found.average_cost == pytest.approx(average_cost(model, found.probabilities), abs=1e-8)
    rng = np.random.default_rng(seed)
    for _ in range(50):
        other = found.probabilities + 0.02 * (rng.dirichlet(np.ones(2), 4) - found.probabilities)
        assert average_cost(model, other) >= found.average_cost - 1e-7


def test_chance_can_be_worth_more_than_any_deterministic_policy() -> None:
    """Two states that look the same and take turns on different actions: a coin gets round, no rule does."""
    setting = Setting([[1.0], [1.0]], [[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0])
    stays, moves = np.eye(2), np.eye(2)[::-1]
    model = POMDP(setting, [[moves[0], stays[1]], [stays[0], moves[1]]])
    found = best_memoryless(model)
    assert found.average_cost == pytest.approx(0.5, abs=1e-6)
    for action in (0, 1):
        assert average_cost(model, np.eye(2)[[action, action]]) == pytest.approx(1.0, abs=1e-6)


def test_from_the_models_own_start_where_there_are_several_classes() -> None:
    """The first action, taken before any reading, decides on a room for good: its row is optimized."""
    inside = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    other = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    setting = Setting(np.ones((3, 1)), [[0.5, 0.8, 0.2]] * 2, [1.0, 0.0, 0.0], first_observation=None)
    found = best_memoryless(POMDP(setting, [inside, other]))
    assert found.probabilities[-1].tolist() == pytest.approx([0.0, 1.0], abs=1e-9)
    assert found.average_cost == pytest.approx(0.2, abs=1e-6)


def test_every_action_keeps_the_least_probability() -> None:
    found = best_memoryless(problem("railway"), least=0.1)
    assert found.probabilities.min() >= 0.1 - 1e-12
    assert found.average_cost > best_memoryless(problem("railway")).average_cost
    with pytest.raises(InvalidModelError, match="2 actions"):
        best_memoryless(problem("railway"), least=0.6)


def test_the_row_for_no_reading_is_the_mean_where_it_does_not_matter() -> None:
    found = best_memoryless(problem("railway"))
    mean = found.probabilities[-1]
    assert 0.0 < mean[1] < 0.5
    assert mean.sum() == pytest.approx(1.0)


def test_regret_is_linear_where_memory_matters() -> None:
    """On the railway memory is worth (J_memoryless − J*) a step: what the best memoryless policy loses."""
    world = problem("railway")
    policy, best = best_memoryless(world), plan(world, 1e-3)
    per_step = policy.average_cost - best.upper_cost
    assert per_step > 0.004
    horizon = 10_000
    trace = simulate(world, MemorylessAgent(policy, seed=1), horizon, seed=1)
    loss = float(trace.regret(best)) / (world.setting.units.high - world.setting.units.low)
    # Over 12 other seeds the control variate left a standard deviation of 1.5; 6 of them are a false alarm of
    # 2e-9. To that comes half the gap of the plan.
    assert loss == pytest.approx(per_step * horizon, abs=9.0 + 0.5e-3 * horizon)


def test_to_look_for_the_best_counts_as_planning() -> None:
    before = PLANNING.seconds
    best_memoryless(problem("railway"))
    assert PLANNING.seconds > before


def test_readings_that_there_are_none_of_are_named() -> None:
    agent = MemorylessAgent(best_memoryless(problem("railway")))
    for reading in (-1, 6):
        with pytest.raises(
            UnknownNameError, match=rf"observation {reading} is out of range: \w+ are numbered 0 to 5"
        ):
            agent.act(reading)


def test_the_agent_keeps_to_the_protocol() -> None:
    world = problem("railway")
    policy = best_memoryless(world, least=0.1)
    assert check_agent(lambda seed: MemorylessAgent(policy, seed), world) == []
