"""Gymnasium, both ways: our worlds as its environments, and its environments as worlds for our agents.

Every problem of the library is registered, so that

    gymnasium.make("psrl_pomdp:tiger-v0", accuracy=0.9)
    gymnasium.make("psrl_pomdp:model-v0", model="hallway.pomdp")

work wherever they are written, whichever package was imported first: `integrations.registration` sees to it.
"psrl_pomdp.gym:tiger-v0" works too. `POMDPEnv(model)` does without the registry. Only this module, and
`integrations.recurrent_ppo` on top of it, import Gymnasium.

- The reward of a step is −C(s_t, a_t) in the user's own numbers, or the reward itself where the model was
  given by rewards.
- A run never terminates: the cost is a long-run average. It is truncated only where a time limit is asked
  for: `gymnasium.make(..., max_episode_steps=1000)`.
- Where nothing is read before the first action, the observation space has one symbol more than the model has
  readings. That symbol, the last, is what `reset` returns then: *nothing was read*. No step returns it.
- The true state is in `info["state"]`, for people and for tests; agents are not meant to look.
- `reset(seed=n)` starts the very world that `simulate(model, agent, horizon, seed=n)` runs in.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from .._utils.integers import is_integer
from ..errors import InvalidModelError, OutOfOrderError
from ..inference.encoding import action_number
from ..inference.filter_bank import sample_categorical
from ..io import endings, load
from ..models import POMDP
from ..problems import problem
from ..simulation.runs import Agent

try:
    import gymnasium
    from gymnasium.spaces import Discrete
except ImportError:
    raise ImportError('psrl_pomdp.gym needs gymnasium: pip install "psrl-pomdp[gym]"') from None

NOTHING = -1  # among the readings of an `EnvRun`


class POMDPEnv(gymnasium.Env[np.int64, np.int64]):
    """A POMDP as an environment.

    `model` is a POMDP, the name of a problem of the library, which takes `parameters`, or a model file.

    >>> env = POMDPEnv("tiger", accuracy=0.9)
    >>> env.observation_space, env.action_space
    (Discrete(3), Discrete(3))
    >>> first, info = env.reset(seed=1)
    >>> int(first) == env.nothing_read == 2, sorted(info)
    (True, ['state'])
    >>> reading, reward, terminated, truncated, info = env.step(0)
    >>> reward, terminated, truncated
    (-1.0, False, False)
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as the base class declares it

    def __init__(
        self,
        model: POMDP | str | PathLike[str],
        *,
        render_mode: str | None = None,
        **parameters: Any,
    ) -> None:
        if render_mode is not None:
            raise InvalidModelError(f"render_mode {render_mode!r}: there is nothing to draw, None is meant")
        self.model = _model(model, parameters)
        own = self.model.setting
        self.rewards: Array = own.own_cost if own.units.kind == "reward" else -own.own_cost  # [A, S]
        self.nothing_read = own.n_observations if own.first_observation is None else None
        self.action_space = Discrete(own.n_actions)
        self.observation_space = Discrete(own.n_observations + (own.first_observation is None))
        self.state: int | None = None  # s_t

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """s_1 and o_1. There are no options."""
        super().reset(seed=seed)
        if options:
            raise InvalidModelError(f"reset has no option {next(iter(options))!r}")
        if seed is not None:  # the stream of `simulate`
            self._np_random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        own, uniforms = self.model.setting, self.np_random.random(2)
        self.state = int(sample_categorical(own.initial, uniforms[0]))
        if own.first_observation is None:
            return np.int64(own.n_observations), {"state": self.state}
        reading = sample_categorical(own.first_observation[self.state], uniforms[1])
        return np.int64(reading), {"state": self.state}

    def step(self, action: Any) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """The reward of (s_t, a_t), then s_{t+1} and o_{t+1}."""
        if self.state is None:
            raise OutOfOrderError("step before reset")
        own, a = self.model.setting, action_number(self.model.setting, action)
        reward = float(self.rewards[a, self.state])
        uniforms = self.np_random.random(2)
        self.state = int(sample_categorical(self.model.transition[a, self.state], uniforms[0]))
        reading = sample_categorical(own.observation[a, self.state], uniforms[1])
        return np.int64(reading), reward, False, False, {"state": self.state}


def _model(model: POMDP | str | PathLike[str], parameters: dict[str, Any]) -> POMDP:
    if isinstance(model, str) and Path(model).suffix.lower() not in endings():
        return problem(model, **parameters)
    if parameters:
        raise InvalidModelError(
            f"parameter {next(iter(parameters))!r}: only problems of the library have any"
        )
    if isinstance(model, str | PathLike):
        return load(model)
    if not isinstance(model, POMDP):
        raise InvalidModelError(f"a {type(model).__name__} is neither a POMDP nor a name nor a file")
    return model


# -- the other way ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class EnvRun:
    """What an agent and an environment did.

    `readings[i]` is what the agent was told after `actions[i]`, and `first_reading` before all; `NOTHING`
    stands for nothing read. `ended[i]` says that action i ended an episode of the environment: the agent
    was then told the first reading of the next one.
    """

    first_reading: int
    actions: npt.NDArray[np.int64]  # [T]
    readings: npt.NDArray[np.int64]  # [T]
    rewards: Array  # [T], in the environment's numbers
    ended: npt.NDArray[np.bool_]  # [T]

    @property
    def average_reward(self) -> float:
        return float(self.rewards.mean())


def run_on_env(agent: Agent, env: gymnasium.Env[Any, Any], horizon: int, seed: int | None = None) -> EnvRun:
    """Let an agent of ours act for `horizon` steps in an environment with discrete spaces.

    Agents know one life without end. Where the environment terminates or truncates, it is reset, and what
    the agent is told after its last action is the first reading of the next episode, as if the action had
    led there; the last reading of the old episode it never sees. So an episodic task becomes the task of
    doing best in the long run, with restarts among the dynamics. What the agent knows of costs is in its
    setting: rewards are recorded, not told.

    The environment must have the actions and the readings of the agent's setting, where it has one; one
    reading more, the last, stands for nothing read, as in `POMDPEnv`. `seed` goes to the first reset.

    >>> from psrl_pomdp import PSRLAgent, problem
    >>> world = problem("separated")
    >>> run = run_on_env(PSRLAgent(world.family, seed=1), POMDPEnv(world), 500, seed=2)
    >>> bool(run.rewards[400:].mean() > run.rewards[:5].mean())
    True
    """
    if isinstance(horizon, bool) or not is_integer(horizon, 1):
        raise InvalidModelError(f"horizon is {horizon!r}: a whole number of at least 1")
    if lived := getattr(agent, "time", 0):
        raise InvalidModelError(f"the agent has lived for {lived} steps: a run wants a fresh one")
    door = _Door(agent, env)
    actions, readings = np.zeros(horizon, np.int64), np.zeros(horizon, np.int64)
    rewards, ended = np.zeros(horizon), np.zeros(horizon, bool)
    first = told = door.reading(env.reset(seed=seed)[0])
    for t in range(horizon):
        action = agent.act(told)
        observation, reward, terminated, truncated, _ = env.step(door.action(action, t))
        if terminated or truncated:
            observation = env.reset()[0]
        told = door.reading(observation)
        actions[t], rewards[t], ended[t] = action, float(reward), terminated or truncated
        readings[t] = NOTHING if told is None else told
    return EnvRun(NOTHING if first is None else first, actions, readings, rewards, ended)


class _Door:
    """Between an agent's numbers, from 0 on, and those of an environment's spaces."""

    def __init__(self, agent: Agent, env: gymnasium.Env[Any, Any]) -> None:
        if not isinstance(env, gymnasium.Env):
            raise InvalidModelError(f"a {type(env).__name__} is not a single Gymnasium environment")
        self.acts = _discrete("action", env.action_space)
        self.reads = _discrete("observation", env.observation_space)
        setting = getattr(agent, "setting", None)
        if setting is None:  # nothing to compare with
            ours = env.unwrapped
            self.n_readings = ours.model.n_observations if isinstance(ours, POMDPEnv) else int(self.reads.n)
            return
        self.n_readings = setting.n_observations
        if self.acts.n != setting.n_actions:
            raise InvalidModelError(
                f"the environment has {self.acts.n} actions, and the agent was told {setting.n_actions}"
            )
        if self.reads.n not in (self.n_readings, self.n_readings + 1):
            raise InvalidModelError(
                f"the environment has {self.reads.n} observations, and the agent was told {self.n_readings}"
            )
        if self.reads.n == self.n_readings and setting.first_observation is None:
            raise InvalidModelError(
                "the environment is read before the first action, and the agent was told that nothing is"
            )

    def reading(self, observation: Any) -> int | None:
        number = int(observation) - int(self.reads.start)
        return None if number == self.n_readings else number

    def action(self, action: int, t: int) -> np.int64:
        if not is_integer(action, 0, int(self.acts.n) - 1):
            raise InvalidModelError(f"the agent chose action {action!r} at step {t + 1}")
        return np.int64(action + self.acts.start)


def _discrete(what: str, space: gymnasium.Space[Any]) -> Discrete:
    if not isinstance(space, Discrete):
        raise InvalidModelError(f"the environment's {what} space is {space}: a Discrete one is wanted")
    return space
