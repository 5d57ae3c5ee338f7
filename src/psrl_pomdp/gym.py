"""Gymnasium environments, such as `gymnasium.make("psrl_pomdp:tiger-v0")`."""

from .integrations.gymnasium import NOTHING, EnvRun, POMDPEnv, run_on_env

__all__ = ["NOTHING", "EnvRun", "POMDPEnv", "run_on_env"]
