"""Summaries of a study: regret curves, decompositions, and one row of numbers for each agent."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.deprecation import warn_renamed
from ..analysis.bounds import Constant
from ..analysis.decomposition import Decomposition, decompose_sums
from ..analysis.estimators import RegretCurve
from ..analysis.growth import fit_growth
from .store import Store
from .study_results import StudyResults


def curves(source: Store | StudyResults) -> dict[str, RegretCurve]:
    """Return the regret curve of each agent, estimated with the control variate from its finished runs."""
    found = {}
    for agent, runs in StudyResults.of(source).by_agent.items():
        ends = np.array([result.regret_interval() for result in runs])  # [R, 2, K]
        found[agent] = RegretCurve("control_variate", np.array(runs[0].times), ends[:, 0], ends[:, 1])
    return found


def decomposition(source: Store | StudyResults, agent: str) -> Decomposition:
    """Return the paper's decomposition of regret over the finished runs of an agent.

    H is the largest span of the plans that the agent played.
    """
    runs = StudyResults.of(source).by_agent[agent]
    times = np.array(runs[0].times)
    sums = [(r.cost, r.expected_cost, r.belief_gap, r.kernel_gap, r.cost_gap) for r in runs]
    return decompose_sums(
        times,
        np.array(sums, np.float64).transpose(0, 2, 1),
        np.array([np.searchsorted(result.episodes.start, times, side="right") for result in runs]),
        np.array([result.promised for result in runs]),
        [result.truth.lower for result in runs],
        [result.truth.upper for result in runs],
        Constant(
            max(span for result in runs for span in result.episodes.span or () if span is not None),
            "computed",
            "the largest bound on the span of a plan that was played",
        ),
        units=runs[0].units,
    )


def violations(source: Store | StudyResults) -> list[str]:
    """Return the violated inequalities of the paper's lemmas, each with the name of the run."""
    return [f"{r.job.name}: {text}" for r in StudyResults.of(source).runs for text in r.violations]


def summarize(source: Store | StudyResults) -> dict[str, Any]:
    """Return the regret at the horizon with its interval, the growth and the posterior of each agent.

    The result is a dictionary that can be written as JSON; its key `agents` has a row for each agent.
    """
    results = StudyResults.of(source)
    study = results.study
    found = {agent: _row(agent, curve) for agent, curve in curves(results).items()}
    for agent, runs in results.by_agent.items():
        finals = [result.posterior[-1] for result in runs if result.posterior is not None]
        if finals:
            found[agent]["posterior"] = float(np.mean(finals))
    what = "Bayesian regret" if study.truth == "prior" else "Regret"
    return {
        "title": study.title or f"{what} after {study.horizon} steps of {study.problem}",
        "problem": study.problem,
        "truth": study.truth,
        "horizon": study.horizon,
        "seeds": study.seeds,
        "agents": list(found.values()),
        "violations": violations(results),
    }


def _row(agent: str, curve: RegretCurve) -> dict[str, Any]:
    low, high = curve.interval
    return {
        "agent": agent,
        "runs": curve.n_runs,
        "regret": float(curve.middle[-1]),
        "interval": [float(low[-1]), float(high[-1])] if curve.n_runs > 1 else None,
        "growth": fit_growth(curve).verdict
        if curve.n_runs > 1 and len(curve.times) > 12
        else "too little data",
        "times": curve.times.tolist(),
        "curve": curve.middle.tolist(),
        "curve_low": low.tolist() if curve.n_runs > 1 else None,
        "curve_high": high.tolist() if curve.n_runs > 1 else None,
        "posterior": None,
    }


_RENAMED = {"summarise": "summarize"}  # names of version 0.1


def __getattr__(name: str) -> object:
    """Return a function by its old name, with a warning."""
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_renamed(f"{__name__}.{name}", f"{__name__}.{_RENAMED[name]}")
    return globals()[_RENAMED[name]]
