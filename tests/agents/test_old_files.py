"""Files that earlier versions wrote: they load, and go on as they would have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from psrl_pomdp import Plan, PSRLAgent, problem, verify

DATA = Path(__file__).parents[1] / "data"
WANTED = json.loads((DATA / "version_0_1.json").read_text())


@pytest.mark.parametrize("name", ["agent_finite_0_1.npz", "agent_dirichlet_0_1.npz"])
def test_agents_of_version_0_1_play_on(name: str, tmp_path: Path) -> None:
    agent = PSRLAgent.load(DATA / name)
    agent.save(tmp_path / "new.npz")
    again = PSRLAgent.load(tmp_path / "new.npz")
    readings, actions = WANTED[name]["readings"], WANTED[name]["actions"]
    assert [agent.act(o) for o in readings] == actions
    assert [again.act(o) for o in readings] == actions


def test_a_plan_of_version_0_1_is_the_same() -> None:
    name = "plan_tiger_0_1.npz"
    found, wanted = Plan.load(DATA / name), WANTED[name]
    assert [found.action([p, 1.0 - p]) for p in wanted["right"]] == wanted["actions"]
    assert (found.lower, found.upper) == (wanted["lower"], wanted["upper"])
    assert verify(found, problem("tiger")) == pytest.approx((found.lower, found.upper), abs=1e-9)
