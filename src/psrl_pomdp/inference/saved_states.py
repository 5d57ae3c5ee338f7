"""States of posteriors from files, checked before compiled code sees them.

Every number has to be one that a posterior can have at its time: chances that sum to one or are all zero,
counts that add up to the steps taken, weights that leave something possible. What is wrong is an
`InvalidModelError` that names the array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .._serialization.contents import LARGEST_TIME
from .._utils.arrays import Array, shaped
from ..errors import InvalidModelError

State = Mapping[str, object]
Shape = tuple[int, ...]

_NEAR = 1e-6  # how far sums may be from what they stand for


def array_in(
    state: State, name: str, shape: Shape, low: float = -np.inf, high: float = np.inf, finite: bool = True
) -> Array:
    """The array `name` as float64 of this shape, its numbers finite unless told otherwise.

    They are from `low` to `high`, where `low` or a bound on `high` is given.
    """
    given = _given(state, name)
    array = np.array(shaped(name, given, shape, "this prior and this time"), dtype=np.float64)
    if finite and not np.isfinite(array).all():
        raise InvalidModelError(f"{name} holds a number that is not finite")
    if (low > -np.inf or high < np.inf) and not ((array >= low) & (array <= high)).all():
        raise InvalidModelError(f"{name} holds a number outside of {low:g} to {high:g}")
    return array


def whole_in(state: State, name: str, low: int, high: int) -> int:
    """The whole number `name`, from `low` to `high`."""
    given = shaped(name, _given(state, name), (), "one number").item()
    if not (low <= given <= high and given == int(given)):
        raise InvalidModelError(f"{name} is {given!r}: a whole number from {low} to {high} is wanted")
    return int(given)


def time_in(state: State) -> int:
    """t."""
    return whole_in(state, "time", 0, LARGEST_TIME)


def codes_in(state: State, name: str, length: int, count: int) -> npt.NDArray[Any]:
    """`length` codes below `count`."""
    codes = shaped(name, _given(state, name), (length,), "this time")
    if codes.dtype.kind not in "iu":
        raise InvalidModelError(f"{name} holds {codes.dtype.name}, not whole numbers")
    if codes.size and not (codes.min() >= 0 and codes.max() < count):
        raise InvalidModelError(f"{name} holds a number outside of 0 to {count - 1}")
    return codes


def has_shape(state: State, name: str, shape: Shape) -> None:
    """Refuse another shape of an array, before anything of its size is made."""
    shaped(name, _given(state, name), shape, "this prior and this time")


def filters_in(state: State, fresh: Mapping[str, Array], time: int) -> dict[str, Array]:
    """The filters of N kernels at t = `time`, by name; `fresh` are those before the start."""
    found = {
        "counts": array_in(state, "counts", fresh["counts"].shape, 0.0, time * (1.0 + _NEAR)),
        "belief": array_in(state, "belief", fresh["belief"].shape, 0.0, 1.0 + _NEAR),
        "log_weight": array_in(state, "log_weight", fresh["log_weight"].shape, high=_NEAR, finite=False),
        "product": array_in(state, "product", fresh["product"].shape, 0.0, 1.0 + _NEAR),
        "scale": array_in(state, "scale", fresh["scale"].shape, 0.0, 1.0 + _NEAR),
        "expected": array_in(state, "expected", fresh["expected"].shape, 0.0, time * (1.0 + _NEAR)),
    }
    if time == 0:
        for name, array in found.items():
            if not np.array_equal(array, fresh[name]):
                raise InvalidModelError(f"{name} is not what it is before the start")
        return found
    _check_weights(found)
    _check_sums(found, time)
    return found


def distributions_or_nothing(name: str, columns: Array) -> npt.NDArray[np.bool_]:
    """Which columns sum to one; the others have to be zero everywhere."""
    sums = columns.sum(axis=0)
    there = np.asarray(sums != 0.0)
    if (np.abs(sums[there] - 1.0) > _NEAR).any():
        raise InvalidModelError(f"{name} sums neither to 1 nor to 0")
    return there


def _given(state: State, name: str) -> npt.NDArray[Any]:
    if name not in state:
        raise InvalidModelError(f"the state has no {name}")
    given = np.asarray(state[name])
    if given.dtype.kind not in "biuf":
        raise InvalidModelError(f"{name} holds {given.dtype.name}, not numbers")
    return given


def _check_weights(found: Mapping[str, Array]) -> None:
    product, scale = found["product"], found["scale"]
    if (np.abs(scale - np.exp(found["log_weight"])) > _NEAR).any():
        raise InvalidModelError("scale is not what log_weight says")
    possible = distributions_or_nothing("belief", found["belief"])
    if ((product > 0.0) & ~possible).any():
        raise InvalidModelError("product is positive for a kernel that has no belief")
    if not (product * scale).sum() > 0.0:
        raise InvalidModelError("product leaves no kernel possible")


def _check_sums(found: Mapping[str, Array], time: int) -> None:
    """φ counts the steps before the present one, and so does ñ."""
    taken, possible = time - 1, found["belief"].any(axis=0)
    for name, sums in (
        ("counts", found["counts"].sum(axis=(0, 1, 2))[possible]),
        ("expected", found["expected"].sum()),
    ):
        if (np.abs(sums - taken) > _NEAR * time).any():
            raise InvalidModelError(f"{name} do not add up to the {taken} steps that were taken")
