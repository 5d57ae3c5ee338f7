"""`plan(model)`: an interval that holds the optimal average whenever it is stopped, and its proof."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import numpy as np

from .._numba import jit as compiled
from .._utils.stopwatch import PLANNING
from .._utils.threads import ONE_THREAD
from ..errors import InvalidModelError
from ..models.model import POMDP, Setting
from .accuracy import COARSE, Accuracy, at_stake
from .bound_pair import Bracket, Round, close
from .dynamics import BeliefDynamics, Dynamics
from .limits import LimitReached, Limits
from .lower.grid import SLACK, LowerCertificate
from .lower.informed import InformedCertificate
from .multichain.bounds import StartBracket
from .multichain.closed_classes import closed_classes
from .solution import MEMORY, Plan, Status
from .sparse.bound_pair import SparseBracket
from .sparse.dynamics import SparseDynamics
from .upper.controllers import Controller

MAX_POINTS = 40_000
_LARGE = 4000  # entries A·O·S² from which a round takes long where it is interpreted
_SMALL = 400_000  # entries A·O·S² from which the sparse bounds come first
_LARGEST_DENSE = 1.5e9  # A·O·S³, the work of a pass over the grid of all vertices, up to which it is made
_FIRST_POINTS = 64  # that a grid has room for beside the vertices
_BYTES_AN_ENTRY = 64.0  # of M and of the grid of all vertices, with copies and its certificate
_BYTES_A_POINT, _BYTES_FROM_START = 40.0, 110.0  # of a further point, and where bounds are from the start
_SHARE_OF_MEMORY = 0.6  # for points; the rest for what is made beside them


@PLANNING.timed
@ONE_THREAD
def plan(
    model: POMDP,
    tolerance: float = 1e-4,
    time_limit: float | None = None,
    warm_start: Plan | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    max_points: int = MAX_POINTS,
    max_work: float | None = None,
    memory_limit: float | None = None,
    progress: Callable[[Round], None] | None = None,
) -> Plan:
    """Bounds on the optimal long-run average cost of `model`, and a policy that attains the upper one.

    Stops when the gap between the bounds is narrow enough: within `tolerance` as a share of the cost's range;
    where they are given, also within `rtol` as a share of what is at stake (`planning.accuracy`), and within
    `atol` in the user's units. Stops also at `time_limit` seconds, at `max_points` grid points, at `max_work`
    counted operations, at `memory_limit` bytes (4 GB unless you say otherwise), or at Ctrl-C. The bounds hold
    whichever it was, and `status` says which. Without a time limit the same call gives the same plan, to the
    last bit on one platform.

    The clock starts with the call; compiling, which happens once for an installation, is not counted. Memory
    is what the arrays of planning take beside the model, by their sizes; where the usual ones would be too
    large, sparse ones take their place. `progress` is called after every round. `warm_start`, an earlier plan
    for a nearby kernel of the same setting, saves most of the work where it is near; where it turns out not
    to be, planning starts afresh.

    >>> from psrl_pomdp import problem
    >>> best = plan(problem("tiger"), tolerance=1e-6)
    >>> best.status, round(best.lower, 4), round(best.upper, 4), best.action([0.5, 0.5])
    ('closed', 1.0838, 1.0838, 0)
    """
    limits = Limits(time_limit, memory_limit)
    accuracy = Accuracy.of(tolerance, rtol, atol, model.setting.units)
    if memory_limit is not None and not memory_limit > 0.0:
        raise InvalidModelError(f"memory_limit is {memory_limit}: wanted a number of bytes above 0")
    begun = limits.seconds
    compile_if_long(model.setting, wait=time_limit is not None)
    limits.not_counting(limits.seconds - begun)
    job = _Job(accuracy, limits, max_points, max_work, progress)
    job.begin(model, warm_start)
    try:
        status = job.close(model)
    except LimitReached as reached:
        status = reached.status
    except (KeyboardInterrupt, SystemError) as stopped:
        # Compiled code turns a Ctrl-C into a SystemError with the interrupt as its cause.
        if isinstance(stopped, SystemError) and not isinstance(stopped.__cause__, KeyboardInterrupt):
            raise
        status = "interrupted"
    grid, controller = job.best()
    lower, upper = max(0.0, grid.bound), min(1.0, controller.bound)
    blind = min(attempt.blind for attempt in job.attempts)
    # Attempts that differ by next to nothing count as equal: what closed the gap may have been the other.
    if status == "closed" or upper - lower <= accuracy.allowed(lower, upper, blind):
        status = "closed" if upper - lower <= COARSE * at_stake(lower, upper, blind) else "coarse"
    assert status in get_args(Status)
    return Plan(
        status=status,  # type: ignore[arg-type]
        lower_cost=min(lower, upper),
        upper_cost=upper,
        blind_cost=blind,
        controller=controller,
        grid=grid,
        rounds=tuple(r for attempt in job.attempts for r in attempt.rounds),
        states=job.dynamics.states,
        n_states=model.n_states,
        units=model.setting.units,
        actions=model.setting.actions,
        fingerprint=model.fingerprint,
    )


class _Job:
    """One call of `plan`: what was tried so far, in order, and what to try next."""

    def __init__(
        self,
        accuracy: Accuracy,
        limits: Limits,
        max_points: int,
        max_work: float | None,
        progress: Callable[[Round], None] | None,
    ) -> None:
        self.accuracy = accuracy
        self.limits = limits
        self.max_points = max_points
        self.max_work = max_work
        self.progress = progress
        self.attempts: list[Bracket | StartBracket | SparseBracket] = []
        self.dynamics: BeliefDynamics

    def begin(self, model: POMDP, warm_start: Plan | None) -> None:
        """The first attempt: after it there are bounds, whenever planning is stopped."""
        if _is_small(model, self.limits):
            dynamics = Dynamics.of(model)
            self.dynamics, most = dynamics, min(self.max_points, _most_points(dynamics, self.limits))
            if warm_start is None:
                first: Bracket | SparseBracket = Bracket(dynamics, most, self.limits.expired)
            else:
                first = _warmed(dynamics, most, warm_start, self.accuracy, self.limits.expired)
        else:
            sparse = SparseDynamics.of(model, self.limits)
            self.dynamics = sparse
            first = SparseBracket(sparse, self.limits, self.max_points, self.max_work or np.inf)
            if warm_start is not None:
                check_warm_start(warm_start, sparse)
                first.start_from(warm_start.controller)
        self.attempts.append(first)

    def close(self, model: POMDP) -> str:
        """Rounds until the gap is within the tolerance, or a limit is reached, or nothing helps any more."""
        first = self.attempts[0]
        if isinstance(first, Bracket):
            return self._close(first)
        assert isinstance(first, SparseBracket)
        dense_too = _fits_as_arrays(first.dynamics, self.limits)
        status = first.close(self.accuracy, self._stop, self.progress, dense_too)
        if status != "stalled" or not dense_too:
            return status
        dynamics = Dynamics.of(model)
        self.limits.hold(_BYTES_AN_ENTRY * dynamics.joint.size)
        bracket = Bracket(
            dynamics, min(self.max_points, _most_points(dynamics, self.limits)), self.limits.expired
        )
        bracket.known = first.lower
        controller = first.search.best
        assert controller is not None
        bracket.search.evaluate(controller.actions, controller.successors, controller.vectors)
        self.attempts.append(bracket)
        status = self._close(bracket)
        if status not in ("stalled", "memory limit"):
            return status
        return first.close(self.accuracy, self._stop, self.progress, False)

    def _close(self, bracket: Bracket) -> str:
        """Bounds from any start, unless parts of the model are closed or those stall: then from its own."""
        apart = len(closed_classes(bracket.dynamics)) > 1
        if not apart:
            status = close(bracket, self.accuracy, self._stop, self.progress)
            if status != "stalled":
                return status
        most = _most_points(bracket.dynamics, self.limits, _BYTES_FROM_START)
        if most <= bracket.dynamics.n_states + len(bracket.dynamics.starts):
            return "memory limit"
        most = min(bracket.grid.most_points, most)
        from_start = StartBracket(bracket.dynamics, most, None if apart else bracket, self.limits.expired)
        self.attempts.append(from_start)
        status = close(from_start, self.accuracy, self._stop, self.progress)
        if not apart or status not in ("stalled", "memory limit"):
            return status
        return close(bracket, self.accuracy, self._stop, self.progress)

    def _stop(self) -> Status | None:
        if self.limits.expired():
            return "time limit"
        if self.max_work is not None and sum(each.work for each in self.attempts) >= self.max_work:
            return "work limit"
        return None

    def best(self) -> tuple[LowerCertificate | InformedCertificate, Controller]:
        """The certificates that prove most; from any start rather than from one, where that is as good."""
        first = self.attempts[0]
        grid, controller = first.certificate, first.controller
        if grid is None:
            assert isinstance(first, Bracket)
            first.grid.certify()
            grid = first.certificate
        assert grid is not None
        assert controller is not None
        for attempt in self.attempts[1:]:
            if attempt.certificate is not None and attempt.certificate.bound > grid.bound + SLACK:
                grid = attempt.certificate
            if attempt.controller is not None and attempt.controller.bound < controller.bound - SLACK:
                controller = attempt.controller
        return grid, controller


def check_warm_start(earlier: Plan, dynamics: BeliefDynamics) -> None:
    """Refuses a plan that is no start for planning with these dynamics."""
    from .verification import check_certificate  # which imports this module

    sizes = len(earlier.actions), earlier.controller.successors.shape[1], earlier.states
    if sizes != (dynamics.n_actions, dynamics.n_observations, dynamics.states):
        raise InvalidModelError("warm_start is a plan for a model of another shape")
    check_certificate(earlier, dynamics)


def _warmed(
    dynamics: Dynamics, most_points: int, earlier: Plan, accuracy: Accuracy, expired: Callable[[], bool]
) -> Bracket:
    """A bracket that begins where the earlier plan ended, or a cold one with the controller it found.

    The attempt is a round without new points; it is kept only where that leaves a gap which few points can
    close.
    """
    check_warm_start(earlier, dynamics)
    cold_work, best = 0.0, earlier.controller
    if isinstance(earlier.grid, LowerCertificate):
        warm = Bracket(dynamics, most_points, expired)
        tolerance = accuracy.allowed(earlier.lower_cost, earlier.upper_cost, warm.blind)
        warm.start_from(earlier.grid, earlier.controller)
        warm.grid.tighten(max(1e-11, 0.1 * tolerance), 20 * tolerance)
        warm.round(tolerance)
        if warm.gap <= max(10 * tolerance, 3 * earlier.gap):
            return warm
        assert warm.search.best is not None
        cold_work, best = warm.work, warm.search.best
    cold = Bracket(dynamics, most_points, expired)
    cold.grid.work = cold_work
    cold.search.evaluate(best.actions, best.successors, best.vectors)
    return cold


def _is_small(model: POMDP, limits: Limits) -> bool:
    """Whether one array M[a, o] and a grid of all vertices are the quickest start, and fit."""
    n_rows = model.n_actions * model.n_observations * model.n_states
    vertices = n_rows * (model.n_states + _FIRST_POINTS)
    return n_rows * model.n_states <= _SMALL and limits.fits(_BYTES_AN_ENTRY * vertices)


def _fits_as_arrays(dynamics: SparseDynamics, limits: Limits) -> bool:
    """Whether the same can be had after the sparse bounds."""
    n_rows = dynamics.n_actions * dynamics.n_observations * dynamics.n_states
    vertices = n_rows * (dynamics.n_states + _FIRST_POINTS)
    return n_rows * dynamics.n_states**2 <= _LARGEST_DENSE and limits.fits(2 * _BYTES_AN_ENTRY * vertices)


def compile_if_long(setting: Setting, wait: bool) -> None:
    """Have the planner compiled for models that take long where it is interpreted; `wait` for it, or not.

    A plan with a time limit waits before its clock starts, and an agent with one when it is made.
    """
    if setting.n_actions * setting.n_observations * setting.n_states**2 > _LARGE:
        compiled.PLANNING.hurry(wait)


def _most_points(dynamics: Dynamics, limits: Limits, bytes_an_entry: float = _BYTES_A_POINT) -> int:
    """How many points the grid may have for what its arrays take."""
    per_point = bytes_an_entry * dynamics.n_actions * dynamics.n_observations * dynamics.n_states
    room = min(MEMORY, _SHARE_OF_MEMORY * (limits.memory - limits.held))
    return max(dynamics.n_states + 1, int(room / per_point))
