"""How well to plan: what is refused, and what comes back from a file."""

from __future__ import annotations

from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import InvalidModelError, PlanningBudget, PSRLAgent
from psrl_pomdp.agents.baselines import MeanAgent
from random_agents import COARSE, dirichlet, family

NONSENSE = {
    "min_tolerance": (-0.1, nan, None),
    "max_tolerance": (0.0, nan, None, "0.1"),
    "max_work": (-1, nan, "many", True),
    "max_points": (0, 500.5, inf, None, True),
    "time_limit": (-1.0, nan, "1"),
    "rtol": (0.0, -1.0, nan, "0.1", True),
    "atol": (0.0, -1.0, nan, "0.1"),
}


@pytest.mark.parametrize(("name", "value"), [(k, v) for k, values in NONSENSE.items() for v in values])
def test_a_number_that_makes_no_sense_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidModelError, match=rf"^budget\.{name} is "):
        PlanningBudget(**{name: value})


def budget_of(**numbers: Any) -> PlanningBudget:
    """With numpy's numbers too, which the types of `PlanningBudget` do not name."""
    return PlanningBudget(**numbers)


@pytest.mark.parametrize(
    "budget",
    [
        PlanningBudget(rtol=inf),
        PlanningBudget(atol=inf, max_work=inf, time_limit=inf),
        PlanningBudget(rtol=np.float64(0.1), atol=np.float64(0.3)),
        budget_of(min_tolerance=np.float32(0.1), max_tolerance=np.float32(0.25), max_work=np.float32(3e8)),
        budget_of(max_points=np.int64(500), max_work=np.int32(10**8)),
        PlanningBudget(max_work=None, max_tolerance=2.0),
        PlanningBudget(max_work=0, min_tolerance=0.0),
    ],
    ids=repr,
)
def test_whatever_effort_was_made_comes_back_from_a_file(budget: PlanningBudget) -> None:
    agent = PSRLAgent(family(1), budget=budget)
    agent.act(0)
    again = PSRLAgent.from_bytes(agent.to_bytes())
    assert again.budget == budget
    assert again.to_bytes() == agent.to_bytes()


@pytest.mark.parametrize("kind", [PSRLAgent, MeanAgent])
def test_agents_from_one_file_draw_by_their_seeds(kind: type[PSRLAgent], tmp_path: Path) -> None:
    template = kind(dirichlet(family(1).setting), seed=3, budget=COARSE)
    for reading in (0, 1, 2):
        template.act(reading)
    template.save(tmp_path / "agent.npz")

    def lives(seed: int | None) -> tuple[bytes, bytes, PSRLAgent]:
        agent = kind.load(tmp_path / "agent.npz", seed=seed)
        assert type(agent) is kind
        before = agent.rng.bytes(8)
        agent.posterior.refresh()
        return before, agent.posterior.kernels.tobytes(), agent

    def same(one: tuple[bytes, bytes, PSRLAgent], other: tuple[bytes, bytes, PSRLAgent]) -> list[bool]:
        return [one[0] == other[0], one[1] == other[1]]

    assert same(lives(1), lives(1)) == [True, True]
    assert same(lives(1), lives(2)) == [False, False]
    assert same(lives(1), lives(None)) == [False, False]
    assert same(lives(None), lives(None)) == [True, True]
    assert kind.load(tmp_path / "agent.npz").to_bytes() == template.to_bytes()
    first = kind(template.prior, seed=1, budget=COARSE)
    assert lives(1)[0] != first.rng.bytes(8)  # nor what an agent made with this seed has drawn
    agent = lives(1)[2]
    assert agent.posterior._rng is agent.posterior_rng
    assert agent.time == 3
    assert agent.act(1) in (0, 1)
