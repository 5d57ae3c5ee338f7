"""The values of a grid: relative values h for the present interpolations, and the policy's chain.

The bound needs no iteration to have converged; solving for h only makes it tight.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from ..._utils.arrays import Array
from ..markov.relative_values import solve_dense, solve_gmres, solve_lu
from ..parameters import WORK
from ..single_points import interpolated_by_one_point, largest_weights
from . import grid_steps
from .grid_arrays import GridArrays


class GridValues(GridArrays):
    """Grid points with values h that solve the Bellman equation of the interpolations."""

    _start_weights: Array | None = None  # [K, n]: the largest weight of each point in each start

    def restart_value(self) -> float:
        """Return (1 − γ) times the mean of h̃ at the starts, each made up from one point and the vertices."""
        d = self.dynamics
        if not d.restart:
            return 0.0
        n_states = d.n_states
        values, points = self.h[: self.n], self.points[:, n_states : self.n].T
        weights = self._weights_in_starts()
        at_starts = interpolated_by_one_point(weights, points, values[:n_states], values[n_states:], d.starts)
        return d.restart_value(at_starts)

    def _weights_in_starts(self) -> Array:
        """Return the largest weight that each point, without the vertices, can have in each start."""
        d = self.dynamics
        n_points = self.n - d.n_states
        known = self._start_weights
        if known is None or known.shape[1] > n_points:
            known = np.empty((len(d.starts), 0))
        if known.shape[1] < n_points:
            new = np.ascontiguousarray(self.points[:, d.n_states + known.shape[1] : self.n].T)
            known = np.concatenate([known, largest_weights(new, d.starts)], axis=1)
        self._start_weights = known
        return known

    def bellman(self) -> tuple[float, float]:
        """Apply the Bellman operator; return the least and the largest of best − h.

        With a discount, q and `best` are without the value of a start drawn afresh; what is returned has it.
        """
        self.work += self.weights[: self.n].size + 0.1 * WORK.python_call
        low, high = grid_steps.bellman(
            self.n, self.obs_prob, self.basis, self.weights, self.cost, self.h, self.q, self.best, self.policy
        )
        again = self.restart_value()
        return float(low) + again, float(high) + again

    def solve(self, tolerance: float) -> float:
        """Solve for the values h of the present interpolations, and return the least of best − h.

        Stops when best − h is constant to `tolerance`: value iteration first, then policy iteration.
        """
        low, high = self.bellman()
        best_h, best_low = self.h[: self.n].copy(), low
        sweeps = self.parameters.damped_sweeps
        for _ in range(self.parameters.value_iterations):
            if high - low < tolerance:
                return low
            gain = 0.5 * (low + high)
            grid_steps.damped_sweeps(
                self.n, self.obs_prob, self.basis, self.weights, self.cost, self.h, self.policy, gain,
                self.parameters.damping, sweeps,
            )  # fmt: skip
            self.work += sweeps * self.weights[: self.n, 0].size
            low, high = self.bellman()
        return self._policy_iteration(tolerance, low, high, best_h, best_low)

    def _policy_iteration(
        self, tolerance: float, low: float, high: float, best_h: Array, best_low: float
    ) -> float:
        """Howard's policy iteration with exact evaluation; ends with the values of the best bound seen."""
        for _ in range(self.parameters.policy_iterations):
            if high - low < tolerance:
                break
            before = self.policy[: self.n].copy()
            self.h[: self.n] = self._policy_values(tolerance)
            low, high = self.bellman()
            if low > best_low:
                best_h, best_low = self.h[: self.n].copy(), low
            if (before == self.policy[: self.n]).all():
                break
        if best_low > low:
            self.h[: self.n] = best_h
            low, _ = self.bellman()
        return low

    def chain(self) -> csr_array:
        """Return the transition matrix of the points under the policy."""
        n, rows = self.n, np.arange(self.n)
        weight = self.obs_prob[rows, self.policy[:n]][:, :, None] * self.weights[rows, self.policy[:n]]
        columns = self.basis[rows, self.policy[:n]]
        source = np.repeat(rows, weight[0].size)
        positive = weight.ravel() > 0
        return csr_array(
            (weight.ravel()[positive], (source[positive], columns.ravel()[positive])), shape=(n, n)
        )

    def _policy_values(self, tolerance: float) -> Array:
        """Return h with gain + h = c + T h to `tolerance`; with rare restarts where that has no solution."""
        for restart in (0.0, self.parameters.restart_probability):
            try:
                h = self._evaluate_policy(restart, tolerance)
            except (np.linalg.LinAlgError, RuntimeError):
                continue
            if np.isfinite(h).all() and np.abs(h).max() < self.parameters.max_relative_value:
                return h
        return self.h[: self.n].copy()

    def _evaluate_policy(self, restart: float, tolerance: float) -> Array:
        """Return h of the policy's chain, which restarts at zero value with probability `restart`."""
        n = self.n
        self.work += 5 * WORK.python_call
        chain = csr_array((1 - restart) * self.chain())
        cost = self.cost[np.arange(n), self.policy[:n]]
        if chain.nnz > self.parameters.dense_share * n * n and n <= self.parameters.dense_points:
            self.work += n**3 / 3
            return solve_dense(chain, cost)
        found, spent = solve_gmres(chain, cost, self.h[:n], 0.1 * tolerance, self.expired, factored=chain)
        self.work += spent
        if found is not None:
            return found
        h, spent = solve_lu(chain, cost)
        self.work += spent
        return h

    def update_stationary_mass(self) -> None:
        """Move `mass` toward the stationary distribution of the points under the policy."""
        n, n_states, p = self.n, self.dynamics.n_states, self.parameters
        self.mass[:n_states] += 1e-3 * self.dynamics.start
        self.mass[:n] /= self.mass[:n].sum()
        if self.dynamics.restart:
            self._update_discounted_mass()
            return
        done = grid_steps.stationary_mass(
            n, self.obs_prob, self.basis, self.weights, self.policy, self.mass,
            p.mass_damping, p.mass_tolerance, p.mass_sweeps,
        )  # fmt: skip
        self.work += done * self.weights[:n, 0].size + 0.1 * WORK.python_call

    def _update_discounted_mass(self) -> None:
        """Move `mass` toward the discounted visits of the points under the policy, which sum to one."""
        n, d = self.n, self.dynamics
        afresh = np.zeros(n)
        weights = self._weights_in_starts()
        for probability, start, row in zip(d.start_weights, d.starts, weights, strict=True):
            rest = start
            if len(row) and row.max() > 0.0:
                point = d.n_states + int(row.argmax())
                afresh[point] += probability * row.max()
                rest = np.maximum(start - row.max() * self.points[:, point], 0.0)
            afresh[: d.n_states] += probability * rest
        backward = csr_array(self.chain().T)
        mass = self.mass[:n].copy()
        for _ in range(self.parameters.mass_sweeps):
            new = d.restart * afresh + backward @ mass
            moved = float(np.abs(new - mass).sum())
            mass = new
            if moved < self.parameters.mass_tolerance:
                break
        self.mass[:n] = mass / mass.sum()
        self.work += self.parameters.mass_sweeps * 2.0 * backward.nnz + WORK.python_call
