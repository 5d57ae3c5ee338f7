"""Random problems: a seed makes one, and a smallest entry keeps every transition possible."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array
from ..errors import InvalidModelError
from ..models import Setting
from .catalogue import Assumptions, Parts, bounded, count, register, uniform

_POSITIVE = "holds: every transition has positive probability (Platzman 1980)"
_NO_FAMILY = "open: the problem comes without a finite family"


@register(
    "random",
    title="Random kernel, sensor and costs, from a seed",
    source="ours: Dirichlet rows with a smallest entry",
    assumptions=Assumptions(
        bellman=_POSITIVE,
        separation=_NO_FAMILY,
        belief="open: positive kernels forget the past; nothing more is promised",
        kernel="open: depends on the rank of the sensor that was drawn",
    ),
)
def random(
    n_states: int = 3,
    n_actions: int = 3,
    n_observations: int = 3,
    smallest: float = 0.01,
    sensor_by_action: bool = False,
    seed: int = 0,
) -> Parts:
    """A problem without a story.

    Kernel rows are uniform on the simplex, mixed so that no entry is under `smallest`; sensor rows are
    uniform on the simplex, the same for all actions unless `sensor_by_action`; costs are uniform.
    """
    n_states, n_actions = count("n_states", n_states, 1, 300), count("n_actions", n_actions, 1, 50)
    n_observations = count("n_observations", n_observations, 1, 300)
    if not isinstance(sensor_by_action, bool):
        raise InvalidModelError(f"parameter sensor_by_action is {sensor_by_action!r}, not true or false")
    smallest = bounded("smallest", smallest, 0.0, 1.0 / n_states)
    rng = np.random.default_rng(count("seed", seed, 0, 2**63 - 1))
    drawn = rng.dirichlet(np.ones(n_states), size=(n_actions, n_states))
    shape = (n_actions, n_states) if sensor_by_action else (n_states,)
    sensor = rng.dirichlet(np.ones(n_observations), size=shape)
    setting = Setting(sensor, rng.random((n_actions, n_states)), uniform(n_states))
    return Parts(setting, smallest + (1 - n_states * smallest) * drawn)


@register(
    "random-readout",
    title="Random kernel and nearly diagonal sensor, with the reward read off the reading",
    source="the family of the experiments in Azizzadenesheli, Lazaric and Anandkumar (2016), "
    "Reinforcement learning of POMDPs using spectral methods, COLT, as later spectral learners ran it",
    assumptions=Assumptions(
        bellman=_POSITIVE,
        separation=_NO_FAMILY,
        belief="open: positive kernels forget the past, and the sensor has full rank",
        kernel="open: the sensor has full rank, so the readings' moments identify the kernel",
    ),
)
def random_readout(n_states: int = 3, n_actions: int = 3, n_observations: int = 4, seed: int = 0) -> Parts:
    """The published test bed of spectral learners.

    Kernel rows are uniform numbers, normalised, with a smallest entry of about 1 / (10 S). The sensor does
    not depend on the action: uniform numbers plus 10 where a permutation pairs a state with a reading,
    normalised. Each reading carries a reward, O equally spaced values in [0, 1] in random order; the
    reward of a state is its expectation.
    """
    n_states, n_actions = count("n_states", n_states, 1, 300), count("n_actions", n_actions, 1, 50)
    n_observations = count("n_observations", n_observations, n_states, 300)
    rng = np.random.default_rng(count("seed", seed, 0, 2**63 - 1))
    transition = _normalised(rng.random((n_actions, n_states, n_states)))
    transition = _normalised(np.maximum(transition, 1.0 / (10 * n_states)))
    sensor = rng.random((n_states, n_observations))
    sensor[np.arange(n_states), rng.permutation(n_observations)[:n_states]] += 10.0
    sensor = _normalised(sensor)
    worth = rng.permutation(np.linspace(0.0, 1.0, n_observations) if n_observations > 1 else np.ones(1))
    reward = np.broadcast_to(sensor @ worth, (n_actions, n_states))
    return Parts(Setting.from_rewards(sensor, reward, uniform(n_states)), transition)


def _normalised(rows: Array) -> Array:
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))
