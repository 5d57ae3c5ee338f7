"""Whether a sampled observation model and sampled costs are possible under a prior.

These functions implement `impossible_part` of the priors of the package, with which the agents in files are
checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from .._utils.arrays import Array
from ..models import Setting
from ..sensors.dirichlet import DirichletCosts, DirichletTable
from ..sensors.gaussian import GaussianSensor

if TYPE_CHECKING:
    from .dirichlet_prior import DirichletPrior

_TOLERANCE = 1e-6


def part_unlike(sampled: Setting, told: Setting) -> str | None:
    """Return the part of a sampled setting that differs from what was told; None if none does."""
    if not (sampled.is_finite and told.is_finite):
        if sampled.sensor != told.sensor:
            return "observation"
        same_first = sampled.first_sensor == told.first_sensor
    else:
        if not np.array_equal(sampled.observation, told.observation):
            return "observation"
        first, known = sampled.first_observation, told.first_observation
        same_first = known is None if first is None else known is not None and np.array_equal(first, known)
    if not same_first:
        return "first_observation"
    if sampled.seen_cost != told.seen_cost:
        return "seen_cost"
    return None if np.array_equal(sampled.cost, told.cost) else "cost"


def part_unlike_all(sampled: Setting, allowed: Iterable[Setting]) -> str | None:
    """Return the part of a sampled setting that differs from the nearest of the allowed ones, or None."""
    order = ("observation", "first_observation", "seen_cost", "cost")
    parts = [part_unlike(sampled, told) for told in allowed]
    return None if None in parts else max((part for part in parts if part), key=order.index)


def impossible_part_of_rows(prior: DirichletPrior, sampled: Setting) -> str | None:
    """Return the part of a sampled setting that has probability 0 under Dirichlet rows, or None."""
    told, sensor = prior.setting, prior.sensor
    if not told.is_finite:
        return part_unlike(sampled, told) if prior.density is None else _impossible_density(sampled, told)
    table, first = sampled.observation, sampled.first_observation
    if sensor is None:
        possible = np.array_equal(table, told.observation)
    else:
        by_state = sensor.counts.ndim == 2
        possible = _is_possible(sensor, table[0] if by_state else table)
        possible &= not by_state or bool((table == table[0]).all())
    if not possible:
        return "observation"
    expected = table[0] if sensor is not None and sensor.counts.ndim == 2 else told.first_observation
    if first is not None and (expected is None or not np.array_equal(first, expected)):
        return "first_observation"
    return _impossible_costs(prior.costs, sampled, told)


def _impossible_density(sampled: Setting, told: Setting) -> str | None:
    """Return what is impossible if the parameters of Gaussian observations are unknown: any are possible."""
    one, other = sampled.sensor, told.sensor
    if not isinstance(one, GaussianSensor) or one.n_actions != other.n_actions:
        return "observation"
    return part_unlike(sampled.replace(observation=other, first_observation=told.first_sensor), told)


def _impossible_costs(costs: DirichletCosts | None, sampled: Setting, told: Setting) -> str | None:
    seen, expected = sampled.seen_cost, told.cost
    if costs is not None and seen is not None:
        if not _is_possible(costs, seen.probabilities):
            return "seen_cost"
        expected = told.units.to_scaled(seen.probabilities @ seen.values)
    elif seen != told.seen_cost:
        return "seen_cost"
    return "cost" if np.abs(sampled.cost - expected).max() > _TOLERANCE else None


def _is_possible(unknown: DirichletTable, table: Array) -> bool:
    """Return whether a table has the zeros, the known rows and the ties of an unknown one."""
    zeros = (table[~unknown.support] == 0.0).all()
    known = np.abs(table[unknown.known] - unknown.counts[unknown.known]).max(initial=0.0) <= _TOLERANCE
    rows = table.reshape(-1, table.shape[-1])
    first = np.unique(unknown.row, return_index=True)[1]
    return bool(zeros and known and (rows[first][unknown.row] == table).all())
