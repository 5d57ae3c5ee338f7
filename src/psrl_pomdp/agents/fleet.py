"""A fleet: units with the same unknown dynamics, each with its own history, belief and action.

Given θ the units are independent, so that the likelihood is the product over units, and every formula of
Algorithm 1 stays the same with sums over the histories:

    f(θ | all histories) ∝ f(θ) Π_u P(observations of u | θ),      ñ(s, a) = Σ_u ñ_u(s, a).

There is one episode for the whole fleet. Its time t is that of the unit with the most observations; it ends
as in Algorithm 1, with the pseudo-counts of all units. At its start one kernel θ_k is sampled and every unit
plays π*(·; θ_k) with its own belief h_t(·; θ_k), or, with `samples="own"`, each unit samples a kernel of its
own (concurrent posterior sampling; Dimakopoulou and Van Roy, ICML 2018). A fleet of one unit takes the same
actions as `PSRLAgent`.

With `wait=False`, `act` neither plans nor resamples the ensemble. The work is described by `Fleet.work`, done
elsewhere, and adopted between two steps; until then units follow their present policies (`deferred_work`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from .._serialization.atomic_files import write_atomically
from .._serialization.reading import read_bytes
from .._utils.arrays import Array, Index
from .._utils.atomic_calls import AtomicCalls
from ..errors import InvalidModelError, OutOfOrderError, UnknownNameError, did_you_mean
from ..inference.encoding import action_number, check_protocol, is_lost
from ..inference.labels import warn_of_labels
from ..inference.sampled_filter import SampledFilter, update_sampled_filter
from ..inference.step_codes import step_codes_of
from ..models import POMDP, Setting
from ..planning import plan
from ..planning.discounted import require_average
from ..planning.solve import compile_if_long
from ..protocols import (
    FiniteSupport,
    ModelSample,
    Observation,
    Planner,
    Prior,
    ResumablePrior,
    SharesParameters,
    Solution,
)
from . import agent_state, deferred_work, episode_planning, reporting
from . import compiled_steps as steps
from .compiled_policy import new_sampled_filter, policy_of
from .current_episode import CurrentEpisode, before_first_episode, likelihoods, new_clock, start_clock
from .deferred_work import PlannedNext, Work
from .episode_records import EpisodeRecord, Info
from .fleet_units import FleetUnit, Log, condition_on_log
from .planning_budget import PlanningBudget
from .schedules import DoublingSchedule, Schedule, TSDESchedule

Samples = Literal["shared", "own"]

# Attributes that calls replace. The objects behind them are not changed in place, except for those that
# `_remember` and `_snapshot` copy.
_REPLACED = (
    "_units", "following", "current_episode", "plans", "last_plan", "late_steps", "n_observations",
    "warned_of_coarse_plan",
)  # fmt: skip


class FleetSnapshot(NamedTuple):
    """What a call can change. It adds to `undo` how the units that it touches are restored."""

    replaced: dict[str, Any]
    arrays: list[npt.NDArray[Any]]
    n_episodes: int
    streams: list[Any]
    n_ended: int
    undo: list[Callable[[], None]]


class Fleet(AtomicCalls):
    """Units with the same unknown dynamics, controlled by one PSRL-POMDP agent.

    Parameters
    ----------
    prior
        The prior over the dynamics that all units share. Its posteriors must be able to take the histories of
        several units (`psrl_pomdp.protocols.SharesParameters`), as those of the package can.
    schedule
        When episodes end; by default `DoublingSchedule` for finitely many kernels, else `TSDESchedule`.
    seed
        The seed of all random numbers that the fleet draws.
    budget
        Tolerance and work limits of the planner.
    planner
        The function that plans for sampled kernels.
    samples
        "shared": all units play for one sampled kernel; "own": each unit samples its own.
    wait
        Whether `act` waits for plans and refreshes of the ensemble. If not, see `work` and `adopt`.

    Raises
    ------
    InvalidModelError
        If an argument is none of these.

    >>> from psrl_pomdp import problem
    >>> fleet = Fleet(problem("separated").family, seed=1)
    >>> actions = fleet.act_all({"pump 1": 0, "pump 2": 3})
    >>> sorted(actions), fleet.unit("pump 2").time
    (['pump 1', 'pump 2'], 1)
    """

    def __init__(
        self,
        prior: Prior,
        schedule: Schedule | None = None,
        seed: int | Sequence[int] = 0,
        *,
        budget: PlanningBudget | None = None,
        planner: Planner = plan,
        samples: Samples = "shared",
        wait: bool = True,
    ) -> None:
        check_protocol(prior)
        for name, given, kind in (("schedule", schedule, Schedule), ("budget", budget, PlanningBudget)):
            if given is not None and not isinstance(given, kind):
                raise InvalidModelError(f"{name} is {given!r}, not {kind.__name__}")
        if samples not in ("shared", "own"):
            raise InvalidModelError(f"samples is {samples!r}: it must be 'shared' or 'own'")
        super().__init__()
        finite = isinstance(prior, FiniteSupport)
        warn_of_labels(prior, stacklevel=3)  # the caller of the constructor
        self.prior = prior
        self.schedule = schedule or (DoublingSchedule() if finite else TSDESchedule())
        self.budget = budget or PlanningBudget()
        self.planner = planner
        self.samples: Samples = samples
        if planner is plan and self.budget.time_limit is not None:
            compile_if_long(prior.setting, wait=True)
        self.rng, self.posterior_rng = agent_state.random_streams(seed, agent_state.FROM_SEED)
        self.posterior: Any = prior.posterior(self.posterior_rng)  # of θ; it has no observations of its own
        if samples == "own" and not wait:
            raise InvalidModelError("samples='own' needs wait=True: each unit would wait for its own plan")
        if not wait and (planner is not plan or not isinstance(prior, ResumablePrior)):
            what = "a planner of your own" if planner is not plan else f"a {type(prior).__name__}"
            raise InvalidModelError(
                f"wait=False cannot be used with {what}: its work could not be done in another process"
            )
        if not isinstance(self.posterior, SharesParameters):
            raise InvalidModelError(
                f"the posterior of a {type(prior).__name__} has no method new_unit(): it cannot take the "
                "histories of several units"
            )
        self.posterior.wait_for_refreshes(wait)
        self.wait = wait
        self.step_codes = step_codes_of(prior)
        self.episode_clock = new_clock(prior.setting, self.schedule)  # t, m̃_t and the end of the episode
        self.current_episode = before_first_episode(prior.setting, self.step_codes)  # θ_k and π_k
        self.episodes: list[EpisodeRecord] = []
        self.plans: dict[int, Solution] = {}
        self.last_plan: Solution | None = None
        self.warned_of_coarse_plan = False
        self.late_steps = 0  # actions by a policy whose episode was over, because no new plan had come
        self.expected_counts: Array = np.zeros(
            (self.setting.n_actions, self.setting.n_states)
        )  # ñ of all units
        self.n_observations = 0  # of all units
        self._units: dict[str, FleetUnit] = {}
        self._ended: list[FleetUnit] = []  # logs, and earlier histories of units that came back
        self.following: PlannedNext | None = None  # the kernel that is being planned for

    # -- Algorithm 1 for all units --------------------------------------------------------------

    def act(
        self,
        unit: str,
        observation: Observation,
        *,
        taken: int | str | None = None,
        cost: float | None = None,
    ) -> int:
        """Return the action of a unit after its observation.

        A unit joins the fleet at its first observation, which is None if there is none before the first
        action. In later calls None is a missing observation.

        Parameters
        ----------
        unit
            The name of the unit.
        observation
            What was observed, by number, by name, or as a real number.
        taken
            The action that was really taken since the unit's last observation, if it is another than the one
            that was returned. The posterior conditions on the actions taken, whoever chose them.
        cost
            The cost of that action, if the setting says that costs are seen.

        Raises
        ------
        ImpossibleObservationError
            If the observation has probability 0 under every kernel that the prior allows. As after every
            error, the fleet is as it was before the call.
        """
        return self._atomically(self._step, unit, observation, taken, cost)

    def act_all(
        self,
        observations: Mapping[str, Observation],
        taken: Mapping[str, int | str] | None = None,
        costs: Mapping[str, float | None] | None = None,
    ) -> dict[str, int]:
        """Return the actions of several units after one observation each, by name.

        The units take their steps in the order of the mapping. If one of them fails, no step was taken.
        """
        for name, given in (("taken", taken), ("costs", costs)):
            unknown = sorted(set(given or ()) - set(observations))
            if unknown:
                raise UnknownNameError(f"{name} has {unknown[0]!r}, of which there is no observation")
        return self._atomically(self._step_all, observations, taken or {}, costs or {})

    def _step_all(
        self,
        observations: Mapping[str, Observation],
        taken: Mapping[str, int | str],
        costs: Mapping[str, float | None],
    ) -> dict[str, int]:
        return {
            name: self._step(name, observation, taken.get(name), costs.get(name))
            for name, observation in observations.items()
        }

    def _step(self, name: str, observation: Observation, taken: int | str | None, cost: float | None) -> int:
        unit = self._units.get(name)
        if unit is None or not unit.present:
            unit = self._join(name)
        self._remember(unit)
        if unit.action is None:
            if taken is not None or not is_lost(cost):
                given = f"taken={taken!r}" if taken is not None else f"cost {cost!r}"
                raise OutOfOrderError(f"unit {name!r}: {given}, but this is its first observation")
            self._start(unit, observation)
        else:
            action = unit.action if taken is None else action_number(self.setting, taken)
            self._process_observation(unit, action, observation, cost)
        unit.action = self._choose_action(unit)
        return unit.action

    def _start(self, unit: FleetUnit, observation: Observation) -> None:
        """Compute h_1 from the unit's first observation, and start the first episode with the first unit."""
        unit.posterior.start(observation)
        self.n_observations += 1
        if self.current_episode.number:
            unit.episode = self._joined(unit, self.current_episode)
        if self.following is not None:
            unit.upcoming = self._first_filter(unit, self.following.sample)
        ruled_out = unit.episode is not None and not unit.episode.belief.any()
        self._update_clock(unit, ruled_out=ruled_out)
        self._end_episode_if_over()

    def _process_observation(
        self, unit: FleetUnit, action: int, observation: Observation, cost: float | None
    ) -> None:
        """Update f, h and m̃ with an observation of one unit, and start the next episode if one is due."""
        codes, before = self.step_codes, unit.expected_counts
        reading = codes.reading(action, observation, cost)
        unit.posterior.update_reading(action, reading)
        self.expected_counts += unit.expected_counts - before
        self.n_observations += 1
        ruled_out = unit.episode is not None and not unit.episode.observe(codes, action, reading)
        if unit.upcoming is not None and self.following is not None:
            likelihood = likelihoods(codes, self.following.sample.setting, action, reading)
            update_sampled_filter(unit.upcoming, likelihood, codes.matrix_number(action, reading.code))
        self._update_clock(unit, ruled_out=ruled_out)
        self._end_episode_if_over()

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

    def adopt_kernels(self, state: Mapping[str, Any]) -> bool:
        """Take over the kernels of a saved posterior of this fleet, brought up to the present."""
        assert isinstance(self.prior, ResumablePrior)
        self._remember_posterior()
        self.posterior.adopt_kernels(self.prior.restore(state, self.posterior_rng))
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

    # -- units ----------------------------------------------------------------------------------

    def join(self, unit: str) -> None:
        """Let a unit join the fleet, or come back; its first `act` takes its first observation.

        A unit that comes back starts anew from the initial distribution; its earlier history stays in the
        posterior. A unit that was only silent needs no call: give None for the observations that are missing.
        """
        self._atomically(self._join, unit)

    def _join(self, name: str) -> FleetUnit:
        if not name or not isinstance(name, str):
            raise InvalidModelError(f"a unit is named {name!r}: a name is a string that is not empty")
        before = self._units.get(name)
        if before is not None and before.present:
            raise OutOfOrderError(f"unit {name!r} is in the fleet already")
        if before is not None:
            self._ended.append(before)
        self._remember_posterior()
        unit = FleetUnit(name, self.posterior.new_unit())
        self._units = {**self._units, name: unit}
        return unit

    def leave(self, unit: str) -> None:
        """Let a unit leave the fleet. What was learned from it remains."""
        self._atomically(self._leave, unit)

    def _leave(self, name: str) -> None:
        unit = self.unit(name)
        if not unit.present:
            raise OutOfOrderError(f"unit {name!r} has left already")
        self._remember(unit)
        unit.present, unit.upcoming = False, None

    def override(self, unit: str, action: int | str) -> None:
        """Record that the last action of a unit was another one than `act` returned.

        It is the same as `taken=` in the next `act`. Learning stays valid, because the posterior conditions
        on the actions that were taken.
        """
        self._atomically(self._override, unit, action)

    def _override(self, name: str, action: int | str) -> None:
        unit = self.unit(name)
        if unit.action is None:
            raise OutOfOrderError(f"unit {name!r} has had no action")
        self._remember(unit)
        unit.action = action_number(self.setting, action)

    def learn(self, logs: Sequence[Log]) -> None:
        """Condition on the finished histories of units, under whatever policies they were made.

        Logs can be given at any time. They count for the posterior and for the pseudo-counts, but not as
        time. If one of them cannot be used, nothing is learned from the others.
        """
        if not all(isinstance(log, Log) for log in logs):
            raise InvalidModelError("logs must be a list of psrl_pomdp.Log")
        self._atomically(self._learn, logs)

    def _learn(self, logs: Sequence[Log]) -> None:
        self._remember_posterior()
        for i, log in enumerate(logs):
            place = f"log {i}" if log.name is None else f"log {i} ({log.name})"
            posterior = self.posterior.new_unit()
            condition_on_log(posterior, self.setting, log, place)
            ended = FleetUnit(log.name or f"log {i}", posterior, present=False)
            self._ended.append(ended)
            self.n_observations += ended.time
        self.expected_counts[...] = self._sum_of_counts()

    # -- work that is done elsewhere ------------------------------------------------------------

    @property
    def work(self) -> Work | None:
        """With `wait=False`, the work that is due: a plan or a refresh of the ensemble; else None.

        `work.run()` does it, in any process, and returns the bytes that `adopt` takes.
        """
        return self._undisturbed(deferred_work.due, self)

    def adopt(self, data: bytes) -> bool:
        """Adopt the result of `work.run()`, and return whether it could still be used.

        A plan is used if it is for the kernel that was sampled last. Kernels that were moved given the
        histories up to some time are brought up to the present exactly, by filtering the observations since.
        The same calls in the same order have the same results to the last bit, so that a log of them can be
        replayed without planning.
        """
        return self._atomically(deferred_work.adopt, self, data)

    # -- what users can read --------------------------------------------------------------------

    @property
    def setting(self) -> Setting:
        """What the agent knows: the POMDP without its transition kernel."""
        return self.prior.setting

    @property
    def time(self) -> int:
        """t, the number of observations of the unit that has most."""
        return int(self.episode_clock.clock[steps.T])

    @property
    def units(self) -> tuple[str, ...]:
        """The names of the units, in order of joining, with those that have left."""
        return tuple(self._units)

    def unit(self, name: str) -> FleetUnit:
        """Return a unit by name. An unknown name raises `UnknownNameError`."""
        found = self._units.get(name)
        if found is None:
            raise UnknownNameError(f"no unit is named {name!r}" + did_you_mean(name, self._units))
        return found

    @property
    def pseudo_counts(self) -> Index:
        """m̃_t of all units, shape [A, S]."""
        return self.episode_clock.pseudo.copy()

    def episode_records(self) -> tuple[EpisodeRecord, ...]:
        """Return the records of all episodes; the current one is the last."""
        return (*self.episodes, self.present_record)

    @property
    def present_record(self) -> EpisodeRecord:
        """The record of the current episode."""
        return reporting.record_of(self)

    def info(self, unit: str) -> Info:
        """Return the state of the fleet and of one unit at the action that it chose last."""
        return self._undisturbed(self._info, unit)

    def _info(self, name: str) -> Info:
        unit = self.unit(name)
        if unit.action is None or unit.episode is None:
            raise OutOfOrderError(f"info: no action was chosen for unit {name!r} so far")
        return reporting.info_at(self, unit.episode, unit.action, unit.expected_counts)

    def all_units(self, which: Literal["all", "units", "ended"] = "all") -> Iterator[FleetUnit]:
        """Yield units that have histories in the posterior: those in `units`, ended ones, or all."""
        if which != "units":
            yield from self._ended
        if which != "ended":
            yield from self._units.values()

    def set_units(self, units: Sequence[FleetUnit], ended: Sequence[FleetUnit]) -> None:
        """Set the units of a saved fleet."""
        self._units, self._ended = {unit.name: unit for unit in units}, list(ended)

    def _present_units(self) -> list[FleetUnit]:
        return [unit for unit in self._units.values() if unit.present]

    def _sum_of_counts(self) -> Array:
        total = np.zeros_like(self.expected_counts)
        for unit in self.all_units():
            total += unit.expected_counts
        return total

    # -- calls that fail change nothing ---------------------------------------------------------

    def _snapshot(self) -> FleetSnapshot:
        return FleetSnapshot(
            {name: getattr(self, name) for name in _REPLACED},
            [array.copy() for array in (*self.episode_clock, self.expected_counts)],
            len(self.episodes),
            [rng.bit_generator.state for rng in (self.rng, self.posterior_rng)],
            len(self._ended),
            [],
        )

    def _remember(self, unit: FleetUnit) -> None:
        """Take a snapshot of a unit, and of what all units share, before the present call changes it."""
        attributes, posterior = dict(vars(unit)), unit.posterior.snapshot()
        arrays = [(array, array.copy()) for array in _changed_arrays(unit)]

        def restore() -> None:
            vars(unit).update(attributes)
            for array, before in arrays:
                array[...] = before
            unit.posterior.go_back(posterior)

        self._before.undo.append(restore)

    def _remember_posterior(self) -> None:
        """Take a snapshot of what all units share."""
        before = self.posterior.snapshot()
        self._before.undo.append(lambda: self.posterior.go_back(before))

    def _remember_episodes(self) -> None:
        """Remember the episodes of all units, which the present call replaces."""
        before = [(unit, unit.episode, unit.upcoming) for unit in self._units.values()]

        def restore() -> None:
            for unit, episode, upcoming in before:
                unit.episode, unit.upcoming = episode, upcoming

        self._before.undo.append(restore)

    def _restore(self, snapshot: FleetSnapshot) -> None:
        for restore in reversed(snapshot.undo):
            restore()
        vars(self).update(snapshot.replaced)
        for array, values in zip((*self.episode_clock, self.expected_counts), snapshot.arrays, strict=True):
            array[...] = values
        del self.episodes[snapshot.n_episodes :]
        for rng, state in zip((self.rng, self.posterior_rng), snapshot.streams, strict=True):
            rng.bit_generator.state = state
        del self._ended[snapshot.n_ended :]

    # -- files ----------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fleet to a `.npz` file without pickles. An interrupt leaves no partial file."""
        if Path(path).suffix.lower() != ".npz":
            raise InvalidModelError(f"{Path(path).name!r} does not end in .npz")
        write_atomically(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the bytes that `save` writes."""
        from .fleet_files import to_bytes

        return self._undisturbed(to_bytes, self)

    @classmethod
    def load(
        cls, path: str | PathLike[str], *, prior: Prior | None = None, schedule: Schedule | None = None
    ) -> Fleet:
        """Return a fleet that continues exactly as the saved one would have.

        A prior or a schedule that is code is not in the file: pass it again.
        """
        from .fleet_files import from_bytes

        place = Path(path)
        return from_bytes(cls, read_bytes(place), place.name, prior, schedule)

    @classmethod
    def from_bytes(cls, data: bytes, *, prior: Prior | None = None) -> Fleet:
        """Return the fleet that `to_bytes` wrote."""
        from .fleet_files import from_bytes

        return from_bytes(cls, data, "fleet", prior)

    def __repr__(self) -> str:
        return (
            f"Fleet(t={self.time}, {len(self._present_units())} units, episode {self.current_episode.number})"
        )


def _changed_arrays(unit: FleetUnit) -> list[npt.NDArray[Any]]:
    """Return the arrays of a unit that a step changes in place, beside those of the posterior."""
    filters = [] if unit.upcoming is None else [unit.upcoming]
    if unit.episode is not None:
        filters.append(unit.episode.sampled_filter)
    found: list[npt.NDArray[Any]] = [array for each in filters for array in (each.belief, each.chance)]
    return found if unit.episode is None else [*found, unit.episode.policy.node]


def _same_kernel(episode: CurrentEpisode, sample: ModelSample) -> bool:
    """Return whether an episode is for the sampled model."""
    if not np.array_equal(episode.kernel, sample.kernel):
        return False
    one, other = episode.setting, sample.setting
    return one is other or (one is not None and other is not None and one.fingerprint == other.fingerprint)
