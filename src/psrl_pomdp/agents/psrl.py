"""PSRL-POMDP, Algorithm 1 of the paper.

    observe o_1 and compute f_1, h_1
    for episodes k = 1, 2, ...
        T_{k−1} ← t − t_k,  t_k ← t
        draw θ_k ~ f_{t_k} and compute π_k = π*(·; θ_k)
        while t ≤ SCHED(t_k, T_{k−1}) and m̃_t(s, a) ≤ 2 m̃_{t_k}(s, a) for all (s, a)
            choose a_t = π_k(h_t(·; θ_k)), observe o_{t+1}
            update f_{t+1}, h_{t+1};  t ← t + 1

π* is planned with a certified gap of at most ε_k, by default 1/t_k for a finite set and 1/√t_k otherwise.
That adds at most Σ T_k ε_k to the regret, O(log T) and O(√T), and the paper's theorems survive, up to the
horizon at which ε_k reaches its floor. The gap is also kept small beside what is at stake
(`planning_budget`), and so only smaller. Where a plan's work is spent first, what is missing is recorded
(`EpisodeRecord.shortfall`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._serialization.atomic_files import write_atomically
from .._serialization.reading import read_bytes
from .._utils.arrays import Array, Index
from .._utils.atomic_calls import AtomicCalls
from .._utils.deprecation import renamed_keywords, warn_renamed
from ..errors import CoarsePlanWarning, InvalidModelError, OutOfOrderError
from ..inference.encoding import (
    action_numbers,
    check_protocol,
    reading_number,
    reading_numbers,
    sample_model,
    update_many,
)
from ..inference.filter_bank import FilterBank, likelihoods
from ..inference.sampled_filter import PossibleStates, RefreshRule, SampledFilter
from ..models import POMDP, Setting
from ..models.structure import reachable_states
from ..planning import Plan, plan
from ..planning.accuracy import COARSE, Accuracy
from ..planning.solve import compile_if_long
from ..protocols import (
    Compilable,
    FiniteSupport,
    GivesProbabilities,
    ModelSample,
    Planner,
    Prior,
    Reversible,
    Solution,
    Summarizable,
)
from . import compiled_steps as steps
from .episode_records import REASONS, EpisodeRecord, Info
from .planning_budget import FINITE_RTOL, GENERAL_RTOL, PlanningBudget, Tolerance, one_over, one_over_root
from .schedules import DoublingSchedule, Schedule, TSDESchedule

__all__ = ["REASONS", "EpisodeRecord", "Info", "PSRLAgent", "PlanningBudget", "Tolerance"]

Codes = npt.NDArray[np.uint16]

# What steps replace and never change in place, beside the arrays of `_changed`.
_REPLACED = (
    "action",
    "posterior",
    "plans",
    "last_plan",
    "_observation_processed",
    "_present",
    "_policy",
    "_sampled_filter",
)

_FROM_THE_START, _FROM_A_FILE = 0, 2  # keys of random streams; 1 is that of simulated worlds
_COUNTS = {"time": steps.TIME, "expected": steps.EXPECTED, "none": steps.NONE}


class PSRLAgent(AtomicCalls):
    """Learns to control a system one reading at a time.

    Parameters
    ----------
    prior
        What is believed of the transition kernel: a `FinitePrior`, a `DirichletPrior`, a `MixturePrior`, a
        subclass of `ParametricPrior`, or any object that follows the protocol `psrl_pomdp.protocols.Prior`.
    schedule
        When episodes end; by default `DoublingSchedule` for finitely many kernels, else `TSDESchedule`.
    seed
        Of all random numbers that the agent draws.
    budget
        Tolerance and work limits of the planner.
    planner
        What makes the plans.

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
        check_protocol(prior)
        for name, given, kind in (("schedule", schedule, Schedule), ("budget", budget, PlanningBudget)):
            if given is not None and not isinstance(given, kind):
                raise InvalidModelError(f"{name} is {given!r}, not {kind.__name__}")
        super().__init__()
        finite = isinstance(prior, FiniteSupport)
        self.prior = prior
        self.schedule = schedule or (DoublingSchedule() if finite else TSDESchedule())
        self.budget = budget or PlanningBudget()
        self.planner = planner
        if planner is plan and self.budget.time_limit is not None:
            compile_if_long(prior.setting, wait=True)  # here, and not inside of `act`
        self.rng, self.posterior_rng = streams(seed, _FROM_THE_START)
        self.posterior: Any = prior.posterior(self.posterior_rng)
        self.episodes: list[EpisodeRecord] = []  # those that have ended
        self.plans: dict[int, Solution] = {}  # of a finite set, by kernel
        self.last_plan: Solution | None = None
        self.action: int | None = None  # a_t
        self._observation_processed = (
            0  # whether the reading after it was taken in already: between calls of `play`
        )
        shape = (prior.setting.n_actions, prior.setting.n_states)
        self._likelihood = likelihoods(prior.setting)
        n_actions, n_states = shape
        self._sampled_filter = _sampled_filter_of(
            np.zeros((n_actions, n_states, n_states)), np.zeros(n_states)
        )
        self._policy = _blank_policy(prior.setting, self._likelihood)
        self._warned = False  # of a coarse plan
        self._present = _CurrentEpisode()
        self._episode = steps.EpisodeClock(
            np.array([0, 0, _COUNTS[self.schedule.pseudo_count], steps.GOES_ON]),
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64),
        )

    @property
    def setting(self) -> Setting:
        return self.prior.setting

    @property
    def effort(self) -> PlanningBudget:
        """`budget`. Deprecated."""
        warn_renamed("PSRLAgent.effort", "PSRLAgent.budget")
        return self.budget

    @property
    def options(self) -> dict[str, float]:
        """What else an agent of this class was made with, by the names of its constructor; for files."""
        return {}

    @property
    def time(self) -> int:
        """t, the number of readings taken in, the first one included; 0 before it."""
        self._settle()
        return int(self._episode.clock[0])

    @property
    def episode_number(self) -> int:
        """k."""
        self._settle()
        return self._present.number

    @property
    def steps_taken(self) -> int:
        """How many actions were taken so far."""
        return self.time - self._observation_processed

    @property
    def expected_counts(self) -> Array:
        """[A, S]: ñ_t."""
        self._settle()
        counts: Array = self.posterior.expected_counts
        return counts

    @property
    def sampled_filter(self) -> SampledFilter:
        """The kernel θ_k for which it plays, and the belief h_t(·; θ_k)."""
        return self._sampled_filter

    @property
    def pseudo_counts(self) -> Index:
        """[A, S]: m̃_t."""
        self._settle()
        return self._episode.pseudo.copy()

    # -- Algorithm 1 ----------------------------------------------------------------------------

    def act(self, observation: int | str | None) -> int:
        """Take in o_t and choose a_t.

        The first call takes the first reading, or None where nothing is read before the first action. Later
        None means that a reading was lost: beliefs go on by prediction, and nothing is learned.

        A call that raises, for whatever reason, leaves the agent as it was before: the same reading can be
        given again. Threads take turns.
        """
        return self._atomically(self._step, observation)

    def _step(self, observation: int | str | None) -> int:
        if self.action is None:
            self._start(observation)
        else:
            self._take_in(self.action, observation)
        self.action = self.choose_action()
        self._warn_of_coarse_plan()
        return self.action

    def _start(self, observation: int | str | None) -> None:
        """t ← 1, t_1 ← 0, so that T_0 = 1; f_1 and h_1 from o_1."""
        self.posterior.start(observation)
        self._episode.clock[0] = 1
        self._begin_episode(previous_length=1)

    def _take_in(self, action: int, observation: int | str | None) -> None:
        """f_{t+1}, h_{t+1}, m̃_{t+1}; a new episode where the present one is over."""
        reading = reading_number(self.setting, observation)
        self.posterior.update(action, observation)
        steps.process_observation(
            self._policy,
            self._sampled_filter,
            self._episode,
            self.posterior.expected_counts,
            self._likelihood,
            action,
            reading,
        )
        if reading == self.setting.n_observations and self._policy.node[0] >= 0:
            self._policy.node[0] = self._present.plan_node(self._sampled_filter.belief[:, 0])
        self.end_episode_if_over()

    def end_episode_if_over(self) -> None:
        """T_{k−1} ← t − t_k, and the next episode."""
        if self._episode.clock[3] == steps.GOES_ON:
            return
        length = 1
        if self._present.number:  # else a log was before
            self.episodes.append(self.present_record)
            length = self.time - self._present.start
        self._begin_episode(previous_length=length)

    def _begin_episode(self, previous_length: int) -> None:
        """t_k ← t, θ_k ~ f_{t_k}, π_k = π*(·; θ_k)."""
        clock, t = self._episode.clock, self.time
        self._present = _CurrentEpisode(
            number=len(self.episodes) + 1, start=t, previous_length=previous_length
        )
        clock[1], clock[3] = self.schedule.last(t, previous_length), steps.GOES_ON
        if clock[2] == steps.EXPECTED:
            steps.update_pseudo_counts(self._episode.pseudo, self.posterior.expected_counts, t)
        else:
            self._episode.pseudo[:] = t
        self._episode.pseudo_start[:] = self._episode.pseudo
        self._play_kernel(*self.choose_kernel())

    def choose_kernel(self) -> ModelSample:
        """θ_k ~ f_{t_k} with h_{t_k}(·; θ_k), and its number in a finite set."""
        drawn = sample_model(self.posterior, self.rng)
        if drawn.kernel_index is None and isinstance(self.prior, FiniteSupport):
            return drawn._replace(kernel_index=_index_of(drawn.kernel, self.prior))
        return drawn

    def choose_action(self) -> int:
        """a_t = π_k(h_t(·; θ_k))."""
        if self._present.compiled:
            return int(steps.best_action(self._policy, self._sampled_filter))
        chosen = self._present.plan.action(self._sampled_filter.belief[:, 0].copy())
        if not isinstance(chosen, int | np.integer) or not 0 <= chosen < self.setting.n_actions:
            raise InvalidModelError(
                f"the plan chose action {chosen!r}: a number from 0 to {self.setting.n_actions - 1} is wanted"
            )
        return int(chosen)

    # -- the same, many steps at a time -----------------------------------------------------------

    @property
    def can_compile(self) -> bool:
        """Whether `play` can drive it: once it has started, while the policy is one of our plans, and where
        the posterior has a bank of compiled filters."""
        return self.action is not None and self._present.compiled and isinstance(self.posterior, Compilable)

    def play(
        self, world: steps.EnvironmentState, uniforms: Array, actions: Codes, readings: Codes, begin: int
    ) -> int:
        """What `act` does in a simulated world, in one compiled loop.

        It goes up to the end of the episode, or one step for each of `uniforms[n, 2]`, writes what happened
        from `begin` on, and returns how many actions it took. Where it raises, the agent is as it was before,
        and the world is not.
        """
        return self._atomically(self._play, world, uniforms, actions, readings, begin)

    def _play(
        self, world: steps.EnvironmentState, uniforms: Array, actions: Codes, readings: Codes, begin: int
    ) -> int:
        assert self.action is not None
        bank: tuple[FilterBank, PossibleStates, RefreshRule] = self.posterior.filter_bank()
        flags = np.array([self.action, self._observation_processed, 0])
        done, why = steps.run_episode(
            world, uniforms, *bank, self._sampled_filter, self._policy, self._episode,
            flags, actions, readings, begin,
        )  # fmt: skip
        first = begin - 1 + self._observation_processed
        taken = slice(first, first + int(flags[2]))
        self.action, self._observation_processed = int(flags[0]), int(flags[1])
        self.posterior.commit(actions[taken], readings[taken], refresh=why == steps.REFRESH)
        if why in (steps.IMPOSSIBLE, steps.TOO_UNLIKELY):
            self.posterior.update(self.action, int(world.present[1]))  # raises, and says why
        self.end_episode_if_over()
        self._warn_of_coarse_plan()
        return int(done)

    # -- all of a call or nothing of it ------------------------------------------------------------

    def _snapshot(self) -> Any:
        return (
            {name: getattr(self, name) for name in _REPLACED},
            [array.copy() for array in self._changed],
            len(self.episodes),
            [rng.bit_generator.state for rng in (self.rng, self.posterior_rng)],
            self._posterior_snapshot(),
        )

    def _restore(self, snapshot: Any) -> None:
        replaced, changed, n_episodes, streams, learned = snapshot
        vars(self).update(replaced)
        for array, before in zip(self._changed, changed, strict=True):
            array[...] = before
        del self.episodes[n_episodes:]
        for rng, state in zip((self.rng, self.posterior_rng), streams, strict=True):
            rng.bit_generator.state = state
        if isinstance(self.posterior, Reversible):
            self.posterior.go_back(learned)
        else:
            self.posterior = learned

    def _posterior_snapshot(self) -> Any:
        """What takes the posterior back: its own snapshot, or a copy that shares prior and random numbers."""
        if isinstance(self.posterior, Reversible):
            return self.posterior.snapshot()
        shared = (self.prior, self.setting, self.posterior_rng)
        return deepcopy(self.posterior, {id(part): part for part in shared})

    @property
    def _changed(self) -> tuple[npt.NDArray[Any], ...]:
        """Arrays that steps change in place."""
        return (*self._episode, self._sampled_filter.belief, self._sampled_filter.chance, self._policy.node)

    # -- planning -------------------------------------------------------------------------------

    def _play_kernel(self, kernel: Array, belief: Array, index: int | None) -> None:
        """Plan for θ_k, and take up its belief and its policy."""
        present = self._present
        present.kernel, present.index = kernel, index
        self._sampled_filter = _sampled_filter_of(kernel, belief)
        rule = one_over if isinstance(self.prior, FiniteSupport) else one_over_root
        present.tolerance = self.budget.tolerance_at(present.start, rule)
        present.plan, present.work = self.plan_for(kernel, index, present.tolerance)
        self._policy = present.policy(belief, self.setting, self._likelihood)

    def replan(self) -> None:
        """π*(·; θ_k) once more, where it could not be kept."""
        now = self._present
        now.plan, now.work = self.plan_for(now.kernel, now.index, now.tolerance)

    def plan_for(self, kernel: Array, index: int | None, tolerance: float) -> tuple[Solution, float]:
        """π*(·; θ_k) to within `tolerance`, and the work. Plans for a finite set are kept and refined."""
        if index is not None and isinstance(self.prior, FiniteSupport):
            earlier, model, rtol = self.plans.get(index), self.prior.model(index), FINITE_RTOL
            if earlier is not None and self._is_accurate(earlier, tolerance, rtol):
                return earlier, 0.0
        else:
            earlier, model, rtol = self.last_plan, POMDP(self.setting, kernel), GENERAL_RTOL
        if self.planner is not plan:
            found, work = self.planner(model, tolerance, self.budget.time_limit), 0.0
        else:
            near = (
                earlier if isinstance(earlier, Plan) and earlier.states == reachable_states(model) else None
            )
            found = self.budget.solve(model, tolerance, near, rtol)
            work = found.rounds[-1].work if found.rounds else 0.0
            if index is not None and isinstance(earlier, Plan) and earlier.gap < found.gap:
                found = earlier  # for the same kernel: the better of the two
        if index is not None:
            self.plans = {**self.plans, index: found}  # not in place: a snapshot may hold the old ones
        self.last_plan = found
        return found, work

    def _is_accurate(self, found: Solution, tolerance: float, rtol: float) -> bool:
        """Whether a plan that was made earlier is accurate enough for now."""
        lower, upper = scaled_bounds(found, self.setting)
        blind = found.blind_cost if isinstance(found, Plan) else 1.0
        budget = self.budget
        wanted = Accuracy.of(tolerance, budget.rtol or rtol, budget.atol, self.setting.units)
        return upper - lower <= wanted.allowed(lower, upper, blind)

    def _warn_of_coarse_plan(self) -> None:
        """Once in the life of an agent."""
        found, asked = self._present.plan, self.budget.rtol or 0.0
        if self._warned or not isinstance(found, Plan) or found.relative_gap <= max(COARSE, asked):
            return
        self._warned = True
        warnings.warn(
            f"the plan of episode {self._present.number} may be {100 * found.relative_gap:.3g} % of what is "
            f"at stake away from optimal ({found.status}; between {found.lower:.6g} and {found.upper:.6g}); "
            "PlanningBudget(rtol=..., atol=..., max_work=...) says how well to plan",
            CoarsePlanWarning,
            stacklevel=5,  # the caller of `act` or `play`
        )

    # -- what it knows --------------------------------------------------------------------------

    def learn(self, observations: Sequence[Any], actions: Sequence[Any]) -> None:
        """Take in a log that leads up to the present, under whatever policy it was made.

        `actions[i]` was taken after `observations[i]`, with None (or NaN) for one that was lost, or where
        nothing is read before the first action. Both are numbers, or names where the setting has names. Go on
        with `act` and the reading after the last action.
        """
        self._atomically(self._learn, observations, actions)

    def _learn(self, observations: Sequence[Any], actions: Sequence[Any]) -> None:
        if self._episode.clock[0]:
            raise OutOfOrderError("learn: a log comes before the first action")
        if len(observations) != len(actions) or not len(actions):
            raise InvalidModelError(f"a log of {len(observations)} readings and {len(actions)} actions")
        taken = action_numbers(self.setting, actions)
        seen = reading_numbers(self.setting, observations)
        lost = seen == self.setting.n_observations
        fresh = self.prior.posterior(self.posterior_rng)
        fresh.start(None if lost[0] else int(seen[0]))
        update_many(fresh, taken[:-1], np.where(lost, -1, seen)[1:])
        self.posterior, self.action = fresh, int(taken[-1])
        self._episode.clock[:2] = len(taken)  # what was before the first episode is over

    def closeness(self, kernel: Array) -> float:
        """Return how much of the posterior is at, or how near it is to, a kernel.

        P(θ = `kernel` | data) where the prior gives the kernel a probability; else E‖θ − `kernel`‖₁, the mean
        of all rows; NaN where the posterior says neither.
        """
        posterior = self.posterior
        if isinstance(posterior, GivesProbabilities):
            found = posterior.probability(kernel)
            if found is not None:
                return found
        return posterior.distance(kernel) if isinstance(posterior, Summarizable) else np.nan

    def episode_records(self) -> tuple[EpisodeRecord, ...]:
        """The records of all episodes, that of the present one last."""
        return (*self.episodes, self.present_record)

    @property
    def present_record(self) -> EpisodeRecord:
        """The episode that is going on."""
        now, clock = self._present, self._episode.clock
        return EpisodeRecord(
            now.number,
            now.start,
            self.time - now.start + int(clock[3] == steps.GOES_ON),
            REASONS[int(clock[3])],
            now.index,
            *scaled_bounds(now.plan, self.setting),
            now.tolerance,
            now.plan.status,
            now.work,
            now.span,
        )

    @property
    def info(self) -> Info:
        """What it thinks, for people."""
        return self._undisturbed(self._info)

    def _info(self) -> Info:
        if self.action is None or not self._present.number:
            raise OutOfOrderError("info: no action was chosen so far")
        now, belief = self._present, self._sampled_filter.belief[:, 0].copy()
        return Info(
            time=int(self._episode.clock[0]),
            episode=now.number,
            episode_start=now.start,
            previous_length=now.previous_length,
            last_step=int(self._episode.clock[1]),
            last_ended=self.episodes[-1].ended if self.episodes else None,
            kernel=now.kernel.copy(),
            kernel_number=now.index,
            belief=belief,
            plan=now.plan,
            tolerance=now.tolerance,
            pseudo_counts=self._episode.pseudo.copy(),
            expected_counts=self.posterior.expected_counts,
            effective_size=(
                self.posterior.effective_size if isinstance(self.posterior, Summarizable) else np.nan
            ),
            action=self.action,
            costs=np.asarray(self.setting.units.from_scaled(self.setting.cost @ belief)),
            advantages=self._advantages(),
        )

    def _advantages(self) -> Array:
        """[A]: c(b, a) + E[v(b′)] under θ_k and the plan's v, less that of the action that it chooses."""
        policy = self._policy
        if not self._present.compiled or policy.node[0] >= 0:
            return np.full(self.setting.n_actions, np.nan)
        chosen = int(steps.best_action(policy, self._sampled_filter))
        more = np.maximum(policy.worth - policy.worth[chosen], 0.0)  # a tie may be broken within rounding
        return np.asarray(self.setting.units.difference(more))

    # -- files ----------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a `.npz` file, whole or not at all, without pickles."""
        if Path(path).suffix.lower() != ".npz":
            raise InvalidModelError(f"{Path(path).name!r} does not end in .npz")
        write_atomically(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """What `save` writes."""
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
        """An agent that goes on exactly as the saved one would have.

        A prior, a schedule, a planner or a tolerance of your own is code, which is not in the file: pass it
        again. The file names the class of such a prior, and holds the fingerprint of its parameters.

        With a `seed` all further random numbers come from it, so that several agents made from one file draw
        independently of each other. What the saved agent had drawn already, such as the kernel of the present
        episode, they have in common.
        """
        from .serialization import OwnCode, from_bytes

        place = Path(path)
        fresh = None if seed is None else streams(seed, _FROM_A_FILE)
        own = OwnCode(prior, schedule, planner, tolerance)
        return from_bytes(cls, read_bytes(place), place.name, own, fresh)

    @classmethod
    def from_bytes(cls, data: bytes) -> PSRLAgent:
        """What `load` reads, for an agent without code of your own."""
        from .serialization import OwnCode, from_bytes

        return from_bytes(cls, data, "agent", OwnCode())

    def restored(self, data: bytes) -> PSRLAgent:
        """What `to_bytes` wrote, as an agent of this class; code that files do not hold is this agent's."""
        from .serialization import OwnCode, from_bytes

        return from_bytes(type(self), data, "agent", OwnCode.of(self))

    def __repr__(self) -> str:
        return (
            f"PSRLAgent(t={self.time}, episode {self._present.number}, {self.schedule.name}, {self.prior!r})"
        )


def streams(seed: int | Sequence[int], key: int) -> tuple[np.random.Generator, np.random.Generator]:
    """Return the random numbers that draw samples, and those that move the posterior.

    Streams with different keys are independent, also where their seeds are equal.
    """
    for_samples, for_posterior = np.random.SeedSequence(seed, spawn_key=(key,)).spawn(2)
    return np.random.default_rng(for_samples), np.random.default_rng(for_posterior)


def _index_of(kernel: Array, prior: FiniteSupport) -> int | None:
    """The number of a kernel in a finite set that lists it once."""
    same = np.flatnonzero((prior.kernels == kernel).all(axis=(1, 2, 3)))
    return int(same[0]) if len(same) == 1 else None


def scaled_bounds(found: Solution, setting: Setting) -> tuple[float, float]:
    """The plan's interval as scaled costs."""
    if isinstance(found, Plan):
        return found.lower_cost, found.upper_cost
    low, high = sorted(setting.units.to_scaled([found.lower, found.upper]).tolist())
    return low, high


@dataclass
class _CurrentEpisode:
    """The episode that is going on."""

    number: int = 0
    start: int = 0
    previous_length: int = 1
    kernel: Array = field(default_factory=lambda: np.zeros((0, 0, 0)))
    index: int | None = None
    tolerance: float = 0.0
    work: float = 0.0
    plan: Any = None

    @property
    def span(self) -> float | None:
        """At most: max_b min_n α_n·b ≤ min_n max_s α_n(s), and the least is at a vertex."""
        if not self.compiled or self.plan.controller.gains is not None:
            return None
        vectors = self.plan.controller.vectors
        return float(vectors.max(axis=1).min() - vectors.min())

    def plan_node(self, belief: Array) -> int:
        return int(self.plan.follow(belief).node)

    @property
    def compiled(self) -> bool:
        """Whether the plan is ours; others' are asked for every action."""
        return isinstance(self.plan, Plan)

    def policy(self, belief: Array, setting: Setting, likelihood: Array) -> steps.CompiledPolicy:
        """The plan's policy, or a blank where the plan is not ours."""
        if not self.compiled:
            return _blank_policy(setting, likelihood)
        return policy_of(self.plan, belief, setting, likelihood)


def policy_of(found: Plan, belief: Array, setting: Setting, likelihood: Array) -> steps.CompiledPolicy:
    """A plan's policy over all states of the model: those that it left out have no belief anyway."""
    controller = found.controller
    vectors = np.zeros((len(controller), setting.n_states))
    vectors[:, list(found.states)] = controller.vectors
    node = int(found.follow(belief).node) if controller.gains is not None else -1
    return _blank_policy(setting, likelihood)._replace(
        vectors=vectors,
        actions=controller.actions,
        successors=controller.successors,
        node=np.array([node]),
    )


def _blank_policy(setting: Setting, likelihood: Array) -> steps.CompiledPolicy:
    """A blank policy for a setting."""
    return steps.CompiledPolicy(
        vectors=np.zeros((1, setting.n_states)),
        actions=np.zeros(1, np.int64),
        successors=np.zeros((1, setting.n_observations), np.int64),
        node=np.array([-1]),
        likelihood=likelihood,
        cost=setting.cost,
        worth=np.zeros(setting.n_actions),
        moved=np.zeros((2, setting.n_states)),
    )


def _sampled_filter_of(kernel: Array, belief: Array) -> SampledFilter:
    """Arrays of their own for a kernel in use and its belief."""
    column = np.array(belief, dtype=np.float64)[:, None]
    return SampledFilter(kernel[..., None].copy(), column, np.zeros_like(column), np.zeros(1))
