"""Sensors as records of names, numbers and lists, for files.

A record has the name of the family and the arguments of its constructor:

    {"family": "gaussian", "means": [1.0, 0.0], "sds": [0.5, 0.5]}
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InvalidModelError, did_you_mean
from .base import ContinuousSensor
from .by_action import by_action
from .counts import NegativeBinomialSensor, PoissonSensor
from .gamma import ExponentialSensor, GammaSensor
from .gaussian import GaussianSensor, LogNormalSensor
from .mixture import MixtureSensor
from .multivariate import MultivariateGaussianSensor
from .parameters import shortened
from .student import StudentSensor

FAMILIES: dict[str, Callable[..., ContinuousSensor]] = {
    "gaussian": GaussianSensor,
    "student": StudentSensor,
    "log-normal": LogNormalSensor,
    "gamma": GammaSensor,
    "exponential": ExponentialSensor,
    "poisson": PoissonSensor,
    "negative-binomial": NegativeBinomialSensor,
    "mixture": MixtureSensor,
    "multivariate-gaussian": MultivariateGaussianSensor,
    "by-action": by_action,
}
_NESTED = {"components", "parts"}  # lists of sensors
_DEEPEST = 4  # sensors inside sensors


def to_record(sensor: ContinuousSensor) -> dict[str, Any]:
    """Return a sensor as a record.

    Raises
    ------
    InvalidModelError
        If the sensor contains code, or is of a class that is not in `FAMILIES`.
    """
    parameters = sensor.parameters()
    if sensor.family not in FAMILIES:
        raise InvalidModelError(f"files have no family {sensor.family!r}; they have {', '.join(FAMILIES)}")
    return {"family": sensor.family} | {name: _plain(value) for name, value in parameters.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, ContinuousSensor):
        return to_record(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def from_record(record: object, name: str = "sensor", *, max_entries: int = 5_000_000) -> ContinuousSensor:
    """Return the sensor that a record describes.

    Parameters
    ----------
    record
        A mapping, such as a file contains.
    name
        What error messages call the record.
    max_entries
        The most numbers in an array.

    Raises
    ------
    InvalidModelError
        If the record is no sensor. The message names the field.
    """
    _check_size(record, name, max_entries)
    return _sensor(record, name, _DEEPEST)


def _sensor(record: object, name: str, depth: int) -> ContinuousSensor:
    if not isinstance(record, dict):
        raise InvalidModelError(f"{name} is {shortened(record)}, not an object with the field family")
    if depth == 0:
        raise InvalidModelError(
            f"{name} is nested too deeply: the limit is {_DEEPEST} sensors inside sensors"
        )
    family = record.get("family")
    if not isinstance(family, str) or family not in FAMILIES:
        hint = did_you_mean(family, FAMILIES) if isinstance(family, str) else ""
        raise InvalidModelError(
            f"{name} has the family {shortened(family)}{hint}; known are {', '.join(FAMILIES)}"
        )
    build = FAMILIES[family]
    known = inspect.signature(build).parameters
    given = {key: value for key, value in record.items() if key != "family"}
    for key in given:
        if key not in known:
            hint = did_you_mean(str(key), known)
            raise InvalidModelError(f"{name} of the family {family} has no field {shortened(key)}{hint}")
    for key, parameter in known.items():
        if key not in given and parameter.default is parameter.empty:
            raise InvalidModelError(f"{name} of the family {family} lacks the field {key}")
    for key in _NESTED & given.keys():
        parts = given[key]
        if not isinstance(parts, list):
            raise InvalidModelError(f"{name}.{key} is {shortened(parts)}, not a list of sensors")
        given[key] = [
            None if part is None else _sensor(part, f"{name}.{key}[{i}]", depth - 1)
            for i, part in enumerate(parts)
        ]
    try:
        return build(**given)
    except InvalidModelError as error:
        raise InvalidModelError(f"{name}: {error}") from None


def _check_size(record: object, name: str, max_entries: int) -> None:
    """Refuse a record whose arrays would have more than `max_entries` numbers, before they are made."""
    entries, left = 0, [record]
    while left:
        value = left.pop()
        if isinstance(value, dict | list):
            left += value.values() if isinstance(value, dict) else value
            if isinstance(value, dict) and "covariances" in value:
                # One matrix may be meant for all states.
                entries += _length(value.get("means"), 3) * _width(value["covariances"])
        else:
            entries += 1
        if entries > max_entries:
            raise InvalidModelError(f"{name} is too large: the limit is {max_entries} numbers in an array")


def _length(value: object, depth: int) -> int:
    """Return the number of entries of nested lists."""
    if not isinstance(value, list) or depth == 0:
        return 1
    return sum(_length(each, depth - 1) for each in value)


def _width(value: object) -> int:
    """Return the length of the innermost of the first lists."""
    while isinstance(value, list) and value and isinstance(value[0], list):
        value = value[0]
    return len(value) if isinstance(value, list) else 1
