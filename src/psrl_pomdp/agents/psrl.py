"""PSRL-POMDP, Algorithm 1 of the paper.

    observe o_1 and compute f_1, h_1
    for episodes k = 1, 2, ...
        T_{k−1} ← t − t_k,  t_k ← t
        draw θ_k ~ f_{t_k} and compute π_k = π*(·; θ_k)
        while t ≤ SCHED(t_k, T_{k−1}) and m̃_t(s, a) ≤ 2 m̃_{t_k}(s, a) for all (s, a)
            choose a_t = π_k(h_t(·; θ_k)), observe o_{t+1}
            update f_{t+1}, h_{t+1};  t ← t + 1

π* is planned with a certified gap of at most ε_k, by default 1/t_k for a finite set and 1/√t_k otherwise.
That adds at most Σ T_k ε_k to the regret, O(log T) and O(√T), so that the paper's theorems hold up to the
horizon at which ε_k reaches its minimum. A second limit of the gap can only make it smaller
(`planning_budget`). If planning reaches its work limit first, the difference is recorded
(`EpisodeRecord.shortfall`).

The methods follow the algorithm: `act` observes o_t, updates f_t and h_t and chooses a_t;
`end_episode_if_over` starts the next episode; `choose_kernel` samples θ_k; `plan_for` plans; `choose_action`
acts. Other modules hold what the algorithm does not mention: `current_episode` (θ_k, π_k and the clock),
`episode_planning`, `compiled_driver` (many simulated steps at once), `agent_state` (failed calls change
nothing), `log_learning`, `reporting` and `serialization`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from .._serialization.reading import read_bytes
from .._utils.arrays import Array, Index
from .._utils.deprecation import renamed_keywords, warn_renamed
from ..errors import OutOfOrderError
from ..inference.encoding import action_number, is_lost, sample_model
from ..inference.labels import warn_of_labels
from ..inference.model_fit import ModelFit
from ..inference.prior_files import can_save
from ..inference.sampled_filter import SampledFilter
from ..inference.step_codes import TakesReadings, condition
from ..models import POMDP
from ..planning import plan
from ..protocols import Compilable, FiniteSupport, ModelSample, Observation, Planner, Prior, Solution
from . import agent_state, compiled_driver, episode_planning, reporting
from . import compiled_steps as steps
from .compiled_policy import new_sampled_filter, policy_of
from .current_episode import (
    CurrentEpisode,
    likelihoods,
    start_clock,
)
from .episode_records import REASONS, EpisodeRecord, Info
from .explanation import Explanation, explain_agent
from .fleet_units import Log
from .learner import Learner
from .log_learning import learn_from_log
from .planning_budget import PlanningBudget, Tolerance
from .schedules import Schedule

__all__ = ["REASONS", "EpisodeRecord", "Info", "PSRLAgent", "PlanningBudget", "Tolerance"]


class PSRLAgent(Learner):
    """An agent that learns to control a POMDP, one observation at a time.

    Parameters
    ----------
    prior
        The prior over transition kernels: a `FinitePrior`, a `DirichletPrior`, a `MixturePrior`, a subclass
        of `ParametricPrior`, or any object with the protocol `psrl_pomdp.protocols.Prior`.
    schedule
        When episodes end; by default `DoublingSchedule` for finitely many kernels, else `TSDESchedule`.
    seed
        The seed of all random numbers that the agent draws.
    budget
        Tolerance and work limits of the planner.
    planner
        The function that plans for the sampled kernel.

    Raises
    ------
    InvalidModelError
        If an argument is none of these.

    >>> from psrl_pomdp import problem
    >>> family = problem("separated").family
    >>> agent = PSRLAgent(family, seed=1)
    >>> action = agent.act(0)
    >>> agent.info.episode, agent.info.episode_start, action in (0, 1)
    (1, 1, True)
    """

    @renamed_keywords(effort="budget")
    def __init__(
        self,
        prior: Prior,
        schedule: Schedule | None = None,
        seed: int | Sequence[int] = 0,
        *,
        budget: PlanningBudget | None = None,
        planner: Planner = plan,
    ) -> None:
        super().__init__(prior, schedule, seed, budget, planner)
        warn_of_labels(prior, stacklevel=3)  # the caller of the constructor
        self.action: int | None = None  # a_t
        # o_t, and whether it was the first, for `explain`; None after `play`, and in files.
        self.observed: tuple[Observation, bool] | None = None
        # 1 if the observation after the action has already updated the posterior, as between calls of `play`.
        self.observation_processed = 0

    # -- Algorithm 1 ----------------------------------------------------------------------------

    def act(
        self, observation: Observation, cost: float | None = None, *, taken: int | str | None = None
    ) -> int:
        """Return the action a_t after the observation o_t.

        A call that raises, for whatever reason, leaves the agent as it was before, so that the same
        observation can be given again. Threads take turns.

        Parameters
        ----------
        observation
            The first call takes the first observation, or None if there is none before the first action. In
            later calls None is a missing observation: the beliefs are predicted, and the posterior does not
            change.
        cost
            The cost of the last action in the user's units, if the setting says that costs are seen
            (`seen_cost`), or None if it is missing.
        taken
            The action that was really taken since the last observation, by number or name, if it is another
            than the one that `act` returned. Learning stays valid, because the posterior conditions on the
            actions that were taken, by the agent or by a person.

        Raises
        ------
        OutOfOrderError
            If `cost` or `taken` is given with the first observation.
        ImpossibleObservationError
            If the observation has probability 0 under every kernel that the prior allows.
        """
        return self._atomically(self._step, observation, cost, taken)

    def _step(
        self, observation: Observation, cost: float | None = None, taken: int | str | None = None
    ) -> int:
        if self.action is None:
            if taken is not None or not is_lost(cost):
                given = f"taken={taken!r}" if taken is not None else f"cost {cost!r}"
                raise OutOfOrderError(f"{given}: no action was taken before the first observation")
            self._start(observation)
        else:
            action = self.action if taken is None else action_number(self.setting, taken)
            self._process_observation(action, observation, cost)
        self.observed = (observation, self.action is None)
        self.action = self.choose_action()
        if self.current_episode.start == self.episode_clock.clock[steps.T]:  # the plan is new
            episode_planning.warn_of_coarse_plan(self)
        return self.action

    def _start(self, observation: Observation) -> None:
        """Compute f_1 and h_1 from o_1. With t ← 1 and t_1 ← 0 the length T_0 is 1."""
        self.posterior.start(observation)
        self.episode_clock.clock[steps.T] = 1
        self._begin_episode(previous_length=1)

    def _process_observation(self, action: int, observation: Observation, cost: float | None) -> None:
        """Update f_{t+1}, h_{t+1} and m̃_{t+1}, and start the next episode if the current one is over."""
        codes, episode = self.step_codes, self.current_episode
        reading = codes.reading(action, observation, cost)
        likelihood = reading.likelihood
        if codes.has_rows and episode.setting is not None:  # θ_k has a sensor of its own
            likelihood = likelihoods(codes, episode.setting, action, reading)
        number = episode.observation_number(codes, action, reading) if episode.has_nodes else -1
        if isinstance(self.posterior, TakesReadings):  # which are checked already
            self.posterior.update_reading(action, reading)
        else:
            condition(self.posterior, codes, action, observation, cost)
        steps.process_observation(
            episode.policy,
            episode.sampled_filter,
            self.episode_clock,
            self.posterior.expected_counts,
            likelihood,
            codes.matrix_number(action, reading.code) if codes.by_code else action,
            number,
        )
        if episode.has_nodes and number == -1:
            episode.find_node()
        self.end_episode_if_over()

    def end_episode_if_over(self) -> None:
        """Record the episode if SCHED or the pseudo-counts have ended it, and start the next one."""
        if self.episode_clock.clock[steps.END_REASON] == steps.GOES_ON:
            return
        length = 1
        if self.current_episode.number:  # it is 0 after a log
            self.episodes.append(self.present_record)
            length = self.time - self.current_episode.start  # T_{k−1} ← t − t_k
        self._begin_episode(previous_length=length)

    def _begin_episode(self, previous_length: int) -> None:
        """t_k ← t; sample θ_k ~ f_{t_k}, and compute π_k = π*(·; θ_k)."""
        start = self.time
        start_clock(self.episode_clock, self.schedule, previous_length, self.posterior.expected_counts)
        sample = self.choose_kernel()
        kernel, belief, index, own_setting = sample
        setting = own_setting or self.setting
        tolerance = episode_planning.episode_tolerance(self, start)
        found, work = self.plan_for(POMDP(setting, kernel), index, tolerance)
        self.current_episode = CurrentEpisode(
            sampled_filter=new_sampled_filter(kernel, belief, self.step_codes, setting),
            policy=policy_of(found, belief, setting, self.step_codes),
            number=len(self.episodes) + 1,
            start=start,
            previous_length=previous_length,
            kernel=kernel,
            setting=own_setting,
            index=index,
            tolerance=tolerance,
            plan=found,
            work=work,
        )

    def choose_kernel(self) -> ModelSample:
        """Return θ_k ~ f_{t_k} and h_{t_k}(·; θ_k), with the number of θ_k in a finite set."""
        sample = sample_model(self.posterior, self.rng)
        if sample.kernel_index is None and isinstance(self.prior, FiniteSupport):
            index = episode_planning.kernel_index(sample.kernel, self.prior)
            return sample._replace(kernel_index=index)
        return sample

    def plan_for(self, model: POMDP, index: int | None, tolerance: float) -> tuple[Solution, float]:
        """Return a plan for θ_k to within `tolerance`, and the work; plans for a finite set are stored."""
        return episode_planning.plan_for(self, model, index, tolerance)

    def choose_action(self) -> int:
        """Return a_t = π_k(h_t(·; θ_k))."""
        episode = self.current_episode
        if episode.is_compiled:
            return int(steps.best_action(episode.policy, episode.sampled_filter))
        return episode.planned_action(self.setting.n_actions)

    # -- many steps at a time, and a log --------------------------------------------------------

    @property
    def can_compile(self) -> bool:
        """Whether `play` can run this agent.

        It can after the first action, if the plan is an `AlphaVectorPolicy` and the posterior `Compilable`.
        """
        compiled = self.current_episode.is_compiled and isinstance(self.posterior, Compilable)
        if self.step_codes.has_rows and self.current_episode.setting is not None:
            return False  # the likelihoods of readings differ between kernels
        if self.step_codes.has_rows and self.step_codes.n_costs:
            return False  # the loop takes likelihoods and no codes of costs with them
        if self.step_codes.has_rows and self.current_episode.policy.node[0] >= 0:
            return (
                False  # the node of a controller follows from the cell of an observation, which `act` finds
            )
        return self.action is not None and compiled

    def play(
        self,
        world: steps.EnvironmentState,
        uniforms: Array,
        actions: compiled_driver.Codes,
        readings: compiled_driver.Codes,
        begin: int,
        ahead: compiled_driver.ObservationsAhead = compiled_driver.NUMBERED,
    ) -> int:
        """Take the steps of `act` in a simulated environment, in one compiled loop.

        The loop ends with the episode, or after one step for each row of `uniforms[n, 2]`. It writes the
        actions and observations from `begin` on. If observations have no numbers, `ahead` contains those that
        were drawn ahead. Returns how many actions were taken. If the call raises, the agent is as it was
        before, but the environment is not.
        """
        self.observed = None
        return self._atomically(
            compiled_driver.run_compiled, self, world, uniforms, actions, readings, begin, ahead
        )

    def learn(
        self,
        observations: Sequence[Any] | None = None,
        actions: Sequence[Any] | None = None,
        costs: Sequence[float | None] | None = None,
        *,
        logs: Sequence[Log] = (),
    ) -> None:
        """Condition on a log that leads up to the present, or on finished logs of other units, or on both.

        The policies under which the logs were made do not matter. If one log cannot be used, nothing is
        learned from the others.

        Parameters
        ----------
        observations, actions, costs
            The agent's own past, before its first action. `actions[i]` was taken after `observations[i]`,
            which is None (or NaN) if it is missing, or if there is none before the first action. Both are
            numbers, or names if the setting has names. `costs[i]` is the cost of `actions[i]` that was seen,
            or None. Continue with `act` and the observation after the last action.
        logs
            Finished histories of other units with the same dynamics, at any time. They are part of what is
            known: the posterior conditions on them, but the time t and the pseudo-counts m̃ count the agent's
            own steps alone. To control several units at once, use `Fleet`.

        Raises
        ------
        OutOfOrderError
            If the agent's own past is given after its first action.
        InvalidModelError
            If a log does not fit, or if the posterior cannot take the histories of several units
            (`psrl_pomdp.protocols.SharesParameters`).

        >>> from psrl_pomdp import Log, problem
        >>> agent = PSRLAgent(problem("separated").family, seed=1)
        >>> agent.learn(logs=[Log([0, 3, 3], [1, 0], name="pump 1"), Log([0, 0, 0], [1, 1], name="pump 2")])
        >>> agent.time, len(agent.posterior.units)
        (0, 3)
        """
        self._atomically(learn_from_log, self, observations, actions, costs, logs)

    _snapshot = agent_state.snapshot_of  # so that a call that fails can be undone
    _restore = agent_state.restore

    # -- what users can read --------------------------------------------------------------------

    @property
    def effort(self) -> PlanningBudget:
        """`budget`. Deprecated."""
        warn_renamed("PSRLAgent.effort", "PSRLAgent.budget")
        return self.budget

    @property
    def options(self) -> dict[str, float]:
        """The further arguments of a subclass's constructor, by name; files store them."""
        return {}

    @property
    def time(self) -> int:
        """t, the number of observations processed so far, with the first one; 0 before it."""
        self._settle()
        return int(self.episode_clock.clock[steps.T])

    @property
    def episode_number(self) -> int:
        """The number k of the present episode."""
        self._settle()
        return self.current_episode.number

    @property
    def steps_taken(self) -> int:
        """The number of actions taken so far."""
        return self.time - self.observation_processed

    @property
    def expected_counts(self) -> Array:
        """ñ_t, shape [A, S]."""
        self._settle()
        counts: Array = self.posterior.expected_counts
        return counts

    @property
    def pseudo_counts(self) -> Index:
        """m̃_t, shape [A, S]."""
        self._settle()
        return self.episode_clock.pseudo.copy()

    @property
    def sampled_filter(self) -> SampledFilter:
        """The kernel θ_k of the current episode, and the belief h_t(·; θ_k)."""
        return self.current_episode.sampled_filter

    def episode_records(self) -> tuple[EpisodeRecord, ...]:
        """Return the records of all episodes; the current one is the last."""
        return (*self.episodes, self.present_record)

    @property
    def present_record(self) -> EpisodeRecord:
        """The record of the current episode."""
        return reporting.record_of(self)

    @property
    def info(self) -> Info:
        """The present state: the episode, θ_k and its belief, the plan, and the values of the actions."""
        return self._undisturbed(reporting.info_of, self)

    def explain(self) -> Explanation:
        """Return why the last action was chosen: data, and with `str()` a few sentences.

        Raises
        ------
        OutOfOrderError
            If no action was chosen so far.
        """
        return self._undisturbed(explain_agent, self)

    @property
    def fit(self) -> ModelFit | None:
        """Whether readings have come as the posterior predicted them.

        None if the posterior does not test this: one of a user's own, or one of observations that are
        vectors.
        """
        found = self._undisturbed(getattr, self.posterior, "fit", None)
        return found if isinstance(found, ModelFit) else None

    def closeness(self, kernel: Array) -> float:
        """Return the posterior's probability of a kernel, or its mean distance to the kernel.

        It is P(θ = `kernel` | data) if the prior gives the kernel a probability; else E‖θ − `kernel`‖₁, the
        mean over all rows; and NaN if the posterior has neither.
        """
        return reporting.closeness(self.posterior, kernel)

    def replan(self) -> None:
        """Compute π*(·; θ_k) again, with a planner whose plans no file holds."""
        now = self.current_episode
        setting = now.setting or self.setting
        found, work = self.plan_for(POMDP(setting, now.kernel), now.index, now.tolerance)
        policy = policy_of(found, now.belief, setting, self.step_codes)
        self.current_episode = replace(now, plan=found, work=work, policy=policy)

    # -- files ----------------------------------------------------------------------------------

    @property
    def can_save(self) -> bool:
        """Whether the prior and its posterior have the methods that saving needs."""
        return can_save(self.prior, self.posterior)

    def to_bytes(self) -> bytes:
        """Return the bytes that `save` writes."""
        from .serialization import to_bytes

        return self._undisturbed(to_bytes, self)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        schedule: Schedule | None = None,
        planner: Planner = plan,
        tolerance: Tolerance | None = None,
        seed: int | Sequence[int] | None = None,
        prior: Prior | None = None,
    ) -> PSRLAgent:
        """Return an agent that continues exactly as the saved one would have.

        A user's own prior, schedule, planner or tolerance is code, which the file does not contain: pass it
        again. The file has the name of the class of such a prior, and the fingerprint of its parameters.

        With a `seed` all further random numbers come from it, so that several agents loaded from one file
        draw independent numbers. They share what the saved agent had drawn already, such as θ_k.
        """
        from .serialization import OwnCode, from_bytes

        place = Path(path)
        streams = None if seed is None else agent_state.random_streams(seed, agent_state.FROM_FILE)
        own = OwnCode(prior, schedule, planner, tolerance)
        return from_bytes(cls, read_bytes(place), place.name, own, streams)

    @classmethod
    def from_bytes(cls, data: bytes) -> PSRLAgent:
        """Return the agent that `to_bytes` wrote, if it uses no code of the user's."""
        from .serialization import OwnCode, from_bytes

        return from_bytes(cls, data, "agent", OwnCode())

    def restored(self, data: bytes) -> PSRLAgent:
        """Return the agent that `to_bytes` wrote, with this agent's class and code."""
        from .serialization import OwnCode, from_bytes

        return from_bytes(type(self), data, "agent", OwnCode.of(self))

    def __repr__(self) -> str:
        episode = f"episode {self.current_episode.number}"
        return f"PSRLAgent(t={self.time}, {episode}, {self.schedule.name}, {self.prior!r})"
