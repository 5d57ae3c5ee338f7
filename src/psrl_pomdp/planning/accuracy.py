"""The requested gap: as a fraction of the cost range, and as a fraction of the reference value.

A gap of one hundredth of the cost range is small if the optimal average cost has the size of the cost range.
If an expensive event is rare, the optimum itself may be a thousandth of the range, and the gap is useless. So
a gap is also compared with the reference value, which messages call what is at stake,

    stake = max(min(upper, 1 − lower), (constant − lower) / 100,000),

in scaled costs. The first term is the optimal cost, or its distance from the highest cost. If the optimum is
zero, no gap is a small fraction of it, and the second term applies: a hundred-thousandth of what planning can
gain over the best constant action, whose average cost is `constant`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import InvalidModelError
from ..models import Units

COARSE = 0.2  # a plan whose gap is a larger share of what is at stake is a coarse one
MIN_GAP = 1e-11  # scaled gap below which rounding leaves no hope to close it
NEGLIGIBLE_SHARE = 1e-5  # of what planning gains over the best constant action


def at_stake(lower: float, upper: float, constant_cost: float) -> float:
    """Return the cost that a plan's gap is compared with; all costs are scaled to [0, 1]."""
    return max(min(upper, 1.0 - lower), NEGLIGIBLE_SHARE * (constant_cost - lower), 10 * MIN_GAP)


@dataclass(frozen=True)
class Accuracy:
    """The largest gap that is accepted: `scaled`, and `relative` as a fraction of the reference value."""

    scaled: float
    relative: float = math.inf

    @classmethod
    def of(cls, tolerance: float, rtol: float | None, atol: float | None, units: Units) -> Accuracy:
        """Return the accuracy that the arguments of `plan` ask for.

        Parameters
        ----------
        tolerance
            Widest scaled gap, above 0 and up to 1.
        rtol
            Largest gap as a fraction of the reference value, or None.
        atol
            Widest gap in the user's units, or None.
        units
            The user's units.

        Raises
        ------
        InvalidModelError
            An argument is out of its range.
        """
        if not 0.0 < tolerance <= 1.0:
            raise InvalidModelError(f"tolerance is {tolerance}: expected a scaled gap above 0 and up to 1")
        for name, value in (("rtol", rtol), ("atol", atol)):
            if value is not None and not value > 0.0:
                raise InvalidModelError(
                    f"{name} is {value}: expected a number above 0, or None for no such limit"
                )
        scaled = tolerance if atol is None else min(tolerance, atol / (units.high - units.low))
        return cls(max(scaled, MIN_GAP), math.inf if rtol is None else rtol)

    def allowed(self, lower: float, upper: float, constant_cost: float) -> float:
        """Return the widest gap that is narrow enough for these bounds and constant actions."""
        return max(MIN_GAP, min(self.scaled, self.relative * at_stake(lower, upper, constant_cost)))
