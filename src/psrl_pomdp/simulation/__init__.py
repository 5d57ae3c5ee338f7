"""Simulated runs: (model, agent, horizon, seed) -> Trace.

`runs` has the simulation of an environment and an agent (`simulate`, `Simulation`), `trace` its result
(`Trace`, `Checkpoints`), `run_files` the checks of a saved run, and `warmup` the compilation ahead of the
first run.
"""

from .runs import Agent, Driver, Simulation, simulate
from .trace import Checkpoints, Trace

__all__ = ["Agent", "Checkpoints", "Driver", "Simulation", "Trace", "simulate"]
