"""`plan(model)`: an interval that holds the optimal average whenever it is stopped, and its proof."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import get_args

from .. import compiled
from ..errors import InvalidModelError
from ..model import POMDP
from .dynamics import Dynamics
from .loop import Bracket, Round, close
from .lower import SLACK, LowerCertificate
from .multichain import StartBracket
from .plans import MEMORY, Plan, Status
from .rooms import closed_classes
from .stopwatch import PLANNING
from .threads import ONE_THREAD
from .upper import Controller

MAX_POINTS = 40_000
_LARGE = 4000  # entries of M from which a round takes long where it is interpreted


@PLANNING.timed
@ONE_THREAD
def plan(
    model: POMDP,
    tolerance: float = 1e-4,
    time_limit: float | None = None,
    warm_start: Plan | None = None,
    *,
    max_points: int = MAX_POINTS,
    max_work: float | None = None,
    progress: Callable[[Round], None] | None = None,
) -> Plan:
    """Bounds on the optimal long-run average cost of `model`, and a policy that attains the upper one.

    Stops when the scaled gap is within `tolerance`, or at `time_limit` seconds, at `max_points` grid points,
    at `max_work` counted operations, or at Ctrl-C; the bounds hold whichever it was, and `status` says
    which. Without a time limit the same call gives the same plan, to the last bit on one platform.
    `progress` is called after every round. `warm_start`, an earlier plan for a nearby kernel of the same
    setting, saves most of the work where it is near; where it turns out not to be, planning starts afresh.

    >>> from psrl_pomdp import problem
    >>> best = plan(problem("tiger"), tolerance=1e-6)
    >>> best.status, round(best.lower, 4), round(best.upper, 4), best.action([0.5, 0.5])
    ('closed', 1.0838, 1.0838, 0)
    """
    if not 0.0 < tolerance <= 1.0:
        raise InvalidModelError(f"tolerance is {tolerance}: wanted a scaled gap above 0 and up to 1")
    dynamics = Dynamics.of(model)
    if dynamics.joint.size > _LARGE:  # compiling is on nobody's time limit
        compiled.PLANNING.hurry(wait=time_limit is not None)
    begun = time.monotonic()
    most_points = min(max_points, _most_points(dynamics))
    if warm_start is None:
        bracket = Bracket(dynamics, most_points)
    else:
        bracket = _warmed(dynamics, most_points, warm_start, tolerance)

    def expired() -> bool:
        return time_limit is not None and time.monotonic() - begun >= time_limit

    bracket.grid.expired = bracket.search.expired = expired
    attempts: list[Bracket | StartBracket] = []

    def stop() -> Status | None:
        if expired():
            return "time limit"
        if max_work is not None and sum(attempt.work for attempt in attempts) >= max_work:
            return "work limit"
        return None

    try:
        status = _close(attempts, bracket, tolerance, stop, expired, progress)
    except (KeyboardInterrupt, SystemError) as stopped:
        # Compiled code turns a Ctrl-C into a SystemError with the interrupt as its cause.
        if isinstance(stopped, SystemError) and not isinstance(stopped.__cause__, KeyboardInterrupt):
            raise
        status = "interrupted"
    if bracket.grid.best_certificate is None:
        bracket.grid.certify()
    grid, controller = _best(bracket, attempts)
    lower, upper = max(0.0, grid.bound), min(1.0, controller.bound)
    if upper - lower <= tolerance:
        status = "closed"
    assert status in get_args(Status)
    return Plan(
        status=status,  # type: ignore[arg-type]
        lower_cost=min(lower, upper),
        upper_cost=upper,
        controller=controller,
        grid=grid,
        rounds=tuple(r for attempt in attempts for r in attempt.rounds),
        states=dynamics.states,
        n_states=model.n_states,
        units=model.setting.units,
        actions=model.setting.actions,
        fingerprint=model.fingerprint,
    )


def _close(
    attempts: list[Bracket | StartBracket],
    bracket: Bracket,
    tolerance: float,
    stop: Callable[[], str | None],
    expired: Callable[[], bool],
    progress: Callable[[Round], None] | None,
) -> str:
    """Bounds from any start, unless parts of the model are closed or those stall: then from its own start."""
    apart = len(closed_classes(bracket.dynamics)) > 1
    if not apart:
        attempts.append(bracket)
        status = close(bracket, tolerance, stop, progress)
        if status != "stalled":
            return status
    from_start = StartBracket(bracket.dynamics, bracket.grid.most_points, None if apart else bracket)
    from_start.expired = expired
    attempts.append(from_start)
    status = close(from_start, tolerance, stop, progress)
    if not apart or status not in ("stalled", "memory limit"):
        return status
    attempts.append(bracket)
    return close(bracket, tolerance, stop, progress)


def _best(bracket: Bracket, attempts: list[Bracket | StartBracket]) -> tuple[LowerCertificate, Controller]:
    """The certificates that prove most; from any start rather than from one, where they prove the same."""
    grid, controller = bracket.grid.best_certificate, bracket.search.best
    assert grid is not None
    assert controller is not None
    for attempt in attempts:
        if isinstance(attempt, StartBracket):
            if attempt.certificate is not None and attempt.certificate.bound > grid.bound + SLACK:
                grid = attempt.certificate
            if attempt.controller is not None and attempt.controller.bound < controller.bound - SLACK:
                controller = attempt.controller
    return grid, controller


def _warmed(dynamics: Dynamics, most_points: int, earlier: Plan, tolerance: float) -> Bracket:
    """A bracket that begins where the earlier plan ended, or a cold one with the controller it found.

    The attempt is a round without new points; it is kept only where that leaves a gap which few points can
    close.
    """
    from .verification import check_certificate  # which imports this module

    shape = (dynamics.n_actions, dynamics.n_observations, dynamics.n_states)
    if (earlier.grid.basis.shape[1:], earlier.states) != (shape, dynamics.states):
        raise InvalidModelError("warm_start is a plan for a model of another shape")
    check_certificate(earlier, dynamics)
    warm = Bracket(dynamics, most_points)
    warm.start_from(earlier.grid, earlier.controller)
    warm.grid.tighten(max(1e-11, 0.1 * tolerance), 20 * tolerance)
    warm.round(tolerance)
    if warm.gap <= max(10 * tolerance, 3 * earlier.gap):
        return warm
    cold = Bracket(dynamics, most_points)
    cold.grid.work = warm.work
    best = warm.search.best
    assert best is not None
    cold.search.evaluate(best.actions, best.successors, best.vectors)
    return cold


def _most_points(dynamics: Dynamics) -> int:
    per_point = 2 * 20 * dynamics.n_actions * dynamics.n_observations * dynamics.n_states
    return max(dynamics.n_states + 1, int(MEMORY / per_point))
