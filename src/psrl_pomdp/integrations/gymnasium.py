"""Models of this package as Gymnasium environments, and agents of this package in Gymnasium environments.

Every problem of the library is registered, so that

    gymnasium.make("psrl_pomdp:tiger-v0", accuracy=0.9)
    gymnasium.make("psrl_pomdp:model-v0", model="hallway.pomdp")

return environments, whichever package was imported first (`integrations.registration`).
"psrl_pomdp.gym:tiger-v0" works too. `POMDPEnv(model)` does not need the registry. Only this module and
`integrations.recurrent_ppo` import Gymnasium.

- The reward of a step is −C(s_t, a_t) in the user's units, or the reward itself if the model has rewards.
- An environment never terminates, because the objective is a long-run average. It is truncated only by a time
  limit: `gymnasium.make(..., max_episode_steps=1000)`.
- If there is no observation before the first action, the observation space has one element more than the
model
  has observations. `reset` returns this last element, which means *no observation*. No step returns it.
- `info["state"]` contains the hidden state, which an agent must not use.
- `reset(seed=n)` starts with the random numbers of `simulate(model, agent, horizon, seed=n)`.
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

NOTHING = -1  # no observation, in an `EnvRun`


class POMDPEnv(gymnasium.Env[np.int64, np.int64]):
    """A POMDP as a Gymnasium environment.

    Parameters
    ----------
    model
        A POMDP, the name of a problem of the library, or the path of a model file.
    render_mode
        Must be None.
    **parameters
        Parameters of the problem.

    Raises
    ------
    InvalidModelError
        If `model` is none of these, or parameters are given for a model without parameters.

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

    # Gymnasium's base class declares it without ClassVar.
    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

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
        """Draw s_1 and return o_1. There are no options."""
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
        """Take action a_t, draw s_{t+1}, and return o_{t+1} and the reward of (s_t, a_t)."""
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
    """A run of an agent in a Gymnasium environment.

    `first_reading` is the observation before the first action, and `readings[i]` the observation after
    `actions[i]`; `NOTHING` means that there was none. `ended[i]` is True if action i ended an episode of the
    environment; `readings[i]` is then the first observation of the next episode.
    """

    first_reading: int
    actions: npt.NDArray[np.int64]  # [T]
    readings: npt.NDArray[np.int64]  # [T]
    rewards: Array  # [T], in the environment's units
    ended: npt.NDArray[np.bool_]  # [T]

    @property
    def average_reward(self) -> float:
        """The mean reward of a step."""
        return float(self.rewards.mean())


def run_on_env(agent: Agent, env: gymnasium.Env[Any, Any], horizon: int, seed: int | None = None) -> EnvRun:
    """Run an agent of this package in a Gymnasium environment with discrete spaces.

    The agents of this package do not know episodes of an environment. If the environment terminates or
    truncates, it is reset, and the agent receives the first observation of the next episode instead of the
    last observation of the old one. For the agent, the reset is a transition like any other, and its
    objective is the long-run average cost. The agent knows the costs from its setting; it does not receive
    the rewards, which are recorded.

    Parameters
    ----------
    agent
        A new agent. If it has a setting, the environment must have the actions and observations of the
        setting; one more observation, the last one, means *no observation*, as in `POMDPEnv`.
    env
        An environment with discrete observations and actions.
    horizon
        The number of steps.
    seed
        The seed of the first reset.

    Returns
    -------
    EnvRun
        The actions, the observations and the rewards.

    Raises
    ------
    InvalidModelError
        If the agent was used before, or the spaces of the environment do not fit the agent.

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
