"""Why a decision was made: numbers that the log stores, and the sentences that are made of them when asked.

The sentences are those of `Fleet.explain`. Nobody reads most of them, so that a reading does not wait for
them: it stores the few numbers that they need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._utils.arrays import Array
from ..agents import explanation
from ..agents.reporting import advantages_at
from ..inference.learned_tables import interval
from ..inference.model_fit import ModelFit
from ..models import Setting


def reasons_of(fleet: Any, name: str, belief: Array) -> dict[str, Any]:
    """Return what a decision was made from: beliefs, costs now, advantages and the plan's bounds.

    `range` is the 90 % interval of the probability of the most probable state, between the models held
    possible.
    """
    unit, setting = fleet.unit(name), fleet.setting
    found: dict[str, Any] = {
        "belief": floats(belief),
        "range": _range(unit.posterior, belief),
        "observed": getattr(unit, "observed", "") or None,
        "episode": fleet.current_episode.number,
        "behind": bool(getattr(unit, "late", False)),
    }
    careful = _careful(unit.posterior)
    if careful is not None:
        found["careful"] = careful
    now = unit.episode
    if now is None:  # there is no plan yet
        costs = floats(setting.own_cost @ belief)
        return found | {"sampled_belief": None, "costs": costs, "advantages": None, "bounds": None}
    own, sampled = now.setting or setting, now.belief
    return found | {
        "sampled_belief": floats(sampled),
        "costs": floats(own.units.from_scaled(own.cost @ sampled)),
        "advantages": floats(advantages_at(now, own)),
        "bounds": [float_or_none(now.plan.lower), float_or_none(now.plan.upper)],
    }


def sentences(
    setting: Setting, unit: str, step: int, chosen: int, done: int, why: dict[str, Any]
) -> str | None:
    """Return the reasons in words, or None if the log has too few numbers for that.

    `chosen` is the action of the policy, and `done` what was done in the end.
    """
    belief = _array(why["belief"], setting.n_states)
    low, high = why.get("range") or (None, None)
    if low is None or high is None:
        return None
    lower, upper = np.full_like(belief, np.nan), np.full_like(belief, np.nan)
    most = int(np.argmax(belief))
    lower[most], upper[most] = low, high
    states, actions = explanation.labels_of(setting)
    bounds = why["bounds"] or (None, None)
    found = explanation.Explanation(
        unit=unit,
        step=step,
        action=actions[done],
        chosen=actions[chosen],
        observed=why["observed"],
        states=states,
        actions=actions,
        belief=belief,
        belief_lower=lower,
        belief_upper=upper,
        sampled_belief=belief
        if why["sampled_belief"] is None
        else _array(why["sampled_belief"], len(belief)),
        costs=_array(why["costs"], len(actions)),
        advantages=_array(why["advantages"], len(actions)),
        lower=bounds[0],
        upper=bounds[1],
        late=why["behind"],
        units=setting.units,
    )
    careful = why.get("careful")
    return str(found) if careful is None else f"{found} {explanation.CAREFUL} {careful}"


def _range(posterior: Any, belief: Array) -> list[float | None] | None:
    beliefs = getattr(posterior, "beliefs", None)
    if beliefs is None:
        return None
    weights, most = posterior.weights, int(np.argmax(belief))
    held = weights > 0.0
    shares = weights[held]
    ends = interval(beliefs[held, most][None], shares / shares.sum(), explanation.LEVEL)
    return [float_or_none(end[0]) for end in ends]


def _careful(posterior: Any) -> str | None:
    """Return what the test of the model says of the unit's readings, if it raises an alarm."""
    if getattr(posterior, "log_e_values", (0.0, 0.0))[1] < -math.log(explanation.CAREFUL_LEVEL):
        return None
    fit = posterior.fit
    return str(fit) if isinstance(fit, ModelFit) and fit.alarm() else None


def _array(values: Sequence[float | None] | None, size: int) -> Array:
    if values is None:
        return np.full(size, np.nan)
    return np.array([np.nan if value is None else value for value in values])


def floats(values: Sequence[float] | Any) -> list[float | None]:
    """Return numbers as JSON has them."""
    return [float_or_none(value) for value in np.asarray(values, dtype=float).ravel()]


def float_or_none(value: Any) -> float | None:
    """Return a number as JSON has it: no NaN and no infinity."""
    found = float(value)
    return found if math.isfinite(found) else None
