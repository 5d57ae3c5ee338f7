"""Write Cassandra's `.pomdp` format, such that reading the file returns the same model.

Probabilities are written with enough digits to be read back exactly. Costs or rewards are written in the
user's units with the fewest digits that scale back to the same cost. (Rarely no number does, and the last bit
of a scaled cost changes.) Fields that the format lacks are written as comments that `reader` understands;
where that is impossible, an error names the field, so that no information is lost silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from ..._utils.arrays import Array
from ...errors import InvalidModelError
from ...models import POMDP, Setting, Units
from ..sensor_fields import refuse_sensor
from .tokens import KEYWORDS, SHORTHANDS

# Names that every program for this format accepts.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_ELSEWHERE = "save as .json or .npz, which can represent every model"


def write_pomdp(model: POMDP) -> str:
    """Return the text of a `.pomdp` file for this model."""
    refuse_sensor(model.setting, ".pomdp")
    return "\n".join(_lines(model)) + "\n"


def _lines(model: POMDP) -> Iterator[str]:
    setting = model.setting
    if setting.sensor_depends_on_previous:
        raise InvalidModelError(
            "the observation depends on the state before the action, which .pomdp files cannot represent "
            f"(their O has an action, the state after it and an observation): {_ELSEWHERE}"
        )
    if setting.seen_cost is not None:
        raise InvalidModelError(f"costs are seen, which .pomdp files cannot represent: {_ELSEWHERE}")
    if model.name:
        yield f"# {' '.join(model.name.split())}"
    if setting.units.name:
        yield f"#! psrl-pomdp units: {_one_line('units', setting.units.name)}"
    if Units.spanning(setting.own_cost, setting.units.kind, setting.units.name) != setting.units:
        yield f"#! psrl-pomdp scale: {_decimal(setting.units.low)} {_decimal(setting.units.high)}"
    if _observes_first(setting):
        yield "#! psrl-pomdp first-reading: sensor"
    yield f"discount: {_decimal(1.0 if model.discount is None else model.discount)}"
    yield f"values: {setting.units.kind}"
    yield f"states: {_declared(setting.names.states, setting.n_states)}"
    yield f"actions: {_declared(setting.names.actions, setting.n_actions)}"
    yield f"observations: {_declared(setting.names.observations, setting.n_observations)}"
    yield f"start: {_row(setting.initial)}"
    for a, action in enumerate(setting.actions):
        yield from _matrix(f"T: {action}", model.transition[a])
    if setting.sensor_depends_on_action:
        for a, action in enumerate(setting.actions):
            yield from _matrix(f"O: {action}", setting.observation[a])
    else:
        yield from _matrix("O: *", setting.observation[0])
    yield ""
    for a, action in enumerate(setting.actions):
        for s, state in enumerate(setting.states):
            value = _own_value(float(setting.cost[a, s]), setting.units)
            yield f"R: {action} : {state} : * : * {_decimal(value)}"


def _observes_first(setting: Setting) -> bool:
    """Return whether the sensor is observed before the first action."""
    first = setting.first_observation
    if first is None:
        return False
    if setting.sensor_depends_on_action or (first != setting.observation[0]).any():
        raise InvalidModelError(
            "first_observation differs from the sensor, which .pomdp files cannot represent: " + _ELSEWHERE
        )
    return True


def _declared(names: tuple[str, ...] | None, count: int) -> str:
    """Return the declaration of a set: its names, or its size."""
    if names is None:
        return str(count)
    for name in names:
        if not _NAME.fullmatch(name) or name in (*KEYWORDS, *SHORTHANDS):
            raise InvalidModelError(f"the name {name!r} cannot stand in a .pomdp file: {_ELSEWHERE}")
    return " ".join(names)


def _one_line(what: str, text: str) -> str:
    if text != " ".join(text.split()):
        raise InvalidModelError(f"{what} {text!r} does not fit on a line of a file: {_ELSEWHERE}")
    return text


def _matrix(head: str, rows: Array) -> Iterator[str]:
    yield ""
    yield head
    n_rows, n_columns = rows.shape
    if n_rows == n_columns and (rows == np.eye(n_rows)).all():
        yield "identity"
    elif (rows == 1.0 / n_columns).all():
        yield "uniform"
    else:
        yield from map(_row, rows)


def _row(row: Array) -> str:
    return " ".join(map(_decimal, row.tolist()))


def _decimal(value: float) -> str:
    """Return the shortest decimal that reads back as `value`, with a point and without an exponent."""
    return np.format_float_positional(value, unique=True, trim="0")


def _own_value(cost: float, units: Units) -> float:
    """Return a cost in the user's units: the shortest number near it that scales back to it exactly."""
    value = float(units.from_scaled(cost))
    if cost in (0.0, 1.0):  # the reader computes the scale from the extreme values: they keep all digits
        return value
    near = [float(f"{value:.{digits}g}") for digits in (12, 15, 16)]
    near += [value + ulps * float(np.spacing(value)) for ulps in (0, 1, -1, 2, -2, 3, -3)]
    return next((candidate for candidate in near if units.to_scaled(candidate) == cost), value)
