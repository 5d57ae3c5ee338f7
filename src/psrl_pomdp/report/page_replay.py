"""The first steps of one run of a study, played again from its seed, with everything that was hidden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..agent import PSRLAgent
from ..experiment.jobs import _WORLD, agent_for, world_of
from ..experiment.results import Job
from ..experiment.store import Store
from ..simulation import Simulation

STEPS = 300
_MOST_NUMBERS = 60_000  # of beliefs on a page


@dataclass(frozen=True)
class Replay:
    """Steps 1 to n: what was read before each action, what was done, and where the world was."""

    agent: str
    run: int
    readings: list[int | None]  # before the action; None where nothing is read at first
    actions: list[int]
    states: list[int]  # hidden from the agent
    costs: list[float]  # of the step, in the user's numbers
    beliefs: list[list[float]]  # of somebody who knows the true model
    own_beliefs: list[list[float]] | None  # under the kernel that the agent plays for
    episodes: list[int] | None
    same: bool  # the costs are those that the study has kept


def replay(store: Store, job: Job, steps: int = STEPS) -> Replay:
    """The job's first steps. Drivers and checkpoints change no run, so stopping at each step does not."""
    study = store.study
    spec = next(agent for agent in study.agents if agent.label == job.agent)
    world, model = world_of(study, job.run)
    n_steps = max(1, min(steps, study.horizon, _MOST_NUMBERS // world.n_states))
    agent = agent_for(study, spec, world, model, job.run)
    run = Simulation(world, agent, seed=(study.seed, job.run, _WORLD), every_step=True)
    beliefs, own_beliefs, episodes = [], [], []
    for step in range(1, n_steps + 1):
        beliefs.append(_rounded(run.world.belief))
        trace = run.until(step)
        if isinstance(agent, PSRLAgent):
            info = agent.info
            own_beliefs.append(_rounded(info.belief))
            episodes.append(info.episode)
    assert trace.states is not None
    states, actions = trace.states[:-1].tolist(), trace.actions.tolist()
    return Replay(
        agent=job.agent,
        run=job.run,
        readings=[trace.first_reading, *trace.readings[:-1].tolist()],
        actions=actions,
        states=states,
        costs=world.setting.own_cost[actions, states].tolist(),
        beliefs=beliefs,
        own_beliefs=own_beliefs or None,
        episodes=episodes or None,
        same=_same(store, job, np.cumsum(world.setting.cost[actions, states])),
    )


def _rounded(belief: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    return [round(float(value), 4) for value in belief]


def _same(store: Store, job: Job, paid: np.ndarray[tuple[int], np.dtype[np.float64]]) -> bool:
    """Whether the sums of costs are those of the result, at its checkpoints."""
    result = store.read(job)
    kept = [(t, cost) for t, cost in zip(result["times"], result["cost"], strict=True) if t <= len(paid)]
    return all(abs(paid[t - 1] - cost) < 1e-6 for t, cost in kept)
