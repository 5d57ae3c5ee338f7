"""Plans as the bytes of a file: an archive of arrays with words in JSON among them, without pickles."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from ..errors import ParseError
from ..files.archives import pack, unpack
from ..model import Units
from .loop import Round
from .lower import LowerCertificate
from .plans import MEMORY, Plan
from .upper import Controller

_VERSION = 1


def plan_to_bytes(plan: Plan) -> bytes:
    """The plan with its certificates."""
    words = msgspec.json.encode(
        {
            "version": _VERSION,
            "status": plan.status,
            "bounds": [plan.lower_cost, plan.upper_cost],
            "start": plan.controller.start,
            "states": list(plan.states),
            "n_states": plan.n_states,
            "units": [plan.units.low, plan.units.high, plan.units.kind, plan.units.name],
            "actions": list(plan.actions),
            "fingerprint": plan.fingerprint,
            "rounds": [[getattr(r, name) for name in Round.__dataclass_fields__] for r in plan.rounds],
        }
    )
    arrays: dict[str, Any] = {
        "words": np.frombuffer(words, np.uint8),
        "node_actions": plan.controller.actions,
        "node_successors": plan.controller.successors,
        "node_vectors": plan.controller.vectors,
        "node_gains": plan.controller.gains,
        "points": plan.grid.points,
        "values": plan.grid.values,
        "basis": plan.grid.basis,
        "weights": plan.grid.weights,
        "parents": plan.grid.parents,
        "gains": plan.grid.gains,
    }
    return pack(arrays)


def plan_from_bytes(data: bytes, name: str) -> Plan:
    """The plan in these bytes; `name` is for errors. Raises `ParseError` where they hold none."""
    arrays = unpack(data, name, int(MEMORY))
    try:
        words: dict[str, Any] = msgspec.json.decode(arrays["words"].tobytes())
        if words["version"] != _VERSION:
            raise ParseError(f"a plan of version {words['version']}, not {_VERSION}", path=name)
        lower, upper = words["bounds"]
        return Plan(
            words["status"],
            lower,
            upper,
            Controller(
                arrays["node_actions"].astype(np.int64),
                arrays["node_successors"].astype(np.int64),
                arrays["node_vectors"].astype(np.float64),
                upper,
                words["start"],
                arrays.get("node_gains"),
            ),
            LowerCertificate(
                lower,
                arrays["points"],
                arrays["values"],
                arrays["basis"],
                arrays["weights"],
                arrays["parents"],
                arrays.get("gains"),
            ),
            tuple(Round(*row) for row in words["rounds"]),
            tuple(words["states"]),
            words["n_states"],
            Units(*words["units"]),
            tuple(words["actions"]),
            words["fingerprint"],
        )
    except ParseError:
        raise
    except (KeyError, ValueError, TypeError, msgspec.DecodeError) as error:
        raise ParseError(f"not a saved plan: {error!r}", path=name) from None
