"""Bounds where the optimal average depends on the start: a gain beside every relative value.

Lower side, on a grid of beliefs: any g, h with, **for every point i and action a**,

    g_i ≤ Σ P(o | g_i, a) γ_j g_j   and   g_i + h_i ≤ c(g_i, a) + Σ P(o | g_i, a) γ_j h_j.

Then the optimal k-step cost is at least k·g_i + h_i − const at every point (induction; it is concave), so the
average from b = Σ γ_j g_j is at least Σ γ_j g_j. Upper side, on the pairs (node, state) of a controller: any
g, h with g ≥ P g and g + h ≥ c + P h; run from node n at belief b it costs at most g_n·b.

The second inequality of each may fail by an e, for which all gains are moved by e. The first may not: an
error e in it would cost e·k after k steps. It is proved without arithmetic where every belief that follows
has a gain at least as good (inside an end component all gains are equal), and with a margin for rounding
elsewhere: g is moved by ε·t, with t the longest way out, t_i ≥ 1 + P_a t, which gives every step outside of
the components a margin of ε. Beliefs count as made up by points within 1e-14: exact but for rounding.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from ..._utils.arrays import Array, Index
from ..bound_pair import Bracket, Round
from ..dynamics import Dynamics
from ..interpolation.programs import TO_THE_END
from ..limits import LimitReached
from ..lower.grid import _NEAR, CALL, Grid, LowerCertificate, never
from ..lower.supports import supports
from ..upper.chains import Chain
from ..upper.controllers import Controller, ControllerSearch
from .closed_classes import rooms
from .gains import end_components, gain_and_bias, longest_ways, margin, optimal

INEXACT = 1e-14  # how far a belief may be from what makes it up
_STEEP = tuple(10.0**k for k in range(9))  # multiples of g to try adding to h
_PREFERENCE = 100.0  # of gains over relative values, in choosing interpolations
_BENDS = (1e-2, 1e-5, 1e-8)  # how much a far point has to be worth more than a near one
_GROWTH = 0.4
_AT_ONCE = 2e6  # interpolation weights that are made into probabilities at a time
_MOST_NODES = 1500
_MOST_PAIRS = 60_000  # of a node and a state: more would take long to solve for exactly
_DEPTH = 200  # readings to look ahead, at most
_DISCOUNT, _STEPS = 0.98, 200


class StartBracket:
    """Both bounds on the average from the model's start, and the next step."""

    def __init__(
        self,
        dynamics: Dynamics,
        most_points: int,
        known: Bracket | None = None,
        expired: Callable[[], bool] = never,
    ) -> None:
        self.dynamics = dynamics
        self.known = known  # bounds from any start, which hold from this one too
        self.rounds: list[Round] = []
        self._begun = time.perf_counter()
        self.expired = expired
        self.grid = Grid(dynamics, max(most_points, dynamics.n_states + len(dynamics.starts)), expired)
        self.search = ControllerSearch(dynamics, expired)
        self.certificate: LowerCertificate | None = None
        self.controller: Controller | None = None
        self._spent = 0.0
        self._objective(np.zeros(self.grid.n), 1.0)
        self._add(dynamics.starts, np.full((len(dynamics.starts), 3), -1))
        self._rooms = rooms(dynamics, most_points // 4, expired)
        for a in range(dynamics.n_actions):
            self._try(np.array([a]), np.zeros((1, dynamics.n_observations), np.int64))
        own = self.controller
        self.blind = 1.0 if own is None else min(1.0, own.bound)  # of the best constant action
        if known is not None and known.search.best is not None:
            self._try(known.search.best.actions, known.search.best.successors)

    @property
    def lower(self) -> float:
        own = 0.0 if self.certificate is None else self.certificate.bound
        return max(0.0, own, 0.0 if self.known is None else self.known.lower)

    @property
    def upper(self) -> float:
        own = 1.0 if self.known is None else self.known.upper
        if self.controller is not None:
            own = min(own, self.controller.bound)
        if self.lower > own + 1e-9:
            raise ArithmeticError(f"the bounds contradict each other: {self.lower} > {own}")
        return max(self.lower, own)

    @property
    def gap(self) -> float:
        return self.upper - self.lower

    @property
    def work(self) -> float:
        inside = sum(room.work for room in self._rooms)
        return self.grid.work + self.search.work + self._spent + inside

    def round(self, tolerance: float, thorough: bool = False) -> None:
        """Solve and interpolate anew in turns; then controllers. There is nothing more `thorough`.

        Where time is up in between, the bounds stay what they were."""
        with suppress(LimitReached):
            self._round(tolerance)
        self.rounds.append(
            Round(
                self.lower,
                self.upper,
                self.grid.n,
                0 if self.controller is None else len(self.controller),
                self.work,
                time.perf_counter() - self._begun,
            )
        )

    def _round(self, tolerance: float) -> None:
        for room in self._rooms:
            room.close(max(0.25 * tolerance, 0.1 * self.gap))
            self._add(*room.points())
        for bend in _BENDS:
            self._solve()
            if self.gap <= tolerance or self.expired():
                break
            self._objective(self.bias + _PREFERENCE * self.gain, bend)
            self._reweigh()
        self._solve()
        if self.gap > tolerance:
            self._controllers()

    def improve_upper(self, tolerance: float) -> bool:
        """Controllers without new points: every round has tried all that there are."""
        return False

    # -- the lower side -------------------------------------------------------------------------

    def _objective(self, values: Array, bend: float) -> None:
        """What interpolations maximise: the values, bent down so that near points win ties."""
        grid = self.grid
        grid.h[: grid.n] = values - bend * (grid.points[:, : grid.n] ** 2).sum(axis=0)

    def _reweigh(self) -> None:
        grid = self.grid
        grid.reweigh(grid.h, np.inf, np.ones(grid.n, np.bool_), TO_THE_END)

    def _solve(self) -> None:
        """Gains and biases for the present interpolations, and what they prove."""
        grid, n = self.grid, self.grid.n
        self.moves, residual = self._moves()
        cost = grid.cost[:n]
        self.gain, self.bias, self.policy = optimal(self.moves, cost, grid.policy[:n])
        grid.policy[:n] = self.policy
        self._spent += 200.0 * self.moves.nnz + 20 * CALL
        found = self._proved(residual) if residual <= INEXACT else None
        if found is not None and (self.certificate is None or found.bound > self.certificate.bound):
            self.certificate = found

    def _moves(self) -> tuple[csr_array, float]:
        """P_a between points for one action after another, [A·n, n], and how inexact the beliefs are."""
        grid, n = self.grid, self.grid.n
        at_once = max(1, int(_AT_ONCE / grid.weights[0].size))
        parts, residual = [], 0.0
        for k in range(0, n, at_once):
            if self.expired():
                raise LimitReached("time limit")
            part, inexact = self._moves_of(slice(k, min(k + at_once, n)))
            parts.append(part)
            residual = max(residual, inexact)
        rows, columns, chances = (np.concatenate(each) for each in zip(*parts, strict=True))
        self._spent += 10.0 * grid.weights[:n].size
        return csr_array((chances, (rows, columns)), shape=(self.dynamics.n_actions * n, n)), residual

    def _moves_of(self, some: slice) -> tuple[tuple[Index, Index, Array], float]:
        """The entries of the rows of these points: row, column, probability; and how inexact they are."""
        grid = self.grid
        reach, basis, weights = grid.reach[some], grid.basis[some], grid.weights[some]
        kept, rest = np.empty(weights.shape), np.empty(weights.shape)
        residual = supports(grid.points, len(reach), reach, grid.tau[some], basis, weights, kept, rest)
        chance = reach / reach.sum(axis=2, keepdims=True)
        weight = chance[..., None] * np.concatenate([kept, rest], axis=-1)
        i, a, o, k = np.nonzero(weight)
        n_states = weights.shape[-1]
        column = np.where(k < n_states, basis[i, a, o, np.minimum(k, n_states - 1)], k - n_states)
        return (a * grid.n + i + some.start, column, weight[i, a, o, k]), float(residual)

    def _proved(self, residual: float) -> LowerCertificate | None:
        """The certificate that the present gains and biases make, with its inequalities satisfied."""
        grid, n, d = self.grid, self.grid.n, self.dynamics
        n_actions = d.n_actions
        label, inside = end_components(self.moves, n_actions)
        least = np.full(int(label.max()) + 1, np.inf)
        np.minimum.at(least, label, self.gain)
        gain = least[label]
        ways = longest_ways(self.moves, label, inside)
        if ways is None:
            return None
        above = gain - gain.min()
        short = (np.tile(above, n_actions) - self.moves @ above)[~inside]
        gain = gain - (max(0.0, float(short.max(initial=0.0))) + 2 * margin(d, gain, residual)) * ways
        cost = grid.cost[:n].T.ravel()
        best, best_gain, best_values = -np.inf, gain, self.bias
        for steep in (0.0, *_STEEP):
            values = self.bias + steep * gain
            excess = float((np.tile(gain + values, n_actions) - cost - self.moves @ values).max())
            size = float(np.abs(values - values[0]).max())
            moved = gain - max(0.0, excess) - d.rounding(values) - 2 * size * residual
            bound = self._at_start(moved)
            if bound > best:
                best, best_gain, best_values = bound, moved, values
        self._spent += 20.0 * self.moves.nnz
        return LowerCertificate(
            best,
            grid.beliefs,
            best_values,
            grid.basis[:n].copy(),
            grid.weights[:n].copy(),
            grid.parents[:n].copy(),
            best_gain,
        )

    def _at_start(self, gain: Array) -> float:
        return float(self.dynamics.start_weights @ gain[self._starts])

    # -- the upper side -------------------------------------------------------------------------

    def _controllers(self) -> None:
        """The grid's policy as a controller, by the heaviest and by the nearest point, and improvements."""
        grid, n = self.grid, self.grid.n
        rows, beliefs = np.arange(n), self.grid.beliefs
        heaviest = grid.weights[rows, self.policy].argmax(axis=-1)
        onward = np.take_along_axis(grid.basis[rows, self.policy], heaviest[..., None], axis=-1)[..., 0]
        _, near = cKDTree(beliefs).query(grid.tau[rows, self.policy].reshape(-1, self.dynamics.n_states))
        for successors in (onward.astype(np.int64), near.reshape(n, -1).astype(np.int64)):
            found = self._try(self.policy.copy(), successors)
            for _ in range(8):
                if found is None or self.expired():
                    break
                assert found.gains is not None
                before = found.bound
                steep = found.vectors + 1e4 * found.gains
                actions, onwards, _ = self.search.backup(beliefs, steep)
                found = self._try(actions, onwards) if len(found) == n else None
                if found is None or found.bound > before - 1e-12:
                    break
        self._look_ahead()

    def _look_ahead(self) -> None:
        """Nodes that tell the rooms apart first: backups of gains on top of what is best inside.

        A node that reads on and then falls into others has the gain Σ M[a, o] g_σ(o); what it pays on the way
        does not count.
        """
        if self.controller is None:
            return
        actions, successors = self.controller.actions, self.controller.successors
        for room in self._rooms:
            inside, onward = room.nodes()
            successors = np.concatenate([successors, onward + len(actions)])
            actions = np.concatenate([actions, inside])
        library = self._try(actions, successors)
        if library is None:
            return
        assert library.gains is not None
        gains, beliefs = library.gains, self.grid.beliefs
        value = (beliefs @ gains.T).min(axis=1)
        least = max(1e-12, 0.02 * self.gap)
        for _ in range(_DEPTH):
            if self.expired() or len(gains) > _MOST_NODES:
                break
            action, successor, new = self._gain_backup(beliefs, gains)
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
        # only what the start can reach
        used = _reached(successors, (self.dynamics.starts @ gains.T).argmin(axis=1))
        number = np.zeros(len(actions), np.int64)
        number[used] = np.arange(len(used))
        self._try(actions[used], number[successors[used]])

    def _gain_backup(self, beliefs: Array, gains: Array) -> tuple[Index, Index, Array]:
        """min_a Σ_o min_n (b M[a, o])·g_n at each belief: the action, the nodes to go on with, the value."""
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
        self._spent += 2.0 * beliefs.shape[0] * d.joint[:, :, 0].size * (d.n_states + len(gains))
        return action, successor, best

    def _try(self, actions: Index, successors: Index) -> Controller | None:
        """A controller with its gains from every node and state; kept where it is the best."""
        d = self.dynamics
        if len(actions) * d.n_states > _MOST_PAIRS:
            return None
        chain = Chain(d, actions, successors).matrix()
        chain.sum_duplicates()
        cost = d.cost[actions].ravel()
        self._spent += 200.0 * chain.nnz + 20 * CALL
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
        ways = longest_ways(chain, label, inside)
        if ways is None:
            return None
        above = gain - gain.min()
        short = (chain @ above - above)[~inside]
        gain = gain + (max(0.0, float(short.max(initial=0.0))) + 2 * margin(d, gain, 0.0)) * ways
        excess = float((cost + chain @ bias - bias - gain).max())
        gains = (gain + max(0.0, excess) + d.rounding(bias)).reshape(len(actions), d.n_states)
        from_start = d.starts @ gains.T  # [K, N]
        bound = float(d.start_weights @ from_start.min(axis=1))
        start = int((d.start_weights @ from_start).argmin())
        found = Controller(actions, successors, bias.reshape(gains.shape), bound, start, gains)
        if self.controller is None or bound < self.controller.bound:
            self.controller = found
        return found

    # -- refinement -----------------------------------------------------------------------------

    def refine(self) -> int:
        """Add the beliefs that the policy reaches from the start and that lie far from points; how many."""
        grid, n = self.grid, self.grid.n
        rows = np.arange(n)
        forward = self.moves[self.policy * n + rows].T.tocsr()
        mass = np.zeros(n)
        np.add.at(mass, self._starts, self.dynamics.start_weights)
        visited = mass.copy()
        for step in range(_STEPS):
            mass = forward @ mass
            visited += _DISCOUNT**step * mass
        self._spent += 2.0 * _STEPS * forward.nnz
        chance = grid.reach[rows, self.policy] * visited[:, None]
        point, reading = np.nonzero(chance > 1e-15)
        beliefs = grid.tau[point, self.policy[point], reading]
        _, first, inverse = np.unique(beliefs.round(9), axis=0, return_index=True, return_inverse=True)
        flow = np.bincount(inverse.ravel(), chance[point, reading])
        distance, _ = cKDTree(grid.beliefs).query(beliefs[first])
        promise = np.where(distance > 2 * _NEAR, flow * np.minimum(distance, 1e-2), 0.0)
        chosen = np.argsort(-promise, kind="stable")[: max(8, int(_GROWTH * n))]
        chosen = first[chosen[promise[chosen] > 0.0]]
        whence = np.column_stack([point, self.policy[point], reading])[chosen]
        return self._add(beliefs[chosen], whence)

    def _add(self, beliefs: Array, parents: Index) -> int:
        """Points at these beliefs where there are none, each worth a little more than by its neighbours."""
        grid = self.grid
        distance, _ = cKDTree(grid.beliefs).query(beliefs)
        new = np.flatnonzero(distance > _NEAR)
        _, first = np.unique(beliefs[new].round(9), axis=0, return_index=True)
        if self.expired() and len(new):
            raise LimitReached("time limit")
        new = new[np.sort(first)][: grid.most_points - grid.n]
        if len(new):
            grid._append(beliefs[new], grid.interpolated(beliefs[new]) + 1e-3, parents[new])
        _, self._starts = cKDTree(grid.beliefs).query(self.dynamics.starts)
        return len(new)


def _reached(successors: Index, starts: Index) -> Index:
    seen = np.zeros(len(successors), np.bool_)
    frontier = np.unique(starts)
    while len(frontier):
        seen[frontier] = True
        frontier = np.unique(successors[frontier])
        frontier = frontier[~seen[frontier]]
    return np.flatnonzero(seen)
