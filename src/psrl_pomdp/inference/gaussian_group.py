"""Kernels with Dirichlet rows, each with its own Gaussian observation model, moved by Gibbs sweeps.

A sweep draws a hidden path for each kernel, then rows, means and standard deviations given the path, which
are conjugate. There are as many sweeps in a refresh as the autocorrelation time of one sweep, measured at
earlier refreshes, up to a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Self

import numpy as np

from .._utils.arrays import Array
from ..errors import InvalidModelError
from ..models import Setting
from ..sensors.gaussian import GaussianSensor
from ..sensors.normal_inverse_gamma import LEAST_SD, MOST_SD
from . import permutations
from .dirichlet_prior import DirichletPrior, learned_setting, log_dirichlet
from .gaussian_steps import fill_rows, sample_paths_with_readings
from .hidden_paths import log_likelihoods
from .history import Histories, History, longest, steps_in
from .kernel_groups import log_rows_in, tuning_in
from .refresh import AdaptationState, beliefs_and_visits, row_correlation, systematic
from .rows import FreeRows, free_rows
from .saved_states import array_in
from .workspace import Workspace, flat

_MOST_SWEEPS = 16
_HOPELESS = -40.0  # a renaming whose prior density is lower by this logarithm is not tried


@dataclass(frozen=True)
class Ensemble:
    """The parameters of N kernels."""

    log_rows: Array  # [R, S', N]: logarithms of the free rows
    means: Array  # [S, N] or [A, S, N]
    sds: Array

    def chosen(self, indices: Any) -> Ensemble:
        """Return the kernels with these numbers."""
        return Ensemble(*(np.ascontiguousarray(each[..., indices]) for each in self.arrays))

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """All parameters."""
        return self.log_rows, self.means, self.sds


class GaussianGroup:
    """Kernels of an ensemble that are resampled and moved together, with an observation model each."""

    movable = True
    factors: Array | None = None  # likelihoods of readings are no table

    def __init__(
        self, prior: DirichletPrior, rows: FreeRows, now: Ensemble, tuning: AdaptationState, space: Workspace
    ) -> None:
        assert prior.density is not None
        self.prior, self.density, self.rows, self.now = prior, prior.density, rows, now
        self.tuning, self.space = tuning, space
        self.size = now.means.shape[-1]
        self.weights = np.full(self.size, 1.0 / self.size)
        self.initial = np.repeat(prior.setting.initial[:, None], self.size, axis=1)
        self.kernels = rows.kernels(now.log_rows)
        self.support = rows.support
        self.means, self.sds = (self._by_action(each) for each in (now.means, now.sds))

    @classmethod
    def drawn(cls, prior: DirichletPrior, rng: np.random.Generator, size: int | None = None) -> Self:
        """Draw a group from a prior, by default of 32 kernels, or 64 if 60 or more parameters are unknown."""
        assert prior.density is not None
        rows, density = free_rows(prior), prior.density
        size = size or (64 if rows.parameters + 2 * density.means.size >= 60 else 32)
        shape = (*rows.concentration.shape, size)
        log_rows = log_dirichlet(rng, np.broadcast_to(rows.concentration[..., None], shape), axis=1)
        means, sds = density.draw_given(rng, np.zeros((3, *density.means.shape, size)))
        tuning = AdaptationState(counts=np.zeros_like(rows.concentration))
        return cls(prior, rows, Ensemble(log_rows, means, sds), tuning, Workspace(rows.codes, size))

    def _by_action(self, parameter: Array) -> Array:
        """Return a parameter of each kernel for every action, shape [A, S, N]."""
        shape = (self.prior.setting.n_actions, *parameter.shape[-2:])
        return np.ascontiguousarray(np.broadcast_to(parameter, shape))

    @property
    def learns_from_first(self) -> bool:
        """Whether the observation before the first action has the unknown distribution, too."""
        return not self.density.depends_on_action and self.prior.setting.has_first_observation

    # -- likelihoods ------------------------------------------------------------------------------

    def first_likelihood(self, past: History) -> Array:
        """Return the likelihoods of o_1 under each kernel, divided by their maximum, shape [S, N]."""
        return self._first(self.now, past)[0]

    def _first(self, now: Ensemble, past: History) -> tuple[Array, float]:
        """Return the likelihoods of o_1, [S, N], and the logarithm of what they were divided by."""
        if past.first is None or not self.learns_from_first:
            shared = self.rows.codes.first_likelihood(past.first)
            return np.repeat(shared[:, None], now.means.shape[-1], axis=1), 0.0
        z = np.minimum(np.abs(float(past.first.value) - now.means) / now.sds, 1e150)
        logs = -0.5 * z**2 - np.log(now.sds)
        return np.exp(logs - logs.max()), float(logs.max())

    def start(self, past: History) -> Array:
        """Return h_1 up to a factor under each kernel, shape [S, N]."""
        return self._start(self.now, past)

    def _start(self, now: Ensemble, past: History) -> Array:
        initial = self.prior.setting.initial[:, None]
        return np.ascontiguousarray(initial * self._first(now, past)[0])

    def likelihood_rows(self, past: History, now: Ensemble | None = None) -> tuple[Array, Array]:
        """Return the likelihoods of all steps under each kernel, shape [T, S·N].

        The second array contains the logarithms of their divisors, shape [N].
        """
        now = self.now if now is None else now
        means, sds = self._by_action(now.means), self._by_action(now.sds)
        rows = np.empty((max(past.length, 1), means.shape[1] * means.shape[2]))
        logs = np.zeros(means.shape[2])
        fill_rows(past.codes, _values(past), past.length, means, sds, rows, logs)
        return rows, logs

    def log_likelihood(self, pasts: Histories, now: Ensemble) -> Array:
        """Return the log-likelihood of the histories, up to a shared constant, shape [N]."""
        space, total = self.space, np.zeros(self.size)
        space.tabulate(self.rows.kernels(now.log_rows))
        for past in pasts:
            rows, found = self.likelihood_rows(past, now)
            logs = np.zeros(len(found))
            log_likelihoods(
                space.states, space.joint, past.codes, rows, past.length,
                space.start(self._start(now, past)), space.alpha, space.checkpoints, logs,
            )  # fmt: skip
            total += found + logs + self._first(now, past)[1]
        return total

    def beliefs_and_visits(self, past: History) -> tuple[Array, Array]:
        """Return h_t [S, N] and φ_t [A, S, X, N], from the whole history."""
        rows, _ = self.likelihood_rows(past)
        return beliefs_and_visits(self.kernels, past, self.space, None, self.start(past), rows)

    # -- moves ------------------------------------------------------------------------------------

    def refreshed(self, weights: Array, pasts: Histories, rng: np.random.Generator) -> GaussianGroup:
        """Return a group that is resampled by `weights[N]` and moved, given the histories of all units."""
        self.space.fit(longest(pasts))
        tuning = replace(self.tuning)
        before = self.now.chosen(systematic(weights, rng.random()))
        now, counts = self.sweep(before, pasts, rng)
        tuning.refreshes += 1
        tuning.sweeps += 1
        found = self._correlation(before, now, counts)
        first = tuning.refreshes == 1
        tuning.correlation = found if first else 0.8 * tuning.correlation + 0.2 * found
        r = min(tuning.correlation, 0.99)
        for _ in range(min(_MOST_SWEEPS, ceil((1 + r) / (1 - r))) - 1):
            now, counts = self.sweep(now, pasts, rng)
            tuning.sweeps += 1
        now = self.rename_states(now, pasts, rng)
        tuning.counts, tuning.length = counts.mean(axis=-1), steps_in(pasts)
        return GaussianGroup(self.prior, self.rows, now, tuning, self.space)

    def sweep(self, now: Ensemble, pasts: Histories, rng: np.random.Generator) -> tuple[Ensemble, Array]:
        """Draw paths given kernels, then kernels and sensors given paths; return them and the path counts."""
        space, rows = self.space, self.rows
        kernels = rows.kernels(now.log_rows)
        space.tabulate(kernels)
        n_actions, n_states, _, size = kernels.shape
        transitions = np.zeros(kernels.shape, dtype=np.int32)
        firsts = np.zeros((len(pasts), size), dtype=np.uint32)
        sums = np.zeros((3, n_actions, n_states, size))
        centers = np.ascontiguousarray(np.broadcast_to(self.density.means, (n_actions, n_states)))
        for past, first in zip(pasts, firsts, strict=True):
            likelihoods, _ = self.likelihood_rows(past, now)
            sample_paths_with_readings(
                space.states, flat(kernels), past.codes, likelihoods, _values(past), past.length,
                space.start(self._start(now, past)), space.joint, space.alpha, space.checkpoints,
                rng.integers(2**64, dtype=np.uint64), first, flat(transitions), centers, sums,
            )  # fmt: skip
        begun = firsts[:, None] == np.arange(n_states)[:, None]
        counts = rows.aggregate(transitions, begun, pasts)
        log_rows = log_dirichlet(rng, rows.concentration[..., None] + counts, axis=1)
        if not self.density.depends_on_action:
            sums = sums.sum(axis=1)
            for past, counted in zip(pasts, begun, strict=True):
                if past.first is not None and self.learns_from_first:
                    u = float(past.first.value) - self.density.means[:, None]
                    sums += counted * np.stack([np.ones_like(u), u, u * u])
        means, sds = self.density.draw_given(rng, sums)
        return Ensemble(log_rows, means, sds), counts

    def _correlation(self, before: Ensemble, after: Ensemble, counts: Array) -> float:
        """Return the larger correlation of a sweep: of the rows, or of the means and log sds."""
        of_rows = row_correlation(self.rows, before.log_rows, after.log_rows, counts) or 0.0
        found = []
        for old, new in ((before.means, after.means), (np.log(before.sds), np.log(after.sds))):
            x, y = old - old.mean(axis=-1, keepdims=True), new - new.mean(axis=-1, keepdims=True)
            spread = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
            found.append(np.where(spread > 1e-30, (x * y).sum(axis=-1) / np.maximum(spread, 1e-30), 0.0))
        return max(of_rows, float(np.mean(found)))

    def rename_states(self, now: Ensemble, pasts: Histories, rng: np.random.Generator) -> Ensemble:
        """Offer each kernel a random renaming of the states, by the rule of Metropolis and Hastings."""
        allowed = self.rows.renamings
        if not allowed:
            return now
        choices, uniforms = rng.integers(len(allowed), size=self.size), rng.random(self.size)
        proposed = Ensemble(*(each.copy() for each in now.arrays))
        for number in np.unique(choices):
            pi, mine = allowed[number], choices == number
            mapped = permutations.row_map(self.rows, pi)
            assert mapped is not None
            proposed.log_rows[..., mine] = now.log_rows[mapped[0][:, None], mapped[1]][..., mine]
            proposed.means[..., mine] = now.means[..., pi, :][..., mine]
            proposed.sds[..., mine] = now.sds[..., pi, :][..., mine]
        change = self._log_prior(proposed) - self._log_prior(now)
        if not (change > _HOPELESS).any():
            return now
        gain = change + self.log_likelihood(pasts, proposed) - self.log_likelihood(pasts, now)
        with np.errstate(invalid="ignore"):
            accepted = (change > _HOPELESS) & (np.log(uniforms) < gain)  # False for NaN
        pairs = zip(proposed.arrays, now.arrays, strict=True)
        return Ensemble(*(np.where(accepted, new, old) for new, old in pairs))

    def _log_prior(self, now: Ensemble) -> Array:
        """Return the log density of the parameters, up to a constant, shape [N]."""
        of_sensor = self.density.log_density(now.means, now.sds)
        axes = tuple(range(of_sensor.ndim - 1))
        return np.asarray(permutations.log_prior(self.rows, now.log_rows) + of_sensor.sum(axis=axes))

    # -- what a posterior asks for ----------------------------------------------------------------

    def sensor_of(self, number: int) -> GaussianSensor:
        """Return the observation model of kernel `number`."""
        return GaussianSensor(self.now.means[..., number], self.now.sds[..., number])

    def setting_of(self, number: int) -> Setting:
        """Return the POMDP without its transition kernel under kernel `number`."""
        return learned_setting(self.prior.setting, self.sensor_of(number))

    def mode(self, weights: Array, pasts: Histories, near: Array | None) -> tuple[Array, Setting]:
        """Return the kernel of largest posterior density in the ensemble, with its setting."""
        self.space.fit(longest(pasts))
        best = int(np.argmax(self._log_prior(self.now) + self.log_likelihood(pasts, self.now)))
        return np.asarray(self.kernels[..., best].copy()), self.setting_of(best)

    def tables(self) -> tuple[Array | None, Array | None]:
        """Return nothing: densities have no tables, and the costs are known."""
        return None, None

    def clear(self) -> None:
        """Clear the scratch arrays, which an interrupted pass over the history may have left dirty."""
        self.space.shares[...] = 0.0

    # -- files ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the data that a file stores."""
        names = ("refreshes", "correlation", "step", "length", "hmc_moves", "sweeps")
        return {
            "log_rows": self.now.log_rows.copy(),
            "sensor_means": self.now.means.copy(),
            "sensor_sds": self.now.sds.copy(),
            "tuning_counts": self.tuning.counts.copy(),
            **{f"tuning_{name}": getattr(self.tuning, name) for name in names},
        }

    @classmethod
    def restored(cls, prior: DirichletPrior, state: Mapping[str, object], size: int, time: int) -> Self:
        """Return the group that saved `state`. An invalid state raises `InvalidModelError`."""
        fresh = cls.drawn(prior, np.random.default_rng(0), size)
        now, rows = fresh.now, fresh.rows
        log_rows = log_rows_in(state, rows, now.log_rows.shape)
        means = array_in(state, "sensor_means", now.means.shape, -1e300, 1e300)
        sds = array_in(state, "sensor_sds", now.sds.shape, LEAST_SD, MOST_SD)
        if not np.isfinite(fresh._log_prior(Ensemble(log_rows, means, sds))).all():
            raise InvalidModelError("sensor_means are impossible under the prior")
        tuning = tuning_in(state, fresh.tuning, time, False, rows.codes.n_actions)
        return cls(prior, rows, Ensemble(log_rows, means, sds), tuning, fresh.space)


def _values(past: History) -> Array:
    """Return the readings of the history in an array that is never empty."""
    return past.values if past.length else np.zeros(1)
