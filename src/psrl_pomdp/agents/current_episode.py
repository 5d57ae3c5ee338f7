"""The current episode k: when it started, the kernel θ_k and its belief, the plan and the policy π_k.

The clock and the pseudo-counts, which decide when it ends, continue from one episode to the next. They are
the `EpisodeClock` of `compiled_steps`, because compiled code updates them at every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._utils.arrays import Array
from ..inference.sampled_filter import SampledFilter
from ..inference.step_codes import Reading, StepCodes, likelihood_rows
from ..models import Setting
from ..planning import Plan
from ..sensors.base import ContinuousSensor
from . import compiled_steps as steps
from .compiled_policy import empty_policy, new_sampled_filter
from .schedules import Schedule

_COUNT_RULES = {"time": steps.TIME, "expected": steps.EXPECTED, "none": steps.NONE}


@dataclass(frozen=True)
class CurrentEpisode:
    """What is fixed during an episode, beside the belief of θ_k and the node of π_k, which steps change."""

    sampled_filter: SampledFilter  # θ_k and h_t(·; θ_k)
    policy: steps.CompiledPolicy  # π_k; a placeholder if the plan is not a `Plan`
    number: int = 0  # k; 0 before the first episode
    start: int = 0  # t_k
    previous_length: int = 1  # T_{k−1}
    kernel: Array = field(default_factory=lambda: np.zeros((0, 0, 0)))  # [A, S, S′]: θ_k
    setting: Setting | None = None  # with the sampled observation model and costs, if these are unknown
    index: int | None = None  # the number of θ_k in a finite set
    tolerance: float = 0.0  # ε_k
    plan: Any = None
    work: float = 0.0  # counted operations of planning

    @property
    def is_compiled(self) -> bool:
        """Whether compiled code chooses the actions. A plan of another planner is asked for every action."""
        return isinstance(self.plan, Plan)

    @property
    def span(self) -> float | None:
        """An upper bound on the span of min α·b.

        The maximum is at most min_n max_s α_n(s), and the minimum is attained at a vertex.
        """
        if not self.is_compiled or self.plan.controller.gains is not None:
            return None
        vectors = self.plan.controller.vectors
        return float(vectors.max(axis=1).min() - vectors.min())

    @property
    def belief(self) -> Array:
        """A copy of h_t(·; θ_k), shape [S]."""
        return self.sampled_filter.belief[:, 0].copy()

    def likelihoods(self, codes: StepCodes, action: int, reading: Reading) -> Array:
        """Return the likelihoods of what came after an action under θ_k, shape [S′]."""
        if reading.row is None:
            return np.asarray(codes.likelihood[action, reading.code])
        if self.setting is None or codes.is_missing(reading.code):
            return reading.row
        sensor = self.setting.sensor  # the sampled one
        assert isinstance(sensor, ContinuousSensor)
        number = 0 if sensor.n_actions is None else action
        return np.asarray(likelihood_rows(sensor, number, np.asarray(reading.value)[None])[0])

    def observation_number(self, codes: StepCodes, action: int, reading: Reading) -> int:
        """Return the number that the plan gives what came after an action; −1 if it is missing."""
        if not codes.has_rows:
            return int(codes.observation_of[reading.code])
        cost = reading.code % (codes.n_costs + 1)
        if (
            codes.is_missing(reading.code)
            or not self.is_compiled
            or (codes.n_costs and cost == codes.n_costs)
        ):
            return -1
        return int(self.plan.cell(action, reading.value)) * max(codes.n_costs, 1) + cost

    def find_node(self) -> None:
        """Move a finite-state controller to the node for the belief, after a missing observation."""
        if self.policy.node[0] >= 0:
            self.policy.node[0] = int(self.plan.follow(self.sampled_filter.belief[:, 0]).node)


def before_first_episode(setting: Setting, codes: StepCodes) -> CurrentEpisode:
    """Return an episode of number 0, without a kernel and a plan."""
    n_actions, n_states = setting.n_actions, setting.n_states
    sampled = new_sampled_filter(
        np.zeros((n_actions, n_states, n_states)), np.zeros(n_states), codes, setting
    )
    return CurrentEpisode(sampled, empty_policy(setting, codes))


def new_clock(setting: Setting, schedule: Schedule) -> steps.EpisodeClock:
    """Return the clock before the first observation: t = 0, and all pseudo-counts are 0."""
    shape = (setting.n_actions, setting.n_states)
    clock = np.zeros(4, np.int64)
    clock[steps.COUNT_RULE], clock[steps.END_REASON] = _COUNT_RULES[schedule.pseudo_count], steps.GOES_ON
    return steps.EpisodeClock(clock, np.zeros(shape, np.int64), np.zeros(shape, np.int64))


def start_clock(
    episode: steps.EpisodeClock, schedule: Schedule, previous_length: int, expected_counts: Array
) -> None:
    """Set SCHED(t_k, T_{k−1}) and m̃_{t_k} for the episode that starts now."""
    clock = episode.clock
    t = int(clock[steps.T])
    clock[steps.LAST_T], clock[steps.END_REASON] = schedule.last(t, previous_length), steps.GOES_ON
    if clock[steps.COUNT_RULE] == steps.EXPECTED:
        steps.update_pseudo_counts(episode.pseudo, expected_counts, t)
    else:
        episode.pseudo[:] = t
    episode.pseudo_start[:] = episode.pseudo
