"""TSDE, Thompson sampling with dynamic episodes, for fully observed states.

(Ouyang, Gagrani, Nayyar and Jain 2017, Learning unknown Markov decision processes: a Thompson sampling
approach.) It treats the observation as the state. Counts of transitions between observations give Dirichlet
rows. At the start of an episode a kernel is drawn from them (for fully observed states with the fixed and the
tied rows of the prior), and its optimal policy is followed until

    t > t_k + T_{k−1}   or   N_t(s, a) > 2 N_{t_k}(s, a) for some (s, a).

If the observation is the state, the Bayesian regret is Õ(√T) for weakly communicating models whose value
functions have a bounded span, and PSRL-POMDP is the same algorithm. Otherwise the observations are no Markov
chain. The cost of an observation is then the mean cost of the states that emit it, under a uniform
distribution of the states, and the regret is linear if memory helps. This regret is the price of ignoring
partial observability.

A missing observation is replaced by the last one and is not counted. The plans are those of
`psrl_pomdp.planning`, as for the other agents.
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
from ...inference.dirichlet_prior import log_dirichlet
from ...inference.encoding import reading_number
from ...inference.prior_files import is_code, prior_in, prior_out
from ...models import POMDP, Setting
from ...planning import Plan
from ...planning.plan_files import plan_from_bytes
from ...protocols import DirichletRows, ResumablePrior
from ..planning_budget import PlanningBudget
from ..serialization import SettingMetadata, setting_in, setting_out
from ..serialization_checks import budget_in, has_sizes
from .options import check_numbered

# Attributes that files contain, with their names there.
_IN_FILES = {
    "time": "time",
    "start": "start",
    "length": "length",
    "action": "action",
    "last_observation": "reading",
    "missing": "lost",
}


class _Metadata(SettingMetadata, kw_only=True):
    """Everything about an agent that is not an array."""

    prior: str
    prior_fingerprint: str = ""  # if the prior is code
    stream: StreamState
    budget: dict[str, Any] = msgspec.field(name="effort")
    time: int
    start: int
    length: int
    action: int
    last_observation: int = msgspec.field(name="reading")
    missing: bool = msgspec.field(name="lost")


class TSDEAgent:
    """An agent that treats observations as states.

    >>> from psrl_pomdp import problem
    >>> agent = TSDEAgent(problem("river-swim-observed").prior)
    >>> agent.act(0) in (0, 1), agent.counts.sum()
    (True, np.int64(0))
    """

    @renamed_keywords(effort="budget")
    def __init__(
        self, prior: DirichletRows, seed: int | Sequence[int] = 0, *, budget: PlanningBudget | None = None
    ) -> None:
        if not isinstance(prior, DirichletRows):
            raise InvalidModelError(
                f"prior is a {type(prior).__name__}: TSDE adds counts to Dirichlet rows, so it needs a "
                "DirichletPrior, or a prior with `concentration`, `known` and `row`"
            )
        check_numbered(prior.setting, "TSDE", ignores_costs=True)
        self.prior, self.budget = prior, budget or PlanningBudget()
        self.setting = observed_setting(prior.setting)
        self.concentration = observed_concentration(prior)  # [A, O, O]
        self.known, self.row = observed_rows(prior)  # [A, O]
        self.rng = np.random.default_rng(seed)
        self.counts = np.zeros_like(self.concentration, dtype=np.int64)  # [A, O, O]
        self.at_start = np.zeros(self.counts.shape[:2], np.int64)  # [A, O]: N_{t_k}
        self.policy: npt.NDArray[np.int64] = np.zeros(self.setting.n_states, np.int64)
        self.time, self.start, self.length = 0, 0, 1  # t, t_k, T_{k−1}
        self.action, self.last_observation = -1, -1
        self.missing = True  # whether the last observation is missing
        self.last_plan: Plan | None = None

    def act(self, observation: int | str | None) -> int:
        """Return the action after an observation."""
        number = reading_number(self.prior.setting, observation)
        missing = number == self.prior.setting.n_observations
        if not missing:
            if not self.missing:
                self.counts[self.action, self.last_observation, number] += 1
            self.last_observation = number
        self.missing = missing
        self.time += 1
        visits = self.counts.sum(axis=2)
        if self.time == 1 or self.time > self.start + self.length or (visits > 2 * self.at_start).any():
            self._begin_episode(visits)
        self.action = int(self.policy[self.last_observation]) if self.last_observation >= 0 else 0
        return self.action

    def _begin_episode(self, visits: npt.NDArray[np.int64]) -> None:
        """Sample a kernel and compute its optimal policy."""
        self.length, self.start, self.at_start = self.time - self.start, self.time, visits
        self.last_plan = self.budget.solve(
            POMDP(self.setting, self._sampled_kernel()),
            self.budget.tolerance_at(self.start, lambda start: float(start**-0.5)),
            self.last_plan,
        )
        states = np.eye(self.setting.n_states)
        self.policy = np.array([self.last_plan.action(state) for state in states])

    def _sampled_kernel(self) -> Array:
        """Return a kernel [A, O, O] drawn given the counts; the counts of tied rows are added."""
        together = np.zeros((self.row.max() + 1, self.counts.shape[2]))
        np.add.at(together, self.row, self.counts)
        drawn = np.exp(log_dirichlet(self.rng, self.concentration + together[self.row], axis=2))
        first = np.unique(self.row, return_index=True)[1]
        kernel = drawn.reshape(-1, drawn.shape[2])[first][self.row]
        kernel = np.where(self.known[..., None] | (self.concentration == 0.0), self.concentration, kernel)
        return np.asarray(kernel / kernel.sum(axis=2, keepdims=True))

    @property
    def can_save(self) -> bool:
        """Whether a file can contain or identify the prior."""
        return isinstance(self.prior, ResumablePrior)

    def to_bytes(self) -> bytes:
        """Return everything that determines the agent's next actions."""
        if self.budget.tolerance is not None:
            raise InvalidModelError("a budget with a tolerance of your own is code, which no file contains")
        arrays, metadata = setting_out(self.prior.setting)
        metadata |= {"version": VERSION} | {
            in_file: getattr(self, name) for name, in_file in _IN_FILES.items()
        }
        prior_arrays, prior_metadata = prior_out(self.prior)
        metadata |= {"stream": stream_out(self.rng), **prior_metadata}
        metadata["effort"] = self.budget.to_dict()
        arrays |= prior_arrays
        arrays |= {"counts": self.counts, "at_start": self.at_start, "policy": self.policy}
        if self.last_plan is not None:
            arrays["plan"] = np.frombuffer(self.last_plan.to_bytes(), np.uint8)
        arrays["words"] = np.frombuffer(msgspec.json.encode(metadata), np.uint8)
        return pack(arrays)

    @classmethod
    @as_saved_agent("agent")
    def from_bytes(cls, data: bytes, prior: DirichletRows | None = None) -> TSDEAgent:
        """Return an agent that continues as the saved one would have; pass a `prior` that is code again."""
        size_limit = SizeLimit.for_file(data)
        contents, metadata = opened(data, "agent", _Metadata, "a saved agent of this kind", size_limit)
        setting = setting_in(contents, metadata)
        found: Any = prior_in(contents, metadata.prior, metadata.prior_fingerprint, setting, prior)
        agent = cls(found, budget=budget_in(contents, metadata.budget, None))
        agent.rng = stream_in(metadata.stream)
        agent._set_clock(contents, metadata)
        if "plan" in contents:
            stored = plan_from_bytes(contents.packed("plan"), "plan", size_limit)
            if not has_sizes(stored, agent.setting) or len(stored.states) != stored.n_states:
                raise contents.refuse("its plan is for another setting")
            agent.last_plan = stored
        return agent

    def restored(self, data: bytes) -> TSDEAgent:
        """Return the agent that `to_bytes` wrote, with the prior of this agent if it is code."""
        return type(self).from_bytes(data, self.prior if is_code(self.prior) else None)

    def _set_clock(self, contents: Contents, metadata: _Metadata) -> None:
        """Set the times, the counts and the policy of a file, after a check that they are consistent."""
        n_actions, n = self.known.shape
        own = self.prior.setting
        started = metadata.time > 0
        start, time, length = metadata.start, metadata.time, metadata.length
        if not 0 <= start <= time <= LARGEST_TIME or not 1 <= length <= max(1, time):
            raise contents.refuse(f"an episode of {length} steps before {start}, at {time}")
        if not (0 if started else -1) <= metadata.action < (n_actions if started else 0):
            raise contents.refuse(f"action is {metadata.action} at time {metadata.time}")
        if not -1 <= metadata.last_observation < (own.n_observations if started else 0):
            raise contents.refuse(f"reading is {metadata.last_observation} at time {metadata.time}")
        if metadata.last_observation < 0 and not metadata.missing:
            raise contents.refuse("the last observation is not missing, but there is none")
        for name in _IN_FILES:
            setattr(self, name, getattr(metadata, name))
        self.counts = contents.whole("counts", (n_actions, n, n), 0, metadata.time)
        self.at_start = contents.whole("at_start", (n_actions, n), 0, metadata.time)
        self.policy = contents.whole("policy", (n,), 0, n_actions - 1)
        if self.counts.sum() > metadata.time:
            raise contents.refuse("counts add up to more than the time")


def observation_of_states(setting: Setting) -> npt.NDArray[np.int64] | None:
    """Return the observation of each state [S], or None if the states are not fully observed."""
    sensor = setting.observation
    emitted = sensor[0].argmax(axis=1)
    certain = (sensor[:, np.arange(setting.n_states), emitted] == 1.0).all()
    return emitted if certain and len(set(emitted.tolist())) == setting.n_states else None


def observed_setting(setting: Setting) -> Setting:
    """Return the MDP's setting, whose states are the observations; their costs are mean costs of states."""
    emitted = setting.observation.mean(axis=0)  # [S, O]
    total = emitted.sum(axis=0)
    share = np.divide(emitted, total, out=np.full_like(emitted, 1.0 / setting.n_states), where=total > 0)
    n = setting.n_observations
    cost = np.clip(setting.cost @ share, 0.0, 1.0)
    return Setting(np.eye(n), cost, np.full(n, 1.0 / n), units=setting.units)


def observed_concentration(prior: DirichletRows) -> Array:
    """Return the concentration [A, O, O]: that of the prior for fully observed states, else 1."""
    setting = prior.setting
    n = setting.n_observations
    concentration = np.ones((setting.n_actions, n, n))
    emitted = observation_of_states(setting)
    if emitted is not None:
        concentration[:, emitted[:, None], emitted[None, :]] = prior.concentration
        others = np.setdiff1d(np.arange(n), emitted)  # impossible observations, to which no state leads
        concentration[:, emitted[:, None], others[None, :]] = 0.0
    return concentration


def observed_rows(prior: DirichletRows) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Return which rows are fixed, and numbers that are equal for tied rows, shape [A, O] each.

    If the states are not fully observed, no rows are fixed and none are tied.
    """
    n_actions, n = prior.setting.n_actions, prior.setting.n_observations
    known, row = np.zeros((n_actions, n), bool), np.arange(n_actions * n).reshape(n_actions, n)
    emitted = observation_of_states(prior.setting)
    if emitted is not None:
        known[:, emitted], row[:, emitted] = prior.known, row.size + prior.row
    return known, np.unique(row, return_inverse=True)[1].reshape(row.shape)
