"""The POMDP model: `Setting`, everything except the transition kernel, and `POMDP`, with the kernel.

The arrays of a model are the paper's (S, A, θ, C, O, η). The action is always the first axis:

| paper        | here                | shape                                                        |
|--------------|---------------------|--------------------------------------------------------------|
| θ(s′ given s, a) | `transition`        | `[A, S, S]`, rows sum to one                                 |
| η(o given s)     | `observation`       | `[A, S, O]`: the observation in state s, which action a led to |
| o_1 ~ η(s_1) | `first_observation` | `[S, O]`, or None if there is no observation before the first action |
| C(s, a)      | `cost`              | `[A, S]`, in [0, 1]; `units` maps it back to the user's numbers |
| h(s)         | `initial`           | `[S]`                                                        |
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Names, checked_names, distributions, finite, frozen, numbers, shaped
from ..errors import InvalidModelError, UnknownNameError, did_you_mean

Kind = Literal["cost", "reward"]


_RATE = re.compile(r"(?<=\S)(?: (?:a|an|per|each|every) | ?/ ?)\w+$")  # matches " a day" in "euro a day"


@dataclass(frozen=True)
class Units:
    """The affine map between the user's costs or rewards and the model's costs in [0, 1].

    Parameters
    ----------
    low, high
        The user's numbers at the ends of the range. For costs, `low` is cost 0 and `high` is cost 1; for
        rewards, `high` is cost 0 and `low` is cost 1.
    kind
        `"cost"` if the user's numbers are costs, `"reward"` if they are rewards.
    name
        The unit of measurement of the user's numbers, such as "euro a day".

    Raises
    ------
    InvalidModelError
        If `kind` is neither `"cost"` nor `"reward"`, `name` is not a string, `low` or `high` is not a number,
        or `high` − `low` is not positive and finite.

    >>> money = Units(low=10.0, high=810.0, name="euro a day")
    >>> float(money.from_scaled(0.5)), float(money.to_scaled(10.0))
    (410.0, 0.0)
    >>> float(Units(low=-100.0, high=10.0, kind="reward").from_scaled(0.1))
    -1.0
    """

    low: float = 0.0
    high: float = 1.0
    kind: Kind = "cost"
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ("cost", "reward"):
            raise InvalidModelError(f"units.kind is {self.kind!r}, not 'cost' or 'reward'")
        if not isinstance(self.name, str):
            raise InvalidModelError(f"units.name is {self.name!r}, not a string")
        for end in ("low", "high"):
            value = getattr(self, end)
            if not isinstance(value, int | float | np.integer | np.floating):
                raise InvalidModelError(f"units.{end} is {value!r}, not a number")
            object.__setattr__(self, end, float(value))
        # An infinite width is refused too, because it is the result of an overflow.
        if not 0.0 < self.high - self.low < np.inf:
            raise InvalidModelError(
                f"units.low is {self.low:g} and units.high is {self.high:g}: "
                "high - low must be positive and finite"
            )

    @classmethod
    def spanning(cls, values: Array, kind: Kind = "cost", name: str = "") -> Units:
        """Return units for the user's numbers `values`.

        If all values lie in [0, 1], the units do not rescale; otherwise they span the range of the values.
        """
        low, high = float(values.min()), float(values.max())
        if low >= 0.0 and high <= 1.0:
            return cls(kind=kind, name=name)
        if low == high:  # a constant becomes cost 0; the width of the range is the constant's own size
            width = max(1.0, abs(low))
            low, high = (low, low + width) if kind == "cost" else (high - width, high)
        return cls(low, high, kind, name)

    @property
    def total_name(self) -> str:
        """The unit of sums over steps, such as regret: `name` without a rate such as "a day".

        >>> Units(name="euro a day").total_name, Units(name="euro").total_name, Units(name="km/h").total_name
        ('euro', 'euro', 'km')
        """
        return _RATE.sub("", self.name)

    @property
    def average_name(self) -> str:
        """The unit of averages over steps: `name`, with "a step" added if it contains no rate.

        >>> Units(name="euro a day").average_name, Units(name="euro").average_name, Units().average_name
        ('euro a day', 'euro a step', '')
        """
        return f"{self.name} a step" if self.name and not _RATE.search(self.name) else self.name

    def to_scaled(self, value: npt.ArrayLike) -> Array:
        """Return the model's cost in [0, 1] for a number of the user's."""
        value = np.asarray(value, dtype=np.float64)
        distance = value - self.low if self.kind == "cost" else self.high - value
        return np.asarray(distance / (self.high - self.low))

    def from_scaled(self, cost: npt.ArrayLike) -> Array:
        """Return the user's number for a cost of the model. The result is exact at both ends of the range."""
        cost = np.asarray(cost, dtype=np.float64)
        best, worst = (self.low, self.high) if self.kind == "cost" else (self.high, self.low)
        return np.asarray((1.0 - cost) * best + cost * worst)

    def difference(self, cost: npt.ArrayLike) -> Array:
        """Return a difference of costs, such as regret, in the user's units.

        A positive difference is a worse result, for costs and for rewards.
        """
        return np.asarray(np.asarray(cost, dtype=np.float64) * (self.high - self.low))


class _SensorItself:
    """The default of `first_observation`.

    It stands for the observation model if this model does not depend on the action, and for None otherwise.
    """

    def __repr__(self) -> str:
        return "SENSOR"


SENSOR: Final = _SensorItself()


class Frozen:
    """Base class of immutable objects that are compared by their contents.

    The constructor sets the attributes once. Arrays stay read-only in copies and in other processes.
    """

    def _set(self, **fields: object) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} cannot be deleted")

    def __setstate__(self, state: dict[str, object]) -> None:
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)  # pickling drops the flag
        self.__dict__.update(state)

    def _contents(self) -> tuple[str, list[Array]]:
        """Return a text and the arrays that determine whether two objects are equal."""
        raise NotImplementedError

    @cached_property
    def fingerprint(self) -> str:
        """A SHA-256 digest of every number, to the last bit, and of every name."""
        words, arrays = self._contents()
        digest = hashlib.sha256(words.encode())
        for array in arrays:
            digest.update(repr(array.shape).encode())
            digest.update(array.tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)) and not isinstance(self, type(other)):
            return NotImplemented
        assert isinstance(other, Frozen)
        return self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)


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
        words = repr((self.units, self.names, first is None))
        return words, [self.observation, self.cost, self.initial] + ([] if first is None else [first])

    def __repr__(self) -> str:
        unit = f" {self.units.name}" if self.units.name else ""
        return (
            f"Setting({self.n_states} states, {self.n_actions} actions, "
            f"{self.n_observations} observations, "
            f"{self.units.kind} {self.units.low:g} to {self.units.high:g}{unit})"
        )


class POMDP(Frozen):
    """A `Setting` with a transition kernel.

    Parameters
    ----------
    setting
        The observation model, the costs and the initial distribution.
    transition
        The transition kernel θ(s′ | s, a), shape [A, S, S′].
    name
        A name for reports and files. It does not affect equality.
    remarks
        Notes on the model, for example on how it was read from a file. They do not affect equality.

    Raises
    ------
    InvalidModelError
        If `setting` is not a `Setting`, `transition` has the wrong shape or a row that is not a probability
        distribution, or `remarks` is a single string.

    >>> setting = Setting([[0.9, 0.1], [0.2, 0.8]], [[0.0, 1.0]], [1.0, 0.0])
    >>> POMDP(setting, [[[0.7, 0.3], [0.0, 1.0]]], name="wear")
    POMDP('wear', Setting(2 states, 1 actions, 2 observations, cost 0 to 1))
    """

    setting: Setting
    transition: Array  # [A, S, S], rows sum to 1
    name: str
    remarks: tuple[str, ...]

    def __init__(
        self,
        setting: Setting,
        transition: npt.ArrayLike,
        name: str = "",
        remarks: Sequence[str] = (),
    ) -> None:
        if not isinstance(setting, Setting):
            raise InvalidModelError(f"setting is a {type(setting).__name__}, not a Setting")
        if isinstance(remarks, str):
            raise InvalidModelError(f"remarks is the single string {remarks!r}, not a list of strings")
        self._set(
            setting=setting,
            transition=frozen(kernel("transition", transition, setting)),
            name=str(name),
            remarks=tuple(remarks),
        )

    @property
    def n_states(self) -> int:
        return self.setting.n_states

    @property
    def n_actions(self) -> int:
        return self.setting.n_actions

    @property
    def n_observations(self) -> int:
        return self.setting.n_observations

    def _contents(self) -> tuple[str, list[Array]]:
        return self.setting.fingerprint, [self.transition]

    def __repr__(self) -> str:
        called = f"{self.name!r}, " if self.name else ""
        return f"POMDP({called}{self.setting!r})"


def kernel(array: str, value: npt.ArrayLike, setting: Setting) -> Array:
    """Return `value` as a transition kernel [A, S, S′] for `setting`; errors call it `array`."""
    sizes = (setting.n_actions, setting.n_states, setting.n_states)
    meaning = f"{sizes[0]} actions and {sizes[1]} states"
    given = shaped(array, numbers(array, value, "ast"), sizes, meaning)
    return distributions(array, given, "ast", setting.names)


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
