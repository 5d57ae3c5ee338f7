"""Gymnasium environments, such as `gymnasium.make("psrl_pomdp:tiger-v0")`."""

from .integrations.environment_learner import EnvironmentLearner, learner_for
from .integrations.gymnasium import NOTHING, EnvRun, POMDPEnv, run_on_env

__all__ = ["NOTHING", "EnvRun", "EnvironmentLearner", "POMDPEnv", "learner_for", "run_on_env"]
