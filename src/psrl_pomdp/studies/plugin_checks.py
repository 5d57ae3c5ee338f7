"""The checks of `psrl-pomdp plugins --check`: whether a plug-in satisfies the requirements of its group.

Every check returns a list of `Issue`s. A plug-in with an `error` cannot be used; a `warning` is about
something that is allowed and rarely intended; an `info` states what was not tested. Some priors and agents
are applicable to certain problems only. Therefore each is tested first on the problems of its own package,
and then on some problems of this package.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any

from .. import registry
from .._utils.issues import Issue
from ..errors import InvalidModelError, ParseError, PSRLError
from ..models import POMDP
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


def check_plugin(plugin: Plugin) -> list[Issue]:
    """Return the issues of a plug-in; an exception that the plug-in raises is an error."""
    if error := registry.shadowed(plugin):
        return [Issue("error", str(error))]
    try:
        return list(_CHECKS[plugin.group](plugin))
    except PSRLError as error:
        missing = plugin.built_in and isinstance(error, ImportError)  # an extra that is not installed
        return [Issue("info" if missing else "error", str(error))]
    except Exception as error:
        return [Issue("error", str(plugin.error(f"raised {error!r}")))]


def problems_for(plugin: Plugin) -> list[POMDP]:
    """Return the problems on which a plug-in is tested: those of its own package, then some of this one."""
    from ..problems import problem

    own = [each.name for each in registry.plugins("problems") if each.package == plugin.package]
    chosen = [] if plugin.built_in or not plugin.package else own
    return [problem(name) for name in (*chosen, *_LIBRARY)]


def _check(prior: Any) -> list[Issue]:
    """Return the issues of a prior and of its posterior."""
    return check_prior(prior) + check_posterior(prior, replicates=100, length=20)


def _priors(plugin: Plugin) -> Iterator[Issue]:
    from .priors import made

    factory = plugin.load()
    yield from _tried(plugin, lambda model: _check(made(plugin, factory, model, {})))


def _agents(plugin: Plugin) -> Iterator[Issue]:
    from .agent_kinds import kind_of
    from .experiment import Experiment
    from .study import study_from

    kind_of(plugin.name)
    study = study_from({"problem": "separated", "horizon": 9, "seeds": 1, "agents": [{"kind": plugin.name}]})

    def check(model: POMDP) -> list[Issue]:
        experiment = Experiment(study, model)
        experiment.agent(study.agents[0], 0)  # which tells whether the agent fits this problem
        return check_agent(lambda seed: experiment.agent(study.agents[0], seed), model, steps=_STEPS)

    yield from _tried(plugin, check)


def _tried(plugin: Plugin, check: Callable[[POMDP], list[Issue]]) -> Iterator[Issue]:
    """Check on the first problem that is not refused with a reason."""
    refusals = []
    for model in problems_for(plugin):
        try:
            yield from check(model)
        except InvalidModelError as error:
            refusals.append(f"{model.name}: {error}")
        else:
            return
    yield Issue("warning", f"nothing could be tried, because it fits none of these: {'; '.join(refusals)}")


def _planners(plugin: Plugin) -> Iterator[Issue]:
    planner = plugin.load()
    if not callable(planner):
        raise plugin.error(f"an object of type {type(planner).__name__} cannot be called")
    yield from check_planner(planner, steps=2000)


def _problems(plugin: Plugin) -> Iterator[Issue]:
    from ..problems import problem

    model, again = problem(plugin.name), problem(plugin.name)
    if model != again:
        yield Issue("error", "made twice, it is not the same problem")
    if pickle.loads(pickle.dumps(model)) != model:
        yield Issue("error", "sent to another process, it is not the same problem")
    yield from (found for found in check_model(model) if not plugin.built_in or found.severity == "error")


def _executors(plugin: Plugin) -> Iterator[Issue]:
    """Check that results have the same bytes as in this process, and that errors arrive as raised."""
    from .executors import engine
    from .jobs import perform
    from .results import jobs_of
    from .study import study_from

    study = study_from(_STUDY)
    with engine(plugin.name, 2) as pool:
        futures = {job: pool.submit(perform, study, job) for job in jobs_of(study)}
        for job, future in futures.items():
            if future.result() != perform(study, job):
                yield Issue("error", f"{job.name} gave other bytes than in this process")
        yield from _errors_arrive(pool)


def _errors_arrive(pool: Executor) -> Iterator[Issue]:
    try:
        pool.submit(raise_parse_error, "there").result()
        yield Issue("error", "an error that a job raises is lost")
    except ParseError as error:
        if (error.path, error.line) != ("there", 7):
            yield Issue("error", "an error that a job raises arrives without its details")
    except Exception as error:
        yield Issue("error", f"an error that a job raises arrives as {error!r}")


def raise_parse_error(path: str) -> None:
    """Raise an error that has details; by a worker process, which imports this function."""
    raise ParseError("raised on purpose", path=path, line=7)


def _formats(plugin: Plugin) -> Iterator[Issue]:
    """Check that a format refuses bytes that are no model, and reads the models that it writes."""
    from ..io.formats import format_of
    from ..problems import problem

    known = format_of(f".{plugin.name}")
    assert known is not None  # `load` raises otherwise
    path = f"model.{plugin.name}"
    for junk in (b"", b"\xff\xfe\x00", b"{}", b"no model"):
        try:
            known.read(junk, path, max_entries=10_000, rows=None)
            yield Issue("error", f"the bytes {junk!r} were read as a model")
        except ParseError:
            pass
        except Exception as error:
            yield Issue("error", f"the bytes {junk!r} raise {error!r}, not a ParseError")
    if known.write is None:
        yield Issue("info", "it only reads: no model was written and read back")
        return
    for name in ("tiger", "machine-repair", "no-sensor"):
        model = problem(name)
        if known.read(known.write(model), path, max_entries=10_000, rows=None) != model:
            yield Issue("error", f"{name} is another model after it was written and read back")


_CHECKS: dict[str, Callable[[Plugin], Iterator[Issue]]] = {
    "priors": _priors,
    "agents": _agents,
    "planners": _planners,
    "problems": _problems,
    "executors": _executors,
    "formats": _formats,
}
