"""Recurrent deep reinforcement learning: PPO with an LSTM, which is trained while it plays.

The agent knows neither the observation model nor the costs. It receives each observation together with the
action before it, and the reward of each step. As for every agent here there is one run without resets, so
that the cost of training is part of the regret.

There is no guarantee for the policy or for the regret.

Source: RecurrentPPO of sb3-contrib with its own defaults (J. Schulman and others 2017, Proximal policy
optimization algorithms, arXiv 1707.06347). T. Ni, B. Eysenbach and R. Salakhutdinov 2022,
Recurrent model-free RL can be a strong baseline for many POMDPs (ICML), recommend the action as an input.

Needs `pip install "psrl-pomdp[deep]"`.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ..models import POMDP
from ..simulation.runs import simulate
from ..simulation.trace import Trace
from .gymnasium import POMDPEnv

Seen = npt.NDArray[np.float32]  # [O + A + 1]: a one for the reading, and one for the action before it


def recurrent_run(model: POMDP, horizon: int, seed: int = 0, **options: Any) -> Trace:
    """Train on `model` for `horizon` steps, and return the trace of these steps.

    `options` are arguments of `sb3_contrib.RecurrentPPO`. `simulate` repeats the recorded actions on the same
    model with the same random numbers, so that every estimate of regret applies to the trace. The library
    also seeds the global random streams of torch and numpy.
    """
    try:
        from sb3_contrib import RecurrentPPO
    except ImportError:
        raise ImportError('recurrent_run needs sb3-contrib: pip install "psrl-pomdp[deep]"') from None
    life = OneLife(model, seed)
    own_seed = int(np.random.SeedSequence(seed, spawn_key=(0,)).generate_state(1)[0])
    learner = RecurrentPPO("MlpLstmPolicy", life, seed=own_seed, device="cpu", **options)
    learner.learn(horizon)  # whole rollouts: some steps too many
    trace = simulate(model, _Recorded(life.actions), horizon, seed)
    assert trace.observations.tolist() == life.readings[:horizon]  # the same actions in the same world
    return trace


class OneLife(gymnasium.Env[Seen, np.int64]):
    """The world of `simulate(..., seed=seed)` from end to end, with a record of what was done and read."""

    def __init__(self, model: POMDP, seed: int) -> None:
        self.world, self.seed = POMDPEnv(model), seed
        self.actions: list[int] = []
        self.readings: list[int] = []
        self.action_space = self.world.action_space
        self.n_readings = model.n_observations + (model.setting.first_observation is None)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (self.n_readings + model.n_actions + 1,))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Start the world again, always with the same seed.

        The first observation follows no action; the last number of the one-hot code of the action says so.
        """
        self.actions, self.readings = [], []
        first, info = self.world.reset(seed=self.seed)
        return self._seen(first, self.world.model.n_actions), info

    def step(self, action: np.int64) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Take an action. The reward is 1 − C(s_t, a_t), in [0, 1], whatever the unit of the costs."""
        state = self.world.state
        reading, _, terminated, truncated, info = self.world.step(action)
        reward = 1.0 - float(self.world.model.setting.cost[action, state])
        self.actions.append(int(action))
        self.readings.append(int(reading))
        return self._seen(reading, action), reward, terminated, truncated, info

    def _seen(self, reading: np.int64, action: np.int64 | int) -> Seen:
        seen = np.zeros(self.n_readings + self.world.model.n_actions + 1, np.float32)
        seen[reading] = seen[self.n_readings + action] = 1.0
        return seen


class _Recorded:
    """Plays a record."""

    def __init__(self, actions: list[int]) -> None:
        self.left = iter(actions)

    def act(self, observation: int | None) -> int:
        return next(self.left)
