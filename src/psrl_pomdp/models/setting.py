"""The `Setting` of a POMDP: everything except the transition kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Names, checked_names, distributions, finite, frozen, numbers, shaped
from ..errors import InvalidModelError, UnknownNameError, did_you_mean
from .frozen import Frozen
from .units import Units


class _SensorItself:
    """The default of `first_observation`.

    It stands for the observation model if this model does not depend on the action, and for None otherwise.
    """

    def __repr__(self) -> str:
        return "SENSOR"


SENSOR: Final = _SensorItself()


class Setting(Frozen):
    """A POMDP without its transition kernel: observation model, cost, initial distribution.

    Parameters
    ----------
    observation
        The observation model η, shape [A, S, O]: the probability of each observation given the action that
        led to the present state, and this state. An array of shape [S, O] is used for every action.
    cost
        The cost of each action in each state, shape [A, S], in the user's own numbers. If they are not all in
        [0, 1] they are rescaled, and `units` stores the scale. `Setting.from_rewards` takes rewards.
    initial
        The initial distribution h, shape [S].
    first_observation
        The distribution of the observation before the first action, shape [S, O], or None if there is no such
        observation. By default it is `observation` if this does not depend on the action, and None otherwise.
    units
        The name of the unit of `cost`, such as "euro a day"; or `Units`, if `cost` is in [0, 1] already.
    states, actions, observations
        Optional names. They must be distinct.

    Raises
    ------
    InvalidModelError
        If an array has the wrong shape, contains a number that is not finite, or has a row that is not a
        probability distribution; or if names are missing or repeated. The message names the entry.

    >>> setting = Setting([[0.9, 0.1], [0.2, 0.8]], [[0.0, 50.0], [20.0, 20.0]], [1.0, 0.0])
    >>> setting
    Setting(2 states, 2 actions, 2 observations, cost 0 to 50)
    >>> setting.cost.tolist()
    [[0.0, 1.0], [0.4, 0.4]]
    """

    observation: Array  # [A, S, O], rows sum to 1
    cost: Array  # [A, S], in [0, 1]
    initial: Array  # [S], sums to 1
    first_observation: Array | None  # [S, O], rows sum to 1
    units: Units
    names: Names

    def __init__(
        self,
        observation: npt.ArrayLike,
        cost: npt.ArrayLike,
        initial: npt.ArrayLike,
        first_observation: npt.ArrayLike | _SensorItself | None = SENSOR,
        *,
        units: Units | str = "",
        states: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
        observations: Sequence[str] | None = None,
    ) -> None:
        given_cost = numbers("cost", cost, "as")
        n_actions, n_states = given_cost.shape
        sensor = numbers("observation", observation, "aso|so")
        if sensor.ndim == 2:
            sensor = np.broadcast_to(sensor, (n_actions, *sensor.shape))
        n_observations = sensor.shape[-1]
        names = Names(
            checked_names("states", states, n_states),
            checked_names("actions", actions, n_actions),
            checked_names("observations", observations, n_observations),
        )
        meaning = f"{n_actions} actions and {n_states} states (the shape of cost)"
        shaped("observation", sensor, (n_actions, n_states, n_observations), meaning)
        sensor = distributions("observation", sensor, "aso", names)
        scaled, units = _scaled(finite("cost", given_cost, "as", names), units, names)
        start = shaped("initial", numbers("initial", initial, "s"), (n_states,), meaning)
        self._set(
            observation=frozen(sensor),
            cost=frozen(scaled),
            initial=frozen(distributions("initial", start, "s", names)),
            first_observation=_first_sensor(first_observation, sensor, names),
            units=units,
            names=names,
        )

    @classmethod
    def from_rewards(
        cls,
        observation: npt.ArrayLike,
        reward: npt.ArrayLike,
        initial: npt.ArrayLike,
        first_observation: npt.ArrayLike | _SensorItself | None = SENSOR,
        *,
        units: str = "",
        states: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
        observations: Sequence[str] | None = None,
    ) -> Setting:
        """Return a setting with rewards instead of costs.

        Parameters
        ----------
        reward
            The reward of each action in each state, shape [A, S]. Rewards r in [0, 1] become costs 1 − r;
            others are rescaled, and `units` stores the scale.
        observation, initial, first_observation, states, actions, observations
            As for `Setting`.
        units
            The name of the unit of `reward`.

        Returns
        -------
        Setting
            A setting with `units.kind == "reward"`.

        Raises
        ------
        InvalidModelError
            As for `Setting`.
        """
        given_reward = numbers("reward", reward, "as")
        names = Names(
            checked_names("states", states, given_reward.shape[1]),
            checked_names("actions", actions, given_reward.shape[0]),
        )
        finite("reward", given_reward, "as", names)
        mapped = Units.spanning(given_reward, "reward", units)
        return cls(
            observation,
            mapped.to_scaled(given_reward),
            initial,
            first_observation,
            units=mapped,
            states=states,
            actions=actions,
            observations=observations,
        )

    def replace(self, **changes: Any) -> Setting:
        """Return a copy of this setting with some of its parts replaced.

        Parameters
        ----------
        **changes
            Parameters of `Setting` by name. A `cost` is on the scale of this setting's `cost`, [0, 1], unless
            `units` are given too.

        Returns
        -------
        Setting
            The new setting; this one does not change.

        Raises
        ------
        InvalidModelError
            If a new part does not fit the others.
        UnknownNameError
            If `Setting` has no parameter of this name.

        >>> setting = Setting(np.eye(2), [[0.0, 50.0]], [1.0, 0.0], units="euro")
        >>> setting.replace(initial=[0.5, 0.5]).initial.tolist()
        [0.5, 0.5]
        """
        parts = {
            "observation": self.observation,
            "cost": self.cost,
            "initial": self.initial,
            "first_observation": self.first_observation,
            "units": self.units,
            "states": self.names.states,
            "actions": self.names.actions,
            "observations": self.names.observations,
        }
        for name in changes:
            if name not in parts:
                raise UnknownNameError(f"a setting has no part {name!r}{did_you_mean(name, parts)}")
        return Setting(**{**parts, **changes})

    @property
    def n_states(self) -> int:
        return int(self.cost.shape[1])

    @property
    def n_actions(self) -> int:
        return int(self.cost.shape[0])

    @property
    def n_observations(self) -> int:
        return int(self.observation.shape[2])

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states, or their numbers as strings if they have no names."""
        return tuple(map(self.names.state, range(self.n_states)))

    @property
    def actions(self) -> tuple[str, ...]:
        return tuple(map(self.names.action, range(self.n_actions)))

    @property
    def observations(self) -> tuple[str, ...]:
        return tuple(map(self.names.observation, range(self.n_observations)))

    @cached_property
    def sensor_depends_on_action(self) -> bool:
        return bool((self.observation != self.observation[0]).any())

    @property
    def own_cost(self) -> Array:
        """The costs, or rewards, in the user's own numbers, shape [A, S]."""
        return self.units.from_scaled(self.cost)

    def _contents(self) -> tuple[str, list[Array]]:
        first = self.first_observation
        text = repr((self.units, self.names, first is None))
        return text, [self.observation, self.cost, self.initial] + ([] if first is None else [first])

    def __repr__(self) -> str:
        unit = f" {self.units.name}" if self.units.name else ""
        return (
            f"Setting({self.n_states} states, {self.n_actions} actions, "
            f"{self.n_observations} observations, "
            f"{self.units.kind} {self.units.low:g} to {self.units.high:g}{unit})"
        )


def _scaled(own: Array, units: Units | str, names: Names) -> tuple[Array, Units]:
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


def _first_sensor(first: npt.ArrayLike | _SensorItself | None, sensor: Array, names: Names) -> Array | None:
    if first is None:
        return None
    if isinstance(first, _SensorItself):
        same_for_all = bool((sensor == sensor[0]).all())
        return frozen(sensor[0]) if same_for_all else None
    given = numbers("first_observation", first, "so")
    shaped("first_observation", given, sensor.shape[1:], "the sensor's states and observations")
    return frozen(distributions("first_observation", given, "so", names))
