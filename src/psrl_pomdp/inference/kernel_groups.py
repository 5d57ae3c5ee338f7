"""Groups of kernels in an ensemble: how they are sampled, stored, resampled and moved.

An `EnsemblePosterior` has one group, or one for each component of a mixture prior. Groups are immutable: a
refresh returns a new group, so a snapshot needs no copy.
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
MOST_KERNELS = 1 << 16  # the largest number of kernels of a group in a file


class KernelGroup(Protocol):
    """N kernels of an ensemble that are resampled and moved together."""

    size: int  # N
    weights: Array  # [N]: prior weights, which sum to 1
    initial: Array  # [S, N]: the initial distribution under each kernel
    kernels: Array  # [A, S, S', N]
    support: Support  # [A, S, S']: transitions that are possible under the prior
    space: Workspace  # scratch arrays of the compiled passes over the history
    movable: bool  # if False, only the weights of the kernels change
    tuning: Any  # the state of the adaptation of the moves

    def refreshed(self, weights: Array, past: History, rng: np.random.Generator) -> KernelGroup:
        """Return a group that is resampled by `weights[N]` and moved, given the whole history."""

    def mode(self, weights: Array, past: History, near: Array | None) -> Array:
        """Return a mode of the posterior within the group, shape [A, S, S′]; the search starts from
        `near`.
        """

    def clear(self) -> None:
        """Clear the scratch arrays, which an interrupted pass over the history may have left dirty."""

    def state(self) -> dict[str, Any]:
        """Return the data that a file stores."""


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
        """Draw a group from a prior, by default of 32 kernels, or 64 if 60 or more parameters are unknown."""
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
        """Return the group that saved `state`. An invalid state raises `InvalidModelError`."""
        fresh = cls.drawn(prior, np.random.default_rng(0), likelihood, size)
        log_rows = _log_rows_in(state, fresh.rows, fresh.log_rows.shape)
        return cls(fresh.rows, log_rows, _tuning_in(state, fresh.tuning, time), fresh.initial, fresh.space)


def _log_rows_in(state: State, rows: FreeRows, shape: tuple[int, ...]) -> Array:
    """Return the saved logarithms of the rows, checked: rows sum to one, and only structural zeros are
    −inf.
    """
    found = array_in(state, "log_rows", shape, high=1e-6, finite=False)
    possible = rows.concentration > 0.0
    if not (np.isneginf(found[~possible]).all() and (found[possible] > -np.inf).all()):
        raise InvalidModelError("log_rows must be -inf at the zeros of the prior and nowhere else")
    if (np.abs(np.exp(found).sum(axis=1) - 1.0) > 1e-6).any():
        raise InvalidModelError("log_rows has a row that does not sum to 1")
    return found


def _tuning_in(state: State, fresh: AdaptationState, time: int) -> AdaptationState:
    """Return the saved state of the adaptation."""
    steps = max(time - 1, 0)
    tuning = replace(fresh, counts=array_in(state, "tuning_counts", fresh.counts.shape, 0.0, float(steps)))
    tuning.correlation = float(array_in(state, "tuning_correlation", (), -1.0 - 1e-6, 1.0 + 1e-6))
    tuning.step = float(array_in(state, "tuning_step", (), 0.0, 1.5))
    tuning.length = whole_in(state, "tuning_length", 0, steps)
    for name in ("refreshes", "hmc_moves", "sweeps"):
        setattr(tuning, name, whole_in(state, f"tuning_{name}", 0, LARGEST_TIME))
    return tuning


class FixedGroup:
    """The kernels of a finite set, of which only the weights change."""

    movable = False
    tuning = None

    def __init__(self, prior: FinitePrior, likelihood: Array) -> None:
        self.size = len(prior)
        self.weights, self.initial = prior.weights, np.ascontiguousarray(prior.initial.T)
        self.kernels = np.ascontiguousarray(prior.kernels.transpose(1, 2, 3, 0))
        self.support = prior.support
        self.space = Workspace(likelihood, 1)  # not used: a finite set needs no pass over the history

    def refreshed(self, weights: Array, past: History, rng: np.random.Generator) -> FixedGroup:
        return self

    def mode(self, weights: Array, past: History, near: Array | None) -> Array:
        return np.asarray(self.kernels[..., int(np.argmax(weights))].copy())

    def clear(self) -> None:
        pass

    def state(self) -> dict[str, Any]:
        return {}
