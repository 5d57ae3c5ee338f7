"""The best memoryless policy, which depends on the newest observation alone, and an agent that follows it.

A memoryless policy draws a_t from π(· | o_t). Under it the pairs x_t = (s_t, o_t) form a Markov chain,

    P((s, o), (s′, o′)) = Σ_a π(a | o) θ(s′ | s, a) η(o′ | s′, a),      c(s, o) = Σ_a π(a | o) C(s, a),

with the stationary distribution d = d P and the average cost J(π) = d·c. If h solves h = c − J + P h,

    ∂J / ∂π(a | o) = Σ_s d(s, o) (C(s, a) + Σ_x θη(x | s, a) h(x)),

which is exact (Marbach and Tsitsiklis 2001; for observations Jaakkola, Singh and Jordan 1994). J is not
convex, and its minimization is NP-hard in general (Littman 1994). The result is a local minimum, and if there
are few deterministic policies, it is at least as good as all of them. Descent starts from the uniform policy,
from the best deterministic one and from random ones with a fixed seed.

If a model has several recurrent classes, d and J belong to its initial distribution: with probability 1e-9
the chain restarts from it. As this probability tends to zero, d tends to the long-run distribution from the
start.

The policy has one more row than there are observations, for an observation that is missing or that does not
exist before the first action. If this row influences J (there is no first observation, and the first action
decides on a recurrent class), it is optimized with the others. Otherwise it has the mean of the other rows.

The policy is computed from the true model, as a reference for comparisons. An agent that learns such a policy
is in `sm_ucrl.py`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import msgspec
import numpy as np

from ..._serialization.archives import as_saved_agent, pack
from ..._serialization.contents import VERSION, opened
from ..._serialization.random_streams import StreamState, stream_in, stream_out
from ..._utils.arrays import Array
from ..._utils.stopwatch import PLANNING
from ...errors import InvalidModelError
from ...inference.encoding import is_lost, number_of
from ...models import POMDP
from .options import check_numbered

_RESTART = 1e-9  # probability of a restart: too small to change J noticeably, much above rounding errors
_FEW = 729  # the largest number of deterministic policies that are enumerated
_MATTERS = 1e-6  # a row has no influence if its entries of the gradient of J differ by less
_REMEMBERED = 8  # a step of the descent must improve on the worst of so many values


@dataclass(frozen=True)
class MemorylessPolicy:
    """π(a | o), and its average cost, in [0, 1], in the model that it was computed for."""

    probabilities: Array  # [O + 1, A], rows sum to 1; the last is for a missing observation
    average_cost: float

    @property
    def deterministic(self) -> bool:
        """Whether one action has probability 1 after every observation."""
        return bool((self.probabilities[:-1].max(axis=1) > 1.0 - 1e-9).all())


@dataclass(frozen=True)
class _Chains:
    """A model as a Markov chain of pairs x = (s, o), flattened; the last o is a missing observation."""

    moves: Array  # [A, S, S·(O + 1)]: θ(s′ | s, a) η(o′ | s, a, s′)
    cost: Array  # [A, S]
    start: Array  # [S·(O + 1)]

    @classmethod
    def of(cls, model: POMDP) -> _Chains:
        """Return the chains of a model."""
        own = model.setting
        n_actions, n_states, n_observations = own.n_actions, own.n_states, own.n_observations
        moves = np.zeros((n_actions, n_states, n_states, n_observations + 1))
        table = own.observation if own.sensor_depends_on_previous else own.observation[:, None]
        moves[..., :-1] = model.transition[..., None] * table
        start = np.zeros((n_states, n_observations + 1))
        if own.first_observation is None:
            start[:, -1] = own.initial
        else:
            start[:, :-1] = own.initial[:, None] * own.first_observation
        return cls(moves.reshape(n_actions, n_states, -1), own.cost, start.ravel())

    def solve(self, policies: Array) -> tuple[Array, Array, Array]:
        """Return P `[K, X, X]`, d `[K, X]` and c `[K, X]` for `policies[K, O + 1, A]`."""
        n_pairs = len(self.start)
        count = len(policies)
        chain = np.einsum("koa,asx->ksox", policies, self.moves, optimize=True).reshape(
            count, n_pairs, n_pairs
        )
        chain = (1.0 - _RESTART) * chain + _RESTART * self.start
        cost = np.einsum("koa,as->kso", policies, self.cost).reshape(count, n_pairs)
        # d (1 − P + J) = j for any matrix J of equal rows j; this system has exactly one solution.
        system = np.eye(n_pairs) - chain + self.start
        right = np.broadcast_to(self.start[:, None], (count, n_pairs, 1))
        shares = np.linalg.solve(system.transpose(0, 2, 1), right)[..., 0]
        shares = np.maximum(shares, 0.0)
        return chain, shares / shares.sum(axis=1, keepdims=True), cost

    def averages(self, policies: Array) -> Array:
        """Return J of each policy, shape [K]."""
        _, shares, cost = self.solve(policies)
        return np.asarray((shares * cost).sum(axis=1))

    def gradient(self, policy: Array) -> tuple[float, Array, Array]:
        """Return J, ∂J / ∂π `[O + 1, A]`, and the frequency of each observation `[O + 1]`."""
        chain, shares, cost = (part[0] for part in self.solve(policy[None]))
        average = float(shares @ cost)
        relative = np.linalg.solve(np.eye(len(cost)) - chain + shares, cost - average)
        action_values = self.cost + (1.0 - _RESTART) * (self.moves @ relative)
        frequencies = shares.reshape(self.cost.shape[1], -1)
        return average, frequencies.T @ action_values.T, frequencies.sum(axis=0)


def average_cost(model: POMDP, probabilities: Array) -> float:
    """Return J(π), in [0, 1], of `probabilities[O + 1, A]` from the initial distribution."""
    return float(_Chains.of(model).averages(np.asarray(probabilities)[None])[0])


def gradient(model: POMDP, probabilities: Array) -> Array:
    """Return ∂J / ∂π(a | o), shape [O + 1, A]."""
    return _Chains.of(model).gradient(np.asarray(probabilities))[1]


@PLANNING.timed
def best_memoryless(
    model: POMDP, *, least: float = 0.0, starts: int = 4, seed: int | Sequence[int] = 0, sweeps: int = 300
) -> MemorylessPolicy:
    """Return a memoryless policy of locally minimal average cost.

    The probability of every action is at least `least`. A memoryless policy ignores costs that are seen.

    Raises
    ------
    InvalidModelError
        If the observations have a density, or `least` is too large.

    >>> from psrl_pomdp import problem
    >>> best = best_memoryless(problem("railway"))
    >>> best.probabilities.shape, best.deterministic
    ((7, 2), False)
    """
    if not model.setting.is_finite:  # no table; dependence on the state before the action is no obstacle
        check_numbered(model.setting, "a memoryless policy")
    chains = _Chains.of(model)
    n_rows, n_actions = model.n_observations + 1, model.n_actions
    if not 0.0 <= least * n_actions <= 1.0:
        raise InvalidModelError(f"least is {least}: {n_actions} actions cannot all have this probability")
    free = 1.0 - n_actions * least
    rng = np.random.default_rng(seed)
    first = [np.full((n_rows, n_actions), 1.0 / n_actions)]
    first += [rng.dirichlet(np.ones(n_actions), n_rows) for _ in range(starts)]
    deterministic = _best_deterministic(chains, n_rows, n_actions, least)
    if deterministic is not None:
        first.append(deterministic)
    minima = [_local_minimum(chains, least + free * start, least, sweeps) for start in first]
    average, policy = min(minima, key=lambda pair: pair[0])
    return MemorylessPolicy(_with_row_for_missing(chains, policy), average)


def _best_deterministic(chains: _Chains, n_rows: int, n_actions: int, least: float) -> Array | None:
    """Return the best deterministic policy, mixed with `least` of each action; None if there are many."""
    none_first = bool(chains.start.reshape(-1, n_rows)[:, -1].any())
    rows = n_rows if none_first else n_rows - 1  # the last row is used only if there is no first observation
    if n_actions**rows > _FEW:
        return None
    choices = np.array([(*c, *[0] * (n_rows - rows)) for c in product(range(n_actions), repeat=rows)])
    policies = np.eye(n_actions)[choices]
    softened = least + (1.0 - n_actions * least) * policies
    averages = np.concatenate(
        [chains.averages(part) for part in np.array_split(softened, len(choices) // 64 + 1)]
    )
    return np.asarray(policies[averages.argmin()])


def _local_minimum(chains: _Chains, policy: Array, least: float, sweeps: int) -> tuple[float, Array]:
    """Return a local minimum, by projected gradients with spectral steps (Birgin, Martínez and Raydan 2000).

    The gradient of a row is divided by the frequency of its observation, so that the rows of rare
    observations converge too.
    """
    average, slope, shares = chains.gradient(policy)
    recent, best = [average], (average, policy)
    scale = 1.0 / np.maximum(shares, 1e-3)[:, None]
    step = 1.0
    for _ in range(sweeps):
        direction = _projected(policy - step * scale * slope, least) - policy
        drop = float((direction * slope).sum())
        if np.abs(direction).max() < 1e-9 or drop > -1e-15:
            break
        length = 1.0
        while True:
            new = policy + length * direction
            average, new_slope, _ = chains.gradient(new)
            if average <= max(recent) + 1e-4 * length * drop or length < 1e-8:
                break
            length *= 0.5
        moved, turned = new - policy, new_slope - slope
        curvature = float((moved * turned).sum())
        step = min(1e6, max(1e-6, float((moved * moved / scale).sum()) / curvature)) if curvature > 0 else 1e3
        policy, slope = new, new_slope
        recent = [*recent[1 - _REMEMBERED :], average]
        if average < best[0]:
            best = average, policy
    return best


def _projected(points: Array, least: float) -> Array:
    """Return the nearest distribution to each row with entries of at least `least`."""
    n = points.shape[1]
    free = 1.0 - n * least
    # The projection does not depend on a constant in a row; without it long steps are exact.
    above = points - points.max(axis=1, keepdims=True)
    ordered = -np.sort(-above, axis=1)
    excess = (np.cumsum(ordered, axis=1) - free) / np.arange(1, n + 1)
    n_above = (ordered > excess).sum(axis=1)
    level = excess[np.arange(len(points)), n_above - 1][:, None]
    return np.asarray(least + np.maximum(above - level, 0.0))


def _with_row_for_missing(chains: _Chains, policy: Array) -> Array:
    """Return the policy with the mean row as its last row, if that row has no influence on J."""
    _, slope, shares = chains.gradient(policy)
    if np.ptp(slope[-1]) < _MATTERS:
        policy = policy.copy()
        policy[-1] = shares[:-1] @ policy[:-1]
    policy = np.maximum(policy, 0.0)
    return np.asarray(policy / policy.sum(axis=1, keepdims=True))


class MemorylessAgent:
    """An agent that follows a fixed memoryless policy.

    >>> from psrl_pomdp import problem
    >>> agent = MemorylessAgent(best_memoryless(problem("railway")), seed=0)
    >>> agent.act(5)
    0
    """

    information: ClassVar[str] = "everything"

    def __init__(self, policy: MemorylessPolicy, seed: int | Sequence[int] = 0) -> None:
        self.policy = policy
        self.rng = np.random.default_rng(seed)
        self._sums = cumulative(policy.probabilities)

    def act(self, observation: int | str | None) -> int:
        """Draw an action given the newest observation."""
        n_observations = len(self._sums) - 1
        observation = (
            n_observations if is_lost(observation) else number_of("observation", observation, n_observations)
        )
        return bisect_right(self._sums[observation], self.rng.random())

    def to_bytes(self) -> bytes:
        """Return everything that determines the agent's next actions."""
        metadata = {
            "version": VERSION,
            "average_cost": self.policy.average_cost,
            "stream": stream_out(self.rng),
        }
        encoded = np.frombuffer(msgspec.json.encode(metadata), np.uint8)
        return pack({"words": encoded, "probabilities": self.policy.probabilities})

    @classmethod
    @as_saved_agent("agent")
    def from_bytes(cls, data: bytes) -> MemorylessAgent:
        """Return an agent that continues exactly as the saved one would have."""
        contents, metadata = opened(data, "agent", _Metadata, "a saved agent of this kind")
        probabilities = contents.distributions("probabilities", (None, None))
        if probabilities.shape[0] < 2 or probabilities.shape[1] < 1:
            raise contents.refuse(f"probabilities have shape {probabilities.shape}")
        average = np.nan if metadata.average_cost is None else metadata.average_cost
        agent = cls(MemorylessPolicy(probabilities, average))
        agent.rng = stream_in(metadata.stream)
        return agent


class _Metadata(msgspec.Struct):
    average_cost: float | None
    stream: StreamState


def cumulative(probabilities: Array) -> list[list[float]]:
    """Return the cumulative sums of each row without the last, for draws by bisection."""
    return [row[:-1] for row in np.cumsum(probabilities, axis=1).tolist()]
