"""Bounds where the optimal average depends on the start: a gain beside every relative value.

Lower side, on a grid of beliefs: any g, h with, **for every point i and action a**,

    g_i ≤ Σ P(o | g_i, a) γ_j g_j   and   g_i + h_i ≤ c(g_i, a) + Σ P(o | g_i, a) γ_j h_j.

Then the optimal k-step cost is at least k·g_i + h_i − const at every point (induction; it is concave), so the
average from b = Σ γ_j g_j is at least Σ γ_j g_j. Upper side, on the pairs (node, state) of a controller: any
g, h with g ≥ P g and g + h ≥ c + P h; run from node n at belief b it costs at most g_n·b.

The second inequality of each may fail by an e, for which all gains are moved by e. The first may not: an
error e in it would cost e·k after k steps. It is proved without arithmetic where every belief that follows
has a gain at least as good (inside an end component all gains are equal), and with a margin for rounding
elsewhere: g is moved by ε·t, with t the largest expected number of steps outside of end components,
t_i ≥ 1 + P_a t, which gives every step there a margin of ε. Beliefs count as made up by points within 1e-14:
exact but for rounding.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from ..._utils.arrays import Array, Index
from ..bound_pair import BoundPair
from ..dynamics import Dynamics
from ..limits import LimitReached, never_expired
from ..lower.certificate import LowerCertificate
from ..lower.grid import Grid
from ..parameters import PlannerParameters
from ..rounds import Round
from ..upper.evaluation import Controller
from .closed_classes import closed_class_problems, constant_controllers
from .gain_controllers import GainControllers
from .gain_grid import GainGrid


class MultichainBounds:
    """Both bounds on the average cost from the model's start."""

    def __init__(
        self,
        dynamics: Dynamics,
        most_points: int,
        any_start: BoundPair | None = None,
        expired: Callable[[], bool] = never_expired,
        parameters: PlannerParameters | None = None,
        upper: Dynamics | None = None,
    ) -> None:
        parameters = parameters or PlannerParameters()
        self.parameters = parameters.multichain
        self.any_start = any_start  # bounds from any start, which hold from this one too
        self.external_lower = 0.0  # a lower bound that was proved by other means
        self.rounds: list[Round] = []
        self._begun = time.perf_counter()
        self.expired = expired
        self._lower = GainGrid(dynamics, most_points, expired, parameters)
        self._upper = GainControllers(upper or dynamics, expired, parameters)
        self._classes = closed_class_problems(dynamics, most_points // 4, expired, parameters, upper)
        for actions, successors in constant_controllers(upper or dynamics):
            self._upper.evaluate(actions, successors)
        constant = self.controller
        self.constant_cost = 1.0 if constant is None else min(1.0, constant.bound)
        if any_start is not None and any_start.search.best is not None:
            self._upper.evaluate(any_start.search.best.actions, any_start.search.best.successors)

    def begin_with(self, beliefs: Array, actions: Index, successors: Index) -> None:
        """Add points at these beliefs, and try a controller."""
        self._lower.add(beliefs, np.full((len(beliefs), 3), -1))
        self._upper.evaluate(actions, successors)

    @property
    def grid(self) -> Grid:
        """The grid of the lower bound."""
        return self._lower.grid

    @property
    def certificate(self) -> LowerCertificate | None:
        """The proof of the best lower bound."""
        return self._lower.certificate

    @property
    def controller(self) -> Controller | None:
        """The controller of the best upper bound."""
        return self._upper.best

    @property
    def lower(self) -> float:
        """The best proved lower bound on the optimal average cost, scaled to [0, 1]."""
        own = 0.0 if self.certificate is None else self.certificate.bound
        return max(self.external_lower, own, 0.0 if self.any_start is None else self.any_start.lower)

    @property
    def upper(self) -> float:
        """The best proved upper bound on the optimal average cost, scaled to [0, 1]."""
        own = 1.0 if self.any_start is None else self.any_start.upper
        if self.controller is not None:
            own = min(own, self.controller.bound)
        if self.lower > own + 1e-9:
            raise ArithmeticError(f"the bounds contradict each other: {self.lower} > {own}")
        return max(self.lower, own)

    @property
    def gap(self) -> float:
        """The upper bound minus the lower bound."""
        return self.upper - self.lower

    @property
    def work(self) -> float:
        """Operations counted so far."""
        inside = sum(each.work for each in self._classes)
        spent = self._lower.spent + self._upper.spent
        return self.grid.work + self._upper.search.work + spent + inside

    @property
    def full(self) -> bool:
        """Whether the grid has no room for another point."""
        return self.grid.full

    def run_round(self, tolerance: float, thorough: bool = False) -> None:
        """Tighten both bounds on the present points; every round is as thorough as can be.

        The bounds stay what they were where time is up in between.
        """
        with suppress(LimitReached):
            self._tighten(tolerance)
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

    def _tighten(self, tolerance: float) -> None:
        """Solve and renew interpolations in turns; then try controllers."""
        for each in self._classes:
            each.iterate(max(0.25 * tolerance, 0.1 * self.gap))
            self._lower.add(*each.points())
        for preference in self.parameters.near_point_preferences:
            self._lower.solve()
            if self.gap <= tolerance or self.expired():
                break
            self._lower.reinterpolate(preference)
        self._lower.solve()
        if self.gap > tolerance:
            self._upper.try_grid_policy(self.grid, self._lower.policy)
            controllers = (each.controller() for each in self._classes)
            self._upper.look_ahead(self.grid.beliefs, controllers, lambda: self.gap)

    def refine(self) -> int:
        """Add points that the policy reaches from the start, and return how many."""
        return self._lower.refine()

    def keep_all_coordinates(self) -> bool:
        """Return False: no coordinates of points are dropped here."""
        return self.grid.keep_all_coordinates()

    def improve_upper_bound(self, tolerance: float) -> bool:
        """Return False: every round has tried all controllers that there are."""
        return False
