"""A small fleet with the interface of `psrl_pomdp.Fleet`: it learns counts, and its plans are thresholds.

It is quick, so that tests of the service need no planner. Its numbers depend on all that it was told, in
order, so that a lost, doubled or reordered reading changes them.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from psrl_pomdp import ImpossibleObservationError, InvalidModelError, problem

EPISODE = 25  # readings of the plant


@dataclass(frozen=True)
class FakeWork:
    """Picklable work for the worker process."""

    kind: str
    counts: list[float]
    seconds: float = 0.0

    def run(self) -> bytes:
        time.sleep(self.seconds)
        return json.dumps({"plan": self.counts}).encode()


@dataclass(frozen=True)
class FakeEpisode:
    """What `advantages_at` looks at: the values of the actions are the costs now."""

    setting: Any
    belief: Any
    plan: Any
    is_compiled: bool = False


class FakeFleet:
    def __init__(self, model: Any, seed: int = 0) -> None:
        self.model = model
        self.setting = model.setting
        self.rng = np.random.default_rng(seed)
        self.counts = [1.0] * self.setting.n_actions
        self.members: dict[str, dict[str, Any]] = {}
        self.started = self.since = self.late_steps = self.episode = 0
        self.threshold = 0.5
        self.alarms: tuple[Any, ...] = ()
        self.false_alarm_rate = 0.01

    @property
    def units(self) -> tuple[str, ...]:
        return tuple(self.members)

    def act(self, unit: str, observation: Any, *, taken: Any = None, cost: Any = None) -> int:
        sensor, kernel = self.setting.observation, self.model.transition
        if cost is not None:
            raise InvalidModelError(f"cost {cost!r}: costs are not seen here")
        known = self.members.get(unit)
        if known is None or not known["present"] or known["action"] is None:
            belief, action = self.setting.initial.copy(), 0
        else:
            action = known["action"] if taken is None else taken
            belief = np.asarray(known["belief"]) @ kernel[action]
        if observation is not None:
            belief = belief * sensor[action][:, observation]
            if not belief.sum() > 0.0:
                raise ImpossibleObservationError(f"observation {observation} has probability 0")
            belief = belief / belief.sum()
        self.counts[action] += float(belief[-1]) if observation is not None else 0.0
        self.since += 1
        self.episode = max(self.episode, 1)
        self.late_steps += self.since > EPISODE
        drawn = self.rng.random() * 0.2
        action = int(belief[-1] > self.threshold * 0.5 + drawn) % self.setting.n_actions
        self.members[unit] = {
            "time": 1 + (known["time"] if known else 0),
            "belief": [float(p) for p in belief],
            "action": action,
            "present": True,
        }
        return int(action)

    def join(self, unit: str) -> None:
        self.members[unit] |= {"present": True, "action": None, "time": 0}

    def leave(self, unit: str) -> None:
        self.members[unit]["present"] = False

    def override(self, unit: str, action: int) -> None:
        self.members[unit]["action"] = action

    def unit(self, name: str) -> Any:
        known = self.members[name]
        belief = np.asarray(known["belief"])
        episode = FakeEpisode(self.setting, belief, self.current_episode.plan)
        return SimpleNamespace(sampled_belief=belief, posterior=SimpleNamespace(), episode=episode, **known)

    @property
    def following(self) -> bool | None:
        return True if self.since >= EPISODE else None

    @property
    def work(self) -> FakeWork | None:
        return FakeWork("plan", self.counts) if self.since >= EPISODE else None

    def adopt(self, data: bytes) -> bool:
        if self.since < EPISODE:
            return False
        plan = json.loads(data)["plan"]
        self.threshold = sum(plan) % 1.0
        self.since, self.episode = 0, self.episode + 1
        return True

    @property
    def posterior(self) -> Any:
        return SimpleNamespace(kernels=self.model.transition[None], weights=np.ones(1))

    @property
    def current_episode(self) -> Any:
        plan = SimpleNamespace(lower=self.threshold, upper=self.threshold + 1.0)
        return SimpleNamespace(
            number=self.episode, start=1, kernel=self.model.transition, plan=plan, tolerance=0.1
        )

    def episode_records(self) -> tuple[Any, ...]:
        words = {"number": 1, "start": 1, "length": 1, "ended": "time", "lower_cost": 0.0, "upper_cost": 1.0}
        return (SimpleNamespace(**words),)

    def to_bytes(self) -> bytes:
        state = self.rng.bit_generator.state
        words = {
            "model": self.model.name, "rng": state, "counts": self.counts, "members": self.members,
            "numbers": [self.started, self.since, self.late_steps, self.episode], "threshold": self.threshold,
        }  # fmt: skip
        return json.dumps(words).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> FakeFleet:
        words = json.loads(data)
        fleet = cls(problem(words["model"]))
        fleet.rng.bit_generator.state = words["rng"]
        fleet.counts, fleet.members, fleet.threshold = words["counts"], words["members"], words["threshold"]
        fleet.started, fleet.since, fleet.late_steps, fleet.episode = words["numbers"]
        return fleet


def make_new(plant: Any, model: Any) -> FakeFleet:
    return FakeFleet(model, plant.seed)


def make_fleet(data: bytes, plant: Any) -> FakeFleet:
    return FakeFleet.from_bytes(data)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
