"""What the agent is told (`Setting`), and the world that it does not know (`POMDP`).

The paper's (S, A, θ, C, O, η), action first everywhere:

| paper        | here                | shape                                                        |
|--------------|---------------------|--------------------------------------------------------------|
| θ(s′ given s, a) | `transition`        | `[A, S, S]`, rows sum to one                                 |
| η(o given s)     | `observation`       | `[A, S, O]`: the reading after action a brought state s      |
| o_1 ~ η(s_1) | `first_observation` | `[S, O]`, or None: nothing is read before the first action   |
| C(s, a)      | `cost`              | `[A, S]`, in [0, 1]; `units` maps back to the user's numbers |
| h(s)         | `initial`           | `[S]`                                                        |
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Names, checked_names, distributions, finite, frozen, numbers, shaped
from ..errors import InvalidModelError

Kind = Literal["cost", "reward"]


_RATE = re.compile(r"(?<=\S)(?: (?:a|an|per|each|every) | ?/ ?)\w+$")  # "a day" in "euro a day"


@dataclass(frozen=True)
class Units:
    """The affine map between the user's costs or rewards and the model's costs in [0, 1].

    `low` and `high` are the user's numbers at the ends of that range. A reward is a cost upside
    down: reward `high` is cost 0.

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
            raise InvalidModelError(f"units.name is {self.name!r}, not a text")
        for end in ("low", "high"):
            value = getattr(self, end)
            if not isinstance(value, int | float | np.integer | np.floating):
                raise InvalidModelError(f"units.{end} is {value!r}, not a number")
            object.__setattr__(self, end, float(value))
        # An infinite width is refused too: it is what overflow leaves.
        if not 0.0 < self.high - self.low < np.inf:
            raise InvalidModelError(f"units run from {self.low:g} to {self.high:g}: no scale")

    @classmethod
    def spanning(cls, values: Array, kind: Kind = "cost", name: str = "") -> Units:
        """Units for these numbers of the user's: [0, 1] as it is where they fit, else their range."""
        low, high = float(values.min()), float(values.max())
        if low >= 0.0 and high <= 1.0:
            return cls(kind=kind, name=name)
        if low == high:  # a constant is cost 0 on a scale of its own size
            width = max(1.0, abs(low))
            low, high = (low, low + width) if kind == "cost" else (high - width, high)
        return cls(low, high, kind, name)

    @property
    def total_name(self) -> str:
        """What sums over steps, such as regret, are counted in: the name without "a day".

        >>> Units(name="euro a day").total_name, Units(name="euro").total_name, Units(name="km/h").total_name
        ('euro', 'euro', 'km')
        """
        return _RATE.sub("", self.name)

    @property
    def average_name(self) -> str:
        """What averages over steps are counted in: the name with "a step", unless it says a day or the like.

        >>> Units(name="euro a day").average_name, Units(name="euro").average_name, Units().average_name
        ('euro a day', 'euro a step', '')
        """
        return f"{self.name} a step" if self.name and not _RATE.search(self.name) else self.name

    def to_scaled(self, value: npt.ArrayLike) -> Array:
        """The model's cost for the user's number."""
        value = np.asarray(value, dtype=np.float64)
        distance = value - self.low if self.kind == "cost" else self.high - value
        return np.asarray(distance / (self.high - self.low))

    def from_scaled(self, cost: npt.ArrayLike) -> Array:
        """The user's number for a cost of the model; exact at both ends of the range."""
        cost = np.asarray(cost, dtype=np.float64)
        best, worst = (self.low, self.high) if self.kind == "cost" else (self.high, self.low)
        return np.asarray((1.0 - cost) * best + cost * worst)

    def difference(self, cost: npt.ArrayLike) -> Array:
        """A difference of costs, such as regret, in the user's scale; worse is positive for both kinds."""
        return np.asarray(np.asarray(cost, dtype=np.float64) * (self.high - self.low))


class _SensorItself:
    """The default of `first_observation`: the sensor where no action changes it, else nothing."""

    def __repr__(self) -> str:
        return "SENSOR"


SENSOR: Final = _SensorItself()


class Frozen:
    """Set once, by the constructor; arrays stay read-only through copies and processes."""

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
        """The words and the arrays that make two of a kind equal."""
        raise NotImplementedError

    @cached_property
    def fingerprint(self) -> str:
        """A digest of every number, to the last bit, and of every name."""
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
    """All that the agent is told: the sensor, the costs, the start. Everything but the dynamics.

    `cost[a, s]` is in your own numbers: where they leave [0, 1] they are rescaled, and `units`
    remembers how; pass a text to say what they are counted in (`units="euro a day"`), or `Units` where
    `cost` is in [0, 1] already and you know what its ends mean. `Setting.from_rewards` takes rewards.
    An `observation` of shape `[S, O]` stands for every action.

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
        own = numbers("cost", cost, "as")
        n_actions, n_states = own.shape
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
        scaled, units = _scaled(finite("cost", own, "as", names), units, names)
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
        """The same from `reward[a, s]`: rewards in [0, 1] become costs 1 − r, others are rescaled."""
        own = numbers("reward", reward, "as")
        names = Names(
            checked_names("states", states, own.shape[1]), checked_names("actions", actions, own.shape[0])
        )
        finite("reward", own, "as", names)
        mapped = Units.spanning(own, "reward", units)
        return cls(
            observation,
            mapped.to_scaled(own),
            initial,
            first_observation,
            units=mapped,
            states=states,
            actions=actions,
            observations=observations,
        )

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
        """The states' names, or their numbers where they have none."""
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
        """[A, S]: the costs, or rewards, in the user's own numbers."""
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
    """A setting and the dynamics that the agent does not know: `transition[a, s, s′]` = θ(s′ | s, a).

    `name` says what it is, `remarks` what a reader or a writer of the model should know; neither
    takes part in equality.
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
            raise InvalidModelError(f"remarks: a list of texts is wanted, not the single text {remarks!r}")
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
    """`value` as a transition kernel `[A, S, S]` for this setting."""
    sizes = (setting.n_actions, setting.n_states, setting.n_states)
    meaning = f"{sizes[0]} actions and {sizes[1]} states"
    given = shaped(array, numbers(array, value, "ast"), sizes, meaning)
    return distributions(array, given, "ast", setting.names)


def _scaled(own: Array, units: Units | str, names: Names) -> tuple[Array, Units]:
    """Costs in [0, 1] and their units: the user's numbers rescaled, or checked if said to be there."""
    if not isinstance(units, Units):
        units = Units.spanning(own, name=units)
        return units.to_scaled(own), units
    outside = (own < 0.0) | (own > 1.0)
    if outside.any():
        a, s = (int(i) for i in np.argwhere(outside)[0])
        raise InvalidModelError(
            f"{names.entry('cost', 'as', (a, s))} is {own[a, s]:g}, outside [0, 1]: "
            "where Units are given, costs are given scaled"
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
