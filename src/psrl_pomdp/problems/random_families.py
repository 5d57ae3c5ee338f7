"""Random problems, determined by a seed, in which every transition has positive probability."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array
from ..errors import InvalidModelError
from ..models import Setting
from .catalogue import Assumptions, Parts, bounded, count, register, uniform

_POSITIVE = "holds: every transition has positive probability (Platzman 1980)"
_NO_FAMILY = "open: there is no finite prior"


@register(
    "random",
    title="Random transition kernel, observation model and costs",
    source="this package: rows with a uniform distribution on the simplex and a smallest entry",
    assumptions=Assumptions(
        bellman=_POSITIVE,
        separation=_NO_FAMILY,
        belief="open: under positive kernels the influence of the past decays; nothing else is known",
        kernel="open: it depends on the rank of the random observation model",
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
    """A random problem without an interpretation, for tests and benchmarks.

    The rows of the transition kernel are uniform on the simplex, mixed with the uniform distribution so that
    no entry is below `smallest`. The rows of the observation model are uniform on the simplex; they are the
    same for all actions unless `sensor_by_action` is true. The costs are uniform on [0, 1]. `seed` determines
    all numbers.
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
    title="Random kernel, nearly diagonal observation model, rewards that depend on the observation",
    source="the family of the experiments in Azizzadenesheli, Lazaric and Anandkumar (2016), Reinforcement "
    "learning of POMDPs using spectral methods, COLT, in the form used for later spectral algorithms",
    assumptions=Assumptions(
        bellman=_POSITIVE,
        separation=_NO_FAMILY,
        belief="open: the influence of the past decays, and the observation model has full rank",
        kernel="open: the observation model has full rank, so the moments of the observations identify the "
        "kernel",
    ),
)
def random_readout(n_states: int = 3, n_actions: int = 3, n_observations: int = 4, seed: int = 0) -> Parts:
    """A random problem on which published spectral algorithms were tested.

    The rows of the transition kernel are normalized uniform random numbers with a smallest entry of about 1 /
    (10 S). The observation model does not depend on the action: its rows are normalized uniform random
    numbers, where 10 is added to the entry of one observation in each state, a different one for each state.
    Each observation has a reward, and the O rewards are equally spaced in [0, 1], in random order. The reward
    of a state is the expectation of the reward of its observation.
    """
    n_states, n_actions = count("n_states", n_states, 1, 300), count("n_actions", n_actions, 1, 50)
    n_observations = count("n_observations", n_observations, n_states, 300)
    rng = np.random.default_rng(count("seed", seed, 0, 2**63 - 1))
    transition = _normalized(rng.random((n_actions, n_states, n_states)))
    transition = _normalized(np.maximum(transition, 1.0 / (10 * n_states)))
    sensor = rng.random((n_states, n_observations))
    sensor[np.arange(n_states), rng.permutation(n_observations)[:n_states]] += 10.0
    sensor = _normalized(sensor)
    worth = rng.permutation(np.linspace(0.0, 1.0, n_observations) if n_observations > 1 else np.ones(1))
    reward = np.broadcast_to(sensor @ worth, (n_actions, n_states))
    return Parts(Setting.from_rewards(sensor, reward, uniform(n_states)), transition)


def _normalized(rows: Array) -> Array:
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))
