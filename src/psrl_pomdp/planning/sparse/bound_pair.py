"""Both bounds on a sparse model, and the loop that closes the gap: the informed bound and controllers."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ..._utils.arrays import Array
from ..accuracy import Accuracy
from ..bound_pair import Round
from ..limits import LimitReached, Limits
from ..lower.grid import SLACK
from ..lower.informed import InformedCertificate
from ..lower.informed_bound import InformedBound
from ..upper.controllers import Controller
from ..upper.cycles import improve_by_cycles
from .controllers import SparseControllerSearch
from .dynamics import SparseDynamics

_GROWTH, _FEWEST = 0.3, 16  # new points a round, as a share of the old ones; at least
_BELIEFS = 600  # that controllers are improved at
_FRUITLESS = 10  # rounds of value iteration at them without a better controller
_SHARE, _LEAST_WORK = 0.5, 1.5e9  # of all work so far that a search for controllers may take; at least
_IN_TURN = 4  # every so many rounds the side that has been gaining less has its turn
_DEEPEST = 256  # layers
_GIVEN_UP = 20  # rounds in a row that bring nothing at all, on both sides
_SLOW_FROM = 4e9  # work from which progress is judged
_SLOW = 0.85  # of the gap that was there at half the work: what is wider has hardly become narrower


class SparseBracket:
    """Both bounds on one model, and the next step. They hold from the first moment on."""

    def __init__(
        self, dynamics: SparseDynamics, limits: Limits, most_points: int, most_work: float = np.inf
    ) -> None:
        self.dynamics = dynamics
        self.limits = limits
        self.most_points = most_points
        self.most_work = most_work  # no search for controllers is begun for more
        self.informed = InformedBound(dynamics, limits)
        self.search = SparseControllerSearch(dynamics, limits)
        self.blind = min(1.0, self.search.bound)  # of the best constant action
        self.rounds: list[Round] = []
        self._rng = np.random.default_rng(0)  # trajectories; a fixed stream, so that plans repeat
        self._rates = [np.inf, np.inf]  # what work on the lower and on the upper bound has brought
        self._ways = ["split", "cycle", "iterate", "ahead"]  # to better controllers, in turn
        self._way = 0
        self._depth = 16  # of the next controller in layers
        self._exhausted = False  # no more points
        self._starved = False  # of memory for some step
        self._idle = 0
        self._first: Controller | None = None
        self._begun = time.perf_counter()

    def start_from(self, controller: Controller) -> None:
        """Try the controller of an earlier plan, too."""
        self._first = controller

    @property
    def certificate(self) -> InformedCertificate:
        return self.informed.best_certificate

    @property
    def controller(self) -> Controller:
        """The one that costs least; from any start where that is good enough."""
        best, from_start = self.search.best, self.search.from_start
        assert best is not None
        if from_start is None or best.bound <= max(self.search.enough, from_start.bound + SLACK):
            return best
        return from_start

    @property
    def lower(self) -> float:
        return max(0.0, self.certificate.bound)

    @property
    def upper(self) -> float:
        bound = self.controller.bound
        if self.lower > bound + 1e-9:
            raise ArithmeticError(f"the bounds contradict each other: {self.lower} > {bound}")
        return max(self.lower, min(1.0, bound))

    @property
    def gap(self) -> float:
        return self.upper - self.lower

    @property
    def work(self) -> float:
        return self.informed.work + self.search.work

    @property
    def slow(self) -> bool:
        """Whether twice the work has brought little."""
        before = [r.upper - r.lower for r in self.rounds if r.work <= 0.5 * self.work]
        return self.work > _SLOW_FROM and bool(before) and self.gap > _SLOW * before[-1]

    def close(
        self,
        accuracy: Accuracy,
        stop: Callable[[], str | None],
        report: Callable[[Round], None] | None,
        until_slow: bool,
    ) -> str:
        """Rounds until the gap is narrow enough, `stop` names a reason, or nothing helps any more."""
        while True:
            try:
                self.round(self._wanted(accuracy))
            except LimitReached as reached:
                self._record()
                return reached.status
            if report is not None:
                report(self.rounds[-1])
            if self.gap <= self._wanted(accuracy):
                return "closed"
            reason = stop()
            if reason is not None:
                return reason
            if self._idle >= _GIVEN_UP:
                return "memory limit" if self._starved or self.full else "stalled"
            if until_slow and self.slow:
                return "stalled"

    def _wanted(self, accuracy: Accuracy) -> float:
        return accuracy.allowed(self.lower, self.upper, self.blind)

    @property
    def full(self) -> bool:
        return bool(self.informed.points.shape[0] >= self.most_points)

    def _record(self) -> None:
        seconds = time.perf_counter() - self._begun
        places, nodes = len(self.certificate), len(self.controller)
        self.rounds.append(
            Round(float(self.lower), float(self.upper), places, nodes, float(self.work), seconds)
        )

    def round(self, tolerance: float) -> None:
        """A step on the side that has brought more for its work, or on the other in its turn."""
        if not self.rounds:
            self._begin(tolerance)
        else:
            side = int(np.argmax(self._rates))
            if len(self.rounds) % _IN_TURN == 0:
                side = 1 - side
            if self._exhausted:
                side = 1
            elif not self._ways:
                side = 0
            gap, work = self.gap, self.work
            try:
                self._raise_the_lower(tolerance) if side == 0 else self._lower_the_upper(tolerance)
            except LimitReached as reached:
                self._do_without(side, reached)
            gained = (gap - self.gap) / max(gap, 1e-300)
            rate = gained * self.work / max(self.work - work, 1.0)
            old = self._rates[side]
            self._rates[side] = rate if np.isinf(old) else 0.5 * (old + rate)
            self._idle = 0 if gained > 1e-6 else self._idle + 1
        self._record()

    def _do_without(self, side: int, reached: LimitReached) -> None:
        """Where memory does not suffice for a step, go on with what needs less, while there is any."""
        if reached.status != "memory limit":
            raise reached
        self._starved = True
        if side == 0:
            self._exhausted = True
        else:
            self._way -= 1
            del self._ways[self._way]
        if self._exhausted and not self._ways:
            raise reached

    def _begin(self, tolerance: float) -> None:
        self.informed.solve_in_plain_sight(self._fine(tolerance))
        self.search.tolerance = self._fine(tolerance)
        self.search.apart = self.informed.apart
        self._way = 1 if self.informed.apart else 0
        self.search.prepare()
        self.blind = min(1.0, self.search.bound)
        if self._first is not None:
            self.search.evaluate(self._first.actions, self._first.successors, self._first.vectors)
        self.informed.inform(self._fine(tolerance))

    def _fine(self, tolerance: float) -> float:
        """How exact relative values ought to be."""
        return max(1e-11, 0.1 * tolerance, 1e-4 * self.gap)

    def _raise_the_lower(self, tolerance: float) -> None:
        informed = self.informed
        before = informed.points.shape[0]
        count = min(max(_FEWEST, int(_GROWTH * before)), self.most_points - before)
        found = informed.refine(self.controller.vectors, count) if count > 0 else 0
        if not found:
            self._exhausted = True
            return
        informed.inform(self._fine(tolerance))

    def _lower_the_upper(self, tolerance: float) -> None:
        """Controllers by value iteration where policies go, by splitting edges, or by looking ahead."""
        search = self.search
        assert search.best is not None
        search.tolerance = self._fine(tolerance)
        search.enough = self.lower + tolerance
        budget = min(max(_LEAST_WORK, _SHARE * self.work), self.most_work - self.work)
        limit = search.work + budget
        self._way = self._way % len(self._ways) + 1
        way = self._ways[self._way - 1]
        if way == "split":
            met = search.met(search.best, self._rng.random(min(_BELIEFS, search.most_nodes)))
            search.polish(search.best, met, limit - search.work)
        elif way == "cycle":
            beliefs = self._beliefs()
            every = 1 + len(beliefs) * self._depth // search.most_nodes
            improve_by_cycles(search, beliefs[::every], self.certificate.vectors, self._depth, limit)
            self._depth = min(2 * self._depth, _DEEPEST)
        elif way == "iterate":
            search.improve_by_points(self._beliefs(), _FRUITLESS, limit)
        else:
            count = min(int(1.7 * len(search.best)) + 20, search.most_nodes)
            search.improve_ahead(count, self._rng, 0.01 * self.gap, limit)
        if search.apart and way != "cycle" and search.bound > search.enough:
            search.evaluate_from_start(search.best)

    def _beliefs(self) -> Array:
        """Half of what the informed bound's policy meets, half of what the best controller does."""
        search, vectors = self.search, self.certificate.vectors
        count = min(_BELIEFS, search.most_nodes)
        assert search.best is not None
        every = np.arange(len(vectors))
        return np.concatenate(
            [
                search.walk(vectors, every, count // 2, self._rng),
                search.walk(search.best.vectors, search.best.actions, count // 2, self._rng),
            ]
        )
