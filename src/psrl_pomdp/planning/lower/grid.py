"""The lower bound: an average-cost problem on finitely many beliefs, with interpolation between them.

For points g_1..g_n of the simplex, its vertices among them, and *any* numbers h_1..h_n,

    lower = min_i [ min_a { c(g_i, a) + Σ_o P(o | g_i, a) h̃(τ(g_i, a, o)) } − h_i ]  ≤  J,

where h̃ interpolates h (`interpolation`). Proof: the optimal k-step costs V_k are concave, so that
V_k ≥ h̃ + k·lower at all beliefs follows by induction from its truth at the points (Yu and Bertsekas 2004).
The bound needs no iteration to have converged; solving for h, and refining where it pays, only makes it
tight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import csr_array

from ..._utils.arrays import Array, Bases, Index, Mask
from ..dynamics import BeliefDynamics, Dynamics
from ..interpolation.programs import BY_THE_WAY, FACE, TO_THE_END
from ..limits import LimitReached
from . import grid_steps as steps
from .relative_values import by_factors, by_krylov, densely

SLACK = 1e-12  # for rounding in a certificate, beside what grows with the size of h
CALL = 2e5  # the work that a call from Python to a step stands for, beside the operations that it counts
_DAMPING = 0.95
SNAP = 1e-8  # the least of a point's coordinates: nearly parallel columns ruin a basis
_SHARPER = 0.1  # coordinates of next beliefs that are left to the vertices, as a share of those of points
_NEAR = 1e-8  # points nearer than this to one another are the same
_BEND = 1e-8  # how much a far point has to be worth more than a near one
_LARGEST = 1e7  # relative values beyond this are those of a policy with several recurrent classes
_NOT_LITTLE = 400_000  # entries of M from which no step on them is taken when time is up
_PIECE = 1e8  # numbers that are priced at a time, without asking whether time is up
_RESTART = 1e-9  # keeps Howard's equations solvable where a policy has several recurrent classes


def never() -> bool:
    return False


@dataclass(frozen=True)
class LowerCertificate:
    """What proves the lower bound: points, values, and the interpolation of every next belief."""

    bound: float
    points: Array  # [n, S], the vertices first
    values: Array  # [n]: h
    basis: Bases  # [n, A, O, S]
    weights: Array  # [n, A, O, S]
    parents: Index  # [n, 3]: the point, action and reading that led to each point, or -1
    gains: Array | None = None  # [n]: g, where what is proved depends on the start (`multichain`)

    def __len__(self) -> int:
        return len(self.values)

    def at(self, belief: Array) -> float:
        """What is proved for runs from this belief."""
        return self.bound if self.gains is None else _interpolated(self.points, self.gains, belief)

    @property
    def span(self) -> float:
        """Of the function that proves the bound."""
        return float(np.ptp(self.values))

    def rounding(self, dynamics: BeliefDynamics) -> float:
        """What the bound pays for rounding."""
        return dynamics.rounding(self.values)


def _interpolated(points: Array, gains: Array, belief: Array) -> float:
    """The most that a convex combination of points proves at a belief, paid down for rounding."""
    result = linprog(-gains, A_eq=points.T, b_eq=belief, bounds=(0.0, None), method="highs")
    if result.x is None:  # numbers that no solver copes with: the vertices make up every belief
        return float(gains[: len(belief)] @ belief)
    weights = np.maximum(result.x, 0.0)
    off = float(np.abs(weights @ points - belief).sum())
    return float(weights @ gains) - off * (1.0 + float(np.abs(gains).max()))


@dataclass(frozen=True)
class Candidates:
    """Beliefs that may become points.

    Where little coordinates were left out of a belief, what is said of it is of the whole one: nearly right.
    """

    beliefs: Array  # [n, S]
    inner: Array  # [n]: h̃ there
    whence: Index  # [n, 3]: the point, action and reading that lead there, or -1
    own: Bases  # [n, S]: points that make up each belief, or -1
    bases: Bases  # [n, A, O, S]: interpolations of what follows, where known, or -1

    def __getitem__(self, chosen: slice | Index) -> Candidates:
        return Candidates(
            self.beliefs[chosen],
            self.inner[chosen],
            self.whence[chosen],
            self.own[chosen],
            self.bases[chosen],
        )

    def __add__(self, other: Candidates) -> Candidates:
        return Candidates(
            np.concatenate([self.beliefs, other.beliefs]),
            np.concatenate([self.inner, other.inner]),
            np.concatenate([self.whence, other.whence]),
            np.concatenate([self.own, other.own]),
            np.concatenate([self.bases, other.bases]),
        )


class Grid:
    """Points, values and interpolations; grows by refinement."""

    def __init__(self, dynamics: Dynamics, most_points: int, expired: Callable[[], bool] = never) -> None:
        self.dynamics = dynamics
        self.most_points = max(most_points, dynamics.n_states)
        self.n = 0
        self.work = 0.0
        self.snap = SNAP  # smaller coordinates of a new point become zero, at least
        self.overlooked = np.empty(0, np.int64)  # points at next beliefs that are made up from others
        self.expired = expired  # asked between steps: no more time
        self.best_certificate: LowerCertificate | None = None
        self._allocate(min(64 + dynamics.n_states, self.most_points))
        self.h[: dynamics.n_states] = _mdp_values(dynamics)
        nobody = np.full((dynamics.n_states, 3), -1)
        self._append(np.eye(dynamics.n_states), self.h[: dynamics.n_states].copy(), nobody)

    # -- the arrays -----------------------------------------------------------------------------

    def _allocate(self, capacity: int) -> None:
        d = self.dynamics
        shape = (capacity, d.n_actions, d.n_observations)
        fresh: dict[str, npt.NDArray[Any]] = {
            "points": np.zeros((d.n_states, capacity)),
            "reach": np.zeros(shape),
            "tau": np.zeros((*shape, d.n_states)),
            "basis": np.zeros((*shape, d.n_states), np.int32),
            "weights": np.zeros((*shape, d.n_states)),
            "cost": np.zeros(shape[:2]),
            "q": np.zeros(shape[:2]),
            "h": np.zeros(capacity),
            "best": np.zeros(capacity),
            "mass": np.zeros(capacity),
            "policy": np.zeros(capacity, np.int64),
            "parents": np.full((capacity, 3), -1),
        }
        for name, array in fresh.items():
            if self.n:
                old = getattr(self, name)
                if name == "points":
                    array[:, : self.n] = old[:, : self.n]
                else:
                    array[: self.n] = old[: self.n]
            setattr(self, name, array)

    points: Array
    reach: Array
    tau: Array
    basis: Bases
    weights: Array
    cost: Array
    q: Array
    h: Array
    best: Array
    mass: Array
    policy: Index
    parents: Index

    @property
    def beliefs(self) -> Array:
        """[n, S]: the points."""
        return np.ascontiguousarray(self.points[:, : self.n].T)

    @property
    def bound(self) -> float:
        """The best that was proved so far."""
        return -np.inf if self.best_certificate is None else self.best_certificate.bound

    @property
    def face(self) -> float:
        """Smaller coordinates of a next belief are left to the vertices."""
        return _SHARPER * self.snap if self.snap > SNAP else FACE

    @property
    def full(self) -> bool:
        return self.n >= self.most_points

    def _append(
        self,
        beliefs: Array,
        values: Array,
        parents: Index,
        known: Bases | None = None,
        own: Bases | None = None,
    ) -> None:
        """Points with their values and interpolations, from bases that are known."""
        first = self._place(beliefs, values, parents)
        if known is None:
            known = np.full((len(beliefs), *self.basis.shape[1:]), -1, np.int32)
        self._weigh_new(first, known, own)
        self._bellman()

    def _weigh_new(self, first: int, known: Bases, own: Bases | None = None) -> None:
        """Interpolations for the points from `first` on; the plainest where time is up."""
        if own is None:
            own = np.full((len(known), self.dynamics.n_states), -1, np.int32)
        for k in range(first, self.n, self._at_once):
            last = min(k + self._at_once, self.n)
            if self.expired():
                steps.weigh_by_vertices(
                    k, self.n, self.h, self.reach, self.tau, self.basis, self.weights, self.cost
                )
                break
            self.work += steps.weigh_new(
                self.points, self.h, k, last, self.n, self.reach, self.tau, self.basis, self.weights,
                self.cost, known[k - first : last - first], own[k - first : last - first], self.face,
            )  # fmt: skip

    @property
    def _at_once(self) -> int:
        """Points to interpolate from without asking whether time is up."""
        return max(1, int(_PIECE / (self.weights[0].size * self.n)))

    def _place(self, beliefs: Array, values: Array, parents: Index) -> int:
        """Points with their values; the number of the first."""
        first, n = self.n, self.n + len(beliefs)
        if n > self.h.shape[0]:
            self._allocate(min(max(2 * self.h.shape[0], n), self.most_points))
        d = self.dynamics
        self.points[:, first:n] = beliefs.T
        self.h[first:n] = values
        self.mass[first:n] = 0.0
        self.parents[first:n] = parents
        self.n = n
        at_once = max(1, int(_PIECE / d.joint.size))
        for k in range(first, n, at_once):
            last = min(k + at_once, n)
            steps.geometry(d.joint, d.cost, self.points, k, last, self.reach, self.tau, self.cost)
            if self.expired() and d.joint.size > _NOT_LITTLE:
                self.n = first
                raise LimitReached("time limit")
        self.work += len(beliefs) * d.joint.size
        return first

    def add(self, found: Candidates) -> int:
        """New points at these beliefs, which are `snapped`, as many as there is room for; how many."""
        found = found[: self.most_points - self.n]
        if not len(found.beliefs) or self.expired():
            return 0
        first = self.n
        self._append(found.beliefs, found.inner, found.whence, found.bases, found.own)
        lifted = self.best[first : self.n] - self.bound
        self.h[first : self.n] = np.maximum(self.h[first : self.n], lifted)
        return self.n - first

    def interpolated(self, beliefs: Array) -> Array:
        """h̃ at these beliefs."""
        values, spent = steps.interpolated(
            self.points, self.h, self.n, np.ascontiguousarray(beliefs), self.face
        )
        self.work += spent
        return np.asarray(values)

    # -- solving --------------------------------------------------------------------------------

    def _bellman(self) -> tuple[float, float]:
        self.work += self.weights[: self.n].size + 0.1 * CALL
        low, high = steps.bellman(
            self.n, self.reach, self.basis, self.weights, self.cost, self.h, self.q, self.best, self.policy
        )
        return float(low), float(high)

    def solve(self, tolerance: float) -> float:
        """Values h for the present interpolations, until best − h is constant to `tolerance`; its least."""
        low, high = self._bellman()
        kept, kept_low = self.h[: self.n].copy(), low
        for _ in range(6):
            if high - low < tolerance:
                return low
            gain = 0.5 * (low + high)
            steps.damped_sweeps(
                self.n,
                self.reach,
                self.basis,
                self.weights,
                self.cost,
                self.h,
                self.policy,
                gain,
                _DAMPING,
                8,
            )
            self.work += 8 * self.weights[: self.n, 0].size
            low, high = self._bellman()
        return self._howard(tolerance, low, high, kept, kept_low)

    def _howard(self, tolerance: float, low: float, high: float, kept: Array, kept_low: float) -> float:
        """Policy iteration with exact evaluation; back to the values that were kept where it ends lower."""
        for _ in range(25):
            if high - low < tolerance:
                break
            before = self.policy[: self.n].copy()
            self.h[: self.n] = self._policy_values(tolerance)
            low, high = self._bellman()
            if low > kept_low:
                kept, kept_low = self.h[: self.n].copy(), low
            if (before == self.policy[: self.n]).all():
                break
        if kept_low > low:
            self.h[: self.n] = kept
            low, _ = self._bellman()
        return low

    def chain(self) -> csr_array:
        """The transition matrix of the points under the policy."""
        n, rows = self.n, np.arange(self.n)
        weight = self.reach[rows, self.policy[:n]][:, :, None] * self.weights[rows, self.policy[:n]]
        columns = self.basis[rows, self.policy[:n]]
        source = np.repeat(rows, weight[0].size)
        used = weight.ravel() > 0
        return csr_array((weight.ravel()[used], (source[used], columns.ravel()[used])), shape=(n, n))

    def _policy_values(self, tolerance: float) -> Array:
        """h with gain + h = c + T h to `tolerance`; with rare restarts where that has no solution."""
        for restart in (0.0, _RESTART):
            try:
                h = self._solved(restart, tolerance)
            except (np.linalg.LinAlgError, RuntimeError):
                continue
            if np.isfinite(h).all() and np.abs(h).max() < _LARGEST:
                return h
        return self.h[: self.n].copy()

    def _solved(self, restart: float, tolerance: float) -> Array:
        n = self.n
        self.work += 5 * CALL
        chain = csr_array((1 - restart) * self.chain())
        paid = self.cost[np.arange(n), self.policy[:n]]
        if chain.nnz > 0.03 * n * n and n <= 4000:
            self.work += n**3 / 3
            return densely(chain, paid)
        found, spent = by_krylov(chain, paid, self.h[:n], 0.1 * tolerance, self.expired, factored=chain)
        self.work += spent
        if found is not None:
            return found
        h, spent = by_factors(chain, paid)
        self.work += spent
        return h

    def settle(self) -> None:
        """The long-run share of each point under the policy, by damped iteration from the last one."""
        n, n_states = self.n, self.dynamics.n_states
        self.mass[:n_states] += 1e-3 * self.dynamics.start
        self.mass[:n] /= self.mass[:n].sum()
        done = steps.settle(n, self.reach, self.basis, self.weights, self.policy, self.mass, 0.8, 1e-8, 60)
        self.work += done * self.weights[:n, 0].size + 0.1 * CALL

    def tighten(self, tolerance: float, gap: float, everywhere: bool = False) -> None:
        """Solve and interpolate anew in turns, while it raises the bound; then certify.

        Interpolations are renewed at the points that the policy visits, and at those it ought to: old ones
        make a point look cheap, and then nobody visits it; or `everywhere`.
        """
        if self.expired() and self.best_certificate is not None:
            return
        last, raised = -np.inf, np.inf
        worthwhile = 0.03 * max(gap, tolerance)
        for turn in range(60 if everywhere else 15):
            low = self.solve(tolerance)
            self.settle()
            gained = low - last
            if everywhere:
                if raised < SLACK:
                    break
            elif turn > 0 and gained < worthwhile:
                behind = low < self.bound - SLACK  # new points may need a few turns to catch up
                if not behind or (turn >= 3 and gained < worthwhile / 30):
                    break
            if self.expired():
                break
            last = low
            effort = TO_THE_END if everywhere else BY_THE_WAY
            chosen = everywhere | (self.mass[: self.n] > 1e-14)
            chosen[self.overlooked] = True
            raised = self.reweigh(self.h, gap, chosen, effort)
        self.certify()
        if everywhere:
            self._break_ties(gap)

    def reweigh(self, h: Array, gap: float, chosen: Mask, effort: float) -> float:
        """Interpolate anew at the chosen points while there is time; the most that a value rose by."""
        points = np.flatnonzero(chosen)
        at_once = self._at_once
        raised = 0.0
        for k in range(0, len(points), at_once):
            part = np.zeros(self.n, np.bool_)
            part[points[k : k + at_once]] = True
            most, spent = steps.reweigh(
                self.points, h, self.n, self.reach, self.tau, self.basis, self.weights,
                self.q, self.best, max(1e-10, 0.2 * gap), part, effort, self.face,
            )  # fmt: skip
            self.work += spent
            raised = max(raised, most)
            if self.expired():
                break
        self.work += CALL
        return raised

    def _break_ties(self, gap: float) -> None:
        """Interpolations that use near points where far ones are worth the same.

        Where h is linear between points, a next belief that is a point itself may be made up from others, and
        then nobody visits it and asks what follows from there.
        """
        bent = self.h.copy()
        bent[: self.n] -= _BEND * (self.points[:, : self.n] ** 2).sum(axis=0)
        self.reweigh(bent, gap, np.ones(self.n, np.bool_), TO_THE_END)
        self._bellman()
        self.settle()

    def certify(self) -> None:
        """Raise `bound` where the present points and values prove more."""
        self.work += 2.0 * self.weights[: self.n].size * self.dynamics.n_states
        lowest = steps.certified_residual(
            self.points, self.n, self.reach, self.tau, self.basis, self.weights, self.cost, self.h
        )
        n = self.n
        proved = float(lowest) - self.dynamics.rounding(np.append(self.h[:n], 0.0))
        if proved > self.bound:
            self.best_certificate = LowerCertificate(
                proved,
                self.beliefs,
                self.h[:n].copy(),
                self.basis[:n].copy(),
                self.weights[:n].copy(),
                self.parents[:n].copy(),
            )

    def replay(self, earlier: LowerCertificate) -> None:
        """The points of an earlier grid for a nearby kernel, by their genealogy: each is moved to where its
        parent, action and reading lead now, which serves better than the old belief."""
        n_states = self.dynamics.n_states
        moved = earlier.points.copy()
        for i in range(n_states, len(moved)):
            parent, action, reading = earlier.parents[i]
            if parent >= 0:
                # Only on the states of the old point: others may have been left out of it.
                after = moved[parent] @ self.dynamics.joint[action, reading] * (earlier.points[i] > 0.0)
                if after.sum() > 1e-12:
                    moved[i] = after / after.sum()
        first, _ = distinct_beliefs(moved)
        kept = np.sort(first[first >= n_states])
        nobody = np.full((len(kept), 3), -1)
        place = np.full(len(moved), -1)
        place[:n_states], place[kept] = np.arange(n_states), n_states + np.arange(len(kept))
        old = earlier.parents[kept]
        parents = np.where((place[old[:, :1]] >= 0) & (old[:, :1] >= 0), old, nobody)
        parents[:, 0] = np.where(parents[:, 0] >= 0, place[old[:, 0]], -1)
        kept = kept[: self.most_points - self.n]
        self.h[:n_states] = earlier.values[:n_states]
        self._place(snapped(moved[kept], SNAP), earlier.values[kept], parents[: len(kept)])
        # Bases of the earlier grid, where the points they name are still there, are nearly right.
        bases = place[earlier.basis[np.concatenate([np.arange(n_states), kept])]]
        usable = ((bases >= 0) & (bases < self.n)).all(axis=-1, keepdims=True)
        self.basis[: self.n] = np.where(usable, bases, np.arange(n_states))
        self._weigh_new(0, self.basis[: self.n].copy())
        self._bellman()

    # -- refinement -----------------------------------------------------------------------------

    def successors(self, from_all: bool = False) -> tuple[Array, Array, Array, Index, Array]:
        """Beliefs that the policy reaches from visited points, or from all: where, how much mass, h̃ there,
        whence, and the largest weight in its interpolation."""
        mass = np.maximum(self.mass[: self.n], 1e-8 if from_all else 0.0)
        visited = np.flatnonzero(mass > 1e-9)
        action = self.policy[visited]
        chances, beliefs = self.reach[visited, action], self.tau[visited, action]
        weights = self.weights[visited, action]
        inner = (weights * self.h[self.basis[visited, action]]).sum(axis=-1)
        comes = chances > 0
        row, reading = np.nonzero(comes)
        whence = np.column_stack([visited[row], action[row], reading])
        flow = mass[visited][:, None] * chances
        return beliefs[comes], flow[comes], inner[comes], whence, weights.max(axis=-1)[comes]

    def candidates(self, beliefs: Array, inner: Array, whence: Index) -> Candidates:
        i, a, o = whence.T
        own = np.where(self.weights[i, a, o] > 0.0, self.basis[i, a, o], -1)
        bases = np.full((len(beliefs), *self.basis.shape[1:]), -1, np.int32)
        return Candidates(np.ascontiguousarray(beliefs), inner, whence, own, bases)

    @property
    def _arrays(self) -> tuple[Array, Array, Array, Bases, Array]:
        return self.points, self.h, self.q, self.basis, self.weights

    def lift(self, found: Candidates) -> Array:
        """How much a point at each of these beliefs would raise h there, or 0 where time is up; their bases
        are filled in."""
        d = self.dynamics
        gains = np.zeros(len(found.beliefs))
        for k in range(0, len(gains), self._at_once):
            if self.expired():
                break
            part = slice(k, k + self._at_once)
            gains[part], found.bases[part], spent = steps.residuals(
                d.joint, d.cost, self._arrays, self.n, found.beliefs[part], found.whence[part],
                found.inner[part], self.bound, self.face,
            )  # fmt: skip
            self.work += spent
        return gains

    def wander(self, belief: Array, uniforms: Array) -> tuple[Candidates, Array, Array]:
        """Beliefs along a greedy trajectory, what a point would raise there, and where it ended."""
        d = self.dynamics
        met, lifts = [], []
        for k in range(0, len(uniforms), self._at_once):
            visited, gains, inner, own, bases, belief, spent = steps.wander(
                d.joint, d.cost, self._arrays, self.n, belief, uniforms[k : k + self._at_once],
                self.bound, self.face,
            )  # fmt: skip
            self.work += spent
            met.append(Candidates(visited, inner, np.full((len(visited), 3), -1), own, bases))
            lifts.append(gains)
            if self.expired():
                break
        return sum(met[1:], start=met[0]), np.concatenate(lifts), belief


def belief_numbers(beliefs: Array) -> Index:
    """A number for each belief, the same for those that are alike to seven digits; that it is the same for
    different ones is next to impossible."""
    digits = np.round(beliefs * 1e7).astype(np.int64)
    odd = 2 * np.random.default_rng(0).integers(1 << 62, size=beliefs.shape[1]) + 1
    return np.asarray(digits @ odd)


def distinct_beliefs(beliefs: Array) -> tuple[Index, Index]:
    """The first of the beliefs that are alike to seven digits, and which of these each belief is."""
    _, first, inverse = np.unique(belief_numbers(beliefs), return_index=True, return_inverse=True)
    return first, inverse.ravel()


def snapped(beliefs: Array, least: float | Array) -> Array:
    """The beliefs without their coordinates below `least`."""
    inner = np.where(beliefs < least, 0.0, beliefs)
    return np.asarray(inner / inner.sum(axis=1, keepdims=True))


def _mdp_values(dynamics: Dynamics) -> Array:
    """Relative values of the MDP in plain sight: a good start for the vertices."""
    kernel = dynamics.joint.sum(axis=1)  # [A, S, S']
    h = np.zeros(dynamics.n_states)
    for _ in range(3000):
        change = (dynamics.cost + kernel @ h).min(axis=0) - h
        if np.ptp(change) < 1e-9:
            break
        h += 0.9 * (change - change.mean())
        h -= h[0]
    return h
