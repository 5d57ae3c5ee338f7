"""The record of each episode (`EpisodeRecord`), and the present state of an agent (`Info`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from ..inference.learned_tables import LearnedTable
from ..protocols import Solution

REASONS = ("goes on", "schedule", "pseudo-counts", "schedule and pseudo-counts", "kernel ruled out")


@dataclass(frozen=True)
class EpisodeRecord:
    """Episode k: its start and length, the kernel, the accuracy of the plan, and why the episode ended."""

    number: int  # k
    start: int  # t_k
    length: int  # T_k; the steps so far for the current episode
    ended: str  # one of REASONS
    kernel: int | None  # the number of θ_k in a finite set
    lower_cost: float  # a lower and an upper bound on J(θ_k), as costs in [0, 1]
    upper_cost: float
    tolerance: float  # ε_k
    status: str  # of the plan
    work: float  # counted operations of planning
    span: float | None = None  # an upper bound on the span of the plan's value function, scaled

    @property
    def shortfall(self) -> float:
        """The part of the plan's gap above ε_k."""
        return max(0.0, self.upper_cost - self.lower_cost - self.tolerance)


@dataclass(frozen=True)
class Info:
    """The state of an agent when it chose its last action."""

    time: int  # t
    episode: int  # k
    episode_start: int  # t_k
    previous_length: int  # T_{k−1}
    last_step: int  # SCHED(t_k, T_{k−1})
    last_ended: str | None  # why the previous episode ended
    kernel: Array  # [A, S, S']: θ_k
    kernel_number: int | None  # in a finite set
    belief: Array  # [S]: h_t(·; θ_k)
    plan: Solution  # its bounds .lower and .upper contain J(θ_k)
    tolerance: float  # ε_k
    pseudo_counts: npt.NDArray[np.int64]  # [A, S]: m̃_t
    expected_counts: Array  # [A, S]: ñ_t
    effective_size: float  # the effective number of kernels under the posterior
    action: int
    costs: Array  # [A]: c(h_t, a), the immediate cost of each action under θ_k, in the user's units
    # [A]: the long-run cost of each action under θ_k minus that of the chosen one. NaN if the policy of the
    # plan is not a function of the belief.
    advantages: Array
    # The observation model, or the means and standard deviations of Gaussian observations: told, mean and
    # interval; None if it is known.
    sensor: LearnedTable | None = None
    cost_table: LearnedTable | None = None  # the cost [A, S] of each action in each state, likewise
