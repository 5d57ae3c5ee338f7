"""Observations without numbers, for checks: drawn from their density, and weighed by it.

A factor that is the same for all states and models cancels wherever likelihoods are used here. So if all
models share their densities, the likelihoods of an observation are divided by the largest. If they do not,
the likelihoods are the densities themselves, since a divisor would depend on the models that are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._utils.arrays import Array
from ..models import Setting
from ..sensors.base import ContinuousSensor, SensorBase
from ..sensors.gaussian import GaussianSensor


class Densities(NamedTuple):
    """The densities of one model, or of D models with Gaussian observations of their own."""

    settings: Sequence[Setting]
    means: Array | None  # [D, A, S]; None for one model
    sds: Array | None
    costs: Array | None = None  # [1, A, S, C] if one model's costs are seen

    @classmethod
    def of(cls, settings: Sequence[Setting]) -> Densities:
        """Return the densities of one setting that all models share, or of one setting for each model."""
        if len(settings) == 1:
            seen = settings[0].seen_cost
            return cls(settings, None, None, None if seen is None else seen.probabilities[None])
        sensors = [each.sensor for each in settings]
        shape = settings[0].cost.shape
        gaussian = [each for each in sensors if isinstance(each, GaussianSensor)]
        assert len(gaussian) == len(settings)
        means = np.stack([np.broadcast_to(each.means, shape) for each in gaussian])
        return cls(settings, means, np.stack([np.broadcast_to(each.sds, shape) for each in gaussian]))

    def likelihood(self, action: int, observation: Any) -> Array:
        """Return the likelihoods of an observation under each model, shape [D, S']; ones if it is missing."""
        if observation is None:
            return np.ones((1, 1))
        if self.means is None or self.sds is None:
            return _divided(_logs(self.settings[0].sensor, action, observation)[None])
        z = (float(observation) - self.means[:, action]) / self.sds[:, action]
        return np.exp(-0.5 * z * z) / self.sds[:, action]

    def first_likelihood(self, observation: Any) -> Array:
        """Return the likelihoods of the first observation under each model, shape [D, S]."""
        first = [each.first_sensor for each in self.settings if each.first_sensor is not None]
        if observation is None or not first:
            return np.ones((1, 1))
        logs = np.stack([_logs(sensor, 0, observation) for sensor in first])
        return _divided(logs) if self.means is None else np.exp(logs)

    def squashed(self, action: int) -> Array:
        """Return means and standard deviations after an action as numbers in (0, 1), shape [D, S, 2]."""
        assert self.means is not None
        assert self.sds is not None
        means, sds = self.means[:, action], self.sds[:, action]
        return np.stack([0.5 + np.arctan(means) / np.pi, sds / (1.0 + sds)], axis=-1)


def draw_first(setting: Setting, state: int, rng: np.random.Generator) -> Any:
    """Draw the observation before the first action in a state."""
    first = setting.first_sensor
    assert isinstance(first, ContinuousSensor)
    return _drawn(first, 0, state, rng)


def draw_observation(setting: Setting, action: int, state: int, rng: np.random.Generator) -> Any:
    """Draw the observation after an action that led to a state."""
    assert isinstance(setting.sensor, ContinuousSensor)
    return _drawn(setting.sensor, action, state, rng)


def class_of(setting: Setting, action: int, observation: Any) -> int:
    """Return the state under which an observation is most likely, by which a policy may choose."""
    return int(_logs(setting.sensor, action, observation).argmax())


def impossible_observation(setting: Setting) -> tuple[int, Any] | None:
    """Return an action and an observation that no state can emit after it, or None if none is known."""
    sensor = setting.sensor
    assert isinstance(sensor, ContinuousSensor)
    if sensor.dimension is not None or getattr(sensor, "is_discrete", False):
        return None
    for action in range(setting.n_actions):
        for value in (-1.0, -1e9, 1e9):
            if (_logs(sensor, action, value) == -np.inf).all():
                return action, value
    return None


def _drawn(sensor: ContinuousSensor, action: int, state: int, rng: np.random.Generator) -> Any:
    drawn = sensor.draw(rng, 0 if sensor.n_actions is None else action, np.array([state]))[0]
    return float(drawn) if sensor.dimension is None else drawn


def _logs(sensor: SensorBase, action: int, observation: Any) -> Array:
    assert isinstance(sensor, ContinuousSensor)
    number = 0 if sensor.n_actions is None else action
    values = np.asarray(observation, dtype=np.float64)[None]
    return np.asarray(sensor.log_likelihood(number, values)[0], dtype=np.float64)


def _divided(logs: Array) -> Array:
    largest = logs.max()
    return np.exp(logs - (largest if np.isfinite(largest) else 0.0))
