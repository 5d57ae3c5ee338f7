"""The promises of an agent, each tested where it can be: what `check_agent` runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..models import POMDP
from ..simulation.runs import simulate

Factory = Callable[[int], Any]

NOT_SAVED = "it has no to_bytes and from_bytes: a long run cannot be taken up after a crash"


def broken_promises(make: Factory, model: POMDP, steps: int) -> Iterator[str]:
    """In words: what an agent does that the protocol does not allow."""
    first = _played(make(1), _Answers(model), steps)
    for t, action in enumerate(first, start=1):
        if not _is_action(action, model):
            yield f"its action {action!r} at step {t} is not one of 0 to {model.n_actions - 1}"
            return
    if _played(make(1), _Answers(model), steps) != first:
        yield "the same seed and the same readings gave other actions"
    if len(_played(make(2), _Answers(model, lost=5), steps)) != steps:
        yield "it stops where readings are lost"
    yield from _kept(make, model, first)
    trace = simulate(model, make(3), steps, seed=4)
    if trace.horizon != steps:
        yield f"it was simulated for {trace.horizon} steps of {steps}"


def _kept(make: Factory, model: POMDP, wanted: list[int]) -> Iterator[str]:
    """Saved half way and loaded, it must go on as if nothing had been."""
    agent, half = make(1), len(wanted) // 2
    if not hasattr(agent, "to_bytes"):
        yield NOT_SAVED
        return
    world = _Answers(model)
    _played(agent, world, half)
    data, there = agent.to_bytes(), world.state()
    if _played(type(agent).from_bytes(data), world, len(wanted) - half) != wanted[half:]:
        yield "saved half way and loaded, it plays other actions"
    world.back(there)
    if _played(agent, world, len(wanted) - half) != wanted[half:]:
        yield "saving it changes what it plays"


def _played(agent: Any, world: _Answers, steps: int) -> list[int]:
    return [world.after(agent.act(world.reading)) for _ in range(steps)]


def _is_action(action: object, model: POMDP) -> bool:
    return isinstance(action, int | np.integer) and bool(0 <= action < model.n_actions)


class _Answers:
    """A world that answers an agent's own actions, so that no reading is impossible."""

    def __init__(self, model: POMDP, lost: int = 0) -> None:
        own = model.setting
        self.model, self.lost, self.time = model, lost, 0
        self.rng = np.random.default_rng(6)
        self.hidden = int(self.rng.choice(model.n_states, p=own.initial))
        self.reading: int | None = None
        if own.first_observation is not None:
            self.reading = int(self.rng.choice(model.n_observations, p=own.first_observation[self.hidden]))

    def after(self, action: int) -> int:
        """Take the action; what it was."""
        if _is_action(action, self.model):
            own, self.time = self.model.setting, self.time + 1
            self.hidden = int(self.rng.choice(own.n_states, p=self.model.transition[action, self.hidden]))
            reading = int(self.rng.choice(own.n_observations, p=own.observation[action, self.hidden]))
            self.reading = None if self.lost and self.time % self.lost == 0 else reading
        return action

    def state(self) -> tuple[Any, ...]:
        return self.rng.bit_generator.state, self.hidden, self.reading, self.time

    def back(self, state: tuple[Any, ...]) -> None:
        self.rng.bit_generator.state, self.hidden, self.reading, self.time = state
