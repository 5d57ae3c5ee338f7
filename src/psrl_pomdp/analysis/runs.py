"""Runs for the Bayesian regret: θ* ~ f anew for each seed, and a plan for each world."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .._utils.deprecation import renamed_keywords
from ..agents.planning_budget import PlanningBudget
from ..agents.psrl import PSRLAgent
from ..inference.choosing import sample_model
from ..models import POMDP
from ..planning import Plan, plan
from ..protocols import Prior
from ..simulation.runs import Agent, simulate
from ..simulation.trace import Trace

_WORLD = 2  # the stream of draws from the prior; 0 is the agent's and 1 the world's chance


def drawn_world(prior: Prior, seed: int) -> POMDP:
    """A world with θ* ~ f."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_WORLD,)))
    return sample_model(prior, rng, name=f"draw {seed}")


@renamed_keywords(effort="budget")
def bayesian_runs(
    prior: Prior,
    horizon: int,
    seeds: int | Sequence[int],
    *,
    agent: Callable[[int], Agent] | None = None,
    budget: PlanningBudget | None = None,
    tolerance: float = 1e-6,
    max_work: float | None = 3e8,
    checkpoints: Sequence[int] | None = None,
) -> tuple[list[Trace], list[Plan]]:
    """Runs of `agent(seed)`, by default Algorithm 1 with this prior, each in a world drawn from the prior.

    What comes back goes into `regret_curve`. Plans for a finite set are made once for each kernel.

    >>> from psrl_pomdp import problem
    >>> traces, plans = bayesian_runs(problem("separated").family, 100, seeds=3)
    >>> len(traces), len(plans), traces[0].horizon
    (3, 3, 100)
    """
    make = agent or (lambda seed: PSRLAgent(prior, seed=seed, budget=budget))
    known: dict[str, Plan] = {}
    traces = []
    for seed in range(seeds) if isinstance(seeds, int) else seeds:
        world = drawn_world(prior, seed)
        if world.fingerprint not in known:
            known[world.fingerprint] = plan(world, tolerance, max_work=max_work)
        traces.append(simulate(world, make(seed), horizon, seed, checkpoints=checkpoints))
    return traces, [known[trace.model.fingerprint] for trace in traces]
