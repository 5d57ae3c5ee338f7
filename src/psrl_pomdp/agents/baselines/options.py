"""Checks of numbers that users pass as options of agents."""

from __future__ import annotations

import numpy as np

from ...errors import InvalidModelError


def number(name: str, value: float, low: float, high: float = np.inf) -> float:
    """Return `value` as a float. Raises `InvalidModelError` if it is no finite number from `low` to `high`.

    >>> number("iota", 0.05, 0.0, 1.0)
    0.05
    """
    _check(name, value, False, low, high)
    return float(value)


def whole_number(name: str, value: float, low: float, high: float = np.inf) -> int:
    """Return `value` as an int. Raises `InvalidModelError` if it is no whole number from `low` to `high`.

    >>> whole_number("depth", 10, 1)
    10
    """
    _check(name, value, True, low, high)
    return int(value)


def _check(name: str, value: object, whole: bool, low: float, high: float) -> None:
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if isinstance(value, kinds) and not isinstance(value, bool) and low <= value <= high and value < np.inf:
        return
    allowed = f"from {low:g} to {high:g}" if high < np.inf else f"of at least {low:g}"
    raise InvalidModelError(f"{name} is {value!r}: {'a whole number' if whole else 'a number'} {allowed}")
