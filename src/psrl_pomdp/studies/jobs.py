"""A job is one agent and one seed of a study; its result is bytes that depend on nothing else.

Planning budget is counted in operations, so that workers, their order and their load change nothing.
"""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._serialization.atomic_files import write_atomically
from .._utils.stopwatch import PLANNING
from .._version import __version__
from ..agents.schedules import Schedule, schedule_named
from ..analysis.decomposition import promised_costs
from ..analysis.run_checks import check_run
from ..errors import CoarsePlanWarning, PSRLError
from ..planning import Plan
from ..protocols import ConditionallySavable, SavableAgent
from ..simulation.runs import Simulation
from ..simulation.trace import Trace
from .experiment import experiment_of
from .priors import dirichlet_of as dirichlet_of
from .priors import prior_of as prior_of
from .provenance import named_plugins, plugins_of
from .results import FORMAT, EpisodeColumns, FitResult, Job, RunResult, TrueAverage, encode
from .study import Study

_SUMS = ("cost", "expected_cost", "belief_gap", "kernel_gap", "cost_gap")  # as in `Checkpoints.sums`
_BETWEEN = 20.0  # seconds between checkpoints of a long job


class JobCost(NamedTuple):
    """What a job took: seconds of its own process, and the bytes that its agent keeps in the end."""

    seconds: float  # for all of this process's steps, planning included
    planning: float
    steps: int  # that were done here; a job may be taken up half way
    memory: int | None  # of an agent that can be saved


class Finished(NamedTuple):
    """A finished job: the bytes of its result, its costs, and on request a plan for the true model."""

    data: bytes
    effects: JobCost
    plan: bytes | None = None  # the file of the plan


def perform(study: Study, job: Job, partial: Path | None = None) -> bytes:
    """Return the result of a job, as the bytes of its file."""
    return perform_and_measure(study, job, partial).data


def perform_and_measure(
    study: Study, job: Job, partial: Path | None = None, *, with_plan: bool = False
) -> Finished:
    """Return the result of a job with the time and memory that it took, which are no part of the result.

    If a file `partial` is given, the run is saved there at intervals, and continued from there; the caller
    removes the file when the result is saved. With `with_plan`, the plan for the true model is returned too.
    """
    experiment = experiment_of(study)
    spec = next(agent for agent in study.agents if agent.label == job.agent)
    best = experiment.plan_of_truth(job.run)
    with named_plugins(spec):
        run = experiment.simulation(spec, job.run)
        if partial is not None and partial.exists():
            try:
                run.resume(partial.read_bytes())
            except PSRLError:
                run = experiment.simulation(spec, job.run)  # half of a run that cannot be read is run again
        before, clock, planned = run.time, time.process_time(), PLANNING.seconds
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoarsePlanWarning)  # results tell how every episode was planned
            trace = run.until(study.horizon, _keeper(run, partial))
        seconds, planning = time.process_time() - clock, PLANNING.seconds - planned
        memory = len(run.agent.to_bytes()) if _can_save(run.agent) else None  # type: ignore[attr-defined]
    schedule = schedule_named(spec.schedule) if spec.schedule else None
    data = encode(result_of(study, job, trace, best, schedule))
    effects = JobCost(seconds, planning, run.time - before, memory)
    return Finished(data, effects, _file_of(best) if with_plan else None)


def _file_of(best: Plan) -> bytes:
    """Return the file of a plan without computation times, so that equal studies have equal bytes."""
    return replace(best, rounds=tuple(replace(each, seconds=0.0) for each in best.rounds)).to_bytes()


def _can_save(agent: object) -> bool:
    """Return whether an agent can be saved; not with a prior that has only the protocol's methods."""
    if isinstance(agent, ConditionallySavable):
        return agent.can_save
    return isinstance(agent, SavableAgent)


def _keeper(run: Simulation, partial: Path | None) -> Callable[[int], None] | None:
    """Return a function that saves the run at intervals of real time; it changes no result."""
    if partial is None or not _can_save(run.agent):
        return None
    last = time.monotonic()

    def keep(steps: int) -> None:
        nonlocal last
        if time.monotonic() - last > _BETWEEN:
            with suppress(OSError):  # a full disk costs the convenience, not the run
                write_atomically(partial, run.to_bytes())
            last = time.monotonic()

    return keep


# -- results --------------------------------------------------------------------------------------


def result_of(
    study: Study, job: Job, trace: Trace, best: Plan, schedule: Schedule | None = None
) -> RunResult:
    """Everything that the regret, its decomposition and the lemmas need."""
    points, units = trace.checkpoints, trace.model.setting.units
    episodes, fit = trace.episodes, trace.fit
    return RunResult(
        format=FORMAT,
        version=__version__,
        plugins=plugins_of(study),
        platform=f"{platform.system()} {platform.machine()}, numpy {np.__version__}",
        study=study.fingerprint,
        agent=job.agent,
        run=job.run,
        problem=trace.model.name,
        horizon=trace.horizon,
        unit_values=(units.low, units.high, units.kind, units.name),
        truth=TrueAverage(
            lower=best.lower_cost,
            upper=best.upper_cost,
            status=best.status,
            span=None if best.depends_on_start else best.span,
        ),
        times=points.times.tolist(),
        **{name: _numbers(points.sums[:, i]) for i, name in enumerate(_SUMS)},
        control=trace.control_variate_sums(best).tolist(),
        promised=[(low, high) for low, high in promised_costs(trace).tolist()] if episodes else None,
        violations=[finding.text for finding in check_run(trace, schedule)] if episodes else [],
        posterior=_numbers(points.truth),
        visits=points.visits.tolist(),
        expected_counts=_numbers(points.expected),
        pseudo_counts=points.pseudo.tolist(),
        episodes=EpisodeColumns(
            start=[e.start for e in episodes],
            length=[e.length for e in episodes],
            ended=[e.ended for e in episodes],
            kernel=[e.kernel for e in episodes],
            lower=[e.lower_cost for e in episodes],
            upper=[e.upper_cost for e in episodes],
            tolerance=[e.tolerance for e in episodes],
            status=[e.status for e in episodes],
            work=[e.work for e in episodes],
            span=[e.span for e in episodes],
            **{name: _numbers(trace.episode_sums[:, i]) for i, name in enumerate(_SUMS)},
        ),
        log_e_value=None if fit is None else _numbers(points.log_e_value),
        fit=None
        if fit is None
        else FitResult(fit.readings, list(fit.alarms), fit.begin, list(map(str, fit.departures))),
    )


def _numbers(array: Any) -> Any:
    """Return the array as lists, with None for NaN."""
    if np.isnan(array).any():
        return None if np.isnan(array).all() else [_numbers(row) for row in array]
    return array.tolist()
