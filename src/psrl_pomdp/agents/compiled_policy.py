"""The policy and the sampled kernel of an episode, as the arrays that the compiled steps read and write."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array
from ..inference.sampled_filter import SampledFilter
from ..inference.step_codes import StepCodes
from ..models import Setting
from ..protocols import AlphaVectorPolicy, Solution
from .lookahead import CompiledPolicy


def policy_of(plan: Solution, belief: Array, setting: Setting, codes: StepCodes) -> CompiledPolicy:
    """Return a plan's policy over all states of the model; a placeholder if compiled code cannot follow it.

    The states that the plan leaves out cannot be reached, so that their entries of the vectors do not matter.
    If the plan is a finite-state controller, it starts at the node for `belief`. `setting` is that of the
    planned model, and `codes` are those of the steps.
    """
    if not isinstance(plan, AlphaVectorPolicy):
        return empty_policy(setting, codes)
    controller = plan.controller
    vectors = np.zeros((len(controller), setting.n_states))
    vectors[:, list(plan.states)] = controller.vectors
    node = int(plan.follow(belief).node) if controller.gains is not None else -1
    found = empty_policy(setting, codes)._replace(
        vectors=vectors,
        columns=np.ascontiguousarray(vectors.T),
        products=np.zeros(len(vectors)),
        actions=controller.actions,
        successors=controller.successors,
        node=np.array([node]),
    )
    if codes.has_rows:
        assert plan.quantized_setting is not None
        finite = plan.quantized_setting.replace(seen_cost=None)
        found = found._replace(likelihood=StepCodes(finite).likelihood)
    return found


def empty_policy(setting: Setting, codes: StepCodes) -> CompiledPolicy:
    """Return a placeholder for an agent without a plan, or with a plan of a user's own planner."""
    by_code = codes.full_codes if codes.by_code else np.zeros(0, np.int64)
    if codes.by_code and codes.has_rows:
        by_code = np.arange(codes.n_costs)  # of each cost, with a reading that came
    return CompiledPolicy(
        vectors=np.zeros((1, setting.n_states)),
        columns=np.zeros((setting.n_states, 1)),
        products=np.zeros(1),
        actions=np.zeros(1, np.int64),
        successors=np.zeros((1, max(1, len(codes.full_codes))), np.int64),
        node=np.array([-1]),
        likelihood=codes.likelihood[:, :0] if codes.by_code else codes.likelihood,
        codes=by_code,
        observation_of=codes.observation_of if codes.by_code else np.zeros(0, np.int64),
        cost=setting.cost,
        action_values=np.zeros(setting.n_actions),
        scratch=np.zeros((2, setting.n_states)),
    )


def new_sampled_filter(
    kernel: Array, belief: Array, codes: StepCodes, setting: Setting | None = None
) -> SampledFilter:
    """Return the belief filter of a kernel [A, S, S′], with copies of the kernel and of the belief [S].

    `setting` has the kernel's own observation model and costs, if they are unknown to the agent.
    """
    column = np.array(belief, dtype=np.float64)[:, None]
    transition = kernel[..., None].copy()
    matrices = transition
    if codes.by_code:
        factors = codes.factors if codes.factors is not None else codes.factors_of(setting or codes.setting)
        matrices = np.ascontiguousarray(codes.matrices(transition, factors[..., None]))
    return SampledFilter(transition, matrices, column, np.zeros_like(column), np.zeros(1))
