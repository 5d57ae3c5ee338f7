"""`plan(model)`: an interval that holds the optimal average whenever it is stopped, and its proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._numba import jit as compiled
from .._utils.stopwatch import PLANNING
from .._utils.threads import ONE_THREAD
from ..errors import InvalidModelError
from ..models import POMDP, Setting
from ..models.structure import reachable_states
from ..protocols import Solution
from ..sensors.estimated import estimated, has_bounds
from .accuracy import Accuracy
from .bound_pair import BoundPair
from .bounded_run import BoundedRun, Bounds
from .continuous import FIRST_CELLS, ContinuousRun
from .discounted import checked_discount, total_units
from .dynamics import BeliefDynamics, Dynamics
from .limits import LimitReached, Limits
from .lower.certificate import SLACK, LowerCertificate
from .lower.informed import InformedCertificate
from .multichain.bounds import MultichainBounds
from .multichain.closed_classes import closed_classes
from .parameters import PlannerParameters
from .rounds import Round, iterate
from .sensor_bracket import SensorEstimate
from .solution import Plan
from .sparse.bound_pair import SparseBoundPair
from .sparse.dynamics import SparseDynamics
from .upper.evaluation import Controller
from .verification import check_certificate

MAX_POINTS = 40_000
PARAMETERS = PlannerParameters()


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
    discount: float | None = None,
    max_points: int = MAX_POINTS,
    max_work: float | None = None,
    memory_limit: float | None = None,
    progress: Callable[[Round], None] | None = None,
) -> Plan:
    """Bound the optimal average cost or discounted total of a model, and find a policy that attains a bound.

    Planning stops when the gap between the bounds satisfies all requests, at one of the limits below, or at
    Ctrl-C. The bounds are valid in every case, and `status` states why planning stopped. Without a time
    limit, the same call returns the same plan, to the last bit on one platform.

    If observations are vectors, or their density is code, the probabilities of classes of observations are
    estimated, and so are the bounds: the status is "estimated", and `verify` raises `CertificateError`.

    Parameters
    ----------
    model
        The model.
    tolerance
        The largest gap, as a fraction of the cost range; with a discount, of the range of discounted totals.
    time_limit
        Seconds from the start of the call. The time for compilation, which happens once for each
        installation, is not counted.
    warm_start
        An earlier plan for a similar kernel in the same setting. It saves most of the work if the kernels are
        close; if they are not, planning starts from the beginning.
    rtol
        The largest gap, as a fraction of the reference value (`planning.accuracy`), or None.
    atol
        The largest gap in the user's units, or None.
    discount
        The weight of a step on the one before it, above 0 and below 1. The bounds are then on the optimal
        discounted total from the initial distribution. By default they are on the optimal average cost.
    max_points
        The largest number of points of the lower bound.
    max_work
        The largest number of counted operations.
    memory_limit
        The largest total size in bytes of the arrays of the planner, without the model; 4 GB by default. If
        dense arrays are too large, the planner uses sparse arrays.
    progress
        A function that is called after every round.

    Returns
    -------
    Plan
        The bounds with their certificates, and the policy.

    Raises
    ------
    InvalidModelError
        If an argument is out of its range, or `warm_start` is for a model of another size.

    Examples
    --------
    >>> from psrl_pomdp import problem
    >>> best = plan(problem("tiger"), tolerance=1e-6)
    >>> best.status, round(best.lower, 4), round(best.upper, 4), best.action([0.5, 0.5])
    ('closed', 1.0838, 1.0838, 0)
    >>> total = plan(problem("tiger"), tolerance=1e-7, discount=0.95)
    >>> round(total.lower, 3), round(total.upper, 3)
    (19.371, 19.371)
    """
    limits = Limits(time_limit, memory_limit)
    gamma = checked_discount(discount)
    accuracy = Accuracy.of(tolerance, rtol, atol, total_units(model.setting.units, gamma))
    if memory_limit is not None and not memory_limit > 0.0:
        raise InvalidModelError(f"memory_limit is {memory_limit}: expected a number of bytes above 0")
    if not has_bounds(model.setting.sensor, model.setting.first_sensor):
        return _estimated_plan(
            model, tolerance, time_limit, rtol=rtol, atol=atol, discount=discount, max_points=max_points,
            max_work=max_work, memory_limit=memory_limit, progress=progress,
        )  # fmt: skip
    begun = limits.seconds
    compile_if_long(model.setting, wait=time_limit is not None)
    limits.exclude_time(limits.seconds - begun)
    kind = PlanningRun if model.setting.is_finite else ContinuousRun
    run = kind(accuracy, limits, max_points, max_work, progress, PARAMETERS, gamma)
    run.begin(model, warm_start)
    try:
        status = run.iterate(model)
    except LimitReached as reached:
        status = reached.status
    except (KeyboardInterrupt, SystemError) as stopped:
        # Compiled code turns a Ctrl-C into a SystemError with the interrupt as its cause.
        if isinstance(stopped, SystemError) and not isinstance(stopped.__cause__, KeyboardInterrupt):
            raise
        status = "interrupted"
    return run.result(model, status)


def _estimated_plan(model: POMDP, *arguments: Any, **options: Any) -> Plan:
    """Plan for classes of observations whose probabilities are estimated."""
    setting = model.setting
    cells = estimated(setting.sensor, setting.first_sensor)
    finite = setting.replace(observation=cells.table, first_observation=cells.first_table)
    found = plan(POMDP(finite, model.transition), *arguments, **options)
    status = found.status if found.status == "interrupted" else "estimated"
    estimate = SensorEstimate(finite, cells)
    return replace(found, status=status, fingerprint=model.fingerprint, estimate=estimate)


def usable_start(earlier: Solution | None, model: POMDP) -> Plan | None:
    """Return an earlier solution from which `plan` can start for this model, or None.

    Planning starts from the vectors and the certificates of a `Plan`, on the same reachable states. Solutions
    of other planners have none, so that the class decides here.
    """
    if not isinstance(earlier, Plan) or earlier.states != reachable_states(model):
        return None
    return earlier


class PlanningRun(BoundedRun):
    """One call of `plan` for a finite sensor: the attempts so far, in order, and what to try next."""

    attempts: list[Bounds]
    dynamics: BeliefDynamics

    def _all_bounds(self) -> Sequence[Bounds]:
        return self.attempts

    def begin(self, model: POMDP, warm_start: Plan | None) -> None:
        """Make the first attempt, which has bounds from the first moment on."""
        self.attempts = []
        if self._begins_dense(model):
            dynamics = Dynamics.of(model, discount=self.discount)
            self.dynamics = dynamics
            if warm_start is None:
                first: BoundPair | SparseBoundPair = self._dense_bounds(dynamics)
            else:
                first = self._warm_started(dynamics, warm_start)
        else:
            sparse = SparseDynamics.of(model, self.limits, self.discount)
            self.dynamics = sparse
            first = SparseBoundPair(
                sparse, self.limits, self.max_points, self.max_work or np.inf, self.parameters
            )
            if warm_start is not None:
                check_warm_start(warm_start, sparse)
                first.warm_start(warm_start.controller)
        self.attempts.append(first)

    def iterate(self, model: POMDP) -> str:
        """Run rounds until the gap is narrow enough, and return how that ended."""
        first = self.attempts[0]
        if isinstance(first, BoundPair):
            return self._iterate_dense(first)
        assert isinstance(first, SparseBoundPair)
        dense_too = self._may_go_on_dense(first.dynamics)
        status = first.iterate(self.accuracy, self._stop, self.progress, dense_too)
        if status != "stalled" or not dense_too:
            return status
        dynamics = Dynamics.of(model, discount=self.discount)
        self.limits.reserve(self.parameters.representation.bytes_per_entry * dynamics.joint.size)
        bounds = self._dense_bounds(dynamics)
        bounds.external_lower = first.lower
        controller = first.search.best
        assert controller is not None
        bounds.search.evaluate(controller.actions, controller.successors, controller.vectors)
        self.attempts.append(bounds)
        status = self._iterate_dense(bounds)
        if status not in ("stalled", "memory limit"):
            return status
        return first.iterate(self.accuracy, self._stop, self.progress, False)

    def _iterate_dense(self, bounds: BoundPair) -> str:
        """Run rounds for bounds from any start; for bounds from the model's start if they cannot meet."""
        if bounds.dynamics.restart:  # all starts have the same gain
            return iterate(bounds, self.accuracy, self._stop, self.progress)
        several_classes = len(closed_classes(bounds.dynamics)) > 1
        if not several_classes:
            status = iterate(bounds, self.accuracy, self._stop, self.progress)
            if status != "stalled":
                return status
        per_weight = self.parameters.representation.bytes_per_multichain_weight
        most = self._most_points(bounds.dynamics, per_weight)
        if most <= bounds.dynamics.n_states + len(bounds.dynamics.starts):
            return "memory limit"
        most = min(bounds.grid.most_points, most)
        any_start = None if several_classes else bounds
        from_start = MultichainBounds(bounds.dynamics, most, any_start, self.limits.expired, self.parameters)
        self.attempts.append(from_start)
        status = iterate(from_start, self.accuracy, self._stop, self.progress)
        if several_classes or status not in ("stalled", "memory limit"):
            return status
        return iterate(bounds, self.accuracy, self._stop, self.progress)

    def result(self, model: POMDP, status: str) -> Plan:
        """Return the plan with the best certificates; `status` says how planning ended."""
        grid, controller = self._best()
        return self._plan_of(model, status, grid, controller, (self.dynamics, self.dynamics))

    def _best(self) -> tuple[LowerCertificate | InformedCertificate, Controller]:
        """Return the certificates that prove most; of equal ones the first, which hold from any start."""
        first = self.attempts[0]
        grid, controller = first.certificate, first.controller
        if grid is None:
            assert isinstance(first, BoundPair)
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

    # -- which arrays fit -----------------------------------------------------------------------

    def _begins_dense(self, model: POMDP) -> bool:
        """Return whether M as one array and a grid of all vertices are the quickest start, and fit."""
        p = self.parameters.representation
        n_rows = model.n_actions * model.setting.n_joint_observations * model.n_states
        vertices = n_rows * (model.n_states + self.parameters.grid.initial_points)
        most = p.dense_entries * (p.discounted_ratio if self.discount < 1.0 else 1.0)
        return n_rows * model.n_states <= most and self.limits.fits(p.bytes_per_entry * vertices)

    def _may_go_on_dense(self, dynamics: SparseDynamics) -> bool:
        """Return whether such arrays may follow the sparse bounds."""
        p = self.parameters.representation
        n_rows = dynamics.n_actions * dynamics.n_observations * dynamics.n_states
        vertices = n_rows * (dynamics.n_states + self.parameters.grid.initial_points)
        fits = self.limits.fits(2 * p.bytes_per_entry * vertices)
        return n_rows * dynamics.n_states**2 <= p.dense_work and fits

    def _most_points(self, dynamics: Dynamics, bytes_per_weight: float) -> int:
        """Return how many points the grid may have for what its arrays take."""
        p = self.parameters.representation
        per_point = bytes_per_weight * dynamics.n_actions * dynamics.n_observations * dynamics.n_states
        memory = self.limits.memory - self.limits.reserved
        available = min(p.grid_memory, p.grid_memory_share * memory)
        return max(dynamics.n_states + 1, int(available / per_point))

    # -- dense bounds ---------------------------------------------------------------------------

    def _dense_bounds(self, dynamics: Dynamics) -> BoundPair:
        """Return bounds on dense arrays, with as many points as are allowed and fit."""
        most = self._most_points(dynamics, self.parameters.representation.bytes_per_weight)
        return BoundPair(dynamics, min(self.max_points, most), self.limits.expired, self.parameters)

    def _warm_started(self, dynamics: Dynamics, earlier: Plan) -> BoundPair:
        """Return bounds that begin where the earlier plan ended, or fresh ones with the controller it found.

        A round without new points is tried; its bounds are returned only if they leave a gap that few
        points can close.
        """
        check_warm_start(earlier, dynamics)
        spent, best = 0.0, earlier.controller
        if isinstance(earlier.grid, LowerCertificate):
            warm = self._dense_bounds(dynamics)
            tolerance = self.accuracy.allowed(earlier.lower_cost, earlier.upper_cost, warm.constant_cost)
            warm.warm_start(earlier.grid, earlier.controller)
            warm.grid.tighten(max(1e-11, 0.1 * tolerance), 20 * tolerance)
            warm.run_round(tolerance)
            if warm.gap <= max(10 * tolerance, 3 * earlier.gap):
                return warm
            assert warm.search.best is not None
            spent, best = warm.work, warm.search.best
        cold = self._dense_bounds(dynamics)
        cold.grid.work = spent
        cold.search.evaluate(best.actions, best.successors, best.vectors)
        return cold


def check_warm_start(earlier: Plan, dynamics: BeliefDynamics) -> None:
    """Raise `InvalidModelError` for a plan that cannot be the start of planning with these dynamics."""
    sizes = len(earlier.actions), earlier.controller.successors.shape[1], earlier.states
    if sizes != (dynamics.n_actions, dynamics.n_observations, dynamics.states) or earlier.bracket is not None:
        raise InvalidModelError("warm_start is a plan for a model of another shape")
    check_certificate(earlier, dynamics)


def compile_if_long(setting: Setting, wait: bool) -> None:
    """Have the planner compiled if the model is large; `wait` for it, or go on interpreted until it is ready.

    A plan with a time limit waits before its clock starts, and an agent with one when it is made.
    """
    finite = setting.is_finite
    n_costs = 1 if setting.seen_cost is None else setting.seen_cost.n_values
    n_observations = setting.n_joint_observations if finite else FIRST_CELLS * setting.n_states * n_costs
    entries = setting.n_actions * n_observations * setting.n_states**2
    if entries > PARAMETERS.representation.interpreted_entries:
        compiled.PLANNING.hurry(wait)
