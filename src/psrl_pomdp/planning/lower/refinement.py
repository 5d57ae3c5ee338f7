"""The choice of new grid points: beliefs where a point promises to raise the lower bound.

Candidates are the next beliefs of points that the bound's own policy visits, and beliefs along a trajectory
of the greedy policy. Small coordinates are dropped from them. With δ the sum of these, the belief is (1 − δ)
g + δ · vertices for a point g, so that at most δ · span(h) is lost there. A point on few states serves more
beliefs, and the linear programs that interpolate are smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree

from ..._utils.arrays import Array, Index
from ..beliefs import distinct_beliefs, drop_small_coordinates
from ..parameters import RefinementParameters
from ..rounds import Round
from .candidates import Candidates
from .grid import Grid

SUCCESSORS, TRAJECTORIES = 0, 1  # ways to choose points: successors only, or half along trajectories


class GridRefinement:
    """Chooses new points for one grid, round by round."""

    def __init__(self, grid: Grid, rng: np.random.Generator, parameters: RefinementParameters) -> None:
        self.grid = grid
        self.parameters = parameters
        self._rng = rng
        self._belief = grid.dynamics.start.copy()  # where the trajectory is
        self._rates = [np.inf, np.inf]  # at which each way to choose points has raised the bound
        self._way = SUCCESSORS
        self._before = (0.0, 0.0)  # the lower bound and the work when the way was chosen last
        self._drop_factor = 1.0  # multiple of `grid.min_coordinate` below which coordinates are dropped

    def refine(
        self, rounds: Sequence[Round], lower: float, upper: float, values: Callable[[Array], Array]
    ) -> int:
        """Add points to the grid and return how many.

        Parameters
        ----------
        rounds
            The rounds so far.
        lower, upper
            The bounds.
        values
            Upper values of beliefs: min α·b for the vectors of the best controller.
        """
        grid, parameters = self.grid, self.parameters
        self._choose_way(len(rounds), lower, upper)
        self._choose_min_coordinate(rounds, lower, upper)
        count = max(parameters.min_new_points, int(parameters.growth * grid.n))
        from_trajectory = count // 2 if self._way == TRAJECTORIES else 0
        chosen = self._promising_successors(values, count - from_trajectory)
        if not len(chosen.beliefs) and self._drop_factor > 1.0:
            self._drop_factor = 1.0
            chosen = self._promising_successors(values, count)
        if not len(chosen.beliefs):  # all successors of visited points are points
            chosen = self._promising_successors(values, count, from_all=True)
        least = grid.parameters.min_coordinate
        while not len(chosen.beliefs) and grid.min_coordinate > least and not grid.expired():
            grid.min_coordinate = max(least, 0.1 * grid.min_coordinate)
            chosen = self._promising_successors(values, count, from_all=True)
        if from_trajectory:
            chosen += self._points_along_trajectory(from_trajectory, chosen.beliefs)
        return grid.add(chosen)

    def _choose_way(self, n_rounds: int, lower: float, upper: float) -> None:
        """Choose points in the way that has raised the bound faster; now and then in the other way.

        Rates are shares of the gap for shares of the work: these fall less as the grid grows than the gap and
        the work do.
        """
        bound, work = self._before
        if n_rounds > 1:
            gained = (lower - bound) / max(upper - bound, 1e-300)
            rate = gained * self.grid.work / max(self.grid.work - work, 1.0)
            old = self._rates[self._way]
            self._rates[self._way] = rate if np.isinf(old) else 0.5 * (old + rate)
            if not np.isinf(self._rates[1 - self._way]):
                self._rates[1 - self._way] *= 1 - self.parameters.rate_decay
        other_in_turn = n_rounds >= 4 and n_rounds & (n_rounds - 1) == 0
        self._way = int(np.argmax(self._rates)) ^ other_in_turn
        self._before = (lower, self.grid.work)

    def _choose_min_coordinate(self, rounds: Sequence[Round], lower: float, upper: float) -> None:
        """Choose the threshold below which coordinates of new points are dropped: it shrinks with the gap."""
        grid, parameters, first = self.grid, self.parameters, len(rounds) == 1
        n_states, least = grid.dynamics.n_states, grid.parameters.min_coordinate
        gap = upper - lower
        span = float(np.ptp(grid.h[: grid.n]))
        threshold = min(parameters.dropped_share * gap / max(span, 1e-300), 0.1 / n_states)
        if not first:
            stalled = lower - rounds[-2].lower < parameters.stalled_gain * gap
            threshold = min(threshold, 0.5 * grid.min_coordinate if stalled else grid.min_coordinate)
        if first or threshold <= 0.5 * grid.min_coordinate:  # a new threshold makes bases useless: seldom
            grid.min_coordinate = max(least, threshold)
        in_turns = grid.min_coordinate > least and n_states >= parameters.min_states_for_turns
        factors = parameters.drop_factors
        self._drop_factor = factors[len(rounds) % len(factors)] if in_turns else 1.0

    def _without_small_coordinates(self, beliefs: Array) -> Array:
        """Return beliefs without small coordinates, which are never larger than half of the largest."""
        least = self._drop_factor * self.grid.min_coordinate
        return drop_small_coordinates(beliefs, np.minimum(least, 0.5 * beliefs.max(axis=1, keepdims=True)))

    def _promising_successors(
        self, upper_values: Callable[[Array], Array], count: int, from_all: bool = False
    ) -> Candidates:
        """Return `count` next beliefs, ranked by mass × Bellman residual.

        They are preselected by mass × distance to the nearest point and by mass × (upper − lower value).
        """
        grid = self.grid
        beliefs, mass, values, parents, weight = grid.successors(from_all)
        points = self._without_small_coordinates(beliefs)
        kept = np.where(points > 0.0, beliefs, 0.0).sum(axis=1)
        first, inverse = distinct_beliefs(points)
        total: Array = np.bincount(inverse, mass).astype(np.float64)
        spread = upper_values(beliefs) - values
        by_gap: Array = np.bincount(inverse, mass * (spread - spread.min())).astype(np.float64)
        # The others are points already: only their dropped coordinates are made up from the vertices.
        away = np.flatnonzero((weight[first] < kept[first] - 1e-9) | (kept[first] < 0.9))
        some = away[np.union1d(_top(total[away], 4 * count), _top(by_gap[away], 2 * count))]
        distance, nearest = cKDTree(grid.beliefs).query(points[first[some]])
        by_distance = total[some] * np.minimum(distance, 0.3)
        separation = 10 * grid.parameters.point_separation
        new = np.flatnonzero(distance > separation)
        grid.missed_points = np.unique(nearest[distance <= separation])
        pool = np.union1d(new[_top(by_distance[new], count)], new[_top(by_gap[some[new]], count)])
        chosen = first[some[pool]]
        found = grid.candidates(points[chosen], values[chosen], parents[chosen])
        promise = total[some[pool]] * grid.bellman_residual(found)
        return found[_top(promise, count)]

    def _points_along_trajectory(self, count: int, chosen: Array) -> Candidates:
        """Return beliefs of a greedy trajectory that are no points and have the largest Bellman residuals."""
        grid = self.grid
        visited, residual = self._trajectory(self._rng.random(2 * count))
        visited = replace(visited, beliefs=self._without_small_coordinates(visited.beliefs))
        first, _ = distinct_beliefs(visited.beliefs)
        distance, _ = cKDTree(np.concatenate([grid.beliefs, chosen])).query(visited.beliefs[first])
        new = distance > 10 * grid.parameters.point_separation
        useful = first[new & (residual[first] > 1e-12)]
        return visited[useful[_top(residual[useful], count)]]

    def _trajectory(self, uniforms: Array) -> tuple[Candidates, Array]:
        """Return beliefs of a greedy trajectory and their Bellman residuals.

        It goes on where the last one ended. With a discount it begins anew after each step with the
        probability of a restart.
        """
        grid, d = self.grid, self.grid.dynamics
        if not d.restart:
            visited, residual, self._belief = grid.sample_trajectory(self._belief, uniforms)
            return visited, residual
        parts: list[tuple[Candidates, Array]] = []
        first = 0
        while first < len(uniforms):
            last = first + int(self._rng.geometric(d.restart))
            found, residual, self._belief = grid.sample_trajectory(
                self._belief, d.discount * uniforms[first:last]
            )
            parts.append((found, residual))
            if last <= len(uniforms):
                self._belief = d.starts[self._rng.choice(len(d.starts), p=d.start_weights)]
            first = last
            if grid.expired():
                break
        found = sum((part[0] for part in parts[1:]), start=parts[0][0])
        return found, np.concatenate([part[1] for part in parts])


def _top(scores: Array, count: int) -> Index:
    """Return the places of the highest scores, the highest first."""
    return np.argsort(-scores, kind="stable")[:count]
