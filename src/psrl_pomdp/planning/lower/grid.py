"""The grid of the lower bound (`certificate`): it adds points, renews interpolations, and proves the bound.

Solving for the values h (`grid_values`) and renewing interpolations alternate while that raises the bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial import cKDTree

from ..._utils.arrays import Array, Bases, Index, Mask
from ..beliefs import distinct_beliefs, drop_small_coordinates
from ..dynamics import Dynamics
from ..interpolation.programs import FACE_TOLERANCE, UNLIMITED_EFFORT
from ..limits import never_expired
from ..parameters import WORK, GridParameters
from . import grid_steps, interpolation_steps, lookahead_steps
from .candidates import Candidates
from .certificate import SLACK, LowerCertificate
from .grid_values import GridValues


class Grid(GridValues):
    """Grid points with their values and interpolations, and the best lower bound that they have proved."""

    def __init__(
        self,
        dynamics: Dynamics,
        most_points: int,
        expired: Callable[[], bool] = never_expired,
        parameters: GridParameters | None = None,
    ) -> None:
        super().__init__(dynamics, most_points, expired, parameters)
        self.min_coordinate = self.parameters.min_coordinate  # smaller coordinates of new points are dropped
        # Points at next beliefs whose interpolation uses other points.
        self.missed_points = np.empty(0, np.int64)
        self.best_certificate: LowerCertificate | None = None
        n_states = dynamics.n_states
        self.h[:n_states] = _mdp_values(dynamics)
        self.append(np.eye(n_states), self.h[:n_states].copy(), np.full((n_states, 3), -1))
        self._append_starts()

    @property
    def bound(self) -> float:
        """The best lower bound that was proved so far."""
        return -np.inf if self.best_certificate is None else self.best_certificate.bound

    @property
    def gain(self) -> float:
        """The bound without the value of a start drawn afresh: what a step costs beside changes of h."""
        return self.bound - self.restart_value()

    @property
    def face_tolerance(self) -> float:
        """Coordinates of next beliefs below this are interpolated by the vertices alone."""
        if self.min_coordinate > self.parameters.min_coordinate:
            return self.parameters.face_share * self.min_coordinate
        return FACE_TOLERANCE

    def keep_all_coordinates(self) -> bool:
        """Stop dropping small coordinates of new points; return whether any were dropped before."""
        dropped = self.min_coordinate > self.parameters.min_coordinate
        self.min_coordinate = min(self.min_coordinate, self.parameters.min_coordinate)
        return dropped

    # -- points ---------------------------------------------------------------------------------

    def append(
        self,
        beliefs: Array,
        values: Array,
        parents: Index,
        known: Bases | None = None,
        own_basis: Bases | None = None,
    ) -> None:
        """Add points with their values, and interpolate their next beliefs, from bases that are known."""
        first = self._place(beliefs, values, parents)
        if known is None:
            known = np.full((len(beliefs), *self.basis.shape[1:]), -1, np.int32)
        self._interpolate_new(first, known, own_basis)
        self.bellman()

    def _append_starts(self) -> None:
        """Add the starts as points where they are drawn afresh, as far as there is room for them."""
        if not self.dynamics.restart or self.expired():
            return
        n_states, starts = self.dynamics.n_states, self.dynamics.starts
        distance = cKDTree(self.beliefs).query(starts)[0]
        first, _ = distinct_beliefs(starts)
        new = starts[[k for k in np.sort(first) if distance[k] > 10 * self.parameters.point_separation]]
        new = new[: self.most_points - self.n]
        if len(new):
            self.append(new, new @ self.h[:n_states], np.full((len(new), 3), -1))

    def _interpolate_new(self, first: int, known: Bases, own_basis: Bases | None = None) -> None:
        """Interpolate the next beliefs of the points from `first` on; by the vertices where time is up."""
        if own_basis is None:
            own_basis = np.full((len(known), self.dynamics.n_states), -1, np.int32)
        for k in range(first, self.n, self._points_at_once):
            last = min(k + self._points_at_once, self.n)
            if self.expired():
                interpolation_steps.interpolate_by_vertices(
                    k, self.n, self.h, self.obs_prob, self.tau, self.basis, self.weights, self.cost
                )
                break
            self.work += interpolation_steps.interpolate_new_points(
                self.points, self.h, k, last, self.n, self.obs_prob, self.tau, self.basis, self.weights,
                self.cost, known[k - first : last - first], own_basis[k - first : last - first],
                self.face_tolerance,
            )  # fmt: skip

    def add(self, found: Candidates) -> int:
        """Add as many candidates as there is room for, and return how many."""
        found = found[: self.most_points - self.n]
        if not len(found.beliefs) or self.expired():
            return 0
        first = self.n
        self.append(found.beliefs, found.values, found.parents, found.bases, found.own_basis)
        residual = self.best[first : self.n] - self.gain
        self.h[first : self.n] = np.maximum(self.h[first : self.n], residual)
        return self.n - first

    def warm_start(self, earlier: LowerCertificate) -> None:
        """Add the points of an earlier grid for a nearby kernel.

        Each is moved to where its parent, action and observation lead now: a better point than the old
        belief.
        """
        n_states, least = self.dynamics.n_states, self.parameters.min_coordinate
        self.n = n_states  # starts that were added as points come back at the end
        moved = self._moved_points(earlier)
        first, _ = distinct_beliefs(moved)
        old_points = np.sort(first[first >= n_states])
        no_parents = np.full((len(old_points), 3), -1)
        place = np.full(len(moved), -1)
        place[:n_states], place[old_points] = np.arange(n_states), n_states + np.arange(len(old_points))
        old = earlier.parents[old_points]
        parents = np.where((place[old[:, :1]] >= 0) & (old[:, :1] >= 0), old, no_parents)
        parents[:, 0] = np.where(parents[:, 0] >= 0, place[old[:, 0]], -1)
        old_points = old_points[: self.most_points - self.n]
        self.h[:n_states] = earlier.values[:n_states]
        self._place(
            drop_small_coordinates(moved[old_points], least),
            earlier.values[old_points],
            parents[: len(old_points)],
        )
        # Bases of the earlier grid, where the points they name are still there, are nearly right.
        bases = place[earlier.basis[np.concatenate([np.arange(n_states), old_points])]]
        usable = ((bases >= 0) & (bases < self.n)).all(axis=-1, keepdims=True)
        self.basis[: self.n] = np.where(usable, bases, np.arange(n_states))
        self._interpolate_new(0, self.basis[: self.n].copy())
        self._start_weights = None
        self._append_starts()
        self.bellman()

    def _moved_points(self, earlier: LowerCertificate) -> Array:
        """Return the points of an earlier grid, moved to where their parents lead under this kernel."""
        moved = earlier.points.copy()
        for i in range(self.dynamics.n_states, len(moved)):
            parent, action, observation = earlier.parents[i]
            if parent >= 0:
                # Only on the states of the old point: others may have been dropped from it.
                after = moved[parent] @ self.dynamics.joint[action, observation] * (earlier.points[i] > 0.0)
                if after.sum() > 1e-12:
                    moved[i] = after / after.sum()
        return moved

    def interpolated(self, beliefs: Array) -> Array:
        """Return h̃ at these beliefs."""
        values, spent = interpolation_steps.interpolated(
            self.points, self.h, self.n, np.ascontiguousarray(beliefs), self.face_tolerance
        )
        self.work += spent
        return np.asarray(values)

    # -- interpolations -------------------------------------------------------------------------

    def tighten(self, tolerance: float, gap: float, everywhere: bool = False) -> None:
        """Solve for h and renew interpolations in turns, while that raises the bound; then certify.

        Interpolations are renewed at the points that the policy visits and at `missed_points`, or at all
        points with `everywhere`. An old interpolation makes a point look worse than it is, and then the
        policy does not visit it.
        """
        if self.expired() and self.best_certificate is not None:
            return
        p, last, raised = self.parameters, -np.inf, np.inf
        worthwhile = p.min_gain * max(gap, tolerance)
        for turn in range(p.max_thorough_turns if everywhere else p.max_turns):
            low = self.solve(tolerance)
            self.update_stationary_mass()
            gained = low - last
            if everywhere:
                if raised < SLACK:
                    break
            elif turn > 0 and gained < worthwhile:
                behind = low < self.bound - SLACK  # new points may need a few turns to catch up
                if not behind or (turn >= p.patient_turns and gained < worthwhile / p.patience_divisor):
                    break
            if self.expired():
                break
            last = low
            effort = UNLIMITED_EFFORT if everywhere else p.brief_effort
            chosen = everywhere | (self.mass[: self.n] > p.visited_mass)
            chosen[self.missed_points] = True
            raised = self.reinterpolate(self.h, gap, chosen, effort)
        self.certify()
        if everywhere:
            self._break_ties(gap)

    def reinterpolate(self, h: Array, gap: float, chosen: Mask, effort: float) -> float:
        """Renew interpolations at the chosen points while there is time.

        Returns the largest increase of an interpolated value.
        """
        points = np.flatnonzero(chosen)
        at_once = self._points_at_once
        raised = 0.0
        for k in range(0, len(points), at_once):
            part = np.zeros(self.n, np.bool_)
            part[points[k : k + at_once]] = True
            most, spent = interpolation_steps.reinterpolate(
                self.points, h, self.n, self.obs_prob, self.tau, self.basis, self.weights,
                self.q, self.best, max(1e-10, 0.2 * gap), part, effort, self.face_tolerance,
            )  # fmt: skip
            self.work += spent
            raised = max(raised, most)
            if self.expired():
                break
        self.work += WORK.python_call
        return raised

    def _break_ties(self, gap: float) -> None:
        """Renew interpolations such that near points are used where far ones have the same value.

        Where h is linear between points, a next belief that is a point itself may be made up from others. The
        policy then never visits that point.
        """
        bent = self.h.copy()
        preference = self.parameters.near_point_preference
        bent[: self.n] -= preference * (self.points[:, : self.n] ** 2).sum(axis=0)
        self.reinterpolate(bent, gap, np.ones(self.n, np.bool_), UNLIMITED_EFFORT)
        self.bellman()
        self.update_stationary_mass()

    def certify(self) -> None:
        """Make the present points and values the best certificate where they prove a higher bound."""
        self.work += 2.0 * self.weights[: self.n].size * self.dynamics.n_states
        lowest = grid_steps.certified_residual(
            self.points, self.n, self.obs_prob, self.tau, self.basis, self.weights, self.cost, self.h
        )
        n = self.n
        proved = float(lowest) + self.restart_value() - self.dynamics.rounding(np.append(self.h[:n], 0.0))
        if proved > self.bound:
            self.best_certificate = LowerCertificate(
                proved,
                self.beliefs,
                self.h[:n].copy(),
                self.basis[:n].copy(),
                self.weights[:n].copy(),
                self.parents[:n].copy(),
            )

    # -- candidates -----------------------------------------------------------------------------

    def successors(self, from_all: bool = False) -> tuple[Array, Array, Array, Index, Array]:
        """Return the beliefs that the policy reaches from visited points, or from all points.

        Returns
        -------
        tuple
            The beliefs `[m, S]`; the stationary mass that reaches each `[m]`; h̃ at each `[m]`; the point,
            action and observation before it `[m, 3]`; and the largest weight in its interpolation `[m]`.
        """
        mass = np.maximum(self.mass[: self.n], 1e-8 if from_all else 0.0)
        visited = np.flatnonzero(mass > 1e-9)
        action = self.policy[visited]
        probabilities, beliefs = self.obs_prob[visited, action], self.tau[visited, action]
        weights = self.weights[visited, action]
        values = (weights * self.h[self.basis[visited, action]]).sum(axis=-1)
        possible = probabilities > 0
        row, observation = np.nonzero(possible)
        parents = np.column_stack([visited[row], action[row], observation])
        flow = mass[visited][:, None] * probabilities
        return beliefs[possible], flow[possible], values[possible], parents, weights.max(axis=-1)[possible]

    def candidates(self, beliefs: Array, values: Array, parents: Index) -> Candidates:
        """Return these next beliefs as candidates, without bases for what follows from them."""
        i, a, o = parents.T
        own_basis = np.where(self.weights[i, a, o] > 0.0, self.basis[i, a, o], -1)
        bases = np.full((len(beliefs), *self.basis.shape[1:]), -1, np.int32)
        return Candidates(np.ascontiguousarray(beliefs), values, parents, own_basis, bases)

    @property
    def _lookahead_arrays(self) -> tuple[Array, Array, Array, Bases, Array]:
        return self.points, self.h, self.q, self.basis, self.weights

    def bellman_residual(self, found: Candidates) -> Array:
        """Return how much a point at each of these beliefs would raise h there, or 0 where time is up.

        Fills in the bases of the candidates.
        """
        d = self.dynamics
        gains, gain = np.zeros(len(found.beliefs)), self.gain
        for k in range(0, len(gains), self._points_at_once):
            if self.expired():
                break
            part = slice(k, k + self._points_at_once)
            gains[part], found.bases[part], spent = lookahead_steps.residuals(
                d.joint, d.cost, self._lookahead_arrays, self.n, found.beliefs[part], found.parents[part],
                found.values[part], gain, self.face_tolerance,
            )  # fmt: skip
            self.work += spent
        return gains

    def sample_trajectory(self, belief: Array, uniforms: Array) -> tuple[Candidates, Array, Array]:
        """Return beliefs of a greedy trajectory, their Bellman residuals, and the last belief."""
        d = self.dynamics
        visited, residuals, gain = [], [], self.gain
        for k in range(0, len(uniforms), self._points_at_once):
            beliefs, gains, values, own_basis, bases, belief, spent = lookahead_steps.sample_trajectory(
                d.joint, d.cost, self._lookahead_arrays, self.n, belief,
                uniforms[k : k + self._points_at_once], gain, self.face_tolerance,
            )  # fmt: skip
            self.work += spent
            visited.append(Candidates(beliefs, values, np.full((len(beliefs), 3), -1), own_basis, bases))
            residuals.append(gains)
            if self.expired():
                break
        return sum(visited[1:], start=visited[0]), np.concatenate(residuals), belief


def _mdp_values(dynamics: Dynamics) -> Array:
    """Return relative values of the fully observed MDP: the first values of the vertices."""
    kernel = dynamics.joint.sum(axis=1)  # [A, S, S']
    h = np.zeros(dynamics.n_states)
    for _ in range(3000):
        change = (dynamics.cost + kernel @ h).min(axis=0) - h
        if np.ptp(change) < 1e-9:
            break
        h += 0.9 * (change - change.mean())
        h -= h[0]
    return h
