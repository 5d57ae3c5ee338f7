"""The upper bound from the model's start: controllers with a gain for every node and state.

Any g, h on the pairs (node, state) with g ≥ P g and g + h ≥ c + P h prove that the controller, run from node
n at belief b, costs at most g_n·b on average (`bounds`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from scipy.spatial import cKDTree

from ..._utils.arrays import Array, Index
from ..dynamics import Dynamics
from ..lower.grid import Grid
from ..markov.chains import Chain
from ..markov.gains import end_components, gain_and_bias, max_transient_steps, rounding_margin
from ..parameters import WORK, PlannerParameters
from ..upper.controllers import ControllerSearch
from ..upper.evaluation import Controller


class GainControllers:
    """The best controller from the model's start, and ways to find a better one."""

    def __init__(
        self, dynamics: Dynamics, expired: Callable[[], bool], parameters: PlannerParameters
    ) -> None:
        self.dynamics = dynamics
        self.expired = expired
        self.parameters = parameters.multichain
        self.search = ControllerSearch(dynamics, expired, parameters.controllers)
        self.best: Controller | None = None
        self.spent = 0.0  # work beside that of the search

    def evaluate(self, actions: Index, successors: Index) -> Controller | None:
        """Return the controller with its gains, or None if they cannot be computed; keep the best one."""
        d = self.dynamics
        if len(actions) * d.n_states > self.parameters.max_pairs:
            return None
        chain = Chain(d, actions, successors).matrix()
        chain.sum_duplicates()
        cost = d.cost[actions].ravel()
        self.spent += 200.0 * chain.nnz + 20 * WORK.python_call
        try:
            gain, bias = gain_and_bias(chain, cost)
        except (RuntimeError, np.linalg.LinAlgError):
            return None
        if not (np.isfinite(gain).all() and np.isfinite(bias).all()):
            return None
        label, inside = end_components(chain, 1)
        most = np.full(int(label.max()) + 1, -np.inf)
        np.maximum.at(most, label, gain)
        gain = most[label]
        steps = max_transient_steps(chain, label, inside)
        if steps is None:
            return None
        above = gain - gain.min()
        violation = (chain @ above - above)[~inside]
        error = 2 * rounding_margin(d, gain, 0.0)
        gain = gain + (max(0.0, float(violation.max(initial=0.0))) + error) * steps
        excess = float((cost + chain @ bias - bias - gain).max())
        gains = (gain + max(0.0, excess) + d.rounding(bias)).reshape(len(actions), d.n_states)
        from_start = d.starts @ gains.T  # [K, N]
        bound = float(d.start_weights @ from_start.min(axis=1)) + d.slack * float(np.ptp(gains))
        start = int((d.start_weights @ from_start).argmin())
        found = Controller(actions, successors, bias.reshape(gains.shape), bound, start, gains)
        if self.best is None or bound < self.best.bound:
            self.best = found
        return found

    def try_grid_policy(self, grid: Grid, policy: Index) -> None:
        """Evaluate and improve the grid's policy as a controller, by the heaviest and nearest points."""
        n = grid.n
        rows, beliefs = np.arange(n), grid.beliefs
        same = grid.dynamics is self.dynamics
        after = grid.tau[rows, policy] if same else self.search.next_beliefs(beliefs, policy)
        _, near = cKDTree(beliefs).query(after.reshape(-1, self.dynamics.n_states))
        ways = [near.reshape(n, -1).astype(np.int64)]
        if same:
            heaviest = grid.weights[rows, policy].argmax(axis=-1)
            heavy = np.take_along_axis(grid.basis[rows, policy], heaviest[..., None], axis=-1)[..., 0]
            ways.insert(0, heavy.astype(np.int64))
        for successors in ways:
            found = self.evaluate(policy.copy(), successors)
            for _ in range(8):
                if found is None or self.expired():
                    break
                assert found.gains is not None
                before = found.bound
                vectors = found.vectors + 1e4 * found.gains
                actions, improved, _ = self.search.backup(beliefs, vectors)
                found = self.evaluate(actions, improved) if len(found) == n else None
                if found is None or found.bound > before - 1e-12:
                    break

    def look_ahead(
        self, beliefs: Array, classes: Iterable[tuple[Index, Index]], gap: Callable[[], float]
    ) -> None:
        """Add nodes that find out the closed class first: backups of gains on top of what is best inside.

        A node that observes once more and then continues in others has the gain Σ M[a, o] g_σ(o); what it
        costs until then does not count.

        Parameters
        ----------
        beliefs
            `[n, S]`, at which gains are backed up.
        classes
            Actions and successors of a controller for each closed class.
        gap
            The present gap, which says how much a backup has to gain.
        """
        if self.best is None:
            return
        actions, successors = self.best.actions, self.best.successors
        for inside, onward in classes:
            successors = np.concatenate([successors, onward + len(actions)])
            actions = np.concatenate([actions, inside])
        library = self.evaluate(actions, successors)
        if library is None:
            return
        assert library.gains is not None
        gains = library.gains
        value = (beliefs @ gains.T).min(axis=1)
        least = max(1e-12, 0.02 * gap())
        for _ in range(self.parameters.max_lookahead):
            if self.expired() or len(gains) > self.parameters.max_nodes:
                break
            action, successor, new = self._back_up_gains(beliefs, gains)
            lower = np.flatnonzero(new < value - least)
            if not len(lower):
                break
            value[lower] = new[lower]
            _, first = np.unique(
                np.column_stack([action[lower], successor[lower]]), axis=0, return_index=True
            )
            chosen = lower[first]
            fresh = sum(
                np.einsum("nst,nt->ns", self.dynamics.joint[action[chosen], o], gains[successor[chosen, o]])
                for o in range(self.dynamics.n_observations)
            )
            actions = np.concatenate([actions, action[chosen]])
            successors = np.concatenate([successors, successor[chosen]])
            gains = np.concatenate([gains, fresh])
        used = _reachable_nodes(successors, (self.dynamics.starts @ gains.T).argmin(axis=1))
        number = np.zeros(len(actions), np.int64)
        number[used] = np.arange(len(used))
        self.evaluate(actions[used], number[successors[used]])

    def _back_up_gains(self, beliefs: Array, gains: Array) -> tuple[Index, Index, Array]:
        """Return min_a Σ_o min_n (b M[a, o])·g_n at each belief: the action, the nodes n, and the value."""
        d = self.dynamics
        best = np.full(len(beliefs), np.inf)
        action = np.zeros(len(beliefs), np.int64)
        successor = np.zeros((len(beliefs), d.n_observations), np.int64)
        for a in range(d.n_actions):
            scores = np.stack([(beliefs @ d.joint[a, o]) @ gains.T for o in range(d.n_observations)], axis=1)
            total = scores.min(axis=2).sum(axis=1)
            better = total < best - 1e-14
            best[better], action[better] = total[better], a
            successor[better] = scores[better].argmin(axis=2)
        self.spent += 2.0 * beliefs.shape[0] * d.joint[:, :, 0].size * (d.n_states + len(gains))
        return action, successor, best


def _reachable_nodes(successors: Index, starts: Index) -> Index:
    """Return the nodes that can be reached from the nodes `starts`, in ascending order."""
    seen = np.zeros(len(successors), np.bool_)
    frontier = np.unique(starts)
    while len(frontier):
        seen[frontier] = True
        frontier = np.unique(successors[frontier])
        frontier = frontier[~seen[frontier]]
    return np.flatnonzero(seen)
