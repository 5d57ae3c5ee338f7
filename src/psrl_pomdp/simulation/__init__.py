"""Simulated runs: (model, agent, horizon, seed) -> Trace.

`runs` has the simulation of an environment and an agent (`simulate`, `Simulation`), `trace` its result
(`Trace`, `Checkpoints`), `fleets` runs of many units (`simulate_fleet`, `FleetTrace`), `run_files` the checks
of a saved run, and `warmup` the compilation ahead of the first run.
"""

from .fleets import FleetTrace, simulate_fleet, simulate_fleets
from .runs import Agent, Driver, Simulation, simulate
from .trace import Checkpoints, Trace

__all__ = [
    "Agent",
    "Checkpoints",
    "Driver",
    "FleetTrace",
    "Simulation",
    "Trace",
    "simulate",
    "simulate_fleet",
    "simulate_fleets",
]
