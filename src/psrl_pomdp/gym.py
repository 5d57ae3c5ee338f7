"""Gymnasium environments; `gymnasium.make("psrl_pomdp.gym:tiger-v0")` imports this module."""

from .integrations.gymnasium import NOTHING, EnvRun, POMDPEnv, run_on_env

__all__ = ["NOTHING", "EnvRun", "POMDPEnv", "run_on_env"]
