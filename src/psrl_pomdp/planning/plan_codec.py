"""Plans as bytes: an archive of arrays, one of which holds all other fields as JSON; no pickles."""

from __future__ import annotations

from dataclasses import fields
from functools import singledispatch
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from .._serialization.archives import SizeLimit, pack
from .._serialization.contents import METADATA, VERSION, Contents, opened
from .._utils.arrays import checked_names
from ..errors import InvalidModelError, ParseError
from ..models import Kind, Units
from .bracket_codec import BracketFields, bracket_arrays, bracket_fields, bracket_from
from .certificate_checks import CertificateError, check_arrays
from .lower.certificate import LowerCertificate
from .lower.informed import InformedCertificate
from .plan_record import PlanRecord, Status
from .rounds import Round
from .upper.evaluation import Controller

Record = TypeVar("Record", bound=PlanRecord)

_MAX_VALUE = 1e100  # of relative values, so that their sums are finite
_MAX_NUMBER = 1 << 31  # numbers of points, nodes and states are below this

# A `Round` as JSON, which writes numbers that are not finite as null.
_Row: Any = msgspec.defstruct(
    "_Row",
    [(f.name, int if f.name in ("points", "nodes") else float | None) for f in fields(Round)],
    array_like=True,
)


class _Metadata(msgspec.Struct):
    """The fields of a plan that are not arrays."""

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
    blind: float = 1.0  # cost of the best constant action; files of version 0.1 lack it
    bracket: BracketFields | None = None  # of plans for densities
    discount: float = 1.0  # files of earlier versions lack it


def encoded(plan: PlanRecord) -> bytes:
    """Return the bytes of a file with the plan and its certificates."""
    if plan.estimate is not None:
        raise InvalidModelError("the bounds of this plan are estimates: it has no certificates to save")
    metadata = _Metadata(
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
        discount=plan.discount,
        bracket=None if plan.bracket is None else bracket_fields(plan.bracket),
        rounds=[_Row(*(getattr(r, f.name) for f in fields(Round))) for r in plan.rounds],
    )
    return pack(
        {
            METADATA: np.frombuffer(msgspec.json.encode(metadata), np.uint8),
            "node_actions": plan.controller.actions,
            "node_successors": plan.controller.successors,
            "node_vectors": plan.controller.vectors,
            "node_gains": plan.controller.gains,
            **_lower_arrays(plan.grid),
            **({} if plan.bracket is None else bracket_arrays(plan.bracket)),
        }
    )


@singledispatch
def _lower_arrays(certificate: object) -> dict[str, npt.NDArray[Any] | None]:
    """Return the arrays of a certificate of the lower bound by their names in a file."""
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


def decoded(kind: type[Record], data: bytes, name: str, limit: SizeLimit | None = None) -> Record:
    """Read a plan.

    Parameters
    ----------
    kind
        The class of the plan.
    data
        The bytes of a file.
    name
        Name of the file, for error messages.
    limit
        Bytes that the plan may take when it is unpacked, where it is part of another file.

    Returns
    -------
    PlanRecord
        A plan of that class, which can be played, printed and verified.

    Raises
    ------
    ParseError
        The bytes are no plan.
    """
    contents, metadata = opened(data, name, _Metadata, "a plan", limit)
    try:
        plan = kind(**_fields(contents, metadata))
        n_observations = plan.controller.successors.shape[1]
        if plan.bracket is not None:
            n_observations = plan.bracket.quantized_setting.n_joint_observations
        check_arrays(plan, len(plan.actions), n_observations, len(plan.states))
    except (InvalidModelError, CertificateError) as error:
        if isinstance(error, ParseError):
            raise
        raise ParseError(str(error), path=name) from None
    return plan


def _fields(contents: Contents, metadata: _Metadata) -> dict[str, Any]:
    """Return the fields of the plan with these arrays and metadata."""
    _check(contents, metadata)
    lower, upper = metadata.bounds
    units, actions, bracket = Units(*metadata.units), tuple(metadata.actions), None
    if metadata.bracket is not None:
        bracket = bracket_from(contents, metadata.bracket, units, len(actions), metadata.n_states)
    return {
        "status": metadata.status,
        "lower_cost": lower,
        "upper_cost": upper,
        "controller": _controller(contents, metadata),
        "grid": (_informed if "uses" in contents else _grid)(contents, metadata),
        "rounds": tuple(_round(row) for row in metadata.rounds),
        "states": tuple(metadata.states),
        "n_states": metadata.n_states,
        "units": units,
        "actions": actions,
        "fingerprint": metadata.fingerprint,
        "blind_cost": metadata.blind,
        "discount": metadata.discount,
        "bracket": bracket,
    }


def _check(contents: Contents, metadata: _Metadata) -> None:
    """Check the fields that are not arrays, and raise `ParseError` where one is out of its range."""
    states, (lower, upper) = metadata.states, metadata.bounds
    if not 0.0 <= lower <= upper <= 1.0:
        raise contents.refuse(f"bounds are {metadata.bounds}: expected from 0 to 1, the lower one first")
    if not 0.0 <= metadata.blind <= 1.0:
        raise contents.refuse(f"blind is {metadata.blind}: expected from 0 to 1")
    if not 0.0 < metadata.discount <= 1.0:
        raise contents.refuse(f"discount is {metadata.discount}: expected above 0 and at most 1")
    if metadata.discount < 1.0 and ("gains" in contents or "node_gains" in contents):
        raise contents.refuse("a plan with a discount has no gains")
    if (
        not states
        or states != sorted(set(states))
        or not 0 <= states[0] <= states[-1] < metadata.n_states < _MAX_NUMBER
    ):
        raise contents.refuse(f"states are no ascending list of numbers below {metadata.n_states}")
    if not metadata.actions:
        raise contents.refuse("actions is empty")
    checked_names("actions", metadata.actions, len(metadata.actions))


def _controller(contents: Contents, metadata: _Metadata) -> Controller:
    """Return the certificate of the upper bound."""
    n_states, n_actions = len(metadata.states), len(metadata.actions)
    actions = contents.whole("node_actions", (None,), 0, n_actions - 1)
    nodes = len(actions)
    if not 0 <= metadata.start < nodes:
        raise contents.refuse(f"start is {metadata.start}: it is none of {nodes} nodes")
    successors = contents.whole("node_successors", (nodes, None), 0, nodes - 1)
    vectors = contents.floats("node_vectors", (nodes, n_states), -_MAX_VALUE, _MAX_VALUE)
    gains = None
    if "node_gains" in contents:
        gains = contents.floats("node_gains", (nodes, n_states), -_MAX_VALUE, _MAX_VALUE)
    return Controller(actions, successors, vectors, metadata.bounds[1], metadata.start, gains)


def _informed(contents: Contents, metadata: _Metadata) -> InformedCertificate:
    """Return the certificate of the informed bound."""
    n_states, n_actions = len(metadata.states), len(metadata.actions)
    states = contents.whole("point_states", (None,), 0, n_states - 1)
    coordinates = contents.floats("point_coordinates", (len(states),), 0.0, 1.0 + 1e-9)
    ends = contents.whole("point_ends", (None,), 0, len(states))
    if (np.diff(ends, prepend=0, append=len(states)) < 0).any() or (ends[-1:] != len(states)).any():
        raise contents.refuse("point_ends do not ascend to the number of coordinates")
    if len(states) and not len(ends):
        raise contents.refuse("point_ends is empty")
    n = len(ends)
    uses = contents.whole("uses", (None, 4), 0, _MAX_NUMBER - 1)
    return InformedCertificate(
        metadata.bounds[0],
        contents.floats("values", (n_states + n, n_actions), -_MAX_VALUE, _MAX_VALUE),
        csr_array((coordinates, states, np.append(0, ends)), shape=(n, n_states)),
        uses,
        contents.floats("shares", (len(uses),), 0.0, _MAX_VALUE),
        contents.floats("gains", (n_states,), -_MAX_VALUE, _MAX_VALUE) if "gains" in contents else None,
    )


def _grid(contents: Contents, metadata: _Metadata) -> LowerCertificate:
    """Return the certificate of a grid."""
    values = contents.floats("values", (None,), -_MAX_VALUE, _MAX_VALUE)
    n, n_states, n_actions = len(values), len(metadata.states), len(metadata.actions)
    made_of = (n, n_actions, None, n_states)
    gains = contents.floats("gains", (n,), -_MAX_VALUE, _MAX_VALUE) if "gains" in contents else None
    return LowerCertificate(
        metadata.bounds[0],
        contents.floats("points", (n, n_states), 0.0, 1.0 + 1e-9),
        values,
        contents.whole("basis", made_of, 0, n - 1).astype(np.int32),
        contents.floats("weights", made_of, -_MAX_VALUE, _MAX_VALUE),
        contents.whole("parents", (n, 3), -1, _MAX_NUMBER - 1),
        gains,
    )


def _round(row: Any) -> Round:
    """Return the round of a row of JSON, in which null stands for a number that is not finite."""
    values = [getattr(row, f.name) for f in fields(Round)]
    finite: list[Any] = [np.nan if value is None else value for value in values]
    return Round(*finite)
