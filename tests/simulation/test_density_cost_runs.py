"""Runs in which an agent reads real numbers and sees its costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import (
    POMDP,
    DirichletPrior,
    FinitePrior,
    GaussianSensor,
    InvalidModelError,
    Plan,
    PSRLAgent,
    RandomAgent,
    Setting,
    Simulation,
    plan,
    simulate,
    verify,
)
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.inference.predictive_test import counts_of
from psrl_pomdp.sensors.costs import SeenCosts

COST = np.array([[0.0, 0.0, 8.0], [3.0, 3.0, 5.0]])  # in the first action, two states share a cost
NOISE = np.array([[[0.8, 0.2], [0.5, 0.5], [0.1, 0.9]], [[0.6, 0.4], [0.4, 0.6], [0.3, 0.7]]])
WEAR = np.array([[0.8, 0.15, 0.05], [0.0, 0.7, 0.3], [0.0, 0.0, 1.0]])
MEND = np.array([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.7, 0.2, 0.1]])
OTHER = np.array([[0.5, 0.4, 0.1], [0.1, 0.7, 0.2], [0.0, 0.1, 0.9]])


def setting_of(law: str) -> Setting:
    sensor = GaussianSensor([0.0, 1.0, 2.0], [0.8, 0.8, 0.8])
    seen: Any = "exact" if law == "exact" else SeenCosts([0.0, 8.0], NOISE)
    return Setting(sensor, COST, [0.5, 0.3, 0.2], seen_cost=seen, units="euro")


def world_of(law: str) -> POMDP:
    return POMDP(setting_of(law), [WEAR, MEND])


def agent_for(law: str, kind: str = "finite") -> PSRLAgent:
    own = setting_of(law)
    prior: Any = FinitePrior(own, [[WEAR, MEND], [OTHER, MEND]])
    if kind == "rows":
        prior = DirichletPrior(own, np.ones((2, 3, 3)))
    return PSRLAgent(prior, seed=3)


@pytest.fixture(scope="module", params=["exact", "noisy"])
def planned(request: pytest.FixtureRequest) -> tuple[POMDP, Plan]:
    world = world_of(request.param)
    return world, plan(world, 1e-3)


def test_seeing_costs_helps_and_is_verified(planned: tuple[POMDP, Plan], tmp_path: Path) -> None:
    """Cells double from 4 on, and the controller is carried over; a file holds the costs, too."""
    world, best = planned
    assert best.status == "closed"
    assert (best.cells or 0) > 4
    lower, upper = verify(best, world)
    assert lower <= upper
    assert upper - lower < 1e-2
    blind = plan(POMDP(world.setting.replace(seen_cost=None), world.transition), 1e-3)
    assert best.upper < blind.lower
    best.save(tmp_path / "p.npz")
    assert verify(Plan.load(tmp_path / "p.npz"), world) == (lower, upper)


@pytest.mark.parametrize("law", ["exact", "noisy"])
def test_costs_are_those_of_the_state_before(law: str) -> None:
    """Noisy ones have their frequencies: six z-scores, false alarm 6 × 7e-6 at 4.5."""
    trace = simulate(world_of(law), agent_for(law), 1500, seed=2, every_step=True)
    assert trace.seen_costs is not None
    assert trace.states is not None
    before = trace.states[:-1]
    if law == "exact":
        assert np.array_equal(trace.seen_costs, COST[trace.actions, before])
    else:
        for a, s in np.ndindex(2, 3):
            mine = trace.seen_costs[(trace.actions == a) & (before == s)] == 8.0
            p, n = NOISE[a, s, 1], max(1, len(mine))
            assert abs(mine.sum() - n * p) <= 4.5 * np.sqrt(n * p * (1 - p)) + (len(mine) == 0)
    assert len(trace.observations) == 1500
    assert trace.observations.dtype == np.float64


@pytest.mark.parametrize(("law", "kind"), [("exact", "finite"), ("noisy", "rows")])
def test_beliefs_of_agent_and_environment_are_filtered_with_the_costs(law: str, kind: str) -> None:
    run = Simulation(world_of(law), agent_for(law, kind), 5)
    trace = run.until(200)
    own = trace.model.setting
    assert isinstance(run.agent, PSRLAgent)
    assert run.environment.belief == pytest.approx(filtered(trace, [WEAR, MEND], 200), abs=1e-12)
    now = run.agent.info  # before the observation after the last action
    assert now.belief == pytest.approx(filtered(trace, now.kernel, 199), abs=1e-10)
    vectors = np.zeros((len(now.plan.controller), own.n_states))  # type: ignore[attr-defined]
    vectors[:, list(now.plan.states)] = now.plan.controller.vectors  # type: ignore[attr-defined]
    cells = now.plan.quantized_setting.joint_observation  # type: ignore[attr-defined]
    values = []
    for a in range(2):
        ahead = [
            (now.belief @ (now.kernel[a] * cells[a][..., o]) @ vectors.T).min()
            for o in range(cells.shape[-1])
        ]
        values.append(own.cost[a] @ now.belief + sum(ahead))
    gaps = own.units.difference(np.array(values) - values[now.action])
    assert now.advantages == pytest.approx(np.maximum(gaps, 0.0), abs=1e-9)


def filtered(trace: Any, kernel: Any, n: int) -> Array:
    """The belief after n steps, from the densities and the laws of the costs."""
    own, sensor = trace.model.setting, trace.model.setting.sensor
    belief = own.initial * np.exp(sensor.log_likelihood(0, np.array([trace.first_observation]))[0])
    for i in range(n):
        a = trace.actions[i]
        paid = own.seen_cost.probabilities[a, :, own.seen_cost.number(trace.seen_costs[i])]
        belief = (belief * paid) @ np.asarray(kernel)[a]
        belief = belief * np.exp(sensor.log_likelihood(0, trace.observations[i : i + 1])[0])
        belief = belief / belief.sum()
    return np.asarray(belief / belief.sum())


def test_the_control_variate_is_the_sum_that_it_is_said_to_be(planned: tuple[POMDP, Plan]) -> None:
    world, best = planned
    law = "exact" if world.setting.seen_cost == SeenCosts.exact(COST) else "noisy"
    trace = simulate(world, agent_for(law), 60, seed=2, checkpoints=[1, 17, 60])
    own, cells = world.setting, best.quantized_setting
    assert cells is not None
    joint, vectors = cells.joint_observation, np.zeros((len(best.controller), 3))
    vectors[:, list(best.states)] = best.controller.vectors
    total, found = 0.0, []

    def value(b: Array) -> float:
        return float((vectors @ b).min())

    n_costs = cells.joint_observation.shape[-1] // cells.n_observations
    for i, a in enumerate(trace.actions.tolist()):
        b = filtered(trace, world.transition, i)
        total += own.cost[a] @ b - value(b)
        total += sum(value(b @ (world.transition[a] * joint[a][..., o])) for o in range(joint.shape[-1]))
        assert own.seen_cost is not None
        paid = own.seen_cost.number(trace.seen_costs[i])  # type: ignore[index]
        cell = best.cell(a, float(trace.observations[i])) * n_costs + paid
        coarse = b @ (world.transition[a] * joint[a][..., cell])
        after = filtered(trace, world.transition, i + 1)
        total += value(after) - value(coarse / coarse.sum())
        if i + 1 in (1, 17, 60):
            found.append(total + value(filtered(trace, world.transition, 0)) - value(after))
    assert trace.control_variate_sums(best) == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize(("law", "kind"), [("exact", "finite"), ("noisy", "rows")])
def test_a_run_is_saved_and_taken_up(law: str, kind: str) -> None:
    whole = simulate(world_of(law), agent_for(law, kind), 150, seed=4)
    first = Simulation(world_of(law), agent_for(law, kind), 4)
    first.until(70)
    second = Simulation(world_of(law), agent_for(law, kind), 4)
    second.resume(first.to_bytes())
    trace = second.until(150)
    assert np.array_equal(trace.observations, whole.observations)
    assert np.array_equal(trace.actions, whole.actions)
    assert trace.seen_costs is not None
    assert whole.seen_costs is not None
    assert np.array_equal(trace.seen_costs, whole.seen_costs)
    assert np.array_equal(trace.checkpoints.sums[-1], whole.checkpoints.sums[-1])


def test_an_agent_learns_from_a_log_and_goes_on_from_its_file(tmp_path: Path) -> None:
    agent = agent_for("noisy", "rows")
    rng = np.random.default_rng(0)
    readings, actions = rng.normal(1.0, 1.0, 41), rng.integers(2, size=40)
    costs = [None if i % 7 == 3 else float(8 * rng.integers(2)) for i in range(40)]
    agent.learn([*readings[:20], None, *readings[21:40]], actions.tolist(), costs)
    agent.act(float(readings[40]), cost=costs[0])
    agent.save(tmp_path / "a.npz")
    again = PSRLAgent.load(tmp_path / "a.npz")
    for one in (agent, again):
        for i in range(30):
            one.act(None if i == 5 else 0.1 * i, cost=costs[i])
    assert np.array_equal(agent.info.belief, again.info.belief)
    assert np.array_equal(agent.info.costs, again.info.costs)
    assert agent.fit is not None
    assert again.fit == agent.fit
    assert agent.fit.readings == 68  # all but two missing ones


def test_the_test_of_the_model_is_about_readings_only() -> None:
    """Predictive probabilities of cells sum to 1, so that the e-value is one: with all costs seen or none."""
    agent = agent_for("noisy")
    simulate(world_of("noisy"), agent, 400, seed=1)
    assert agent.fit is not None
    test = agent.posterior._filters.test
    expected = counts_of(test).expected
    recorded = expected.sum(axis=1)
    times = np.round(np.log1p(-recorded * (16 / 200)) / np.log1p(-16 / 200))  # Σ of a geometric sequence
    assert recorded == pytest.approx((1 - (1 - 16 / 200) ** times) / (16 / 200), abs=1e-9)
    assert not agent.fit.alarm(0.01)


def test_the_compiled_loop_is_not_for_seen_costs_and_densities() -> None:
    agent = agent_for("exact")
    agent.act(0.3)
    assert not agent.can_compile


def test_too_many_pairs_to_record_are_refused() -> None:
    n, n_actions = 9, 29  # and as many costs as there are pairs of action and state
    setting = Setting(
        GaussianSensor(np.arange(n), np.ones(n)),
        np.arange(float(n * n_actions)).reshape(n_actions, n),
        np.full(n, 1 / n),
        seen_cost="exact",
    )
    stay = np.broadcast_to(np.eye(n), (n_actions, n, n))
    with pytest.raises(InvalidModelError, match="68382 different observations"):
        simulate(POMDP(setting, stay), RandomAgent(n_actions), 5)
