"""The base class of the families of distributions with parameters for each state."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from .._utils.arrays import Array, Mask
from .base import ScalarSensor
from .parameters import together
from .tails import Tails, masses_between


class FamilySensor(ScalarSensor):
    """A `ScalarSensor` with unimodal distributions of one family, with parameters of shape [S] or [A, S].

    Subclasses define the log density, the mode and the tails. These methods receive the parameters as arrays
    that broadcast with the values: [1, S] with values [T, 1], or [S, 1] with edges [1, K + 1].
    """

    words: ClassVar[str] = ""  # in messages
    fields: ClassVar[tuple[str, ...]] = ()  # the names of the parameters
    rounding: ClassVar[float] = 1e-13  # a bound on the error of a log density, relative to 1 + its size

    def _fill(self, **parameters: Array) -> None:
        given = together(**parameters)
        shape = next(iter(given.values())).shape
        self._set(**given, n_states=shape[-1], n_actions=shape[0] if len(shape) == 2 else None)

    def _contents(self) -> tuple[str, list[Array]]:
        return self.family, [getattr(self, name) for name in self.fields]

    def parameters(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {name: getattr(self, name) for name in self.fields}

    def described(self) -> str:
        """Return a few words for messages and reports."""
        return f"{self.words} observations"

    @abstractmethod
    def _log_density(self, values: Array, *parameters: Array) -> Array:
        """Return the log density; it is −inf outside the support and at ±inf, and anything at NaN."""

    @abstractmethod
    def _mode(self, *parameters: Array) -> Array:
        """Return where the density is largest: it rises before it and falls after it."""

    @abstractmethod
    def _tails(self, edges: Array, ends: Mask, *parameters: Array) -> Tails:
        """Return both tails at `edges`; `ends` tells which edges are infinite."""

    def _of(self, action: int) -> tuple[Array, ...]:
        parameters: list[Array] = [getattr(self, name) for name in self.fields]
        return tuple(p if self.n_actions is None else p[action] for p in parameters)

    def log_likelihood(self, action: int, observations: Array) -> Array:
        """Return the log density of observations [T] under every state, shape [T, S′]."""
        values = np.asarray(observations, dtype=np.float64)[:, None]
        with np.errstate(all="ignore"):
            found = self._log_density(values, *self._of(action))
        return np.where(np.isnan(values), 0.0, found)

    def interval_masses(self, action: int, edges: Array) -> tuple[Array, Array]:
        """Return the probability of each interval under every state, and bounds on the errors."""
        row = np.asarray(edges, dtype=np.float64)[None, :]
        columns = [p[:, None] for p in self._of(action)]
        with np.errstate(all="ignore"):
            below, above, errors = self._tails(row, np.isinf(row), *columns)
        return masses_between(below, above, errors)

    def log_density_bounds(self, action: int, edges: Array) -> tuple[Array, Array]:
        """Return bounds on the log density in each interval."""
        row = np.asarray(edges, dtype=np.float64)[None, :]
        first, last = row[:, :-1], row[:, 1:]
        if self.is_discrete:
            first, last = np.floor(first) + 1.0, np.floor(last)
        columns = [p[:, None] for p in self._of(action)]
        with np.errstate(all="ignore"):
            at_first, at_last = self._log_density(first, *columns), self._log_density(last, *columns)
            peak = self._log_density(np.clip(self._mode(*columns), first, last), *columns)
            low = np.minimum(at_first, at_last)
            high = np.maximum(np.maximum(at_first, at_last), peak)
            low, high = low - self._slack(low), high + self._slack(high)
        empty = np.broadcast_to(first > last, low.shape)  # no count is in the interval
        return np.where(empty, -np.inf, low), np.where(empty, -np.inf, high)

    def _slack(self, logs: Array) -> Array:
        return np.where(np.isinf(logs), 0.0, self.rounding * (1.0 + np.abs(logs)))
