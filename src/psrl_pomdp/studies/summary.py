"""What a study says, in a few numbers for each agent."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..analysis.bounds import Constant
from ..analysis.decomposition import Decomposition, decompose_sums
from ..analysis.estimators import RegretCurve, curve_from_sums
from ..analysis.growth import fit_growth
from ..models.model import Units
from .store import Store


def curves(store: Store, column: str = "control") -> dict[str, RegretCurve]:
    """The regret of each agent over its finished runs, by the control variate or another column of sums."""
    by_agent: dict[str, list[dict[str, Any]]] = {}
    for result in store.done():
        by_agent.setdefault(result["agent"], []).append(result)
    return {
        agent: curve_from_sums(
            results[0]["times"],
            [result[column] for result in results],
            [result["truth"]["lower"] for result in results],
            [result["truth"]["upper"] for result in results],
            units=Units(*results[0]["units"]),
        )
        for agent, results in by_agent.items()
    }


def decomposition(store: Store, agent: str) -> Decomposition:
    """The paper's terms over an agent's finished runs, with H the largest span of what was played."""
    results = [result for result in store.done() if result["agent"] == agent]
    names = ("cost", "expected_cost", "belief_gap", "kernel_gap", "cost_gap")
    times = np.array(results[0]["times"])
    spans = [span for result in results for span in result["episodes"]["span"] if span is not None]
    begun = [np.searchsorted(result["episodes"]["start"], times, side="right") for result in results]
    return decompose_sums(
        times,
        np.array([[result[name] for name in names] for result in results]).transpose(0, 2, 1),
        np.array(begun),
        np.array([result["promised"] for result in results]),
        [result["truth"]["lower"] for result in results],
        [result["truth"]["upper"] for result in results],
        Constant(max(spans), "computed", "the largest span of a value function that was played, or above"),
        units=Units(*results[0]["units"]),
    )


def violations(store: Store) -> list[str]:
    """What the paper's lemmas say of every run, and some run did not keep to."""
    return [f"{r['agent']}-{r['run']:05d}: {text}" for r in store.done() for text in r["violations"]]


def summarise(store: Store) -> dict[str, Any]:
    """Plain data: regret at the horizon with its interval, growth and posterior, agent by agent."""
    study = store.study
    found = {agent: _row(agent, curve) for agent, curve in curves(store).items()}
    finals: dict[str, list[float]] = {}
    for result in store.done():
        if result["posterior"] is not None:
            finals.setdefault(result["agent"], []).append(result["posterior"][-1])
    for agent, values in finals.items():
        found[agent]["posterior"] = float(np.mean(values))
    what = "Bayesian regret" if study.truth == "prior" else "Regret"
    return {
        "title": study.title or f"{what} after {study.horizon} steps of {study.problem}",
        "problem": study.problem,
        "truth": study.truth,
        "horizon": study.horizon,
        "seeds": study.seeds,
        "agents": [found[agent.label] for agent in study.agents if agent.label in found],
        "violations": violations(store),
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
