"""A head-to-head of learners: what each was told, what it cost, what it took, and who is ahead of whom.

All agents of a study meet the same worlds and the same chance, run by run. So a pair is compared by its
differences of regret, run by run: J cancels, and most of the chance does. A verdict is given where
Student's interval for the mean difference leaves out zero at the level asked for, shared among all pairs by
Holm's rule: with probability at least that level, no verdict of the table is wrong (as far as mean
differences of that many runs are normal). A verdict says who is ahead, so that each pair stands for two
hypotheses, one a direction, and the rule is applied to twice as many as there are pairs. Learners that were
told different things are compared all the same, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np
from scipy import stats

from ..analysis.estimators import RegretCurve
from ..inference.choosing import DIRICHLET, FINITE, default_kind, finite_prior_of
from ..models import POMDP
from .agent_kinds import KINDS, kind_of
from .store import Store
from .study import AgentSpec
from .study_results import StudyResults
from .summary import curves

LEVEL = 0.99


def compare(
    source: Store | StudyResults, refused: dict[str, str] | None = None, level: float = LEVEL
) -> dict[str, Any]:
    """Plain data: a row for every learner, a verdict for every pair; `refused` are those that did not fit."""
    results = StudyResults.of(source)
    found, took = curves(results), effects(results)
    study = results.study
    model = None if study.file_sha256 else results.experiment.problem  # a file may be gone, and has no family
    told = {agent.label: told_of(agent, model) for agent in study.agents}
    there = [agent for agent in study.agents if agent.label in found]
    times = decades(found[there[0].label].times.tolist()) if there else []
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
                "told": told[agent.label],
                **_regret(found[agent.label], times),
                **took.get(agent.label, _NOTHING),
            }
            for agent in there
        ],
        "pairs": [
            pair | {"same_information": told[pair["better"]] == told[pair["worse"]]}
            for pair in verdicts(finals(results), level)
        ],
        "refused": refused or {},
    }


def contestants(model: POMDP, prior: str = "") -> dict[str, dict[str, Any]]:
    """Who takes part unless somebody else is asked for, by label, as tables of a study.

    Learners with a prior have Dirichlet rows, which any problem has; where there is a finite family too,
    PSRL-POMDP also plays with that. `prior` gives all of them the one or the other.
    """
    own = prior or DIRICHLET
    family = not prior and finite_prior_of(model) is not None
    other = "tsde" if own == FINITE else "doubling"
    asked: dict[str, dict[str, Any]] = {
        "psrl": {"prior": own},
        "psrl-family": {"kind": "psrl", "prior": FINITE},
        f"psrl-{other}": {"kind": "psrl", "prior": own, "schedule": other},
        "psrl-fixed-100": {"kind": "psrl", "prior": own, "schedule": "fixed-100"},
        "mean": {"prior": own},
        "mean-exploring": {"kind": "mean", "prior": own, "options": {"exploration": 1.0}},
        "map": {"prior": own},
        "map-exploring": {"kind": "map", "prior": own, "options": {"exploration": 1.0}},
    }
    asked |= {kind: {} for kind in KINDS if kind not in asked}
    return {
        label: {"kind": label, "name": label} | words
        for label, words in asked.items()
        if family or label != "psrl-family"
    }


def invited(name: str, prior: str = "") -> dict[str, Any]:
    """Return a kind of another package, by name or importable path, as a table of a study.

    It takes part only where it is named. Raises `UnknownNameError` where there is none.
    """
    kind = kind_of(name)
    words = {"kind": name, "name": AgentSpec(name).label}
    return words | ({"prior": prior} if prior and kind.uses_prior else {})


def told_of(agent: AgentSpec, model: POMDP | None = None) -> str:
    """What an agent is told, in words; a finite family is more than rows.

    An agent whose prior is left open has the family where `model` has one.
    """
    kind = kind_of(agent.kind)
    has_family = kind.uses_prior and default_kind(model, agent.prior_kind) == FINITE
    return "sensor, family" if has_family else kind.told


def decades(times: Sequence[int]) -> list[int]:
    """Those of the checkpoints that a table shows: powers of ten from 100 on, and the last."""
    return [t for t in times if t == times[-1] or (t >= 100 and 10 ** round(np.log10(t)) == t)]


def _regret(curve: RegretCurve, times: Sequence[int]) -> dict[str, Any]:
    """Regret at these times with its interval, and the whole curve for figures."""
    low, high = curve.interval
    at = np.searchsorted(curve.times, times)
    several = curve.n_runs > 1
    return {
        "runs": curve.n_runs,
        "regret": curve.middle[at].tolist(),
        "interval": np.stack([low[at], high[at]], axis=1).tolist() if several else None,
    }


# -- who is ahead -----------------------------------------------------------------------------------


def finals(results: StudyResults) -> dict[str, dict[int, float]]:
    """By agent and run: the regret at the horizon. T J is in it, and cancels in differences."""
    return {
        agent: {result.run: result.final_regret for result in runs}
        for agent, runs in results.by_agent.items()
    }


def verdicts(found: dict[str, dict[int, float]], level: float = LEVEL) -> list[dict[str, Any]]:
    """Every pair, the better one of each first and surest pairs first.

    Of m pairs 2m hypotheses are tested, that the one is not ahead and that the other is not. After i of them
    are rejected at most 2m − i are true, so that Holm's rule rejects the next where its one-sided p, half of
    the two-sided one, is within (1 − level) / (2m − i).

    >>> noise = {run: 0.01 * run for run in range(8)}
    >>> [pair] = verdicts({"a": {run: 5.0 for run in noise}, "b": noise})
    >>> pair["better"], pair["worse"], pair["sure"]
    ('b', 'a', True)
    """
    pairs = [_difference(a, b, found[a], found[b]) for a, b in combinations(found, 2)]
    known = sorted((pair for pair in pairs if pair), key=lambda pair: float(pair["p"]))
    still = True
    for i, pair in enumerate(known):
        still = still and float(pair["p"]) <= (1.0 - level) / (
            len(known) - 0.5 * i
        )  # after a failure all fail
        pair["sure"] = still
    return known


def _difference(a: str, b: str, first: dict[int, float], second: dict[int, float]) -> dict[str, Any]:
    """The mean difference over the runs that both have, with Student's 95 % interval and p; {} for under two.

    Where all n differences are the same, Student has nothing to go by, and p is that of the signs, 2^(1 − n).
    """
    runs = sorted(first.keys() & second.keys())
    if len(runs) < 2:
        return {}
    gaps = np.array([second[run] - first[run] for run in runs])
    mean, error = float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(runs)))
    if mean < 0:
        a, b, mean = b, a, -mean
    if error > 1e-9 * mean:  # less is rounding
        p = float(2 * stats.t.sf(mean / error, len(runs) - 1))
    else:
        p = 2.0 ** (1 - len(runs)) if mean else 1.0
    width = float(stats.t.ppf(0.975, len(runs) - 1)) * error
    return {"better": a, "worse": b, "difference": mean, "interval": [mean - width, mean + width], "p": p}


# -- what it took -----------------------------------------------------------------------------------

_NOTHING: dict[str, float | None] = {"microseconds_a_step": None, "planning_seconds": None, "memory": None}


def effects(results: StudyResults) -> dict[str, dict[str, float | None]]:
    """By agent, medians over its runs: compiling, and other programs on the machine, are in some of them."""
    by_agent: dict[str, list[dict[str, Any]]] = {}
    for job, effect in results.effects.items():
        by_agent.setdefault(job.rpartition("-")[0], []).append(effect)
    return {agent: _medians(some, results.study.horizon) for agent, some in by_agent.items()}


def _medians(some: list[dict[str, Any]], horizon: int) -> dict[str, float | None]:
    memory = [effect["memory"] for effect in some if effect["memory"] is not None]
    return {
        "microseconds_a_step": 1e6 * median(effect["seconds"] / effect["steps"] for effect in some),
        "planning_seconds": horizon * median(effect["planning"] / effect["steps"] for effect in some),
        "memory": median(memory) if memory else None,
    }
