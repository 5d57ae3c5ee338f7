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
from ..models import Setting
from ..sensors.costs import SeenCosts
from .dirichlet_prior import DirichletPrior, log_dirichlet
from .history import Histories, History
from .mode import free_rows_near, mode_of_rows
from .refresh import AdaptationState, refresh
from .rows import FreeRows, free_rows
from .saved_states import array_in, whole_in
from .step_codes import StepCodes
from .workspace import Workspace

if TYPE_CHECKING:
    from .finite_prior import FinitePrior

State = Mapping[str, object]
Support = npt.NDArray[np.bool_]

_TUNED = ("refreshes", "correlation", "step", "length", "hmc_moves", "sweeps")
_TUNED_TABLES = ("hmc_correlation", "sharpness")  # with an unknown observation model or unknown costs
MOST_KERNELS = 1 << 16  # the largest number of kernels of a group in a file


class KernelGroup(Protocol):
    """N kernels of an ensemble that are resampled and moved together."""

    size: int  # N
    weights: Array  # [N]: prior weights, which sum to 1
    initial: Array  # [S, N]: the initial distribution under each kernel
    kernels: Array  # [A, S, S', N]
    factors: Array | None  # [A·R, S, S', N]: η κ under each kernel; None if all kernels share them
    support: Support  # [K, S, S']: the possible entries of the matrices of steps, under the prior
    space: Workspace  # scratch arrays of the compiled passes over the history
    movable: bool  # if False, only the weights of the kernels change
    tuning: Any  # the state of the adaptation of the moves

    def refreshed(self, weights: Array, pasts: Histories, rng: np.random.Generator) -> KernelGroup:
        """Return a group that is resampled by `weights[N]` and moved, given the histories of all units."""

    def mode(self, weights: Array, pasts: Histories, near: Array | None) -> tuple[Array, Setting]:
        """Return a mode of the posterior within the group, [A, S, S′], with its setting.

        A search for it starts from `near`.
        """

    def setting_of(self, number: int) -> Setting:
        """Return the POMDP without its transition kernel under kernel `number`."""

    def first_likelihood(self, past: History) -> Array:
        """Return η(o_1 | s) under each kernel, shape [S, N]; ones without a first observation."""

    def start(self, past: History) -> Array:
        """Return h_1 up to a factor, shape [S], or under each kernel, shape [S, N]."""

    def tables(self) -> tuple[Array | None, Array | None]:
        """Return observation models [.., O, N] and costs [A, S, N] of the kernels, or None if known."""

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
        self.kernels = rows.kernels(log_rows)
        self.factors = rows.factors(log_rows)
        self.support = possible_steps(rows.codes, rows.support, self.factors)
        self.movable = len(rows.concentration) > 0

    @classmethod
    def drawn(cls, prior: DirichletPrior, rng: np.random.Generator, size: int | None = None) -> Self:
        """Draw a group from a prior, by default of 32 kernels, or 64 if 60 or more parameters are unknown."""
        rows = free_rows(prior)
        size = size or (64 if rows.parameters >= 60 else 32)
        shape = (*rows.concentration.shape, size)
        log_rows = log_dirichlet(rng, np.broadcast_to(rows.concentration[..., None], shape), axis=1)
        tuning = AdaptationState(counts=np.zeros_like(rows.concentration))
        initial = np.repeat(prior.setting.initial[:, None], size, axis=1)
        return cls(rows, log_rows, tuning, initial, Workspace(rows.codes, size))

    def refreshed(self, weights: Array, pasts: Histories, rng: np.random.Generator) -> RowGroup:
        """Return a group that is resampled by `weights[N]` and moved, given the histories of all units."""
        tuning = replace(self.tuning)
        log_rows = refresh(self.rows, self.log_rows, weights, pasts, self.space, tuning, rng)
        return RowGroup(self.rows, log_rows, tuning, self.initial, self.space)

    def mode(self, weights: Array, pasts: Histories, near: Array | None) -> tuple[Array, Setting]:
        """Return a mode of the posterior within the group, which iterations from `near` find."""
        kernel = np.asarray(self.kernels @ weights) if near is None else near
        start = free_rows_near(self.rows, kernel, self.log_rows, weights)
        log_rows = mode_of_rows(self.rows, pasts, start)
        return np.asarray(self.rows.kernels(log_rows)[..., 0]), setting_of_rows(self.rows, log_rows, 0)

    def setting_of(self, number: int) -> Setting:
        """Return the setting with the observation model and the costs of kernel `number`."""
        return setting_of_rows(self.rows, self.log_rows, number)

    def first_likelihood(self, past: History) -> Array:
        """Return η(o_1 | s) under each kernel, shape [S, N]."""
        return self.rows.first_likelihood(self.log_rows, past)

    def start(self, past: History) -> Array:
        """Return h_1 up to a factor, shape [S], or under each kernel, shape [S, N]."""
        return self.rows.start(self.log_rows, past)

    def tables(self) -> tuple[Array | None, Array | None]:
        """Return observation models [.., O, N] and costs [A, S, N] of the kernels, or None if known."""
        rows, seen = self.rows, self.rows.codes.setting.seen_cost
        own = rows.probabilities(self.log_rows)
        costs = None
        if rows.costs is not None and seen is not None:
            costs = np.einsum("ascn,c->asn", rows.costs.expanded(own), seen.values)
        return None if rows.sensor is None else rows.sensor.expanded(own), costs

    def clear(self) -> None:
        """Clear the scratch arrays of passes over the history."""
        self.space.shares[...] = 0.0

    def state(self) -> dict[str, Any]:
        """Return the logarithms of the rows, and the state of the adaptation of the moves."""
        names = (*_TUNED, *_TUNED_TABLES) if self.rows.has_tables else _TUNED
        return {
            "log_rows": self.log_rows.copy(),
            "tuning_counts": self.tuning.counts.copy(),
            **{f"tuning_{name}": getattr(self.tuning, name) for name in names},
        }

    @classmethod
    def restored(cls, prior: DirichletPrior, state: State, size: int, time: int) -> Self:
        """Return the group that saved `state`. An invalid state raises `InvalidModelError`."""
        fresh = cls.drawn(prior, np.random.default_rng(0), size)
        log_rows = log_rows_in(state, fresh.rows, fresh.log_rows.shape)
        tuning = tuning_in(state, fresh.tuning, time, fresh.rows.has_tables, fresh.rows.codes.n_actions)
        return cls(fresh.rows, log_rows, tuning, fresh.initial, fresh.space)


def log_rows_in(state: State, rows: FreeRows, shape: tuple[int, ...]) -> Array:
    """Return the saved logarithms of the rows, checked.

    Rows must sum to one, and only structural zeros may be −inf.
    """
    found = array_in(state, "log_rows", shape, high=1e-6, finite=False)
    possible = rows.concentration > 0.0
    if not (np.isneginf(found[~possible]).all() and (found[possible] > -np.inf).all()):
        raise InvalidModelError("log_rows must be -inf at the zeros of the prior and nowhere else")
    if (np.abs(np.exp(found).sum(axis=1) - 1.0) > 1e-6).any():
        raise InvalidModelError("log_rows has a row that does not sum to 1")
    return found


def tuning_in(
    state: State, fresh: AdaptationState, time: int, has_tables: bool, n_actions: int
) -> AdaptationState:
    """Return the saved state of the adaptation."""
    steps = max(time - 1, 0)
    tuning = replace(fresh, counts=array_in(state, "tuning_counts", fresh.counts.shape, 0.0, float(steps)))
    tuning.correlation = float(array_in(state, "tuning_correlation", (), -1.0 - 1e-6, 1.0 + 1e-6))
    tuning.step = float(array_in(state, "tuning_step", (), 0.0, 1.5))
    tuning.length = whole_in(state, "tuning_length", 0, steps)
    for name in ("refreshes", "hmc_moves", "sweeps"):
        setattr(tuning, name, whole_in(state, f"tuning_{name}", 0, LARGEST_TIME))
    if has_tables:
        tuning.hmc_correlation = float(array_in(state, "tuning_hmc_correlation", (), -1.0 - 1e-6, 1.0 + 1e-6))
        n_actions = n_actions if tuning.refreshes else 0
        tuning.sharpness = array_in(state, "tuning_sharpness", (n_actions,), 0.0, 1e3)
    return tuning


def possible_steps(codes: StepCodes, support: Support, factors: Array | None) -> Support:
    """Return which entries of the matrices of steps are possible, shape [K, S, S′].

    `support[A, S, S′]` are the possible transitions. `factors[A·R, S, S′, N]` are η κ under each kernel, of
    which the zeros are structural; None if all kernels share them.
    """
    if not codes.by_code:
        return support
    known = codes.factors if factors is None else factors.max(axis=-1)
    assert known is not None
    return np.asarray(np.repeat(support, codes.n_codes, axis=0) & (known > 0.0))


def setting_of_rows(rows: FreeRows, log_rows: Array, number: int) -> Setting:
    """Return the POMDP without its transition kernel under the free rows of kernel `number`."""
    setting = rows.codes.setting
    if not rows.has_tables:
        return setting
    one = log_rows[..., number : number + 1]
    changes: dict[str, Any] = {}
    if rows.sensor is not None:
        table = normalized_rows(rows.sensor.expanded(rows.probabilities(one))[..., 0])
        changes["observation"] = table
        changes["first_observation"] = table if rows.learns_from_first else setting.first_observation
    if rows.costs is not None:
        assert setting.seen_cost is not None
        seen = setting.seen_cost
        probabilities = normalized_rows(rows.costs.expanded(rows.probabilities(one))[..., 0])
        changes["seen_cost"] = SeenCosts(seen.values, probabilities, seen.edges)
        changes["cost"] = np.clip(setting.units.to_scaled(probabilities @ seen.values), 0.0, 1.0)
    return setting.replace(**changes)


def normalized_rows(table: Array) -> Array:
    """Return a table whose rows sum to 1 up to rounding, divided by these sums."""
    return np.asarray(table / table.sum(axis=-1, keepdims=True))


class FixedGroup:
    """The kernels of a finite set, of which only the weights change."""

    movable = False
    tuning = None

    def __init__(self, prior: FinitePrior) -> None:
        self.prior = prior
        self.size = len(prior)
        self.weights, self.initial = prior.weights, np.ascontiguousarray(prior.initial.T)
        self.kernels = np.ascontiguousarray(prior.kernels.transpose(1, 2, 3, 0))
        self.factors = prior.factors
        self.support = possible_steps(prior.step_codes, prior.support, self.factors)
        self.space = Workspace(prior.step_codes, 1)  # not used: a finite set needs no pass over the history

    def refreshed(self, weights: Array, pasts: Histories, rng: np.random.Generator) -> FixedGroup:
        """Return this group, whose kernels are not moved."""
        return self

    def mode(self, weights: Array, pasts: Histories, near: Array | None) -> tuple[Array, Setting]:
        """Return the kernel with the largest weight, and its setting."""
        best = int(np.argmax(weights))
        return np.asarray(self.kernels[..., best].copy()), self.setting_of(best)

    def setting_of(self, number: int) -> Setting:
        """Return the POMDP without its transition kernel under kernel `number`."""
        return self.prior.setting_of(number)

    def first_likelihood(self, past: History) -> Array:
        """Return η(o_1 | s) under each kernel, shape [S, N]."""
        return self.prior.first_likelihood(past.first)

    def start(self, past: History) -> Array:
        """Return h_1, shape [S]."""
        return past.start

    def tables(self) -> tuple[Array | None, Array | None]:
        """Return None twice, because a mixture has no unknown tables."""
        return None, None

    def clear(self) -> None:
        """Do nothing, because a finite set needs no pass over the history."""

    def state(self) -> dict[str, Any]:
        """Return nothing, because a file stores the kernels with the prior."""
        return {}
