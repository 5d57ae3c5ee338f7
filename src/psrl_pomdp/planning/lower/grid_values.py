"""The values of a grid: relative values h for the present interpolations, and the policy's chain.

The bound needs no iteration to have converged; solving for h only makes it tight.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from ..._utils.arrays import Array
from ..markov.relative_values import solve_dense, solve_gmres, solve_lu
from ..parameters import WORK
from . import grid_steps
from .grid_arrays import GridArrays


class GridValues(GridArrays):
    """Grid points with values h that solve the Bellman equation of the interpolations."""

    def bellman(self) -> tuple[float, float]:
        """Apply the Bellman operator; return the least and the largest of best − h."""
        self.work += self.weights[: self.n].size + 0.1 * WORK.python_call
        low, high = grid_steps.bellman(
            self.n, self.obs_prob, self.basis, self.weights, self.cost, self.h, self.q, self.best, self.policy
        )
        return float(low), float(high)

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
        done = grid_steps.stationary_mass(
            n, self.obs_prob, self.basis, self.weights, self.policy, self.mass,
            p.mass_damping, p.mass_tolerance, p.mass_sweeps,
        )  # fmt: skip
        self.work += done * self.weights[:n, 0].size + 0.1 * WORK.python_call
