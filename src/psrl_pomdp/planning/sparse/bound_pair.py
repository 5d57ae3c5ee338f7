"""Both bounds of a sparse model (the informed bound and controllers), and the loop that closes the gap."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ..._utils.arrays import Array
from ..accuracy import Accuracy
from ..limits import LimitReached, Limits
from ..lower.certificate import SLACK
from ..lower.informed import InformedCertificate
from ..parameters import PlannerParameters
from ..rounds import Round
from ..upper.evaluation import Controller
from .controllers import SparseControllerSearch
from .cycles import improve_by_cycles
from .dynamics import SparseDynamics
from .informed_bound import InformedBound


class SparseBoundPair:
    """A lower bound by the informed bound and an upper bound by a controller, from the first moment on."""

    def __init__(
        self,
        dynamics: SparseDynamics,
        limits: Limits,
        most_points: int,
        most_work: float = np.inf,
        parameters: PlannerParameters | None = None,
        upper: SparseDynamics | None = None,
    ) -> None:
        parameters = parameters or PlannerParameters()
        self.dynamics = dynamics
        self.limits = limits
        self.most_points = most_points
        self.most_work = most_work  # no search for controllers goes beyond it
        self.parameters = parameters.sparse
        self.informed = InformedBound(dynamics, limits, parameters.informed, parameters.covering)
        self.search = SparseControllerSearch(
            upper or dynamics, limits, parameters.controllers, parameters.sparse_controllers
        )
        self.constant_cost = min(1.0, self.search.bound)  # of the best constant action
        self.rounds: list[Round] = []
        self._rng = np.random.default_rng(0)  # for trajectories; a fixed stream, so that plans repeat
        self._rates = [
            np.inf,
            np.inf,
        ]  # at which work on the lower and on the upper bound has narrowed the gap
        self._ways = ["split", "cycle", "iterate", "look ahead"]  # to better controllers, in turn
        if dynamics.restart:
            self._ways.remove("cycle")  # a controller that forgets what it observed serves averages only
        self._way = 0
        self._depth = self.parameters.first_layers  # of the next cyclic controller
        self._no_more_points = False
        self._out_of_memory = False  # whether memory did not suffice for some step
        self._fruitless_rounds = 0
        self._initial_controller: Controller | None = None
        self._begun = time.perf_counter()

    def warm_start(self, controller: Controller) -> None:
        """Try the controller of an earlier plan too."""
        self._initial_controller = controller

    @property
    def certificate(self) -> InformedCertificate:
        """The proof of the best lower bound."""
        return self.informed.best_certificate

    @property
    def controller(self) -> Controller:
        """The controller of the best upper bound; one that is proved from any start if it is good enough."""
        best, from_start = self.search.best, self.search.from_start
        assert best is not None
        if from_start is None or best.bound <= max(self.search.enough, from_start.bound + SLACK):
            return best
        return from_start

    @property
    def lower(self) -> float:
        """The best proved lower bound on the optimal average cost, scaled to [0, 1]."""
        return max(0.0, self.certificate.bound)

    @property
    def upper(self) -> float:
        """The best proved upper bound on the optimal average cost, scaled to [0, 1]."""
        bound = self.controller.bound
        if self.lower > bound + 1e-9:
            raise ArithmeticError(f"the bounds contradict each other: {self.lower} > {bound}")
        return max(self.lower, min(1.0, bound))

    @property
    def gap(self) -> float:
        """The upper bound minus the lower bound."""
        return self.upper - self.lower

    @property
    def work(self) -> float:
        """Operations counted so far."""
        return self.informed.work + self.search.work

    @property
    def slow(self) -> bool:
        """Whether the second half of the work has narrowed the gap by little."""
        before = [r.upper - r.lower for r in self.rounds if r.work <= 0.5 * self.work]
        p = self.parameters
        return self.work > p.slow_from_work and bool(before) and self.gap > p.slow_gap_ratio * before[-1]

    def iterate(
        self,
        accuracy: Accuracy,
        stop: Callable[[], str | None],
        report: Callable[[Round], None] | None,
        until_slow: bool,
    ) -> str:
        """Run rounds until the gap is narrow enough, and return how that ended (as `rounds.iterate`).

        With `until_slow` it also ends, as "stalled", when progress is slow.
        """
        while True:
            try:
                self.run_round(self._allowed_gap(accuracy))
            except LimitReached as reached:
                self._record()
                return reached.status
            if report is not None:
                report(self.rounds[-1])
            if self.gap <= self._allowed_gap(accuracy):
                return "closed"
            reason = stop()
            if reason is not None:
                return reason
            if self._fruitless_rounds >= self.parameters.give_up_rounds:
                return "memory limit" if self._out_of_memory or self.full else "stalled"
            if until_slow and self.slow:
                return "stalled"

    def _allowed_gap(self, accuracy: Accuracy) -> float:
        return accuracy.allowed(self.lower, self.upper, self.constant_cost)

    @property
    def full(self) -> bool:
        """Whether there is no room for another point."""
        return bool(self.informed.points.shape[0] >= self.most_points)

    def _record(self) -> None:
        """Append the present bounds to `rounds`."""
        seconds = time.perf_counter() - self._begun
        places, nodes = len(self.certificate), len(self.controller)
        self.rounds.append(
            Round(float(self.lower), float(self.upper), places, nodes, float(self.work), seconds)
        )

    def run_round(self, tolerance: float) -> None:
        """Work on the bound that has narrowed the gap more for its work, or on the other one in its turn."""
        if not self.rounds:
            self._begin(tolerance)
        else:
            side = int(np.argmax(self._rates))
            if len(self.rounds) % self.parameters.turn_every == 0:
                side = 1 - side
            if self._no_more_points:
                side = 1
            elif not self._ways:
                side = 0
            gap, work = self.gap, self.work
            try:
                self._improve_lower_bound(tolerance) if side == 0 else self._improve_upper_bound(tolerance)
            except LimitReached as reached:
                self._give_up_step(side, reached)
            gained = (gap - self.gap) / max(gap, 1e-300)
            rate = gained * self.work / max(self.work - work, 1.0)
            old = self._rates[side]
            self._rates[side] = rate if np.isinf(old) else 0.5 * (old + rate)
            self._fruitless_rounds = 0 if gained > 1e-6 else self._fruitless_rounds + 1
        self._record()

    def _give_up_step(self, side: int, reached: LimitReached) -> None:
        """Give up a step for which memory does not suffice; raise `reached` again where no step is left."""
        if reached.status != "memory limit":
            raise reached
        self._out_of_memory = True
        if side == 0:
            self._no_more_points = True
        else:
            self._way -= 1
            del self._ways[self._way]
        if self._no_more_points and not self._ways:
            raise reached

    def _begin(self, tolerance: float) -> None:
        """Run the first round: the bounds without points and the constant controllers."""
        self.informed.solve_mdp(self._fine(tolerance))
        self.search.tolerance = self._fine(tolerance)
        self.search.has_several_classes = self.informed.has_several_classes
        self._way = 1 if self.informed.has_several_classes else 0
        self.search.prepare()
        self.constant_cost = min(1.0, self.search.bound)
        first = self._initial_controller
        if first is not None:
            self.search.evaluate(first.actions, first.successors, first.vectors)
        self.informed.solve_informed(self._fine(tolerance))

    def _fine(self, tolerance: float) -> float:
        """Return the accuracy of relative values that suits the present gap."""
        return max(1e-11, 0.1 * tolerance, 1e-4 * self.gap)

    def _improve_lower_bound(self, tolerance: float) -> None:
        """Add points to the informed bound and solve it again."""
        informed = self.informed
        before = informed.points.shape[0]
        p = self.parameters
        count = min(max(p.min_new_points, int(p.growth * before)), self.most_points - before)
        found = informed.refine(self.controller.vectors, count) if count > 0 else 0
        if not found:
            self._no_more_points = True
            return
        informed.solve_informed(self._fine(tolerance))

    def _improve_upper_bound(self, tolerance: float) -> None:
        """Search for controllers in the next of four ways.

        These are: splitting nodes, cyclic controllers, point-based value iteration at the beliefs that
        policies visit, and the same at those of a policy that looks one step ahead.
        """
        search, p = self.search, self.parameters
        assert search.best is not None
        search.tolerance = self._fine(tolerance)
        search.enough = self.lower + tolerance
        budget = min(max(p.min_search_work, p.search_share * self.work), self.most_work - self.work)
        limit = search.work + budget
        self._way = self._way % len(self._ways) + 1
        way = self._ways[self._way - 1]
        if way == "split":
            steps = min(p.beliefs, search.most_nodes)
            visited = search.visited_beliefs(search.best, self._rng.random(steps))
            search.split_nodes(search.best, visited, limit - search.work)
        elif way == "cycle":
            beliefs = self._beliefs()
            every = 1 + len(beliefs) * self._depth // search.most_nodes
            improve_by_cycles(search, beliefs[::every], self.certificate.vectors, self._depth, limit)
            self._depth = min(2 * self._depth, p.max_layers)
        elif way == "iterate":
            search.improve_point_based(self._beliefs(), p.fruitless_iterations, limit)
        else:
            count = min(int(1.7 * len(search.best)) + 20, search.most_nodes)
            search.improve_by_lookahead(count, self._rng, 0.01 * self.gap, limit)
        if search.has_several_classes and way != "cycle" and search.bound > search.enough:
            search.evaluate_from_start(search.best)

    def _beliefs(self) -> Array:
        """Return beliefs that the informed bound's policy and the best controller visit, half and half."""
        search, vectors = self.search, self.certificate.vectors
        count = min(self.parameters.beliefs, search.most_nodes)
        assert search.best is not None
        all_actions = np.arange(len(vectors))
        return np.concatenate(
            [
                search.sample_beliefs(vectors, all_actions, count // 2, self._rng),
                search.sample_beliefs(search.best.vectors, search.best.actions, count // 2, self._rng),
            ]
        )
