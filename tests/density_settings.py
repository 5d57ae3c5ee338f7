"""Settings whose observations have densities, and sums over all hidden paths with likelihood vectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from psrl_pomdp import DensitySensor, GaussianSensor, MultivariateGaussianSensor, PoissonSensor, Setting
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.sensors import by_action
from psrl_pomdp.sensors.base import ContinuousSensor

MEANS, SDS = np.array([0.0, 1.0, 2.0]), np.array([0.7, 0.7, 0.4])
RATES = np.array([1.0, 3.0, 7.0])
CENTERS, COVARIANCE = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]), np.array([[1.0, 0.3], [0.3, 0.5]])


def triangle(values: Array, action: int) -> Array:
    """Densities on (s − 1, s + 1): most readings are impossible in some state."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(1.0 - np.abs(values[:, None] - np.arange(3.0)), 0.0)))


def draw_triangle(rng: np.random.Generator, states: Any, action: int) -> Array:
    return np.asarray(rng.triangular(states - 1.0, states, states + 1.0))


SENSORS: dict[str, ContinuousSensor] = {
    "gaussian": GaussianSensor(MEANS, SDS),
    "by action": GaussianSensor([MEANS, MEANS[::-1]], [SDS, 2 * SDS]),
    "one silent action": by_action([None, GaussianSensor(MEANS, SDS)]),
    "poisson": PoissonSensor(RATES),
    "vectors": MultivariateGaussianSensor(CENTERS, COVARIANCE),
    "code": DensitySensor(triangle, draw_triangle, 3),
}
COST = np.array([[0.1, 0.4, 1.0], [0.6, 0.2, 0.3]])
INITIAL = np.array([0.5, 0.3, 0.2])


def setting_of(name: str, *, first: bool = False) -> Setting:
    """A setting of three states and two actions, with or without an observation before the first action."""
    sensor = SENSORS[name]
    if not first:
        return Setting(sensor, COST, INITIAL, None)
    alone = GaussianSensor(MEANS, SDS) if sensor.n_actions is not None else sensor
    return Setting(sensor, COST, INITIAL, alone)


def density(name: str, action: int, value: Any) -> Array:
    """The density of one reading in each state, from scipy, not from the package; ones if it is missing."""
    if value is None or (name == "one silent action" and action == 0):
        return np.ones(3)
    if name == "by action" and action == 1:
        return np.asarray(stats.norm.pdf(value, MEANS[::-1], 2 * SDS))
    if name == "poisson":
        return np.asarray(stats.poisson.pmf(value, RATES))
    if name == "vectors":
        return np.array([stats.multivariate_normal.pdf(value, center, COVARIANCE) for center in CENTERS])
    if name == "code":
        return np.asarray(np.maximum(1.0 - np.abs(value - np.arange(3.0)), 0.0))
    return np.asarray(stats.norm.pdf(value, MEANS, SDS))


class Sums(NamedTuple):
    """Sums over all hidden paths, for one kernel."""

    likelihood: float
    belief: Array  # [S]
    first: Array  # [S]: the distribution of s_1
    visits: Array  # [X, A, S]: φ, by the present state
    transitions: Array  # [A, S, S']


def over_paths(
    kernel: Array, initial: Array, first: Array, actions: Sequence[int], rows: Sequence[Array]
) -> Sums:
    """By enumeration: `rows[i]` are the likelihoods of what came after `actions[i]`, `first` those before.

    They depend on the state after the action, [S′], or on both states, [S, S′].
    """
    n_actions, n_states = kernel.shape[:2]
    total, belief, begin = 0.0, np.zeros(n_states), np.zeros(n_states)
    visits = np.zeros((n_states, n_actions, n_states))
    moves = np.zeros((n_actions, n_states, n_states))
    for path in product(range(n_states), repeat=len(actions) + 1):
        chance = initial[path[0]] * first[path[0]]
        for i, a in enumerate(actions):
            row = np.broadcast_to(rows[i], (n_states, n_states))[path[i]]
            chance = chance * kernel[a, path[i], path[i + 1]] * row[path[i + 1]]
        total += chance
        belief[path[-1]] += chance
        begin[path[0]] += chance
        for i, a in enumerate(actions):
            visits[path[-1], a, path[i]] += chance
            moves[a, path[i], path[i + 1]] += chance
    return Sums(total, belief / total, begin / total, visits / total, moves / total)


def readings_of(
    setting: Setting, actions: Sequence[int], seed: int, missing: Sequence[int] = ()
) -> list[Any]:
    """Readings from a random state each; those at the places `missing` are None."""
    sensor, rng = setting.sensor, np.random.default_rng(seed)
    assert isinstance(sensor, ContinuousSensor)
    found: list[Any] = []
    for i, a in enumerate(actions):
        drawn = sensor.draw(rng, 0 if sensor.n_actions is None else a, rng.integers(3, size=1))[0]
        found.append(None if i in missing else drawn)
    return found
