"""Sums over all hidden paths for models whose observation model and costs may be unknown.

Written without a look at the code that they check: one loop over paths, one loop over steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from psrl_pomdp._utils.arrays import Array


class Tables(NamedTuple):
    """All tables of one model."""

    transition: Array  # [A, S, S']
    observation: Array  # [A, S, S', O]
    costs: Array | None  # [A, S, C]; None if costs are not seen
    first: Array | None  # [S, O]; None without a first observation
    initial: Array  # [S]


class Step(NamedTuple):
    """An action, and what came after it; None is missing."""

    action: int
    observation: int | None
    cost: int | None = None


class Sums(NamedTuple):
    """Sums over all hidden paths, given the observations and seen costs."""

    likelihood: float
    belief: Array  # [S]: of the last state
    begin: Array  # [S]: of the first state
    transitions: Array  # [A, S, S']: expected counts
    emissions: Array  # [A, S', O]: of observations that came
    payments: Array  # [A, S, C]: of costs that were seen
    visits: Array  # [A, S, X]: of steps 1..n, with the last state X


def every_joint_path(tables: Tables, first: int | None, steps: Sequence[Step]) -> Sums:
    """Return the sums over all hidden paths."""
    n_actions, n_states = tables.transition.shape[:2]
    n_costs = 0 if tables.costs is None else tables.costs.shape[2]
    total = 0.0
    belief, begin = np.zeros(n_states), np.zeros(n_states)
    transitions = np.zeros(tables.transition.shape)
    emissions = np.zeros((n_actions, n_states, tables.observation.shape[-1]))
    payments = np.zeros((n_actions, n_states, n_costs))
    visits = np.zeros((n_actions, n_states, n_states))
    for path in product(range(n_states), repeat=len(steps) + 1):
        chance = tables.initial[path[0]]
        if first is not None and tables.first is not None:
            chance = chance * tables.first[path[0], first]
        for (a, o, c), s, t in zip(steps, path[:-1], path[1:], strict=True):
            chance = chance * tables.transition[a, s, t]
            if o is not None:
                chance = chance * tables.observation[a, s, t, o]
            if c is not None:
                assert tables.costs is not None
                chance = chance * tables.costs[a, s, c]
        total += chance
        begin[path[0]] += chance
        belief[path[-1]] += chance
        for (a, o, c), s, t in zip(steps, path[:-1], path[1:], strict=True):
            transitions[a, s, t] += chance
            visits[a, s, path[-1]] += chance
            if o is not None:
                emissions[a, t, o] += chance
            if c is not None:
                payments[a, s, c] += chance
    share = 1.0 / total if total > 0 else 0.0
    return Sums(
        float(total),
        belief * share,
        begin * share,
        transitions * share,
        emissions * share,
        payments * share,
        visits * share,
    )
