"""Groups of kernels in an ensemble: how they are drawn, stored, resampled and moved.

An `EnsemblePosterior` consists of one group, or of several where the prior is a mixture. A group never
changes: a refresh returns a new one, so that a snapshot taken before needs no copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from .._serialization.contents import LARGEST_TIME
from .._utils.arrays import Array
from ..errors import InvalidModelError
from .dirichlet_prior import DirichletPrior, log_dirichlet
from .history import History
from .mode import mode_of_rows
from .refresh import AdaptationState, refresh
from .rows import FreeRows, free_rows, to_kernels
from .saved_states import array_in, whole_in
from .workspace import Workspace

if TYPE_CHECKING:
    from .finite_prior import FinitePrior

State = Mapping[str, object]
Support = npt.NDArray[np.bool_]

_TUNED = ("refreshes", "correlation", "step", "length", "hmc_moves", "sweeps")
MOST_KERNELS = 1 << 16  # of a group in a file


class KernelGroup(Protocol):
    """N kernels of an ensemble that are resampled and moved together."""

    size: int  # N
    weights: Array  # [N]: prior weights, which sum to 1
    initial: Array  # [S, N]: the initial distribution under each kernel
    kernels: Array  # [A, S, S', N]
    support: Support  # [A, S, S']: transitions that are possible at all
    space: Workspace  # scratch of the compiled passes over the history
    movable: bool  # otherwise kernels only change their weights
    tuning: Any  # what refreshes have learned so far

    def refreshed(self, weights: Array, past: History, rng: np.random.Generator) -> KernelGroup:
        """Resample by `weights[N]` and move, given the whole history."""

    def mode(self, weights: Array, past: History, near: Array | None) -> Array:
        """Return a mode [A, S, S'] of the posterior within the group, sought from the kernel `near`."""

    def clear(self) -> None:
        """Clear the scratch of passes over the history: one that was cut short may have left some."""

    def state(self) -> dict[str, Any]:
        """Return everything that a file has to hold."""


class RowGroup:
    """Kernels with Dirichlet rows, moved by Gibbs sweeps over hidden paths or by HMC (`refresh.py`)."""

    def __init__(
        self, rows: FreeRows, log_rows: Array, tuning: AdaptationState, initial: Array, space: Workspace
    ) -> None:
        self.rows, self.log_rows, self.tuning, self.space = rows, log_rows, tuning, space
        self.size = log_rows.shape[-1]
        self.weights = np.full(self.size, 1.0 / self.size)
        self.initial = initial
        self.kernels = to_kernels(rows, log_rows)
        self.support = rows.support
        self.movable = len(rows.concentration) > 0

    @classmethod
    def drawn(
        cls, prior: DirichletPrior, rng: np.random.Generator, likelihood: Array, size: int | None = None
    ) -> Self:
        """Draw a group from a prior: 32 kernels, or 64 where 60 or more numbers are unknown."""
        rows = free_rows(prior)
        size = size or (64 if rows.parameters >= 60 else 32)
        shape = (*rows.concentration.shape, size)
        log_rows = log_dirichlet(rng, np.broadcast_to(rows.concentration[..., None], shape), axis=1)
        tuning = AdaptationState(counts=np.zeros_like(rows.concentration))
        initial = np.repeat(prior.setting.initial[:, None], size, axis=1)
        return cls(rows, log_rows, tuning, initial, Workspace(likelihood, size))

    def refreshed(self, weights: Array, past: History, rng: np.random.Generator) -> RowGroup:
        tuning = replace(self.tuning)
        log_rows = refresh(self.rows, self.log_rows, weights, past, self.space, tuning, rng)
        return RowGroup(self.rows, log_rows, tuning, self.initial, self.space)

    def mode(self, weights: Array, past: History, near: Array | None) -> Array:
        start = np.asarray(self.kernels @ weights) if near is None else near
        return mode_of_rows(self.rows, past, self.space.likelihood, start)

    def clear(self) -> None:
        self.space.shares[...] = 0.0

    def state(self) -> dict[str, Any]:
        return {
            "log_rows": self.log_rows.copy(),
            "tuning_counts": self.tuning.counts.copy(),
            **{f"tuning_{name}": getattr(self.tuning, name) for name in _TUNED},
        }

    @classmethod
    def restored(cls, prior: DirichletPrior, state: State, likelihood: Array, size: int, time: int) -> Self:
        """Return the group whose `state()` this is. Raises `InvalidModelError` where there is no such one."""
        own = cls.drawn(prior, np.random.default_rng(0), likelihood, size)
        log_rows = _log_rows_in(state, own.rows, own.log_rows.shape)
        return cls(own.rows, log_rows, _tuning_in(state, own.tuning, time), own.initial, own.space)


def _log_rows_in(state: State, rows: FreeRows, shape: tuple[int, ...]) -> Array:
    """Logarithms of rows that sum to one, -inf exactly where the prior allows no transition."""
    found = array_in(state, "log_rows", shape, high=1e-6, finite=False)
    possible = rows.concentration > 0.0
    if not (np.isneginf(found[~possible]).all() and (found[possible] > -np.inf).all()):
        raise InvalidModelError("log_rows is not -inf exactly where the prior has a zero")
    if (np.abs(np.exp(found).sum(axis=1) - 1.0) > 1e-6).any():
        raise InvalidModelError("log_rows holds a row that does not sum to 1")
    return found


def _tuning_in(state: State, fresh: AdaptationState, time: int) -> AdaptationState:
    """How refreshes have gone so far."""
    steps = max(time - 1, 0)
    own = replace(fresh, counts=array_in(state, "tuning_counts", fresh.counts.shape, 0.0, float(steps)))
    own.correlation = float(array_in(state, "tuning_correlation", (), -1.0 - 1e-6, 1.0 + 1e-6))
    own.step = float(array_in(state, "tuning_step", (), 0.0, 1.5))
    own.length = whole_in(state, "tuning_length", 0, steps)
    for name in ("refreshes", "hmc_moves", "sweeps"):
        setattr(own, name, whole_in(state, f"tuning_{name}", 0, LARGEST_TIME))
    return own


class FixedGroup:
    """The kernels of a finite set, which only change their weights."""

    movable = False
    tuning = None

    def __init__(self, prior: FinitePrior, likelihood: Array) -> None:
        self.size = len(prior)
        self.weights, self.initial = prior.weights, np.ascontiguousarray(prior.initial.T)
        self.kernels = np.ascontiguousarray(prior.kernels.transpose(1, 2, 3, 0))
        self.support = prior.support
        self.space = Workspace(likelihood, 1)  # no pass over the history is made

    def refreshed(self, weights: Array, past: History, rng: np.random.Generator) -> FixedGroup:
        return self

    def mode(self, weights: Array, past: History, near: Array | None) -> Array:
        return np.asarray(self.kernels[..., int(np.argmax(weights))].copy())

    def clear(self) -> None:
        pass

    def state(self) -> dict[str, Any]:
        return {}
