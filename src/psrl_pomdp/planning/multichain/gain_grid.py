"""The lower bound from the model's start: gains and biases on a grid of beliefs, and their certificate.

Any g, h with, **for every point i and action a**,

    g_i ≤ Σ P(o | g_i, a) γ_j g_j   and   g_i + h_i ≤ c(g_i, a) + Σ P(o | g_i, a) γ_j h_j

prove that the average cost from b = Σ γ_j g_j is at least Σ γ_j g_j (`bounds`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from ..._utils.arrays import Array, Index
from ..dynamics import Dynamics
from ..interpolation.programs import UNLIMITED_EFFORT
from ..limits import LimitReached
from ..lower.certificate import LowerCertificate
from ..lower.grid import Grid
from ..lower.supports import interpolation_probabilities
from ..markov.gains import end_components, max_transient_steps, multichain_policy_iteration, rounding_margin
from ..parameters import WORK, PlannerParameters

INEXACT = 1e-14  # how far a belief may be from the points that make it up


class GainGrid:
    """A grid with a gain and a bias at every point, and the best lower bound that they have proved."""

    transitions: csr_array  # [A·n, n]: P_a between points, for one action after another
    gain: Array  # [n]
    bias: Array  # [n]
    policy: Index  # [n]

    def __init__(
        self,
        dynamics: Dynamics,
        most_points: int,
        expired: Callable[[], bool],
        parameters: PlannerParameters,
    ) -> None:
        self.dynamics = dynamics
        self.expired = expired
        self.parameters = parameters.multichain
        most = max(most_points, dynamics.n_states + len(dynamics.starts))
        self.grid = Grid(dynamics, most, expired, parameters.grid)
        self.certificate: LowerCertificate | None = None
        self.spent = 0.0  # work beside that of the grid
        self._set_objective(np.zeros(self.grid.n), 1.0)
        self.add(dynamics.starts, np.full((len(dynamics.starts), 3), -1))

    def _set_objective(self, values: Array, preference: float) -> None:
        """Let interpolations maximize these values, less a preference for near points."""
        grid = self.grid
        grid.h[: grid.n] = values - preference * (grid.points[:, : grid.n] ** 2).sum(axis=0)

    def reinterpolate(self, preference: float) -> None:
        """Renew all interpolations for the present gains and biases."""
        grid = self.grid
        self._set_objective(self.bias + self.parameters.gain_preference * self.gain, preference)
        grid.reinterpolate(grid.h, np.inf, np.ones(grid.n, np.bool_), UNLIMITED_EFFORT)

    def solve(self) -> None:
        """Solve for gains and biases with the present interpolations, and keep what they prove."""
        grid, n = self.grid, self.grid.n
        self.transitions, residual = self._transition_matrices()
        cost = grid.cost[:n]
        self.gain, self.bias, self.policy = multichain_policy_iteration(
            self.transitions, cost, grid.policy[:n]
        )
        grid.policy[:n] = self.policy
        self.spent += 200.0 * self.transitions.nnz + 20 * WORK.python_call
        found = self._make_certificate(residual) if residual <= INEXACT else None
        if found is not None and (self.certificate is None or found.bound > self.certificate.bound):
            self.certificate = found

    def _transition_matrices(self) -> tuple[csr_array, float]:
        """Return P_a between points for one action after another, [A·n, n], and the error of the beliefs."""
        grid, n = self.grid, self.grid.n
        at_once = max(1, int(self.parameters.weights_at_once / grid.weights[0].size))
        parts, residual = [], 0.0
        for k in range(0, n, at_once):
            if self.expired():
                raise LimitReached("time limit")
            part, error = self._transition_entries(slice(k, min(k + at_once, n)))
            parts.append(part)
            residual = max(residual, error)
        rows, columns, probabilities = (np.concatenate(each) for each in zip(*parts, strict=True))
        self.spent += 10.0 * grid.weights[:n].size
        shape = self.dynamics.n_actions * n, n
        return csr_array((probabilities, (rows, columns)), shape=shape), residual

    def _transition_entries(self, some: slice) -> tuple[tuple[Index, Index, Array], float]:
        """Return row, column and probability of the entries of some points, and the error of the beliefs."""
        grid = self.grid
        obs_prob, basis, weights = grid.obs_prob[some], grid.basis[some], grid.weights[some]
        on_points, on_vertices = np.empty(weights.shape), np.empty(weights.shape)
        residual = interpolation_probabilities(
            grid.points, len(obs_prob), obs_prob, grid.tau[some], basis, weights, on_points, on_vertices
        )
        probability = obs_prob / obs_prob.sum(axis=2, keepdims=True)
        weight = probability[..., None] * np.concatenate([on_points, on_vertices], axis=-1)
        i, a, o, k = np.nonzero(weight)
        n_states = weights.shape[-1]
        column = np.where(k < n_states, basis[i, a, o, np.minimum(k, n_states - 1)], k - n_states)
        return (a * grid.n + i + some.start, column, weight[i, a, o, k]), float(residual)

    def _make_certificate(self, residual: float) -> LowerCertificate | None:
        """Return the certificate of the present gains and biases, moved so that its inequalities hold."""
        grid, n, d = self.grid, self.grid.n, self.dynamics
        n_actions = d.n_actions
        label, inside = end_components(self.transitions, n_actions)
        least = np.full(int(label.max()) + 1, np.inf)
        np.minimum.at(least, label, self.gain)
        gain = least[label]
        steps = max_transient_steps(self.transitions, label, inside)
        if steps is None:
            return None
        above = gain - gain.min()
        violation = (np.tile(above, n_actions) - self.transitions @ above)[~inside]
        error = 2 * rounding_margin(d, gain, residual)
        gain = gain - (max(0.0, float(violation.max(initial=0.0))) + error) * steps
        cost = grid.cost[:n].T.ravel()
        best, best_gain, best_values = -np.inf, gain, self.bias
        for multiple in (0.0, *self.parameters.gain_multiples):
            values = self.bias + multiple * gain
            excess = float((np.tile(gain + values, n_actions) - cost - self.transitions @ values).max())
            size = float(np.abs(values - values[0]).max())
            moved = gain - max(0.0, excess) - d.rounding(values) - 2 * size * residual
            bound = float(d.start_weights @ moved[self._starts])
            if bound > best:
                best, best_gain, best_values = bound, moved, values
        self.spent += 20.0 * self.transitions.nnz
        return LowerCertificate(
            best,
            grid.beliefs,
            best_values,
            grid.basis[:n].copy(),
            grid.weights[:n].copy(),
            grid.parents[:n].copy(),
            best_gain,
        )

    def refine(self) -> int:
        """Add beliefs that the policy reaches from the start far from points, and return how many."""
        grid, n, p = self.grid, self.grid.n, self.parameters
        rows = np.arange(n)
        forward = self.transitions[self.policy * n + rows].T.tocsr()
        mass = np.zeros(n)
        np.add.at(mass, self._starts, self.dynamics.start_weights)
        visited = mass.copy()
        for step in range(p.steps):
            mass = forward @ mass
            visited += p.discount**step * mass
        self.spent += 2.0 * p.steps * forward.nnz
        probability = grid.obs_prob[rows, self.policy] * visited[:, None]
        point, observation = np.nonzero(probability > 1e-15)
        beliefs = grid.tau[point, self.policy[point], observation]
        _, first, inverse = np.unique(beliefs.round(9), axis=0, return_index=True, return_inverse=True)
        flow = np.bincount(inverse.ravel(), probability[point, observation])
        distance, _ = cKDTree(grid.beliefs).query(beliefs[first])
        separation = grid.parameters.point_separation
        promise = np.where(distance > 2 * separation, flow * np.minimum(distance, 1e-2), 0.0)
        chosen = np.argsort(-promise, kind="stable")[: max(p.min_new_points, int(p.growth * n))]
        chosen = first[chosen[promise[chosen] > 0.0]]
        parents = np.column_stack([point, self.policy[point], observation])[chosen]
        return self.add(beliefs[chosen], parents)

    def add(self, beliefs: Array, parents: Index) -> int:
        """Add points at these beliefs where there are none, and return how many.

        Their values are a little above those interpolated between other points.
        """
        grid, separation = self.grid, self.grid.parameters.point_separation
        distance, _ = cKDTree(grid.beliefs).query(beliefs)
        new = np.flatnonzero(distance > separation)
        _, first = np.unique(beliefs[new].round(9), axis=0, return_index=True)
        if self.expired() and len(new):
            raise LimitReached("time limit")
        new = new[np.sort(first)][: grid.most_points - grid.n]
        if len(new):
            grid.append(beliefs[new], grid.interpolated(beliefs[new]) + 1e-3, parents[new])
        _, self._starts = cKDTree(grid.beliefs).query(self.dynamics.starts)
        return len(new)
