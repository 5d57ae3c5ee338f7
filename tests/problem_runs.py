"""Runs of a plan's policy, for tests that compare averages with an interval."""

from __future__ import annotations

import numpy as np

from psrl_pomdp import POMDP, Plan
from psrl_pomdp._utils.arrays import Array, Index


def averages_of(best: Plan, model: POMDP, runs: int, horizon: int, seed: int) -> Array:
    """Return the average cost, or reward, of each run: the action of the least vector at the exact belief."""
    setting, kept = model.setting, np.array(best.states)
    vectors, actions = best.controller.vectors, best.controller.actions
    rng = np.random.default_rng(seed)
    states = rng.choice(model.n_states, runs, p=setting.initial)
    beliefs = np.tile(setting.initial, (runs, 1))
    if setting.first_observation is not None:
        first = _drawn(rng, setting.first_observation[states])
        beliefs = beliefs * setting.first_observation[:, first].T
    total = np.zeros(runs)
    each = np.arange(runs)
    for _ in range(horizon):
        beliefs /= beliefs.sum(axis=1, keepdims=True)
        played = actions[(beliefs[:, kept] @ vectors.T).argmin(axis=1)]
        total += setting.own_cost[played, states]
        states = _drawn(rng, model.transition[played, states])
        seen = _drawn(rng, setting.observation[played, states])
        beliefs = np.einsum("ns,nst->nt", beliefs, model.transition[played])
        beliefs *= setting.observation[played, :, seen]
        assert (beliefs[each, states] > 0).all()
    return total / horizon


def _drawn(rng: np.random.Generator, rows: Array) -> Index:
    """Draw a number from each row of probabilities."""
    return np.asarray((np.cumsum(rows, axis=1) < rng.random((len(rows), 1))).sum(axis=1), np.int64)
