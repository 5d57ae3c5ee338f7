"""The labels of observations: names, names with seen costs, or ranges of the readings of a density."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from .._utils.arrays import Array, Mask

if TYPE_CHECKING:
    from ..models import POMDP, Setting
    from ..planning import Plan


def observation_labels(setting: Setting) -> tuple[str, ...]:
    """Return the labels of the observations of a setting; () for a density, which has none.

    >>> from psrl_pomdp.models import Setting
    >>> observation_labels(Setting(np.eye(2), [[0.0, 1.0]], [0.5, 0.5]))
    ('observation 0', 'observation 1')
    """
    if not setting.is_finite:
        return ()
    return setting.observations if setting.names.observations else _numbered("observation", setting)


def _numbered(word: str, setting: Setting) -> tuple[str, ...]:
    return tuple(f"{word} {o}" for o in range(setting.n_observations))


def controller_labels(plan: Plan, model: POMDP) -> tuple[str, ...]:
    """Return what each column of the successors of a plan's controller stands for.

    These are observations, pairs of an observation and a seen cost, or cells of the readings of a density.
    """
    setting = model.setting
    if plan.bracket is None:
        return with_costs(setting, observation_labels(setting))
    cells = plan.bracket.cells
    if len(cells.by_action) > 1:  # the same cell has other ends after another action
        return tuple(f"cell {k}" for k in range(cells.n_observations))
    edges = cells.by_action[0].edges
    found: list[str] = []
    for digits in (4, 8, 17):  # narrow cells need more digits to be told apart
        found = [range_text(edges[k], edges[k + 1], digits) for k in range(len(edges) - 1)]
        if len(set(found)) == len(found):
            break
    return (*found, *(f"cell {k}" for k in range(len(found), cells.n_observations)))


def with_costs(setting: Setting, names: Sequence[str]) -> tuple[str, ...]:
    """Return the labels of all pairs of an observation and a seen cost; `names` if costs are not seen."""
    if setting.seen_cost is None:
        return tuple(names)
    word, values = setting.units.kind, setting.seen_cost.values.tolist()
    return tuple(f"{name}, {word} {value:g}" for name in names for value in values)


def range_text(low: float, high: float, digits: int = 4) -> str:
    """Return an interval of readings in words, with so many digits of its ends.

    >>> range_text(-np.inf, 0.25), range_text(0.25, 1.0), range_text(1.0, np.inf)
    ('up to 0.25', '0.25 to 1', 'above 1')
    """
    if np.isneginf(low):
        return "any observation" if np.isposinf(high) else f"up to {high:.{digits}g}"
    return f"above {low:.{digits}g}" if np.isposinf(high) else f"{low:.{digits}g} to {high:.{digits}g}"


def possible_observations(plan: Plan, model: POMDP) -> Mask:
    """Return which columns of a controller can follow an action in the states that are reachable, [A, O]."""
    table = (model.setting if plan.quantized_setting is None else plan.quantized_setting).joint_observation
    moves: Mask = np.greater(model.transition[:, list(plan.states)], 0.0)  # [A, S, S']
    if table.ndim == 3:
        entered: Mask = np.asarray(moves.any(axis=1))
        return np.asarray((entered[:, :, None] & (table > 0)).any(axis=1))
    return np.asarray((moves[..., None] & (table[:, list(plan.states)] > 0)).any(axis=(1, 2)))


def by_successor(
    plan: Plan, model: POMDP, node: int, next_nodes: Sequence[int | None]
) -> dict[int, list[str]]:
    """Return the observations that lead to each successor of a node.

    Neighboring cells of a density that lead to the same successor become one range of readings.
    """
    if plan.bracket is None:
        return observations_by_successor(controller_labels(plan, model), next_nodes)
    edges: Array = plan.bracket.cells.of(int(plan.controller.actions[node])).edges
    groups: dict[int, list[str]] = {}
    for successor, run in groupby(range(len(edges) - 1), lambda k: next_nodes[k]):
        cells = list(run)
        if successor is not None:
            groups.setdefault(successor, []).append(range_text(edges[cells[0]], edges[cells[-1] + 1]))
    return groups


def observations_by_successor(
    observations: Sequence[str], next_nodes: Sequence[int | None]
) -> dict[int, list[str]]:
    """Return the observations that lead to each successor of a node."""
    groups: dict[int, list[str]] = {}
    for observation, successor in zip(observations, next_nodes, strict=True):
        if successor is not None:
            groups.setdefault(successor, []).append(observation)
    return groups
