"""Agents with unknown observation models and costs: what they report, and their files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import (
    DirichletCosts,
    DirichletPrior,
    DirichletSensor,
    FinitePrior,
    InvalidModelError,
    PlanningBudget,
    PSRLAgent,
    PSRLError,
    Setting,
    simulate,
)
from psrl_pomdp._serialization.archives import pack, unpack
from psrl_pomdp.inference.encoding import model_of
from psrl_pomdp.inference.learned_tables import interval
from psrl_pomdp.testing.agent_checks import _Environment

BUDGET = PlanningBudget(min_tolerance=0.05, max_tolerance=0.2)
TABLE = np.array([[0.8, 0.2], [0.3, 0.7]])
OWN = Setting(TABLE, [[0.0, 50.0], [20.0, 20.0]], [1.0, 0.0])
FLAT = np.ones((2, 2, 2))
COUNTS = 10 * TABLE
COSTS = DirichletCosts([0.0, 20.0, 50.0], np.ones((2, 2, 3)))
SLOW, FAST = np.array([[[0.9, 0.1], [0.1, 0.9]]] * 2), np.array([[[0.6, 0.4], [0.4, 0.6]]] * 2)
PRIORS: dict[str, Any] = {
    "sensor": DirichletPrior(OWN, FLAT, sensor=DirichletSensor(COUNTS)),
    "sensor by action": DirichletPrior(
        OWN, FLAT, sensor=DirichletSensor(np.stack([COUNTS, COUNTS[::-1]]), known={(0, 1): [0.1, 0.9]})
    ),
    "costs": DirichletPrior(OWN, FLAT, costs=COSTS),
    "sensor and costs": DirichletPrior(OWN, FLAT, sensor=DirichletSensor(COUNTS), costs=COSTS),
    "seen costs and sensor": DirichletPrior(
        OWN.replace(seen_cost="exact"), FLAT, sensor=DirichletSensor(COUNTS)
    ),
    "finite set": FinitePrior(OWN, [SLOW, FAST, SLOW], sensors=[TABLE, TABLE, TABLE[:, ::-1]]),
}
each_prior = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)


def lived(prior: Any, steps: int) -> tuple[PSRLAgent, _Environment]:
    agent = PSRLAgent(prior, seed=3, budget=BUDGET)
    world = _Environment(model_of(prior, np.random.default_rng(4)), missing_every=7)
    _go_on(agent, world, steps // 2)
    agent.posterior.sample(np.random.default_rng(2))  # the belief of this sample is updated from now on
    _go_on(agent, world, steps - steps // 2)
    return agent, world


def _go_on(agent: PSRLAgent, world: _Environment, steps: int) -> list[int]:
    return [world.step(world.asked(agent)) for _ in range(steps)]


@each_prior
def test_a_saved_agent_continues_to_the_last_bit(prior: Any) -> None:
    """In the midst of an episode, through refreshes and new episodes."""
    agent, world = lived(prior, 90)
    data, state = agent.to_bytes(), world.state()
    twin = PSRLAgent.from_bytes(data)
    assert twin.to_bytes() == data
    actions = _go_on(agent, world, 120)
    world.restore(state)
    assert _go_on(twin, world, 120) == actions
    assert twin.to_bytes() == agent.to_bytes()
    assert len(agent.episodes) > 2


@each_prior
def test_both_drivers_leave_the_same_agent(prior: Any) -> None:
    model = model_of(prior, np.random.default_rng(4))
    found = []
    for driver in ("compiled", "streaming"):
        agent = PSRLAgent(prior, seed=3, budget=BUDGET)
        simulate(model, agent, 120, seed=5, driver=driver)
        found.append(unpack(agent.to_bytes(), "good"))
    compiled, streaming = found
    assert list(compiled) == list(streaming)
    for name, array in compiled.items():
        if not name.startswith("posterior.used"):  # which the compiled loop does not update
            assert array.tobytes() == streaming[name].tobytes(), name


def put(where: Any, value: Any) -> Callable[[Any], None]:
    def change(array: Any) -> None:
        array[where] = value

    return change


@pytest.mark.parametrize(
    ("kind", "name", "change", "message"),
    [
        ("sensor", "used_observation", put((0, 0, 0), np.nan), "used_observation"),
        ("sensor", "used_observation", put((0, 0, 0), 0.95), "sums to"),
        ("sensor", "used_observation", put((0, 0), [0.5, 0.5]), "used_observation is not .* the prior"),
        ("sensor", "used_first", put(0, [0.5, 0.5]), "used_first is not .* the prior"),
        ("sensor", "used_cost", put((0, 0), 0.25), "used_cost is not .* the prior"),
        (
            "sensor by action",
            "used_observation",
            put((0, 1), [0.5, 0.5]),
            "used_observation is not .* the pr",
        ),
        ("costs", "used_observation", put((0, 1), [0.5, 0.5]), "used_observation is not .* the prior"),
        ("costs", "used_cost", put((0, 0), 0.1234), "used_cost is not .* the prior"),
        ("costs", "used_seen", put((0, 0), [0.5, 0.5, 0.5]), "sums to"),
        ("seen costs and sensor", "used_seen", put((0, 0), [0.5, 0.5, 0.0]), "used_seen is not|sums to"),
        ("finite set", "used_observation", put((0, 0), [0.5, 0.5]), "used_observation is not .* the prior"),
        ("sensor", "posterior.log_rows", put((0, 0, 0), np.nan), "log_rows"),
        ("sensor", "posterior.log_rows", put((-1, 0, 0), 0.5), "log_rows"),
        ("sensor", "posterior.tuning_sharpness", put(0, -1.0), "tuning_sharpness"),
        ("sensor", "posterior.tuning_sharpness", put(0, np.nan), "tuning_sharpness"),
        ("sensor", "posterior.tuning_hmc_correlation", put((), 1.5), "tuning_hmc_correlation"),
        ("sensor", "posterior.used_matrices", put((0, 0, 0, 0), 0.9), "used_matrices"),
        ("sensor", "posterior.used_matrices", put((0, 0, 0, 0), np.nan), "used_matrices"),
        ("costs", "posterior.used_matrices", put((3, 0, 0, 0), 0.9), "used_matrices"),
        ("sensor", "posterior.history", put(0, 60), "history"),
        ("sensor", "posterior.history_first", put((), 2.0), "history_first"),
        ("sensor", "posterior.history_first", put((), 0.5), "history_first"),
        ("sensor", "prior.sensor_counts", put((0, 0), -1.0), "counts|another prior"),
    ],
)
def test_a_file_that_contradicts_its_prior_is_refused(
    kind: str, name: str, change: Callable[[Any], None], message: str
) -> None:
    arrays = unpack(lived(PRIORS[kind], 40)[0].to_bytes(), "good")
    if name.startswith("prior."):
        (name,) = [each for each in arrays if "sensor" in each and "count" in each]
    changed = arrays[name].copy()
    change(changed)
    with pytest.raises(PSRLError, match=message):
        PSRLAgent.from_bytes(pack(arrays | {name: changed}))


# -- reports ---------------------------------------------------------------------------------------


def test_info_says_what_is_known_of_the_tables() -> None:
    agent, _ = lived(PRIORS["sensor and costs"], 150)
    info, posterior = agent.info, agent.posterior
    for learned, told, mean in (
        (info.sensor, TABLE, posterior.sensor_mean()),
        (info.cost_table, agent.setting.own_cost, posterior.cost_mean()),
    ):
        assert learned is not None
        assert learned.told == pytest.approx(told)
        assert learned.mean == pytest.approx(mean)
        assert learned.mean.shape == (2, 2)
        assert (learned.lower <= learned.mean + 1e-12).all()
        assert (learned.mean <= learned.upper + 1e-12).all()
        assert (learned.upper - learned.lower > 1e-3).all()
    assert posterior.sensor_mean().sum(axis=1) == pytest.approx(1.0)
    tables = np.array([posterior._setting_of(n).observation[0] for n in range(posterior.size)])
    assert posterior.sensor_mean() == pytest.approx(np.tensordot(posterior.weights, tables, axes=1))
    costs = np.array([posterior._setting_of(n).own_cost for n in range(posterior.size)])
    assert posterior.cost_mean() == pytest.approx(np.tensordot(posterior.weights, costs, axes=1))
    own = agent.current_episode.setting
    assert own is not None
    assert info.costs == pytest.approx(own.own_cost @ info.belief)  # under the sampled costs
    assert posterior.sensor_interval(0.5)[1] - posterior.sensor_interval(0.5)[0] == pytest.approx(
        np.subtract(*posterior.sensor_interval(0.5)[::-1])
    )
    wide, narrow = (np.subtract(*posterior.sensor_interval(level)[::-1]) for level in (0.95, 0.5))
    assert (wide > narrow).all()


def test_what_was_known_before_is_not_reported() -> None:
    agent, _ = lived(DirichletPrior(OWN, FLAT), 20)
    assert agent.info.sensor is None
    assert agent.info.cost_table is None
    assert np.array_equal(agent.posterior.sensor_mean(), OWN.observation)
    assert np.array_equal(agent.posterior.cost_interval()[0], OWN.own_cost)
    finite, _ = lived(PRIORS["finite set"], 20)
    learned = finite.info.sensor
    assert learned is not None
    assert learned.mean == pytest.approx(
        np.tensordot(finite.posterior.weights, finite.prior.sensors, axes=1)  # type: ignore[attr-defined]
    )
    mean = finite.posterior.mean_model()
    assert mean.setting.observation[0] == pytest.approx(learned.mean)


def test_intervals_are_weighted_quantiles() -> None:
    rng = np.random.default_rng(0)
    values, weights = rng.standard_normal((2, 20_000)), rng.dirichlet(np.ones(20_000))
    low, high = interval(values, weights, 0.9)
    assert low == pytest.approx([-1.645, -1.645], abs=0.06)  # five standard errors: false alarm 2e-6
    assert high == pytest.approx([1.645, 1.645], abs=0.06)
    assert interval(np.array([3.0, 1.0, 2.0]), np.array([0.0, 1.0, 0.0]), 0.95)[0] == pytest.approx(1.0)
    for level in (0.0, 1.0, -1.0, np.nan):
        with pytest.raises(InvalidModelError, match="level"):
            interval(values, weights, level)


def test_calibrated_intervals_contain_the_truth() -> None:
    """80 % intervals of 2 entries over 60 histories contain between 60 and 97 % of the true entries.

    Entries of one history are dependent; for 60 independent ones the rates are 3.9 standard deviations away:
    false alarm below 2e-4.
    """
    from psrl_pomdp.testing.calibration import replay, simulate_from_prior

    prior, rng, inside = PRIORS["sensor"], np.random.default_rng(12), []
    for _ in range(60):
        world = simulate_from_prior(prior, 60, rng)
        low, high = replay(prior.posterior(rng), world.history).sensor_interval(0.8)  # type: ignore[attr-defined]
        assert world.setting is not None
        truth = world.setting.observation[0]
        inside.append(((low <= truth) & (truth <= high))[:, 0].mean())
    assert 0.6 < np.mean(inside) < 0.97
