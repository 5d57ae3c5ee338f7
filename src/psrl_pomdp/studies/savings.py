"""The total cost of each agent of a study, and its savings relative to one of the agents.

The total cost of a run is estimated with the control variate, whose expectation is the expected total cost
and whose variance is much smaller (`analysis.estimators`). In each run all agents face the same true model
with the same random numbers. Therefore savings are means over runs of the difference in one run, with
Student's interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .._utils.arrays import Array
from ..analysis.estimators import standard_error, student
from .store import Store
from .study_results import StudyResults

_LEVEL = 0.95


@dataclass(frozen=True)
class Amount:
    """A mean over runs, and half the width of its 95 % interval; None for a single run."""

    mean: float
    half_width: float | None

    @classmethod
    def of(cls, values: Array) -> Amount:
        """Return the mean over runs with Student's interval."""
        if len(values) < 2:
            return cls(float(values.mean()), None)
        error = float(standard_error(values[:, None])[0])
        return cls(float(values.mean()), student(_LEVEL, len(values)) * error)


@dataclass(frozen=True)
class Saving:
    """The total costs, or rewards, of one agent in the user's units."""

    agent: str
    runs: int
    total: Amount  # per run
    average: float  # per step
    saved: (
        Amount | None
    )  # per run, relative to the baseline; positive if the agent is better than the baseline
    share: float | None  # the savings as a fraction of the baseline's total cost


def savings(source: Store | StudyResults, baseline: str) -> dict[str, Saving]:
    """Return the costs of each agent and its savings relative to the agent `baseline`, by name.

    The savings use only the runs that both agents have finished.
    """
    results = StudyResults.of(source)
    if not results.runs:
        return {}
    units, horizon = results.units, results.study.horizon
    worse = 1.0 if units.kind == "cost" else -1.0
    best = horizon * float(units.from_scaled(0.0))
    totals = {
        agent: {r.run: best + worse * float(units.difference(r.control[-1])) for r in runs}
        for agent, runs in results.by_agent.items()
    }
    base = totals.get(baseline, {})
    return {
        agent: _saving(agent, own, {} if agent == baseline else base, horizon, worse)
        for agent, own in totals.items()
    }


def _saving(
    agent: str, own: Mapping[int, float], base: Mapping[int, float], horizon: int, worse: float
) -> Saving:
    total = Amount.of(np.array(list(own.values())))
    common = sorted(own.keys() & base.keys())
    saved = share = None
    if common:
        saved = Amount.of(worse * np.array([base[run] - own[run] for run in common]))
        before = float(np.mean([base[run] for run in common]))
        share = saved.mean / abs(before) if before else None
    return Saving(agent, len(own), total, total.mean / horizon, saved, share)
