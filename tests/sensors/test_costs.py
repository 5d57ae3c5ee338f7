"""Costs that are seen: which value stands for a cost, and the distribution of noisy costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from psrl_pomdp import (
    POMDP,
    InvalidModelError,
    OutOfOrderError,
    PSRLAgent,
    Setting,
    UnknownNameError,
    plan,
)
from psrl_pomdp.inference import FinitePrior
from psrl_pomdp.sensors.costs import SeenCosts

COST = [[0.0, 50.0], [20.0, 20.0]]
KERNEL = [[[0.95, 0.05], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]]


def setting(**changes: Any) -> Setting:
    return Setting([[0.9, 0.1], [0.2, 0.8]], COST, [1.0, 0.0], **changes)


def test_exact_costs_have_one_value_for_each_cost() -> None:
    seen = SeenCosts.exact(COST)
    assert seen.values.tolist() == [0.0, 20.0, 50.0]
    assert seen.probabilities.argmax(axis=2).tolist() == [[0, 2], [1, 1]]
    assert [seen.number(c) for c in (0, 20.0, np.float32(50))] == [0, 1, 2]


@pytest.mark.parametrize("cost", [19.0, "20", True, float("nan"), float("inf"), [20.0]])
def test_a_cost_that_cannot_be_is_refused(cost: Any) -> None:
    with pytest.raises(UnknownNameError, match="cost"):
        SeenCosts.exact(COST).number(cost)


def test_intervals_of_noisy_costs_have_the_probabilities_of_the_normal_distribution() -> None:
    sd = np.array([[1.0, 30.0], [5.0, 2.0]])
    seen = SeenCosts.gaussian(COST, sd, 8)
    assert seen.edges is not None
    for (a, s), mean in np.ndenumerate(np.array(COST)):
        below = norm.cdf(seen.edges, mean, sd[a, s])
        assert seen.probabilities[a, s] == pytest.approx(np.diff(np.r_[0.0, below, 1.0]), abs=1e-12)
    cells = [seen.number(c) for c in (-1e6, *seen.edges, 1e6)]
    assert cells[0] == 0
    assert cells[-1] == seen.n_values - 1
    assert cells == sorted(cells)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("sometimes", 'expected "exact"'),
        (SeenCosts.exact([[1.0, 2.0, 3.0]]), "seen_cost is for 1 actions and 3 states"),
        (True, "seen_cost is True"),
    ],
)
def test_a_setting_refuses_other_costs(wrong: Any, says: str) -> None:
    with pytest.raises(InvalidModelError, match=says):
        setting(seen_cost=wrong)


def test_a_cost_is_refused_where_costs_are_not_seen_and_before_the_first_action() -> None:
    agent = PSRLAgent(FinitePrior(setting(), [KERNEL]))
    with pytest.raises(OutOfOrderError, match="no action was taken"):
        agent.act(0, cost=20.0)
    agent.act(0)
    with pytest.raises(InvalidModelError, match="does not say that costs are seen"):
        agent.act(0, cost=20.0)
    assert agent.time == 1
    assert agent.act(0, cost=None) in (0, 1)


def test_seen_costs_lower_the_optimal_cost() -> None:
    """With an observation that says nothing, the cost of the last step is all that the agent knows."""
    blind = Setting([[1.0], [1.0]], COST, [1.0, 0.0])
    without, seen = (plan(POMDP(s, KERNEL), 1e-4) for s in (blind, blind.replace(seen_cost="exact")))
    # Once it has cost 50 the machine is worn: the agent replaces it, so that a life of 1/.05 steps costs 70.
    assert seen.lower - 1e-3 <= 70 / 22 <= seen.upper + 1e-3
    assert without.lower > seen.upper
