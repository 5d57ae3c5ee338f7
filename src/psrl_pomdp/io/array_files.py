"""Models as arrays: `.json` for people and other languages, `.npz` for large models.

Both formats have the same fields, and a model that is saved and loaded is equal to the last bit. A JSON file
may also be written by hand:

    {"transition": [[[0.9, 0.1], [0, 1]]], "observation": [[1, 0], [0, 1]],
     "reward": [[1, -5]], "initial": [1, 0], "states": ["working", "broken"]}

`cost` or `reward` are then in the user's units. If `units` are given, as in files that this module writes,
`cost` is in [0, 1] and `units` convert it to the user's units. `observation` has the shape [S, O] or
[A, S′, O], or [A, S, S′, O] if it depends on the state before the action. Without `first_observation` the
default of `Setting` applies: the observation model, if it depends neither on the action nor on the state
before it.

Observations that are real numbers, counts or vectors have a `sensor` instead of `observation`, and a
`first_sensor` (or null, if there is no observation before the first action) instead of `first_observation`:

    "sensor": {"family": "gaussian", "means": [1.0, 0.0], "sds": [0.5, 0.5]}

If the agent sees the cost of each action, `seen_cost` is "exact", or gives the distribution of the costs that
it sees: `{"values": [C], "probabilities": [A, S, C], "edges": [C - 1]}`, of which `edges` are optional.
"""

from __future__ import annotations

import io
from pathlib import PurePath
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from .._serialization.archives import SizeLimit, unpack
from .._utils.arrays import Array, Names, checked_names, numbers
from ..errors import InvalidModelError, ParseError
from ..models import POMDP, SENSOR, Kind, Setting, Units
from ..sensors.costs import SeenCosts
from ..sensors.records import from_record
from .rows import RowRule
from .sensor_fields import sensor_fields

# Nested lists of any depth; their shape is checked where they become arrays.
Nested = list[Any]


class UnitsFile(msgspec.Struct, forbid_unknown_fields=True):
    """The field `units`: the values at cost 0 and 1, their kind and their name."""

    low: float
    high: float
    kind: Kind
    name: str = ""


class SeenCostFile(msgspec.Struct, forbid_unknown_fields=True):
    """The field `seen_cost`: the distribution of the costs that the agent sees."""

    values: Nested
    probabilities: Nested
    edges: Nested | None = None


class Metadata(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Everything about a model that is not an array."""

    units: UnitsFile | None = None
    states: list[str] | None = None
    actions: list[str] | None = None
    observations: list[str] | None = None
    name: str = ""
    remarks: list[str] = []
    seen_cost: SeenCostFile | Literal["exact"] | None = None
    sensor: dict[str, Any] | None = None
    first_sensor: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


class ModelFile(Metadata, forbid_unknown_fields=True, kw_only=True):
    """A JSON file: the metadata, and the arrays as nested lists."""

    transition: Nested
    initial: Nested
    observation: Nested | None = None
    cost: Nested | None = None
    reward: Nested | None = None
    first_observation: Nested | msgspec.UnsetType | None = msgspec.UNSET


ARRAYS = ("transition", "observation", "initial", "cost", "reward", "first_observation")
_TABLES = 3  # limit of the size of all arrays together, as a multiple of the limit for one array
_LONGEST_WORDS = 32 << 20  # bytes; reading JSON takes a multiple of its size in memory
_REQUIRED = ("transition", "initial")


def write_json(model: POMDP) -> bytes:
    """Return a model as indented JSON; every number has enough digits to be read back exactly."""
    arrays = {name: array.tolist() for name, array in _arrays(model).items()}
    arrays |= (
        {} if "first_observation" in arrays or not model.setting.is_finite else {"first_observation": None}
    )
    return msgspec.json.format(msgspec.json.encode(_metadata(model) | arrays), indent=1)


def read_json(data: bytes, path: str = "", *, max_entries: int, rows: RowRule | None = None) -> POMDP:
    """Return the model in a JSON file; arrays of more than `max_entries` numbers raise `ParseError`."""
    try:
        file = msgspec.json.decode(data, type=ModelFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"not a model: {error}", path=path) from None
    arrays = {name: value for name in ARRAYS if (value := getattr(file, name)) not in (None, msgspec.UNSET)}
    default = SENSOR if file.first_observation is msgspec.UNSET else None
    return _build(file, arrays, default, path, max_entries, rows)


def write_npz(model: POMDP) -> bytes:
    """Return a model as a compressed archive of arrays, without pickles."""
    metadata = np.frombuffer(msgspec.json.encode(_metadata(model)), dtype=np.uint8)
    buffer = io.BytesIO()
    # Empty: no observation before the first action.
    first = {"first_observation": np.zeros((0, 0))} if model.setting.is_finite else {}
    arrays = first | _arrays(model)
    np.savez_compressed(buffer, words=metadata, allow_pickle=False, **arrays)
    return buffer.getvalue()


def read_npz(data: bytes, path: str = "", *, max_entries: int, rows: RowRule | None = None) -> POMDP:
    """Return the model in an archive; arrays of more than `max_entries` numbers raise `ParseError`."""
    found = unpack(data, path, SizeLimit(_TABLES * (8 * max_entries + 4096)))
    try:
        encoded = found.pop("words", np.zeros(0, np.uint8)).tobytes()
        if len(encoded) > _LONGEST_WORDS:
            raise ParseError(f"words is too long: the limit is {_LONGEST_WORDS} bytes", path=path)
        metadata = msgspec.json.decode(encoded or b"{}", type=Metadata)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"not a model: {error}", path=path) from None
    unknown = set(found) - set(ARRAYS)
    if unknown:
        raise ParseError(f"unknown array {min(unknown)!r}; known are {', '.join(ARRAYS)}", path=path)
    first = found.get("first_observation")
    if first is not None and first.size == 0:
        del found["first_observation"]
    return _build(metadata, found, SENSOR if first is None else None, path, max_entries, rows)


def _metadata(model: POMDP) -> dict[str, Any]:
    names, units = model.setting.names, model.setting.units
    metadata: dict[str, Any] = {
        "name": model.name,
        "remarks": list(model.remarks),
        "units": {"low": units.low, "high": units.high, "kind": units.kind, "name": units.name},
        "states": names.states,
        "actions": names.actions,
        "observations": names.observations,
    }
    seen = model.setting.seen_cost
    if seen is not None:
        metadata["seen_cost"] = {"values": seen.values.tolist(), "probabilities": seen.probabilities.tolist()}
        if seen.edges is not None:
            metadata["seen_cost"]["edges"] = seen.edges.tolist()
    return {key: value for key, value in metadata.items() if value} | sensor_fields(model.setting)


def _arrays(model: POMDP) -> dict[str, npt.NDArray[np.float64]]:
    setting = model.setting
    arrays = {
        "initial": setting.initial,
        "cost": setting.cost,
        "transition": model.transition,
    }
    if not setting.is_finite:
        return arrays
    arrays["observation"] = setting.observation
    if setting.first_observation is not None:
        arrays["first_observation"] = setting.first_observation
    return arrays


def _build(
    metadata: Metadata,
    arrays: dict[str, Any],
    default_first: Any,
    path: str,
    max_entries: int,
    rows: RowRule | None,
) -> POMDP:
    """Return the model with these fields; `default_first` is `first_observation` if it is absent."""
    rule = rows or RowRule()
    try:
        for name in _REQUIRED:
            if name not in arrays:
                raise InvalidModelError(f"{name} is missing")
        if ("cost" in arrays) == ("reward" in arrays):
            raise InvalidModelError("give one of cost and reward")
        if ("observation" in arrays) == (metadata.sensor is not None):
            raise InvalidModelError("give one of observation and sensor")
        if metadata.sensor is None:
            setting = _setting(metadata, arrays, default_first, max_entries, rule)
        else:
            setting = _with_sensor(metadata, arrays, max_entries, rule)
        transition = numbers("transition", arrays["transition"], "ast")
        kernel = rule.distributions("transition", transition, "ast", setting.names)
        name = metadata.name or PurePath(path).stem
        return POMDP(setting, kernel, name, [*metadata.remarks, *rule.remarks])
    except (InvalidModelError, IndexError, OverflowError) as error:
        raise ParseError(str(error), path=path) from None


def _with_sensor(metadata: Metadata, arrays: dict[str, Any], max_entries: int, rule: RowRule) -> Setting:
    """Return the setting with a sensor that is not a table."""
    if "first_observation" in arrays:
        raise InvalidModelError("first_observation goes with observation; give first_sensor with sensor")
    value = numbers("cost or reward", arrays["cost" if "cost" in arrays else "reward"], "as")
    if value.shape[0] * value.shape[1] ** 2 > max_entries:
        raise InvalidModelError(f"too large: the limit is {max_entries} numbers in an array")
    names = Names(
        checked_names("states", metadata.states, value.shape[1]),
        checked_names("actions", metadata.actions, value.shape[0]),
    )
    if metadata.observations is not None:
        raise InvalidModelError("observations are names of numbered observations, and a sensor has none")
    initial = rule.distributions("initial", numbers("initial", arrays["initial"], "s"), "s", names)
    sensor = from_record(metadata.sensor, "sensor", max_entries=max_entries)
    first: Any = SENSOR if metadata.first_sensor is msgspec.UNSET else metadata.first_sensor
    if isinstance(first, dict):
        first = from_record(first, "first_sensor", max_entries=max_entries)
    return _scaled_setting(metadata, arrays, value, (sensor, initial, first), names, max_entries)


def _setting(
    metadata: Metadata, arrays: dict[str, Any], default_first: Any, max_entries: int, rule: RowRule
) -> Setting:
    """Return the setting with these fields, after a check of the sizes of its arrays."""
    value = numbers("cost or reward", arrays["cost" if "cost" in arrays else "reward"], "as")
    given = {
        "observation": numbers("observation", arrays["observation"], "aso|so|asto"),
        "initial": numbers("initial", arrays["initial"], "s"),
    }
    if "first_observation" in arrays:
        given["first_observation"] = numbers("first_observation", arrays["first_observation"], "so")
    n_observations, n_axes = given["observation"].shape[-1], given["observation"].ndim
    entries = max(given["observation"].size, value.shape[0] * value.shape[1] * value.shape[1])
    if max(entries, value.shape[0] * value.shape[1] * n_observations) > max_entries:
        raise InvalidModelError(f"too large: the limit is {max_entries} numbers in an array")
    names = Names(
        checked_names("states", metadata.states, value.shape[1]),
        checked_names("actions", metadata.actions, value.shape[0]),
        checked_names("observations", metadata.observations, n_observations),
    )
    axes = {"initial": "s", "first_observation": "so"}
    axes["observation"] = "asto" if n_axes == 4 else "aso"[-n_axes:]
    rows = {name: rule.distributions(name, array, axes[name], names) for name, array in given.items()}
    if metadata.first_sensor is not msgspec.UNSET:
        raise InvalidModelError("first_sensor goes with sensor; give first_observation with observation")
    first = rows.get("first_observation", default_first)
    return _scaled_setting(
        metadata, arrays, value, (rows["observation"], rows["initial"], first), names, max_entries
    )


def _seen_cost(
    given: SeenCostFile | Literal["exact"] | None, n_pairs: int, max_entries: int
) -> SeenCosts | Literal["exact"] | None:
    """Return the costs that are seen; `n_pairs` is the number of pairs of action and state."""
    if not isinstance(given, SeenCostFile):
        return given
    if n_pairs * len(given.values) > max_entries:
        raise InvalidModelError(f"seen_cost is too large: the limit is {max_entries} numbers in an array")
    return SeenCosts(given.values, given.probabilities, given.edges)


def _scaled_setting(
    metadata: Metadata,
    arrays: dict[str, Any],
    value: Array,
    parts: tuple[Any, Any, Any],
    names: Names,
    max_entries: int,
) -> Setting:
    """Return the setting with these costs or rewards, observation model, start and first observation."""
    observation, initial, first = parts
    named: dict[str, Any] = {
        "states": names.states,
        "actions": names.actions,
        "observations": names.observations,
        "seen_cost": _seen_cost(metadata.seen_cost, value.size, max_entries),
    }
    if "reward" in arrays:
        if metadata.units is not None:
            raise InvalidModelError("units go with costs in [0, 1]; a reward is in your own units")
        return Setting.from_rewards(observation, value, initial, first, **named)
    units = Units(**msgspec.structs.asdict(metadata.units)) if metadata.units else ""
    return Setting(observation, value, initial, first, units=units, **named)
