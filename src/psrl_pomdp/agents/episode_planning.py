"""Planning for an episode: the policy π*(·; θ_k) to within ε_k, earlier plans that help, and the warning."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from .._utils.arrays import Array
from ..errors import CoarsePlanWarning
from ..models import POMDP, Setting
from ..planning import plan
from ..planning.accuracy import COARSE, Accuracy
from ..planning.discounted import require_average
from ..planning.solve import usable_start
from ..protocols import FiniteSupport, ScaledBounds, Solution
from .planning_budget import DENSITY_RTOL, FINITE_RTOL, GENERAL_RTOL, one_over, one_over_root

if TYPE_CHECKING:
    from ..planning import Plan
    from .learner import Learner


def episode_tolerance(agent: Learner, start: int) -> float:
    """Return ε_k for the episode that starts at t_k = `start`."""
    default = one_over if isinstance(agent.prior, FiniteSupport) else one_over_root
    return agent.budget.tolerance_at(start, default)


def plan_for(agent: Learner, model: POMDP, index: int | None, tolerance: float) -> tuple[Solution, float]:
    """Return π*(·; θ_k) to within `tolerance`, and the operations that planning took.

    `model` has the kernel θ_k, and the sampled observation model and costs if these are unknown.

    Plans for the kernels of a finite set are stored and refined. Other plans start from the last one.
    """
    known = known_plan(agent, index, tolerance)
    if known is not None:
        return known, 0.0
    earlier, model, rtol = _inputs(agent, model, index)
    if agent.planner is not plan:
        found, work = agent.planner(model, tolerance, agent.budget.time_limit), 0.0
    else:
        found = agent.budget.solve(model, tolerance, usable_start(earlier, model), rtol)
        work = found.rounds[-1].work if found.rounds else 0.0
        if index is not None and earlier is not None and _gap(agent, earlier) < _gap(agent, found):
            return _noted(agent, earlier, index), work  # both are for the same kernel
    return _noted(agent, found, index), work


def known_plan(agent: Learner, index: int | None, tolerance: float) -> Solution | None:
    """Return a plan for kernel `index` of a finite set that is accurate enough, if there is one."""
    earlier = None if index is None else agent.plans.get(index)
    if earlier is None or not _is_accurate(agent, earlier, tolerance, FINITE_RTOL):
        return None
    return earlier


def plan_inputs(agent: Learner, model: POMDP, index: int | None) -> tuple[POMDP, Plan | None, float]:
    """Return the model that is planned for, the plan from which planning starts, and the relative gap."""
    earlier, model, rtol = _inputs(agent, model, index)
    return model, usable_start(earlier, model), rtol


def _inputs(agent: Learner, model: POMDP, index: int | None) -> tuple[Solution | None, POMDP, float]:
    """Return the earlier plan, the model and the relative gap for a sampled kernel."""
    if index is not None and isinstance(agent.prior, FiniteSupport):
        return agent.plans.get(index), agent.prior.model(index), FINITE_RTOL
    return agent.last_plan, model, GENERAL_RTOL if agent.setting.is_finite else DENSITY_RTOL


def _noted(agent: Learner, found: Solution, index: int | None) -> Solution:
    """Note the newest plan, from which the next one may start, and return it."""
    require_average(found, "this agent")
    if index is not None:
        agent.plans = {**agent.plans, index: found}  # not in place, because a snapshot may hold the old ones
    agent.last_plan = found
    return found


def _gap(agent: Learner, found: Solution) -> float:
    """Return the width of the interval of costs in [0, 1]."""
    lower, upper = scaled_bounds(found, agent.setting)
    return upper - lower


def _is_accurate(agent: Learner, earlier: Solution, tolerance: float, rtol: float) -> bool:
    """Return whether an earlier plan is accurate enough for `tolerance`."""
    lower, upper = scaled_bounds(earlier, agent.setting)
    blind = earlier.blind_cost if isinstance(earlier, ScaledBounds) else 1.0
    budget = agent.budget
    wanted = Accuracy.of(tolerance, budget.rtol or rtol, budget.atol, agent.setting.units)
    return upper - lower <= wanted.allowed(lower, upper, blind)


def warn_of_coarse_plan(agent: Learner, stacklevel: int = 5) -> None:
    """Warn about the first coarse plan of an agent, from a function that `act` or `play` runs.

    `stacklevel` leads to the caller of these.
    """
    found, rtol = agent.current_episode.plan, agent.budget.rtol or 0.0
    if agent.warned_of_coarse_plan or not isinstance(found, ScaledBounds):
        return
    if found.relative_gap <= max(COARSE, rtol):
        return
    agent.warned_of_coarse_plan = True
    warnings.warn(
        f"the plan of episode {agent.current_episode.number} may be {100 * found.relative_gap:.3g} % of what "
        f"is at stake away from optimal ({found.status}; between {found.lower:.6g} and {found.upper:.6g}); "
        "PlanningBudget(rtol=..., atol=..., max_work=...) says how well to plan",
        CoarsePlanWarning,
        stacklevel=stacklevel,
    )


def scaled_bounds(found: Solution, setting: Setting) -> tuple[float, float]:
    """Return the bounds of a plan as costs in [0, 1]."""
    if isinstance(found, ScaledBounds):
        return found.lower_cost, found.upper_cost
    low, high = sorted(setting.units.to_scaled([found.lower, found.upper]).tolist())
    return low, high


def kernel_index(kernel: Array, prior: FiniteSupport) -> int | None:
    """Return the number of a kernel in a finite set; None if the set has it twice or not at all."""
    same = np.flatnonzero((prior.kernels == kernel).all(axis=(1, 2, 3)))
    return int(same[0]) if len(same) == 1 else None
