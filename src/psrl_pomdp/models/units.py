"""The scale of costs: the user's numbers, and the model's costs in [0, 1]."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from ..errors import InvalidModelError

Kind = Literal["cost", "reward"]


_RATE = re.compile(r"(?<=\S)(?: (?:a|an|per|each|every) | ?/ ?)\w+$")  # matches " a day" in "euro a day"


@dataclass(frozen=True)
class Units:
    """The affine map between the user's costs or rewards and the model's costs in [0, 1].

    Parameters
    ----------
    low, high
        The user's numbers at the ends of the range. For costs, `low` is cost 0 and `high` is cost 1; for
        rewards, `high` is cost 0 and `low` is cost 1.
    kind
        `"cost"` if the user's numbers are costs, `"reward"` if they are rewards.
    name
        The unit of measurement of the user's numbers, such as "euro a day".

    Raises
    ------
    InvalidModelError
        If `kind` is neither `"cost"` nor `"reward"`, `name` is not a string, `low` or `high` is not a number,
        or `high` − `low` is not positive and finite.

    >>> money = Units(low=10.0, high=810.0, name="euro a day")
    >>> float(money.from_scaled(0.5)), float(money.to_scaled(10.0))
    (410.0, 0.0)
    >>> float(Units(low=-100.0, high=10.0, kind="reward").from_scaled(0.1))
    -1.0
    """

    low: float = 0.0
    high: float = 1.0
    kind: Kind = "cost"
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ("cost", "reward"):
            raise InvalidModelError(f"units.kind is {self.kind!r}, not 'cost' or 'reward'")
        if not isinstance(self.name, str):
            raise InvalidModelError(f"units.name is {self.name!r}, not a string")
        for end in ("low", "high"):
            value = getattr(self, end)
            if not isinstance(value, int | float | np.integer | np.floating):
                raise InvalidModelError(f"units.{end} is {value!r}, not a number")
            object.__setattr__(self, end, float(value))
        # An infinite width is refused too, because it is the result of an overflow.
        if not 0.0 < self.high - self.low < np.inf:
            raise InvalidModelError(
                f"units.low is {self.low:g} and units.high is {self.high:g}: "
                "high - low must be positive and finite"
            )

    @classmethod
    def spanning(cls, values: Array, kind: Kind = "cost", name: str = "") -> Units:
        """Return units for the user's numbers `values`.

        If all values lie in [0, 1], the units do not rescale; otherwise they span the range of the values.
        """
        low, high = float(values.min()), float(values.max())
        if low >= 0.0 and high <= 1.0:
            return cls(kind=kind, name=name)
        if low == high:  # a constant becomes cost 0; the width of the range is the constant's own size
            width = max(1.0, abs(low))
            low, high = (low, low + width) if kind == "cost" else (high - width, high)
        return cls(low, high, kind, name)

    @property
    def total_name(self) -> str:
        """The unit of sums over steps, such as regret: `name` without a rate such as "a day".

        >>> Units(name="euro a day").total_name, Units(name="euro").total_name, Units(name="km/h").total_name
        ('euro', 'euro', 'km')
        """
        return _RATE.sub("", self.name)

    @property
    def average_name(self) -> str:
        """The unit of averages over steps: `name`, with "a step" added if it contains no rate.

        >>> Units(name="euro a day").average_name, Units(name="euro").average_name, Units().average_name
        ('euro a day', 'euro a step', '')
        """
        return f"{self.name} a step" if self.name and not _RATE.search(self.name) else self.name

    def to_scaled(self, value: npt.ArrayLike) -> Array:
        """Return the model's cost in [0, 1] for a number of the user's."""
        value = np.asarray(value, dtype=np.float64)
        distance = value - self.low if self.kind == "cost" else self.high - value
        return np.asarray(distance / (self.high - self.low))

    def from_scaled(self, cost: npt.ArrayLike) -> Array:
        """Return the user's number for a cost of the model. The result is exact at both ends of the range."""
        cost = np.asarray(cost, dtype=np.float64)
        best, worst = (self.low, self.high) if self.kind == "cost" else (self.high, self.low)
        return np.asarray((1.0 - cost) * best + cost * worst)

    def difference(self, cost: npt.ArrayLike) -> Array:
        """Return a difference of costs, such as regret, in the user's units.

        A positive difference is a worse result, for costs and for rewards.
        """
        return np.asarray(np.asarray(cost, dtype=np.float64) * (self.high - self.low))
