"""Skeleton of a planner: a function that returns a policy and an interval for the optimal average cost.

Copy this file, replace the parts marked CHANGE, and run it: `python planner.py` checks the planner.
An agent uses it with `PSRLAgent(prior, planner=my_planner)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from psrl_pomdp import POMDP, Plan, plan
from psrl_pomdp.testing import check_planner

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MySolution:
    """A policy over beliefs with the bounds that hold for it."""

    lower: float  # bound on the optimal average cost, in the user's units
    upper: float
    status: str  # why planning stopped
    policy: Plan

    def action(self, belief: Array) -> int:
        """Return the action to take at a belief, shape [S]."""
        return self.policy.action(belief)  # CHANGE


def my_planner(model: POMDP, tolerance: float = 1e-4, time_limit: float | None = None) -> MySolution:
    """Plan for a model; `tolerance` is the largest width of the interval, as a fraction of the cost range."""
    found = plan(model, tolerance, time_limit)  # CHANGE: this skeleton calls the planner of the package
    return MySolution(found.lower, found.upper, found.status, found)


if __name__ == "__main__":
    for issue in check_planner(my_planner):
        print(issue)
