"""Load what the first readings would otherwise wait for."""

from __future__ import annotations

import logging

from .._numba.jit import GROUPS
from ..errors import PSRLError
from .engine import Engine, FleetMaker
from .events import READING, Event, RefusedError, json_text, time_text

_log = logging.getLogger("psrl_pomdp.live")
_STEPS = 3


def load_compiled_code() -> bool:
    """Run compiled code from now on where it is on the disk; else let another process compile it.

    Until that is done functions run interpreted, with the same results. Returns whether code is loaded.
    """
    for group in GROUPS:
        group.hurry(wait=False)
    return all(group.compiled for group in GROUPS)


def rehearse(engine: Engine, make_fleet: FleetMaker) -> None:
    """Take some lost readings of an invented unit in, with a copy of the state that is thrown away."""
    copy = Engine.from_bytes(engine.to_bytes(), make_fleet)
    unit, at = "rehearsal", time_text(0.0)
    while unit in copy.units:
        unit += "-"
    try:
        for step in range(1, _STEPS + 1):
            body = json_text({"step": step, "reading": None, **_taken(copy, step)})
            copy.apply(Event(1, READING, body, at, unit, step))
    except RefusedError:
        return  # a plant whose units are listed
    except PSRLError as error:
        _log.warning("the rehearsal failed: %s", error)


def _taken(engine: Engine, step: int) -> dict[str, int]:
    return {"taken": engine.fallback} if engine.plant.shadow and step > 1 else {}
