"""The distribution of the next observation, from each state, after each action, under each kernel.

Classes of observations stand for observations without numbers. A divergence between two distributions of
classes is at most that between the distributions themselves, because the class is a function of the
observation.
"""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array
from ..models import POMDP, Setting
from ..models.stand_in import finite_stand_in
from ..protocols import FiniteSupport


def next_observations(model: POMDP) -> Array:
    """Return ν(o | s, a) = Σ_s′ θ(s′ | s, a) η(o | a, s, s′), shape [A, S, O].

    If costs are seen, o is a pair of observation and cost.
    """
    table = finite_stand_in(model.setting).joint_observation
    if table.ndim == 4:
        return np.asarray(np.einsum("ast,asto->aso", model.transition, table))
    return np.asarray(model.transition @ table)


def joint_matrices(model: POMDP, setting: Setting | None = None) -> Array:
    """Return M[a, o](s, s′) = θ(s′ | s, a) η(o | a, s, s′), shape [A, O, S, S′].

    `setting` has the observation model; by default it is that of the model.
    """
    table = finite_stand_in(setting or model.setting).joint_observation
    by_state = table if table.ndim == 4 else table[:, None]
    return np.asarray((model.transition[..., None] * by_state).transpose(0, 3, 1, 2))


def next_observations_of(prior: FiniteSupport) -> Array:
    """Return ν(o | s, a) under each kernel of a prior, shape [M, A, S, O]."""
    return np.array([next_observations(prior.model(m)) for m in range(len(prior))])
