"""The current episode k: when it started, the kernel θ_k and its belief, the plan and the policy π_k.

The clock and the pseudo-counts, which decide when it ends, continue from one episode to the next. They are
the `EpisodeClock` of `compiled_steps`, because compiled code updates them at every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from .._utils.arrays import Array
from ..errors import InvalidModelError
from ..inference.sampled_filter import SampledFilter, update_sampled_filter
from ..inference.step_codes import Reading, StepCodes, likelihood_rows
from ..models import Setting
from ..protocols import AlphaVectorPolicy
from ..sensors.base import ContinuousSensor
from . import compiled_steps as steps
from .compiled_policy import empty_policy, new_sampled_filter
from .schedules import Schedule

_COUNT_RULES = {"time": steps.TIME, "expected": steps.EXPECTED, "none": steps.NONE}


@dataclass(frozen=True)
class CurrentEpisode:
    """What is fixed during an episode, beside the belief of θ_k and the node of π_k, which steps change."""

    sampled_filter: SampledFilter  # θ_k and h_t(·; θ_k)
    policy: steps.CompiledPolicy  # π_k; a placeholder if compiled code cannot follow it
    number: int = 0  # k; 0 before the first episode
    start: int = 0  # t_k
    previous_length: int = 1  # T_{k−1}
    kernel: Array = field(default_factory=lambda: np.zeros((0, 0, 0)))  # [A, S, S′]: θ_k
    setting: Setting | None = None  # with the sampled observation model and costs, if these are unknown
    index: int | None = None  # the number of θ_k in a finite set
    tolerance: float = 0.0  # ε_k
    plan: Any = None
    work: float = 0.0  # counted operations of planning

    @cached_property
    def vectors(self) -> AlphaVectorPolicy | None:
        """The plan, if compiled code can follow it; None if the plan is asked for every action."""
        return self.plan if isinstance(self.plan, AlphaVectorPolicy) else None

    @property
    def is_compiled(self) -> bool:
        """Whether compiled code chooses the actions."""
        return self.vectors is not None

    @property
    def span(self) -> float | None:
        """An upper bound on the span of min α·b.

        The maximum is at most min_n max_s α_n(s), and the minimum is attained at a vertex.
        """
        if self.vectors is None or self.vectors.controller.gains is not None:
            return None
        vectors = self.vectors.controller.vectors
        return float(vectors.max(axis=1).min() - vectors.min())

    @property
    def belief(self) -> Array:
        """A copy of h_t(·; θ_k), shape [S]."""
        return self.sampled_filter.belief[:, 0].copy()

    @property
    def has_nodes(self) -> bool:
        """Whether the policy is a finite-state controller."""
        return bool(self.policy.node[0] >= 0)

    def observation_number(self, codes: StepCodes, action: int, reading: Reading) -> int:
        """Return the number that the plan gives what came after an action; −1 if it is missing."""
        if not codes.has_rows:
            return int(codes.observation_of[reading.code])
        cost = reading.code % (codes.n_costs + 1)
        is_partial = codes.is_missing(reading.code) or (codes.n_costs > 0 and cost == codes.n_costs)
        if is_partial or self.vectors is None:
            return -1
        return int(self.vectors.cell(action, reading.value)) * max(codes.n_costs, 1) + cost

    def planned_action(self, n_actions: int) -> int:
        """Return the action of the plan at the belief, if compiled code cannot follow the plan."""
        chosen = self.plan.action(self.belief)
        if not isinstance(chosen, int | np.integer) or not 0 <= chosen < n_actions:
            raise InvalidModelError(
                f"the plan chose action {chosen!r}: a number from 0 to {n_actions - 1} is wanted"
            )
        return int(chosen)

    def action(self, n_actions: int) -> int:
        """Return π_k(h_t(·; θ_k))."""
        if self.is_compiled:
            return int(steps.best_action(self.policy, self.sampled_filter))
        return self.planned_action(n_actions)

    def with_belief(self, belief: Array) -> CurrentEpisode:
        """Return this episode for a unit with its own belief h_t(·; θ_k), shape [S], and its own node."""
        column = np.array(belief, dtype=np.float64)[:, None]
        own = self.sampled_filter._replace(belief=column, predicted=np.zeros_like(column), chance=np.zeros(1))
        values = np.zeros_like(self.policy.action_values)
        policy = self.policy._replace(node=self.policy.node.copy(), action_values=values)
        found = replace(self, sampled_filter=own, policy=policy)
        found.find_node()
        return found

    def observe(self, codes: StepCodes, action: int, reading: Reading) -> bool:
        """Update h(·; θ_k) and the node, and return whether the observation is possible under θ_k."""
        likelihood = likelihoods(codes, self.setting, action, reading)
        number = self.observation_number(codes, action, reading) if self.has_nodes else -1
        update_sampled_filter(self.sampled_filter, likelihood, codes.matrix_number(action, reading.code))
        if number >= 0:
            self.policy.node[0] = self.policy.successors[self.policy.node[0], number]
        else:
            self.find_node()
        return bool(self.sampled_filter.chance[0] > 0.0)

    def find_node(self) -> None:
        """Move a finite-state controller to the node for the belief, after a missing observation."""
        if self.has_nodes:
            assert self.vectors is not None
            self.policy.node[0] = int(self.vectors.follow(self.sampled_filter.belief[:, 0]).node)


def likelihoods(codes: StepCodes, sampled: Setting | None, action: int, reading: Reading) -> Array:
    """Return the likelihoods of what came after an action, shape [S′].

    `sampled` is the setting of θ_k; the sensor in it matters if observations have no numbers.
    """
    if not codes.has_rows or sampled is None or codes.is_missing(reading.code):
        return reading.likelihood
    sensor = sampled.sensor
    assert isinstance(sensor, ContinuousSensor)
    number = 0 if sensor.n_actions is None else action
    return np.asarray(likelihood_rows(sensor, number, np.asarray(reading.value)[None])[0])


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
    episode: steps.EpisodeClock,
    schedule: Schedule,
    previous_length: int,
    expected_counts: Array,
    n_observations: int | None = None,
) -> None:
    """Set SCHED(t_k, T_{k−1}) and m̃_{t_k} for the episode that starts now.

    m̃ is at most the number of observations, which is t for a single unit.
    """
    clock = episode.clock
    t = int(clock[steps.T])
    clock[steps.LAST_T], clock[steps.END_REASON] = schedule.last(t, previous_length), steps.GOES_ON
    if clock[steps.COUNT_RULE] == steps.EXPECTED:
        steps.update_pseudo_counts(episode.pseudo, expected_counts, n_observations or t)
    else:
        episode.pseudo[:] = t
    episode.pseudo_start[:] = episode.pseudo
