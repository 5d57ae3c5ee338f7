"""The posterior over Dirichlet rows: a weighted ensemble of kernels with exact filters.

The posterior is a mixture over all hidden paths, of which there are exponentially many. But the state space
is finite, so for any one kernel the filter and the likelihood are exact, and an ensemble needs no particles
for the states: N kernels carry weights by the exact chance of each reading, and are resampled and moved
when their effective number falls below N/2 (`refresh.py`). N is 32, or 64 where 60 or more numbers are
unknown.

Expected counts ñ_t follow the exact recursion of `filter_bank` for every kernel, averaged by weight.
After a refresh the recursion restarts from φ_t of the new kernels given the whole history
(`expected_visits.py`, to 1e-12).

Memory grows with the history alone: two bytes a step, and a checkpoint of the filter every 256 steps.

Kernels sampled at different times are each from the posterior of their time, as Algorithm 1 asks, but not
independent of each other given the history: the ensemble is kept between refreshes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .._numba import jit as compiled
from .._serialization.contents import LARGEST_TIME
from .._utils.arrays import Array, Index
from ..errors import ImpossibleObservation, InvalidModelError, OutOfOrderError
from ..models.model import Setting, kernel
from . import filter_bank as filtering
from . import sampled_filter as ensemble
from . import snapshots
from .dirichlet_prior import DirichletPrior, log_dirichlet
from .encoding import State, action_number, first_number, impossible, reading_number, same_prior, step_numbers
from .history import History
from .refresh import Tuning, beliefs_and_visits, refresh
from .rows import expand, free_rows
from .saved_states import (
    array_in,
    codes_in,
    distributions_or_nothing,
    filters_in,
    has_shape,
    time_in,
    whole_in,
)
from .workspace import Space

_TUNED = ("refreshes", "correlation", "step", "length", "hmc_moves", "sweeps")
_MOST_KERNELS = 1 << 16  # of an ensemble in a file


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

    def start(self, first_observation: int | str | None) -> None:
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

    def update(self, action: int | str, observation: int | str | None) -> None:
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
        nothing = np.full_like(self._used.transition, np.nan)
        self._used = self._used._replace(transition=nothing)  # its belief was not kept up
        if refresh:
            self.refresh()

    def refresh(self) -> None:
        """Resample the kernels by weight and move them, given the whole history."""
        tuning = replace(self.tuning)
        log_rows = refresh(
            self._rows, self._log_rows, self.weights, self._past, self._space, tuning, self._rng
        )
        kernels = expand(self._rows, log_rows)
        belief, visits = beliefs_and_visits(kernels, self._past, self._space)
        # Filters of their own, so that a snapshot taken before needs no copy of the old ones.
        fresh = filtering.filters(self.setting, kernels.transpose(3, 0, 1, 2), np.ones(self.size))
        filtering.put_beliefs(fresh, belief)
        filtering.put_counts(fresh, visits.transpose(2, 0, 1, 3))
        fresh.expected[...] = self._filters.expected
        self._log_rows, self._filters, self.tuning = log_rows, fresh, tuning

    def sample_index(self, rng: np.random.Generator) -> int:
        """The number of a kernel of the ensemble, drawn by weight."""
        cumulative = np.cumsum(self.weights)
        return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))

    def sample(self, rng: np.random.Generator) -> Array:
        """θ ~ f_t, a kernel `[A, S, S]`, whose belief is kept up from now on, until the next sample."""
        n = self.sample_index(rng)
        self._used = self._used._replace(
            transition=self._filters.transition[..., n : n + 1].copy(),
            belief=self._filters.belief[:, n : n + 1].copy(),
        )
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

    def snapshot(self) -> Any:
        """What `go_back` needs to take back whatever comes next, but for what is drawn from the generator."""
        past, used = self._past, self._used
        return (
            (self.time, self._log_rows, self.tuning, past.length, past.start),
            snapshots.snapshot(self._filters),
            (used, used.belief.copy()),
            self._possible.now.copy(),
        )

    def go_back(self, before: Any) -> None:
        """Be as at the snapshot `before`; it can be repeated."""
        plain, filters, (self._used, belief), possible = before
        self.time, self._log_rows, self.tuning, self._past.length, self._past.start = plain
        self._filters = snapshots.restored(filters)
        self._used.belief[...] = belief
        self._possible.now[...] = possible
        self._space.shares[...] = 0.0  # which a pass that was cut short may not have left so

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
        n_actions, n_states = prior.known.shape
        size, time = whole_in(state, "size", 1, _MOST_KERNELS), time_in(state)
        has_shape(state, "counts", (n_states, n_actions, n_states, size))
        own = cls(prior, np.random.default_rng(0), size)
        own._rng, own.time = rng, time
        own._log_rows = own._log_rows_in(state)
        filtering.put_kernels(own._filters, expand(own._rows, own._log_rows))
        filtering.resume(own._filters, filters_in(state, filtering.saved(own._filters), time))
        own._take_history(state)
        own._take_used(state)
        own._take_tuning(state)
        return own

    def _log_rows_in(self, state: Mapping[str, object]) -> Array:
        """Logarithms of rows that sum to one, -inf exactly where the prior allows no transition."""
        found = array_in(state, "log_rows", self._log_rows.shape, high=1e-6, finite=False)
        possible = self._rows.concentration > 0.0
        if not (np.isneginf(found[~possible]).all() and (found[possible] > -np.inf).all()):
            raise InvalidModelError("log_rows is not -inf exactly where the prior has a zero")
        if (np.abs(np.exp(found).sum(axis=1) - 1.0) > 1e-6).any():
            raise InvalidModelError("log_rows holds a row that does not sum to 1")
        return found

    def _take_history(self, state: Mapping[str, object]) -> None:
        """What happened, and the states that it leaves possible."""
        setting, belief = self.setting, self._filters.belief
        n_states, count = setting.n_states, setting.n_actions * self._past.n_readings
        codes = codes_in(state, "history", max(self.time - 1, 0), count)
        start = array_in(state, "history_start", (n_states if self.time else 0,), 0.0, 1.0)
        if self.time and not any(np.allclose(start, known, 0.0, 1e-9) for known in _starts(setting)):
            raise InvalidModelError("history_start is the belief after no first reading")
        self._past.resume(start, codes)
        now = array_in(state, "possible", (n_states,), 0.0, 1.0) > 0
        if (belief.any(axis=1) & ~now).any():
            raise InvalidModelError("possible leaves out a state that a kernel believes in")
        self._possible.now[:] = now

    def _take_used(self, state: Mapping[str, object]) -> None:
        """The kernel that was sampled last and its belief; not numbers where the belief was not kept up."""
        used, support = self._used, self._rows.support[..., None]
        kernel_now = array_in(state, "used_kernel", used.transition.shape, finite=False)
        if not np.isnan(kernel_now).all():
            kernel_now = array_in(state, "used_kernel", used.transition.shape, 0.0, 1.0 + 1e-6)
            sums = kernel_now.sum(axis=2)
            if kernel_now.any() and ((np.abs(sums - 1.0) > 1e-6).any() or (kernel_now[~support] > 0.0).any()):
                raise InvalidModelError("used_kernel is no kernel that the prior allows")
            distributions_or_nothing(
                "used_belief", array_in(state, "used_belief", used.belief.shape, 0.0, 1.0 + 1e-6)
            )
        used.transition[...] = kernel_now
        used.belief[...] = array_in(state, "used_belief", used.belief.shape, finite=False)

    def _take_tuning(self, state: Mapping[str, object]) -> None:
        """How refreshes have gone so far."""
        steps = max(self.time - 1, 0)
        own, shape = self.tuning, self.tuning.counts.shape
        own.counts = array_in(state, "tuning_counts", shape, 0.0, float(steps))
        own.correlation = float(array_in(state, "tuning_correlation", (), -1.0 - 1e-6, 1.0 + 1e-6))
        own.step = float(array_in(state, "tuning_step", (), 0.0, 1.5))
        own.length = whole_in(state, "tuning_length", 0, steps)
        for name in ("refreshes", "hmc_moves", "sweeps"):
            setattr(own, name, whole_in(state, f"tuning_{name}", 0, LARGEST_TIME))

    def __repr__(self) -> str:
        return f"DirichletPosterior(t={self.time}, {self.size} kernels)"


def _starts(setting: Setting) -> Iterator[Array]:
    """h_1 after every first reading that there can be."""
    first = setting.first_observation
    for reading in [None, *([] if first is None else range(setting.n_observations))]:
        begin = setting.initial * filtering.first_likelihood(setting, reading)
        if begin.any():
            yield begin / begin.sum()
