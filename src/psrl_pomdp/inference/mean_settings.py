"""The posterior mean of an unknown observation model and of unknown costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._utils.arrays import Array
from ..models import Setting
from ..sensors.costs import SeenCosts


def mean_of_settings(settings: Sequence[Setting], weights: Array) -> Setting:
    """Return a setting with the weighted means of the tables of settings that differ in nothing else."""
    one = settings[0]
    changes: dict[str, Any] = {
        "observation": np.tensordot(weights, np.array([s.observation for s in settings]), axes=1),
        "cost": np.clip(np.tensordot(weights, np.array([s.cost for s in settings]), axes=1), 0.0, 1.0),
        "first_observation": None,
    }
    if one.has_first_observation:
        first = np.array([s.first_observation for s in settings])
        changes["first_observation"] = np.tensordot(weights, first, axes=1)
    if one.seen_cost is not None:
        seen = np.array([s.seen_cost.probabilities for s in settings if s.seen_cost is not None])
        mean = np.tensordot(weights, seen, axes=1)
        changes["seen_cost"] = SeenCosts(one.seen_cost.values, mean, one.seen_cost.edges)
    return one.replace(**changes)
