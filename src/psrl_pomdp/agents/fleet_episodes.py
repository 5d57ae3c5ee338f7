"""When the episodes of a fleet end, and how the next one begins: for all units at once.

With `wait=True` the next episode is planned for at once. Otherwise its kernel is sampled, each unit filters
its belief under this kernel beside its present one, and the episode begins when a plan is adopted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._serialization.archives import as_saved_agent
from ..inference.sampled_filter import SampledFilter
from ..models import POMDP
from ..planning.discounted import require_average
from ..protocols import ModelSample, ResumablePrior, Solution
from . import compiled_steps as steps
from . import episode_planning, reporting
from .compiled_policy import new_sampled_filter, policy_of
from .current_episode import CurrentEpisode, start_clock
from .deferred_work import PlannedNext
from .episode_records import EpisodeRecord
from .fleet_state import FleetState
from .fleet_units import FleetUnit


class FleetEpisodes(FleetState):
    """The episodes of Algorithm 1, which all units share."""

    @property
    def present_record(self) -> EpisodeRecord:
        """The record of the current episode."""
        return reporting.record_of(self)

    def _update_clock(self, unit: FleetUnit, *, ruled_out: bool) -> None:
        """Update t and m̃, and note whether the episode is over.

        t is the number of observations of the unit that has most. m̃ is the running maximum of ⌈ñ⌉, with ñ
        the sum over units. An episode that is over stays so until the next one begins.
        """
        clock, pseudo, start = self.episode_clock
        clock[steps.T] = t = max(int(clock[steps.T]), unit.time)
        if clock[steps.COUNT_RULE] == steps.EXPECTED:
            steps.update_pseudo_counts(pseudo, self.expected_counts, self.n_observations)
        else:
            pseudo[:] = t
        if clock[steps.END_REASON] != steps.GOES_ON:
            return
        reason = steps.BY_SCHEDULE if t > clock[steps.LAST_T] else steps.GOES_ON
        if clock[steps.COUNT_RULE] != steps.NONE and steps.counts_doubled(pseudo, start):
            reason = steps.BY_BOTH if reason == steps.BY_SCHEDULE else steps.BY_COUNTS
        clock[steps.END_REASON] = steps.RULED_OUT if ruled_out else reason

    def _end_episode_if_over(self) -> None:
        """Start the next episode if the present one is over, or let it be planned elsewhere."""
        if self.current_episode.number and self.episode_clock.clock[steps.END_REASON] == steps.GOES_ON:
            return
        if self.wait:
            self._begin_episodes()
        elif self.following is None:
            self._plan_ahead()

    def _plan_ahead(self) -> None:
        """Sample θ_k ~ f for the next episode; begin it at once if a plan for θ_k is known."""
        number = self._sample_index()
        sample = self.posterior.member(number)
        tolerance = episode_planning.episode_tolerance(self, self.time)
        self._remember_episodes()
        self.following = PlannedNext(sample, tolerance)
        for unit in self._present_units():
            if unit.time:
                belief = unit.posterior.member(number).belief
                setting = sample.setting or self.setting
                unit.upcoming = new_sampled_filter(sample.kernel, belief, self.step_codes, setting)
        known = episode_planning.known_plan(self, sample.kernel_index, tolerance)
        if known is not None:
            self.begin_following(known, 0.0)

    def begin_following(self, found: Solution, work: float) -> None:
        """Begin the episode whose model was planned for, with the beliefs of the units under it."""
        assert self.following is not None
        require_average(found, "this fleet")
        sample, tolerance = self.following
        self.last_plan = found
        if sample.kernel_index is not None:
            self.plans = {**self.plans, sample.kernel_index: found}
        start, length = self._record_episode()
        self._remember_episodes()
        self.following = None
        ruled_out = False
        self.current_episode = self._episode_for(sample, (found, work), start, length, tolerance)
        for unit in self._present_units():
            if unit.upcoming is not None:
                unit.episode = self.current_episode.with_belief(unit.upcoming.belief[:, 0])
                unit.upcoming = None
                ruled_out |= not unit.episode.belief.any()
        if ruled_out:
            self.episode_clock.clock[steps.END_REASON] = steps.RULED_OUT
            self._plan_ahead()

    def adopt_kernels(self, state: Mapping[str, Any], place: str) -> bool:
        """Take over the kernels of a saved posterior of this fleet, brought up to the present.

        An invalid state raises a `ParseError` that names the `place`, or another `InvalidModelError`.
        """
        assert isinstance(self.prior, ResumablePrior)
        self._remember_posterior()
        with as_saved_agent(place):
            moved = self.prior.restore(state, self.posterior_rng)
        self.posterior.adopt_kernels(moved)
        return True

    def _begin_episodes(self) -> None:
        """Sample θ_k ~ f and compute π_k and h_t(·; θ_k): for all units, or for each unit its own."""
        start, length = self._record_episode()
        tolerance = episode_planning.episode_tolerance(self, start)
        units = [unit for unit in self._present_units() if unit.time]
        shared = self.samples == "shared"
        numbers = [self._sample_index()] * len(units) if shared else [self._sample_index() for _ in units]
        planned = {}
        for number in dict.fromkeys(numbers):
            sample = self.posterior.member(number)
            planned[number] = self._episode_for(
                sample, self._plan(sample, tolerance), start, length, tolerance
            )
        self._remember_episodes()
        self.current_episode = planned[numbers[0]]
        for unit, number in zip(units, numbers, strict=True):
            unit.episode = planned[number].with_belief(unit.posterior.member(number).belief)

    def _record_episode(self) -> tuple[int, int]:
        """Record the episode that is over, if there is one, and return t_k and T_{k−1} of the next one."""
        length = 1
        if self.current_episode.number:
            self.episodes.append(self.present_record)
            length = self.time - self.current_episode.start
        self.expected_counts[...] = self._sum_of_counts()  # without the rounding errors of its updates
        start_clock(self.episode_clock, self.schedule, length, self.expected_counts, self.n_observations)
        return self.time, length

    def _sample_index(self) -> int:
        """Return the number of a kernel θ ~ f in the posterior."""
        return int(self.posterior.sample_index(self.rng))

    def _plan(self, sample: ModelSample, tolerance: float) -> tuple[Solution, float]:
        """Return a plan for the sampled model, and the work.

        With samples of their own, a unit may still have an accurate plan for the kernel.
        """
        if self.samples == "own" and sample.kernel_index is None:
            self.last_plan = None  # so that a plan does not depend on the order of the units
            for unit in self._present_units():
                now = unit.episode
                if now is not None and now.tolerance <= tolerance and _same_kernel(now, sample):
                    return now.plan, 0.0
        model = POMDP(sample.setting or self.setting, sample.kernel)
        return episode_planning.plan_for(self, model, sample.kernel_index, tolerance)

    def _episode_for(
        self, sample: ModelSample, planned: tuple[Solution, float], start: int, length: int, tolerance: float
    ) -> CurrentEpisode:
        """Return the episode in which units play for a sampled model, with the belief of the sample."""
        setting = sample.setting or self.setting
        found, work = planned
        return CurrentEpisode(
            sampled_filter=new_sampled_filter(sample.kernel, sample.belief, self.step_codes, setting),
            policy=policy_of(found, setting.initial, setting, self.step_codes),
            number=len(self.episodes) + 1,
            start=start,
            previous_length=length,
            kernel=sample.kernel,
            setting=sample.setting,
            index=sample.kernel_index,
            tolerance=tolerance,
            plan=found,
            work=work,
        )

    def _joined(self, unit: FleetUnit, episode: CurrentEpisode) -> CurrentEpisode:
        """Return the present episode for a unit that joins, with its h_1(·; θ_k)."""
        sample = ModelSample(episode.kernel, np.zeros(0), episode.index, episode.setting)
        return episode.with_belief(self._first_filter(unit, sample).belief[:, 0])

    def _first_filter(self, unit: FleetUnit, sample: ModelSample) -> SampledFilter:
        """Return the filter of a sampled model after the first observation of a unit."""
        belief = unit.posterior.belief_of(sample)
        return new_sampled_filter(sample.kernel, belief, self.step_codes, sample.setting or self.setting)

    def _choose_action(self, unit: FleetUnit) -> int:
        """Return π_k(h_t(·; θ_k)) for the belief of a unit.

        While the next plan is made elsewhere, the step is late. If θ_k is ruled out, the posterior mean of
        the belief takes the place of h_t(·; θ_k). Before the first plan, the action of least expected
        immediate cost is taken.
        """
        if self.following is not None:
            self.late_steps += 1
        if unit.episode is None:
            return int(np.argmin(self.setting.cost @ unit.belief))
        if not unit.episode.belief.any():
            unit.episode.sampled_filter.belief[:, 0] = unit.belief
            unit.episode.find_node()
        return unit.episode.action(self.setting.n_actions)


def _same_kernel(episode: CurrentEpisode, sample: ModelSample) -> bool:
    """Return whether an episode is for the sampled model."""
    if not np.array_equal(episode.kernel, sample.kernel):
        return False
    one, other = episode.setting, sample.setting
    return one is other or (one is not None and other is not None and one.fingerprint == other.fingerprint)
