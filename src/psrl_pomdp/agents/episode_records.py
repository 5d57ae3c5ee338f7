"""What an agent tells of itself: a record for each episode, and its present state of mind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from ..testing.checks import PlanLike

REASONS = ("goes on", "schedule", "pseudo-counts", "schedule and pseudo-counts", "kernel ruled out")


@dataclass(frozen=True)
class EpisodeRecord:
    """Episode k: when it was, what was played, how well it was planned, and why it ended."""

    number: int  # k
    start: int  # t_k
    length: int  # T_k, so far
    ended: str  # one of REASONS
    kernel: int | None  # its number in a finite set
    lower_cost: float  # J(θ_k) is between these, scaled
    upper_cost: float
    tolerance: float  # ε_k
    status: str  # of the plan
    work: float  # counted operations of planning
    span: float | None = None  # the span of the plan's value function is at most this, scaled

    @property
    def shortfall(self) -> float:
        """What the plan fell short of ε_k."""
        return max(0.0, self.upper_cost - self.lower_cost - self.tolerance)


@dataclass(frozen=True)
class Info:
    """What the agent thinks, at the action that it chose last."""

    time: int  # t
    episode: int  # k
    episode_start: int  # t_k
    previous_length: int  # T_{k−1}
    last_step: int  # SCHED(t_k, T_{k−1})
    last_ended: str | None  # why the episode before ended
    kernel: Array  # [A, S, S']: θ_k
    kernel_number: int | None  # in a finite set
    belief: Array  # [S]: h_t(·; θ_k)
    plan: PlanLike  # its .lower and .upper hold J(θ_k)
    tolerance: float  # ε_k
    pseudo_counts: npt.NDArray[np.int64]  # [A, S]: m̃_t
    expected_counts: Array  # [A, S]: ñ_t
    effective_size: float  # how many kernels are still in question
    action: int
    costs: Array  # [A]: c(h_t, a), the cost now of each action under θ_k, in the user's numbers
    # [A]: how much more each action costs in the long run than the one that the plan chooses, under θ_k. Not
    # numbers where the plan's policy is not of beliefs alone.
    advantages: Array
