"""What `psrl-pomdp plugins --check` does: load a plug-in, and hold it to the contract of its group.

Every check returns findings: a plug-in with a `wrong` one cannot be used, a `doubtful` one is legal and
rarely meant, and a `note` says what was not tried. Some priors and agents fit certain problems only. So each
is tried on the problems of its own package first, and then on some of this package.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any

from .. import registry
from .._utils.findings import Finding
from ..errors import InvalidModelError, ParseError, PSRLError
from ..models.model import POMDP
from ..registry import Plugin
from ..testing.checks import check_agent, check_model, check_planner, check_posterior
from ..testing.prior_checks import check_prior

_LIBRARY = (
    "separated",
    "machine-repair",
    "random-readout",
)  # what an agent or a prior of any problem is tried on
_STEPS = 60
_STUDY = {
    "problem": "separated",
    "horizon": 40,
    "seeds": 2,
    "tolerance": 1e-2,
    "agents": [{"kind": "random"}],
}


def check_plugin(plugin: Plugin) -> list[Finding]:
    """Return what is wrong or doubtful about a plug-in; an exception of the plug-in's is a finding too."""
    if error := registry.shadowed(plugin):
        return [Finding("wrong", str(error))]
    try:
        return list(_CHECKS[plugin.group](plugin))
    except PSRLError as error:
        missing = plugin.built_in and isinstance(error, ImportError)  # an extra that is not installed
        return [Finding("note" if missing else "wrong", str(error))]
    except Exception as error:
        return [Finding("wrong", str(plugin.error(f"raised {error!r}")))]


def problems_for(plugin: Plugin) -> list[POMDP]:
    """Return what to try a plug-in on: the problems of its own package, then some of this one."""
    from ..problems import problem

    own = [each.name for each in registry.plugins("problems") if each.package == plugin.package]
    chosen = [] if plugin.built_in or not plugin.package else own
    return [problem(name) for name in (*chosen, *_LIBRARY)]


def _check(prior: Any) -> list[Finding]:
    """Return what is wrong with a prior and with its posterior."""
    return check_prior(prior) + check_posterior(prior, replicates=100, length=20)


def _priors(plugin: Plugin) -> Iterator[Finding]:
    from .priors import made

    factory = plugin.load()
    yield from _tried(plugin, lambda model: _check(made(plugin, factory, model, {})))


def _agents(plugin: Plugin) -> Iterator[Finding]:
    from .agent_kinds import kind_of
    from .experiment import Experiment
    from .study import study_from

    kind_of(plugin.name)
    study = study_from({"problem": "separated", "horizon": 9, "seeds": 1, "agents": [{"kind": plugin.name}]})

    def check(model: POMDP) -> list[Finding]:
        experiment = Experiment(study, model)
        experiment.agent(study.agents[0], 0)  # which tells whether the agent fits this problem
        return check_agent(lambda seed: experiment.agent(study.agents[0], seed), model, steps=_STEPS)

    yield from _tried(plugin, check)


def _tried(plugin: Plugin, check: Callable[[POMDP], list[Finding]]) -> Iterator[Finding]:
    """Check on the first problem that is not refused with a reason."""
    refusals = []
    for model in problems_for(plugin):
        try:
            yield from check(model)
        except InvalidModelError as error:
            refusals.append(f"{model.name}: {error}")
        else:
            return
    yield Finding("doubtful", f"nothing could be tried, because it fits none of these: {'; '.join(refusals)}")


def _planners(plugin: Plugin) -> Iterator[Finding]:
    planner = plugin.load()
    if not callable(planner):
        raise plugin.error(f"a {type(planner).__name__} cannot be called")
    yield from check_planner(planner, steps=2000)


def _problems(plugin: Plugin) -> Iterator[Finding]:
    from ..problems import problem

    model, again = problem(plugin.name), problem(plugin.name)
    if model != again:
        yield Finding("wrong", "made twice, it is not the same problem")
    if pickle.loads(pickle.dumps(model)) != model:
        yield Finding("wrong", "sent to another process, it is not the same problem")
    yield from (found for found in check_model(model) if not plugin.built_in or found.level == "wrong")


def _executors(plugin: Plugin) -> Iterator[Finding]:
    """The same bytes as in this process, and errors that arrive as they were raised."""
    from .executors import engine
    from .jobs import perform
    from .results import jobs_of
    from .study import study_from

    study = study_from(_STUDY)
    with engine(plugin.name, 2) as pool:
        futures = {job: pool.submit(perform, study, job) for job in jobs_of(study)}
        for job, future in futures.items():
            if future.result() != perform(study, job):
                yield Finding("wrong", f"{job.name} gave other bytes than in this process")
        yield from _errors_arrive(pool)


def _errors_arrive(pool: Executor) -> Iterator[Finding]:
    try:
        pool.submit(raise_parse_error, "there").result()
        yield Finding("wrong", "an error that a job raises is lost")
    except ParseError as error:
        if (error.path, error.line) != ("there", 7):
            yield Finding("wrong", "an error that a job raises arrives without its details")
    except Exception as error:
        yield Finding("wrong", f"an error that a job raises arrives as {error!r}")


def raise_parse_error(path: str) -> None:
    """Raise an error that has details; by a worker process, which imports this function."""
    raise ParseError("raised on purpose", path=path, line=7)


def _formats(plugin: Plugin) -> Iterator[Finding]:
    """Bytes that are no model are refused with `ParseError`; what is written comes back."""
    from ..io.formats import format_of
    from ..problems import problem

    known = format_of(f".{plugin.name}")
    assert known is not None  # `load` raises otherwise
    path = f"model.{plugin.name}"
    for junk in (b"", b"\xff\xfe\x00", b"{}", b"no model"):
        try:
            known.read(junk, path, max_entries=10_000, rows=None)
            yield Finding("wrong", f"the bytes {junk!r} were read as a model")
        except ParseError:
            pass
        except Exception as error:
            yield Finding("wrong", f"the bytes {junk!r} raise {error!r}, not a ParseError")
    if known.write is None:
        yield Finding("note", "it only reads: no model was written and read back")
        return
    for name in ("tiger", "machine-repair", "no-sensor"):
        model = problem(name)
        if known.read(known.write(model), path, max_entries=10_000, rows=None) != model:
            yield Finding("wrong", f"{name} is another model after it was written and read back")


_CHECKS: dict[str, Callable[[Plugin], Iterator[Finding]]] = {
    "priors": _priors,
    "agents": _agents,
    "planners": _planners,
    "problems": _problems,
    "executors": _executors,
    "formats": _formats,
}
