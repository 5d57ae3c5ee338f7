"""TSDE, Thompson sampling with dynamic episodes, for a state in plain sight.

(Ouyang, Gagrani, Nayyar and Jain 2017, Learning unknown Markov decision processes: a Thompson sampling
approach.) It takes the reading for the state. Counts of transitions between readings give Dirichlet rows;
at the start of an episode a kernel is drawn from them (in plain sight with the rows that the prior knows, and
those that it shares) and its optimal policy is played until

    t > t_k + T_{k−1}   or   N_t(s, a) > 2 N_{t_k}(s, a) for some (s, a).

Where the reading is the state, its Bayesian regret is Õ(√T) for weakly communicating models whose values
have a bounded span, and PSRL-POMDP is the same algorithm. Where it is not, TSDE learns a Markov chain
that is none: the reading's cost is then the mean cost of the states that give it, all states being
equally likely beforehand, and its regret is linear wherever memory is worth something. That is what
ignoring partial observability costs.

A lost reading is taken for the last one, and counted nowhere. `psrl_pomdp.planning` plans, as for the
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..._serialization.archives import SizeLimit, as_saved_agent, pack
from ..._serialization.contents import LARGEST_TIME, VERSION, Contents, opened
from ..._serialization.random_streams import StreamState, stream_in, stream_out
from ..._utils.arrays import Array
from ..._utils.deprecation import renamed_keywords
from ...errors import InvalidModelError
from ...inference import DirichletPrior
from ...inference.dirichlet_prior import log_dirichlet
from ...inference.encoding import reading_number
from ...inference.prior_files import prior_in, prior_out
from ...models import POMDP, Setting
from ...planning import Plan
from ...planning.plan_files import plan_from_bytes
from ..planning_budget import PlanningBudget
from ..serialization import SettingWords, setting_in, setting_out
from ..serialization_checks import budget_in, has_sizes

_CLOCK = ("time", "start", "length", "action", "reading", "lost")


class _Words(SettingWords, kw_only=True):
    """Everything about an agent that is not an array."""

    prior: str
    stream: StreamState
    budget: dict[str, Any] = msgspec.field(name="effort")
    time: int
    start: int
    length: int
    action: int
    reading: int
    lost: bool


class TSDEAgent:
    """Takes readings for states.

    >>> from psrl_pomdp import problem
    >>> agent = TSDEAgent(problem("river-swim-observed").prior)
    >>> agent.act(0) in (0, 1), agent.counts.sum()
    (True, np.int64(0))
    """

    @renamed_keywords(effort="budget")
    def __init__(
        self, prior: DirichletPrior, seed: int | Sequence[int] = 0, *, budget: PlanningBudget | None = None
    ) -> None:
        # TSDE adds counts of transitions to Dirichlet rows: it can do nothing with any other prior.
        if not isinstance(prior, DirichletPrior):
            raise InvalidModelError(f"prior is a {type(prior).__name__}: TSDE wants Dirichlet rows")
        self.prior, self.budget = prior, budget or PlanningBudget()
        self.setting = reading_setting(prior.setting)
        self.concentration = reading_concentration(prior)  # [A, O, O]
        self.known, self.row = reading_rows(prior)  # [A, O]
        self.rng = np.random.default_rng(seed)
        self.counts = np.zeros_like(self.concentration, dtype=np.int64)  # [A, O, O]
        self.at_start = np.zeros(self.counts.shape[:2], np.int64)  # [A, O]: N_{t_k}
        self.policy: npt.NDArray[np.int64] = np.zeros(self.setting.n_states, np.int64)
        self.time, self.start, self.length = 0, 0, 1  # t, t_k, T_{k−1}
        self.action, self.reading = -1, -1
        self.lost = True  # whether the last reading was not had
        self.last_plan: Plan | None = None

    def act(self, observation: int | str | None) -> int:
        """Take in a reading and choose an action."""
        reading = reading_number(self.prior.setting, observation)
        lost = reading == self.prior.setting.n_observations
        if not lost:
            if not self.lost:
                self.counts[self.action, self.reading, reading] += 1
            self.reading = reading
        self.lost = lost
        self.time += 1
        visits = self.counts.sum(axis=2)
        if self.time == 1 or self.time > self.start + self.length or (visits > 2 * self.at_start).any():
            self._begin_episode(visits)
        self.action = int(self.policy[self.reading]) if self.reading >= 0 else 0
        return self.action

    def _begin_episode(self, visits: npt.NDArray[np.int64]) -> None:
        self.length, self.start, self.at_start = self.time - self.start, self.time, visits
        self.last_plan = self.budget.solve(
            POMDP(self.setting, self._drawn_kernel()),
            self.budget.tolerance_at(self.start, lambda start: float(start**-0.5)),
            self.last_plan,
        )
        states = np.eye(self.setting.n_states)
        self.policy = np.array([self.last_plan.action(state) for state in states])

    def _drawn_kernel(self) -> Array:
        """[A, O, O]: Dirichlet rows given the counts; pairs that share a row share its counts too."""
        together = np.zeros((self.row.max() + 1, self.counts.shape[2]))
        np.add.at(together, self.row, self.counts)
        drawn = np.exp(log_dirichlet(self.rng, self.concentration + together[self.row], axis=2))
        first = np.unique(self.row, return_index=True)[1]
        kernel = drawn.reshape(-1, drawn.shape[2])[first][self.row]
        kernel = np.where(self.known[..., None] | (self.concentration == 0.0), self.concentration, kernel)
        return np.asarray(kernel / kernel.sum(axis=2, keepdims=True))

    def to_bytes(self) -> bytes:
        if self.budget.tolerance is not None:
            raise InvalidModelError("a budget with a tolerance of your own is code, which no file holds")
        arrays, words = setting_out(self.prior.setting)
        words |= {"version": VERSION} | {name: getattr(self, name) for name in _CLOCK}
        prior_arrays, prior_words = prior_out(self.prior)
        words |= {"stream": stream_out(self.rng), **prior_words}
        words["effort"] = self.budget.to_dict()
        arrays |= prior_arrays
        arrays |= {"counts": self.counts, "at_start": self.at_start, "policy": self.policy}
        if self.last_plan is not None:
            arrays["plan"] = np.frombuffer(self.last_plan.to_bytes(), np.uint8)
        arrays["words"] = np.frombuffer(msgspec.json.encode(words), np.uint8)
        return pack(arrays)

    @classmethod
    @as_saved_agent("agent")
    def from_bytes(cls, data: bytes) -> TSDEAgent:
        room = SizeLimit.for_file(data)
        contents, words = opened(data, "agent", _Words, "a saved agent of this kind", room)
        prior: Any = prior_in(contents, words.prior, "", setting_in(contents, words), None)
        agent = cls(prior, budget=budget_in(contents, words.budget, None))
        agent.rng = stream_in(words.stream)
        agent._take_clock(contents, words)
        if "plan" in contents:
            found = plan_from_bytes(contents.packed("plan"), "plan", room)
            if not has_sizes(found, agent.setting) or len(found.states) != found.n_states:
                raise contents.refuse("its plan is for another setting")
            agent.last_plan = found
        return agent

    def _take_clock(self, contents: Contents, words: _Words) -> None:
        """Clocks, counts and policy of a file, that agree with each other."""
        n_actions, n = self.known.shape
        own = self.prior.setting
        started = words.time > 0
        if not 0 <= words.start <= words.time <= LARGEST_TIME or not 1 <= words.length <= max(1, words.time):
            raise contents.refuse(f"an episode of {words.length} steps before {words.start}, at {words.time}")
        if not (0 if started else -1) <= words.action < (n_actions if started else 0):
            raise contents.refuse(f"action is {words.action} at time {words.time}")
        if not -1 <= words.reading < (own.n_observations if started else 0):
            raise contents.refuse(f"reading is {words.reading} at time {words.time}")
        if words.reading < 0 and not words.lost:
            raise contents.refuse("the last reading was had, and there is none")
        for name in _CLOCK:
            setattr(self, name, getattr(words, name))
        self.counts = contents.whole("counts", (n_actions, n, n), 0, words.time)
        self.at_start = contents.whole("at_start", (n_actions, n), 0, words.time)
        self.policy = contents.whole("policy", (n,), 0, n_actions - 1)
        if self.counts.sum() > words.time:
            raise contents.refuse("counts add up to more than the time")


def in_plain_sight(setting: Setting) -> npt.NDArray[np.int64] | None:
    """The reading of each state `[S]`, where it tells the state for sure after every action."""
    sensor = setting.observation
    told = sensor[0].argmax(axis=1)
    sure = (sensor[:, np.arange(setting.n_states), told] == 1.0).all()
    return told if sure and len(set(told.tolist())) == setting.n_states else None


def reading_setting(setting: Setting) -> Setting:
    """Readings as states that are seen: each costs what the states cost that give it, on average."""
    chance = setting.observation.mean(axis=0)  # [S, O]
    total = chance.sum(axis=0)
    share = np.divide(chance, total, out=np.full_like(chance, 1.0 / setting.n_states), where=total > 0)
    n = setting.n_observations
    cost = np.clip(setting.cost @ share, 0.0, 1.0)
    return Setting(np.eye(n), cost, np.full(n, 1.0 / n), units=setting.units)


def reading_concentration(prior: DirichletPrior) -> Array:
    """[A, O, O]: the prior's own where readings are states, else Dirichlet(1) for every row."""
    setting = prior.setting
    n = setting.n_observations
    concentration = np.ones((setting.n_actions, n, n))
    told = in_plain_sight(setting)
    if told is not None:
        concentration[:, told[:, None], told[None, :]] = prior.concentration
        others = np.setdiff1d(np.arange(n), told)  # never read, so that no state leads there
        concentration[:, told[:, None], others[None, :]] = 0.0
    return concentration


def reading_rows(prior: DirichletPrior) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """[A, O] each: which rows are known, and numbers that are equal for pairs that share one.

    Where readings are not states, none is known and none is shared.
    """
    n_actions, n = prior.setting.n_actions, prior.setting.n_observations
    known, row = np.zeros((n_actions, n), bool), np.arange(n_actions * n).reshape(n_actions, n)
    told = in_plain_sight(prior.setting)
    if told is not None:
        known[:, told], row[:, told] = prior.known, row.size + prior.row
    return known, np.unique(row, return_inverse=True)[1].reshape(row.shape)
