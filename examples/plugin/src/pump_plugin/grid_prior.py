"""The prior on a grid: each of the two rates takes a few values, and every pair is equally likely."""

from __future__ import annotations

import numpy as np

from psrl_pomdp import POMDP, FinitePrior, InvalidModelError

from .problem import kernels


def wear(model: POMDP, *, low: float = 0.025, high: float = 0.4, points: int = 3) -> FinitePrior:
    """Return the prior for the pump: `points` values of each rate between `low` and `high`, evenly by ratio.

    Raises `InvalidModelError` for another problem, and for limits that are no rates.
    """
    if (model.n_actions, model.n_states) != (2, 3):
        raise InvalidModelError("the prior `wear` is for the pump, which has 2 actions and 3 states")
    if not 0.0 < low < high < 1.0 or points < 2:
        raise InvalidModelError(
            f"low is {low}, high {high}, points {points}: wanted 0 < low < high < 1, points >= 2"
        )
    values = np.geomspace(low, high, points)
    pairs = np.stack(np.meshgrid(values, values, indexing="ij"), axis=-1).reshape(-1, 2)
    return FinitePrior(model.setting, kernels(pairs))
