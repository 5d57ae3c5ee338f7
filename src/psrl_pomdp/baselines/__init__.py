"""The other agents, a file each, with the protocol of `psrl_pomdp.simulation.Agent`."""

from .random_agent import RandomAgent

__all__ = ["RandomAgent"]
