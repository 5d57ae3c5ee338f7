"""`iterate`: rounds that raise the lower bound and lower the upper one until the gap is narrow enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .accuracy import Accuracy


@dataclass(frozen=True)
class Round:
    """The bounds after a round of planning, and what it took so far."""

    lower: float  # scaled cost
    upper: float  # scaled cost
    points: int  # of the lower bound's certificate
    nodes: int  # of the controller
    work: float  # counted operations since the beginning
    seconds: float  # since the beginning


class Bounds(Protocol):
    """A lower and an upper bound that rounds can bring nearer to one another."""

    rounds: list[Round]
    constant_cost: float  # upper bound on the average cost of the best constant action

    @property
    def lower(self) -> float:
        """The best proved lower bound on the optimal average cost, scaled to [0, 1]."""

    @property
    def upper(self) -> float:
        """The best proved upper bound on the optimal average cost, scaled to [0, 1]."""

    @property
    def gap(self) -> float:
        """The upper bound minus the lower bound."""

    @property
    def full(self) -> bool:
        """Whether there is no room for another point."""

    def run_round(self, tolerance: float, thorough: bool = False) -> None:
        """Tighten both bounds on the present points, as far as possible if `thorough`."""

    def refine(self) -> int:
        """Add points, and return how many."""

    def keep_all_coordinates(self) -> bool:
        """Stop dropping small coordinates of points; return whether any were dropped before."""

    def improve_upper_bound(self, tolerance: float) -> bool:
        """Search for controllers on the present points; return whether the gap became narrower."""


def iterate(
    bounds: Bounds,
    accuracy: Accuracy,
    stop: Callable[[], str | None],
    report: Callable[[Round], None] | None = None,
) -> str:
    """Run rounds until the gap is narrow enough, and return how that ended.

    Bounds that had rounds before are given more points first.

    Parameters
    ----------
    bounds
        The bounds to bring together.
    accuracy
        Says how narrow the gap has to be.
    stop
        Called after every round; a status that it returns ends the loop.
    report
        Called with every round.

    Returns
    -------
    str
        "closed", "stalled" where neither points nor controllers help any more, "memory limit" where the grid
        is full, or what `stop` returned.
    """
    thorough, resumed = False, bool(bounds.rounds)
    while True:
        tolerance = accuracy.allowed(bounds.lower, bounds.upper, bounds.constant_cost)
        if not resumed:
            bounds.run_round(tolerance, thorough)
            if report is not None:
                report(bounds.rounds[-1])
            tolerance = accuracy.allowed(bounds.lower, bounds.upper, bounds.constant_cost)
        resumed = False
        if bounds.gap <= tolerance:
            return "closed"
        reason = stop()
        if reason is not None:
            return reason
        if bounds.full:
            if not (bounds.keep_all_coordinates() or bounds.improve_upper_bound(tolerance)):
                return "memory limit"
        elif bounds.refine() > 0:
            thorough = False
        elif thorough and not bounds.improve_upper_bound(tolerance):
            return "stalled"
        else:
            thorough = True
