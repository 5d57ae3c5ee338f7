"""Finite settings in place of densities, and which states a density tells apart, for reports and checks."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .._utils.arrays import Array
from ..sensors.base import ContinuousSensor, ScalarSensor, SensorBase
from ..sensors.table import TableSensor
from .setting import Setting

STAND_IN_CELLS = 32  # classes of observations
_DRAWS = 4000  # in each state, to estimate a table
_PROBES = 16  # observations in each state at which densities are compared
_SAME = 1e-12  # relative difference of equal log densities


@lru_cache(maxsize=16)
def finite_stand_in(setting: Setting) -> Setting:
    """Return a finite setting whose observations say a little less than those of `setting`.

    Observations that are single numbers are divided into classes with known probabilities. Otherwise an
    observation is replaced by the state under which it is most likely, and the probabilities are estimated
    from random draws, always the same ones.
    """
    if setting.is_finite:
        return setting
    if isinstance(setting.sensor, ScalarSensor) and not setting.sensor_depends_on_previous:
        return setting.quantized(STAND_IN_CELLS)
    table = np.stack([_estimated(setting.sensor, a) for a in range(setting.n_actions)])
    first = None if setting.first_sensor is None else _estimated(setting.first_sensor, 0)
    return setting.replace(observation=table, first_observation=first)


def _estimated(sensor: SensorBase, action: int) -> Array:
    """Return the estimated probability of each most likely state, or pair of states, in every state."""
    rows = []
    for previous in range(sensor.n_states) if sensor.depends_on_previous else [None]:
        for state in range(sensor.n_states):
            logs = _logs_of_draws(sensor, action, state, previous, _DRAWS)
            likeliest = logs.reshape(_DRAWS, -1).argmax(axis=1)
            # No class is impossible only because it was not drawn.
            counts = np.bincount(likeliest, minlength=logs[0].size) + 0.5
            rows.append(counts / counts.sum())
    shape = (sensor.n_states,) * (1 + sensor.depends_on_previous)
    return np.array(rows).reshape(*shape, -1)


def _logs_of_draws(sensor: SensorBase, action: int, state: int, previous: int | None, n: int) -> Array:
    assert isinstance(sensor, ContinuousSensor)
    action = 0 if sensor.n_actions is None else action
    before = None if previous is None else np.full(n, previous)
    drawn = sensor.draw(np.random.default_rng(0), action, np.full(n, state), before)
    return sensor.log_likelihood(action, drawn)


def equal_states(setting: Setting) -> tuple[tuple[int, ...], ...]:
    """Return groups of states under which all observations are equally likely after every action."""
    logs = [_probed(setting.sensor, a) for a in range(setting.n_actions)]
    groups: list[list[int]] = []
    for s in range(setting.n_states):
        for group in groups:
            if all(_equal(own[..., s], own[..., group[0]]) for own in logs) and (
                not setting.sensor_depends_on_previous
                or all(_equal(own[:, s], own[:, group[0]]) for own in logs)
            ):
                group.append(s)
                break
        else:
            groups.append([s])
    return tuple(tuple(group) for group in groups if len(group) > 1)


def blind_actions(setting: Setting) -> tuple[int, ...]:
    """Return the actions after which all observations are equally likely in every state."""
    found = []
    for a in range(setting.n_actions):
        logs = _probed(setting.sensor, a)
        flat = logs.reshape(len(logs), -1)
        if _equal(flat, flat[:, :1] + np.zeros_like(flat)):
            found.append(a)
    return tuple(found)


def same_observations(setting: Setting, action: int, other: int) -> bool:
    """Return whether the observation has the same distribution after two actions."""
    if isinstance(setting.sensor, TableSensor):
        return bool((setting.observation[action] == setting.observation[other]).all())
    sensor = setting.sensor
    if sensor.n_actions is None or action == other:
        return True
    assert isinstance(sensor, ContinuousSensor)
    values = _probes(sensor, action)
    return _equal(sensor.log_likelihood(action, values), sensor.log_likelihood(other, values))


def _probed(sensor: SensorBase, action: int) -> Array:
    """Return the log density of a few observations under all states."""
    assert isinstance(sensor, ContinuousSensor)
    action = 0 if sensor.n_actions is None else action
    return sensor.log_likelihood(action, _probes(sensor, action))


def _probes(sensor: ContinuousSensor, action: int) -> Array:
    """Return a few observations from every state, always the same ones."""
    n_states = sensor.n_states
    states = np.tile(np.repeat(np.arange(n_states), _PROBES), n_states)
    previous = np.repeat(np.arange(n_states), n_states * _PROBES)
    if not sensor.depends_on_previous:
        return sensor.draw(np.random.default_rng(0), action, states[: n_states * _PROBES])
    return sensor.draw(np.random.default_rng(0), action, states, previous)


def _equal(one: Array, other: Array) -> bool:
    return bool(((one == other) | (np.abs(one - other) <= _SAME * (1.0 + np.abs(one)))).all())
