"""Runs of fleets: (model, fleet, units, horizon, seed) -> FleetTrace, and the regret of a unit.

Each unit has its own hidden state and its own random numbers in the same true model. The units take their
steps in turn. Each unit has a `Trace`, so that its regret is estimated with the control variate of a single
run: given the histories of all units, the next state and observation of a unit depend on its own state and
action alone, so that the same sum is a martingale.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from .._utils.arrays import Array, Index
from .._utils.integers import is_integer
from .._utils.log_spaced import log_spaced
from ..agents.episode_records import EpisodeRecord
from ..agents.fleet import Fleet
from ..errors import InvalidModelError
from ..models import POMDP
from ..planning import Plan
from ..protocols import Prior
from .runs import Simulation
from .trace import Regret, Trace


@dataclass(frozen=True)
class FleetTrace:
    """One run of a fleet.

    Attributes
    ----------
    model
        The true model of each unit.
    horizon
        The number of steps of each unit.
    units
        The run of each unit, by name.
    episodes
        The episodes of the fleet; the last one may not have ended.
    late_steps
        How many actions were taken while a plan was due, if the fleet does not wait for plans.
    """

    model: POMDP
    horizon: int
    units: Mapping[str, Trace]
    episodes: tuple[EpisodeRecord, ...]
    late_steps: int

    @property
    def times(self) -> Index:
        """The times of the checkpoints, in steps of one unit, shape [K]."""
        return next(iter(self.units.values())).times

    @property
    def average_cost(self) -> float:
        """The average cost per unit and step, in the user's units."""
        return float(np.mean([trace.average_cost for trace in self.units.values()]))

    def regret(self, plan: Plan) -> Regret:
        """Return the regret a unit at the horizon, in the user's units: the mean over units."""
        lower, upper = self.regret_curve(plan)
        return Regret(float(lower[-1]), float(upper[-1]))

    def regret_curve(self, plan: Plan) -> tuple[Array, Array]:
        """Return the lower and upper ends of the regret a unit at every checkpoint, shape [K] each.

        The control variate is that of `Trace.regret_curve`.
        """
        curves = [trace.regret_curve(plan) for trace in self.units.values()]
        lower, upper = (np.mean(ends, axis=0) for ends in zip(*curves, strict=True))
        return lower, upper

    def __repr__(self) -> str:
        return (
            f"FleetTrace({self.model.name or 'a model'}, {len(self.units)} units, T={self.horizon}, "
            f"{len(self.episodes)} episodes)"
        )


class _Unit:
    """One unit of a fleet, as an agent of a simulation."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self._fleet, self._name = fleet, name

    def act(self, observation: Any, cost: float | None = None) -> int:
        """Return the action of the unit."""
        return self._fleet.act(self._name, observation, cost=cost)


def simulate_fleet(
    model: POMDP,
    fleet: Fleet,
    units: int | Sequence[str],
    horizon: int,
    seed: int | Sequence[int] = 0,
    *,
    checkpoints: Sequence[int] | None = None,
    every_step: bool = False,
    delay: int = 0,
) -> FleetTrace:
    """Run a fleet in as many environments as it has units, for `horizon` steps of each unit.

    Parameters
    ----------
    model
        The true model of each unit.
    fleet
        A new fleet.
    units
        The number of units, or their names.
    horizon
        The number of actions of each unit.
    seed
        The seed of the environments' random numbers; those of a unit depend on its place alone.
    checkpoints
        The times at which sums are recorded, in steps of one unit; by default ten per decade.
    every_step
        Whether the traces contain the hidden states.
    delay
        If the fleet does not wait for plans and refreshes: how many further steps each unit takes before the
        result of a work is adopted.

    Returns
    -------
    FleetTrace
        The runs of all units, with the regret a unit.

    Raises
    ------
    InvalidModelError
        If the fleet was used before, or an argument is none of these.

    >>> from psrl_pomdp import Fleet, plan, problem
    >>> world = problem("separated")
    >>> trace = simulate_fleet(world, Fleet(world.family, seed=1), units=3, horizon=200, seed=1)
    >>> trace
    FleetTrace(separated, 3 units, T=200, 7 episodes)
    >>> float(trace.regret(plan(world, 1e-6))) < 50.0
    True
    """
    names = [f"unit {i + 1}" for i in range(units)] if isinstance(units, int) else list(units)
    if not names or len(set(names)) != len(names):
        raise InvalidModelError(f"units is {units!r}: a positive number, or names that differ, are wanted")
    if not is_integer(horizon, 1) or not is_integer(delay, 0):
        raise InvalidModelError(f"horizon is {horizon!r} and delay {delay!r}: whole numbers are wanted")
    if fleet.units or fleet.time:
        raise InvalidModelError("the fleet was used before: a run needs a new one")
    seeds = [seed] if isinstance(seed, int) else list(seed)
    times = log_spaced(horizon) if checkpoints is None else np.asarray(checkpoints, np.int64)
    runs = [
        Simulation(
            model,
            _Unit(fleet, name),
            [*seeds, u],
            checkpoints=times.tolist(),
            every_step=every_step,
            driver="streaming",
        )
        for u, name in enumerate(names)
    ]
    waiting: deque[tuple[int, Any]] = deque()
    traces: list[Trace] = []
    stops = sorted({*times[times < horizon].tolist(), horizon})
    done = 0
    for stop in stops:
        for t in range(done + 1, stop + 1):
            for run in runs:
                run.advance(t, horizon)
            if not fleet.wait:
                _adopt_late(fleet, waiting, t, delay)
        done = stop
        traces = [run.until(stop) for run in runs]  # which records a checkpoint
    found = dict(zip(names, traces, strict=True))
    return FleetTrace(model, horizon, found, fleet.episode_records(), fleet.late_steps)


def _adopt_late(fleet: Fleet, waiting: deque[tuple[int, Any]], t: int, delay: int) -> None:
    """Let work that has become due be done `delay` steps later; there is one at a time, as in a worker."""
    if not waiting and fleet.work is not None:
        waiting.append((t, fleet.work))
    while waiting and t >= waiting[0][0] + delay:
        fleet.adopt(waiting.popleft()[1].run())
        if delay == 0 and fleet.work is not None:
            waiting.append((t, fleet.work))


def simulate_fleets(
    model: POMDP,
    prior: Prior,
    units: int,
    horizon: int,
    seeds: Sequence[int],
    *,
    workers: int = 1,
    checkpoints: Sequence[int] | None = None,
    **options: Any,
) -> list[FleetTrace]:
    """Run one fleet for each seed, in parallel; the results are the same with any number of workers.

    Parameters
    ----------
    model
        The true model of each unit.
    prior
        The prior of the fleets.
    units
        The number of units of each fleet.
    horizon
        The number of actions of each unit.
    seeds
        The seeds of the runs: of the fleet, and of its environments.
    workers
        The number of processes; with 1 the runs are done in this one.
    checkpoints
        The times at which sums are recorded, in steps of one unit; by default ten per decade.
    options
        Further arguments of `Fleet`, such as `samples`.

    Returns
    -------
    list of FleetTrace
        The runs, in the order of the seeds.
    """
    one = partial(_one_run, model, prior, units, horizon, checkpoints, options)
    if workers <= 1:
        return [one(seed) for seed in seeds]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(one, seeds))


def _one_run(
    model: POMDP,
    prior: Prior,
    units: int,
    horizon: int,
    checkpoints: Sequence[int] | None,
    options: Mapping[str, Any],
    seed: int,
) -> FleetTrace:
    fleet = Fleet(prior, seed=seed, **options)
    return simulate_fleet(model, fleet, units, horizon, seed, checkpoints=checkpoints)
