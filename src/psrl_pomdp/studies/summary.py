"""What a study says, in a few numbers for each agent."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..analysis.bounds import Constant
from ..analysis.decomposition import Decomposition, decompose_sums
from ..analysis.estimators import RegretCurve
from ..analysis.growth import fit_growth
from .store import Store
from .study_results import StudyResults


def curves(source: Store | StudyResults) -> dict[str, RegretCurve]:
    """The regret of each agent over its finished runs, by the control variate."""
    found = {}
    for agent, runs in StudyResults.of(source).by_agent.items():
        ends = np.array([result.regret_interval() for result in runs])  # [R, 2, K]
        found[agent] = RegretCurve("control_variate", np.array(runs[0].times), ends[:, 0], ends[:, 1])
    return found


def decomposition(source: Store | StudyResults, agent: str) -> Decomposition:
    """The paper's terms over an agent's finished runs, with H the largest span of what was played."""
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
            "the largest span of a value function that was played, or above",
        ),
        units=runs[0].units,
    )


def violations(source: Store | StudyResults) -> list[str]:
    """What the paper's lemmas say of every run, and some run did not keep to."""
    return [f"{r.job.name}: {text}" for r in StudyResults.of(source).runs for text in r.violations]


def summarise(source: Store | StudyResults) -> dict[str, Any]:
    """Plain data: regret at the horizon with its interval, growth and posterior, agent by agent."""
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
