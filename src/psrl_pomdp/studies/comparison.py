"""Comparison of agents: their prior information, regret, time and memory, and which has less regret.

All agents of a study run on the same true models with the same random numbers, run by run. The comparison of
a pair uses the differences of regret between runs of the same number: the optimal average cost J cancels, and
so does most of the noise.

A difference is significant if Student's interval for its mean does not contain zero. Holm's method shares the
level among all pairs: with probability at least `level` no significant difference of the table is wrong, as
far as the mean of that many runs is normal. A verdict names the better agent, so that each pair stands for
two one-sided hypotheses, and the method is applied to twice as many hypotheses as there are pairs. Pairs of
agents with different prior information are compared too; `same_information` marks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np
from scipy import stats

from .._utils.deprecation import warn_renamed
from ..analysis.estimators import RegretCurve
from ..inference.choosing import DIRICHLET, FINITE, default_kind, finite_prior_of
from ..models import POMDP
from .agent_kinds import KINDS, NOTHING, kind_of
from .store import Store
from .study import AgentSpec
from .study_results import StudyResults
from .summary import curves

LEVEL = 0.99


def compare(
    source: Store | StudyResults, refused: dict[str, str] | None = None, level: float = LEVEL
) -> dict[str, Any]:
    """Return a comparison as plain data.

    Parameters
    ----------
    source
        The study.
    refused
        Agents that do not fit the problem, each with the reason. They are copied into the result.
    level
        The confidence level of all significant differences together.

    Returns
    -------
    dict
        `agents` has a row for each agent, and `pairs` a row for each pair of agents.
    """
    results = StudyResults.of(source)
    found, took = curves(results), effects(results)
    study = results.study
    model = None if study.file_sha256 else results.experiment.problem  # the file may be gone
    information = {agent.label: information_of(agent, model) for agent in study.agents}
    finished = [agent for agent in study.agents if agent.label in found]
    times = decades(found[finished[0].label].times.tolist()) if finished else []
    return {
        "problem": study.problem,
        "truth": study.truth,
        "horizon": study.horizon,
        "seeds": study.seeds,
        "times": times,
        "level": level,
        "agents": [
            {
                "agent": agent.label,
                "kind": agent.kind,
                "about": kind_of(agent.kind).about,
                "information": information[agent.label],
                "told": information[agent.label],  # the old key, until version 0.4
                **_regret(found[agent.label], times),
                **took.get(agent.label, _NOTHING),
            }
            for agent in finished
        ],
        "pairs": [
            pair | {"same_information": information[pair["better"]] == information[pair["worse"]]}
            for pair in verdicts(final_regrets(results), level)
        ],
        "refused": refused or {},
    }


def default_agents(model: POMDP, prior: str = "") -> dict[str, dict[str, Any]]:
    """Return the agents of a comparison that names none: a table of a study for each, by label.

    Agents with a prior have a Dirichlet prior. If the problem has a finite prior too, there is also
    PSRL-POMDP with that. An explicit `prior` applies to all agents that use one.
    """
    own = prior or DIRICHLET
    family = not prior and finite_prior_of(model) is not None
    other = "tsde" if own == FINITE else "doubling"
    tables: dict[str, dict[str, Any]] = {
        "psrl": {"prior": own},
        "psrl-family": {"kind": "psrl", "prior": FINITE},
        f"psrl-{other}": {"kind": "psrl", "prior": own, "schedule": other},
        "psrl-fixed-100": {"kind": "psrl", "prior": own, "schedule": "fixed-100"},
        "mean": {"prior": own},
        "mean-exploring": {"kind": "mean", "prior": own, "options": {"exploration": 1.0}},
        "map": {"prior": own},
        "map-exploring": {"kind": "map", "prior": own, "options": {"exploration": 1.0}},
        "ba-pomcp": {"prior": own} if prior else {},
    }
    tables |= {kind: {} for kind in KINDS if kind not in tables}
    return {
        label: {"kind": label, "name": label} | table
        for label, table in tables.items()
        if family or label != "psrl-family"
    }


def plugin_agent(name: str, prior: str = "") -> dict[str, Any]:
    """Return the table of a study for a kind of another package, by its name or importable path.

    Raises `UnknownNameError` where there is no such kind.
    """
    kind = kind_of(name)
    table = {"kind": name, "name": AgentSpec(name).label}
    return table | ({"prior": prior} if prior and kind.uses_prior else {})


def information_of(agent: AgentSpec, model: POMDP | None = None) -> str:
    """Return the prior information of an agent. A finite prior is more information than a Dirichlet prior.

    An agent without an explicit prior has the finite prior of `model` if there is one. A prior of another
    package, or of the user, is information of its own: it is called by its name or path. A sensor that the
    agent learns is less than a known one, and cells are less than readings.
    """
    information = _information_of(agent, model)
    options = agent.prior if isinstance(agent.prior, dict) else {}
    if "sensor" in options:
        information = information.replace("sensor", "learned sensor")
    if "costs" in options:
        information += ", learned costs"
    return f"{information}, {agent.cells} cells" if agent.cells and information != NOTHING else information


def _information_of(agent: AgentSpec, model: POMDP | None) -> str:
    """Return the prior information of an agent without the options of its prior."""
    kind = kind_of(agent.kind)
    if not kind.uses_prior:
        return kind.information
    prior = default_kind(model, agent.prior_kind or kind.default_prior)
    if prior == FINITE:
        return "sensor, family"
    return kind.information if prior == DIRICHLET else f"sensor, {prior}"


def decades(times: Sequence[int]) -> list[int]:
    """Return the checkpoints that a table shows: powers of ten from 100 on, and the last."""
    return [t for t in times if t == times[-1] or (t >= 100 and 10 ** round(np.log10(t)) == t)]


def _regret(curve: RegretCurve, times: Sequence[int]) -> dict[str, Any]:
    """Return the regret at these times with its interval."""
    low, high = curve.interval
    at = np.searchsorted(curve.times, times)
    several = curve.n_runs > 1
    return {
        "runs": curve.n_runs,
        "regret": curve.middle[at].tolist(),
        "interval": np.stack([low[at], high[at]], axis=1).tolist() if several else None,
    }


# -- significant differences -----------------------------------------------------------------------


def final_regrets(results: StudyResults) -> dict[str, dict[int, float]]:
    """Return the regret at the horizon by agent and run. The term T J cancels in differences."""
    return {
        agent: {result.run: result.final_regret for result in runs}
        for agent, runs in results.by_agent.items()
    }


def verdicts(found: dict[str, dict[int, float]], level: float = LEVEL) -> list[dict[str, Any]]:
    """Return a row for each pair, ordered by p-value; `sure` marks the significant differences.

    For m pairs there are 2m one-sided hypotheses: each agent of a pair is not better than the other. After i
    rejections at most 2m − i hypotheses can be true. So Holm's method rejects the next one if its one-sided
    p-value, half of the two-sided one, is at most (1 − level) / (2m − i).

    >>> noise = {run: 0.01 * run for run in range(8)}
    >>> [pair] = verdicts({"a": {run: 5.0 for run in noise}, "b": noise})
    >>> pair["better"], pair["worse"], pair["sure"]
    ('b', 'a', True)
    """
    pairs = [_difference(a, b, found[a], found[b]) for a, b in combinations(found, 2)]
    known = sorted((pair for pair in pairs if pair), key=lambda pair: float(pair["p"]))
    rejected = True  # after the first hypothesis that is not rejected, none is
    for i, pair in enumerate(known):
        rejected = rejected and float(pair["p"]) <= (1.0 - level) / (len(known) - 0.5 * i)
        pair["sure"] = rejected
    return known


def _difference(a: str, b: str, first: dict[int, float], second: dict[int, float]) -> dict[str, Any]:
    """Return the mean difference over common runs with Student's 95 % interval and two-sided p-value.

    Fewer than two common runs give {}. If all n differences are equal, Student's test is undefined, and p is
    that of the sign test, 2^(1 − n).
    """
    runs = sorted(first.keys() & second.keys())
    if len(runs) < 2:
        return {}
    gaps = np.array([second[run] - first[run] for run in runs])
    mean, error = float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(runs)))
    if mean < 0:
        a, b, mean = b, a, -mean
    if error > 1e-9 * mean:  # a smaller error is rounding
        p = float(2 * stats.t.sf(mean / error, len(runs) - 1))
    else:
        p = 2.0 ** (1 - len(runs)) if mean else 1.0
    width = float(stats.t.ppf(0.975, len(runs) - 1)) * error
    return {"better": a, "worse": b, "difference": mean, "interval": [mean - width, mean + width], "p": p}


# -- time and memory --------------------------------------------------------------------------------

_NOTHING: dict[str, float | None] = {"microseconds_a_step": None, "planning_seconds": None, "memory": None}


def effects(results: StudyResults) -> dict[str, dict[str, float | None]]:
    """Return time and memory of each agent: medians over its runs, some of which include compilation."""
    by_agent: dict[str, list[dict[str, Any]]] = {}
    for job, effect in results.effects.items():
        by_agent.setdefault(job.rpartition("-")[0], []).append(effect)
    return {agent: _medians(costs, results.study.horizon) for agent, costs in by_agent.items()}


def _medians(costs: list[dict[str, Any]], horizon: int) -> dict[str, float | None]:
    memory = [effect["memory"] for effect in costs if effect["memory"] is not None]
    return {
        "microseconds_a_step": 1e6 * median(effect["seconds"] / effect["steps"] for effect in costs),
        "planning_seconds": horizon * median(effect["planning"] / effect["steps"] for effect in costs),
        "memory": median(memory) if memory else None,
    }


_RENAMED = {"contestants": "default_agents", "told_of": "information_of", "finals": "final_regrets"}


def __getattr__(name: str) -> Any:
    """Return a function by its old name, with a warning."""
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_renamed(f"{__name__}.{name}", f"{__name__}.{_RENAMED[name]}")
    return globals()[_RENAMED[name]]
