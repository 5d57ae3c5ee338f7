"""Estimate an observation model from observations that were made in known states."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Index, Names, checked_names
from ..errors import CalibrationWarning, InvalidModelError, did_you_mean
from .base import ContinuousSensor
from .dirichlet import DirichletSensor
from .fits import FITS, Fit
from .parameters import shortened

_LEAST_EVIDENCE = 0.05  # the level of the test whether two states have the same distribution
_TABLE = "table"


def calibrate(
    states: Sequence[Any] | npt.ArrayLike,
    observations: Sequence[Any] | npt.ArrayLike,
    n_states: int | None = None,
    actions: Sequence[Any] | npt.ArrayLike | None = None,
    *,
    family: str = _TABLE,
    prior: npt.ArrayLike = 0.5,
    n_observations: int | None = None,
    n_actions: int | None = None,
    state_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    observation_names: Sequence[str] | None = None,
) -> DirichletSensor | ContinuousSensor:
    """Return the observation model that observations in known states say.

    Parameters
    ----------
    states
        The state in which each observation was made: the number or the name of a state.
    observations
        The observations: numbers or names for a table, and otherwise numbers, counts, or vectors of shape
        [n, d]. Observations that are None or NaN are left out.
    n_states
        The number of states; by default the number of `state_names`, or one more than the largest number.
    actions
        The action that led to each state, if the distribution depends on it.
    family
        "table" for a table of probabilities; or the family of a density: "gaussian", "log-normal", "gamma",
        "exponential", "poisson", "negative-binomial" or "multivariate-gaussian".
    prior
        For a table: what is added to every count, as in `DirichletSensor.from_calibration`.
    n_observations, n_actions
        The numbers of observations and actions; by default as for `n_states`.
    state_names, action_names, observation_names
        Names that the lists use.

    Returns
    -------
    DirichletSensor or ContinuousSensor
        For a table, a `DirichletSensor`, which says how well each row is known. For a density, the sensor
        with the estimated parameters.

    Raises
    ------
    InvalidModelError
        If the lists do not fit together, a state or an observation is unknown, or there are too few
        observations in a state to estimate a density. The message names the state.

    Warns
    -----
    CalibrationWarning
        If observations do not tell two states apart: a likelihood-ratio test of the hypothesis that they have
        the same distribution does not reject it at the level 5 %. Also if no observation was made in a state.

    >>> sensor = calibrate(["new", "new", "worn", "worn"] * 9, ["low", "low", "low", "high"] * 9,
    ...                    state_names=["new", "worn"], observation_names=["low", "high"])
    >>> sensor.counts.tolist()
    [[18.5, 0.5], [9.5, 9.5]]
    """
    if family != _TABLE and family not in FITS:
        known = (_TABLE, *FITS)
        raise InvalidModelError(
            f"family is {shortened(family)}{did_you_mean(str(family), known)}; known are {', '.join(known)}"
        )
    state, n_states = _numbered("states", states, n_states, state_names)
    kept = state >= 0
    action, count = np.zeros(len(state), dtype=np.int64), None
    if actions is not None:
        action, count = _numbered("actions", actions, n_actions, action_names)
        _same_length("actions", action, state)
        kept &= action >= 0
    names = Names(
        checked_names("state_names", state_names, n_states),
        None if count is None else checked_names("action_names", action_names, count),
    )
    if family == _TABLE:
        observed, width = _numbered("observations", observations, n_observations, observation_names)
        _same_length("observations", observed, state)
        kept &= observed >= 0
        samples = _Samples(_grouped(observed[kept], action[kept], state[kept], n_states, count), count, names)
        return _table(samples, width, prior)
    values = _values(observations, FITS[family].is_vector)
    _same_length("observations", values, state)
    kept &= ~np.isnan(values).reshape(len(values), -1).any(axis=1)
    samples = _Samples(_grouped(values[kept], action[kept], state[kept], n_states, count), count, names)
    return _density(samples, family)


@dataclass(frozen=True)
class _Samples:
    """Observations by action and state."""

    by_row: list[list[npt.NDArray[Any]]]  # [A][S]: the observations
    n_actions: int | None
    names: Names

    def called(self, action: int, state: int) -> str:
        """Return the words for a row."""
        after = "" if self.n_actions is None else f" after action {self.names.action(action)}"
        return f"state {self.names.state(state)}{after}"


def _table(samples: _Samples, n_observations: int, prior: npt.ArrayLike) -> DirichletSensor:
    counts = np.array(
        [[np.bincount(row, minlength=n_observations) for row in rows] for rows in samples.by_row],
        dtype=np.float64,
    )
    empty = [samples.called(a, s) for a, s in np.argwhere(counts.sum(axis=2) == 0).tolist()]
    if empty:
        _warn(f"no observation was made in {_listed(empty)}: the prior decides there")

    def evidence(one: Array, other: Array) -> tuple[float, int]:
        """Return the logarithm of the likelihood ratio of two rows of counts, and its degrees of freedom."""
        both = one + other
        used = int((both > 0).sum())
        return _entropy(one) + _entropy(other) - _entropy(both), max(used - 1, 0)

    for s, t in combinations(range(counts.shape[1]), 2):
        logs, freedom, gaps = 0.0, 0, []
        for row, (one, other) in enumerate(zip(counts[:, s], counts[:, t], strict=True)):
            if one.sum() and other.sum():
                more, degrees = evidence(one, other)
                logs, freedom = logs + more, freedom + degrees
                better = one / one.sum() > other / other.sum()
                gaps.append((row, _gap(one[better].sum(), one.sum(), other[better].sum(), other.sum())))
        _compare(samples, s, t, logs, freedom, gaps)
    found = counts if samples.n_actions is not None else counts[0]
    return DirichletSensor.from_calibration(found, prior)


def _entropy(counts: Array) -> float:
    """Return Σ n log(n / N)."""
    some = counts[counts > 0]
    return float((some * np.log(some / some.sum())).sum()) if len(some) else 0.0


def _density(samples: _Samples, family: str) -> ContinuousSensor:
    fit = FITS[family]
    for a, rows in enumerate(samples.by_row):
        for s, row in enumerate(rows):
            where = samples.called(a, s)
            least = fit.fewest(row.shape[1] if row.ndim == 2 else 1)
            if len(row) < least:
                raise InvalidModelError(
                    f"{where} has {len(row)} observations; at least {least} are wanted for {family}"
                )
            if why := fit.refusal(row):
                raise InvalidModelError(f"{where}: {why}")
    estimates = [[fit.estimate(row) for row in rows] for rows in samples.by_row]
    n_states = len(samples.by_row[0])
    for s, t in combinations(range(n_states), 2):
        logs, freedom = 0.0, 0
        gaps: list[tuple[int, tuple[float, float]]] = []
        for a, rows in enumerate(samples.by_row):
            more, degrees, gap = _tested(fit, rows[s], rows[t])
            logs, freedom = logs + more, freedom + degrees
            gaps.append((a, gap))
        _compare(samples, s, t, logs, freedom, gaps)
    stacked = [
        np.array([[one[k] for one in rows] for rows in estimates]) for k in range(len(estimates[0][0]))
    ]
    return fit.build(*(each if samples.n_actions is not None else each[0] for each in stacked))


def _tested(fit: Fit, one: Array, other: Array) -> tuple[float, int, tuple[float, float]]:
    """Return the logarithm of the likelihood ratio, its degrees of freedom, and the total variation."""
    both = np.concatenate([one, other])
    if fit.refusal(both):  # all observations are equal
        return 0.0, 0, (0.0, 0.0)
    apart = fit.build(
        *(np.array(pair) for pair in zip(fit.likeliest(one), fit.likeliest(other), strict=True))
    )
    same = fit.build(*(np.array([each]) for each in fit.likeliest(both)))
    logs = apart.log_likelihood(0, both)
    ratio = logs[: len(one), 0].sum() + logs[len(one) :, 1].sum() - same.log_likelihood(0, both).sum()
    better = logs[:, 0] > logs[:, 1]
    gap = _gap(better[: len(one)].sum(), len(one), better[len(one) :].sum(), len(other))
    return float(ratio), fit.n_parameters(one.shape[1] if one.ndim == 2 else 1), gap


def _gap(hits: float, tries: float, others: float, other_tries: float) -> tuple[float, float]:
    """Return the difference of two shares, the total variation, and its standard error."""
    p, q = hits / tries, others / other_tries
    return float(p - q), float(np.sqrt(p * (1 - p) / tries + q * (1 - q) / other_tries))


def _compare(
    samples: _Samples, s: int, t: int, logs: float, freedom: int, gaps: list[tuple[int, tuple[float, float]]]
) -> None:
    """Warn if the observations in two states could come from one distribution."""
    from scipy.special import gammaincc  # imported here because the import is slow

    if not gaps or (freedom and gammaincc(0.5 * freedom, max(logs, 0.0)) <= _LEAST_EVIDENCE):
        return
    row, (variation, error) = max(gaps, key=lambda each: each[1][0])
    sizes = [sum(len(rows[state]) for rows in samples.by_row) for state in (s, t)]
    after = "" if samples.n_actions is None else f" after action {samples.names.action(row)}"
    _warn(
        f"{sizes[0]} and {sizes[1]} observations do not tell the states {samples.names.state(s)} and "
        f"{samples.names.state(t)} apart: the total variation is {variation:.2g} ± {error:.2g}{after}"
    )


def _warn(message: str) -> None:
    warnings.warn(CalibrationWarning(message), stacklevel=_outside())


def _outside() -> int:
    """Return the level of the first caller outside of this module."""
    import sys

    level = 1
    while sys._getframe(level).f_globals.get("__name__") == __name__:
        level += 1
    return level


def _listed(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _grouped(
    values: npt.NDArray[Any], actions: Index, states: Index, n_states: int, n_actions: int | None
) -> list[list[npt.NDArray[Any]]]:
    """Return the values by action and state."""
    return [[values[(actions == a) & (states == s)] for s in range(n_states)] for a in range(n_actions or 1)]


def _same_length(what: str, found: npt.NDArray[Any], states: Index) -> None:
    if len(found) != len(states):
        raise InvalidModelError(f"{what} has {len(found)} entries, and states has {len(states)}")


def _entries(what: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not np.iterable(values):
        raise InvalidModelError(f"{what} is {shortened(values)}, not a list")
    found = list(values)
    if not found:
        raise InvalidModelError(f"{what} is empty")
    return found


def _numbered(what: str, values: Any, count: int | None, names: Sequence[str] | None) -> tuple[Index, int]:
    """Return the numbers of entries that are given by number or name, −1 for lost ones, and their count."""
    entries = _entries(what, values)
    if not _is_size(count):
        raise InvalidModelError(f"n_{what} is {shortened(count)}, not a positive integer")
    if names is not None:
        size = len(list(names)) if count is None else count
        names = checked_names(f"{what[:-1]}_names", names, size)
    place = {name: i for i, name in enumerate(names or ())}
    found = np.empty(len(entries), dtype=np.int64)
    for i, entry in enumerate(entries):
        if _is_lost(entry):
            found[i] = -1
        elif isinstance(entry, str):
            if entry not in place:
                hint = did_you_mean(entry, place) if names else f": pass {what[:-1]}_names"
                raise InvalidModelError(f"{what}[{i}] is the unknown name {shortened(entry)}{hint}")
            found[i] = place[entry]
        elif isinstance(entry, bool | np.bool_) or not isinstance(entry, int | float | np.number):
            raise InvalidModelError(f"{what}[{i}] is {shortened(entry)}, not a number or a name")
        elif not (0 <= entry < 1 << 20) or entry != int(entry):
            raise InvalidModelError(f"{what}[{i}] is {entry}, not a number from 0")
        else:
            found[i] = int(entry)
    size = len(place) if names else count or int(found.max()) + 1
    if size < 1:
        raise InvalidModelError(f"{what} contains no entry that was not lost")
    if found.max() >= size:
        i = int(found.argmax())
        raise InvalidModelError(f"{what}[{i}] is {found[i]}: they are numbered from 0 to {size - 1}")
    return found, int(size)


def _is_size(value: object) -> bool:
    """Return whether a value is a positive integer, or None."""
    if value is None:
        return True
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)


def _values(observations: Any, is_vector: bool) -> Array:
    """Return observations as an array of shape [n], or [n, d], NaN where they were lost."""
    entries = _entries("observations", observations)
    width = next((len(list(entry)) for entry in entries if is_vector and np.iterable(entry)), 1)
    shape = (width,) if is_vector else ()
    found = np.empty((len(entries), *shape))
    for i, entry in enumerate(entries):
        if _is_lost(entry):
            found[i] = np.nan
            continue
        try:
            number = np.asarray(entry)
            if number.dtype.kind not in "iuf" or number.shape != shape:
                raise TypeError
            found[i] = number
        except (TypeError, ValueError):
            wanted = f"a list of {width} numbers" if is_vector else "a number"
            raise InvalidModelError(f"observations[{i}] is {shortened(entry)}, not {wanted}") from None
        if np.isinf(found[i]).any():
            raise InvalidModelError(f"observations[{i}] is {shortened(entry)}, not finite")
    return found


def _is_lost(value: object) -> bool:
    """Return whether a value is None, NaN, or the NA of pandas."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))
