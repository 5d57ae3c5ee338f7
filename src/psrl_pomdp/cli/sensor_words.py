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
        if name not in ("components", "parts"):
            by_action = _depth(value) > _DEPTHS.get((record["family"], name), 1)
            lines.append(
                f"{name} {_by_action(value, states, actions) if by_action else _by_state(value, states)}"
            )
            continue
        for i, part in enumerate(value):
            called = f"after {actions[i]}" if name == "parts" else str(i + 1)
            inner = ["none"]
            if part is not None:
                inner = [part["family"], *parameters_in_words(part, states, actions)]
            lines.append(f"{called}: {', '.join(inner)}")
    return lines


# The depth of lists of parameters that do not depend on the action, where it is not 1.
_DEPTHS = {
    ("multivariate-gaussian", "means"): 2,
    ("multivariate-gaussian", "covariances"): 3,
    ("mixture", "weights"): 2,
}


def _depth(value: Any) -> int:
    return 1 + _depth(value[0]) if isinstance(value, list) else 0


def _by_action(value: list[Any], states: list[str], actions: list[str]) -> str:
    rows = zip(actions, value, strict=True)
    return "; ".join(f"after {action}: {_by_state(row, states)}" for action, row in rows)


def _by_state(value: list[Any], states: list[str]) -> str:
    named = states != [str(i) for i in range(len(states))]
    each = [f"{_in_words(one)} ({state})" if named else _in_words(one)
            for one, state in zip(value, states, strict=True)]  # fmt: skip
    return _shortened(each)


def _in_words(value: Any) -> str:
    """Return a number, or a list of numbers in parentheses."""
    return f"({_shortened([_in_words(one) for one in value])})" if isinstance(value, list) else f"{value:g}"


def _shortened(words: list[str]) -> str:
    more = len(words) - _MOST_LISTED
    return ", ".join(words[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
