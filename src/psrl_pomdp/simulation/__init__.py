"""Simulated runs: (model, agent, horizon, seed) -> Trace."""

from .runs import Agent, Driver, Simulation, simulate
from .trace import Checkpoints, Trace

__all__ = ["Agent", "Checkpoints", "Driver", "Simulation", "Trace", "simulate"]
