"""Checks of what agents can be used with: numbers that users pass as options, and observation models."""

from __future__ import annotations

import numpy as np

from ...errors import InvalidModelError
from ...models import Setting


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


def check_numbered(setting: Setting, agent: str, *, ignores_costs: bool = False) -> None:
    """Raise `InvalidModelError` if an agent that counts observations by number and action cannot be used.

    An agent that `ignores_costs` can be used where costs are seen: it learns nothing from them.
    """
    why, needs = "", "finitely many observations that depend on the action and the new state"
    way_out = "psrl, mean and map can be used with them"
    if not setting.is_finite:
        why = setting.sensor.described()
        way_out = (
            "`setting.quantized(K)` puts them into K classes, as `cells = K` of an agent in a study does"
        )
    elif setting.sensor_depends_on_previous:
        why = "observations that depend on the state before the action"
    elif setting.seen_cost is not None and not ignores_costs:
        why, needs = "costs that are seen", "observations only"
    if why:
        raise InvalidModelError(f"{agent} cannot be used with {why}: it needs {needs}; {way_out}")
