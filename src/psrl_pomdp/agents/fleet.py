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

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from .._serialization.reading import read_bytes
from .._utils.arrays import Index
from ..errors import InvalidModelError, OutOfOrderError, UnknownNameError
from ..inference.encoding import action_number, is_lost
from ..inference.sampled_filter import update_sampled_filter
from ..protocols import Observation, Prior
from . import deferred_work, episode_planning, reporting
from . import watch as watching
from .current_episode import likelihoods
from .deferred_work import Work
from .episode_records import EpisodeRecord, Info
from .explanation import Explanation, explain_unit, observation_words
from .fleet_episodes import FleetEpisodes
from .fleet_units import FleetUnit, Log, condition_on_log, log_place
from .schedules import Schedule


class Fleet(FleetEpisodes):
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
    false_alarm_rate
        α, the largest probability of an alarm by `watch` if the model is right, over the whole life.

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
            that was returned. The posterior conditions on the actions that were taken.
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
        actions = {}
        for name, observation in observations.items():
            actions[name] = self._step(name, observation, taken.get(name), costs.get(name), 6)
        return actions

    def _step(
        self,
        name: str,
        observation: Observation,
        taken: int | str | None,
        cost: float | None,
        stacklevel: int = 5,  # from the warning about a coarse plan to the caller of `act`
    ) -> int:
        unit = self._units.get(name)
        if unit is None or not unit.present:
            unit = self._join(name)
        self._remember(unit)
        number = self.current_episode.number
        if unit.action is None:
            if taken is not None or not is_lost(cost):
                given = f"taken={taken!r}" if taken is not None else f"cost {cost!r}"
                raise OutOfOrderError(f"unit {name!r}: {given}, but this is its first observation")
            self._start(unit, observation)
        else:
            action = unit.action if taken is None else action_number(self.setting, taken)
            self._process_observation(unit, action, observation, cost)
        unit.observed = observation_words(self.setting, observation, first=unit.action is None)
        unit.late = self.following is not None
        unit.action = unit.chosen = self._choose_action(unit)
        if self.current_episode.number != number:  # the plan is new
            episode_planning.warn_of_coarse_plan(self, stacklevel)
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
        self.alarms = watching.alarms_after(self, unit, self._e_values)
        ruled_out = unit.episode is not None and not unit.episode.observe(codes, action, reading)
        if unit.upcoming is not None and self.following is not None:
            likelihood = likelihoods(codes, self.following.sample.setting, action, reading)
            update_sampled_filter(unit.upcoming, likelihood, codes.matrix_number(action, reading.code))
        self._update_clock(unit, ruled_out=ruled_out)
        self._end_episode_if_over()

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
        self._remember_posterior()
        unit = FleetUnit(name, self.posterior.new_unit())
        self._add_unit(unit)
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
        time. The call waits for refreshes of the ensemble, also with `wait=False`. If one of the logs cannot
        be used, nothing is learned from the others.
        """
        if not all(isinstance(log, Log) for log in logs):
            raise InvalidModelError("logs must be a list of psrl_pomdp.Log")
        self._atomically(self._learn, logs)

    def _learn(self, logs: Sequence[Log]) -> None:
        self._remember_posterior()
        self.posterior.wait_for_refreshes(True)  # an ensemble must not degenerate over a long log
        for i, log in enumerate(logs):
            posterior = self.posterior.new_unit()
            condition_on_log(posterior, self.setting, log, log_place(i, log))
            ended = FleetUnit(log.name or f"log {i}", posterior, present=False)
            self._ended.append(ended)
            self.n_observations += ended.time
            self.alarms = watching.alarms_after(self, ended, self._e_values)
        self.posterior.wait_for_refreshes(self.wait)
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
        histories up to some time are used if no others were adopted since. They are brought up to the
        present exactly, by filtering the observations since.
        The same calls in the same order have the same results to the last bit, so that a log of them can be
        replayed without planning.

        Raises
        ------
        ParseError, InvalidModelError
            If the bytes are not the result of a work of this fleet.
        """
        return self._atomically(deferred_work.adopt, self, data)

    # -- what users can read --------------------------------------------------------------------

    @property
    def pseudo_counts(self) -> Index:
        """m̃_t of all units, shape [A, S]."""
        return self.episode_clock.pseudo.copy()

    def episode_records(self) -> tuple[EpisodeRecord, ...]:
        """Return the records of all episodes; the current one is the last."""
        now = [self.present_record] if self.current_episode.number else []
        return (*self.episodes, *now)

    def explain(self, unit: str) -> Explanation:
        """Return why a unit has its last action: data, and with `str()` a few sentences."""
        return self._undisturbed(explain_unit, self, unit)

    @property
    def watch(self) -> watching.Watch:
        """The alarms so far: units whose readings do not come as the model predicts them.

        If the model is right, the probability that there ever is an alarm is at most `false_alarm_rate`, on
        average over the prior. A unit has one alarm for each of its histories; when its sensor has been
        repaired, let it leave and come back.
        """
        return self._undisturbed(watching.watch_of, self)

    def info(self, unit: str) -> Info:
        """Return the state of the fleet and of one unit at the action that it chose last."""
        return self._undisturbed(self._info, unit)

    def _info(self, name: str) -> Info:
        unit = self.unit(name)
        if unit.action is None or unit.episode is None:
            raise OutOfOrderError(f"info: no action was chosen for unit {name!r} so far")
        return reporting.info_at(self, unit.episode, unit.action, unit.expected_counts)

    # -- files ----------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the bytes that `save` writes."""
        from .fleet_files import to_bytes

        return self._undisturbed(to_bytes, self)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        prior: Prior | None = None,
        schedule: Schedule | None = None,
        wait: bool | None = None,
    ) -> Fleet:
        """Return a fleet that continues exactly as the saved one would have.

        A prior or a schedule that is code is not in the file: pass it again. `wait` replaces that of the
        saved fleet, if it is given, which must have no work that is due.
        """
        from .fleet_files import from_bytes

        place = Path(path)
        return from_bytes(cls, read_bytes(place), place.name, prior, schedule, wait)

    @classmethod
    def from_bytes(cls, data: bytes, *, prior: Prior | None = None) -> Fleet:
        """Return the fleet that `to_bytes` wrote."""
        from .fleet_files import from_bytes

        return from_bytes(cls, data, "fleet", prior)

    def __repr__(self) -> str:
        return (
            f"Fleet(t={self.time}, {len(self._present_units())} units, episode {self.current_episode.number})"
        )
