"""Skeleton of an agent: a class with the method `act`.

Copy this file, replace the parts marked CHANGE, and run it: `python agent.py` checks the agent.
Then compare it:

    psrl-pomdp compare machine-repair --agents psrl,agent:MyAgent,random --horizon 1000 --seeds 4
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from psrl_pomdp import Setting, problem
from psrl_pomdp.testing import check_agent


class MyAgent:
    """Play random actions, and the action with the lowest mean cost over the states more often."""

    def __init__(self, setting: Setting, seed: int | Sequence[int] = 0) -> None:
        self.setting = setting
        self.rng = np.random.default_rng(seed)

    def act(self, observation: int | str | None) -> int:
        """Take the observation, or None if it is missing, and return the next action."""
        if self.rng.random() < 0.5:  # CHANGE
            return int(self.setting.cost.mean(axis=1).argmin())
        return int(self.rng.integers(self.setting.n_actions))

    # The two methods below are optional. With them, a study can continue an interrupted run.

    def to_bytes(self) -> bytes:
        """Return the complete state of the agent."""
        return msgspec.json.encode(
            {
                "cost": self.setting.cost.tolist(),
                "observation": self.setting.observation.tolist(),
                "initial": self.setting.initial.tolist(),
                "stream": self.rng.bit_generator.state,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> MyAgent:
        """Return the agent that `to_bytes` saved."""
        saved = msgspec.json.decode(data)
        agent = cls(Setting(saved["observation"], saved["cost"], saved["initial"]))
        agent.rng.bit_generator.state = saved["stream"]
        return agent


if __name__ == "__main__":
    model = problem("machine-repair")
    for issue in check_agent(lambda seed: MyAgent(model.setting, seed), model):
        print(issue)
