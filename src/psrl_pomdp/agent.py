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
horizon at which ε_k reaches its floor. Where a plan's work is spent first, what is missing is recorded
(`EpisodeRecord.shortfall`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import episodes as steps
from .arrays import Array
from .belief import likelihoods
from .checks import PlanLike, Planner
from .errors import InvalidModelError, OutOfOrderError
from .files.atomic import write_atomically
from .files.reading import read_bytes
from .model import POMDP, Setting
from .planning import Plan, plan
from .posterior import DirichletPrior, FinitePrior
from .posterior.ensemble import Used
from .posterior.protocol import action_number, reading_number
from .schedule import DoublingSchedule, Schedule, TSDESchedule

if TYPE_CHECKING:
    from .posterior import DirichletPosterior, FinitePosterior

Codes = npt.NDArray[np.uint16]
Tolerance = Callable[[int], float]  # t_k -> ε_k

REASONS = ("goes on", "schedule", "pseudo-counts", "schedule and pseudo-counts", "kernel ruled out")
_COUNTS = {"time": steps.TIME, "expected": steps.EXPECTED, "none": steps.NONE}


@dataclass(frozen=True)
class Effort:
    """How well to plan, and at what cost.

    ε_k is `tolerance(t_k)`, but between `floor` and `ceiling`. `max_work` counts operations, so that runs
    repeat; `time_limit` seconds are for use in front of a real system, where they need not.
    """

    tolerance: Tolerance | None = None  # 1/t_k for a finite set, 1/√t_k otherwise
    floor: float = 1e-6
    ceiling: float = 0.02
    max_work: float | None = 3e8
    max_points: int = 2000
    time_limit: float | None = None

    def at(self, start: int, rule: Tolerance) -> float:
        """ε_k."""
        wanted = (self.tolerance or rule)(start)
        return float(min(self.ceiling, max(self.floor, wanted)))

    def planned(self, model: POMDP, tolerance: float, near: Plan | None = None) -> Plan:
        """A plan within these limits, begun from the plan `near`. Ctrl-C is passed on, not planned around."""
        found = plan(
            model,
            tolerance,
            self.time_limit,
            warm_start=near,
            max_work=self.max_work,
            max_points=self.max_points,
        )
        if found.status == "interrupted":
            raise KeyboardInterrupt
        return found

    def words(self) -> dict[str, float | None]:
        """For files: all but the tolerance, which is code."""
        return {name: value for name, value in vars(self).items() if name != "tolerance"}


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
    advantages: Array  # [A]: how much more each action costs in the long run than the best, under θ_k


class PSRLAgent:
    """Learns to control a system one reading at a time.

    >>> from psrl_pomdp import problem
    >>> family = problem("separated").family
    >>> agent = PSRLAgent(family, seed=1)
    >>> action = agent.act(0)
    >>> agent.info.episode, agent.info.episode_start, action in (0, 1)
    (1, 1, True)
    """

    def __init__(
        self,
        prior: FinitePrior | DirichletPrior,
        schedule: Schedule | None = None,
        seed: int | Sequence[int] = 0,
        *,
        effort: Effort | None = None,
        planner: Planner = plan,
    ) -> None:
        if not isinstance(prior, FinitePrior | DirichletPrior):
            raise InvalidModelError(
                f"prior is a {type(prior).__name__}, not a FinitePrior or a DirichletPrior"
            )
        finite = isinstance(prior, FinitePrior)
        self.prior = prior
        self.schedule = schedule or (DoublingSchedule() if finite else TSDESchedule())
        self.effort = effort or Effort()
        self.planner = planner
        for_samples, for_posterior = np.random.SeedSequence(seed, spawn_key=(0,)).spawn(2)
        self.rng = np.random.default_rng(for_samples)
        self.posterior_rng = np.random.default_rng(for_posterior)
        self.posterior: FinitePosterior | DirichletPosterior = prior.posterior(self.posterior_rng)
        self.episodes: list[EpisodeRecord] = []  # those that have ended
        self.plans: dict[int, PlanLike] = {}  # of a finite set, by kernel
        self.last_plan: PlanLike | None = None
        self.action: int | None = None  # a_t
        self._taken_in = 0  # whether the reading after it was taken in already: between calls of `play`
        shape = (prior.setting.n_actions, prior.setting.n_states)
        self._likelihood = likelihoods(prior.setting)
        self._used = _nothing_used(prior.setting)
        self._policy = _no_policy(prior.setting)
        self._present = _Present()
        self._episode = steps.Episode(
            np.array([0, 0, _COUNTS[self.schedule.pseudo_count], steps.GOES_ON]),
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64),
        )

    @property
    def setting(self) -> Setting:
        return self.prior.setting

    @property
    def options(self) -> dict[str, float]:
        """What else an agent of this class was made with, by the names of its constructor; for files."""
        return {}

    @property
    def time(self) -> int:
        """t, the number of readings taken in, the first one included; 0 before it."""
        return int(self._episode.clock[0])

    @property
    def episode_number(self) -> int:
        """k."""
        return self._present.number

    @property
    def pseudo_counts(self) -> npt.NDArray[np.int64]:
        """[A, S]: m̃_t."""
        return self._episode.pseudo.copy()

    # -- Algorithm 1 ----------------------------------------------------------------------------

    def act(self, observation: int | None) -> int:
        """Take in o_t and choose a_t.

        The first call takes the first reading, or None where nothing is read before the first action. Later
        None means that a reading was lost: beliefs go on by prediction, and nothing is learned.
        """
        if self.action is None:
            self._start(observation)
        else:
            self._take_in(self.action, observation)
        self.action = self.choose_action()
        return self.action

    def _start(self, observation: int | None) -> None:
        """t ← 1, t_1 ← 0, so that T_0 = 1; f_1 and h_1 from o_1."""
        self.posterior.start(observation)
        self._episode.clock[0] = 1
        self._begin_episode(previous_length=1)

    def _take_in(self, action: int, observation: int | None) -> None:
        """f_{t+1}, h_{t+1}, m̃_{t+1}; a new episode where the present one is over."""
        reading = reading_number(self.setting, observation)
        self.posterior.update(action, observation)
        steps.take_in(
            self._policy,
            self._used,
            self._episode,
            self.posterior.expected_counts,
            self._likelihood,
            action,
            reading,
        )
        if observation is None and self._policy.node[0] >= 0:
            self._policy.node[0] = self._present.plan_node(self._used.belief[:, 0])
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
        self._present = _Present(number=len(self.episodes) + 1, start=t, previous_length=previous_length)
        clock[1], clock[3] = self.schedule.last(t, previous_length), steps.GOES_ON
        if clock[2] == steps.EXPECTED:
            steps.raise_counts(self._episode.pseudo, self.posterior.expected_counts, t)
        else:
            self._episode.pseudo[:] = t
        self._episode.pseudo_start[:] = self._episode.pseudo
        self._play_kernel(*self.choose_kernel())

    def choose_kernel(self) -> tuple[Array, Array, int | None]:
        """θ_k ~ f_{t_k} with h_{t_k}(·; θ_k), and its number in a finite set."""
        index = self.posterior.sample_index(self.rng)
        finite = isinstance(self.prior, FinitePrior)
        return self.posterior.kernels[index], self.posterior.beliefs[index], index if finite else None

    def choose_action(self) -> int:
        """a_t = π_k(h_t(·; θ_k))."""
        if self._present.compiled:
            return int(steps.choose(self._policy, self._used.belief))
        return int(self._present.plan.action(self._used.belief[:, 0].copy()))

    # -- the same, many steps at a time -----------------------------------------------------------

    @property
    def can_compile(self) -> bool:
        """Whether `play` can drive it: once it has started, and while the policy is one of our plans."""
        return self.action is not None and self._present.compiled

    def play(self, world: steps.World, uniforms: Array, actions: Codes, readings: Codes, begin: int) -> int:
        """What `act` does in a simulated world, in one compiled loop.

        It goes up to the end of the episode, or one step for each of `uniforms[n, 2]`, writes what happened
        from `begin` on, and returns how many actions it took.
        """
        assert self.action is not None
        flags = np.array([self.action, self._taken_in, 0])
        done, why = steps.play(
            world, uniforms, *self.posterior.engine, self._used, self._policy, self._episode,
            flags, actions, readings, begin,
        )  # fmt: skip
        first = begin - 1 + self._taken_in
        taken = slice(first, first + int(flags[2]))
        self.action, self._taken_in = int(flags[0]), int(flags[1])
        self.posterior.absorb(actions[taken], readings[taken], refresh=why == steps.REFRESH)
        if why in (steps.IMPOSSIBLE, steps.TOO_UNLIKELY):
            self.posterior.update(self.action, int(world.present[1]))  # raises, and says why
        self.end_episode_if_over()
        return int(done)

    # -- planning -------------------------------------------------------------------------------

    def _play_kernel(self, kernel: Array, belief: Array, index: int | None) -> None:
        """Plan for θ_k, and take up its belief and its policy."""
        present = self._present
        present.kernel, present.index = kernel, index
        self._used.transition[..., 0] = kernel
        self._used.belief[:, 0] = belief
        finite = isinstance(self.prior, FinitePrior)
        present.tolerance = self.effort.at(present.start, _one_over if finite else _one_over_root)
        present.plan, present.work = self.plan_for(kernel, index, present.tolerance)
        self._policy = present.policy(belief, self.setting) if present.compiled else _no_policy(self.setting)

    def replan(self) -> None:
        """π*(·; θ_k) once more, where it could not be kept."""
        now = self._present
        now.plan, now.work = self.plan_for(now.kernel, now.index, now.tolerance)

    def plan_for(self, kernel: Array, index: int | None, tolerance: float) -> tuple[PlanLike, float]:
        """π*(·; θ_k) to within `tolerance`, and the work. Plans for a finite set are kept and refined."""
        if index is not None and isinstance(self.prior, FinitePrior):
            earlier = self.plans.get(index)
            if earlier is not None and np.ptp(scaled_bounds(earlier, self.setting)) <= tolerance:
                return earlier, 0.0
            model = self.prior.model(index)
        else:
            earlier, model = self.last_plan, POMDP(self.setting, kernel)
        if self.planner is not plan:
            found, work = self.planner(model, tolerance, self.effort.time_limit), 0.0
        else:
            found = self.effort.planned(model, tolerance, earlier if isinstance(earlier, Plan) else None)
            work = found.rounds[-1].work if found.rounds else 0.0
            if index is not None and isinstance(earlier, Plan) and earlier.gap < found.gap:
                found = earlier  # for the same kernel: the better of the two
        if index is not None:
            self.plans[index] = found
        self.last_plan = found
        return found, work

    # -- what it knows --------------------------------------------------------------------------

    def learn(self, observations: Sequence[int | None], actions: Sequence[int]) -> None:
        """Take in a log that leads up to the present, under whatever policy it was made.

        `actions[i]` was taken after `observations[i]`, with None for one that was lost, or where nothing is
        read before the first action. Go on with `act` and the reading after the last action.
        """
        if self.time:
            raise OutOfOrderError("learn: a log comes before the first action")
        if len(observations) != len(actions) or not len(actions):
            raise InvalidModelError(f"a log of {len(observations)} readings and {len(actions)} actions")
        last = action_number(self.setting, actions[-1])
        codes = [-1 if o is None else _number(o) for o in observations[1:]]
        before = self.posterior_rng.bit_generator.state
        try:
            fresh = self.prior.posterior(self.posterior_rng)
            fresh.start(observations[0])
            fresh.update_many(np.asarray(actions[:-1], np.int64), np.asarray(codes, np.int64))
        except Exception:
            self.posterior_rng.bit_generator.state = before
            raise
        self.posterior, self.action = fresh, last
        self._episode.clock[:2] = fresh.time  # what was before the first episode is over

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
        if self.action is None or not self._present.number:
            raise OutOfOrderError("info: no action was chosen so far")
        now, belief = self._present, self._used.belief[:, 0].copy()
        costs, advantages = self._weighed(belief)
        return Info(
            time=self.time,
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
            pseudo_counts=self.pseudo_counts,
            expected_counts=self.posterior.expected_counts,
            effective_size=self.posterior.effective_size,
            action=self.action,
            costs=costs,
            advantages=advantages,
        )

    def _weighed(self, belief: Array) -> tuple[Array, Array]:
        """c(b, a), and c(b, a) + E[v(b′)] over the least of it, under θ_k and the plan's v, if it has one."""
        setting = self.setting
        now = setting.cost @ belief
        if not self._present.compiled or self._present.plan.controller.gains is not None:
            return np.asarray(setting.units.from_scaled(now)), np.full(len(now), np.nan)
        later = np.array(
            [
                steps.expected_value(
                    self._policy.vectors,
                    self._present.kernel[a],
                    setting.observation[a],
                    belief,
                    np.empty_like(belief),
                )
                for a in range(setting.n_actions)
            ]
        )
        total = now + later
        return np.asarray(setting.units.from_scaled(now)), np.asarray(
            setting.units.difference(total - total.min())
        )

    # -- files ----------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a `.npz` file, whole or not at all, without pickles."""
        if Path(path).suffix.lower() != ".npz":
            raise InvalidModelError(f"{Path(path).name!r} does not end in .npz")
        write_atomically(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """What `save` writes."""
        from .agent_files import to_bytes

        return to_bytes(self)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        schedule: Schedule | None = None,
        planner: Planner = plan,
        tolerance: Tolerance | None = None,
    ) -> PSRLAgent:
        """An agent that goes on exactly as the saved one would have.

        A schedule, a planner or a tolerance of your own is code, which is not in the file: pass it again.
        """
        from .agent_files import from_bytes

        place = Path(path)
        return from_bytes(cls, read_bytes(place), place.name, schedule, planner, tolerance)

    @classmethod
    def from_bytes(cls, data: bytes) -> PSRLAgent:
        """What `load` reads, for an agent without code of your own."""
        from .agent_files import from_bytes

        return from_bytes(cls, data, "agent", None, plan, None)

    def __repr__(self) -> str:
        return (
            f"PSRLAgent(t={self.time}, episode {self._present.number}, {self.schedule.name}, {self.prior!r})"
        )


def scaled_bounds(found: PlanLike, setting: Setting) -> tuple[float, float]:
    """The plan's interval as scaled costs."""
    if isinstance(found, Plan):
        return found.lower_cost, found.upper_cost
    low, high = sorted(setting.units.to_scaled([found.lower, found.upper]).tolist())
    return low, high


def _number(observation: int) -> int:
    if not isinstance(observation, int | np.integer) or observation < 0:
        raise InvalidModelError(
            f"observation {observation!r} in a log: a whole number, or None where it was lost"
        )
    return int(observation)


def _one_over(start: int) -> float:
    return 1.0 / start


def _one_over_root(start: int) -> float:
    return float(1.0 / np.sqrt(start))


@dataclass
class _Present:
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

    def policy(self, belief: Array, setting: Setting) -> steps.Policy:
        """The plan's policy over all states of the model: those it left out have no belief anyway."""
        controller = self.plan.controller
        vectors = np.zeros((len(controller), setting.n_states))
        vectors[:, list(self.plan.states)] = controller.vectors
        node = self.plan_node(belief) if controller.gains is not None else -1
        return steps.Policy(vectors, controller.actions, controller.successors, np.array([node]))


def _nothing_used(setting: Setting) -> Used:
    n_actions, n_states = setting.n_actions, setting.n_states
    return Used(
        np.zeros((n_actions, n_states, n_states, 1)),
        np.zeros((n_states, 1)),
        np.zeros((n_states, 1)),
        np.zeros(1),
    )


def _no_policy(setting: Setting) -> steps.Policy:
    return steps.Policy(
        np.zeros((1, setting.n_states)),
        np.zeros(1, np.int64),
        np.zeros((1, setting.n_observations), np.int64),
        np.array([-1]),
    )
