"""A job is one agent and one seed of a study; its result is bytes that depend on nothing else.

Randomness is spawned from (study's seed, number of the run, what for), so that workers, their order and their
load change nothing; planning effort is counted in operations. All agents of a study meet the same worlds and
the same chance, which makes comparisons between them sharper.
"""

from __future__ import annotations

import hashlib
import platform
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import registry
from .._serialization.atomic_files import write_atomically
from .._utils.stopwatch import PLANNING
from .._version import __version__
from ..agents.planning_budget import Effort
from ..agents.schedules import Schedule, schedule_named
from ..analysis.decomposition import promised_costs
from ..analysis.run_checks import check_run
from ..errors import CoarsePlanWarning, InvalidModelError, PSRLError
from ..inference import DirichletPrior, FinitePrior
from ..io import load
from ..models.model import POMDP
from ..planning import Plan, plan
from ..problems import problem
from ..protocols import Planner
from ..simulation.runs import Agent, Simulation, log_spaced
from ..simulation.trace import Trace
from .agent_kinds import Told, kind_of, make
from .priors import dirichlet_of as dirichlet_of
from .priors import prior_of as prior_of
from .provenance import plugins_of
from .results import Job, encode
from .study import AgentSpec, Study

_WORLD, _TRUTH, _AGENT = 0, 1, 2  # what a stream is for
_BETWEEN = 20.0  # seconds between checkpoints of a long job


class Effects(NamedTuple):
    """What a job took: seconds of its own process, and the bytes that its agent keeps in the end."""

    seconds: float  # for all of this process's steps, planning included
    planning: float
    steps: int  # that were done here; a job may be taken up half way
    memory: int | None  # of an agent that can be saved


def perform(study: Study, job: Job, partial: Path | None = None) -> bytes:
    """The result of a job, as the bytes of its file."""
    return perform_and_measure(study, job, partial)[0]


def perform_and_measure(study: Study, job: Job, partial: Path | None = None) -> tuple[bytes, Effects]:
    """The same, and what it took, which is no part of the result.

    Where `partial` is given, the run is kept there every so often, and taken up from there. Whoever keeps
    the result removes it.
    """
    spec = next(agent for agent in study.agents if agent.label == job.agent)
    world, model = world_of(study, job.run)
    best = _truth_planned(world, study.tolerance, study.max_work)
    run = _begun(study, spec, world, model, job)
    if partial is not None and partial.exists():
        try:
            run.resume(partial.read_bytes())
        except PSRLError:
            run = _begun(study, spec, world, model, job)  # half of a run that cannot be read is run again
    before, clock, planned = run.time, time.process_time(), PLANNING.seconds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoarsePlanWarning)  # results tell how every episode was planned
        trace = run.until(study.horizon, _keeper(run, partial))
    seconds, planning = time.process_time() - clock, PLANNING.seconds - planned
    memory = len(run.agent.to_bytes()) if hasattr(run.agent, "to_bytes") else None
    schedule = schedule_named(spec.schedule) if spec.schedule else None
    result = encode(result_of(study, job, trace, best, schedule))
    return result, Effects(seconds, planning, run.time - before, memory)


@lru_cache(maxsize=4)
def _truth_planned(world: POMDP, tolerance: float, max_work: float) -> Plan:
    """J of the truth, once for all jobs of a process that share it."""
    best = plan(world, tolerance, max_work=max_work)
    if best.status == "interrupted":  # what was proved so far is no result of this job
        raise KeyboardInterrupt
    return best


def _begun(study: Study, spec: AgentSpec, world: POMDP, model: POMDP, job: Job) -> Simulation:
    agent = agent_for(study, spec, world, model, job.run)
    times = log_spaced(study.horizon, study.per_decade).tolist()
    return Simulation(world, agent, seed=(study.seed, job.run, _WORLD), checkpoints=times)


def _keeper(run: Simulation, partial: Path | None) -> Callable[[int], None] | None:
    """Keeps the run at times; the clock decides when, and changes no result."""
    if partial is None or not hasattr(run.agent, "to_bytes"):
        return None
    last = time.monotonic()

    def keep(steps: int) -> None:
        nonlocal last
        if time.monotonic() - last > _BETWEEN:
            with suppress(OSError):  # a full disk costs the convenience, not the run
                write_atomically(partial, run.to_bytes())
            last = time.monotonic()

    return keep


# -- what is run --------------------------------------------------------------------------------


def model_of(study: Study) -> POMDP:
    """The problem of this name, or the model in this file."""
    path = Path(study.problem)
    if study.file_sha256:
        if study.parameters:
            raise InvalidModelError("parameters: a model file has none")
        if hashlib.sha256(path.read_bytes()).hexdigest() != study.file_sha256:
            raise InvalidModelError(f"{path.name} was changed since the study was begun")
        return load(path)
    return problem(study.problem, **study.parameters)


def world_of(study: Study, run: int) -> tuple[POMDP, POMDP]:
    """The world of a run, and the problem that it comes from."""
    model = model_of(study)
    if study.truth == "fixed":
        return model, model
    rng = np.random.default_rng((study.seed, run, _TRUTH))
    prior = common_prior(study, model)
    name = f"{model.name} drawn for run {run}"
    if isinstance(prior, FinitePrior):
        chosen = prior.model(int(rng.choice(len(prior), p=prior.weights)))
        return POMDP(chosen.setting, chosen.transition, name=name), model
    return POMDP(model.setting, prior.sample(rng), name=name), model


def common_prior(study: Study, model: POMDP) -> FinitePrior | DirichletPrior:
    """What all learners of the study believe: worlds are drawn from it for the Bayesian regret."""
    asked = [agent.prior for agent in study.agents if kind_of(agent.kind).uses_prior]
    priors = [prior_of(model, wanted) for i, wanted in enumerate(asked) if wanted not in asked[:i]]
    priors = priors or [prior_of(model, "")]
    if any(prior != priors[0] for prior in priors):
        raise InvalidModelError(
            "truth = 'prior' with agents of different priors: from which one are worlds drawn?"
        )
    common: FinitePrior | DirichletPrior = priors[0]
    return common


def agent_for(study: Study, spec: AgentSpec, world: POMDP, model: POMDP, run: int) -> Agent:
    """A fresh agent. Its stream depends on its name, not on its place in the study."""
    code = int.from_bytes(hashlib.sha256(spec.label.encode()).digest()[:8], "big")
    told = Told(
        world=world,
        prior=prior_of(model, spec.prior),
        rows=dirichlet_of(model),
        seed=(study.seed, run, _AGENT, code),
        effort=Effort(
            floor=spec.floor, ceiling=spec.ceiling, max_work=spec.max_work, rtol=spec.rtol, atol=spec.atol
        ),
        exact=Effort(
            floor=study.tolerance, ceiling=study.tolerance, max_work=study.max_work, max_points=10_000
        ),
        schedule=schedule_named(spec.schedule) if spec.schedule else None,
        options=spec.options,
        planner=_planner_of(spec.planner) if spec.planner else None,
    )
    return make(spec.kind, told)


def _planner_of(name: str) -> Planner:
    plugin = registry.find("planners", name)
    planner: Planner = plugin.load()
    if not callable(planner):
        raise plugin.error(f"a {type(planner).__name__} cannot be called")
    return planner


def refusals(study: Study) -> dict[str, str]:
    """Why agents of the study do not fit its problem, by label; found out before anything is run."""
    world, model = world_of(study, 0)
    found = {}
    for spec in study.agents:
        try:
            agent_for(study, spec, world, model, 0)
        except InvalidModelError as error:
            found[spec.label] = str(error)
    return found


# -- results --------------------------------------------------------------------------------------


def result_of(
    study: Study, job: Job, trace: Trace, best: Plan, schedule: Schedule | None = None
) -> dict[str, Any]:
    """Plain data: everything that the regret, its decomposition and the lemmas need. Costs are scaled."""
    points, units = trace.checkpoints, trace.model.setting.units
    names = ("cost", "expected_cost", "belief_gap", "kernel_gap", "cost_gap")
    episodes = trace.episodes
    plugins = plugins_of(study)
    return {
        "version": __version__,
        **({"plugins": plugins} if plugins else {}),
        "platform": f"{platform.system()} {platform.machine()}, numpy {np.__version__}",
        "study": study.fingerprint,
        "agent": job.agent,
        "run": job.run,
        "problem": trace.model.name,
        "horizon": trace.horizon,
        "units": [units.low, units.high, units.kind, units.name],
        "truth": {"lower": best.lower_cost, "upper": best.upper_cost, "status": best.status,
                  "span": None if best.depends_on_start else list(best.span)},
        "times": points.times.tolist(),
        **{name: _numbers(points.sums[:, i]) for i, name in enumerate(names)},
        "control": trace.controlled(best).tolist(),
        "promised": promised_costs(trace).tolist() if episodes else None,
        "violations": [finding.text for finding in check_run(trace, schedule)] if episodes else [],
        "posterior": _numbers(points.truth),
        "visits": points.visits.tolist(),
        "expected_counts": _numbers(points.expected),
        "pseudo_counts": points.pseudo.tolist(),
        "episodes": {
            "start": [e.start for e in episodes],
            "length": [e.length for e in episodes],
            "ended": [e.ended for e in episodes],
            "kernel": [e.kernel for e in episodes],
            "lower": [e.lower_cost for e in episodes],
            "upper": [e.upper_cost for e in episodes],
            "tolerance": [e.tolerance for e in episodes],
            "status": [e.status for e in episodes],
            "work": [e.work for e in episodes],
            "span": [e.span for e in episodes],
            **{name: _numbers(trace.episode_sums[:, i]) for i, name in enumerate(names)},
        },
    }  # fmt: skip


def _numbers(array: Any) -> Any:
    """Lists, with None for what is not a number."""
    if np.isnan(array).any():
        return None if np.isnan(array).all() else [_numbers(row) for row in array]
    return array.tolist()
