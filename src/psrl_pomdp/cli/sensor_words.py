"""Observation models in words, for the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..models import Setting
    from ..sensors.base import SensorBase

_MOST_LISTED = 12


def sensor_facts(setting: Setting, *, first: bool = False) -> dict[str, Any]:
    """Return what is known about the observation model of a setting, as plain data."""
    from ..models.stand_in import finite_stand_in

    sensor = setting.first_sensor if first else setting.sensor
    assert sensor is not None
    facts = {
        "is_finite": sensor.is_finite,
        "described": sensor.described(),
        "parameters": _parameters(sensor),
    }
    if not sensor.is_finite:
        facts["classes"] = finite_stand_in(setting).n_observations
    return facts


def _parameters(sensor: SensorBase) -> dict[str, Any] | None:
    """Return the record of a sensor; None for a table, and for a sensor that contains code."""
    from ..errors import InvalidModelError
    from ..sensors.base import ContinuousSensor
    from ..sensors.records import to_record

    if not isinstance(sensor, ContinuousSensor):
        return None
    try:
        return to_record(sensor)
    except InvalidModelError:
        return None


def parameters_in_words(record: dict[str, Any] | None, states: list[str], actions: list[str]) -> list[str]:
    """Return a line for each parameter, or for each part of a composed sensor."""
    if record is None:
        return ["given by code"]
    lines = []
    for name, value in record.items():
        if name == "family":
            continue
        if name in ("components", "parts"):
            for i, part in enumerate(value):
                called = actions[i] if name == "parts" else f"{i + 1}"
                words = (
                    ["none"]
                    if part is None
                    else [part["family"], *parameters_in_words(part, states, actions)]
                )
                lines.append(f"{'after ' * (name == 'parts')}{called}: {', '.join(words)}")
        else:
            lines.append(f"{name} {_in_words(value, states, actions)}")
    return lines


def _in_words(value: Any, states: list[str], actions: list[str]) -> str:
    """Return numbers with the names of the states, if they are numbers by state."""
    if not isinstance(value, list):
        return f"{value:g}"
    if len(value) == len(actions) and isinstance(value[0], list) and len(value[0]) == len(states):
        return "; ".join(
            f"after {a}: {_in_words(row, states, [])}" for a, row in zip(actions, value, strict=True)
        )
    if len(value) > _MOST_LISTED:
        return f"{_in_words(value[:_MOST_LISTED], [], [])} and {len(value) - _MOST_LISTED} more"
    each = [_in_words(one, [], []) for one in value]
    if isinstance(value[0], list):
        each = [f"({one})" for one in each]
    if len(value) == len(states) and states != [str(i) for i in range(len(states))]:
        return ", ".join(f"{one} ({state})" for one, state in zip(each, states, strict=True))
    return ", ".join(each)
