"""The `Setting` of a POMDP: everything except the transition kernel.

The module is long because it is one class, of which almost half is documentation. The checks of what users
give are in `setting_parts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Names, checked_names, distributions, finite, frozen, numbers, shaped
from .._utils.frozen import Frozen
from ..errors import InvalidModelError, UnknownNameError, did_you_mean
from ..sensors.base import SensorBase
from ..sensors.costs import SeenCosts
from ..sensors.table import TableSensor
from .setting_parts import (
    SENSOR,
    SensorItself,
    as_given,
    first_sensor_of,
    scaled_costs,
    seen_cost_of,
    sensor_of,
)
from .units import Units


class Setting(Frozen):
    """A POMDP without its transition kernel: observation model, cost, initial distribution.

    Parameters
    ----------
    observation
        The observation model η. Either a table of shape [A, S, O]: the probability of each observation given
        the action that led to the present state, and this state. An array of shape [S, O] is used for every
        action; a table of shape [A, S, S′, O] depends on the state before the action and on the state after
        it. Or an object such as `GaussianSensor`, for observations that are real numbers, counts or vectors.
    cost
        The cost of each action in each state, shape [A, S], in the user's own numbers. If they are not all in
        [0, 1] they are rescaled, and `units` stores the scale. `Setting.from_rewards` takes rewards.
    initial
        The initial distribution h, shape [S].
    first_observation
        The distribution of the observation before the first action: a table of shape [S, O] or a sensor
        object, or None if there is no such observation. By default it is `observation` if this depends
        neither on the action nor on the state before it, and None otherwise.
    units
        The name of the unit of `cost`, such as "euro a day"; or `Units`, if `cost` is in [0, 1] already.
    seen_cost
        Whether and how the agent sees the cost of each action: "exact", if it sees `cost` itself;
        `SeenCosts`, if the cost that it sees is random; None if it sees no costs.
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

    sensor: SensorBase  # η
    cost: Array  # [A, S], in [0, 1]
    initial: Array  # [S], sums to 1
    first_sensor: SensorBase | None  # η before the first action; its action is number 0
    seen_cost: SeenCosts | None  # κ, in the user's own numbers
    units: Units
    names: Names

    def __init__(
        self,
        observation: npt.ArrayLike | SensorBase,
        cost: npt.ArrayLike,
        initial: npt.ArrayLike,
        first_observation: npt.ArrayLike | SensorBase | SensorItself | None = SENSOR,
        *,
        units: Units | str = "",
        seen_cost: SeenCosts | Literal["exact"] | None = None,
        states: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
        observations: Sequence[str] | None = None,
    ) -> None:
        given_cost = numbers("cost", cost, "as")
        n_actions, n_states = given_cost.shape
        names = Names(checked_names("states", states, n_states), checked_names("actions", actions, n_actions))
        sensor, names = sensor_of(observation, given_cost.shape, names, observations)
        scaled, units = scaled_costs(finite("cost", given_cost, "as", names), units, names)
        meaning = f"{n_actions} actions and {n_states} states (the shape of cost)"
        start = shaped("initial", numbers("initial", initial, "s"), (n_states,), meaning)
        self._set(
            sensor=sensor,
            cost=frozen(scaled),
            initial=frozen(distributions("initial", start, "s", names)),
            first_sensor=first_sensor_of(first_observation, sensor, names),
            seen_cost=seen_cost_of(seen_cost, units.from_scaled(scaled), given_cost.shape),
            units=units,
            names=names,
        )

    @classmethod
    def from_rewards(
        cls,
        observation: npt.ArrayLike | SensorBase,
        reward: npt.ArrayLike,
        initial: npt.ArrayLike,
        first_observation: npt.ArrayLike | SensorBase | SensorItself | None = SENSOR,
        *,
        units: str = "",
        seen_cost: SeenCosts | Literal["exact"] | None = None,
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
        observation, initial, first_observation, seen_cost, states, actions, observations
            As for `Setting`; the values of `seen_cost` are rewards.
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
            seen_cost=seen_cost,
            states=states,
            actions=actions,
            observations=observations,
        )

    @classmethod
    def from_log(
        cls,
        true_states: Sequence[Any] | npt.ArrayLike,
        readings: Sequence[Any] | npt.ArrayLike,
        cost: npt.ArrayLike,
        initial: npt.ArrayLike,
        *,
        taken: Sequence[Any] | npt.ArrayLike | None = None,
        family: str = "table",
        states: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
        observations: Sequence[str] | None = None,
        **parts: Any,
    ) -> Setting:
        """Return a setting whose observation model is estimated from observations in known states.

        The setting takes the estimate as if it were exact. If a table is estimated from few observations,
        give a prior the `DirichletSensor` that `calibrate` returns, so that the agent goes on learning the
        table.

        Parameters
        ----------
        true_states, readings, taken
            The state, the observation, and optionally the action before it, of each entry of a log: numbers
            or names. The arguments `states`, `observations` and `actions` of `psrl_pomdp.calibrate`.
        cost, initial, states, actions, observations
            As for `Setting`.
        family
            "table", or the family of a density, as for `psrl_pomdp.calibrate`.
        **parts
            Further arguments of `Setting`.

        Returns
        -------
        Setting
            The setting.

        Raises
        ------
        InvalidModelError
            If the lists do not fit together, or an array does not fit the others.

        Warns
        -----
        CalibrationWarning
            If the observations do not tell two states apart, or there are none in a state.

        >>> log = ["sound", "worn"] * 20, ["quiet", "alarm"] * 19 + ["quiet", "quiet"]
        >>> setting = Setting.from_log(*log, cost=[[0.0, 50.0], [20.0, 20.0]], initial=[1.0, 0.0],
        ...                            states=["sound", "worn"], observations=["quiet", "alarm"])
        >>> setting.observation[0].round(2).tolist()
        [[0.98, 0.02], [0.07, 0.93]]
        """
        from ..sensors.calibration import calibrate
        from ..sensors.dirichlet import DirichletSensor

        n_actions, n_states = numbers("cost", cost, "as").shape
        found = calibrate(
            true_states,
            readings,
            n_states,
            taken,
            family=family,
            n_actions=None if taken is None else n_actions,
            state_names=states,
            action_names=None if taken is None else actions,
            observation_names=observations,
        )
        sensor = found.mean if isinstance(found, DirichletSensor) else found
        return cls(sensor, cost, initial, states=states, actions=actions, observations=observations, **parts)

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
            "observation": as_given(self.sensor),
            "cost": self.cost,
            "initial": self.initial,
            "first_observation": as_given(self.first_sensor),
            "units": self.units,
            "seen_cost": self.seen_cost,
            "states": self.names.states,
            "actions": self.names.actions,
            "observations": self.names.observations,
        }
        for name in changes:
            if name not in parts:
                raise UnknownNameError(f"a setting has no part {name!r}{did_you_mean(name, parts)}")
        return Setting(**{**parts, **changes})

    def quantized(self, n_cells: int) -> Setting:
        """Return this setting with about K classes of observations, in place of a density.

        Classes are intervals. They say less than the reading, so that the optimal average cost with them is
        at least that with the density. Classes for K are unions of classes for each multiple of K.

        Parameters
        ----------
        n_cells
            The number of classes K. There are fewer where counts do not vary that much.

        Returns
        -------
        Setting
            A finite setting; this one, if it is finite.

        Raises
        ------
        InvalidModelError
            If observations are no single numbers with known probabilities of intervals.

        >>> from psrl_pomdp import GaussianSensor
        >>> setting = Setting(GaussianSensor([0.0, 1.0], [1.0, 1.0]), [[0.0, 1.0]], [1.0, 0.0])
        >>> setting.quantized(2).observation.round(2).tolist()
        [[[0.69, 0.31], [0.31, 0.69]]]
        """
        if self.is_finite:
            return self
        from ..sensors.bracket import quantized

        found = quantized(self.sensor, self.first_sensor, n_cells)
        return self.replace(observation=found.table, first_observation=found.first_table)

    def dilated(self, n_cells: int) -> Setting:
        """Return this setting with finitely many observations that say more than those of the density.

        Every posterior that a reading leads to is a mean of posteriors that these observations lead to. The
        optimal average cost with them is at most that with the density.

        Parameters
        ----------
        n_cells
            The number K of intervals from which the observations are derived; there are about (S − 1)·K.

        Returns
        -------
        Setting
            A finite setting; this one, if it is finite.

        Raises
        ------
        InvalidModelError
            If observations are no single numbers with known probabilities of intervals.
        """
        if self.is_finite:
            return self
        from ..sensors.bracket import dilated

        found = dilated(self.sensor, self.first_sensor, n_cells)
        return self.replace(observation=found.table, first_observation=found.first_table)

    @property
    def n_states(self) -> int:
        """The number of states."""
        return int(self.cost.shape[1])

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return int(self.cost.shape[0])

    @property
    def is_finite(self) -> bool:
        """Whether there are finitely many observations, which have numbers."""
        return self.sensor.is_finite

    @property
    def has_first_observation(self) -> bool:
        """Whether there is an observation before the first action."""
        return self.first_sensor is not None

    @property
    def observation(self) -> Array:
        """The table of the observation model, shape [A, S, O], or [A, S, S′, O].

        Raises `InvalidModelError` if observations are real numbers, counts or vectors.
        """
        return self._table().table

    @property
    def first_observation(self) -> Array | None:
        """The table of the observation before the first action, shape [S, O]; None if there is none."""
        self._table()
        return self.first_sensor.table[0] if isinstance(self.first_sensor, TableSensor) else None

    @property
    def n_observations(self) -> int:
        """The number of observations. Raises `InvalidModelError` if it is not finite."""
        return self._table().n_observations

    @property
    def joint_observation(self) -> Array:
        """The table of the observation together with the seen cost.

        The pair (o, c) has the number o C + c. The table is `observation` if costs are not seen, and has
        shape [A, S, S′, O·C] otherwise.
        """
        table = self.observation
        if self.seen_cost is None:
            return table
        by_state = table if table.ndim == 4 else table[:, None]
        pairs = by_state[..., :, None] * self.seen_cost.probabilities[:, :, None, None, :]
        return np.asarray(pairs.reshape(*pairs.shape[:3], -1))

    @property
    def n_joint_observations(self) -> int:
        """The number of observations, or of pairs of observation and seen cost."""
        return self.n_observations * (1 if self.seen_cost is None else self.seen_cost.n_values)

    def _table(self) -> TableSensor:
        if isinstance(self.sensor, TableSensor):
            return self.sensor
        raise InvalidModelError(
            f"this setting has {self.sensor.described()}, which have no table: `setting.quantized(K)` is the "
            "same setting with K classes of observations"
        )

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states, or their numbers as strings if they have no names."""
        return tuple(map(self.names.state, range(self.n_states)))

    @property
    def actions(self) -> tuple[str, ...]:
        """The names of the actions, or their numbers as strings if they have no names."""
        return tuple(map(self.names.action, range(self.n_actions)))

    @property
    def observations(self) -> tuple[str, ...]:
        """The names of the observations, or their numbers as strings if they have no names."""
        return tuple(map(self.names.observation, range(self.n_observations)))

    @cached_property
    def sensor_depends_on_action(self) -> bool:
        """Whether the observation model differs between actions."""
        if isinstance(self.sensor, TableSensor):
            return bool((self.observation != self.observation[0]).any())
        return self.sensor.n_actions is not None

    @property
    def sensor_depends_on_previous(self) -> bool:
        """Whether the observation depends on the state before the action, too."""
        return self.sensor.depends_on_previous

    @property
    def own_cost(self) -> Array:
        """The costs, or rewards, in the user's own numbers, shape [A, S]."""
        return self.units.from_scaled(self.cost)

    def _contents(self) -> tuple[str, list[Array]]:
        first = self.first_sensor
        text, (sensor, table) = repr((self.units, self.names, first is None)), self.sensor._contents()
        arrays = [*table, self.cost, self.initial]
        if first is not None:
            kind, more = first._contents()
            text += "" if first.is_finite else kind
            arrays += [table[0] for table in more] if first.is_finite else more
        if self.seen_cost is not None:
            kind, more = self.seen_cost._contents()
            text, arrays = text + kind, arrays + more
        return text if self.is_finite else text + sensor, arrays

    def __repr__(self) -> str:
        unit = f" {self.units.name}" if self.units.name else ""
        return (
            f"Setting({self.n_states} states, {self.n_actions} actions, {self.sensor.described()}, "
            f"{self.units.kind} {self.units.low:g} to {self.units.high:g}{unit})"
        )
