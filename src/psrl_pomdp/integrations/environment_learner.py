"""An agent for Gymnasium environments of which nothing is known: no observation model, no costs, no dynamics.

The agent assumes a POMDP with a given number of hidden states. Discrete observations are used as they are.
For observations in a `Box`, random actions are taken first, and the observations that they give are divided
into classes around centers (k-means; MacQueen 1967). Rewards are rounded to a few values, which are quantiles
of those that came. The rows of the transition kernel, of the observation model and of the distribution of the
rewards have Dirichlet priors, and PSRL-POMDP learns all of them together from observations and rewards.

The hidden states have no names that could be confused: their rewards are learned with them. But no bound of
regret is known for agents that learn the observation model, and an environment may need more states than it
is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from .._utils.arrays import Array
from .._utils.integers import is_integer
from ..agents.planning_budget import PlanningBudget
from ..agents.psrl import PSRLAgent
from ..errors import InvalidModelError
from ..inference import DirichletPrior
from ..models import Setting, Units
from ..sensors.costs import number_of_cost
from ..sensors.dirichlet import DirichletCosts, DirichletSensor

_ITERATIONS = 30  # of k-means


@dataclass(frozen=True)
class Discretization:
    """How observations and rewards of an environment become numbers.

    Attributes
    ----------
    n_observations
        The number of classes of observations.
    values
        The rewards that stand for all others, increasing, shape [C].
    start
        The first number of a discrete observation space.
    centers
        The centers of the classes, shape [O, d]; None if observations are discrete.
    scale
        What each component of an observation is divided by before distances are measured, shape [d].
    """

    n_observations: int
    values: Array
    start: int = 0
    centers: Array | None = None
    scale: Array | None = None

    def observation(self, given: Any) -> int:
        """Return the class of an observation."""
        if self.centers is None or self.scale is None:
            return int(given) - self.start
        point = np.asarray(given, dtype=np.float64).reshape(-1) / self.scale
        return int(np.square(self.centers - point).sum(axis=1).argmin())

    def reward(self, given: float) -> float:
        """Return the value that stands for a reward."""
        edges = 0.5 * (self.values[1:] + self.values[:-1])
        return float(self.values[number_of_cost(self.values, edges, float(given))])


class EnvironmentLearner:
    """PSRL-POMDP in an environment of which only the spaces are known; see `learner_for`.

    Parameters
    ----------
    agent
        The agent, whose setting has the classes of observations and the values of rewards.
    discretization
        How observations and rewards become numbers.
    first_action
        The first number of the action space.
    """

    def __init__(self, agent: PSRLAgent, discretization: Discretization, first_action: int = 0) -> None:
        self.agent, self.discretization, self.first_action = agent, discretization, first_action

    @property
    def setting(self) -> Setting:
        """What the agent assumes, with prior means for what it learns."""
        return self.agent.setting

    @property
    def time(self) -> int:
        """The number of observations so far."""
        return self.agent.time

    def act(self, observation: Any, reward: float | None = None) -> int:
        """Return the next action, from 0 on, after an observation and the reward of the last action."""
        number = self.discretization.observation(observation)
        if reward is None:
            return self.agent.act(number)
        return self.agent.act(number, cost=self.discretization.reward(reward))

    def __repr__(self) -> str:
        return f"EnvironmentLearner({self.discretization.n_observations} observations, {self.agent!r})"


def learner_for(
    env: gymnasium.Env[Any, Any],
    n_states: int = 4,
    *,
    classes: int = 8,
    rewards: int = 8,
    explore: int = 1000,
    seed: int = 0,
    budget: PlanningBudget | None = None,
) -> EnvironmentLearner:
    """Return an agent that learns to act in an environment from its observations and rewards alone.

    Parameters
    ----------
    env
        An environment with discrete actions, and with observations that are discrete or in a `Box`.
    n_states
        The number of hidden states that the agent assumes.
    classes
        The number of classes of observations in a `Box`.
    rewards
        The largest number of values of rewards.
    explore
        The number of random actions from which classes and values are chosen. They are not learned from.
    seed
        The seed of the random actions and of the agent.
    budget
        Tolerance and work limits of the planner.

    Returns
    -------
    EnvironmentLearner
        The agent, for `run_on_env` or for a loop of your own.

    Raises
    ------
    InvalidModelError
        If a space is of another kind, or a number is out of range.
    """
    for name, value, least in (
        ("n_states", n_states, 1), ("classes", classes, 2), ("rewards", rewards, 2), ("explore", explore, 10)
    ):  # fmt: skip
        if not is_integer(value, least):
            raise InvalidModelError(f"{name} is {value!r}: a whole number of at least {least} is wanted")
    if not isinstance(env.action_space, Discrete):
        raise InvalidModelError(f"the action space is {env.action_space}: a Discrete one is wanted")
    if not isinstance(env.observation_space, Discrete | Box):
        raise InvalidModelError(
            f"the observation space is {env.observation_space}: a Discrete space or a Box is wanted"
        )
    observed, paid = _explored(env, explore, seed)
    found = _discretization(env.observation_space, observed, paid, classes, rewards, seed)
    n_actions, n_observations = int(env.action_space.n), found.n_observations
    n_values = len(found.values)
    even = np.full(n_states, 1.0 / n_states)
    setting = Setting(
        np.full((n_states, n_observations), 1.0 / n_observations),
        np.zeros((n_actions, n_states)),
        even,
        units=Units.spanning(found.values, "reward"),
    )
    prior = DirichletPrior(
        setting,
        np.full((n_actions, n_states, n_states), 1.0),
        sensor=DirichletSensor(np.full((n_states, n_observations), 0.5)),
        costs=DirichletCosts(found.values, np.full((n_actions, n_states, n_values), 0.5)),
    )
    agent = PSRLAgent(prior, seed=seed, budget=budget)
    return EnvironmentLearner(agent, found, int(env.action_space.start))


def _explored(env: gymnasium.Env[Any, Any], steps: int, seed: int) -> tuple[list[Any], Array]:
    """Return the observations and the rewards of random actions."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(4,)))
    assert isinstance(env.action_space, Discrete)
    first, n_actions = int(env.action_space.start), int(env.action_space.n)
    observed, paid = [env.reset(seed=seed)[0]], np.zeros(steps)
    for t in range(steps):
        observation, reward, terminated, truncated, _ = env.step(np.int64(first + rng.integers(n_actions)))
        observed.append(env.reset()[0] if terminated or truncated else observation)
        paid[t] = float(reward)
    if not np.isfinite(paid).all():
        raise InvalidModelError("the environment gave a reward that is not finite")
    return observed, paid


def _discretization(
    space: gymnasium.Space[Any], observed: list[Any], paid: Array, classes: int, rewards: int, seed: int
) -> Discretization:
    values = np.unique(paid)
    if len(values) > rewards:
        values = np.unique(np.quantile(paid, (np.arange(rewards) + 0.5) / rewards))
    if len(values) < 2:  # a constant reward: there is nothing to choose by, but the agent runs
        values = np.array([values[0], values[0] + 1.0])
    if isinstance(space, Discrete):
        return Discretization(int(space.n), values, int(space.start))
    points = np.array([np.asarray(y, dtype=np.float64).reshape(-1) for y in observed])
    if not np.isfinite(points).all():
        raise InvalidModelError("the environment gave an observation that is not finite")
    spread = points.std(axis=0)
    scale = np.where(spread > 0.0, spread, 1.0)
    centers = _centers(points / scale, classes, seed)
    return Discretization(len(centers), values, 0, centers, scale)


def _centers(points: Array, classes: int, seed: int) -> Array:
    """Return the centers of at most `classes` classes of points [T, d]."""
    from scipy.cluster.vq import kmeans2  # imported here because the import is slow

    distinct = np.unique(points, axis=0)
    if len(distinct) <= classes:
        return distinct
    rng = np.random.default_rng(seed)
    centers, label = kmeans2(points, classes, iter=_ITERATIONS, minit="++", seed=rng, missing="warn")
    used = np.unique(label)
    return np.asarray(centers[used])
