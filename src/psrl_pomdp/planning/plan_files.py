"""Plans as the bytes of a file: an archive of arrays with words in JSON among them, without pickles."""

from __future__ import annotations

from dataclasses import fields
from functools import singledispatch
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from .._serialization.archives import Room, pack
from .._serialization.contents import VERSION, Contents, opened
from .._utils.arrays import checked_names
from ..errors import InvalidModelError, ParseError
from ..models.model import Kind, Units
from .bound_pair import Round
from .lower.grid import LowerCertificate
from .lower.informed import InformedCertificate
from .solution import Plan, Status
from .upper.controllers import Controller
from .verification import CertificateError, check_arrays

_LARGEST = 1e100  # of relative values: their sums are finite
_INT = 1 << 31  # numbers of points, nodes and states are below this

# A row of `Round` as JSON, which has no word for a number that is not finite.
_Row: Any = msgspec.defstruct(
    "_Row",
    [(f.name, int if f.name in ("points", "nodes") else float | None) for f in fields(Round)],
    array_like=True,
)


class _Words(msgspec.Struct):
    """Everything about a plan that is not an array."""

    status: Status
    bounds: tuple[float, float]
    start: int
    states: list[int]
    n_states: int
    units: tuple[float, float, Kind, str]
    actions: list[str]
    fingerprint: str
    rounds: list[_Row]
    version: int
    blind: float = 1.0  # which version 0.1 did not keep


def plan_to_bytes(plan: Plan) -> bytes:
    """The plan with its certificates."""
    words = _Words(
        version=VERSION,
        status=plan.status,
        bounds=(plan.lower_cost, plan.upper_cost),
        start=plan.controller.start,
        states=list(plan.states),
        n_states=plan.n_states,
        units=(plan.units.low, plan.units.high, plan.units.kind, plan.units.name),
        actions=list(plan.actions),
        fingerprint=plan.fingerprint,
        blind=plan.blind_cost,
        rounds=[_Row(*(getattr(r, f.name) for f in fields(Round))) for r in plan.rounds],
    )
    return pack(
        {
            "words": np.frombuffer(msgspec.json.encode(words), np.uint8),
            "node_actions": plan.controller.actions,
            "node_successors": plan.controller.successors,
            "node_vectors": plan.controller.vectors,
            "node_gains": plan.controller.gains,
            **_lower_arrays(plan.grid),
        }
    )


@singledispatch
def _lower_arrays(certificate: object) -> dict[str, npt.NDArray[Any] | None]:
    """What proves the lower bound, as arrays by name."""
    raise TypeError(f"a {type(certificate).__name__} has no form in a file")


@_lower_arrays.register
def _(grid: LowerCertificate) -> dict[str, npt.NDArray[Any] | None]:
    return {
        "points": grid.points,
        "values": grid.values,
        "basis": grid.basis,
        "weights": grid.weights,
        "parents": grid.parents,
        "gains": grid.gains,
    }


@_lower_arrays.register
def _(informed: InformedCertificate) -> dict[str, npt.NDArray[Any] | None]:
    points = informed.points
    return {
        "values": informed.values,
        "point_ends": points.indptr[1:].astype(np.int64),
        "point_states": points.indices.astype(np.int64),
        "point_coordinates": points.data,
        "uses": informed.uses,
        "shares": informed.shares,
        "gains": informed.gains,
    }


def plan_from_bytes(data: bytes, name: str, room: Room | None = None) -> Plan:
    """The plan in these bytes; `name` is for errors, `room` what a file around them leaves to unpack to.

    Raises `ParseError` where they hold none: whatever is returned can be played, printed and verified.
    """
    contents, words = opened(data, name, _Words, "a plan", room)
    try:
        plan = _plan(contents, words)
        check_arrays(plan, len(plan.actions), plan.controller.successors.shape[1], len(plan.states))
    except (InvalidModelError, CertificateError) as error:
        if isinstance(error, ParseError):
            raise
        raise ParseError(str(error), path=name) from None
    return plan


def _plan(contents: Contents, words: _Words) -> Plan:
    _check(contents, words)
    lower, upper = words.bounds
    return Plan(
        status=words.status,
        lower_cost=lower,
        upper_cost=upper,
        controller=_controller(contents, words),
        grid=(_informed if "uses" in contents else _grid)(contents, words),
        rounds=tuple(_round(row) for row in words.rounds),
        states=tuple(words.states),
        n_states=words.n_states,
        units=Units(*words.units),
        actions=tuple(words.actions),
        fingerprint=words.fingerprint,
        blind_cost=words.blind,
    )


def _check(contents: Contents, words: _Words) -> None:
    """What the words say of themselves."""
    states, (lower, upper) = words.states, words.bounds
    if not 0.0 <= lower <= upper <= 1.0:
        raise contents.refuse(f"bounds are {words.bounds}: wanted from 0 to 1, the lower one first")
    if not 0.0 <= words.blind <= 1.0:
        raise contents.refuse(f"blind is {words.blind}: wanted from 0 to 1")
    if (
        not states
        or states != sorted(set(states))
        or not 0 <= states[0] <= states[-1] < words.n_states < _INT
    ):
        raise contents.refuse(f"states are no ascending list of numbers below {words.n_states}")
    if not words.actions:
        raise contents.refuse("actions is empty")
    checked_names("actions", words.actions, len(words.actions))


def _controller(contents: Contents, words: _Words) -> Controller:
    n_states, n_actions = len(words.states), len(words.actions)
    actions = contents.whole("node_actions", (None,), 0, n_actions - 1)
    nodes = len(actions)
    if not 0 <= words.start < nodes:
        raise contents.refuse(f"start is {words.start}: it is none of {nodes} nodes")
    successors = contents.whole("node_successors", (nodes, None), 0, nodes - 1)
    vectors = contents.floats("node_vectors", (nodes, n_states), -_LARGEST, _LARGEST)
    gains = None
    if "node_gains" in contents:
        gains = contents.floats("node_gains", (nodes, n_states), -_LARGEST, _LARGEST)
    return Controller(actions, successors, vectors, words.bounds[1], words.start, gains)


def _informed(contents: Contents, words: _Words) -> InformedCertificate:
    n_states, n_actions = len(words.states), len(words.actions)
    states = contents.whole("point_states", (None,), 0, n_states - 1)
    coordinates = contents.floats("point_coordinates", (len(states),), 0.0, 1.0 + 1e-9)
    ends = contents.whole("point_ends", (None,), 0, len(states))
    if (np.diff(ends, prepend=0, append=len(states)) < 0).any() or (ends[-1:] != len(states)).any():
        raise contents.refuse("point_ends do not ascend to the number of coordinates")
    if len(states) and not len(ends):
        raise contents.refuse("point_ends is empty")
    n = len(ends)
    uses = contents.whole("uses", (None, 4), 0, _INT - 1)
    return InformedCertificate(
        words.bounds[0],
        contents.floats("values", (n_states + n, n_actions), -_LARGEST, _LARGEST),
        csr_array((coordinates, states, np.append(0, ends)), shape=(n, n_states)),
        uses,
        contents.floats("shares", (len(uses),), 0.0, _LARGEST),
        contents.floats("gains", (n_states,), -_LARGEST, _LARGEST) if "gains" in contents else None,
    )


def _grid(contents: Contents, words: _Words) -> LowerCertificate:
    values = contents.floats("values", (None,), -_LARGEST, _LARGEST)
    n, n_states, n_actions = len(values), len(words.states), len(words.actions)
    made_of = (n, n_actions, None, n_states)
    gains = contents.floats("gains", (n,), -_LARGEST, _LARGEST) if "gains" in contents else None
    return LowerCertificate(
        words.bounds[0],
        contents.floats("points", (n, n_states), 0.0, 1.0 + 1e-9),
        values,
        contents.whole("basis", made_of, 0, n - 1).astype(np.int32),
        contents.floats("weights", made_of, -_LARGEST, _LARGEST),
        contents.whole("parents", (n, 3), -1, _INT - 1),
        gains,
    )


def _round(row: Any) -> Round:
    """The round of a row; JSON has no word for numbers that are not finite."""
    values = [getattr(row, f.name) for f in fields(Round)]
    finite: list[Any] = [np.nan if value is None else value for value in values]
    return Round(*finite)
