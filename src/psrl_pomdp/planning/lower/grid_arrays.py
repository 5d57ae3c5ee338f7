"""The arrays of a grid: points, what follows from each of them, and their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._utils.arrays import Array, Bases, Index
from ..dynamics import Dynamics
from ..limits import LimitReached, never_expired
from ..parameters import GridParameters
from . import grid_steps as steps


class GridArrays:
    """Arrays for up to `most_points` points, which grow on demand; the first `n` entries of each are in use.

    `grid_steps` says what the arrays hold.
    """

    points: Array
    obs_prob: Array
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

    def __init__(
        self,
        dynamics: Dynamics,
        most_points: int,
        expired: Callable[[], bool] = never_expired,
        parameters: GridParameters | None = None,
    ) -> None:
        self.dynamics = dynamics
        self.parameters = parameters or GridParameters()
        self.most_points = max(most_points, dynamics.n_states)
        self.n = 0
        self.work = 0.0
        self.expired = expired  # asked between steps: whether time is up
        self._allocate(min(self.parameters.initial_points + dynamics.n_states, self.most_points))

    def _allocate(self, capacity: int) -> None:
        """Make arrays for `capacity` points and copy the old ones into them."""
        d = self.dynamics
        shape = (capacity, d.n_actions, d.n_observations)
        fresh: dict[str, npt.NDArray[Any]] = {
            "points": np.zeros((d.n_states, capacity)),
            "obs_prob": np.zeros(shape),
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

    @property
    def beliefs(self) -> Array:
        """[n, S]: the points."""
        return np.ascontiguousarray(self.points[:, : self.n].T)

    @property
    def full(self) -> bool:
        """Whether there is no room for another point."""
        return self.n >= self.most_points

    @property
    def _points_at_once(self) -> int:
        """The number of points to interpolate from without looking at the clock."""
        return max(1, int(self.parameters.entries_between_clock_checks / (self.weights[0].size * self.n)))

    def _place(self, beliefs: Array, values: Array, parents: Index) -> int:
        """Store points with their values and what follows from them; return the number of the first.

        Raises `LimitReached`, and stores nothing, where time is up and M is large.
        """
        first, n = self.n, self.n + len(beliefs)
        if n > self.h.shape[0]:
            self._allocate(min(max(2 * self.h.shape[0], n), self.most_points))
        d = self.dynamics
        self.points[:, first:n] = beliefs.T
        self.h[first:n] = values
        self.mass[first:n] = 0.0
        self.parents[first:n] = parents
        self.n = n
        at_once = max(1, int(self.parameters.entries_between_clock_checks / d.joint.size))
        for k in range(first, n, at_once):
            last = min(k + at_once, n)
            steps.geometry(d.joint, d.cost, self.points, k, last, self.obs_prob, self.tau, self.cost)
            if self.expired() and d.joint.size > self.parameters.entries_checked_last:
                self.n = first
                raise LimitReached("time limit")
        self.work += len(beliefs) * d.joint.size
        return first
