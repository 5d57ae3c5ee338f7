"""Learned observation models and costs, as options of the prior `dirichlet` in studies.

    prior = { kind = "dirichlet", sensor = { calibration = 100 } }
    prior = { kind = "dirichlet", sensor = { worth = 50 }, costs = { concentration = 0.5 } }

Each table has exactly one of these keys:

- `calibration`: that many readings are drawn in each state, or in each state after each action if the
  observation depends on the action. They are counted, and `added` (0.5 by default) is added to each count.
  Every run of a study has a calibration of its own; all agents of a run have the same one. With `seed` it is
  the same in all runs.
- `worth`: the true table, with the weight of so many readings in each row.
- `concentration`: every observation or cost has this parameter, so that nothing is known about the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._utils.arrays import Array
from .._utils.integers import is_integer
from ..errors import InvalidModelError, did_you_mean
from ..models import Setting
from ..sensors.costs import SeenCosts
from ..sensors.dirichlet import DirichletCosts, DirichletSensor

CALIBRATION = "calibration"
_KEYS = (CALIBRATION, "worth", "concentration", "added", "seed")
_MOST = 10**9  # readings


def is_calibrated(options: Mapping[str, Any]) -> bool:
    """Return whether random numbers are needed to make a prior with these options."""
    tables = (options.get("sensor"), options.get("costs"))
    return any(
        isinstance(table, Mapping) and CALIBRATION in table and "seed" not in table for table in tables
    )


def seeded(options: Mapping[str, Any], seed: Sequence[int]) -> dict[str, Any]:
    """Return the options with a seed for each calibration that has none."""
    found = dict(options)
    for place, name in enumerate(("sensor", "costs")):
        table = found.get(name)
        if isinstance(table, Mapping) and CALIBRATION in table and "seed" not in table:
            found[name] = {**table, "seed": [*seed, place]}
    return found


def sensor_from(setting: Setting, options: Any) -> DirichletSensor:
    """Return the opinion about the observation model of a setting that the option `sensor` describes.

    Raises
    ------
    InvalidModelError
        If an option is wrong, or the observation model of the setting is no table by action and new state.
    """
    if not setting.is_finite:
        raise InvalidModelError(
            f"prior.sensor: {setting.sensor.described()} have no table that could be learned; `cells = K` of "
            "the agent puts the observations into K classes"
        )
    if setting.sensor_depends_on_previous:
        raise InvalidModelError(
            "prior.sensor: a table that depends on the state before the action cannot be learned; leave "
            "out the option"
        )
    table = setting.observation if setting.sensor_depends_on_action else setting.observation[0]
    return DirichletSensor(_counts("sensor", options, table))


def costs_from(setting: Setting, options: Any) -> DirichletCosts:
    """Return the opinion about the costs of a setting that the option `costs` describes.

    Raises
    ------
    InvalidModelError
        If an option is wrong, or the agents do not see costs.
    """
    seen: SeenCosts | None = setting.seen_cost
    if seen is None:
        raise InvalidModelError(
            'prior.costs: unknown costs must be seen to be learned; add `seen_cost = "exact"` to the study'
        )
    return DirichletCosts(seen.values, _counts("costs", options, seen.probabilities))


def _counts(name: str, options: Any, table: Array) -> Array:
    """Return the concentration of each row of a table."""
    if not isinstance(options, Mapping):
        raise InvalidModelError(f"prior.{name} is {options!r}: a table such as {{ worth = 50 }} is wanted")
    for key in options:
        if key not in _KEYS:
            raise InvalidModelError(f"prior.{name} has no option {key!r}{did_you_mean(key, _KEYS)}")
    ways = [key for key in _KEYS[:3] if key in options]
    if len(ways) != 1:
        raise InvalidModelError(f"prior.{name}: exactly one of {', '.join(_KEYS[:3])} is wanted")
    if ways[0] != CALIBRATION:
        for key in ("added", "seed"):
            if key in options:
                raise InvalidModelError(f"prior.{name}.{key} belongs to a calibration")
        weight = _positive(f"prior.{name}.{ways[0]}", options[ways[0]])
        return weight * table if ways[0] == "worth" else np.full(table.shape, weight)
    n_readings = options[CALIBRATION]
    if not is_integer(n_readings, 0, _MOST) or isinstance(n_readings, bool):
        raise InvalidModelError(f"prior.{name}.calibration is {n_readings!r}: a whole number from 0 to 1e9")
    rng = np.random.default_rng(options.get("seed", 0))
    counts = rng.multinomial(n_readings, table / table.sum(axis=-1, keepdims=True))
    return np.asarray(counts + _positive(f"prior.{name}.added", options.get("added", 0.5)))


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < 1e15:
        raise InvalidModelError(f"{name} is {value!r}: a number above 0 is wanted")
    return float(value)
