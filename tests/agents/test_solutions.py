"""Agents ask solutions for protocols: those of a user's own planner may run compiled, too."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import POMDP, FinitePrior, Plan, PSRLAgent, plan, problem
from psrl_pomdp.agents.baselines.coarse_planner import CoarsePlanner
from psrl_pomdp.errors import CoarsePlanWarning
from psrl_pomdp.planning.plan_files import has_file
from psrl_pomdp.planning.solve import usable_start
from psrl_pomdp.protocols import AlphaVectorPolicy, ScaledBounds
from psrl_pomdp.simulation.runs import simulate

BASIC = ("lower", "upper", "status", "action")
VECTORS = ("states", "controller", "quantized_setting", "cell", "follow")
BOUNDS = ("lower_cost", "upper_cost", "blind_cost", "relative_gap")


class OwnSolution:
    """A solution of a user's own: no `Plan`, with some of its members."""

    def __init__(self, found: Plan, *names: str) -> None:
        for name in (*BASIC, *names):
            setattr(self, name, getattr(found, name))


class OwnPlanner:
    """A user's own planner, which can be saved by name alone."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __call__(self, model: POMDP, tolerance: float = 1e-4, time_limit: float | None = None) -> Any:
        found = plan(model, max(tolerance, 0.01), max_work=1e7)
        return OwnSolution(found, *self.names) if self.names != ("Plan",) else found


def agent_of(*names: str) -> PSRLAgent:
    return PSRLAgent(problem("tiger").prior, seed=5, planner=OwnPlanner(*names))


@pytest.mark.filterwarnings("ignore::psrl_pomdp.errors.CoarsePlanWarning")
def test_compiled_code_follows_vectors_of_any_class() -> None:
    """The actions are those of a `Plan`, step by step and compiled; another solution is asked for each."""
    world, actions = problem("tiger"), []
    for names in (("Plan",), VECTORS, ()):
        agent = agent_of(*names)
        actions.append(simulate(world, agent, 60, 1).actions.tolist())
        assert agent.can_compile == bool(names)
    assert actions[0] == actions[1] != actions[2]  # without vectors, there is no step of lookahead
    streamed = simulate(world, agent_of(*VECTORS), 60, 1, driver="streaming")
    assert streamed.actions.tolist() == actions[0]


def test_an_agent_with_vectors_of_ones_own_is_resumed() -> None:
    agent = agent_of(*VECTORS)
    for i in range(25):
        agent.act(None if not i else i % 2)
    again = agent.restored(agent.to_bytes())
    assert isinstance(again.current_episode.plan, OwnSolution)
    assert [again.act(i % 2) for i in range(30)] == [agent.act(i % 2) for i in range(30)]


def test_only_a_plan_is_stored_and_started_from() -> None:
    world = problem("tiger")
    found = plan(world, 0.01)
    own = OwnSolution(found, *VECTORS, *BOUNDS)
    assert isinstance(own, AlphaVectorPolicy)
    assert isinstance(own, ScaledBounds)
    assert not isinstance(OwnSolution(found), AlphaVectorPolicy | ScaledBounds)
    assert has_file(found)
    assert not has_file(own)
    assert not has_file(None)
    assert usable_start(found, world) is found
    assert usable_start(own, world) is None
    assert usable_start(None, world) is None
    split = POMDP(world.setting.replace(initial=[1.0, 0.0]), np.broadcast_to(np.eye(2), (3, 2, 2)))
    assert usable_start(found, split) is None  # other states are reachable


def test_a_coarse_solution_of_ones_own_is_warned_of() -> None:
    world = problem("tiger")

    class Coarse(OwnPlanner):
        def __call__(self, model: POMDP, tolerance: float = 1e-4, time_limit: float | None = None) -> Any:
            found = super().__call__(model, tolerance, time_limit)
            found.relative_gap = 0.9
            return found

    prior = FinitePrior(world.setting, world.transition[None])
    with pytest.warns(CoarsePlanWarning, match="90 %"):
        PSRLAgent(prior, planner=Coarse(*BOUNDS)).act(None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PSRLAgent(prior, planner=Coarse()).act(None)


def test_solutions_promise_a_cost() -> None:
    world = problem("tiger")
    found, coarse = plan(world, 0.01), CoarsePlanner()(world)
    assert found.promised_cost == found.upper_cost
    assert coarse.promised_cost == coarse.estimate
