"""The parts of a setting, from the constructor's arguments: observation models and costs, checked."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Names, checked_names, distributions, numbers, shaped
from ..errors import InvalidModelError
from ..sensors.base import ContinuousSensor, SensorBase
from ..sensors.costs import SeenCosts
from ..sensors.table import TableSensor
from .units import Units


class SensorItself:
    """The default of `first_observation`.

    It stands for the observation model if this model does not depend on the action, and for None otherwise.
    """

    def __repr__(self) -> str:
        return "SENSOR"


SENSOR: Final = SensorItself()


def as_given(sensor: SensorBase | None) -> Array | SensorBase | None:
    """Return a sensor as the constructor of `Setting` takes it."""
    if not isinstance(sensor, TableSensor):
        return sensor
    return sensor.table[0] if len(sensor.table) == 1 and sensor.table.ndim == 3 else sensor.table


def sensor_of(
    given: npt.ArrayLike | SensorBase, shape: tuple[int, ...], names: Names, observations: object
) -> tuple[SensorBase, Names]:
    """Return the observation model for costs of `shape`, and the names with those of the observations."""
    n_actions, n_states = shape
    meaning = f"{n_actions} actions and {n_states} states (the shape of cost)"
    if isinstance(given, TableSensor):
        given = given.table
    if isinstance(given, SensorBase):
        if given.n_states != n_states or given.n_actions not in (None, n_actions):
            after = "" if given.n_actions is None else f"{given.n_actions} actions and "
            raise InvalidModelError(
                f"observation is a sensor for {after}{given.n_states} states, expected {meaning}"
            )
        if observations is not None:
            raise InvalidModelError(
                f"observations has names, but this setting has {given.described()}, which are not numbered"
            )
        return given, names
    if isinstance(given, type) or callable(given):
        raise InvalidModelError(
            f"observation is {given!r}: pass a table of numbers or an object such as "
            "GaussianSensor(means, sds)"
        )
    table = numbers("observation", given, "aso|so|asto")
    if table.ndim == 2:
        table = np.broadcast_to(table, (n_actions, *table.shape))
    n_observations = table.shape[-1]
    found = Names(names.states, names.actions, checked_names("observations", observations, n_observations))
    shaped("observation", table, (n_actions, *[n_states] * (table.ndim - 2), n_observations), meaning)
    axes = "aso" if table.ndim == 3 else "asto"
    return TableSensor(distributions("observation", table, axes, found)), found


def scaled_costs(own: Array, units: Units | str, names: Names) -> tuple[Array, Units]:
    """Return costs in [0, 1] and their units.

    Costs are rescaled if `units` is a name. If `units` is a `Units`, costs outside [0, 1] raise
    `InvalidModelError`.
    """
    if not isinstance(units, Units):
        units = Units.spanning(own, name=units)
        return units.to_scaled(own), units
    outside = (own < 0.0) | (own > 1.0)
    if outside.any():
        a, s = (int(i) for i in np.argwhere(outside)[0])
        raise InvalidModelError(
            f"{names.entry('cost', 'as', (a, s))} is {own[a, s]:g}, outside [0, 1]: "
            "with `units` as a `Units`, costs must be scaled to [0, 1]"
        )
    return own, units


def seen_cost_of(
    given: SeenCosts | Literal["exact"] | None, own_cost: Array, sizes: tuple[int, ...]
) -> SeenCosts | None:
    """Return the costs that are seen, of which "exact" are those of the setting."""
    if given == "exact":
        return SeenCosts.exact(own_cost)
    if given is None or isinstance(given, SeenCosts):
        if given is not None and given.probabilities.shape[:2] != sizes:
            n_actions, n_states = given.probabilities.shape[:2]
            raise InvalidModelError(
                f"seen_cost is for {n_actions} actions and {n_states} states, "
                f"expected {sizes[0]} actions and {sizes[1]} states (the shape of cost)"
            )
        return given
    raise InvalidModelError(f'seen_cost is {given!r}: expected "exact", a SeenCosts or None')


def first_sensor_of(
    first: npt.ArrayLike | SensorBase | SensorItself | None, sensor: SensorBase, names: Names
) -> SensorBase | None:
    """Return the observation model before the first action, with one action."""
    if first is None:
        return None
    if isinstance(first, SensorItself):
        if isinstance(sensor, TableSensor):
            table = sensor.table
            return None if table.ndim == 4 or (table != table[0]).any() else TableSensor(table[:1])
        return None if sensor.depends_on_previous or sensor.n_actions is not None else sensor
    if isinstance(sensor, TableSensor):
        if isinstance(first, SensorBase) and not isinstance(first, TableSensor):
            raise InvalidModelError(
                f"first_observation has {first.described()}, but the later ones are {sensor.described()}"
            )
        given = (
            first.table[0] if isinstance(first, TableSensor) else numbers("first_observation", first, "so")
        )
        sizes = (sensor.n_states, sensor.n_observations)
        shaped("first_observation", given, sizes, "the sensor's states and observations")
        return TableSensor(distributions("first_observation", given, "so", names)[None])
    assert isinstance(sensor, ContinuousSensor)
    if not isinstance(first, ContinuousSensor) or (first.n_states, first.dimension) != (
        sensor.n_states,
        sensor.dimension,
    ):
        raise InvalidModelError(
            f"first_observation is {first!r}: with {sensor.described()} it must be None, or a sensor of the "
            "same kind of observations and number of states"
        )
    if first.depends_on_previous or first.n_actions is not None:
        raise InvalidModelError(
            "first_observation is a sensor that depends on an action: there is none before it"
        )
    return first
