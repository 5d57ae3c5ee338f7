"""The loop that closes the gap: raise the lower bound, lower the upper one, add points where it pays.

What to work on is decided by counted work and by what earlier work has brought, never by the clock: without
a time limit the same model gives the same plan to the last bit on the same platform.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import cKDTree

from .._utils.arrays import Array, Index
from .accuracy import Accuracy
from .dynamics import Dynamics
from .lower.grid import (
    _NEAR,
    CALL,
    SNAP,
    Candidates,
    Grid,
    LowerCertificate,
    distinct_beliefs,
    never,
    snapped,
)
from .upper.controllers import MATRIX, Controller, ControllerSearch

if TYPE_CHECKING:
    from .multichain.bounds import StartBracket

_GROWTH = 0.3  # new points a round, as a share of the old ones
_FEWEST = 8
_LITTLE = 0.02  # a gain in a round that is little, as a share of the gap
# Coordinates that new points are made without: as a share of the gap over the span of h, so that what each
# costs is a share of the gap; multiples of that, in turns; and half of it after rounds with too little gain.
_LEFT_OUT, _TURNS, _STALLED = 0.05, (1.0, 10.0, 100.0), 0.02
_FORGOTTEN = 0.03  # of the rate at which a way to choose points has raised the bound, while it is not taken
_MANY_STATES = 8  # with fewer there is little to leave out, and no turns are taken
_EVALUATION = 1e-4  # what the value of a controller may be off, as a share of the gap
_BACKUP_POINTS = (500, 2000)  # at least, at most
_BY_POINTS, _AN_ITERATION = 0.5, 0.03  # shares of a search for point-based iterations, and for one of them
# A look ahead of the best controller: iterations that ought to be affordable; beliefs for each of its nodes,
# at least, and the share of all work so far that they may take; the share that is always spent; the least
# work so far, and by what factor that grows after a look that brought nothing.
_ITERATIONS, _BELIEFS_A_NODE, _AHEAD_MOST, _AHEAD_SHARE = 3, 1.7, 0.5, 0.15
_AHEAD_FROM, _AHEAD_WAIT = 5e9, 2.0
_LONG = 100  # of them without a better controller, before a long search by points gives up
_DESPERATE = 4.0  # patience from which searches by points are long
_MET = 1500  # steps of a trajectory whose beliefs a controller is polished for


@dataclass(frozen=True)
class Round:
    """Where the bounds stood after a round."""

    lower: float
    upper: float
    points: int
    nodes: int
    work: float
    seconds: float


class Bracket:
    """Both bounds on one model, and the next step."""

    def __init__(self, dynamics: Dynamics, most_points: int, expired: Callable[[], bool] = never) -> None:
        self.dynamics = dynamics
        self.known = 0.0  # a lower bound that was proved otherwise
        self.grid = Grid(dynamics, most_points, expired)
        self.search = ControllerSearch(dynamics, expired)
        self.blind = min(1.0, self.search.bound)  # of the best constant action: no other was tried so far
        self.rounds: list[Round] = []
        self._begun = time.perf_counter()
        self._rng = np.random.default_rng(0)  # trajectories; a fixed stream, so that plans repeat
        self._belief = dynamics.start.copy()
        self._upper_share = 0.5
        self._rates = [np.inf, np.inf]  # at which each way to choose points has raised the bound
        self._way = 0
        self._before = (0.0, 0.0)
        self._credit = 0.0
        self._last_cost = self._spent = 0.0
        self._grid_controllers_due = True  # not where the last controllers from the grid brought nothing
        self._ahead_from = _AHEAD_FROM  # work from which to look ahead of the best controller
        self._turn = 1.0  # how much more than what programs leave out new points do
        self._patience = 1.0  # how much longer than the last search to save up, after fruitless ones

    def start_from(self, grid: LowerCertificate, controller: Controller) -> None:
        """Begin where an earlier plan for a nearby kernel ended."""
        self.grid.replay(grid)
        self.search.evaluate(controller.actions, controller.successors, controller.vectors)
        if self.search.best is not None:
            self.search.vectors = self.search.best.vectors

    @property
    def certificate(self) -> LowerCertificate | None:
        return self.grid.best_certificate

    @property
    def controller(self) -> Controller | None:
        return self.search.best

    @property
    def lower(self) -> float:
        return max(self.known, self.grid.bound)

    @property
    def upper(self) -> float:
        if self.grid.bound > self.search.bound + 1e-9:
            raise ArithmeticError(
                f"the bounds contradict each other: {self.grid.bound} > {self.search.bound}"
            )
        return max(self.lower, min(1.0, self.search.bound))

    @property
    def gap(self) -> float:
        return self.upper - self.lower

    @property
    def work(self) -> float:
        return self.grid.work + self.search.work

    def round(self, tolerance: float, thorough: bool = False) -> None:
        """Tighten both bounds on the present points; `thorough` leaves nothing on the table."""
        gap, work, lower = self.gap, self.grid.work, self.lower
        fine = 0.1 * tolerance if gap < 20 * tolerance else 1.0
        accuracy = 1e-11 if thorough else max(1e-11, min(0.02 * gap, 1e-5, fine))
        self.grid.tighten(accuracy, gap, everywhere=thorough)
        lower_work = self.grid.work - work + 1.0
        lower_rate = (self.lower - lower) / lower_work
        if self.gap > tolerance and not self.search.expired():
            if thorough:
                self._credit = max(self._last_cost, 100 * CALL)
            self._lower_the_upper(tolerance, lower_work, lower_rate)
            if self.gap > tolerance and not self.search.expired():
                self._look_ahead()
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

    # -- the upper side -------------------------------------------------------------------------

    def _lower_the_upper(self, tolerance: float, lower_work: float, lower_rate: float) -> None:
        """Spend a share of the work on controllers; save it up where the last search cost more."""
        upper, work = self.upper, self.search.work
        stuck = lower_rate * lower_work < _LITTLE * self.gap  # then more points will not close the gap
        share = 0.8 if stuck else self._upper_share
        self._credit += max(0.08 * self.work, min(0.3 * self.work, 1.5e8), lower_work * share / (1 - share))
        if self._credit < (min(self._last_cost, self._spent) if stuck else self._last_cost) and self.rounds:
            return
        self._improve(tolerance, self._credit)
        spent = self.search.work - work + 1.0
        fruitless = upper - self.upper < 0.05 * self.gap
        self._patience = min(16.0, 2.0 * self._patience) if fruitless else 1.0
        self._last_cost = spent * self._patience if fruitless else 0.0
        self._spent = spent
        self._credit = 0.0
        rate = (upper - self.upper) / spent
        if len(self.rounds) > 2:
            target = (rate + 1e-18) / (rate + lower_rate + 2e-18)
            self._upper_share = min(0.8, max(0.15, 0.6 * share + 0.4 * target))

    def _look_ahead(self) -> None:
        """Improve the best controller where a policy goes that looks ahead of it, once that is affordable."""
        search, work = self.search, self.work
        assert search.best is not None
        count = int(_BELIEFS_A_NODE * len(search.best))
        if work < self._ahead_from or count > self._affordable(_AHEAD_MOST * work / _ITERATIONS):
            return
        count = max(count, self._affordable(_AHEAD_SHARE * work / _ITERATIONS))
        before = search.bound
        search.tolerance = max(1e-10, _EVALUATION * self.gap)
        search.improve_ahead(count, self._rng, 0.01 * self.gap, search.work + _AHEAD_MOST * work)
        fruitful = search.bound < before - 0.05 * self.gap
        self._ahead_from = work if fruitful else _AHEAD_WAIT * work

    def improve_upper(self, tolerance: float) -> bool:
        """Work on controllers alone, a few times where the first bring nothing; whether the gap fell."""
        gap = self.gap
        for _ in range(8):
            self._improve(tolerance, 0.3 * self.work)
            if self.gap < 0.98 * gap or self.search.expired():
                break
        return self.gap < 0.98 * gap

    def _improve(self, tolerance: float, budget: float) -> None:
        """Controllers from the grid, unless the last ones were no good; then better the best."""
        search, limit = self.search, self.search.work + budget
        search.tolerance = max(1e-10, _EVALUATION * self.gap)
        if self._grid_controllers_due:
            before = search.bound
            self._try_grid_controllers(tolerance, limit)
            self._grid_controllers_due = search.bound < before - 0.01 * self.gap
        else:
            self._grid_controllers_due = True
        assert search.best is not None
        before = np.inf
        while search.work < limit and self.gap > tolerance and not search.expired():
            if search.bound > before - 0.01 * self.gap:
                break
            before = search.bound
            # What it meets itself tells more about a controller than what the lower bound's policy meets.
            met = search.met(search.best, self._rng.random(min(_MET, 2 * self.grid.n)))
            search.polish(search.best, met, limit - search.work)

    def _try_grid_controllers(self, tolerance: float, limit: float) -> None:
        """Point-based backups where the lower bound's policy goes, and that policy itself as a controller."""
        search = self.search
        budget = limit - search.work
        if self._patience < _DESPERATE:
            beliefs = self._backup_beliefs(0.0)
            search.improve_by_points(beliefs)
        else:
            assert search.best is not None
            beliefs = self._backup_beliefs(_AN_ITERATION * budget)
            # Half of what the lower bound's policy meets, half of what the best controller does: the one
            # knows how to go on, the other what it has to get away from.
            steps = len(beliefs) // 2
            met = search.met(search.best, self._rng.random(steps))
            both = np.concatenate([beliefs[: len(beliefs) - steps], met])
            search.improve_by_points(both, _LONG, search.work + _BY_POINTS * budget)
        found: list[Controller] = []
        for read in (self._largest_weights, self._nearest_points):
            if self.gap <= tolerance:
                return
            found.append(read())
        best = min(found, key=lambda controller: controller.bound)
        worse = best.bound - search.bound
        left = min(0.4, 2 * self.gap / max(worse, 1e-300)) * (limit - search.work)
        if worse > 1e-12 and left > 20 * CALL:
            search.polish(best, beliefs, left)

    def _backup_beliefs(self, work: float) -> Array:
        """The vertices, then the points visited most, as many as are affordable."""
        beliefs, mass = self.grid.beliefs, self.grid.mass[: self.grid.n]
        most = min(max(self._affordable(work), _BACKUP_POINTS[0]), _BACKUP_POINTS[1])
        n_states = self.dynamics.n_states
        heavy = np.argsort(-mass[n_states:], kind="stable")[: max(0, most - n_states)]
        return np.concatenate([beliefs[:n_states], beliefs[n_states:][heavy]])

    def _affordable(self, work: float) -> int:
        """At how many beliefs that work can back up between as many vectors."""
        return int(np.sqrt(max(work, 0.0) / (MATRIX * self.dynamics.joint[:, :, 0].size)))

    def _largest_weights(self) -> Controller:
        """The grid's policy as a controller: each next belief goes to its heaviest point."""
        grid, rows = self.grid, np.arange(self.grid.n)
        policy = grid.policy[: grid.n]
        heaviest = grid.weights[rows, policy].argmax(axis=-1)
        onward = np.take_along_axis(grid.basis[rows, policy], heaviest[..., None], axis=-1)[..., 0]
        return self._from_grid(policy.copy(), onward.astype(np.int64))

    def _nearest_points(self) -> Controller:
        """The same with the nearest point."""
        grid, rows = self.grid, np.arange(self.grid.n)
        policy = grid.policy[: grid.n]
        _, onward = cKDTree(grid.beliefs).query(grid.tau[rows, policy].reshape(-1, self.dynamics.n_states))
        return self._from_grid(policy.copy(), onward.reshape(grid.n, -1).astype(np.int64))

    def _from_grid(self, actions: np.ndarray, onward: np.ndarray) -> Controller:
        guess = np.repeat(self.grid.h[: self.grid.n, None], self.dynamics.n_states, axis=1)
        return self.search.evaluate(actions, onward, guess)

    # -- refinement -----------------------------------------------------------------------------

    def refine(self) -> int:
        """Add points where they promise to raise the lower bound; how many."""
        self._choose_way()
        self._choose_snap()
        count = max(_FEWEST, int(_GROWTH * self.grid.n))
        by_wandering = count // 2 if self._way == 1 else 0
        chosen = self._promising_successors(count - by_wandering)
        if not len(chosen.beliefs) and self._turn > 1.0:
            self._turn = 1.0
            chosen = self._promising_successors(count)
        if not len(chosen.beliefs):  # what is visited has its points: see what lies beyond
            chosen = self._promising_successors(count, from_all=True)
        while not len(chosen.beliefs) and self.grid.snap > SNAP and not self.grid.expired():
            self.grid.snap = max(SNAP, 0.1 * self.grid.snap)
            chosen = self._promising_successors(count, from_all=True)
        if by_wandering:
            chosen += self._along_a_trajectory(by_wandering, chosen.beliefs)
        return self.grid.add(chosen)

    def _choose_way(self) -> None:
        """Successors only, or half of the points along trajectories: whichever raised the bound faster.

        In shares of the gap for shares of the work, which fall less as the grid grows than what they are
        shares of. Now and then it is the other's turn.
        """
        bound, work = self._before
        if len(self.rounds) > 1:
            gained = (self.lower - bound) / max(self.upper - bound, 1e-300)
            rate = gained * self.grid.work / max(self.grid.work - work, 1.0)
            old = self._rates[self._way]
            self._rates[self._way] = rate if np.isinf(old) else 0.5 * (old + rate)
            if not np.isinf(self._rates[1 - self._way]):
                self._rates[1 - self._way] *= 1 - _FORGOTTEN
        turn = len(self.rounds)
        by_turns = turn >= 4 and turn & (turn - 1) == 0
        self._way = int(np.argmax(self._rates)) ^ by_turns
        self._before = (self.lower, self.grid.work)

    def _choose_snap(self) -> None:
        """What new points are made without, and the programs that interpolate.

        τ = (1 − δ) g + δ · vertices for a point g that is τ without coordinates of sum δ, so that at most
        δ · span is lost there; programs with fewer rows are quicker, and g serves beliefs that τ does not.
        """
        grid, first = self.grid, len(self.rounds) == 1
        span = float(np.ptp(grid.h[: grid.n]))
        snap = min(_LEFT_OUT * self.gap / max(span, 1e-300), 0.1 / self.dynamics.n_states)
        if not first:
            stalled = self.lower - self.rounds[-2].lower < _STALLED * self.gap
            snap = min(snap, 0.5 * grid.snap if stalled else grid.snap)
        if first or snap <= 0.5 * grid.snap:  # bases are for one face: seldom a new one
            grid.snap = max(SNAP, snap)
        in_turns = grid.snap > SNAP and self.dynamics.n_states >= _MANY_STATES
        self._turn = _TURNS[len(self.rounds) % len(_TURNS)] if in_turns else 1.0

    def _without_little(self, beliefs: Array) -> Array:
        """Beliefs without coordinates that are small, and never without those of half the largest."""
        least = self._turn * self.grid.snap
        return snapped(beliefs, np.minimum(least, 0.5 * beliefs.max(axis=1, keepdims=True)))

    def _promising_successors(self, count: int, from_all: bool = False) -> Candidates:
        """By mass × distance and by mass × (V_upper − V_lower), ranked by mass × lift."""
        grid = self.grid
        beliefs, mass, inner, whence, weight = grid.successors(from_all)
        points = self._without_little(beliefs)
        kept = np.where(points > 0.0, beliefs, 0.0).sum(axis=1)
        first, inverse = distinct_beliefs(points)
        total: Array = np.bincount(inverse, mass).astype(np.float64)
        assert self.search.best is not None
        vectors = self.search.best.vectors
        spread = self.search.values(beliefs, vectors) - inner
        by_gap: Array = np.bincount(inverse, mass * (spread - spread.min())).astype(np.float64)
        # The others are points already: nothing but what is left out is made up from more than one.
        away = np.flatnonzero((weight[first] < kept[first] - 1e-9) | (kept[first] < 0.9))
        some = away[np.union1d(_top(total[away], 4 * count), _top(by_gap[away], 2 * count))]
        distance, nearest = cKDTree(grid.beliefs).query(points[first[some]])
        by_distance = total[some] * np.minimum(distance, 0.3)
        new = np.flatnonzero(distance > 10 * _NEAR)
        grid.overlooked = np.unique(nearest[distance <= 10 * _NEAR])
        pool = np.union1d(new[_top(by_distance[new], count)], new[_top(by_gap[some[new]], count)])
        chosen = first[some[pool]]
        found = grid.candidates(points[chosen], inner[chosen], whence[chosen])
        promise = total[some[pool]] * grid.lift(found)
        return found[_top(promise, count)]

    def _along_a_trajectory(self, count: int, chosen: Array) -> Candidates:
        grid = self.grid
        met, lift, self._belief = grid.wander(self._belief, self._rng.random(2 * count))
        met = replace(met, beliefs=self._without_little(met.beliefs))
        first, _ = distinct_beliefs(met.beliefs)
        distance, _ = cKDTree(np.concatenate([grid.beliefs, chosen])).query(met.beliefs[first])
        useful = first[(distance > 10 * _NEAR) & (lift[first] > 1e-12)]
        return met[useful[_top(lift[useful], count)]]


def _top(scores: Array, count: int) -> Index:
    """The places of the highest scores, the highest first."""
    return np.argsort(-scores, kind="stable")[:count]


def close(
    bracket: Bracket | StartBracket,
    accuracy: Accuracy,
    stop: Callable[[], str | None],
    report: Callable[[Round], None] | None = None,
) -> str:
    """Rounds until the gap is narrow enough, `stop` names a reason, or no point is left to add.

    A bracket that had rounds before has made what it can of its points, and is given more of them first.
    """
    thorough, begun = False, bool(bracket.rounds)
    while True:
        tolerance = accuracy.allowed(bracket.lower, bracket.upper, bracket.blind)
        if not begun:
            bracket.round(tolerance, thorough)
            if report is not None:
                report(bracket.rounds[-1])
            tolerance = accuracy.allowed(bracket.lower, bracket.upper, bracket.blind)
        begun = False
        if bracket.gap <= tolerance:
            return "closed"
        reason = stop()
        if reason is not None:
            return reason
        if bracket.grid.full:
            if bracket.grid.snap > SNAP:
                bracket.grid.snap = SNAP  # once more, with nothing left out
            elif not bracket.improve_upper(tolerance):
                return "memory limit"
        elif bracket.refine() > 0:
            thorough = False
        elif thorough and not bracket.improve_upper(tolerance):
            return "stalled"
        else:
            thorough = True
