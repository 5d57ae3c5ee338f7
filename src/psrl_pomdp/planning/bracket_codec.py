"""The finite sensors of a plan for a density as arrays of a file."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from .._serialization.contents import Contents
from .._utils.arrays import Array, frozen
from ..errors import InvalidModelError
from ..models import Setting, Units
from ..sensors.bracket import DilatedSensors, QuantizedSensors
from ..sensors.cells import Quantization
from ..sensors.costs import SeenCosts
from ..sensors.dilation import Dilation
from ..sensors.frames import Frames
from .sensor_bracket import SensorBracket

_MOST_DENSITIES = 1 << 16
_MAX_RATIO = 1e200


class BracketFields(msgspec.Struct):
    """The fields of a bracket that are not arrays."""

    densities: int  # one for all actions, or one for each
    first: Literal["none", "same", "own"]  # the density before the first action; "same" as that of action 0
    states: list[str] | None = None  # names
    actions: list[str] | None = None  # names


def bracket_fields(bracket: SensorBracket) -> BracketFields:
    """Return the fields of a bracket that are not arrays."""
    cells, hubs, names = bracket.cells, bracket.hubs, bracket.quantized_setting.names
    same = cells.first is cells.by_action[0] and hubs.first is hubs.by_action[0]
    return BracketFields(
        len(cells.by_action),
        "none" if cells.first is None else "same" if same else "own",
        None if names.states is None else list(names.states),
        None if names.actions is None else list(names.actions),
    )


def bracket_arrays(bracket: SensorBracket) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a bracket by their names in a file."""
    found: dict[str, npt.NDArray[Any]] = {
        "setting.cost": bracket.quantized_setting.cost,
        "setting.initial": bracket.quantized_setting.initial,
    }
    seen = bracket.quantized_setting.seen_cost
    if seen is not None:
        found |= {"setting.seen_values": seen.values, "setting.seen_probabilities": seen.probabilities}
        if seen.edges is not None:
            found["setting.seen_edges"] = seen.edges
    own = bracket_fields(bracket).first == "own"
    for name, cells in _named(bracket.cells.by_action, bracket.cells.first if own else None):
        found[f"cells.{name}.edges"] = cells.edges[1:-1]
        found[f"cells.{name}.table"] = cells.table
        found[f"cells.{name}.error"] = np.array([cells.error])
    for name, hubs in _named(bracket.hubs.by_action, bracket.hubs.first if own else None):
        found |= {f"hubs.{name}.{field}": array for field, array in _dilation_arrays(hubs).items()}
    return found


def _named(by_action: tuple[Any, ...], first: Any) -> list[tuple[str, Any]]:
    """Return the parts of a sensor with their names."""
    named = [(str(a), each) for a, each in enumerate(by_action)]
    return named if first is None else [*named, ("first", first)]


def _dilation_arrays(hubs: Dilation) -> dict[str, npt.NDArray[Any]]:
    return {
        "edges": hubs.edges[1:-1],
        "reference": hubs.frames.reference,
        "pivot": hubs.frames.pivot,
        "slope": hubs.frames.slope,
        "base": hubs.frames.base,
        "width": hubs.frames.width,
        "used": hubs.frames.used,
        "hubs": hubs.hubs,
        "corners": hubs.corners,
        "shares": hubs.shares,
        "table": hubs.table,
    }


def bracket_from(
    contents: Contents, fields: BracketFields, units: Units, n_actions: int, n_states: int
) -> SensorBracket:
    """Return the bracket in the arrays of a file. Raises `ParseError`."""
    if fields.densities not in (1, n_actions):
        raise contents.refuse(f"densities is {fields.densities}: expected 1 or {n_actions}")
    names = [*map(str, range(fields.densities))]
    cells = {name: _cells(contents, f"cells.{name}", n_states) for name in names}
    hubs = {name: _hubs(contents, f"hubs.{name}", n_states) for name in names}
    before, above = (cells["0"], hubs["0"]) if fields.first == "same" else (None, None)
    if fields.first == "own":
        before, above = _cells(contents, "cells.first", n_states), _hubs(contents, "hubs.first", n_states)
    quantized = QuantizedSensors(tuple(cells[name] for name in names), before)
    dilated = DilatedSensors(tuple(hubs[name] for name in names), above)
    cost = contents.floats("setting.cost", (n_actions, n_states), 0.0, 1.0)
    initial = contents.distributions("setting.initial", (n_states,))
    seen_cost = _seen_cost(contents, n_actions, n_states)
    try:
        settings = [
            Setting(
                each.table,
                cost,
                initial,
                each.first_table,
                units=units,
                seen_cost=seen_cost,
                states=fields.states,
                actions=fields.actions,
            )
            for each in (quantized, dilated)
        ]
    except InvalidModelError as error:
        raise contents.refuse(f"its setting is invalid: {error}") from None
    return SensorBracket(settings[0], settings[1], quantized, dilated)


def _seen_cost(contents: Contents, n_actions: int, n_states: int) -> SeenCosts | None:
    """Return the costs that are seen, if the file has any."""
    if "setting.seen_values" not in contents:
        return None
    values = contents.floats("setting.seen_values", (None,))
    shape = (n_actions, n_states, len(values))
    probabilities = contents.floats("setting.seen_probabilities", shape, 0.0, 1.0)
    has_edges = "setting.seen_edges" in contents
    edges = contents.floats("setting.seen_edges", (len(values) - 1,)) if has_edges else None
    try:
        return SeenCosts(values, probabilities, edges)
    except InvalidModelError as error:
        raise contents.refuse(f"its costs are invalid: {error}") from None


def _edges(contents: Contents, name: str, n_cells: int) -> Array:
    """Return edges with −inf before and +inf after those in the file."""
    inner = contents.floats(name, (n_cells - 1,))
    if not (np.diff(inner) > 0.0).all():
        raise contents.refuse(f"{name} does not increase")
    return frozen(np.concatenate([[-np.inf], inner, [np.inf]]))


def _cells(contents: Contents, name: str, n_states: int) -> Quantization:
    table = contents.distributions(f"{name}.table", (n_states, None), 1e-9)
    if not table.shape[1]:
        raise contents.refuse(f"{name}.table is empty")
    error = contents.floats(f"{name}.error", (1,), 0.0, 2.0)
    return Quantization(_edges(contents, f"{name}.edges", table.shape[1]), frozen(table), float(error[0]))


def _hubs(contents: Contents, name: str, n_states: int) -> Dilation:
    hubs = contents.floats(f"{name}.hubs", (None, n_states), 0.0, 1.0 + 1e-9)
    n_hubs = len(hubs)
    if n_hubs < n_states or (hubs[:n_states] != np.eye(n_states)).any():
        raise contents.refuse(f"{name}.hubs does not begin with the vertices")
    reference = contents.whole(f"{name}.reference", (None,), 0, n_states - 1)
    n = len(reference)
    if not n:
        raise contents.refuse(f"{name}.reference is empty")
    frames = Frames(
        reference,
        contents.whole(f"{name}.pivot", (n,), 0, n_states - 1),
        frozen(contents.floats(f"{name}.slope", (n, n_states), -_MAX_RATIO, _MAX_RATIO)),
        frozen(contents.floats(f"{name}.base", (n, n_states), -_MAX_RATIO, _MAX_RATIO)),
        frozen(contents.floats(f"{name}.width", (n, n_states), 0.0, _MAX_RATIO)),
        contents.flags(f"{name}.used", (n,)),
    )
    shape = (n, n_states, n_states)
    return Dilation(
        _edges(contents, f"{name}.edges", n),
        frames,
        frozen(hubs),
        contents.whole(f"{name}.corners", shape, 0, n_hubs - 1).astype(np.int32),
        frozen(contents.floats(f"{name}.shares", shape, 0.0, 1.0 + 1e-9)),
        frozen(contents.distributions(f"{name}.table", (n_states, n_hubs), 1e-9)),
    )
