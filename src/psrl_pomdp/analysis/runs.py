"""Runs for the Bayesian regret: each seed has its own true kernel θ* ~ f, with a plan for it."""

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

_TRUE_MODEL = 2  # random stream of the true kernel; 0 is that of the agent and 1 that of the simulation


def true_model(prior: Prior, seed: int) -> POMDP:
    """Return a model with θ* ~ f."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_TRUE_MODEL,)))
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
    """Simulate runs for the Bayesian regret, each with a true kernel sampled from the prior.

    Parameters
    ----------
    prior
        The prior f on transition kernels.
    horizon
        The number of steps of each run.
    seeds
        The number of runs, or their seeds.
    agent
        Called with a seed to create an agent; by default Algorithm 1 with this prior.
    budget
        The planning budget of the default agent.
    tolerance, max_work
        The limits of the plans for the true models. Runs with the same true kernel share one plan.
    checkpoints
        The steps at which a trace records its sums; by default they are logarithmically spaced.

    Returns
    -------
    traces, plans
        One trace and one plan for each run, as `regret_curve` takes them.

    >>> from psrl_pomdp import problem
    >>> traces, plans = bayesian_runs(problem("separated").family, 100, seeds=3)
    >>> len(traces), len(plans), traces[0].horizon
    (3, 3, 100)
    """
    make = agent or (lambda seed: PSRLAgent(prior, seed=seed, budget=budget))
    known: dict[str, Plan] = {}
    traces = []
    for seed in range(seeds) if isinstance(seeds, int) else seeds:
        world = true_model(prior, seed)
        if world.fingerprint not in known:
            known[world.fingerprint] = plan(world, tolerance, max_work=max_work)
        traces.append(simulate(world, make(seed), horizon, seed, checkpoints=checkpoints))
    return traces, [known[trace.model.fingerprint] for trace in traces]
