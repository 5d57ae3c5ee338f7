"""What was learned of each unknown row of the dynamics: the posterior beside the prior, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.arrays import Array
from ..models import Setting

LEVEL = 0.95
_MOST_ENTRIES = 20_000
_DRAWS = 400  # of a prior whose intervals are not known in closed form


Tables = tuple[Array, Array, Array]  # mean, lower and upper end, each [A, S, S']


@dataclass(frozen=True)
class Learned:
    """What a fleet knows of its dynamics at one time: weighted kernels and the prior."""

    setting: Setting
    prior: Any
    kernels: Array  # [N, A, S, S']
    weights: Array  # [N]
    visits: Array | None  # [A, S], expected


def learned_of(fleet: Any) -> Learned | None:
    """Return what a fleet knows now; None if its posterior has no kernels, or too many entries."""
    posterior, setting = getattr(fleet, "posterior", None), fleet.setting
    weights = getattr(posterior, "weights", None)
    if weights is None or setting.n_actions * setting.n_states**2 > _MOST_ENTRIES:
        return None
    kernels, visits = getattr(posterior, "kernels", None), getattr(fleet, "expected_counts", None)
    if kernels is None:
        return None
    found = None if visits is None else np.array(visits, dtype=float)
    return Learned(
        setting, getattr(fleet, "prior", None), np.asarray(kernels), np.array(weights, dtype=float), found
    )


def learned_rows(learned: Learned) -> dict[str, Any]:
    """Return mean and interval of every unknown row under the prior and under the posterior.

    Returns
    -------
    dict
        The probability `level` of the intervals, and `rows`: for each action and state, the probabilities of
        the next states that are possible.
    """
    kernels, setting = learned.kernels, learned.setting
    before = _tables.of(learned.prior)
    now = weighted_tables(kernels, learned.weights)
    unknown = (kernels.max(axis=0) - kernels.min(axis=0)).max(axis=2) > 0.0
    if before is not None:
        unknown |= (before[2] - before[1]).max(axis=2) > 0.0
    rows = []
    for a, s in np.argwhere(unknown):
        highest = now[2][a, s] if before is None else np.maximum(now[2][a, s], before[2][a, s])
        to = np.flatnonzero(highest > 0.0)
        row: dict[str, Any] = {
            "action": setting.actions[a],
            "state": setting.states[s],
            "next": [setting.states[i] for i in to],
            "posterior": _entries(now, a, s, to),
            "prior": None if before is None else _entries(before, a, s, to),
        }
        if learned.visits is not None:
            row["visits"] = float(learned.visits[a, s])
        rows.append(row)
    return {"level": LEVEL, "rows": rows}


def _entries(tables: Tables, a: int, s: int, to: Any) -> dict[str, list[float]]:
    names = ("mean", "lower", "upper")
    return {name: table[a, s, to].tolist() for name, table in zip(names, tables, strict=True)}


def weighted_tables(kernels: Array, weights: Array, level: float = LEVEL) -> Tables:
    """Return the mean of weighted kernels, and the ends of an interval for each entry, shape [A, S, S']."""
    shape = kernels.shape[1:]
    entries = kernels.reshape(len(kernels), -1)
    order = np.argsort(entries, axis=0, kind="stable")
    ordered = np.take_along_axis(entries, order, axis=0)
    below = np.cumsum(weights[order], axis=0)
    below /= below[-1]
    tail = (1.0 - level) / 2.0
    # The first entry up to which there is more than the tail, and the first with all but the tail.
    first = np.argmax(below > tail * (1.0 + 1e-12), axis=0)
    last = np.argmax(below >= (1.0 - tail) * (1.0 - 1e-12), axis=0)
    columns = np.arange(entries.shape[1])
    mean = np.tensordot(weights / weights.sum(), entries, axes=1)
    return mean.reshape(shape), ordered[first, columns].reshape(shape), ordered[last, columns].reshape(shape)


def prior_tables(prior: Any, level: float = LEVEL) -> Tables | None:
    """Return the mean of each entry under the prior, and the ends of an interval, shape [A, S, S']."""
    from ..protocols import DirichletRows, FiniteSupport

    if isinstance(prior, DirichletRows):
        return _dirichlet_tables(np.asarray(prior.concentration), np.asarray(prior.known), level)
    if isinstance(prior, FiniteSupport):
        return weighted_tables(np.asarray(prior.kernels), np.asarray(prior.weights), level)
    if not hasattr(prior, "sample"):
        return None
    rng = np.random.default_rng(0)  # the same draws each time
    drawn = np.stack([np.asarray(prior.sample(rng)) for _ in range(_DRAWS)])
    return weighted_tables(drawn, np.full(_DRAWS, 1.0 / _DRAWS), level)


def _dirichlet_tables(counts: Array, known: Any, level: float) -> Tables:
    """Return mean and quantiles of Dirichlet rows: an entry has a beta distribution."""
    from scipy.special import betaincinv

    total = counts.sum(axis=2, keepdims=True)
    mean = counts / total
    lower, upper = mean.copy(), mean.copy()
    free = (counts > 0.0) & (counts < total) & ~known[:, :, None]
    rest = np.broadcast_to(total, counts.shape) - counts
    tail = (1.0 - level) / 2.0
    lower[free] = betaincinv(counts[free], rest[free], tail)
    upper[free] = betaincinv(counts[free], rest[free], 1.0 - tail)
    return mean, lower, upper


class _PriorTables:
    """The tables of the prior that was asked for last: a plant has one, and it does not change."""

    def __init__(self) -> None:
        self._last: tuple[Any, Tables | None] | None = None

    def of(self, prior: Any) -> Tables | None:
        last = self._last
        if last is None or last[0] is not prior:
            last = self._last = (prior, prior_tables(prior))
        return last[1]


_tables = _PriorTables()
