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
from ..sensors.base import ContinuousSensor, SensorBase
from ..simulation.runs import Agent

try:
    import gymnasium
    from gymnasium.spaces import Box, Discrete
except ImportError:
    raise ImportError('psrl_pomdp.gym needs gymnasium: pip install "psrl-pomdp[gym]"') from None

from .environment_learner import EnvironmentLearner, learner_for

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
        self.action_space = Discrete(own.n_actions)
        self.nothing_read: int | None = None
        self.observation_space: gymnasium.Space[Any]
        if isinstance(own.sensor, ContinuousSensor):
            self.observation_space = Box(-np.inf, np.inf, (own.sensor.dimension or 1,), np.float64)
        else:
            self.nothing_read = None if own.has_first_observation else own.n_observations
            self.observation_space = Discrete(own.n_observations + (not own.has_first_observation))
        self.state: int | None = None  # s_t

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Draw s_1 and return o_1. There are no options."""
        super().reset(seed=seed)
        if options:
            raise InvalidModelError(f"reset has no option {next(iter(options))!r}")
        if seed is not None:  # the stream of `simulate`
            self._np_random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        own, uniforms = self.model.setting, self.np_random.random(2)
        self.state = int(sample_categorical(own.initial, uniforms[0]))
        if not own.is_finite:
            return self._drawn(own.first_sensor, 0, self.state), {"state": self.state}
        if own.first_observation is None:
            return np.int64(own.n_observations), {"state": self.state}
        reading = sample_categorical(own.first_observation[self.state], uniforms[1])
        return np.int64(reading), {"state": self.state}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take action a_t, draw s_{t+1}, and return o_{t+1} and the reward of (s_t, a_t)."""
        if self.state is None:
            raise OutOfOrderError("step before reset")
        own, a = self.model.setting, action_number(self.model.setting, action)
        reward = float(self.rewards[a, self.state])
        uniforms, before = self.np_random.random(2), self.state
        self.state = int(sample_categorical(self.model.transition[a, self.state], uniforms[0]))
        if not own.is_finite:
            return self._drawn(own.sensor, a, self.state), reward, False, False, {"state": self.state}
        table = own.observation[a, before] if own.sensor_depends_on_previous else own.observation[a]
        reading = sample_categorical(table[self.state], uniforms[1])
        return np.int64(reading), reward, False, False, {"state": self.state}

    def _drawn(self, sensor: SensorBase | None, action: int, state: int) -> Array:
        """Draw an observation without a number, shape [d]; zeros if there is none before the first action."""
        if sensor is None:
            return np.zeros(self.observation_space.shape or (1,))
        assert isinstance(sensor, ContinuousSensor)
        number = 0 if sensor.n_actions is None else action
        return np.asarray(sensor.draw(self.np_random, number, np.array([state])), np.float64).reshape(-1)


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
    `actions[i]`; `NOTHING` means that there was none. Observations in a `Box` are real numbers or vectors.
    `ended[i]` is True if action i ended an episode of the environment; `readings[i]` is then the first
    observation of the next episode.
    """

    first_reading: Any
    actions: npt.NDArray[np.int64]  # [T]
    readings: npt.NDArray[Any]  # [T] or [T, d]
    rewards: Array  # [T], in the environment's units
    ended: npt.NDArray[np.bool_]  # [T]

    @property
    def average_reward(self) -> float:
        """The mean reward of a step."""
        return float(self.rewards.mean())


def run_on_env(
    agent: Agent | EnvironmentLearner | None,
    env: gymnasium.Env[Any, Any],
    horizon: int,
    seed: int | None = None,
) -> EnvRun:
    """Run an agent of this package in a Gymnasium environment.

    The agents of this package do not know episodes of an environment. If the environment terminates or
    truncates, it is reset, and the agent receives the first observation of the next episode instead of the
    last observation of the old one. For the agent, the reset is a transition like any other, and its
    objective is the long-run average cost. If the setting of the agent says that costs are seen, the agent
    also receives the rewards; otherwise it knows the costs from its setting, and the rewards are only
    recorded.

    Parameters
    ----------
    agent
        A new agent. If it has a setting, the environment must have the actions and observations of the
        setting; one more observation, the last one, means *no observation*, as in `POMDPEnv`. None stands for
        `learner_for(env, seed=seed)`, an agent to which nothing is known but the spaces: it learns dynamics,
        observation model and rewards.
    env
        An environment with discrete actions. Observations are discrete, or in a `Box` if the agent learns the
        observation model or its setting has observations that are real numbers or vectors.
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
    if not isinstance(env, gymnasium.Env):
        raise InvalidModelError(f"a {type(env).__name__} is not a single Gymnasium environment")
    if agent is None:
        agent = learner_for(env, seed=seed or 0)
    if lived := getattr(agent, "time", 0):
        raise InvalidModelError(f"the agent has lived for {lived} steps: a run wants a fresh one")
    door = _door(agent, env)
    actions, rewards, ended = np.zeros(horizon, np.int64), np.zeros(horizon), np.zeros(horizon, bool)
    told, reward = door.reading(env.reset(seed=seed)[0]), None
    first, readings = told, []
    for t in range(horizon):
        action = door.choose(told, reward)
        observation, paid, terminated, truncated, _ = env.step(door.action(action, t))
        if terminated or truncated:
            observation = env.reset()[0]
        told, reward = door.reading(observation), float(paid)
        actions[t], rewards[t], ended[t] = action, reward, terminated or truncated
        readings.append(told)
    numbers = [NOTHING if reading is None else reading for reading in readings]
    return EnvRun(NOTHING if first is None else first, actions, np.array(numbers), rewards, ended)


def _door(agent: Agent | EnvironmentLearner, env: gymnasium.Env[Any, Any]) -> _Door:
    """Return what stands between an agent and an environment."""
    if isinstance(agent, EnvironmentLearner):
        return _LearnerDoor(agent, env)
    setting = getattr(agent, "setting", None)
    return _Door(agent, env) if setting is None or setting.is_finite else _BoxDoor(agent, env)


class _Door:
    """Between an agent's numbers, from 0 on, and those of an environment's spaces."""

    def __init__(self, agent: Agent, env: gymnasium.Env[Any, Any]) -> None:
        self.agent = agent
        self.acts = _discrete("action", env.action_space)
        self._reward_sign = _reward_sign(agent)
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

    def reading(self, observation: Any) -> Any:
        """Return the observation as the agent takes it."""
        number = int(observation) - int(self.reads.start)
        return None if number == self.n_readings else number

    def choose(self, reading: Any, reward: float | None) -> int:
        """Return the agent's next action, after an observation and the reward of its last action."""
        if reward is None or not self._reward_sign:
            return self.agent.act(reading)
        return self.agent.act(reading, cost=self._reward_sign * reward)  # type: ignore[call-arg]

    def action(self, action: int, t: int) -> np.int64:
        if not is_integer(action, 0, int(self.acts.n) - 1):
            raise InvalidModelError(f"the agent chose action {action!r} at step {t + 1}")
        return np.int64(action + self.acts.start)


class _BoxDoor(_Door):
    """For an agent whose setting has observations that are real numbers or vectors."""

    def __init__(self, agent: Agent, env: gymnasium.Env[Any, Any]) -> None:
        self.agent, self.acts, self._reward_sign = agent, _discrete("action", env.action_space), 0
        setting: Any = agent.setting  # type: ignore[attr-defined]
        self.dimension = setting.sensor.dimension
        if not isinstance(env.observation_space, Box) or self.acts.n != setting.n_actions:
            raise InvalidModelError(
                f"the environment has {self.acts.n} actions and observations in {env.observation_space}, and "
                f"the agent was told {setting.n_actions} actions and {setting.sensor.described()}"
            )
        size = int(np.prod(env.observation_space.shape))
        if size != (self.dimension or 1):
            raise InvalidModelError(
                f"an observation of the environment has {size} numbers, and the agent was told "
                f"{self.dimension or 1}"
            )

    def reading(self, observation: Any) -> Any:
        flat = np.asarray(observation, dtype=np.float64).reshape(-1)
        return float(flat[0]) if self.dimension is None else flat


class _LearnerDoor(_Door):
    """For an agent that divides observations and rewards into classes itself."""

    def __init__(self, agent: EnvironmentLearner, env: gymnasium.Env[Any, Any]) -> None:
        self.learner, self.acts = agent, _discrete("action", env.action_space)
        if self.acts.n != agent.setting.n_actions:
            raise InvalidModelError(
                f"the environment has {self.acts.n} actions, and the agent was told {agent.setting.n_actions}"
            )

    def reading(self, observation: Any) -> Any:
        return observation if np.ndim(observation) else float(observation)

    def choose(self, reading: Any, reward: float | None) -> int:
        return self.learner.act(reading, reward)


def _reward_sign(agent: Agent) -> int:
    """Return what turns a reward into the cost that the agent sees: 1, −1, or 0 if it sees none."""
    setting = getattr(agent, "setting", None)
    if setting is None or setting.seen_cost is None:
        return 0
    return 1 if setting.units.kind == "reward" else -1


def _discrete(what: str, space: gymnasium.Space[Any]) -> Discrete:
    if not isinstance(space, Discrete):
        raise InvalidModelError(f"the environment's {what} space is {space}: a Discrete one is wanted")
    return space
