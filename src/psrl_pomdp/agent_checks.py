"""The promises of an agent, each tested where it can be: what `check_agent` runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .model import POMDP
from .simulation import simulate

Factory = Callable[[int], Any]


def broken_promises(make: Factory, model: POMDP, steps: int) -> Iterator[str]:
    """In words: what an agent does that the protocol does not allow."""
    readings = _readings(model, steps)
    first = _played(make(1), readings)
    for t, action in enumerate(first, start=1):
        if not (isinstance(action, int | np.integer) and 0 <= action < model.n_actions):
            yield f"its action {action!r} at step {t} is not one of 0 to {model.n_actions - 1}"
            return
    if _played(make(1), readings) != first:
        yield "the same seed and the same readings gave other actions"
    lost = [reading if i % 5 else (readings[0] if i == 0 else None) for i, reading in enumerate(readings)]
    if len(_played(make(2), lost)) != steps:
        yield "it stops where readings are lost"
    yield from _kept(make, readings, first)
    trace = simulate(model, make(3), steps, seed=4)
    if trace.horizon != steps:
        yield f"it was simulated for {trace.horizon} steps of {steps}"


def _kept(make: Factory, readings: list[int | None], wanted: list[int]) -> Iterator[str]:
    """Saved half way and loaded, it must go on as if nothing had been."""
    agent = make(1)
    if not hasattr(agent, "to_bytes"):
        yield "it has no to_bytes and from_bytes: a long run cannot be taken up after a crash"
        return
    half = len(readings) // 2
    _played(agent, readings[:half])
    data = agent.to_bytes()
    if _played(type(agent).from_bytes(data), readings[half:]) != wanted[half:]:
        yield "saved half way and loaded, it plays other actions"
    if _played(agent, readings[half:]) != wanted[half:]:
        yield "saving it changes what it plays"


def _played(agent: Any, readings: list[int | None]) -> list[int]:
    return [agent.act(reading) for reading in readings]


def _readings(model: POMDP, steps: int) -> list[int | None]:
    """Readings that every kernel of the model's support allows: those of a run with uniform actions."""
    from .baselines import RandomAgent

    trace = simulate(model, RandomAgent(model.n_actions, 5), steps, seed=6)
    return [trace.first_reading, *trace.readings[:-1].tolist()]
