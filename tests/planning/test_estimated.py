"""Plans for vectors and for densities that are code: classes with estimated probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from psrl_pomdp import (
    POMDP,
    CertificateError,
    DensitySensor,
    DirichletPrior,
    FinitePrior,
    GaussianSensor,
    InvalidModelError,
    MultivariateGaussianSensor,
    PSRLAgent,
    Setting,
    plan,
    simulate,
    verify,
)
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.sensors.estimated import estimated

KERNEL = [[[0.9, 0.1], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]]
COST = [[0.0, 50.0], [20.0, 20.0]]
DISTANCE = 1.5  # of the means, in standard deviations


def log_density(readings: Array, action: int) -> Array:
    return np.asarray(-0.5 * np.square(readings[:, None] - np.array([0.0, DISTANCE])))


def sampler(rng: np.random.Generator, states: Any, action: int) -> Array:
    return np.asarray(DISTANCE * states + rng.standard_normal(len(states)))


def density() -> DensitySensor:
    return DensitySensor(log_density, sampler, n_states=2)


def vectors() -> MultivariateGaussianSensor:
    """The second component says nothing, so that the optimum is that of the first one alone."""
    return MultivariateGaussianSensor([[0.0, 5.0], [DISTANCE, 5.0]], np.eye(2))


def model(sensor: Any) -> POMDP:
    return POMDP(Setting(sensor, COST, [1.0, 0.0]), KERNEL)


@pytest.mark.parametrize("sensor", [density(), vectors()], ids=["code", "vectors"])
def test_the_estimate_is_near_the_certified_interval_of_the_same_density(sensor: Any) -> None:
    """The certified plan is for the same likelihoods; 24 classes and 20,000 draws in each state leave 2 %."""
    exact = plan(model(GaussianSensor([0.0, DISTANCE], [1.0, 1.0])), 1e-4)
    found = plan(model(sensor), 1e-4)
    assert found.status == "estimated"
    middle = 0.5 * (found.lower + found.upper)
    assert exact.lower * 0.98 < middle < exact.upper * 1.02
    for belief in ([1.0, 0.0], [0.7, 0.3], [0.2, 0.8]):
        assert found.action(belief) == exact.action(belief)


def test_nothing_certifies_or_saves_an_estimate(tmp_path: Any) -> None:
    found = plan(model(density()), 1e-2)
    with pytest.raises(CertificateError, match="estimates"):
        verify(found, model(density()))
    with pytest.raises(InvalidModelError, match="no certificates to save"):
        found.save(tmp_path / "plan.npz")


def test_classes_are_those_of_the_nearest_posterior_and_probabilities_are_frequencies() -> None:
    """20,000 draws: a frequency is off by more than .02 with probability below 1e-7."""
    cells = estimated(vectors(), None).of(0)
    rng = np.random.default_rng(1)
    for state in (0, 1):
        drawn = vectors().draw(rng, 0, np.full(20_000, state))
        numbers = np.array([cells.cell(y) for y in drawn[:50]])
        assert (numbers == cells.classes(drawn[:50])).all()
        share = np.bincount(cells.classes(drawn), minlength=24) / 20_000
        assert share == pytest.approx(cells.table[state], abs=0.02)
    assert cells.table.sum(axis=1) == pytest.approx(1.0)


def test_functions_of_one_name_are_not_confused() -> None:
    def other(readings: Array, action: int) -> Array:
        return np.asarray(-0.5 * np.square(readings[:, None] - np.array([0.0, 9.0])))

    def far(rng: np.random.Generator, states: Any, action: int) -> Array:
        return np.asarray(9.0 * states + rng.standard_normal(len(states)))

    one = DensitySensor(log_density, sampler, n_states=2, name="meter")
    two = DensitySensor(other, far, n_states=2, name="meter")
    assert not np.array_equal(estimated(one, None).table, estimated(two, None).table)


@pytest.mark.parametrize("finite", [True, False])
def test_agents_learn_with_vectors_and_are_resumed(finite: bool) -> None:
    world = model(vectors())
    setting = world.setting
    prior: Any = DirichletPrior(setting, np.ones((2, 2, 2)))
    if finite:
        prior = FinitePrior(setting, np.array([KERNEL, np.full((2, 2, 2), 0.5)]))
    agent, streamed = PSRLAgent(prior, seed=1), PSRLAgent(prior, seed=1)
    trace = simulate(world, agent, 60, seed=2)
    other = simulate(world, streamed, 60, seed=2, driver="streaming")
    assert np.array_equal(trace.actions, other.actions)
    assert trace.observations.shape == (60, 2)
    again = PSRLAgent.from_bytes(agent.to_bytes())
    rng = np.random.default_rng(3)
    for reading in rng.normal([0.5, 5.0], 1.0, (20, 2)):
        assert agent.act(reading) == again.act(reading)
