"""The planning budget of an agent: how small the gap of a plan must be, and the limits of planning work."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._utils.deprecation import renamed_keywords
from ..errors import InvalidModelError
from ..models import POMDP
from ..planning import Plan, plan

Tolerance = Callable[[int], float]  # t_k -> ε_k

_MAY_BE_NONE = ("max_work", "time_limit", "rtol", "atol")
_ABOVE_ZERO = ("max_tolerance", "rtol", "atol")
_IN_FILES = {"min_tolerance": "floor", "max_tolerance": "ceiling"}
_LARGEST = sys.float_info.max / 1e10  # represents infinity in files, because JSON has no infinity

# The default limits of the gap, relative to the reference value. A plan for a kernel of a finite set is
# computed once and used many times. A sample from a continuous prior has a larger error than its plan. If
# observations have a density, the gap includes the distance between the two finite observation models that
# prove the bounds; the policy uses exact beliefs, for which its bound is not tight.
FINITE_RTOL, GENERAL_RTOL, DENSITY_RTOL = 0.02, 0.1, 0.2


def one_over(start: int) -> float:
    """Return ε_k = 1/t_k, which keeps the regret for a finite set at O(log T)."""
    return 1.0 / start


def one_over_root(start: int) -> float:
    """Return ε_k = 1/√t_k, which keeps the regret of the general case at Õ(T^(2/3))."""
    return float(1.0 / np.sqrt(start))


@dataclass(frozen=True)
class PlanningBudget:
    """Tolerance and work limits of the planner, for each episode of an agent.

    The gap of a plan must be at most ε_k, as a fraction of the cost range; at most `rtol` of the reference
    value (`planning.accuracy`); and at most `atol` in the user's units.

    Parameters
    ----------
    tolerance
        A function t_k -> ε_k; None is 1/t_k for a finite prior and 1/√t_k for any other.
    min_tolerance, max_tolerance
        ε_k is clipped to [min_tolerance, max_tolerance].
    max_work
        The largest number of operations per plan. Runs with this limit alone can be repeated to the last bit.
    max_points
        The largest number of beliefs in the grid of the lower bound.
    time_limit
        Seconds per plan, for the control of a real system. Runs with this limit cannot be repeated exactly.
    rtol, atol
        Further limits of the gap. None means 0.02 (finite prior) or 0.1 for `rtol`, and no limit for `atol`.

    Raises
    ------
    InvalidModelError
        For a number that is negative, not a number or of the wrong kind.

    >>> PlanningBudget(rtol=0.05)             # within 5 % of the reference value
    PlanningBudget(rtol=0.05)
    >>> PlanningBudget(atol=1.0)              # within one unit of cost per step
    PlanningBudget(atol=1.0)
    """

    tolerance: Tolerance | None = None
    min_tolerance: float = 1e-6
    max_tolerance: float = 0.02
    max_work: float | None = 3e8
    max_points: int = 2000
    time_limit: float | None = None
    rtol: float | None = None
    atol: float | None = None

    def __post_init__(self) -> None:
        """Check every number, and convert numpy's numbers to Python's, which can be stored in files."""
        for name, value in list(vars(self).items()):
            if name != "tolerance" and not (value is None and name in _MAY_BE_NONE):
                object.__setattr__(self, name, _checked(name, value))

    def tolerance_at(self, start: int, default: Tolerance) -> float:
        """Return ε_k for the episode that starts at `start`; `default` is for a budget without a rule."""
        wanted = (self.tolerance or default)(start)
        return float(min(self.max_tolerance, max(self.min_tolerance, wanted)))

    def solve(
        self, model: POMDP, tolerance: float, warm_start: Plan | None = None, rtol: float = GENERAL_RTOL
    ) -> Plan:
        """Return a plan for `model` within this budget; `rtol` is for a budget without one.

        Ctrl-C raises `KeyboardInterrupt`; no plan is returned then.
        """
        found = plan(
            model,
            tolerance,
            self.time_limit,
            warm_start=warm_start,
            rtol=self.rtol or rtol,
            atol=self.atol,
            max_work=self.max_work,
            max_points=self.max_points,
        )
        if found.status == "interrupted":
            raise KeyboardInterrupt
        return found

    def to_dict(self) -> dict[str, float | None]:
        """Return the numbers for a file, by the names that files of version 0.1 have too.

        The tolerance function is code and is not stored.
        """
        return {
            _IN_FILES.get(name, name): value if value is None else min(value, _LARGEST)
            for name, value in vars(self).items()
            if name != "tolerance"
        }

    @classmethod
    def from_dict(cls, numbers: Mapping[str, Any], tolerance: Tolerance | None = None) -> PlanningBudget:
        """Return the budget that `to_dict` wrote, with a tolerance function, which no file holds."""
        present = {old: new for new, old in _IN_FILES.items()}
        return cls(tolerance, **{present.get(name, name): value for name, value in numbers.items()})

    def __repr__(self) -> str:
        defaults = {field.name: field.default for field in fields(self)}
        given = (f"{name}={value!r}" for name, value in vars(self).items() if value != defaults[name])
        return f"PlanningBudget({', '.join(given)})"


class Effort(PlanningBudget):
    """The name of `PlanningBudget` in version 0.1, with its keywords `floor` and `ceiling`. Deprecated."""

    @renamed_keywords(floor="min_tolerance", ceiling="max_tolerance")
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)

    @property
    def floor(self) -> float:
        """`min_tolerance`."""
        return self.min_tolerance

    @property
    def ceiling(self) -> float:
        """`max_tolerance`."""
        return self.max_tolerance


def _checked(name: str, value: float) -> float:
    """Return one number of a budget. Raises `InvalidModelError` if it is out of range."""
    whole = name == "max_points"
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if isinstance(value, kinds) and not isinstance(value, bool):
        found = int(value) if isinstance(value, int | np.integer) else float(value)
        if found >= whole and (found > 0 or name not in _ABOVE_ZERO):
            return math.inf if found >= _LARGEST and not whole else found
    wanted = "a whole number of at least 1" if whole else "a number of at least 0"
    raise InvalidModelError(
        f"budget.{name} is {value!r}: wanted {'above 0' if name in _ABOVE_ZERO else wanted}"
    )
