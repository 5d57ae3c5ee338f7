"""The upper bound: a finite-state controller is a proof.

Nodes n with an action a_n, a successor σ(n, o) for each reading, and *any* vectors α_n in R^S. Let

    upper = max_{n, s} [ C(s, a_n) + Σ_{o, s′} M[a_n, o](s, s′) α_{σ(n, o)}(s′) − α_n(s) ].

Then V(b) = min_n α_n·b satisfies TV ≤ V + upper, so both the controller and the belief policy "play the
action of the vector that attains min_n α_n·b" cost at most `upper` on average, from any start. Evaluating
the controller exactly makes the bound tight; improving it makes it low.

Improvement here is of four kinds: point-based backups (a vector for each belief of a set, pointers to the
vectors that attain the minima); the same where a policy goes that looks one step further than the controller;
splitting edges (the average belief on an edge n → σ(n, o) of the running controller tells whether another
node, old or new, would serve it better: to first order the cost falls by flow times difference); and
lookahead layers, several backups on top of a controller before edges are split again, at beliefs that the
controller's own policy meets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..._utils.arrays import Array, Index
from ..dynamics import BeliefDynamics, Dynamics
from ..lower.grid import CALL, belief_numbers, distinct_beliefs, never
from ..lower.relative_values import by_factors, by_krylov, densely
from . import nodes
from .chains import Chain, relax, stationary

_DAMPING = 0.95
MATRIX = 0.25  # the work that a product in a large matrix product stands for
_AT_ONCE = 500_000  # scores that a backup holds at a time
_EDGES = 600  # of a controller that are looked at
_CHAINS = 100  # trajectories side by side
_REVISITS = 4  # steps of them for each new belief, at most
_MOST_SWEEPS = 400  # toward the long-run shares of the pairs
_PIECE = 1e8  # of the work of sweeps, without asking whether time is up
_SMALL_CHAIN = 900  # pairs for which a dense solve is the quickest


@dataclass(frozen=True)
class Controller:
    """Nodes, their vectors, and the bound that these prove."""

    actions: Index  # [N]
    successors: Index  # [N, O]
    vectors: Array  # [N, S]: α
    bound: float
    start: int  # the node that is best for the start
    gains: Array | None = None  # [N, S]: g, where what is proved depends on the start (`multichain`)

    def __len__(self) -> int:
        return len(self.actions)


class ControllerSearch:
    """The best controller so far, and ways to find a better one."""

    most_nodes = 4000  # of a controller with layers on top
    most_splits = 300  # edges that are changed at a time
    most_factored = 20_000  # pairs of a chain that is factorised

    def __init__(self, dynamics: Dynamics, expired: Callable[[], bool] = never) -> None:
        self._begin(dynamics, expired)
        self._dense = dynamics
        joint = dynamics.joint
        self._fallback = joint.sum(axis=2)  # [A, O, S']: after an even belief, for readings not reached
        self._onward = np.ascontiguousarray(joint.transpose(2, 0, 1, 3)).reshape(dynamics.n_states, -1)
        self._try_single_actions()

    def _begin(self, dynamics: BeliefDynamics, expired: Callable[[], bool]) -> None:
        """What every search has, whether M is one array or sparse."""
        self.dynamics = dynamics
        self.work = 0.0
        self.expired = expired
        self.tolerance = 1e-10
        self.best: Controller | None = None
        self._comes = dynamics.factors.comes
        self._last_flows: tuple[Controller, tuple[Array, Array, Index]] | None = None
        self._products = dynamics.n_actions * dynamics.n_observations * dynamics.n_states

    def _try_single_actions(self) -> None:
        """Controllers of one node, for each action."""
        d = self.dynamics
        for a in range(d.n_actions):
            constant = np.zeros((1, d.n_observations), np.int64)
            self.evaluate(np.array([a]), constant, np.zeros((1, d.n_states)))
        assert self.best is not None
        self.vectors: Array = self.best.vectors

    @property
    def bound(self) -> float:
        return np.inf if self.best is None else self.best.bound

    # -- backups --------------------------------------------------------------------------------

    def backup(self, beliefs: Array, vectors: Array) -> tuple[Index, Index, Array]:
        """The best action at each belief, the vectors to go on with, and the value."""
        d = self.dynamics
        n, many = len(beliefs), max(1, _AT_ONCE // (len(vectors) * d.n_actions * d.n_observations))
        self.work += MATRIX * n * self._products * (d.n_states + len(vectors)) + CALL
        columns = np.ascontiguousarray(vectors.T)
        parts = [self._backup(beliefs[k : k + many], columns) for k in range(0, n, many)]
        action, successor, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        return action, successor, value

    def _backup(self, beliefs: Array, columns: Array) -> tuple[Index, Index, Array]:
        d = self.dynamics
        n, rows = len(beliefs), np.arange(len(beliefs))
        after = (beliefs @ self._onward).reshape(-1, d.n_states)  # [n A O, S']
        scores = after @ columns
        onward = scores.argmin(axis=1)
        least = scores[np.arange(len(onward)), onward].reshape(n, d.n_actions, d.n_observations)
        onward = onward.reshape(least.shape)
        total = beliefs @ d.cost.T + least.sum(axis=2)  # [n, A]
        action = (total < total.min(axis=1, keepdims=True) + 1e-13).argmax(axis=1)
        lost = (after.sum(axis=1) <= 0.0).reshape(least.shape) & self._comes
        if lost.any():
            onward = np.where(lost, (self._fallback @ columns).argmin(axis=2), onward)
        return action, onward[rows, action], total[rows, action]

    def values(self, beliefs: Array, vectors: Array) -> Array:
        """min_n α_n·b at each belief."""
        self.work += MATRIX * beliefs.size * len(vectors)
        many = max(1, _AT_ONCE // len(vectors))
        parts = [(beliefs[k : k + many] @ vectors.T).min(axis=1) for k in range(0, len(beliefs), many)]
        return np.concatenate(parts)

    def vectors_of(self, actions: Index, successors: Index, vectors: Array, gain: float = 0.0) -> Array:
        """α_n = C(·, a_n) − gain + Σ_o M[a_n, o] α_{σ(n, o)}."""
        chain = self.chain(actions, successors)
        self.work += chain.work
        return self.dynamics.cost[actions] - gain + (chain @ vectors).reshape(len(actions), -1)

    def iterate(self, beliefs: Array, vectors: Array) -> tuple[Array, Array]:
        """One round of point-based value iteration: new vectors, and a belief for each."""
        self.work += CALL
        action, successor, _ = self.backup(beliefs, vectors)
        first, _ = nodes.distinct(action, successor)
        new = self.vectors_of(action[first], successor[first], vectors)
        return new - new[0].mean(), beliefs[first]

    def read_off(self, beliefs: Array, vectors: Array) -> Controller:
        """The controller whose nodes are these vectors, with pointers by a backup at their beliefs."""
        action, successor, _ = self.backup(beliefs, vectors)
        return self.evaluate(*nodes.merged(action, successor, vectors))

    # -- evaluation -----------------------------------------------------------------------------

    def chain(self, actions: Index, successors: Index) -> Chain:
        """The chain over the pairs of a node and a state."""
        return Chain(self._dense, actions, successors)

    def evaluate(self, actions: Index, successors: Index, guess: Array) -> Controller:
        """The controller's relative values and its bound; it becomes `best` where it is."""
        d = self.dynamics
        self.work += CALL
        chain = self.chain(actions, successors)
        paid = d.cost[actions].ravel()
        h = np.asarray(guess, dtype=np.float64).ravel() - guess.flat[0]  # a constant only costs digits
        low, high = self._sweeps(chain, h, 60)
        if high - low > self.tolerance:
            # Nodes that the start never uses may be worse, or run in circles of their own.
            vectors = h.reshape(len(actions), d.n_states)
            used = self._pruned(actions, successors, vectors, int((vectors @ d.start).argmin()))
            if len(used[0]) < len(actions):
                return self.evaluate(*used)
        # One that cannot beat the best, whatever its values turn out to be, is not worth more.
        if high - low > self.tolerance and low < self.bound:
            exact = self._solve(chain, paid, h)
            if exact is not None:
                change = paid + chain @ exact - exact
                if change.max() < high:
                    h, high = exact, float(change.max())
            else:
                low, high = self._sweeps(chain, h, 2000)
        vectors = h.reshape(len(actions), d.n_states)
        start = int((vectors @ d.start).argmin())
        bound = high + d.rounding(np.append(h, 0.0))  # in which h has moved away from 0, too
        found = Controller(actions, successors, vectors, bound, start)
        if bound < self.bound:
            self.best = found
        return found

    def _sweeps(self, chain: Chain, h: Array, most: int) -> tuple[float, float]:
        d = self.dynamics
        by_node = h.reshape(-1, d.n_states)  # and so h itself, which is changed
        low, high, done = relax(
            d.factors, chain.actions, chain.successors, d.cost, by_node, _DAMPING, self.tolerance, most
        )
        self.work += done * chain.work
        return float(low), float(high)

    def _solve(self, chain: Chain, paid: Array, guess: Array) -> Array | None:
        """h with gain + h = c + T h, but for a constant; None where that would take too long, and a rough one
        where the gain turns out to be no better than that of the best controller."""
        n = len(paid)
        try:
            if n <= _SMALL_CHAIN:
                self.work += n**3 / 3
                return densely(chain.matrix(), paid)
            found, spent = by_krylov(chain, paid, guess, self.tolerance, self.expired, hopeless=self.bound)
            self.work += spent + CALL
            if (
                found is not None or chain.nnz > 25 * n or n > self.most_factored
            ):  # factors would be too large
                return found
            matrix = chain.matrix()
            found, spent = by_krylov(
                chain, paid, guess, self.tolerance, self.expired, factored=matrix, hopeless=self.bound
            )
            self.work += spent + CALL
            if found is not None:
                return found
            h, spent = by_factors(matrix, paid)
        except (np.linalg.LinAlgError, RuntimeError):
            return None
        self.work += spent
        return h

    # -- improvement ----------------------------------------------------------------------------

    def improve_by_points(self, beliefs: Array, patience: int = 1, limit: float = np.inf) -> None:
        """Point-based value iteration, on from where it was; then from the best controller, until `patience`
        iterations brought no better one or the work is beyond `limit`."""
        self.vectors, places = self.iterate(beliefs, self.vectors)
        self.read_off(places, self.vectors)
        assert self.best is not None
        vectors, fruitless, reading = self.best.vectors, 0, 0.0
        while fruitless < patience and self.work < limit and not self.expired():
            before, begun = self.bound, self.work
            vectors, places = self.iterate(beliefs, vectors)
            iterated = self.work
            # On the way to a better controller most are far worse, even right before and right after it: all
            # are read off where that costs less than the iteration, and every fifth otherwise.
            if reading < iterated - begun or fruitless % 5 == 4:
                self.read_off(places, vectors)
                reading = self.work - iterated
            fruitless += 1
            if self.bound < before - 1e-12:
                self.vectors = vectors = self.best.vectors
                fruitless = 0

    def improve_ahead(self, count: int, rng: np.random.Generator, worthwhile: float, limit: float) -> None:
        """Point-based value iteration where a policy goes that looks one step further than the best
        controller: it costs less, and most of what it meets is not what the controller was made for."""
        assert self.best is not None
        vectors = self.best.vectors
        beliefs, action, successor = self.ahead(vectors, count, rng, limit)
        first, _ = nodes.distinct(action, successor)
        vectors, places = self.vectors_of(action[first], successor[first], vectors), beliefs[first]
        fruitless = 0
        while True:
            before = self.bound
            self.read_off(places, vectors)
            fruitless = fruitless + 1 if self.bound >= before - worthwhile else 0
            if fruitless == 2 or self.work > limit or self.expired():
                return
            vectors, places = self.iterate(beliefs, vectors)

    def ahead(
        self, vectors: Array, count: int, rng: np.random.Generator, limit: float
    ) -> tuple[Array, Index, Index]:
        """About `count` beliefs along trajectories that look one step ahead of these vectors, each once, and
        their backups."""
        d = self.dynamics
        present, rows = np.tile(d.start, (_CHAINS, 1)), np.arange(_CHAINS)
        choice: dict[int, int] = {}
        found: list[tuple[Array, Index, Index]] = []
        for _ in range(1 + _REVISITS * count // _CHAINS):
            numbers = belief_numbers(present)
            first = np.unique(numbers, return_index=True)[1]
            new = np.array([k for k in first.tolist() if int(numbers[k]) not in choice], np.int64)
            if len(new):
                action, successor, _ = self.backup(present[new], vectors)
                choice.update(zip(numbers[new].tolist(), action.tolist(), strict=True))
                found.append((present[new], action, successor))
            if len(choice) >= count or self.work > limit or self.expired():
                break
            chosen = np.array([choice[number] for number in numbers.tolist()])
            after = self._after(present, chosen)
            chances = after.sum(axis=2)
            passed = chances.cumsum(axis=1)
            below_one = (1 - 1e-12) * rng.random((_CHAINS, 1))  # whatever rounding does to the product
            reading = (passed <= below_one * passed[:, -1:]).sum(axis=1)
            present = after[rows, reading] / chances[rows, reading, None]
            self.work += CALL + MATRIX * present.size * self._products
        beliefs, actions, successors = (np.concatenate(part) for part in zip(*found, strict=True))
        return beliefs, actions, successors

    def _after(self, beliefs: Array, actions: Index) -> Array:
        """[n, O, S']: what follows each belief under its action, not normalized."""
        d, rows = self.dynamics, np.arange(len(beliefs))
        after = (beliefs @ self._onward).reshape(len(beliefs), d.n_actions, d.n_observations, -1)
        return np.asarray(after[rows, actions])

    def met(self, controller: Controller, uniforms: Array) -> Array:
        """Beliefs along a trajectory of the belief policy, each once."""
        d = self.dynamics
        joint = self._dense.joint
        self.work += CALL + len(uniforms) * (2.0 * controller.vectors.size + joint[0].size)
        beliefs = nodes.trajectory(joint, controller.actions, controller.vectors, d.start, uniforms)
        return np.asarray(beliefs[np.sort(distinct_beliefs(beliefs)[0])])

    def polish(self, start: Controller, beliefs: Array, budget: float) -> None:
        """Split edges of a controller, with ever deeper lookahead, while it pays and the budget lasts."""
        limit = self.work + budget
        current, depth = start, 0
        while self.work < limit and not self.expired():
            longer = self._layers(current, beliefs, depth, 0.5 * (limit - self.work)) if depth else None
            better = self._split(current, longer)
            if better is not None:
                current = better
                depth = max(1, depth - 1) if depth > 1 else depth
            elif depth >= 40:
                break
            else:
                depth = 3 * depth if depth else 1

    def _flows(self, controller: Controller) -> tuple[Array, Array, Index]:
        """Average beliefs on the edges that the controller uses most: belief, flow, (node, reading).

        Kept for the next time: edges of one controller are split in several ways, until one is better.
        """
        if self._last_flows is not None and self._last_flows[0] is controller:
            return self._last_flows[1]
        d = self.dynamics
        chain = self.chain(controller.actions, controller.successors)
        mass = np.zeros((len(controller), d.n_states))
        mass[controller.start] = d.start
        done, at_once = 0, max(1, int(_PIECE / chain.work))
        while done < _MOST_SWEEPS and not self.expired():
            most = min(at_once, _MOST_SWEEPS - done)
            spent = stationary(d.factors, chain.actions, chain.successors, mass, 0.9, 1e-9, most)
            done += spent
            if spent < most:
                break
        self.work += (done + 1) * chain.work + 3 * CALL
        beliefs, flow, edges = nodes.edge_flows(d.factors, chain.actions, mass)
        top = np.argsort(-flow, kind="stable")[:_EDGES]
        self._last_flows = controller, (beliefs[top], flow[top], edges[top])
        return self._last_flows[1]

    def _layers(
        self, controller: Controller, beliefs: Array, depth: int, budget: float
    ) -> tuple[Index, Index, Array]:
        """The controller with nodes added that look ahead `depth` steps and then fall back into it."""
        actions, successors, vectors = controller.actions, controller.successors, controller.vectors
        value = (beliefs @ vectors.T).min(axis=1)
        limit = self.work + budget
        for _ in range(depth):
            if self.work > limit or len(actions) > self.most_nodes or self.expired():
                break
            action, successor, new = self.backup(beliefs, vectors)
            lower = np.flatnonzero(new - controller.bound < value - 1e-9)
            if not len(lower):
                break
            value[lower] = new[lower] - controller.bound
            chosen = lower[nodes.distinct(action[lower], successor[lower])[0]]
            fresh = self.vectors_of(action[chosen], successor[chosen], vectors, controller.bound)
            actions = np.concatenate([actions, action[chosen]])
            successors = np.concatenate([successors, successor[chosen]])
            vectors = np.concatenate([vectors, fresh])
        return actions, successors, vectors

    def _split(self, controller: Controller, longer: tuple[Index, Index, Array] | None) -> Controller | None:
        """Redirect or split the edges that promise most; fewer of them while the cost does not fall."""
        self.work += 5 * CALL
        beliefs, flow, edges = self._flows(controller)
        node, reading = edges[:, 0], edges[:, 1]
        present = (beliefs * controller.vectors[controller.successors[node, reading]]).sum(axis=1)
        actions, successors, vectors = longer or (
            controller.actions,
            controller.successors,
            controller.vectors,
        )
        scores = beliefs @ vectors.T
        target = scores.argmin(axis=1)
        by_redirecting = flow * (present - scores[np.arange(len(beliefs)), target])
        new_action, new_successor, new_value = self.backup(beliefs, vectors)
        by_splitting = flow * (present - (new_value - controller.bound))
        promise = np.maximum(by_redirecting, by_splitting)
        order = np.argsort(-promise, kind="stable")
        order = order[promise[order] > 1e-12]
        count = min(len(order), self.most_splits)
        while count >= 1:
            chosen = order[:count]
            splits = by_splitting[chosen] > 1.0001 * by_redirecting[chosen] + 1e-14
            split, kept = chosen[splits], chosen[~splits]
            changed = successors.copy()
            changed[node[kept], reading[kept]] = target[kept]
            all_actions, all_successors, all_vectors = actions, changed, vectors
            if len(split):
                first, kind = nodes.distinct(new_action[split], new_successor[split])
                fresh_actions, fresh_successors = new_action[split[first]], new_successor[split[first]]
                changed[node[split], reading[split]] = len(actions) + kind
                fresh = self.vectors_of(fresh_actions, fresh_successors, vectors, controller.bound)
                all_actions = np.concatenate([actions, fresh_actions])
                all_successors = np.concatenate([changed, fresh_successors])
                all_vectors = np.concatenate([vectors, fresh])
            start = int((all_vectors @ self.dynamics.start).argmin())
            found = self.evaluate(*self._pruned(all_actions, all_successors, all_vectors, start))
            if found.bound < controller.bound - 1e-12:
                return found
            count = count // 4 if not self.expired() else 0
        return None

    def _pruned(
        self, actions: Index, successors: Index, vectors: Array, start: int
    ) -> tuple[Index, Index, Array]:
        """Only the nodes that the start can reach, the start first."""
        self.work += CALL
        order, onward = nodes.reached(self._comes, actions, successors, start)
        return actions[order], onward, vectors[order]
