"""Finite settings in place of densities, and the structure of models with densities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from psrl_pomdp import POMDP, Setting, analyze_structure, check_model
from psrl_pomdp.models.stand_in import blind_actions, equal_states, finite_stand_in, same_observations
from psrl_pomdp.sensors import (
    DensitySensor,
    GaussianSensor,
    LogNormalSensor,
    MultivariateGaussianSensor,
    PoissonSensor,
    SensorBase,
    by_action,
)

MEANS = [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
VECTORS = MultivariateGaussianSensor(MEANS, np.eye(2))


def logs(values: Any, action: int) -> Any:
    """Gaussian around the number of the state after the action, minus half of that before it."""
    centers = np.arange(3.0) - 0.5 * np.arange(3.0)[:, None]
    return -0.5 * (values[:, None, None] - centers) ** 2


def draw(rng: np.random.Generator, states: Any, action: int, previous: Any) -> Any:
    return rng.normal(states - 0.5 * previous)


PAIRS = DensitySensor(logs, draw, 3, depends_on_previous=True)


def model(sensor: SensorBase, n_actions: int = 2, **more: Any) -> POMDP:
    kernel = np.full((n_actions, 3, 3), 1 / 3)
    return POMDP(Setting(sensor, np.eye(n_actions, 3), [1.0, 0.0, 0.0], **more), kernel)


def test_single_numbers_are_divided_into_classes() -> None:
    setting = model(GaussianSensor([0.0, 1.0, 2.0], [1.0, 1.0, 1.0])).setting
    found = finite_stand_in(setting)
    assert found == setting.quantized(32)
    assert finite_stand_in(found) is found


@pytest.mark.parametrize("sensor", [VECTORS, by_action([VECTORS, None]), PAIRS])
def test_vectors_are_replaced_by_the_likeliest_state(sensor: SensorBase) -> None:
    setting = model(sensor).setting
    found = finite_stand_in(setting)
    assert found == finite_stand_in(setting)  # always the same draws
    assert (found.observation > 0).all()
    assert found.sensor_depends_on_previous == setting.sensor_depends_on_previous
    if sensor is VECTORS:
        # The distance of two means is 2, so that either is preferred to the other with chance Φ(1) = .841.
        confused = np.asarray(found.observation[0])
        assert found.has_first_observation
        assert confused.argmax(axis=1).tolist() == [0, 1, 2]
        assert (confused[0, 1:] < 1 - 0.841 + 6 * np.sqrt(0.134 / 4000)).all()  # six standard errors
    if sensor is PAIRS:
        assert found.observation.shape == (2, 3, 3, 9)


def test_which_states_and_actions_are_told_apart() -> None:
    equal = model(GaussianSensor([[0.0, 1.0, 0.0], [3.0, 3.0, 3.0]], [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]))
    facts = analyze_structure(equal)
    assert facts.indistinguishable_states == ((0, 2),)
    assert facts.blind_actions == (1,)
    assert facts.sensor_margin == 0.0
    assert facts.sensor_margins[1] == 0.0
    assert not facts.perfect_observation
    texts = [issue.text for issue in check_model(equal)]
    assert any(text.startswith("no observation distinguishes 0, 2") for text in texts)
    assert any(text.startswith("the observation after 1 contains no information") for text in texts)
    spread = analyze_structure(model(GaussianSensor([0.0, 0.0, 0.0], [1.0, 2.0, 3.0])))
    assert spread.indistinguishable_states == ()
    assert spread.sensor_margin > 0.01
    silent = model(by_action([None, LogNormalSensor([0.0, 1.0, 2.0], [1.0, 1.0, 1.0])])).setting
    assert blind_actions(silent) == (0,)
    assert equal_states(silent) == ()
    for other in (VECTORS, PAIRS):
        facts = analyze_structure(model(other))
        assert facts.indistinguishable_states == ()
        assert facts.blind_actions == ()
        assert not facts.perfect_observation
    assert analyze_structure(model(VECTORS)).sensor_margin > 0.1
    never = analyze_structure(model(MultivariateGaussianSensor([[0.0, 1.0]] * 3, np.eye(2))))
    assert never.indistinguishable_states == ((0, 1, 2),)
    assert never.blind_actions == (0, 1)


def test_states_that_differ_only_as_states_before_the_action() -> None:
    facts = analyze_structure(model(PAIRS))
    assert facts.indistinguishable_states == ()
    before = DensitySensor(
        lambda y, a: logs(y, a)[:, :, :1].repeat(3, axis=2),
        lambda rng, states, a, previous: rng.normal(-0.5 * previous),
        3, depends_on_previous=True, name="without the state after",
    )  # fmt: skip
    assert equal_states(model(before).setting) == ()
    after = DensitySensor(
        lambda y, a: logs(y, a)[:, :1].repeat(3, axis=1), lambda rng, states, a, previous: rng.normal(states),
        3, depends_on_previous=True, name="without the state before",
    )  # fmt: skip
    assert equal_states(model(after).setting) == ()
    same = DensitySensor(
        lambda y, a: np.zeros((len(y), 3, 3)), lambda rng, states, a, previous: rng.normal(size=len(states)),
        3, depends_on_previous=True, name="nothing",
    )  # fmt: skip
    assert equal_states(model(same).setting) == ((0, 1, 2),)
    assert blind_actions(model(same).setting) == (0, 1)


def test_actions_with_the_same_observations() -> None:
    both = GaussianSensor([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [0.0, 1.0, 2.5]], [1.0, 1.0, 1.0])
    setting = model(both, 3).setting
    assert same_observations(setting, 0, 1)
    assert not same_observations(setting, 0, 2)
    assert same_observations(model(PoissonSensor([1.0, 2.0, 3.0])).setting, 0, 1)
    kernel = np.full((3, 3, 3), 1 / 3)
    twins = POMDP(Setting(both, np.zeros((3, 3)), [1.0, 0.0, 0.0]), kernel)
    texts = [issue.text for issue in check_model(twins)]
    assert "actions 0 and 1 have identical transitions, observations and costs" in texts
    assert not any("and 2 have identical" in text for text in texts)
    finite = Setting([[[1.0, 0.0]] * 2, [[1.0, 0.0]] * 2, [[0.5, 0.5]] * 2], np.zeros((3, 2)), [1.0, 0.0])
    assert same_observations(finite, 0, 1)
    assert not same_observations(finite, 0, 2)
