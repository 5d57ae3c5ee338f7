"""Models as plain arrays: `.json` for people and other languages, `.npz` for size and speed.

Both hold the same fields and come back equal to the last bit. A JSON file may also be written by hand:

    {"transition": [[[0.9, 0.1], [0, 1]]], "observation": [[1, 0], [0, 1]],
     "reward": [[1, -5]], "initial": [1, 0], "states": ["working", "broken"]}

`cost` or `reward` are then in your own numbers. Where `units` are given, as in files that we write, `cost`
is in [0, 1] and `units` map it back. Without `first_observation` the rule of `Setting` holds: the sensor,
where no action changes it.
"""

from __future__ import annotations

import io
from pathlib import PurePath
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from .._serialization.archives import Room, unpack
from .._utils.arrays import Names, checked_names, numbers
from ..errors import InvalidModelError, ParseError
from ..models import POMDP, SENSOR, Kind, Setting, Units
from .rows import RowRule

# Nested lists of any depth; their shape is checked where they become arrays.
Nested = list[Any]


class UnitsFile(msgspec.Struct, forbid_unknown_fields=True):
    low: float
    high: float
    kind: Kind
    name: str = ""


class Words(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Everything about a model that is not an array."""

    units: UnitsFile | None = None
    states: list[str] | None = None
    actions: list[str] | None = None
    observations: list[str] | None = None
    name: str = ""
    remarks: list[str] = []


class ModelFile(Words, forbid_unknown_fields=True, kw_only=True):
    """A JSON file: the words, and the arrays as nested lists."""

    transition: Nested
    observation: Nested
    initial: Nested
    cost: Nested | None = None
    reward: Nested | None = None
    first_observation: Nested | msgspec.UnsetType | None = msgspec.UNSET


ARRAYS = ("transition", "observation", "initial", "cost", "reward", "first_observation")
_TABLES = 3  # as many times the largest array have room in a file: kernel, sensor, and all the rest
_REQUIRED = ("transition", "observation", "initial")


def write_json(model: POMDP) -> bytes:
    """The model as indented JSON; numbers have as many digits as tell them apart."""
    arrays = {name: array.tolist() for name, array in _arrays(model).items()}
    arrays.setdefault("first_observation", None)
    return msgspec.json.format(msgspec.json.encode(_words(model) | arrays), indent=1)


def read_json(data: bytes, path: str = "", *, max_entries: int, rows: RowRule | None = None) -> POMDP:
    """The model in a JSON file; `max_entries` bounds every array."""
    try:
        file = msgspec.json.decode(data, type=ModelFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"not a model: {error}", path=path) from None
    arrays = {name: value for name in ARRAYS if (value := getattr(file, name)) not in (None, msgspec.UNSET)}
    silent = file.first_observation is msgspec.UNSET
    return _build(file, arrays, None if not silent else SENSOR, path, max_entries, rows)


def write_npz(model: POMDP) -> bytes:
    """The model as a compressed archive of arrays, without pickles."""
    words = np.frombuffer(msgspec.json.encode(_words(model)), dtype=np.uint8)
    buffer = io.BytesIO()
    arrays = {"first_observation": np.zeros((0, 0))} | _arrays(model)  # an empty one says that none is read
    np.savez_compressed(buffer, words=words, allow_pickle=False, **arrays)
    return buffer.getvalue()


def read_npz(data: bytes, path: str = "", *, max_entries: int, rows: RowRule | None = None) -> POMDP:
    """The model in an archive of arrays; members too large for `max_entries` are not unpacked."""
    found = unpack(data, path, Room(_TABLES * (8 * max_entries + 4096)))
    try:
        spoken = found.pop("words", np.zeros(0, np.uint8)).tobytes()
        words = msgspec.json.decode(spoken or b"{}", type=Words)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ParseError(f"not a model: {error}", path=path) from None
    unknown = set(found) - set(ARRAYS)
    if unknown:
        raise ParseError(f"unknown array {min(unknown)!r}; known are {', '.join(ARRAYS)}", path=path)
    first = found.get("first_observation")
    if first is not None and first.size == 0:
        del found["first_observation"]
    return _build(words, found, SENSOR if first is None else None, path, max_entries, rows)


def _words(model: POMDP) -> dict[str, Any]:
    names, units = model.setting.names, model.setting.units
    words = {
        "name": model.name,
        "remarks": list(model.remarks),
        "units": {"low": units.low, "high": units.high, "kind": units.kind, "name": units.name},
        "states": names.states,
        "actions": names.actions,
        "observations": names.observations,
    }
    return {key: value for key, value in words.items() if value}


def _arrays(model: POMDP) -> dict[str, npt.NDArray[np.float64]]:
    setting = model.setting
    arrays = {
        "initial": setting.initial,
        "cost": setting.cost,
        "observation": setting.observation,
        "transition": model.transition,
    }
    if setting.first_observation is not None:
        arrays["first_observation"] = setting.first_observation
    return arrays


def _build(
    words: Words, arrays: dict[str, Any], silent: Any, path: str, max_entries: int, rows: RowRule | None
) -> POMDP:
    """The model; `silent` is what the absence of `first_observation` means."""
    rule = rows or RowRule()
    try:
        for name in _REQUIRED:
            if name not in arrays:
                raise InvalidModelError(f"{name} is missing")
        if ("cost" in arrays) == ("reward" in arrays):
            raise InvalidModelError("one of cost and reward is wanted")
        setting = _setting(words, arrays, silent, max_entries, rule)
        transition = numbers("transition", arrays["transition"], "ast")
        kernel = rule.distributions("transition", transition, "ast", setting.names)
        name = words.name or PurePath(path).stem
        return POMDP(setting, kernel, name, [*words.remarks, *rule.remarks])
    except (InvalidModelError, IndexError, OverflowError) as error:
        raise ParseError(str(error), path=path) from None


def _setting(words: Words, arrays: dict[str, Any], silent: Any, max_entries: int, rule: RowRule) -> Setting:
    value = numbers("cost or reward", arrays["cost" if "cost" in arrays else "reward"], "as")
    given = {
        "observation": numbers("observation", arrays["observation"], "aso|so"),
        "initial": numbers("initial", arrays["initial"], "s"),
    }
    if "first_observation" in arrays:
        given["first_observation"] = numbers("first_observation", arrays["first_observation"], "so")
    n_readings = given["observation"].shape[-1]
    if value.shape[0] * value.shape[1] * max(value.shape[1], n_readings) > max_entries:
        raise InvalidModelError(f"too large: the limit is {max_entries} numbers in an array")
    names = Names(
        checked_names("states", words.states, value.shape[1]),
        checked_names("actions", words.actions, value.shape[0]),
        checked_names("observations", words.observations, n_readings),
    )
    axes = {"observation": "aso"[-given["observation"].ndim :], "initial": "s", "first_observation": "so"}
    rows = {name: rule.distributions(name, array, axes[name], names) for name, array in given.items()}
    first = rows.get("first_observation", silent)
    named: dict[str, Any] = {
        "states": names.states,
        "actions": names.actions,
        "observations": names.observations,
    }
    if "reward" in arrays:
        if words.units is not None:
            raise InvalidModelError("units go with costs in [0, 1]; a reward is in your own numbers")
        return Setting.from_rewards(rows["observation"], value, rows["initial"], first, **named)
    units = Units(**msgspec.structs.asdict(words.units)) if words.units else ""
    return Setting(rows["observation"], value, rows["initial"], first, units=units, **named)
