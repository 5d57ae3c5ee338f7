"""The search for controllers (`upper`) on a sparse model: backups and sweeps that touch possible moves only.

Where the model has several parts that nobody can leave, what a controller costs from its start may be far
less than its worst pair of a node and a state. Pairs that the start reaches are closed under the chain, so
that a gain which is one number on them, and 2 elsewhere, satisfies g ≥ P g exactly, and with it the two
inequalities of `multichain` hold: the controller costs that number from its start.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from ..._utils.arrays import Array, Index
from ..limits import Limits
from ..lower.grid import CALL, distinct_beliefs
from ..upper.chains import Chain
from ..upper.controllers import Controller, ControllerSearch
from .dynamics import ENTRY, MAKING, After, SparseDynamics

_DAMPING = 0.95
_AT_ONCE = 4_000_000  # scores that a backup holds at a time
_WALKERS = 20  # trajectories side by side
_RANDOM = 0.1  # of the actions along them
_BLIND = 100  # sweeps for a controller that never changes its action
_FROM_START = 400  # sweeps over what the start reaches
_MOST_PAIRS = 3e7  # entries of a chain that is written out


class SparseEntries:
    """The entries of all M[a, o] of an action, by state: reading, next state, chance."""

    def __init__(self, dynamics: SparseDynamics, action: int) -> None:
        n = dynamics.n_states
        states = csr_array((np.ones(n), np.arange(n), np.arange(n + 1)), shape=(n, n))
        after = dynamics.after(states, action)
        row = np.repeat(np.arange(after.mass.shape[0]), np.diff(after.mass.indptr))
        self.reading = after.reading[row]
        self.target = after.mass.indices.astype(np.int64)
        self.chance = after.mass.data
        self.count = np.bincount(after.belief[row], minlength=n)  # entries of each state


@dataclass(frozen=True)
class SparseChain(Chain):
    """The chain over the pairs of a node and a state, written out where it is not too large."""

    entries: tuple[SparseEntries, ...]
    limits: Limits

    @property
    def nnz(self) -> int:
        sizes = np.array([len(each.chance) for each in self.entries])
        return int(sizes[self.actions].sum())

    @property
    def work(self) -> float:
        return 2.0 * self.nnz

    @cached_property
    def _written(self) -> tuple[Array, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Data, indices, indptr."""
        n_states, size = self.dynamics.n_states, self.nnz
        data, indices = np.empty(size), np.empty(size, np.int32)
        counts = np.concatenate([self.entries[a].count for a in self.actions])
        first = 0
        for action, onward in zip(self.actions, self.successors, strict=True):
            each = self.entries[action]
            last = first + len(each.chance)
            data[first:last] = each.chance
            indices[first:last] = onward[each.reading] * n_states + each.target
            first = last
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return data, indices, indptr

    def __matmul__(self, h: Array) -> Array:
        self.limits.need()
        if self.nnz <= _MOST_PAIRS and self.limits.fits(ENTRY * self.nnz):
            shape = len(self.actions) * self.dynamics.n_states, h.size
            return np.asarray(csr_array(self._written, shape=shape) @ h.ravel())
        return super().__matmul__(h)

    def matrix(self) -> csr_array:
        n = len(self.actions) * self.dynamics.n_states
        return csr_array(self._written, shape=(n, n))


class SparseControllerSearch(ControllerSearch):
    """`ControllerSearch` for a sparse model. Steps raise `LimitReached` where the limits end them."""

    most_factored = 3000

    def __init__(self, dynamics: SparseDynamics, limits: Limits) -> None:
        self.limits = limits
        self.sparse = dynamics
        self._begin(dynamics, limits.expired)
        self.best = self.worst_case()
        self.vectors = self.best.vectors
        self.from_start: Controller | None = None
        self.apart = False  # whether controllers are valued from the model's start too
        self.enough = 0.0  # a bound from any start that makes one from the model's needless
        self._last: tuple[Array, list[After]] | None = None

    def worst_case(self) -> Controller:
        """The action with the least largest cost, for ever: a bound that costs nothing to prove."""
        d = self.sparse
        action = int(d.cost.max(axis=1).argmin())
        onward, vectors = np.zeros((1, d.n_observations), np.int64), np.zeros((1, d.n_states))
        return Controller(np.array([action]), onward, vectors, float(d.cost[action].max()) + 1e-12, 0)

    def prepare(self) -> None:
        """What every step needs; then the controllers that never change their action."""
        d = self.sparse
        self.limits.hold(2 * ENTRY * float(d.entries.sum()) + 8.0 * d.factors.sensor.size)
        self._entries = tuple(SparseEntries(d, a) for a in range(d.n_actions))
        # A chain that is written out, another in the making, and vectors; layers double the nodes.
        a_node = 4.0 * ENTRY * float(d.entries.max()) + 200.0 * d.n_states
        self.most_nodes = int(min(4000.0, self.limits.left / a_node))
        self.most_splits = min(300, 1 + self.most_nodes // 4)
        self._at_once = int(min(_AT_ONCE, self.limits.left / 100.0)) + 1
        evens = np.stack([np.asarray(move.sum(axis=0)) for move in d.moves])
        # [A, O, S']: what follows an even belief, where a reading comes that cannot come
        self.evenly: Array = evens[:, None, :] * d.factors.sensor
        self._try_single_actions()

    def _try_single_actions(self) -> None:
        d = self.sparse
        for a in range(d.n_actions):
            self.limits.need()
            action, onward = np.array([a]), np.zeros((1, d.n_observations), np.int64)
            h = np.zeros(d.n_states)
            _, high = self._sweeps(self.chain(action, onward), h, _BLIND)
            bound = high + d.rounding(np.append(h, 0.0))
            if bound < self.bound:
                self.best = Controller(action, onward, h[None], bound, 0)
        self.vectors = self.best.vectors if self.best is not None else self.vectors

    # -- backups --------------------------------------------------------------------------------

    def backup(self, beliefs: Array, vectors: Array) -> tuple[Index, Index, Array]:
        if len(beliefs) > 1 and self._size_ahead(beliefs) > 0.5 * self.limits.left:
            half = len(beliefs) // 2
            parts = self.backup(beliefs[:half], vectors), self.backup(beliefs[half:], vectors)
            action, successor, value = (np.concatenate(part) for part in zip(*parts, strict=True))
            return action, successor, value
        d, followed = self.sparse, self._all_after(beliefs)
        n, columns = len(beliefs), np.ascontiguousarray(vectors.T)
        best, action = np.full(n, np.inf), np.zeros(n, np.int64)
        successor = np.zeros((n, d.n_observations), np.int64)
        unread = (self.evenly @ columns).argmin(axis=2)
        for a in range(d.n_actions):
            self.limits.need(8.0 * self._at_once)
            after = followed[a]
            onward, least = self._least(after.mass, columns)
            total = beliefs @ d.cost[a] + np.bincount(after.belief, least, minlength=n)
            better = total < best - 1e-13
            best[better], action[better] = total[better], a
            successor[better] = unread[a]
            used = better[after.belief]
            successor[after.belief[used], after.reading[used]] = onward[used]
        self.work += CALL
        return action, successor, best

    def _all_after(self, beliefs: Array) -> list[After]:
        """What follows the beliefs under every action; remembered, as the same ones are backed up again."""
        if self._last is None or self._last[0] is not beliefs:
            d, rows, found = self.sparse, csr_array(beliefs), []
            self._forget()
            for a in range(d.n_actions):
                self.limits.need(MAKING * d.entries_after(rows, a))
                found.append(d.after(rows, a))
                self.work += 50.0 * found[-1].mass.nnz
            self._last = beliefs, found
            self.limits.held += self._size(found)
        return self._last[1]

    def _size_ahead(self, beliefs: Array) -> float:
        """Bytes that making all that follows the beliefs takes, at most."""
        share = float(np.count_nonzero(beliefs)) / self.sparse.n_states
        return share * (MAKING * float(self.sparse.entries.max()) + ENTRY * float(self.sparse.entries.sum()))

    def _forget(self) -> None:
        if self._last is not None:
            self.limits.held -= self._size(self._last[1])
            self._last = None

    @staticmethod
    def _size(found: list[After]) -> float:
        return float(sum(ENTRY * after.mass.nnz + 20.0 * len(after.belief) for after in found))

    def _least(self, mass: csr_array, columns: Array) -> tuple[Index, Array]:
        """Which column is the least in every row of the product, and how much it is."""
        n = mass.shape[0]
        many = max(1, self._at_once // columns.shape[1])
        which, least = np.empty(n, np.int64), np.empty(n)
        for k in range(0, n, many):
            self.limits.need()
            scores = mass[k : k + many] @ columns
            which[k : k + many] = scores.argmin(axis=1)
            least[k : k + many] = scores[np.arange(len(scores)), which[k : k + many]]
        self.work += (2.0 * mass.nnz + 2.0 * n) * columns.shape[1]
        return which, least

    # -- evaluation -----------------------------------------------------------------------------

    def chain(self, actions: Index, successors: Index) -> Chain:
        return SparseChain(self.sparse, actions, successors, self._entries, self.limits)  # type: ignore[arg-type]

    def _sweeps(self, chain: Chain, h: Array, most: int) -> tuple[float, float]:
        """Damped sweeps, until they cannot end below the best controller."""
        paid = self.sparse.cost[chain.actions].ravel()
        for sweep in range(most):
            change = paid + chain @ h - h
            low, high = float(change.min()), float(change.max())
            self.work += chain.work
            if high - low < self.tolerance or sweep == most - 1 or low >= self.bound or self.expired():
                break
            h += _DAMPING * (change - 0.5 * (low + high))
        return low, high

    def _solve(self, chain: Chain, paid: Array, guess: Array) -> Array | None:
        if not self.limits.fits(60 * 8.0 * len(paid)):
            return None
        return super()._solve(chain, paid, guess)

    def try_from_anywhere(self, actions: Index, successors: Index, vectors: Array) -> None:
        """Value a controller from any start, and from the model's where parts of it cannot be left."""
        found = self.evaluate(actions, successors, vectors)
        if self.apart and self.bound > self.enough:
            self.evaluate_from_start(found)

    def evaluate_from_start(self, controller: Controller) -> None:
        """What a controller costs from the start, by the pairs that it reaches; kept where that is less."""
        d = self.sparse
        chain = self.chain(controller.actions, controller.successors)
        self.limits.need(3 * ENTRY * chain.nnz)
        matrix = chain.matrix()
        reached = self._reached_pairs(matrix, controller)
        inside = matrix[reached][:, reached]
        paid = d.cost[controller.actions].ravel()[reached]
        h = controller.vectors.ravel()[reached].copy()
        bound = self.bound if self.from_start is None else min(self.bound, self.from_start.bound)
        high, best = np.inf, h.copy()
        self.work += 4.0 * chain.nnz
        for _ in range(_FROM_START):
            self.limits.need()
            change = paid + inside @ h - h
            low, most = float(change.min()), float(change.max())
            self.work += 2.0 * inside.nnz
            if most < high:
                high, best = most, h.copy()
            if most - low < self.tolerance or low >= bound:
                break
            h += _DAMPING * (change - 0.5 * (low + most))
        vectors = np.full(controller.vectors.size, best.max())
        vectors[reached] = best
        worth = high + d.rounding(np.append(vectors, 0.0))
        if worth >= bound - 1e-12:
            return
        gains = np.full(controller.vectors.size, 2.0)  # more than anything costs, whatever rounding does
        gains[reached] = worth
        shape = controller.vectors.shape
        self.from_start = Controller(
            controller.actions,
            controller.successors,
            vectors.reshape(shape),
            worth,
            controller.start,
            gains.reshape(shape),
        )

    def _reached_pairs(self, matrix: csr_array, controller: Controller) -> Index:
        """The pairs that the controller can come to from its start node and the model's start."""
        n_states = self.sparse.n_states
        seen = np.zeros(matrix.shape[0], np.bool_)
        for state in np.flatnonzero(self.sparse.start > 0.0):
            pair = controller.start * n_states + state
            if not seen[pair]:
                seen[breadth_first_order(matrix, pair, return_predecessors=False)] = True
        return np.flatnonzero(seen)

    # -- where policies go ----------------------------------------------------------------------

    def _after(self, beliefs: Array, actions: Index) -> Array:
        d = self.sparse
        self.limits.need(16.0 * len(beliefs) * d.n_observations * d.n_states)
        moved = np.empty_like(beliefs)
        for a in np.unique(actions):
            here = actions == a
            moved[here] = (d.moves[a].T @ beliefs[here].T).T
        return np.asarray(moved[:, None, :] * d.factors.sensor[actions])

    def met(self, controller: Controller, uniforms: Array) -> Array:
        """Beliefs that the belief policy meets on some trajectories side by side, each once."""
        rng = np.random.default_rng(int(1e9 * float(uniforms[0])))
        return self.walk(controller.vectors, controller.actions, len(uniforms), rng, 0.0)

    def walk(
        self, vectors: Array, actions: Index, count: int, rng: np.random.Generator, random: float = _RANDOM
    ) -> Array:
        """About `count` beliefs that are met by playing the action of the least vector, each once."""
        d = self.sparse
        self.limits.need(40.0 * count * d.n_states)
        rows = np.arange(_WALKERS)
        present = d.starts[np.minimum(rows, len(d.starts) - 1)]
        found = []
        for _ in range(-(-count // _WALKERS)):
            self.limits.need()
            found.append(present)
            chosen = actions[(present @ vectors.T).argmin(axis=1)]
            any_action = rng.integers(d.n_actions, size=_WALKERS)
            chosen = np.where(rng.random(_WALKERS) < random, any_action, chosen)
            after = self._after(present, chosen)
            chances = after.sum(axis=2)
            passed = chances.cumsum(axis=1)
            reading = (passed <= (1 - 1e-12) * rng.random((_WALKERS, 1)) * passed[:, -1:]).sum(axis=1)
            present = after[rows, reading] / chances[rows, reading, None]
            self.work += CALL + 2.0 * present.size * (len(vectors) + d.n_observations)
        beliefs = np.concatenate(found)
        return np.asarray(beliefs[np.sort(distinct_beliefs(beliefs)[0])])
