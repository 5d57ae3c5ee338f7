"""Read states of posteriors from files, checked before compiled code uses them.

Every number must be one that a posterior can have at its time: probabilities sum to one or are all zero,
counts sum to the number of steps, and at least one kernel has positive weight. A violation raises an
`InvalidModelError` that names the array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._serialization.contents import LARGEST_TIME
from .._utils.arrays import Array, shaped
from ..errors import InvalidModelError

State = Mapping[str, object]
Shape = tuple[int, ...]

_NEAR = 1e-6  # tolerance of sums


def array_in(
    state: State, name: str, shape: Shape, low: float = -np.inf, high: float = np.inf, finite: bool = True
) -> Array:
    """Return the array `name` as float64 after a check of its shape.

    Its numbers must be finite, unless `finite` is False, and between `low` and `high`, if one of them is
    given.
    """
    given = _given(state, name)
    array = np.array(shaped(name, given, shape, "this prior and this time"), dtype=np.float64)
    if finite and not np.isfinite(array).all():
        raise InvalidModelError(f"{name} contains a number that is not finite")
    if (low > -np.inf or high < np.inf) and not ((array >= low) & (array <= high)).all():
        raise InvalidModelError(f"{name} contains a number outside [{low:g}, {high:g}]")
    return array


def whole_in(state: State, name: str, low: int, high: int) -> int:
    """Return the integer `name`, which must be between `low` and `high`."""
    given = shaped(name, _given(state, name), (), "one number").item()
    if not (low <= given <= high and given == int(given)):
        raise InvalidModelError(f"{name} is {given!r}, not an integer from {low} to {high}")
    return int(given)


def time_in(state: State) -> int:
    """Return the time t."""
    return whole_in(state, "time", 0, LARGEST_TIME)


def total_time_in(state: State) -> int:
    """Return the time at which one unit would have taken the steps of all units of the state together."""
    steps = max(time_in(state) - 1, 0)
    others = units_in(state) - 1
    if others:
        times = shaped("others_time", _given(state, "others_time"), (others,), "this number of units")
        if not ((times >= 0) & (times <= LARGEST_TIME)).all():
            raise InvalidModelError(f"others_time contains a number outside [0, {LARGEST_TIME}]")
        steps += int(np.maximum(times.astype(np.int64) - 1, 0).sum())
    return steps + 1


def units_in(state: State) -> int:
    """Return the number of units in a state; states of a single unit do not say it."""
    return whole_in(state, "units", 1, LARGEST_TIME) if "units" in state else 1


def stacked(states: Sequence[State]) -> dict[str, npt.NDArray[Any]]:
    """Return the data of units other than the first one, with one array for all of them by name.

    A file with some arrays for each of thousands of units would take seconds to write and to read. Arrays
    of the same shape are stacked, and those of different lengths follow each other.
    """
    found: dict[str, npt.NDArray[Any]] = {}
    for name in dict.fromkeys(name for state in states for name in state):
        there = [np.asarray(state[name]) for state in states if name in state]
        if len(there) < len(states):
            found[f"others_{name}_present"] = np.array([name in state for state in states])
        if all(array.shape == there[0].shape for array in there):
            found[f"others_{name}"] = np.stack(there)
        else:
            found[f"others_{name}"] = np.concatenate(there)
            found[f"others_{name}_lengths"] = np.array([len(array) for array in there], dtype=np.int64)
    return found


def unstacked(state: State) -> list[dict[str, object]]:
    """Return the data of each unit other than the first one, as views of what `stacked` returned."""
    n_others = units_in(state) - 1
    if not n_others:
        return []
    shaped("others_time", _given(state, "others_time"), (n_others,), "this number of units")
    found: list[dict[str, object]] = [{} for _ in range(n_others)]
    for name in state:
        if not name.startswith("others_") or name.endswith(("_present", "_lengths")):
            continue
        array, those = np.asarray(state[name]), list(range(n_others))
        if f"{name}_present" in state:
            present = shaped(f"{name}_present", _given(state, f"{name}_present"), (n_others,), "the units")
            those = np.flatnonzero(present).tolist()
        if f"{name}_lengths" in state:
            lengths = codes_in(state, f"{name}_lengths", len(those), LARGEST_TIME).astype(np.int64)
            ends = np.cumsum(lengths)
            if not array.ndim or lengths.max(initial=0) > len(array) or ends[-1:].sum() != len(array):
                raise InvalidModelError(f"{name} has not the length of all units together")
            parts = [array[end - length : end] for length, end in zip(lengths, ends, strict=True)]
        elif not array.ndim or len(array) != len(those):
            raise InvalidModelError(f"{name} is not for {len(those)} units")
        else:
            parts = list(array)
        own = name.removeprefix("others_")
        for i, part in zip(those, parts, strict=True):
            found[i][own] = part
    return found


def codes_in(state: State, name: str, length: int, count: int) -> npt.NDArray[Any]:
    """Return the array `name` of `length` integers from 0 to `count` − 1."""
    codes = shaped(name, _given(state, name), (length,), "this time")
    if codes.dtype.kind not in "iu":
        raise InvalidModelError(f"{name} contains {codes.dtype.name}, not integers")
    if codes.size and not (codes.min() >= 0 and codes.max() < count):
        raise InvalidModelError(f"{name} contains a number outside [0, {count - 1}]")
    return codes


def has_shape(state: State, name: str, shape: Shape) -> None:
    """Raise an error if the array `name` has another shape, before arrays of its size are allocated."""
    shaped(name, _given(state, name), shape, "this prior and this time")


def filters_in(
    state: State, fresh: Mapping[str, Array], time: int, *, shared: bool = False
) -> dict[str, Array]:
    """Return the saved filters of N kernels at t = `time`, by name.

    `fresh` are the filters before the start. `shared` says whether other units have changed the weights.
    """
    found = {
        "counts": array_in(state, "counts", fresh["counts"].shape, 0.0, time * (1.0 + _NEAR)),
        "belief": array_in(state, "belief", fresh["belief"].shape, 0.0, 1.0 + _NEAR),
        "log_weight": array_in(state, "log_weight", fresh["log_weight"].shape, high=_NEAR, finite=False),
        "product": array_in(state, "product", fresh["product"].shape, 0.0, 1.0 + _NEAR),
        "scale": array_in(state, "scale", fresh["scale"].shape, 0.0, 1.0 + _NEAR),
        "expected": array_in(state, "expected", fresh["expected"].shape, 0.0, time * (1.0 + _NEAR)),
    }
    if time == 0:
        for name in ("counts", "belief", "expected"):
            if not np.array_equal(found[name], fresh[name]):
                raise InvalidModelError(f"{name} is not the initial one, although the time is 0")
        if shared:
            _check_weights(found)
            return found
        for name in ("log_weight", "product", "scale"):
            if not np.array_equal(found[name], fresh[name]):
                raise InvalidModelError(f"{name} is not the initial one, although the time is 0")
        return found
    _check_weights(found)
    possible = distributions_or_nothing("belief", found["belief"])
    if ((found["product"] > 0.0) & ~possible).any():
        raise InvalidModelError("product is positive for a kernel without a belief")
    _check_sums(found, time)
    return found


def near(one: Array, other: Array, relative: float, absolute: float) -> bool:
    """Return whether arrays of finite numbers are nearly equal, as `np.allclose`, which takes longer."""
    return bool((np.abs(one - other) <= absolute + relative * np.abs(other)).all())


def distributions_or_nothing(name: str, columns: Array) -> npt.NDArray[np.bool_]:
    """Return which columns sum to one; all other columns must be zero."""
    sums = columns.sum(axis=0)
    there = np.asarray(sums != 0.0)
    if (np.abs(sums[there] - 1.0) > _NEAR).any():
        raise InvalidModelError(f"{name} has a column that sums neither to 1 nor to 0")
    return there


def _given(state: State, name: str) -> npt.NDArray[Any]:
    if name not in state:
        raise InvalidModelError(f"{name} is missing in the state")
    given = np.asarray(state[name])
    if given.dtype.kind not in "biuf":
        raise InvalidModelError(f"{name} contains {given.dtype.name}, not numbers")
    return given


def _check_weights(found: Mapping[str, Array]) -> None:
    product, scale = found["product"], found["scale"]
    if (np.abs(scale - np.exp(found["log_weight"])) > _NEAR).any():
        raise InvalidModelError("scale is not the exponential of log_weight")
    if not (product * scale).sum() > 0.0:
        raise InvalidModelError("product and scale give no kernel a positive weight")


def _check_sums(found: Mapping[str, Array], time: int) -> None:
    """Check that φ and ñ count the steps before the present one."""
    taken, possible = time - 1, found["belief"].any(axis=0)
    for name, sums in (
        ("counts", found["counts"].sum(axis=(0, 1, 2))[possible]),
        ("expected", found["expected"].sum()),
    ):
        if (np.abs(sums - taken) > _NEAR * time).any():
            raise InvalidModelError(f"{name} do not sum to the number of steps, {taken}")
