"""The posterior over Dirichlet rows: a weighted ensemble of kernels with exact filters.

The posterior is a mixture over all hidden paths, of which there are exponentially many. But the state space
is finite, so for any one kernel the filter and the likelihood are exact, and an ensemble needs no particles
for the states: N kernels carry weights by the exact chance of each reading, and are resampled and moved
when their effective number falls below N/2 (`refresh.py`). N is 32, or 64 where 60 or more numbers are
unknown.

Expected counts ñ_t follow the exact recursion of `psrl_pomdp.belief` for every kernel, averaged by weight.
After a refresh the recursion restarts from φ_t of the new kernels given the whole history (`visits.py`, to
1e-12).

Memory grows with the history alone: two bytes a step, and a checkpoint of the filter every 256 steps.

Kernels sampled at different times are each from the posterior of their time, as Algorithm 1 asks, but not
independent of each other given the history: the ensemble is kept between refreshes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import belief as filtering
from .. import compiled
from ..arrays import Array
from ..errors import ImpossibleObservation, OutOfOrderError
from ..model import Setting, kernel
from . import ensemble
from .dirichlet import DirichletPrior, log_dirichlet
from .history import History
from .protocol import (
    Index,
    State,
    action_number,
    first_number,
    impossible,
    reading_number,
    restored,
    same_prior,
    step_numbers,
)
from .refresh import Tuning, beliefs_and_visits, refresh
from .rows import expand, free_rows
from .space import Space

_TUNED = ("refreshes", "correlation", "step", "length", "hmc_moves", "sweeps")


class DirichletPosterior:
    """f_t as N weighted kernels, with h_t for each of them and ñ_t.

    >>> setting = Setting([[0.9, 0.1], [0.2, 0.8]], [[0.0, 1.0]], [1.0, 0.0], first_observation=None)
    >>> rng = np.random.default_rng(0)
    >>> posterior = DirichletPrior(setting, [[[1.0, 1.0], [1.0, 1.0]]]).posterior(rng)
    >>> posterior.start(None)
    >>> posterior.update(0, 1)
    >>> bool(posterior.mean()[0, 0, 1] > 0.5), posterior.expected_counts.tolist()
    (True, [[1.0, 0.0]])
    """

    def __init__(self, prior: DirichletPrior, rng: np.random.Generator, size: int | None = None) -> None:
        setting = prior.setting
        compiled.LEARNING.want(f"dirichlet-{setting.n_states}")
        self.prior = prior
        self.time = 0  # t: o_1..o_t are known; 0 before the start
        self._rng = rng
        self._rows = free_rows(prior)
        self.size = size or (64 if self._rows.parameters >= 60 else 32)
        shape = (*self._rows.concentration.shape, self.size)
        self._log_rows = log_dirichlet(
            rng, np.broadcast_to(self._rows.concentration[..., None], shape), axis=1
        )
        kernels = expand(self._rows, self._log_rows)
        equal = np.full(self.size, 1.0 / self.size)
        self._filters = filtering.filters(setting, kernels.transpose(3, 0, 1, 2), equal)
        self._space = Space(self._filters.likelihood, self.size)
        self.tuning = Tuning(counts=np.zeros_like(self._rows.concentration))
        self._past = History(setting.n_actions, setting.n_observations + 1)
        n_states = setting.n_states
        self._used = ensemble.Used(
            np.zeros((*prior.concentration.shape, 1)),
            np.zeros((n_states, 1)),
            np.zeros((n_states, 1)),
            np.zeros(1),
        )
        possible = np.zeros(n_states, dtype=bool)
        self._possible = ensemble.Possible(self._rows.support, possible, possible.copy())

    @property
    def setting(self) -> Setting:
        return self.prior.setting

    @property
    def kernels(self) -> Array:
        """[N, A, S, S]: the ensemble."""
        return self._filters.transition.transpose(3, 0, 1, 2).copy()

    @property
    def beliefs(self) -> Array:
        """[N, S]: h_t(·; θ) of each kernel of the ensemble."""
        return self._filters.belief.T.copy()

    @property
    def weights(self) -> Array:
        """[N]: the weights of the ensemble."""
        return filtering.weights(self._filters)

    @property
    def effective_size(self) -> float:
        """1 / Σ w²: how many equally weighted kernels the ensemble is worth."""
        return float(1.0 / np.square(self.weights).sum())

    @property
    def expected_counts(self) -> Array:
        """[A, S]: ñ_t(s, a), over steps 1..t−1, given the readings up to o_{t−1}."""
        return self._filters.expected.copy()

    def start(self, first_observation: int | None) -> None:
        """f_1 and h_1 from o_1, or from nothing. The start does not depend on θ: all weights stay equal."""
        if self.time:
            raise OutOfOrderError("start: this posterior has started already")
        reading = first_number(self.setting, first_observation)
        likelihood = filtering.first_likelihood(self.setting, reading)
        begin = self.setting.initial * likelihood
        if not filtering.begin(
            self._filters, np.repeat(self.setting.initial[:, None], self.size, 1), likelihood
        ):
            raise impossible(self.setting, reading, None, "the initial distribution")
        self._past.start = begin / begin.sum()
        self._possible.now[:] = begin > 0
        self.time = 1

    def update(self, action: int, observation: int | None) -> None:
        """f_{t+1}, h_{t+1} and ñ_{t+1} from a_t and o_{t+1}; None is a lost reading."""
        a, o = action_number(self.setting, action), reading_number(self.setting, observation)
        self._take(np.array([a]), np.array([o]))

    def update_many(self, actions: npt.ArrayLike, observations: npt.ArrayLike) -> None:
        """`update` for each pair in turn, in compiled loops; −1 stands for a lost reading."""
        self._take(*step_numbers(self.setting, actions, observations))

    def _take(self, actions: Index, readings: Index) -> None:
        if not self.time:
            raise OutOfOrderError("update before start")
        past = self._past
        past.write(actions, readings)
        end = past.length + len(actions)
        least = 0.5 * self.size if len(self._rows.concentration) else 0.0
        while past.length < end:
            past.length, why = ensemble.advance(
                self._filters, self._used, self._possible, past.codes, past.length, end, least
            )
            self.time = past.length + 1
            if why == ensemble.REFRESH:
                self.refresh()
            elif why != ensemble.DONE:
                raise self._refused(why)

    def _refused(self, why: int) -> ImpossibleObservation:
        a, o = self._past.step(self._past.length)
        reading = None if o == self.setting.n_observations else o
        if why == ensemble.IMPOSSIBLE:
            return impossible(self.setting, reading, a, "every kernel that the prior allows")
        return impossible(
            self.setting, reading, a, f"all {self.size} kernels of the ensemble, though the prior allows it"
        )

    @property
    def engine(self) -> tuple[filtering.Filters, ensemble.Possible, float]:
        """For compiled loops: the filters, the possible states, and the size below which to refresh."""
        return self._filters, self._possible, 0.5 * self.size if len(self._rows.concentration) else 0.0

    def absorb(self, actions: npt.NDArray[Any], observations: npt.NDArray[Any], refresh: bool) -> None:
        """Steps that a compiled loop has taken with the `engine`, and whether it stopped for a refresh."""
        past = self._past
        past.write(actions.astype(np.int64), observations.astype(np.int64))
        past.length += len(actions)
        self.time = past.length + 1
        self._used.transition[...] = np.nan  # its belief was not kept up
        if refresh:
            self.refresh()

    def refresh(self) -> None:
        """Resample the kernels by weight and move them, given the whole history."""
        self._log_rows = refresh(
            self._rows, self._log_rows, self.weights, self._past, self._space, self.tuning, self._rng
        )
        kernels, own = expand(self._rows, self._log_rows), self._filters
        filtering.put_kernels(own, kernels)
        belief, visits = beliefs_and_visits(kernels, self._past, self._space)
        filtering.put_beliefs(own, belief)
        filtering.put_counts(own, visits.transpose(2, 0, 1, 3))
        own.log_weight[:] = 0.0
        own.product[:] = 1.0
        own.scale[:] = 1.0

    def sample_index(self, rng: np.random.Generator) -> int:
        """The number of a kernel of the ensemble, drawn by weight."""
        cumulative = np.cumsum(self.weights)
        return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))

    def sample(self, rng: np.random.Generator) -> Array:
        """θ ~ f_t, a kernel `[A, S, S]`, whose belief is kept up from now on, until the next sample."""
        n = self.sample_index(rng)
        self._used.transition[..., 0] = self._filters.transition[..., n]
        self._used.belief[:, 0] = self._filters.belief[:, n]
        return self._filters.transition[..., n].copy()

    def belief(self, theta: npt.ArrayLike) -> Array:
        """h_t(·; θ) for any kernel: at once for the last one sampled, else from the whole history."""
        if not self.time:
            raise OutOfOrderError("belief before start")
        transition = kernel("kernel", theta, self.setting)
        if (transition == self._used.transition[..., 0]).all():
            found = self._used.belief[:, 0].copy()
        else:
            past = self._past
            found = ensemble.filter_one(
                transition, self._filters.likelihood, past.start, past.codes, past.length
            )
        if not found.any():
            raise ImpossibleObservation("the readings are impossible under this kernel: it has no belief")
        return np.asarray(found)

    def mean(self) -> Array:
        """E[θ | F_t], a kernel `[A, S, S]`, as the ensemble has it."""
        return np.asarray(self._filters.transition @ self.weights)

    def state(self) -> State:
        """All that `DirichletPrior.restore` needs, but for the generator's own state."""
        tuned = {f"tuning_{name}": getattr(self.tuning, name) for name in _TUNED}
        return {
            "prior": self.prior.fingerprint,
            "time": self.time,
            "size": self.size,
            "log_rows": self._log_rows.copy(),
            "history": self._past.past.copy(),
            "history_start": self._past.start.copy(),
            "possible": self._possible.now.astype(np.float64),
            "used_kernel": self._used.transition.copy(),
            "used_belief": self._used.belief.copy(),
            "tuning_counts": self.tuning.counts.copy(),
            **tuned,
            **filtering.saved(self._filters),
        }

    @classmethod
    def resumed(
        cls, prior: DirichletPrior, state: Mapping[str, object], rng: np.random.Generator
    ) -> DirichletPosterior:
        """A posterior that goes on from a saved state."""
        same_prior(state, prior.fingerprint)
        scalar = np.zeros(())
        own = cls(prior, np.random.default_rng(0), int(restored(state, "size", scalar)))
        own._rng = rng
        own.time = int(restored(state, "time", scalar))
        own._log_rows = restored(state, "log_rows", own._log_rows)
        filtering.put_kernels(own._filters, expand(own._rows, own._log_rows))
        like = filtering.saved(own._filters)
        filtering.resume(own._filters, {name: restored(state, name, array) for name, array in like.items()})
        steps = np.zeros(max(own.time - 1, 0), dtype=own._past.codes.dtype)
        start = np.zeros(prior.setting.n_states if own.time else 0)
        own._past.resume(restored(state, "history_start", start), restored(state, "history", steps))
        own._possible.now[:] = restored(state, "possible", np.zeros(prior.setting.n_states)) > 0
        for name in ("kernel", "belief"):
            array = own._used.transition if name == "kernel" else own._used.belief
            array[...] = restored(state, f"used_{name}", array)
        own.tuning.counts = restored(state, "tuning_counts", own.tuning.counts)
        for name in _TUNED:
            value = float(restored(state, f"tuning_{name}", scalar))
            setattr(own.tuning, name, value if name in ("correlation", "step") else int(value))
        return own

    def __repr__(self) -> str:
        return f"DirichletPosterior(t={self.time}, {self.size} kernels)"
