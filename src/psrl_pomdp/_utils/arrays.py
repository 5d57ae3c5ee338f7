"""Arrays checked at the door: numbers that are finite, rows that are distributions, nothing writeable.

Every check that fails raises `InvalidModelError` with the entry by name, `transition[a=2, s=5]`, or
`transition[a=replace, s=worn]` where the states and actions have names.
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
Codes = npt.NDArray[np.unsignedinteger]  # the same kinds of numbers in as few bytes as they need
Mask = npt.NDArray[np.bool_]
States = tuple[int, ...]  # as many entries as there are states: a length that the compiler knows

PYTHON_TOLERANCE = 1e-9  # how far the rows of an array from Python may be from summing to one
FILE_TOLERANCE = 1e-5  # and those of a file, which people round to six digits

# Rows this close to one are left alone, so that normalising is idempotent to the last bit.
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Names:
    """Optional names of states, actions and observations, and how messages call an entry.

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
        """`array[a=.., s=..]`: one letter of `axes` an index; `t` stands for the next state s'."""
        named = {"s": self.states, "t": self.states, "a": self.actions, "o": self.observations}
        parts = (
            f"{'s′' if axis == 't' else axis}={_label(named.get(axis), i)}"
            for axis, i in zip(axes, index, strict=False)
        )
        inside = ", ".join(parts)
        return f"{array}[{inside}]" if inside else array


def _label(names: tuple[str, ...] | None, index: int) -> str:
    return str(index) if names is None else names[index]


def checked_names(what: str, names: Sequence[str] | None, count: int) -> tuple[str, ...] | None:
    """Names as a tuple of distinct non-empty strings, one for each of `count` things."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidModelError(f"{what}: a list of names is wanted, not {names!r}")
    checked = tuple(names)
    for position, name in enumerate(checked):
        if not isinstance(name, str) or not name.strip():
            raise InvalidModelError(f"{what}[{position}] is {name!r}, not a name")
    if len(checked) != count:
        raise InvalidModelError(f"{what} has {len(checked)} names for {count}")
    if len(set(checked)) != count:
        twice = Counter(checked).most_common(1)[0][0]
        raise InvalidModelError(f"{what} has the name {twice!r} twice")
    return checked


def frozen(array: Array) -> Array:
    """The same numbers as a read-only, C-contiguous float64 array of our own, without negative zeros."""
    mine = np.array(array, dtype=np.float64, order="C", copy=True)
    mine += 0.0
    mine.setflags(write=False)
    return mine


def numbers(array: str, value: npt.ArrayLike, axes: str) -> Array:
    """`value` as float64 numbers with a dimension for each letter of `axes`; `aso|so` allows either."""
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "biufO":  # no texts, dates or complex numbers
            raise TypeError(f"it holds {given.dtype.name}")
        converted = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidModelError(f"{array} is not an array of numbers: {error}") from None
    choices = axes.split("|")
    if converted.ndim not in map(len, choices):
        wanted = " or ".join(f"{array}[{', '.join(choice)}]" for choice in choices)
        raise InvalidModelError(f"{array} has shape {converted.shape}; wanted {wanted.replace('t]', 's′]')}")
    if converted.size == 0:
        raise InvalidModelError(f"{array} is empty: its shape is {converted.shape}")
    return converted


def finite(array: str, values: Array, axes: str, names: Names) -> Array:
    """`values` if none of them is infinite or not a number."""
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
    """`value` as probability distributions along its last axis, renormalised."""
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
    """`value` if it has this shape; else an error that says what the shape should have been."""
    if value.shape != shape:
        raise InvalidModelError(f"{array} has shape {value.shape}; {meaning} make it {shape}")
    return value


def _first(mask: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])
