"""The policy and the sampled kernel of an episode, as the arrays that the compiled steps read and write."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array
from ..inference.sampled_filter import SampledFilter
from ..models import Setting
from ..planning import Plan
from ..protocols import Solution
from .compiled_steps import CompiledPolicy


def policy_of(plan: Solution, belief: Array, setting: Setting, likelihood: Array) -> CompiledPolicy:
    """Return a plan's policy over all states of the model; a placeholder if the plan is not a `Plan`.

    The states that the plan leaves out cannot be reached, so that their entries of the vectors do not matter.
    If the plan is a finite-state controller, it starts at the node for `belief`.
    """
    if not isinstance(plan, Plan):
        return empty_policy(setting, likelihood)
    controller = plan.controller
    vectors = np.zeros((len(controller), setting.n_states))
    vectors[:, list(plan.states)] = controller.vectors
    node = int(plan.follow(belief).node) if controller.gains is not None else -1
    return empty_policy(setting, likelihood)._replace(
        vectors=vectors,
        actions=controller.actions,
        successors=controller.successors,
        node=np.array([node]),
    )


def empty_policy(setting: Setting, likelihood: Array) -> CompiledPolicy:
    """Return a placeholder for an agent without a plan, or with a plan of a user's own planner."""
    return CompiledPolicy(
        vectors=np.zeros((1, setting.n_states)),
        actions=np.zeros(1, np.int64),
        successors=np.zeros((1, setting.n_observations), np.int64),
        node=np.array([-1]),
        likelihood=likelihood,
        cost=setting.cost,
        action_values=np.zeros(setting.n_actions),
        scratch=np.zeros((2, setting.n_states)),
    )


def new_sampled_filter(kernel: Array, belief: Array) -> SampledFilter:
    """Return the belief filter of a kernel [A, S, S′], with copies of the kernel and of the belief [S]."""
    column = np.array(belief, dtype=np.float64)[:, None]
    return SampledFilter(kernel[..., None].copy(), column, np.zeros_like(column), np.zeros(1))
