"""Rows of probabilities in files: how far from one they may sum, and what is said of those rescaled.

People round to six digits, so that rows off by up to 1e-5 are rescaled as they are read. Some published files
have rows that sum to .999: those are refused, unless the caller asks for them with `normalize=True`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._utils.arrays import FILE_TOLERANCE, PYTHON_TOLERANCE, Array, Names, distributions, numbers
from ..errors import InvalidModelError

LARGEST_CORRECTION = 1e-2  # of a row, with normalize=True


class RowRule:
    """How far the rows of one file may be from summing to one, and how far they were."""

    def __init__(self, normalize: bool = False) -> None:
        self.normalize = normalize
        self.tolerance = LARGEST_CORRECTION + 1e-9 if normalize else FILE_TOLERANCE
        self.corrections: dict[str, float] = {}  # the largest for each array

    def note(self, array: str, off: float) -> None:
        """Remember that rows of `array` were off one by up to `off` and are rescaled."""
        if off > PYTHON_TOLERANCE:
            self.corrections[array] = max(off, self.corrections.get(array, 0.0))

    @property
    def remarks(self) -> list[str]:
        """What a reader of the model should know about its rows."""
        return [
            f"rows of {array} were off one by up to {off:.1g} and were renormalised"
            for array, off in self.corrections.items()
        ]

    def hint(self, off: float) -> str:
        """Return what to add to the refusal of a row that is off one by `off`."""
        if self.normalize:
            return f" (normalize rescales rows that are off by at most {LARGEST_CORRECTION:g})"
        if off <= LARGEST_CORRECTION + 1e-9:
            return " (normalize=True in Python, or --normalize, rescales such rows)"
        return ""

    def distributions(self, array: str, value: npt.ArrayLike, axes: str, names: Names) -> Array:
        """Return `value` as probability distributions along its last axis, rescaled within the rule."""
        rows = numbers(array, value, axes)
        off = float(np.abs(rows.sum(axis=-1) - 1.0).max())
        try:
            found = distributions(array, rows, axes, names, self.tolerance)
        except InvalidModelError as error:
            only_sums = np.isfinite(rows).all() and (rows >= 0).all()
            raise InvalidModelError(f"{error}{self.hint(off) if only_sums else ''}") from None
        self.note(array, off)
        return found
