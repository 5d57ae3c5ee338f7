"""Check and rescale rows of probabilities in files.

Numbers in files are often rounded to six digits. Rows whose sums differ from one by up to 1e-5 are therefore
rescaled when a file is read. Some published files have rows that sum to .999: they are refused, unless the
caller accepts them with `normalize=True`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._utils.arrays import FILE_TOLERANCE, PYTHON_TOLERANCE, Array, Names, distributions, numbers
from ..errors import InvalidModelError

LARGEST_CORRECTION = 1e-2  # with normalize=True: largest difference from one of the sum of a row


class RowRule:
    """The tolerance for the sums of rows in one file, and the largest corrections that were made."""

    def __init__(self, normalize: bool = False) -> None:
        self.normalize = normalize
        self.tolerance = LARGEST_CORRECTION + 1e-9 if normalize else FILE_TOLERANCE
        self.corrections: dict[str, float] = {}  # the largest correction of each array

    def note(self, array: str, off: float) -> None:
        """Record that rows of `array`, whose sums differed from one by up to `off`, were rescaled."""
        if off > PYTHON_TOLERANCE:
            self.corrections[array] = max(off, self.corrections.get(array, 0.0))

    @property
    def remarks(self) -> list[str]:
        """The corrections as sentences for `POMDP.remarks`."""
        return [
            f"rows of {array} were off one by up to {off:.1g} and were renormalized"
            for array, off in self.corrections.items()
        ]

    def hint(self, off: float) -> str:
        """Return a hint about `normalize` for the error on rows whose sums differ from one by `off`."""
        if self.normalize:
            return f" (normalize rescales rows that are off by at most {LARGEST_CORRECTION:g})"
        if off <= LARGEST_CORRECTION + 1e-9:
            return " (normalize=True in Python, or --normalize, rescales such rows)"
        return ""

    def distributions(self, array: str, value: npt.ArrayLike, axes: str, names: Names) -> Array:
        """Return `value` as probability distributions along its last axis, rescaled within the tolerance."""
        rows = numbers(array, value, axes)
        off = float(np.abs(rows.sum(axis=-1) - 1.0).max())
        try:
            found = distributions(array, rows, axes, names, self.tolerance)
        except InvalidModelError as error:
            only_sums = np.isfinite(rows).all() and (rows >= 0).all()
            raise InvalidModelError(f"{error}{self.hint(off) if only_sums else ''}") from None
        self.note(array, off)
        return found


def unused_discount(discount: float) -> str:
    """Return the remark on the discount of a file."""
    return (
        f"discount {discount:g} was read; the average over time is optimized unless a discount is asked for"
    )
