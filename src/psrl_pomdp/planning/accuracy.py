"""How near to optimal a plan has to be, in shares of the cost's range and of what is at stake.

A gap of one hundredth of the cost's range is small where costs are alike, and ruinous where a rare event is
dear: the optimum itself may be a thousandth of the range. So a gap is also compared with what is at stake,

    stake = max(min(upper, 1 − lower), (blind − lower) / 100,000),

in scaled costs: the optimal cost, or its distance from the worst where gains are rare. Where the optimum is
nothing, no gap is a small share of it. Then the hundred-thousandth of what planning can gain over the best
constant action, of cost `blind`, stands in for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import InvalidModelError
from ..models.model import Units

COARSE = 0.2  # a gap that is a larger share of what is at stake makes a plan a coarse one
_LEAST = 1e-11  # a gap that rounding leaves no hope to close
_NEXT_TO_NOTHING = 1e-5


def at_stake(lower: float, upper: float, blind: float) -> float:
    """What a plan's gap is compared with; all are scaled costs."""
    return max(min(upper, 1.0 - lower), _NEXT_TO_NOTHING * (blind - lower), 10 * _LEAST)


@dataclass(frozen=True)
class Accuracy:
    """The widest gap that is narrow enough: `scaled`, and `relative` as a share of what is at stake."""

    scaled: float
    relative: float = math.inf

    @classmethod
    def of(cls, tolerance: float, rtol: float | None, atol: float | None, units: Units) -> Accuracy:
        """From what a user says: `atol` is in the user's units. Raises `InvalidModelError` for nonsense."""
        if not 0.0 < tolerance <= 1.0:
            raise InvalidModelError(f"tolerance is {tolerance}: wanted a scaled gap above 0 and up to 1")
        for name, value in (("rtol", rtol), ("atol", atol)):
            if value is not None and not value > 0.0:
                raise InvalidModelError(f"{name} is {value}: wanted above 0, or None for no such limit")
        scaled = tolerance if atol is None else min(tolerance, atol / (units.high - units.low))
        return cls(max(scaled, _LEAST), math.inf if rtol is None else rtol)

    def allowed(self, lower: float, upper: float, blind: float) -> float:
        """The widest gap that is narrow enough, given the bounds so far and the best constant action's."""
        return max(_LEAST, min(self.scaled, self.relative * at_stake(lower, upper, blind)))
