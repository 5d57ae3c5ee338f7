"""A wrong sensor: drawn within its range, and costing more the wider that is."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from psrl_pomdp import POMDP, InvalidModelError, Setting, problem
from psrl_pomdp.cli.doubt import command
from psrl_pomdp.experiment.sensor_doubt import perturbed, sensor_doubt


@pytest.mark.parametrize("name", ["railway", "tiger", "machine-repair"])
def test_sensors_stay_within_the_range_and_possible(name: str) -> None:
    setting = problem(name).setting
    for seed in range(20):
        told = perturbed(setting, 0.07, np.random.default_rng(seed))
        assert np.abs(told.observation - setting.observation).max() <= 0.07 + 1e-12
        assert (told.observation[setting.observation > 0] > 0).all()
        assert (told.first_observation is None) == (setting.first_observation is None)
        assert told.names == setting.names
    same = perturbed(setting, 0.0, np.random.default_rng(0))
    np.testing.assert_allclose(same.observation, setting.observation, atol=1e-15)


def test_a_sensor_of_the_state_alone_stays_one() -> None:
    told = perturbed(problem("railway").setting, 0.1, np.random.default_rng(1))
    assert (told.observation == told.observation[0]).all()
    assert told.first_observation is not None
    np.testing.assert_array_equal(told.first_observation, told.observation[0])


def test_a_wider_range_costs_more() -> None:
    """Two states that must be told apart at every step, by a sensor that is right nine times in ten.

    Told a sensor that is wrong by up to .8, the agent that knows the dynamics often follows readings the
    wrong way round; told the true one, it loses nothing: 5 standard errors and more between the two.
    """
    setting = Setting([[0.9, 0.1], [0.1, 0.9]], [[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5])
    world = POMDP(setting, np.full((2, 2, 2), 0.5))
    found = sensor_doubt(world, (0.0, 0.8), horizon=500, seeds=10)
    assert abs(found[0].knows.middle[-1]) < 1e-6
    assert found[0].other_action == 0.0
    low, _ = found[1].knows.errors
    assert found[1].knows.middle[-1] > 2 * low[-1] > 0
    assert found[1].other_action > 0.05


def test_a_range_of_one_is_refused() -> None:
    with pytest.raises(InvalidModelError, match="radius is 1"):
        perturbed(problem("tiger").setting, 1.0, np.random.default_rng(0))


def test_the_command() -> None:
    asked = ["railway", "--horizon", "60", "--seeds", "2", "--range", "0.2", "--workers", "1"]
    document = json.loads(CliRunner().invoke(command, [*asked, "--json"], catch_exceptions=False).stdout)
    assert [row["range"] for row in document["doubts"]] == [0.0, 0.05, 0.1, 0.2]
    assert all(set(row) == {"range", "other_action", "knows", "learns"} for row in document["doubts"])
    shown = CliRunner().invoke(command, asked, catch_exceptions=False).output
    assert "sensor wrong by" in shown
