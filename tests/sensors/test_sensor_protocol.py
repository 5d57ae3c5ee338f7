"""The sensors of the package have the methods that the protocol names."""

from __future__ import annotations

import numpy as np

from psrl_pomdp.protocols import Sensor
from psrl_pomdp.sensors import GaussianSensor


def test_a_gaussian_sensor_satisfies_the_protocol() -> None:
    sensor: Sensor = GaussianSensor([0.0, 2.0, 5.0], 1.0 + np.zeros(3))  # mypy compares the signatures
    assert isinstance(sensor, Sensor)
    drawn = sensor.draw(np.random.default_rng(0), 0, np.array([0, 1, 2, 1]))
    assert sensor.log_likelihood(0, drawn).shape == (4, sensor.n_states)


def test_what_has_no_density_does_not() -> None:
    assert not isinstance(object(), Sensor)
