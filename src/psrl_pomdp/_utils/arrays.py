"""Checks of arrays: finite numbers, rows that are probability distributions, read-only copies.

A failed check raises `InvalidModelError` with the name of the entry, `transition[a=2, s=5]`, or
`transition[a=replace, s=worn]` if the states and actions have names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import InvalidModelError

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]  # numbers of states, actions, observations or nodes, and counts
Bases = npt.NDArray[np.int32]  # numbers of grid points
Codes = npt.NDArray[np.unsignedinteger]  # such numbers in small unsigned types
Mask = npt.NDArray[np.bool_]
States = tuple[int, ...]  # one entry per state, so that the compiler knows the number of states

PYTHON_TOLERANCE = 1e-9  # tolerance for the sums of rows of arrays from Python
FILE_TOLERANCE = 1e-5  # tolerance for the sums of rows in files, which are often rounded to six digits

# Rows whose sums are this close to one are not changed, so that normalizing is idempotent to the last bit.
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Names:
    """Optional names of states, actions and observations, which error messages use.

    >>> Names(actions=("run", "replace")).entry("transition", "as", (1, 5))
    'transition[a=replace, s=5]'
    """

    states: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None
    observations: tuple[str, ...] | None = None

    def state(self, index: int) -> str:
        return _label(self.states, index)

    def action(self, index: int) -> str:
        return _label(self.actions, index)

    def observation(self, index: int) -> str:
        return _label(self.observations, index)

    def entry(self, array: str, axes: str, index: Sequence[int]) -> str:
        """Return `array[a=.., s=..]` with a letter of `axes` per index; `t` is the next state s′."""
        named = {"s": self.states, "t": self.states, "a": self.actions, "o": self.observations}
        parts = (
            f"{'s′' if axis == 't' else axis}={_label(named.get(axis), i)}"
            for axis, i in zip(axes, index, strict=False)
        )
        inside = ", ".join(parts)
        return f"{array}[{inside}]" if inside else array


def _label(names: tuple[str, ...] | None, index: int) -> str:
    return str(index) if names is None else names[index]


def checked_names(what: str, names: object, count: int) -> tuple[str, ...] | None:
    """Return names as a tuple, after a check that they are `count` distinct nonempty strings."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidModelError(f"{what} is {names!r}, not a list of names")
    checked = tuple(names)
    for position, name in enumerate(checked):
        if not isinstance(name, str) or not name.strip():
            raise InvalidModelError(f"{what}[{position}] is {name!r}, not a name")
    if len(checked) != count:
        raise InvalidModelError(f"{what} has {len(checked)} names, but the model has {count} {what}")
    if len(set(checked)) != count:
        twice = Counter(checked).most_common(1)[0][0]
        raise InvalidModelError(f"{what} has the name {twice!r} twice")
    return checked


def frozen(array: Array) -> Array:
    """Return a read-only, C-contiguous float64 copy of an array, without negative zeros."""
    copy = np.array(array, dtype=np.float64, order="C", copy=True)
    copy += 0.0
    copy.setflags(write=False)
    return copy


def numbers(array: str, value: npt.ArrayLike, axes: str) -> Array:
    """Return `value` as a float64 array with one axis for each letter of `axes`; `aso|so` allows either."""
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "biufO":  # strings, dates or complex numbers
            raise TypeError(f"it contains {given.dtype.name}")
        converted = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidModelError(f"{array} is not an array of numbers: {error}") from None
    choices = axes.split("|")
    if converted.ndim not in map(len, choices):
        wanted = " or ".join(f"[{', '.join(choice).replace('t', 's′')}]" for choice in choices)
        raise InvalidModelError(f"{array} has shape {converted.shape}, not {wanted}")
    if converted.size == 0:
        raise InvalidModelError(f"{array} is empty: its shape is {converted.shape}")
    return converted


def finite(array: str, values: Array, axes: str, names: Names) -> Array:
    """Return `values` after a check that all numbers are finite."""
    bad = ~np.isfinite(values)
    if bad.any():
        where = _first(bad)
        raise InvalidModelError(f"{names.entry(array, axes, where)} is {values[where]}")
    return values


def distributions(
    array: str,
    value: npt.ArrayLike,
    axes: str,
    names: Names,
    tolerance: float = PYTHON_TOLERANCE,
) -> Array:
    """Return `value` as probability distributions along its last axis, after a check; rows are normalized."""
    rows = finite(array, numbers(array, value, axes), axes, names)
    if (rows < 0).any():
        where = _first(rows < 0)
        raise InvalidModelError(f"{names.entry(array, axes, where)} is {rows[where]:g}, negative")
    sums = rows.sum(axis=-1)
    off = np.abs(sums - 1.0)
    if (off > tolerance).any():
        where = _first(off > tolerance)
        raise InvalidModelError(
            f"{names.entry(array, axes[:-1], where)} sums to {round(float(sums[where]), 12):.10g}"
        )
    return np.where((off > _ROUNDING)[..., None], rows / sums[..., None], rows)


def shaped(array: str, value: Array, shape: tuple[int, ...], meaning: str) -> Array:
    """Return `value` after a check of its shape; `meaning` explains the shape in the error message."""
    if value.shape != shape:
        raise InvalidModelError(f"{array} has shape {value.shape}, expected {shape} for {meaning}")
    return value


def _first(mask: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])
