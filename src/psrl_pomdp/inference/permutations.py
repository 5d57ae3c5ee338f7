"""Renamings of the hidden states, and moves that propose them.

If observation model and costs are unknown, a model with renamed states explains the observations as well as
the model itself. A chain that moves in small steps hardly ever goes from one naming to another. Therefore
each kernel of an ensemble is offered a random renaming now and then, which is accepted or rejected by the
rule of Metropolis and Hastings (the random permutation sampler of Frühwirth-Schnatter, JASA 96, 2001). A
renaming permutes the logarithms of the entries of the free rows, so that there is no Jacobian; the density of
these logarithms is the product of θ^α over all entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations
from math import factorial
from typing import TYPE_CHECKING

import numpy as np

from .._utils.arrays import Array, Index

if TYPE_CHECKING:
    from .rows import FreeRows, RowTable

_MOST = 120  # up to this number, all permutations are proposed; with more states, exchanges of two states
_HOPELESS = -40.0  # a renaming whose prior density is lower by this logarithm is not tried


def allowed_permutations(rows: FreeRows) -> list[Index]:
    """Return the renamings, other than the identity, that map free rows to free rows.

    New state s is old state π[s]. Known rows must be the same after the renaming, and places that share a row
    must share one again.
    """
    n_states = rows.codes.n_states
    return [pi for pi in candidates(n_states) if row_map(rows, pi) is not None]


def candidates(n_states: int) -> Iterator[Index]:
    """Yield the renamings that are tried: all of them, or with more than five states all exchanges."""
    if factorial(min(n_states, 20)) <= _MOST:
        yield from (np.array(pi) for pi in list(permutations(range(n_states)))[1:])
        return
    for i, j in combinations(range(n_states), 2):
        pi = np.arange(n_states)
        pi[[i, j]] = j, i
        yield pi


def row_map(rows: FreeRows, pi: Index) -> tuple[Index, Index] | None:
    """Return which old row and old columns each renamed free row has, shapes [R] and [R, W].

    Returns None if the rows cannot be renamed so.
    """
    n_rows, width = rows.concentration.shape
    source = np.full(n_rows, -1, dtype=np.int64)
    columns = np.tile(np.arange(width), (n_rows, 1))
    transition_columns = np.arange(width)
    transition_columns[: len(pi)] = pi
    tables: list[tuple[RowTable, Index, Array]] = [
        (rows.kernel, transition_columns, rows.kernel.fixed[:, pi][..., pi])
    ]
    if rows.sensor is not None:
        tables.append((rows.sensor, np.arange(width), rows.sensor.fixed[..., pi, :]))
    elif not rows.codes.has_rows and not _is_invariant(rows.codes.setting.observation, pi):
        return None
    seen = rows.codes.setting.seen_cost
    if rows.costs is not None:
        tables.append((rows.costs, np.arange(width), rows.costs.fixed[:, pi]))
    elif seen is not None and not np.array_equal(seen.probabilities[:, pi], seen.probabilities):
        return None
    for table, order, fixed in tables:
        where, renamed = table.where, table.where[..., pi]
        if ((where < 0) != (renamed < 0)).any() or (fixed[where < 0] != table.fixed[where < 0]).any():
            return None
        for new, old in zip(where[where >= 0].tolist(), renamed[where >= 0].tolist(), strict=True):
            if source[new] not in (-1, old):
                return None
            source[new], columns[new] = old, order
    possible = rows.concentration > 0
    if not np.array_equal(possible, possible[source[:, None], columns]):
        return None
    return source, columns


def _is_invariant(observation: Array, pi: Index) -> bool:
    renamed = observation[:, pi] if observation.ndim == 3 else observation[:, pi][:, :, pi]
    return np.array_equal(renamed, observation)


def log_prior(rows: FreeRows, log_rows: Array) -> Array:
    """Return the log density of the logarithms of the free rows, up to a constant, shape [N]."""
    alpha = rows.concentration[..., None]
    terms = np.where(alpha > 0, alpha * np.where(alpha > 0, log_rows, 0.0), 0.0)
    return np.asarray(terms.sum(axis=(0, 1)))


def renamed(rows: FreeRows, log_rows: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Propose a random renaming for each kernel, which may be the identity.

    Without the identity, two states of an ensemble would be exchanged in all kernels or in none. Returns the
    renamed rows, shape [R, W, N], and which kernels the proposal is worth a try for, shape [N]: the others
    have the identity, or would be rejected, because the prior density of the proposal is too low.
    """
    proposed, identity = log_rows.copy(), len(rows.permutations)
    choices: Index = np.asarray(rng.integers(identity + 1, size=log_rows.shape[-1]), np.int64)
    for number in np.unique(choices[choices < identity]).tolist():
        mapped = row_map(rows, rows.permutations[number])
        assert mapped is not None
        source, columns = mapped
        mine = choices == number
        proposed[..., mine] = log_rows[source[:, None], columns][..., mine]
    hopeful = log_prior(rows, proposed) - log_prior(rows, log_rows) > _HOPELESS
    return proposed, np.asarray(hopeful & (choices < identity))
