"""How well an agent plans, and at what cost."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import InvalidModelError
from ..models.model import POMDP
from ..planning import Plan, plan

Tolerance = Callable[[int], float]  # t_k -> ε_k

_MAY_BE_NONE = ("max_work", "time_limit", "rtol", "atol")
_ABOVE_ZERO = ("ceiling", "rtol", "atol")
_LARGEST = sys.float_info.max / 1e10  # stands for infinity in files, whose JSON has none

# Shares of what is at stake within which plans are made by default. A plan for a member of a finite set is
# made once and played many times; a sample from a continuous prior is itself off by more than its plan.
FINITE_RTOL, GENERAL_RTOL = 0.02, 0.1


def one_over(start: int) -> float:
    """ε_k = 1/t_k, which keeps the regret of a finite set at O(log T)."""
    return 1.0 / start


def one_over_root(start: int) -> float:
    """ε_k = 1/√t_k, which keeps the regret of the general case at Õ(T^(2/3))."""
    return float(1.0 / np.sqrt(start))


@dataclass(frozen=True)
class Effort:
    """How well to plan, and at what cost.

    A plan's gap is within ε_k, which is `tolerance(t_k)` but between `floor` and `ceiling`, in shares of the
    cost's range; within `rtol` as a share of what is at stake (`planning.accuracy`); and within `atol` in the
    user's units, such as euro a day. `max_work` counts operations, so that runs repeat; `time_limit` seconds
    are for use in front of a real system, where they need not. A number that makes no sense raises
    `InvalidModelError`.

    >>> Effort(rtol=0.05)             # within 5 % of what is at stake
    Effort(rtol=0.05)
    >>> Effort(atol=1.0)              # within one unit of cost a step
    Effort(atol=1.0)
    """

    tolerance: Tolerance | None = None  # 1/t_k for a finite set, 1/√t_k otherwise
    floor: float = 1e-6
    ceiling: float = 0.02
    max_work: float | None = 3e8
    max_points: int = 2000
    time_limit: float | None = None
    rtol: float | None = None  # .02 for a finite set, .1 otherwise; infinity for no such limit
    atol: float | None = None  # no such limit

    def __post_init__(self) -> None:
        """Check every number, and turn numpy's numbers into Python's, which files can hold."""
        for name, value in list(vars(self).items()):
            if name != "tolerance" and not (value is None and name in _MAY_BE_NONE):
                object.__setattr__(self, name, _checked(name, value))

    def at(self, start: int, rule: Tolerance) -> float:
        """ε_k for an episode that begins at `start`, by the user's rule or else by `rule`."""
        wanted = (self.tolerance or rule)(start)
        return float(min(self.ceiling, max(self.floor, wanted)))

    def planned(
        self, model: POMDP, tolerance: float, near: Plan | None = None, rtol: float = GENERAL_RTOL
    ) -> Plan:
        """A plan within these limits, begun from the plan `near`; `rtol` is for an effort without its own.

        Ctrl-C is passed on, not planned around.
        """
        found = plan(
            model,
            tolerance,
            self.time_limit,
            warm_start=near,
            rtol=self.rtol or rtol,
            atol=self.atol,
            max_work=self.max_work,
            max_points=self.max_points,
        )
        if found.status == "interrupted":
            raise KeyboardInterrupt
        return found

    def words(self) -> dict[str, float | None]:
        """For files: all but the tolerance, which is code."""
        return {
            name: value if value is None else min(value, _LARGEST)
            for name, value in vars(self).items()
            if name != "tolerance"
        }

    def __repr__(self) -> str:
        given = (f"{name}={value!r}" for name, value in vars(self).items() if value != getattr(Effort, name))
        return f"Effort({', '.join(given)})"


def _checked(name: str, value: float) -> float:
    """Return one number of an effort. Raises `InvalidModelError` for one that makes no sense."""
    whole = name == "max_points"
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if isinstance(value, kinds) and not isinstance(value, bool):
        found = int(value) if isinstance(value, int | np.integer) else float(value)
        if found >= whole and (found > 0 or name not in _ABOVE_ZERO):
            return math.inf if found >= _LARGEST and not whole else found
    wanted = "a whole number of at least 1" if whole else "a number of at least 0"
    raise InvalidModelError(
        f"effort.{name} is {value!r}: wanted {'above 0' if name in _ABOVE_ZERO else wanted}"
    )
