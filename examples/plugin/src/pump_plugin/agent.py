"""The learner: it tries several intervals between overhauls, and then keeps to the cheapest one.

It is told the observation model and the costs, and needs no prior. It has no guarantee: it is here to show
what psrl-pomdp asks of an agent.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from psrl_pomdp import InvalidModelError, ParseError, Setting


class OverhaulInterval:
    """Overhauls the pump every so many steps, and learns how many are best."""

    def __init__(
        self, setting: Setting, seed: int = 0, *, longest: int = 12, exploration: float = 0.05
    ) -> None:
        if setting.names.actions != ("run", "overhaul"):
            raise InvalidModelError("OverhaulInterval wants the actions run and overhaul, in this order")
        if longest < 1:
            raise InvalidModelError(f"longest is {longest}: wanted at least 1")
        self.setting, self.longest, self.exploration = setting, longest, exploration
        self.rng = np.random.default_rng(seed)
        self.paid, self.steps = np.zeros(longest), np.zeros(longest)  # by interval, of all cycles so far
        self.interval, self.age, self.action = 1, 0, 0
        likelihood = setting.observation  # [A, S, O]
        shares = likelihood / np.maximum(likelihood.sum(axis=1, keepdims=True), 1e-300)
        self.expected_cost = np.einsum(
            "aso,as->ao", shares, setting.cost
        )  # [A, O], of a state that reads like o

    def act(self, observation: int | None) -> int:
        """Take an observation, or None where there is none; return the next action, 0 or 1."""
        if observation is not None:
            self.paid[self.interval - 1] += self.expected_cost[self.action, observation]
            self.steps[self.interval - 1] += 1
        self.age += 1
        self.action = int(self.age >= self.interval)
        if self.action:
            self.age, self.interval = 0, self._next_interval()
        return self.action

    def _next_interval(self) -> int:
        """Return the interval of the next cycle: one that was hardly tried, a random one, or the cheapest."""
        if self.steps.min() < self.longest:
            return int(self.steps.argmin()) + 1
        if self.rng.random() < self.exploration:
            return int(self.rng.integers(self.longest)) + 1
        return int((self.paid / self.steps).argmin()) + 1

    # Not required, but with these two a long run can go on after a crash.

    def to_bytes(self) -> bytes:
        """Return everything that decides what the agent does next."""
        arrays = {name: getattr(self, name).tolist() for name in ("paid", "steps", "expected_cost")}
        plain = {
            name: getattr(self, name) for name in ("longest", "exploration", "interval", "age", "action")
        }
        return json.dumps({"arrays": arrays, "plain": plain, "rng": self.rng.bit_generator.state}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> OverhaulInterval:
        """Return the agent that was saved. Raises `ParseError` where the bytes hold none."""
        agent = cls.__new__(cls)
        try:
            saved: dict[str, Any] = json.loads(data)
            vars(agent).update(saved["plain"], rng=np.random.default_rng())
            vars(agent).update({name: np.array(values) for name, values in saved["arrays"].items()})
            agent.rng.bit_generator.state = saved["rng"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ParseError(f"not a saved OverhaulInterval: {error}") from None
        return agent
