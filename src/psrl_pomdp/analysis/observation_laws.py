"""The distribution of the next observation, from each state, after each action, under each kernel."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array
from ..models import POMDP, Setting
from ..protocols import FiniteSupport

CELLS = 64  # classes that stand for observations without numbers


def numbered(setting: Setting) -> Setting:
    """Return a setting with numbered observations: the given one, or one with cells in place of a density.

    A divergence between two distributions of cells is at most that between the distributions themselves,
    because the cell is a function of the observation.
    """
    return setting if setting.is_finite else setting.quantized(CELLS)


def next_observations(model: POMDP) -> Array:
    """Return ν(o | s, a) = Σ_s′ θ(s′ | s, a) η(o | a, s, s′), shape [A, S, O].

    If costs are seen, o is a pair of observation and cost.
    """
    table = numbered(model.setting).joint_observation
    if table.ndim == 4:
        return np.asarray(np.einsum("ast,asto->aso", model.transition, table))
    return np.asarray(model.transition @ table)


def joint_matrices(model: POMDP, setting: Setting | None = None) -> Array:
    """Return M[a, o](s, s′) = θ(s′ | s, a) η(o | a, s, s′), shape [A, O, S, S′].

    `setting` has the observation model; by default it is that of the model.
    """
    table = numbered(setting or model.setting).joint_observation
    by_state = table if table.ndim == 4 else table[:, None]
    return np.asarray((model.transition[..., None] * by_state).transpose(0, 3, 1, 2))


def next_observations_of(prior: FiniteSupport) -> Array:
    """Return ν(o | s, a) under each kernel of a prior, shape [M, A, S, O]."""
    return np.array([next_observations(prior.model(m)) for m in range(len(prior))])
