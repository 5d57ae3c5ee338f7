"""Both bounds of a model on dense arrays: when to work on which, and on which controllers.

What to work on is decided by counted work and by what earlier work has brought, never by the clock: without
a time limit the same model gives the same plan to the last bit on the same platform.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from scipy.spatial import cKDTree

from .._utils.arrays import Array, Index
from .dynamics import Dynamics
from .limits import never_expired
from .lower.certificate import SLACK, LowerCertificate
from .lower.grid import Grid
from .lower.refinement import GridRefinement
from .parameters import WORK, PlannerParameters
from .rounds import Round
from .upper.controllers import ControllerSearch
from .upper.evaluation import Controller


class BoundPair:
    """A lower bound by a grid and an upper bound by a controller, on one model.

    Or on two: with `upper`, controllers are for these dynamics, whose observations say less than those of the
    grid. The bounds are then bounds for every sensor in between.
    """

    def __init__(
        self,
        dynamics: Dynamics,
        most_points: int,
        expired: Callable[[], bool] = never_expired,
        parameters: PlannerParameters | None = None,
        upper: Dynamics | None = None,
    ) -> None:
        parameters = parameters or PlannerParameters()
        self.dynamics = dynamics
        self.parameters = parameters.search
        self.external_lower = 0.0  # a lower bound that was proved by other means
        self.grid = Grid(dynamics, most_points, expired, parameters.grid)
        self.search = ControllerSearch(upper or dynamics, expired, parameters.controllers)
        self.constant_cost = min(1.0, self.search.bound)  # only constant actions were tried so far
        self.rounds: list[Round] = []
        self._begun = time.perf_counter()
        self._rng = np.random.default_rng(0)  # for trajectories; a fixed stream, so that plans repeat
        self.refinement = GridRefinement(self.grid, self._rng, parameters.refinement)
        self._upper_share = self.parameters.first_upper_share  # share of the work for the upper bound
        self._saved_work = 0.0  # work that a search for controllers may spend
        self._next_search_work = 0.0  # work to save up before the next search
        self._last_search_work = 0.0
        self._grid_controllers_due = True  # False after controllers from the grid brought nothing
        self._lookahead_due = self.parameters.lookahead_min_work  # work from which to look ahead
        self._patience = 1.0  # factor by which to save up more than the last search took; grows if fruitless

    def warm_start(self, certificate: LowerCertificate, controller: Controller) -> None:
        """Begin with the certificates of an earlier plan for a nearby kernel."""
        self.grid.warm_start(certificate)
        self.search.evaluate(controller.actions, controller.successors, controller.vectors)
        if self.search.best is not None:
            self.search.vectors = self.search.best.vectors

    @property
    def certificate(self) -> LowerCertificate | None:
        """The proof of the best lower bound."""
        return self.grid.best_certificate

    @property
    def controller(self) -> Controller | None:
        """The controller of the best upper bound."""
        return self.search.best

    @property
    def lower(self) -> float:
        """The best proved lower bound on the optimal average cost, scaled to [0, 1]."""
        return max(self.external_lower, self.grid.bound)

    @property
    def upper(self) -> float:
        """The best proved upper bound on the optimal average cost, scaled to [0, 1]."""
        if self.grid.bound > self.search.bound + 1e-9:
            raise ArithmeticError(
                f"the bounds contradict each other: {self.grid.bound} > {self.search.bound}"
            )
        return max(self.lower, min(1.0, self.search.bound))

    @property
    def gap(self) -> float:
        """The upper bound minus the lower bound."""
        return self.upper - self.lower

    @property
    def work(self) -> float:
        """Operations counted so far."""
        return self.grid.work + self.search.work

    @property
    def full(self) -> bool:
        """Whether the grid has no room for another point."""
        return self.grid.full

    def run_round(self, tolerance: float, thorough: bool = False) -> None:
        """Tighten both bounds on the present points, as far as possible if `thorough`."""
        gap, work, lower, p = self.gap, self.grid.work, self.lower, self.parameters
        fine = p.fine_value_error * tolerance if gap < p.fine_gap_ratio * tolerance else 1.0
        rough = min(p.value_error * gap, p.max_value_error, fine)
        accuracy = p.min_value_error if thorough else max(p.min_value_error, rough)
        self.grid.tighten(accuracy, gap, everywhere=thorough)
        lower_work = self.grid.work - work + 1.0
        lower_rate = (self.lower - lower) / lower_work
        if self.gap > tolerance and not self.search.expired():
            if thorough:
                self._saved_work = max(self._next_search_work, p.thorough_search_calls * WORK.python_call)
            self._search_if_due(tolerance, lower_work, lower_rate)
            if self.gap > tolerance and not self.search.expired():
                self._improve_by_lookahead()
        best = self.search.best
        self.rounds.append(
            Round(
                self.lower,
                self.upper,
                self.grid.n,
                0 if best is None else len(best),
                self.work,
                time.perf_counter() - self._begun,
            )
        )

    # -- the lower side -------------------------------------------------------------------------

    def refine(self) -> int:
        """Add points where they promise to raise the lower bound, and return how many."""
        search = self.search

        def upper_values(beliefs: Array) -> Array:
            assert search.best is not None
            return search.values(beliefs, search.best.vectors)

        return self.refinement.refine(self.rounds, self.lower, self.upper, upper_values)

    def keep_all_coordinates(self) -> bool:
        """Stop dropping small coordinates of points; return whether any were dropped before."""
        return self.grid.keep_all_coordinates()

    # -- the upper side -------------------------------------------------------------------------

    def _search_if_due(self, tolerance: float, lower_work: float, lower_rate: float) -> None:
        """Search for controllers with a share of the work, once enough of it is saved up.

        The share follows the rates at which work on each side has narrowed the gap. After fruitless searches
        more work is saved up before the next one.
        """
        upper, work, p = self.upper, self.search.work, self.parameters
        # If the lower bound rises by little, more points will not close the gap.
        stuck = lower_rate * lower_work < p.small_gain * self.gap
        share = p.max_upper_share if stuck else self._upper_share
        minimum = max(
            p.min_search_share * self.work, min(p.early_search_share * self.work, p.early_search_work)
        )
        self._saved_work += max(minimum, lower_work * share / (1 - share))
        required = self._next_search_work
        if stuck:
            required = min(required, self._last_search_work)
        if self._saved_work < required and self.rounds:
            return
        self._improve_controllers(tolerance, self._saved_work)
        spent = self.search.work - work + 1.0
        fruitless = upper - self.upper < p.fruitful_gain * self.gap
        self._patience = min(p.max_patience, p.patience_growth * self._patience) if fruitless else 1.0
        self._next_search_work = spent * self._patience if fruitless else 0.0
        self._last_search_work = spent
        self._saved_work = 0.0
        rate = (upper - self.upper) / spent
        if len(self.rounds) > 2:
            target = (rate + 1e-18) / (rate + lower_rate + 2e-18)
            mean = p.share_inertia * share + p.share_adaptation * target
            self._upper_share = min(p.max_upper_share, max(p.min_upper_share, mean))

    def _improve_by_lookahead(self) -> None:
        """Improve the best controller at beliefs of a policy that looks one step ahead, if affordable."""
        search, work, p = self.search, self.work, self.parameters
        assert search.best is not None
        count = int(p.lookahead_beliefs_per_node * len(search.best))
        affordable = self._affordable_beliefs(p.lookahead_max_share * work / p.lookahead_iterations)
        if work < self._lookahead_due or count > affordable:
            return
        count = max(count, self._affordable_beliefs(p.lookahead_min_share * work / p.lookahead_iterations))
        before = search.bound
        search.tolerance = max(p.min_evaluation_error, p.evaluation_accuracy * self.gap)
        search.improve_by_lookahead(
            count, self._rng, p.worthwhile_gain * self.gap, search.work + p.lookahead_max_share * work
        )
        fruitful = search.bound < before - p.fruitful_gain * self.gap
        self._lookahead_due = work if fruitful else p.lookahead_backoff * work

    def improve_upper_bound(self, tolerance: float) -> bool:
        """Search for controllers, a few times, until the gap falls; return whether it did."""
        p = self.parameters
        narrower = p.last_search_gap_ratio * self.gap
        for _ in range(p.last_searches):
            self._improve_controllers(tolerance, p.last_search_share * self.work)
            if self.gap < narrower or self.search.expired():
                break
        return self.gap < narrower

    def _improve_controllers(self, tolerance: float, budget: float) -> None:
        """Try controllers from the grid, unless the last ones brought nothing; then improve the best one."""
        search, limit, p = self.search, self.search.work + budget, self.parameters
        search.tolerance = max(p.min_evaluation_error, p.evaluation_accuracy * self.gap)
        if self._grid_controllers_due:
            before = search.bound
            self._try_grid_controllers(tolerance, limit)
            self._grid_controllers_due = search.bound < before - p.worthwhile_gain * self.gap
        else:
            self._grid_controllers_due = True
        assert search.best is not None
        before = np.inf
        while search.work < limit and self.gap > tolerance and not search.expired():
            if search.bound > before - p.worthwhile_gain * self.gap:
                break
            before = search.bound
            # Beliefs that a controller visits itself help more than those that the grid's policy visits.
            steps = min(p.trajectory_steps, 2 * self.grid.n)
            visited = search.visited_beliefs(search.best, self._rng.random(steps))
            search.split_nodes(search.best, visited, limit - search.work)

    def _try_grid_controllers(self, tolerance: float, limit: float) -> None:
        """Run point-based backups where the grid's policy goes, and try that policy as a controller."""
        search, p = self.search, self.parameters
        budget = limit - search.work
        if self._patience < p.long_search_patience:
            beliefs = self._backup_beliefs(0.0)
            search.improve_point_based(beliefs)
        else:
            assert search.best is not None
            beliefs = self._backup_beliefs(p.iteration_share * budget)
            # Half of the beliefs are those that the best controller visits: the others show where a better
            # policy goes, these what it has to get away from.
            steps = len(beliefs) // 2
            visited = search.visited_beliefs(search.best, self._rng.random(steps))
            both = np.concatenate([beliefs[: len(beliefs) - steps], visited])
            search.improve_point_based(
                both, p.long_search_iterations, search.work + p.point_based_share * budget
            )
        found: list[Controller] = []
        for from_grid in self._grid_controllers():
            if self.gap <= tolerance:
                return
            found.append(from_grid())
        best = min(found, key=lambda controller: controller.bound)
        worse = best.bound - search.bound
        left = min(p.second_best_share, 2 * self.gap / max(worse, 1e-300)) * (limit - search.work)
        if worse > SLACK and left > p.min_split_calls * WORK.python_call:
            search.split_nodes(best, beliefs, left)

    def _backup_beliefs(self, work: float) -> Array:
        """Return the vertices and then the points of the largest mass, as many as `work` can back up."""
        beliefs, mass = self.grid.beliefs, self.grid.mass[: self.grid.n]
        least, most = self.parameters.min_backup_beliefs, self.parameters.max_backup_beliefs
        count = min(max(self._affordable_beliefs(work), least), most)
        n_states = self.dynamics.n_states
        heavy = np.argsort(-mass[n_states:], kind="stable")[: max(0, count - n_states)]
        return np.concatenate([beliefs[:n_states], beliefs[n_states:][heavy]])

    def _affordable_beliefs(self, work: float) -> int:
        """Return at how many beliefs `work` can back up between as many vectors."""
        return int(np.sqrt(max(work, 0.0) / (WORK.matrix_product * self.dynamics.joint[:, :, 0].size)))

    def _grid_controllers(self) -> list[Callable[[], Controller]]:
        """Return the ways to make the grid's policy a controller."""
        if self.search.dynamics is self.dynamics:
            return [self._heaviest_point_controller, self._nearest_point_controller]
        return [self._nearest_point_controller]  # the weights are for other observations

    def _heaviest_point_controller(self) -> Controller:
        """Return the grid's policy as a controller: each next belief leads to its heaviest point."""
        grid, rows = self.grid, np.arange(self.grid.n)
        policy = grid.policy[: grid.n]
        heaviest = grid.weights[rows, policy].argmax(axis=-1)
        target = np.take_along_axis(grid.basis[rows, policy], heaviest[..., None], axis=-1)[..., 0]
        return self._evaluate_grid_policy(policy.copy(), target.astype(np.int64))

    def _nearest_point_controller(self) -> Controller:
        """Return the grid's policy as a controller: each next belief leads to its nearest point."""
        grid, rows = self.grid, np.arange(self.grid.n)
        policy = grid.policy[: grid.n]
        if self.search.dynamics is self.dynamics:
            after = grid.tau[rows, policy]
        else:
            after = self.search.next_beliefs(grid.beliefs, policy)
        _, target = cKDTree(grid.beliefs).query(after.reshape(-1, self.dynamics.n_states))
        return self._evaluate_grid_policy(policy.copy(), target.reshape(grid.n, -1).astype(np.int64))

    def _evaluate_grid_policy(self, actions: Index, successors: Index) -> Controller:
        guess = np.repeat(self.grid.h[: self.grid.n, None], self.dynamics.n_states, axis=1)
        return self.search.evaluate(actions, successors, guess)
