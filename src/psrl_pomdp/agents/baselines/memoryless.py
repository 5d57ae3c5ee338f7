"""The best policy that looks at the newest reading alone, and an agent that plays it.

A memoryless policy draws a_t from π(· | o_t) and forgets everything before. Under it the pairs
x_t = (s_t, o_t) form a chain,

    P((s, o), (s′, o′)) = Σ_a π(a | o) θ(s′ | s, a) η(o′ | s′, a),      c(s, o) = Σ_a π(a | o) C(s, a),

with long-run shares d = d P and average cost J(π) = d·c. With h the solution of h = c − J + P h,

    ∂J / ∂π(a | o) = Σ_s d(s, o) (C(s, a) + Σ_x θη(x | s, a) h(x)),

which is exact (Marbach and Tsitsiklis 2001; for readings Jaakkola, Singh and Jordan 1994). J is not convex,
and finding its least value is hard in general (Littman 1994), so there is no guarantee but this: what is
returned cannot be improved by a small change, and where deterministic policies are few it is at least as
good as all of them. Descent starts from the uniform policy, from the best deterministic one and from seeded
random ones.

Where a model has several recurrent classes, d and J are about its own start: P is taken with a chance of
1e-9 to start over, whose shares tend to those of the start as that chance tends to zero.

The policy has one row more than there are readings, for a reading that was lost or does not come before the
first action. Where that row matters (nothing is read first, and the first action decides on a class) it is
optimised with the others; elsewhere it plays each action as often as the policy does on average.

The policy is a yardstick: it is computed from the true model. A learner of this kind is in `sm_ucrl.py`.
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

_RESTART = 1e-9  # chance to start over: far below what matters, far above rounding
_FEW = 729  # deterministic policies that are all tried
_MATTERS = 1e-6  # a row whose actions differ by less in their effect on J could be anything
_REMEMBERED = 8  # values that a step of the descent may not be worse than


@dataclass(frozen=True)
class MemorylessPolicy:
    """π(a | o), and the scaled average cost that it has in the model it was made for."""

    probabilities: Array  # [O + 1, A], rows sum to 1; the last is for no reading
    average_cost: float

    @property
    def deterministic(self) -> bool:
        return bool((self.probabilities[:-1].max(axis=1) > 1.0 - 1e-9).all())


@dataclass(frozen=True)
class _Chains:
    """A model as memoryless policies meet it: pairs x = (s, o), flattened; the last o is no reading."""

    moves: Array  # [A, S, S·(O + 1)]: θ(s′ | s, a) η(o′ | s′, a)
    cost: Array  # [A, S]
    start: Array  # [S·(O + 1)]

    @classmethod
    def of(cls, model: POMDP) -> _Chains:
        own = model.setting
        n_actions, n_states, n_readings = own.observation.shape
        moves = np.zeros((n_actions, n_states, n_states, n_readings + 1))
        moves[..., :-1] = model.transition[..., None] * own.observation[:, None]
        start = np.zeros((n_states, n_readings + 1))
        if own.first_observation is None:
            start[:, -1] = own.initial
        else:
            start[:, :-1] = own.initial[:, None] * own.first_observation
        return cls(moves.reshape(n_actions, n_states, -1), own.cost, start.ravel())

    def solved(self, policies: Array) -> tuple[Array, Array, Array]:
        """P `[K, X, X]`, d `[K, X]` and c `[K, X]` of each of `policies[K, O + 1, A]`."""
        n_pairs = len(self.start)
        count = len(policies)
        chain = np.einsum("koa,asx->ksox", policies, self.moves, optimize=True).reshape(
            count, n_pairs, n_pairs
        )
        chain = (1.0 - _RESTART) * chain + _RESTART * self.start
        cost = np.einsum("koa,as->kso", policies, self.cost).reshape(count, n_pairs)
        # d (1 − P + J) = j for any matrix J of equal rows j: with it the system has one solution.
        system = np.eye(n_pairs) - chain + self.start
        right = np.broadcast_to(self.start[:, None], (count, n_pairs, 1))
        shares = np.linalg.solve(system.transpose(0, 2, 1), right)[..., 0]
        shares = np.maximum(shares, 0.0)
        return chain, shares / shares.sum(axis=1, keepdims=True), cost

    def averages(self, policies: Array) -> Array:
        """[K]: J of each policy."""
        _, shares, cost = self.solved(policies)
        return np.asarray((shares * cost).sum(axis=1))

    def gradient(self, policy: Array) -> tuple[float, Array, Array]:
        """J, ∂J / ∂π `[O + 1, A]`, and how often each reading comes `[O + 1]`."""
        chain, shares, cost = (part[0] for part in self.solved(policy[None]))
        average = float(shares @ cost)
        relative = np.linalg.solve(np.eye(len(cost)) - chain + shares, cost - average)
        worth = self.cost + (1.0 - _RESTART) * (self.moves @ relative)
        by_reading = shares.reshape(self.cost.shape[1], -1)
        return average, by_reading.T @ worth.T, by_reading.sum(axis=0)


def average_cost(model: POMDP, probabilities: Array) -> float:
    """J(π), scaled, of `probabilities[O + 1, A]` from the model's start."""
    return float(_Chains.of(model).averages(np.asarray(probabilities)[None])[0])


def gradient(model: POMDP, probabilities: Array) -> Array:
    """∂J / ∂π(a | o): `[O + 1, A]`."""
    return _Chains.of(model).gradient(np.asarray(probabilities))[1]


@PLANNING.timed
def best_memoryless(
    model: POMDP, *, least: float = 0.0, starts: int = 4, seed: int | Sequence[int] = 0, sweeps: int = 300
) -> MemorylessPolicy:
    """The memoryless policy of least average cost that descent finds, each action keeping at least `least`.

    >>> from psrl_pomdp import problem
    >>> best = best_memoryless(problem("railway"))
    >>> best.probabilities.shape, best.deterministic
    ((7, 2), False)
    """
    chains = _Chains.of(model)
    n_rows, n_actions = model.n_observations + 1, model.n_actions
    if not 0.0 <= least * n_actions <= 1.0:
        raise InvalidModelError(f"least is {least}: {n_actions} actions cannot all have that probability")
    free = 1.0 - n_actions * least
    rng = np.random.default_rng(seed)
    first = [np.full((n_rows, n_actions), 1.0 / n_actions)]
    first += [rng.dirichlet(np.ones(n_actions), n_rows) for _ in range(starts)]
    best_plain = _best_deterministic(chains, n_rows, n_actions, least)
    if best_plain is not None:
        first.append(best_plain)
    found = [_descended(chains, least + free * start, least, sweeps) for start in first]
    average, policy = min(found, key=lambda pair: pair[0])
    return MemorylessPolicy(_with_row_for_nothing(chains, policy), average)


def _best_deterministic(chains: _Chains, n_rows: int, n_actions: int, least: float) -> Array | None:
    """[O + 1, A]: the best of all deterministic policies, softened, or None where they are many."""
    nothing_first = bool(chains.start.reshape(-1, n_rows)[:, -1].any())
    rows = n_rows if nothing_first else n_rows - 1  # else the last row is never used
    if n_actions**rows > _FEW:
        return None
    choices = np.array([(*c, *[0] * (n_rows - rows)) for c in product(range(n_actions), repeat=rows)])
    policies = np.eye(n_actions)[choices]
    softened = least + (1.0 - n_actions * least) * policies
    averages = np.concatenate(
        [chains.averages(part) for part in np.array_split(softened, len(choices) // 64 + 1)]
    )
    return np.asarray(policies[averages.argmin()])


def _descended(chains: _Chains, policy: Array, least: float, sweeps: int) -> tuple[float, Array]:
    """A local minimum: projected gradients with spectral steps (Birgin, Martínez and Raydan 2000).

    A row's gradient is divided by how often its reading comes, so that rare readings are not left behind.
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
    """The nearest distribution to each row whose entries are at least `least`."""
    n = points.shape[1]
    free = 1.0 - n * least
    above = points - points.max(
        axis=1, keepdims=True
    )  # a constant changes nothing, and long steps stay exact
    ordered = -np.sort(-above, axis=1)
    excess = (np.cumsum(ordered, axis=1) - free) / np.arange(1, n + 1)
    kept = (ordered > excess).sum(axis=1)
    level = excess[np.arange(len(points)), kept - 1][:, None]
    return np.asarray(least + np.maximum(above - level, 0.0))


def _with_row_for_nothing(chains: _Chains, policy: Array) -> Array:
    """The policy with its last row as on average, where that row makes no difference to J."""
    _, slope, shares = chains.gradient(policy)
    if np.ptp(slope[-1]) < _MATTERS:
        policy = policy.copy()
        policy[-1] = shares[:-1] @ policy[:-1]
    policy = np.maximum(policy, 0.0)
    return np.asarray(policy / policy.sum(axis=1, keepdims=True))


class MemorylessAgent:
    """Plays a memoryless policy, and learns nothing.

    >>> from psrl_pomdp import problem
    >>> agent = MemorylessAgent(best_memoryless(problem("railway")), seed=0)
    >>> agent.act(5)
    0
    """

    told: ClassVar[str] = "everything"

    def __init__(self, policy: MemorylessPolicy, seed: int | Sequence[int] = 0) -> None:
        self.policy = policy
        self.rng = np.random.default_rng(seed)
        self._sums = cumulative(policy.probabilities)

    def act(self, observation: int | str | None) -> int:
        n_readings = len(self._sums) - 1
        reading = n_readings if is_lost(observation) else number_of("observation", observation, n_readings)
        return bisect_right(self._sums[reading], self.rng.random())

    def to_bytes(self) -> bytes:
        words = {"version": VERSION, "average_cost": self.policy.average_cost, "stream": stream_out(self.rng)}
        encoded = np.frombuffer(msgspec.json.encode(words), np.uint8)
        return pack({"words": encoded, "probabilities": self.policy.probabilities})

    @classmethod
    @as_saved_agent("agent")
    def from_bytes(cls, data: bytes) -> MemorylessAgent:
        contents, words = opened(data, "agent", _Words, "a saved agent of this kind")
        chances = contents.distributions("probabilities", (None, None))
        if chances.shape[0] < 2 or chances.shape[1] < 1:
            raise contents.refuse(f"probabilities have shape {chances.shape}")
        average = np.nan if words.average_cost is None else words.average_cost
        agent = cls(MemorylessPolicy(chances, average))
        agent.rng = stream_in(words.stream)
        return agent


class _Words(msgspec.Struct):
    average_cost: float | None
    stream: StreamState


def cumulative(probabilities: Array) -> list[list[float]]:
    """Sums along each row, without the last: where a number between 0 and 1 falls among them is the draw."""
    return [row[:-1] for row in np.cumsum(probabilities, axis=1).tolist()]
