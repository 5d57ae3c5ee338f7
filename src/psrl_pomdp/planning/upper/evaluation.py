"""The upper bound: a finite-state controller, its relative values, and what they prove.

Nodes n have an action a_n, a successor σ(n, o) for each observation, and *any* vectors α_n in R^S. Let

    upper = max_{n, s} [ C(s, a_n) + Σ_{o, s′} M[a_n, o](s, s′) α_{σ(n, o)}(s′) − α_n(s) ].

Then V(b) = min_n α_n·b satisfies TV ≤ V + upper, so both the controller and the belief policy "play the
action of the vector that attains min_n α_n·b" cost at most `upper` on average, from any start. Evaluating
the controller exactly makes the bound tight; improving it (`controllers`) makes it low.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..._utils.arrays import Array, Index
from ..dynamics import BeliefDynamics, Dynamics
from ..limits import never_expired
from ..markov.chains import Chain, relative_value_sweeps
from ..markov.relative_values import solve_dense, solve_gmres, solve_lu
from ..parameters import WORK, ControllerParameters
from . import nodes


@dataclass(frozen=True)
class Controller:
    """A finite-state controller, its vectors, and the upper bound that they prove."""

    actions: Index  # [N]
    successors: Index  # [N, O]
    vectors: Array  # [N, S]: α
    bound: float
    start: int  # the node that is best for the model's start
    gains: Array | None = None  # [N, S]: g, where the bound depends on the start (`multichain`)

    def __len__(self) -> int:
        return len(self.actions)


class ControllerEvaluation:
    """Evaluates controllers and keeps the best one."""

    most_factored = 20_000  # pairs (node, state) up to which a chain is factorized

    def __init__(
        self,
        dynamics: Dynamics,
        expired: Callable[[], bool] = never_expired,
        parameters: ControllerParameters | None = None,
    ) -> None:
        self._begin(dynamics, expired, parameters or ControllerParameters())
        self._dense = dynamics
        joint = dynamics.joint
        self._after_uniform = joint.sum(axis=2)  # [A, O, S']: for observations that cannot come at a belief
        self._joint_matrices = np.ascontiguousarray(joint.transpose(2, 0, 1, 3)).reshape(
            dynamics.n_states, -1
        )
        self._try_constant_actions()

    def _begin(
        self, dynamics: BeliefDynamics, expired: Callable[[], bool], parameters: ControllerParameters
    ) -> None:
        """Set the attributes that dense and sparse searches have in common."""
        self.dynamics = dynamics
        self.parameters = parameters
        self.work = 0.0
        self.expired = expired
        self.tolerance = 1e-10  # to which relative values are solved for
        self.best: Controller | None = None
        self._possible = dynamics.factors.possible
        self._joint_rows = dynamics.n_actions * dynamics.n_observations * dynamics.n_states

    def _try_constant_actions(self) -> None:
        """Evaluate the controllers of one node, one for each action."""
        d = self.dynamics
        for a in range(d.n_actions):
            constant = np.zeros((1, d.n_observations), np.int64)
            self.evaluate(np.array([a]), constant, np.zeros((1, d.n_states)))
        assert self.best is not None
        self.vectors: Array = self.best.vectors

    @property
    def bound(self) -> float:
        """The best upper bound so far."""
        return np.inf if self.best is None else self.best.bound

    def restart_value(self, vectors: Array) -> float:
        """Return (1 − γ) times the mean of min α·b over the starts, for vectors [N, S]; 0 for averages."""
        d = self.dynamics
        if not d.restart:
            return 0.0
        return d.restart_value((d.starts @ vectors.reshape(-1, d.n_states).T).min(axis=1))

    def gain_of(self, controller: Controller) -> float:
        """Return what a step of a controller costs, beside changes of its vectors: its bound, or less.

        With a discount, the bound includes the value of a start drawn afresh.
        """
        return controller.bound - self.restart_value(controller.vectors)

    # -- backups --------------------------------------------------------------------------------

    def backup(self, beliefs: Array, vectors: Array) -> tuple[Index, Index, Array]:
        """Back up vectors at beliefs.

        Returns
        -------
        tuple
            For each belief the best action `[n]`, the vector to go on with after each observation `[n, O]`,
            and the value `[n]`.
        """
        d = self.dynamics
        n, many = (
            len(beliefs),
            max(1, self.parameters.scores_at_once // (len(vectors) * d.n_actions * d.n_observations)),
        )
        self.work += (
            WORK.matrix_product * n * self._joint_rows * (d.n_states + len(vectors)) + WORK.python_call
        )
        columns = np.ascontiguousarray(vectors.T)
        parts = [self._backup(beliefs[k : k + many], columns) for k in range(0, n, many)]
        action, successor, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        return action, successor, value

    def _backup(self, beliefs: Array, columns: Array) -> tuple[Index, Index, Array]:
        """Back up vectors, given as columns [S, N], at beliefs whose scores fit into memory."""
        d = self.dynamics
        n, rows = len(beliefs), np.arange(len(beliefs))
        after = (beliefs @ self._joint_matrices).reshape(-1, d.n_states)  # [n A O, S']
        scores = after @ columns
        successor = scores.argmin(axis=1)
        least = scores[np.arange(len(successor)), successor].reshape(n, d.n_actions, d.n_observations)
        successor = successor.reshape(least.shape)
        total = beliefs @ d.cost.T + least.sum(axis=2)  # [n, A]
        action = (total < total.min(axis=1, keepdims=True) + 1e-13).argmax(axis=1)
        # An observation that cannot come at this belief leads to what is best after a uniform one.
        impossible = (after.sum(axis=1) <= 0.0).reshape(least.shape) & self._possible
        if impossible.any():
            successor = np.where(impossible, (self._after_uniform @ columns).argmin(axis=2), successor)
        return action, successor[rows, action], total[rows, action]

    def values(self, beliefs: Array, vectors: Array) -> Array:
        """Return min_n α_n·b at each belief."""
        self.work += WORK.matrix_product * beliefs.size * len(vectors)
        many = max(1, self.parameters.scores_at_once // len(vectors))
        parts = [(beliefs[k : k + many] @ vectors.T).min(axis=1) for k in range(0, len(beliefs), many)]
        return np.concatenate(parts)

    def node_vectors(self, actions: Index, successors: Index, vectors: Array, gain: float = 0.0) -> Array:
        """Return the vectors C(·, a_n) − gain + Σ_o M[a_n, o] α_{σ(n, o)} of nodes on top of vectors α."""
        chain = self.chain(actions, successors)
        self.work += chain.work
        return self.dynamics.cost[actions] - gain + (chain @ vectors).reshape(len(actions), -1)

    def point_based_iteration(self, beliefs: Array, vectors: Array) -> tuple[Array, Array]:
        """Return the vectors after one round of point-based value iteration, and a belief for each."""
        self.work += WORK.python_call
        action, successor, _ = self.backup(beliefs, vectors)
        first, _ = nodes.distinct_nodes(action, successor)
        new = self.node_vectors(action[first], successor[first], vectors)
        return new - new[0].mean(), beliefs[first]

    def controller_from_vectors(self, beliefs: Array, vectors: Array) -> Controller:
        """Return the controller with these vectors as nodes, and successors by backups at their beliefs."""
        action, successor, _ = self.backup(beliefs, vectors)
        return self.evaluate(*nodes.merge_nodes(action, successor, vectors))

    # -- evaluation -----------------------------------------------------------------------------

    def chain(self, actions: Index, successors: Index) -> Chain:
        """Return the Markov chain over pairs (node, state)."""
        return Chain(self._dense, actions, successors)

    def evaluate(self, actions: Index, successors: Index, guess: Array) -> Controller:
        """Return the controller with its relative values and its bound; the best one so far is kept.

        Parameters
        ----------
        actions, successors
            `[N]` and `[N, O]`.
        guess
            `[N, S]`, values from which to begin.
        """
        d = self.dynamics
        self.work += WORK.python_call
        chain = self.chain(actions, successors)
        step_cost = d.cost[actions].ravel()
        h = np.asarray(guess, dtype=np.float64).ravel() - guess.flat[0]  # a constant only costs digits
        low, high = self._sweeps(chain, h, 60)
        if high - low > self.tolerance:
            # Nodes that cannot be reached from the start may cost more, or make the chain multichain.
            vectors = h.reshape(len(actions), d.n_states)
            used = self._prune(actions, successors, vectors, int((vectors @ d.start).argmin()))
            if len(used[0]) < len(actions):
                return self.evaluate(*used)
        # A controller that cannot be better than the best, whatever its values, is not solved exactly.
        if high - low > self.tolerance and low < self.bound:
            exact = self._solve(chain, step_cost, h)
            if exact is not None:
                change = step_cost + chain @ exact - exact
                exact_high = float(change.max()) + self.restart_value(exact)
                if exact_high < high:
                    h, high = exact, exact_high
            else:
                low, high = self._sweeps(chain, h, 2000)
        vectors = h.reshape(len(actions), d.n_states)
        start = int((vectors @ d.start).argmin())
        bound = high + d.rounding(np.append(h, 0.0))  # 0 counts as a value: h has moved away from it
        found = Controller(actions, successors, vectors, bound, start)
        if bound < self.bound:
            self.best = found
        return found

    def _sweeps(self, chain: Chain, h: Array, most: int) -> tuple[float, float]:
        """Run relative value iteration on h, in place; return the least and the largest of c + T h − h.

        With a discount, both include the value of a start drawn afresh.
        """
        d = self.dynamics
        by_node = h.reshape(-1, d.n_states)  # a view: h is changed
        low, high, done = relative_value_sweeps(
            d.factors, chain.actions, chain.successors, d.cost, by_node, self.parameters.damping,
            self.tolerance, most,
        )  # fmt: skip
        self.work += done * chain.work
        again = self.restart_value(h)
        return float(low) + again, float(high) + again

    def _solve(self, chain: Chain, step_cost: Array, guess: Array) -> Array | None:
        """Return h with gain + h = c + T h, up to a constant, or None where that would take too long.

        Where the gain turns out to be no less than the best bound, h is only roughly right.
        """
        n = len(step_cost)
        enough = np.inf if self.dynamics.restart else self.bound
        try:
            if n <= self.parameters.dense_pairs:
                self.work += n**3 / 3
                return solve_dense(chain.matrix(), step_cost)
            found, spent = solve_gmres(
                chain, step_cost, guess, self.tolerance, self.expired, give_up_above=enough
            )
            self.work += spent + WORK.python_call
            factors_too_large = chain.nnz > 25 * n or n > self.most_factored
            if found is not None or factors_too_large:
                return found
            matrix = chain.matrix()
            found, spent = solve_gmres(
                chain,
                step_cost,
                guess,
                self.tolerance,
                self.expired,
                factored=matrix,
                give_up_above=enough,
            )
            self.work += spent + WORK.python_call
            if found is not None:
                return found
            h, spent = solve_lu(matrix, step_cost)
        except (np.linalg.LinAlgError, RuntimeError):
            return None
        self.work += spent
        return h

    def _prune(
        self, actions: Index, successors: Index, vectors: Array, start: int
    ) -> tuple[Index, Index, Array]:
        """Return only the nodes that can be reached from the node `start`, which comes first.

        With a discount, those reached from the best node of any start are kept too.
        """
        self.work += WORK.python_call
        d = self.dynamics
        if d.restart and len(d.starts) > 1:
            firsts = np.unique(np.append((d.starts @ vectors.T).argmin(axis=1), start))
            seen = np.zeros(len(actions), np.bool_)
            for first in firsts:
                if not seen[first]:
                    seen[nodes.reachable_nodes(self._possible, actions, successors, first)[0]] = True
            order = np.concatenate([[start], np.setdiff1d(np.flatnonzero(seen), [start])])
            number = np.zeros(len(actions), np.int64)  # impossible observations may lead to dropped nodes
            number[order] = np.arange(len(order))
            return actions[order], number[successors[order]], vectors[order]
        order, renumbered = nodes.reachable_nodes(self._possible, actions, successors, start)
        return actions[order], renumbered, vectors[order]
