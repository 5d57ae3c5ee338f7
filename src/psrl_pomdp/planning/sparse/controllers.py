"""The search for controllers on a sparse model: backups and sweeps that use nonzero probabilities only.

Where the model has several closed classes, a controller may cost far less from the model's start than from
its worst pair (node, state). The pairs that the start reaches are closed under the chain. So a gain that is
one number on them, and 2 elsewhere, satisfies g ≥ P g exactly, and with it the two inequalities of
`multichain` hold: the controller costs that number from its start.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from ..._utils.arrays import Array, Index
from ..beliefs import distinct_beliefs
from ..limits import Limits
from ..markov.chains import Chain
from ..parameters import WORK, ControllerParameters, SparseControllerParameters
from ..upper.controllers import ControllerSearch
from ..upper.evaluation import Controller
from .dynamics import BYTES_PER_ENTRY, BYTES_PER_ENTRY_IN_ASSEMBLY, NextBeliefs, SparseDynamics


class SparseEntries:
    """The entries of all M[a, o] of one action, ordered by state."""

    def __init__(self, dynamics: SparseDynamics, action: int) -> None:
        n = dynamics.n_states
        states = csr_array((np.ones(n), np.arange(n), np.arange(n + 1)), shape=(n, n))
        after = dynamics.next_beliefs(states, action)
        row = np.repeat(np.arange(after.mass.shape[0]), np.diff(after.mass.indptr))
        self.observation = after.observation[row]  # [m]: o of each entry
        self.target = after.mass.indices.astype(np.int64)  # [m]: s′
        self.probability = after.mass.data  # [m]: M[a, o](s, s′)
        self.count = np.bincount(after.belief[row], minlength=n)  # [S]: entries of each state


@dataclass(frozen=True)
class SparseChain(Chain):
    """The Markov chain over pairs (node, state), stored as a matrix where that is not too large."""

    entries: tuple[SparseEntries, ...]
    limits: Limits
    most_entries: float = SparseControllerParameters().max_matrix_entries

    @property
    def nnz(self) -> int:
        """The number of nonzero entries of the matrix."""
        sizes = np.array([len(each.probability) for each in self.entries])
        return int(sizes[self.actions].sum())

    @property
    def work(self) -> float:
        """The operations of one product with the matrix."""
        return 2.0 * self.nnz

    @cached_property
    def _arrays(self) -> tuple[Array, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The matrix in compressed sparse rows: data, indices, indptr."""
        n_states, size = self.dynamics.n_states, self.nnz
        data, indices = np.empty(size), np.empty(size, np.int32)
        counts = np.concatenate([self.entries[a].count for a in self.actions])
        first = 0
        for action, successor in zip(self.actions, self.successors, strict=True):
            each = self.entries[action]
            last = first + len(each.probability)
            data[first:last] = each.probability
            indices[first:last] = successor[each.observation] * n_states + each.target
            first = last
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return data, indices, indptr

    def __matmul__(self, h: Array) -> Array:
        self.limits.require()
        if self.nnz <= self.most_entries and self.limits.fits(BYTES_PER_ENTRY * self.nnz):
            shape = len(self.actions) * self.dynamics.n_states, h.size
            return np.asarray(csr_array(self._arrays, shape=shape) @ h.ravel())
        return super().__matmul__(h)

    def matrix(self) -> csr_array:
        """Return the transition matrix over pairs (node, state)."""
        n = len(self.actions) * self.dynamics.n_states
        return csr_array(self._arrays, shape=(n, n))


class SparseControllerSearch(ControllerSearch):
    """`ControllerSearch` for a sparse model. Its steps raise `LimitReached` where time or memory ends."""

    most_factored = 3000

    def __init__(
        self,
        dynamics: SparseDynamics,
        limits: Limits,
        parameters: ControllerParameters = ControllerParameters(),
        sparse_parameters: SparseControllerParameters = SparseControllerParameters(),
    ) -> None:
        self.limits = limits
        self.sparse = dynamics
        self.sparse_parameters = sparse_parameters
        self._begin(dynamics, limits.expired, parameters)
        self.best = self.worst_case()
        self.vectors = self.best.vectors
        self.from_start: Controller | None = None
        self.has_several_classes = False  # if so, controllers are evaluated from the model's start too
        self.enough = 0.0  # a bound from any start at which one from the model's start is not needed
        self._last: tuple[Array, list[NextBeliefs]] | None = None

    def worst_case(self) -> Controller:
        """Return the controller that always plays the action with the least maximal cost."""
        d = self.sparse
        action = int(d.cost.max(axis=1).argmin())
        successors, vectors = np.zeros((1, d.n_observations), np.int64), np.zeros((1, d.n_states))
        return Controller(np.array([action]), successors, vectors, float(d.cost[action].max()) + 1e-12, 0)

    def prepare(self) -> None:
        """Make the arrays that every step needs; then evaluate the constant controllers."""
        d = self.sparse
        self.limits.reserve(2 * BYTES_PER_ENTRY * float(d.entries.sum()) + d.factor_bytes)
        self._entries = tuple(SparseEntries(d, a) for a in range(d.n_actions))
        # A stored chain, another in assembly, and vectors; layers double the nodes.
        bytes_per_node = 4.0 * BYTES_PER_ENTRY * float(d.entries.max()) + 200.0 * d.n_states
        p = self.sparse_parameters
        self.most_nodes = int(min(float(p.max_nodes), self.limits.remaining / bytes_per_node))
        self.most_splits = min(p.max_splits, 1 + self.most_nodes // 4)
        self._scores_at_once = int(min(p.scores_at_once, self.limits.remaining / 100.0)) + 1
        # [A, O, S']: next beliefs of a uniform belief, for observations that cannot come at a belief
        self.after_uniform: Array = d.after_uniform()
        self._try_constant_actions()

    def _try_constant_actions(self) -> None:
        d = self.sparse
        for a in range(d.n_actions):
            self.limits.require()
            action, successors = np.array([a]), np.zeros((1, d.n_observations), np.int64)
            h = np.zeros(d.n_states)
            _, high = self._sweeps(self.chain(action, successors), h, self.sparse_parameters.constant_sweeps)
            bound = high + d.rounding(np.append(h, 0.0))
            if bound < self.bound:
                self.best = Controller(action, successors, h[None], bound, 0)
        self.vectors = self.best.vectors if self.best is not None else self.vectors

    # -- backups --------------------------------------------------------------------------------

    def backup(self, beliefs: Array, vectors: Array) -> tuple[Index, Index, Array]:
        """Run one backup, in halves if the arrays for all beliefs would take too much memory."""
        if len(beliefs) > 1 and self._size_in_assembly(beliefs) > 0.5 * self.limits.remaining:
            half = len(beliefs) // 2
            parts = self.backup(beliefs[:half], vectors), self.backup(beliefs[half:], vectors)
            action, successor, value = (np.concatenate(part) for part in zip(*parts, strict=True))
            return action, successor, value
        d, by_action = self.sparse, self._all_next_beliefs(beliefs)
        n, columns = len(beliefs), np.ascontiguousarray(vectors.T)
        best, action = np.full(n, np.inf), np.zeros(n, np.int64)
        successor = np.zeros((n, d.n_observations), np.int64)
        impossible_successor = (self.after_uniform @ columns).argmin(axis=2)
        for a in range(d.n_actions):
            self.limits.require(8.0 * self._scores_at_once)
            after = by_action[a]
            best_vector, least = self._least(after.mass, columns)
            total = beliefs @ d.cost[a] + np.bincount(after.belief, least, minlength=n)
            better = total < best - 1e-13
            best[better], action[better] = total[better], a
            successor[better] = impossible_successor[a]
            used = better[after.belief]
            successor[after.belief[used], after.observation[used]] = best_vector[used]
        self.work += WORK.python_call
        return action, successor, best

    def _all_next_beliefs(self, beliefs: Array) -> list[NextBeliefs]:
        """Return the next beliefs under every action; the last ones are kept for the next backup."""
        if self._last is None or self._last[0] is not beliefs:
            d, rows, found = self.sparse, csr_array(beliefs), []
            self._drop_kept_beliefs()
            for a in range(d.n_actions):
                self.limits.require(BYTES_PER_ENTRY_IN_ASSEMBLY * d.entries_of_next_beliefs(rows, a))
                found.append(d.next_beliefs(rows, a))
                self.work += 50.0 * found[-1].mass.nnz
            self._last = beliefs, found
            self.limits.reserved += self._size(found)
        return self._last[1]

    def _size_in_assembly(self, beliefs: Array) -> float:
        """Return the bytes that making all next beliefs takes, at most."""
        share = float(np.count_nonzero(beliefs)) / self.sparse.n_states
        return share * (
            BYTES_PER_ENTRY_IN_ASSEMBLY * float(self.sparse.entries.max())
            + BYTES_PER_ENTRY * float(self.sparse.entries.sum())
        )

    def _drop_kept_beliefs(self) -> None:
        """Free the next beliefs that are kept."""
        if self._last is not None:
            self.limits.reserved -= self._size(self._last[1])
            self._last = None

    @staticmethod
    def _size(found: list[NextBeliefs]) -> float:
        """Return the bytes of next beliefs."""
        return float(sum(BYTES_PER_ENTRY * after.mass.nnz + 20.0 * len(after.belief) for after in found))

    def _least(self, mass: csr_array, columns: Array) -> tuple[Index, Array]:
        """Return the column of the least entry in every row of `mass @ columns`, and that entry."""
        n = mass.shape[0]
        many = max(1, self._scores_at_once // columns.shape[1])
        which, least = np.empty(n, np.int64), np.empty(n)
        for k in range(0, n, many):
            self.limits.require()
            scores = mass[k : k + many] @ columns
            which[k : k + many] = scores.argmin(axis=1)
            least[k : k + many] = scores[np.arange(len(scores)), which[k : k + many]]
        self.work += (2.0 * mass.nnz + 2.0 * n) * columns.shape[1]
        return which, least

    # -- evaluation -----------------------------------------------------------------------------

    def chain(self, actions: Index, successors: Index) -> Chain:
        """Return the chain over pairs (node, state) of a controller."""
        most = self.sparse_parameters.max_matrix_entries
        return SparseChain(self.sparse, actions, successors, self._entries, self.limits, most)  # type: ignore[arg-type]

    def _sweeps(self, chain: Chain, h: Array, most: int) -> tuple[float, float]:
        """Run relative value iteration on h, in place, until it cannot end below the best bound."""
        step_cost = self.sparse.cost[chain.actions].ravel()
        for sweep in range(most):
            change = step_cost + chain @ h - h
            again = self.restart_value(h)
            low, high = float(change.min()) + again, float(change.max()) + again
            self.work += chain.work
            if high - low < self.tolerance or sweep == most - 1 or low >= self.bound or self.expired():
                break
            h += self.sparse_parameters.damping * (change - 0.5 * (low + high))
        return low, high

    def _solve(self, chain: Chain, step_cost: Array, guess: Array) -> Array | None:
        if not self.limits.fits(60 * 8.0 * len(step_cost)):
            return None
        return super()._solve(chain, step_cost, guess)

    def try_from_anywhere(self, actions: Index, successors: Index, vectors: Array) -> None:
        """Evaluate a controller from any start, and from the model's start where that may cost less."""
        found = self.evaluate(actions, successors, vectors)
        if self.has_several_classes and self.bound > self.enough:
            self.evaluate_from_start(found)

    def evaluate_from_start(self, controller: Controller) -> None:
        """Evaluate a controller on the pairs that the model's start reaches; keep it if it is the best."""
        d = self.sparse
        chain = self.chain(controller.actions, controller.successors)
        self.limits.require(3 * BYTES_PER_ENTRY * chain.nnz)
        matrix = chain.matrix()
        reached = self._reached_pairs(matrix, controller)
        inside = matrix[reached][:, reached]
        step_cost = d.cost[controller.actions].ravel()[reached]
        h = controller.vectors.ravel()[reached].copy()
        bound = self.bound if self.from_start is None else min(self.bound, self.from_start.bound)
        high, best = np.inf, h.copy()
        self.work += 4.0 * chain.nnz
        for _ in range(self.sparse_parameters.start_sweeps):
            self.limits.require()
            change = step_cost + inside @ h - h
            low, most = float(change.min()), float(change.max())
            self.work += 2.0 * inside.nnz
            if most < high:
                high, best = most, h.copy()
            if most - low < self.tolerance or low >= bound:
                break
            h += self.sparse_parameters.damping * (change - 0.5 * (low + most))
        vectors = np.full(controller.vectors.size, best.max())
        vectors[reached] = best
        worth = high + d.rounding(np.append(vectors, 0.0))
        if worth >= bound - 1e-12:
            return
        gains = np.full(controller.vectors.size, 2.0)  # more than any cost, whatever the rounding
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
        """Return the pairs (node, state) that can be reached from the start node and the model's start."""
        n_states = self.sparse.n_states
        seen = np.zeros(matrix.shape[0], np.bool_)
        for state in np.flatnonzero(self.sparse.start > 0.0):
            pair = controller.start * n_states + state
            if not seen[pair]:
                seen[breadth_first_order(matrix, pair, return_predecessors=False)] = True
        return np.flatnonzero(seen)

    # -- beliefs that policies visit ------------------------------------------------------------

    def _joint_beliefs(self, beliefs: Array, actions: Index) -> Array:
        d = self.sparse
        self.limits.require(16.0 * len(beliefs) * d.n_observations * d.n_states)
        return d.joint_beliefs(beliefs, actions)

    def visited_beliefs(self, controller: Controller, uniforms: Array) -> Array:
        """Return beliefs that a controller visits, one for each number in `uniforms`."""
        rng = np.random.default_rng(int(1e9 * float(uniforms[0])))
        return self.sample_beliefs(controller.vectors, controller.actions, len(uniforms), rng, 0.0)

    def sample_beliefs(
        self,
        vectors: Array,
        actions: Index,
        count: int,
        rng: np.random.Generator,
        random: float | None = None,
    ) -> Array:
        """Return about `count` distinct beliefs on trajectories of the policy that these vectors make.

        Parameters
        ----------
        vectors, actions
            `[N, S]` and `[N]`: the policy plays the action of the vector that attains min α·b.
        count
            Number of beliefs, repeated ones included.
        rng
            Random numbers.
        random
            Share of actions that are drawn at random instead; by default as the parameters say.
        """
        d, parallel = self.sparse, self.sparse_parameters.trajectories
        if random is None:
            random = self.sparse_parameters.random_actions
        self.limits.require(40.0 * count * d.n_states)
        rows = np.arange(parallel)
        present = d.starts[np.minimum(rows, len(d.starts) - 1)]
        found = []
        for _ in range(-(-count // parallel)):
            self.limits.require()
            found.append(present)
            chosen = actions[(present @ vectors.T).argmin(axis=1)]
            any_action = rng.integers(d.n_actions, size=parallel)
            chosen = np.where(rng.random(parallel) < random, any_action, chosen)
            after = self._joint_beliefs(present, chosen)
            probabilities = after.sum(axis=2)
            cumulated = probabilities.cumsum(axis=1)
            uniforms = (1 - 1e-12) * rng.random((parallel, 1))
            observation = (cumulated <= uniforms * cumulated[:, -1:]).sum(axis=1)
            present = after[rows, observation] / probabilities[rows, observation, None]
            present = self._restarted(present, rng)
            self.work += WORK.python_call + 2.0 * present.size * (len(vectors) + d.n_observations)
        beliefs = np.concatenate(found)
        return np.asarray(beliefs[np.sort(distinct_beliefs(beliefs)[0])])
