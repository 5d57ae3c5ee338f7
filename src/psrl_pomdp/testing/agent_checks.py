"""Requirements on agents, which `check_agent` tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any

import numpy as np

from .._utils.integers import is_integer
from ..models import POMDP
from ..simulation.runs import simulate
from .observations import draw_first, draw_observation

Factory = Callable[[int], Any]

NOT_SAVED = "it has no to_bytes and from_bytes: a long run cannot be resumed after an interruption"


def agent_violations(make: Factory, model: POMDP, steps: int) -> Iterator[str]:
    """Yield one sentence for each violated requirement of the `Agent` protocol."""
    first = _play(make(1), _Environment(model), steps)
    for t, action in enumerate(first, start=1):
        if not _is_action(action, model):
            yield f"its action {action!r} at step {t} is not one of 0 to {model.n_actions - 1}"
            return
    if _play(make(1), _Environment(model), steps) != first:
        yield "the same seed and the same observations gave other actions"
    if len(_play(make(2), _Environment(model, missing_every=5), steps)) != steps:
        yield "it stops at missing observations"
    yield from _saving_violations(make, model, first)
    trace = simulate(model, make(3), steps, seed=4)
    if trace.horizon != steps:
        yield f"its simulation has {trace.horizon} steps instead of {steps}"


def _saving_violations(make: Factory, model: POMDP, expected: list[int]) -> Iterator[str]:
    """Check that an agent that is saved and loaded after half of the steps chooses the same actions."""
    agent, half = make(1), len(expected) // 2
    if not hasattr(agent, "to_bytes"):
        yield NOT_SAVED
        return
    world = _Environment(model)
    _play(agent, world, half)
    data, state = agent.to_bytes(), world.state()
    if _play(type(agent).from_bytes(data), world, len(expected) - half) != expected[half:]:
        yield "saved half way and loaded, it chooses other actions"
    world.restore(state)
    if _play(agent, world, len(expected) - half) != expected[half:]:
        yield "saving it changes its later actions"


def _play(agent: Any, world: _Environment, steps: int) -> list[int]:
    return [world.step(world.asked(agent)) for _ in range(steps)]


def _is_action(action: object, model: POMDP) -> bool:
    return is_integer(action, 0, model.n_actions - 1)


class _Environment:
    """A simulation that responds to the actions of an agent, so that no observation is impossible."""

    def __init__(self, model: POMDP, missing_every: int = 0) -> None:
        setting = model.setting
        self.model, self.missing_every, self.time = model, missing_every, 0
        self.rng = np.random.default_rng(6)
        self.hidden = int(self.rng.choice(model.n_states, p=setting.initial))
        self.observation: Any = None
        self.cost: float | None = None  # of the last action, if costs are seen
        if not setting.is_finite:
            if setting.has_first_observation:
                self.observation = draw_first(setting, self.hidden, self.rng)
        elif setting.first_observation is not None:
            first = setting.first_observation[self.hidden]
            self.observation = int(self.rng.choice(model.n_observations, p=first))

    def asked(self, agent: Any) -> int:
        """Return the agent's action; the cost of its last action is shown to an agent that takes it."""
        shown = self.cost is not None and "cost" in signature(agent.act).parameters
        action: int = agent.act(self.observation, cost=self.cost) if shown else agent.act(self.observation)
        return action

    def step(self, action: int) -> int:
        """Perform the action, if it is valid, and return it."""
        if _is_action(action, self.model):
            model, self.time = self.model, self.time + 1
            setting, before = model.setting, self.hidden
            seen = setting.seen_cost
            if seen is not None:
                paid = int(self.rng.choice(seen.n_values, p=seen.probabilities[action, before]))
                self.cost = float(seen.values[paid])
            self.hidden = int(self.rng.choice(model.n_states, p=model.transition[action, before]))
            observation = self._observed(action, before)
            is_missing = self.missing_every and self.time % self.missing_every == 0
            self.observation = None if is_missing else observation
        return action

    def _observed(self, action: int, before: int) -> Any:
        """Draw the observation after an action."""
        setting = self.model.setting
        if not setting.is_finite:
            return draw_observation(setting, action, self.hidden, self.rng)
        table = setting.observation[action]
        probabilities = table[before, self.hidden] if table.ndim == 3 else table[self.hidden]
        return int(self.rng.choice(self.model.n_observations, p=probabilities))

    def state(self) -> tuple[Any, ...]:
        """Return everything that `restore` needs."""
        return self.rng.bit_generator.state, self.hidden, self.observation, self.cost, self.time

    def restore(self, state: tuple[Any, ...]) -> None:
        """Go back to an earlier state."""
        self.rng.bit_generator.state, self.hidden, self.observation, self.cost, self.time = state
