"""The fields of model files that describe observations that are real numbers, counts or vectors."""

from __future__ import annotations

from typing import Any

from ..errors import InvalidModelError
from ..models import Setting
from ..sensors.base import ContinuousSensor
from ..sensors.records import to_record


def sensor_fields(setting: Setting) -> dict[str, Any]:
    """Return the fields `sensor` and `first_sensor` of a file, or none for a table of observations."""
    if setting.is_finite:
        return {}
    first = setting.first_sensor
    return {"sensor": _record(setting.sensor), "first_sensor": None if first is None else _record(first)}


def _record(sensor: Any) -> dict[str, Any]:
    assert isinstance(sensor, ContinuousSensor)
    return to_record(sensor)


def refuse_sensor(setting: Setting, ending: str) -> None:
    """Raise `InvalidModelError` for a format that represents only tables of observations."""
    if not setting.is_finite:
        raise InvalidModelError(
            f"the model has {setting.sensor.described()}, which {ending} files cannot represent: save it as "
            ".json or .npz, or replace its setting by setting.quantized(K) with K classes of observations"
        )
