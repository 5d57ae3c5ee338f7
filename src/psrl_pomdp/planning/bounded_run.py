"""What a call of `plan` has in any case: its limits, all bounds so far, and the plan that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import get_args

from ..models import POMDP
from .accuracy import COARSE, Accuracy, at_stake
from .bound_pair import BoundPair
from .discounted import as_total, as_total_lower
from .dynamics import BeliefDynamics
from .limits import Limits
from .lower.certificate import LowerCertificate
from .lower.informed import InformedCertificate
from .multichain.bounds import MultichainBounds
from .parameters import PlannerParameters
from .plan_record import Status
from .rounds import Round
from .sensor_bracket import SensorBracket
from .solution import Plan
from .sparse.bound_pair import SparseBoundPair
from .upper.evaluation import Controller

Bounds = BoundPair | MultichainBounds | SparseBoundPair


class BoundedRun:
    """Base class of one call of `plan`.

    Parameters
    ----------
    accuracy
        The gap that is asked for.
    limits
        The limits of time and of memory.
    max_points
        The largest number of points of the lower bound.
    max_work
        The largest number of counted operations, or None.
    progress
        A function that is called after every round, or None.
    parameters
        The parameters of the planner.
    discount
        The weight of a step on the one before it; 1 for the average cost.
    """

    def __init__(
        self,
        accuracy: Accuracy,
        limits: Limits,
        max_points: int,
        max_work: float | None,
        progress: Callable[[Round], None] | None,
        parameters: PlannerParameters,
        discount: float = 1.0,
    ) -> None:
        self.accuracy = accuracy
        self.limits = limits
        self.max_points = max_points
        self.max_work = max_work
        self.progress = progress
        self.parameters = parameters
        self.discount = discount

    def _all_bounds(self) -> Sequence[Bounds]:
        """Return the bounds of all attempts so far, in order."""
        raise NotImplementedError

    def _stop(self) -> Status | None:
        """Return the limit that was reached, or None."""
        if self.limits.expired():
            return "time limit"
        if self.max_work is not None and sum(each.work for each in self._all_bounds()) >= self.max_work:
            return "work limit"
        return None

    def _plan_of(
        self,
        model: POMDP,
        status: str,
        grid: LowerCertificate | InformedCertificate,
        controller: Controller,
        about: tuple[BeliefDynamics, BeliefDynamics],
        bracket: SensorBracket | None = None,
    ) -> Plan:
        """Return the plan with the best certificates; `status` says how planning ended.

        `about` are the dynamics that the lower and the upper bound are about.
        """
        lower, upper = max(0.0, grid.bound), min(1.0, controller.bound)
        tried = self._all_bounds()
        constant_cost = min(bounds.constant_cost for bounds in tried)
        # Bounds that differ within rounding count as equal: another attempt may have closed the gap.
        if status == "closed" or upper - lower <= self.accuracy.allowed(lower, upper, constant_cost):
            coarse = upper - lower > COARSE * at_stake(lower, upper, constant_cost)
            status = "coarse" if coarse else "closed"
        assert status in get_args(Status)
        return Plan(
            status=status,  # type: ignore[arg-type]
            lower_cost=min(lower, upper),
            upper_cost=upper,
            blind_cost=constant_cost,
            controller=as_total(controller, about[1]),
            grid=as_total_lower(grid, about[0]),
            rounds=tuple(r for bounds in tried for r in bounds.rounds),
            states=about[1].states,
            n_states=model.n_states,
            units=model.setting.units,
            actions=model.setting.actions,
            fingerprint=model.fingerprint,
            bracket=bracket,
            discount=self.discount,
        )
