"""The execution of the jobs of a study that have no result yet."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from .. import registry
from .._numba import jit as compiled
from .._serialization.atomic_files import write_atomically
from ..errors import PSRLError
from .agent_kinds import NOTHING, kind_of
from .executors import engine, keeps_files, plugin_of
from .experiment import experiment_of
from .jobs import Finished, perform, perform_and_measure
from .provenance import plugins_of
from .results import Job, RunResult, decode, jobs_of
from .store import Store
from .study import Study

_CLUSTER = 64  # workers that a cluster of unknown size is fed for
_AT_ONCE = 4  # jobs in the engine's hands for each worker: enough to keep it busy
_ATTEMPTS = 3  # for a job whose worker died


@dataclass
class Progress:
    """The progress of a study."""

    total: int
    done: int = 0
    here: int = 0  # jobs that this call has finished
    running: int = 0
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    regrets: dict[str, list[float]] = field(
        default_factory=dict
    )  # of finished jobs, by agent, in their units
    begun: float = field(default_factory=time.monotonic)

    @property
    def seconds_left(self) -> float | None:
        """The estimated remaining time, or None before the first job of this call is finished."""
        if not self.here:
            return None
        return (time.monotonic() - self.begun) / self.here * (self.total - self.done)


def run(
    store: Store,
    *,
    workers: int | None = None,
    engine_name: str = "local",
    executor: Executor | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
    in_turn: bool = False,
) -> Progress:
    """Execute all jobs of a study that have no result.

    If a job fails, the other jobs continue. Finished jobs are kept after Ctrl-C.

    Parameters
    ----------
    store
        The folder of the study.
    workers
        The number of processes; by default the number of cores.
    engine_name
        The name of the engine, such as `local` or `dask://HOST:PORT`.
    executor
        An executor that is used instead of an engine.
    report
        A function that is called with the progress after every change.
    in_turn
        If True, all runs of the first agent are executed first, then those of the second agent. Otherwise the
        first run of every agent is executed first.

    Returns
    -------
    Progress
        The number of finished jobs, and the failed jobs with their reasons.
    """
    with store.locked():
        todo, complaints = store.missing()
        changed = _changed_plugins(store)
        progress = Progress(len(jobs_of(store.study)), notes=[*complaints, *changed])
        if in_turn:
            order = [agent.label for agent in store.study.agents]
            todo.sort(key=lambda job: order.index(job.agent))
        progress.done = progress.total - len(todo)
        for job in set(jobs_of(store.study)) - set(todo):
            _note_regret(progress, store.read(job))
        report(progress)
        store.log(event="run", jobs=len(todo), engine=engine_name, **_engine_package(engine_name))
        for change in changed:
            store.log(event="plug-in changed", what=change)
        for complaint in complaints:
            store.log(event="damaged", what=complaint)
        if not todo:
            return progress
        if executor is not None:
            held, waiting = _all(store, todo, executor, False, workers or 1, progress, report)
            _give_up(store, dict.fromkeys([*held, *waiting], "the executor broke"), progress, report)
        else:
            _with_engine(store, todo, engine_name, workers, progress, report, in_turn)
    return progress


def _with_engine(
    store: Store,
    todo: list[Job],
    name: str,
    workers: int | None,
    progress: Progress,
    report: Callable[[Progress], None],
    in_turn: bool,
) -> None:
    """Run the jobs in an engine of that name, and in a new one if it breaks: a dead worker breaks its pool.

    It is not known which job the dead worker had. Therefore the next pool first runs the jobs of the broken
    pool, one at a time, and a job with which `_ATTEMPTS` pools broke is given up. So an agent that ends its
    process does not prevent the runs of other agents.

    On this machine what is not on disk is compiled beside the jobs. Where agents come in turn, those of the
    first one come before that if they have no posterior: they are done sooner than anything is compiled.
    """
    first, rest = _before_compiling(store.study, todo) if in_turn and name == "local" else ([], todo)
    begun = name != "local"
    broke: Counter[Job] = Counter()  # pools that broke while they held the job
    attempt = 0
    while first or rest:
        attempt += 1
        before = broke.total()
        with engine(name, workers) as pool:
            count = workers or (os.cpu_count() or 1 if "://" not in name else _CLUSTER)
            hand_out = partial(
                _all,
                store,
                pool=pool,
                keep=keeps_files(name),
                workers=count,
                progress=progress,
                report=report,
            )
            first = _suspects_first(first, broke, hand_out)
            if not (begun or first):
                rest, begun = _begin_to_compile(store.study, rest), True
            if not first:
                rest = _suspects_first(rest, broke, hand_out)
        if not (first or rest):
            return
        store.log(event="engine broke", attempt=attempt, left=len(first) + len(rest))
        if broke.total() == before:  # a pool that takes no job
            _give_up(store, dict.fromkeys(first + rest, "no worker could be started"), progress, report)
            return
        lost = _hopeless(store.study, first + rest, broke, progress)
        _give_up(store, lost, progress, report)
        first, rest = ([job for job in jobs if job not in lost] for jobs in (first, rest))


def _suspects_first(
    jobs: list[Job], broke: Counter[Job], hand_out: Callable[..., tuple[list[Job], list[Job]]]
) -> list[Job]:
    """Run the jobs that a broken pool had, one at a time, and then the others; return those left over."""
    suspects = [job for job in jobs if broke[job]]
    others = [job for job in jobs if not broke[job]]
    held, waiting = hand_out(suspects, one_at_a_time=True)
    if not (held or waiting):
        held, waiting = hand_out(others)
        others = []
    broke.update(held)
    return [*held, *waiting, *others]


def _hopeless(study: Study, left: list[Job], broke: Counter[Job], progress: Progress) -> dict[Job, str]:
    """Return the jobs to give up, each with the reason.

    An agent of which `_ATTEMPTS` runs were given up, and no run has a result, is given up with all its runs.
    """
    given_up = Counter(job.agent for job in broke if broke[job] >= _ATTEMPTS)
    plugins = {spec.label: registry.find("agents", spec.kind) for spec in study.agents}
    found = {}
    for job in left:
        plugin = plugins[job.agent]
        who = "" if plugin.built_in else f"{plugin}: "
        if broke[job] >= _ATTEMPTS:
            found[job] = f"{who}its worker died {_ATTEMPTS} times"
        elif given_up[job.agent] >= _ATTEMPTS and not progress.regrets.get(job.agent):
            found[job] = f"{who}not run, because the workers of {given_up[job.agent]} other runs died"
    return found


def _before_compiling(study: Study, todo: list[Job]) -> tuple[list[Job], list[Job]]:
    """Return the jobs of the first agent if it has no posterior, and the other jobs."""
    spec = study.agents[0]
    quick = not kind_of(spec.kind).has_posterior
    return (
        [job for job in todo if quick and job.agent == spec.label],
        [job for job in todo if not (quick and job.agent == spec.label)],
    )


def _begin_to_compile(study: Study, todo: list[Job]) -> list[Job]:
    """Let other processes compile missing code; return the jobs, those that need least code first."""
    experiment = experiment_of(study)
    knows_little = {spec.label for spec in study.agents if kind_of(spec.kind).information == NOTHING}
    for spec in study.agents:
        if kind_of(spec.kind).has_posterior:  # then it says what it needs
            with suppress(PSRLError):
                experiment.agent(spec, 0)
    for group in compiled.GROUPS:
        group.ask()
    return sorted(todo, key=lambda job: job.agent not in knows_little) if _compilers() else todo


def _compilers() -> int:
    """Return the number of processes that compile now."""
    return sum(group.busy for group in compiled.GROUPS)


def _give_up(
    store: Store, lost: dict[Job, str], progress: Progress, report: Callable[[Progress], None]
) -> None:
    for job, why in lost.items():
        progress.failures.append(f"{job.name}: {why}")
        store.log(event="failed", job=job.name, why=why)
    report(progress)


def _all(
    store: Store,
    todo: list[Job],
    pool: Executor,
    keep: bool,
    workers: int,
    progress: Progress,
    report: Callable[[Progress], None],
    one_at_a_time: bool = False,
) -> tuple[list[Job], list[Job]]:
    """Hand jobs to the pool a few at a time; return those that a broken pool held, and those it never got."""
    waiting = list(reversed(todo))
    running: dict[Future[Finished], tuple[Job, float]] = {}
    undone: list[Job] = []
    asked: Future[Finished] | None = None  # for the plan of the true model, which one job brings along
    while waiting or running:
        compilers = _compilers() if keep else 0  # which are to have their share of the cores
        most = max(1, workers - compilers) if compilers else _AT_ONCE * workers
        most = 1 if one_at_a_time else most
        while waiting and len(running) < most:
            job = waiting.pop()
            partial = store.partial_path(job) if keep else None
            wanted = asked is None and store.study.truth == "fixed" and not store.plan_path.exists()
            try:
                future = _submitted(pool, store.study, job, partial, wanted)
            except (BrokenExecutor, RuntimeError):
                held = [*undone, *(j for j, _ in running.values())]
                return held, [job, *reversed(waiting)]
            running[future] = job, time.monotonic()
            asked = future if wanted else asked
        progress.running = min(len(running), workers)
        finished, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
        for future in finished:
            job, begun = running.pop(future)
            asked = None if future is asked else asked
            if not _finish(store, job, future, begun, progress):
                undone.append(job)
        report(progress)
    return undone, []


def _submitted(
    pool: Executor, study: Study, job: Job, partial: Path | None, with_plan: bool
) -> Future[Finished]:
    """Hand a job to the pool, with what this program has registered if there is any."""
    registered = registry.registrations()
    if registered:
        return pool.submit(
            registry.call_with, registered, perform_and_measure, study, job, partial, with_plan=with_plan
        )
    return pool.submit(perform_and_measure, study, job, partial, with_plan=with_plan)


def _engine_package(name: str) -> dict[str, dict[str, str]]:
    """Return the package of an engine, for the log, if it is another package."""
    plugin = plugin_of(name)
    return {} if plugin.built_in else {"engine_plugin": registry.provenance(plugin)}


def _changed_plugins(store: Store) -> list[str]:
    """In words: plug-ins that are not what they were when the study was begun."""
    before = {(each["group"], each["name"]): each for each in store.plugins}
    said = []
    for now in plugins_of(store.study):
        then = before.get((now["group"], now["name"]), now)
        if then != now:
            was, present = (_version_of(each) for each in (then, now))
            said.append(
                f"{now['name']} of the group {now['group']} was {was} when the study was begun, and is "
                f"{present}: results before and after may differ"
            )
    return said


def _version_of(plugin: dict[str, str]) -> str:
    """Return package and version of a plug-in, or the checksum of its file if it has no package."""
    if "package" in plugin:
        return f"{plugin['package']} {plugin['version']}"
    return f"{plugin['path']} (SHA-256 {plugin['sha256'][:12]})"


def _finish(store: Store, job: Job, future: Future[Finished], begun: float, progress: Progress) -> bool:
    """Save the result of a job or report its error; return False if the job must be tried again."""
    try:
        finished = future.result()
    except BrokenExecutor:
        return False
    except (Exception, SystemExit) as error:
        progress.failures.append(f"{job.name}: {error}")
        store.log(event="failed", job=job.name, why=repr(error))
        return True
    try:
        if finished.plan is not None:  # first, so that a study whose jobs are done has it
            write_atomically(store.plan_path, finished.plan, sweep=False)
        store.write(job, finished.data)
    except OSError as error:
        progress.failures.append(f"{job.name}: its result cannot be written: {error}")
        store.log(event="failed", job=job.name, why=repr(error))
        return True
    progress.done += 1
    progress.here += 1
    _note_regret(progress, decode(finished.data, job.name))
    waited = round(time.monotonic() - begun, 3)
    store.log(event="done", job=job.name, seconds=waited, effects=finished.effects._asdict())
    return True


def _note_regret(progress: Progress, result: RunResult) -> None:
    progress.regrets.setdefault(result.agent, []).append(result.final_regret)


def verify(store: Store, jobs: int, seed: int = 0) -> tuple[int, list[str]]:
    """Repeat a sample of finished jobs in this process.

    Returns the number of repeated jobs and the names of those whose results differ from the saved bytes.
    """
    import numpy as np

    finished = [job for job in jobs_of(store.study) if store.path(job).exists()]
    chosen = np.random.default_rng(seed).permutation(len(finished))[:jobs]
    different = []
    for i in sorted(chosen.tolist()):
        job = finished[i]
        if perform(store.study, job) != store.path(job).read_bytes():
            different.append(job.name)
    return len(chosen), different
