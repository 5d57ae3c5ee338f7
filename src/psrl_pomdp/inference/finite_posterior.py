"""The posterior over a finite set of kernels, exactly.

Each kernel has its filter, and each reading multiplies the kernel's weight by the chance that the filter gave
to it, as the paper's equations for f_{t+1} and h_{t+1} say:

    f_{t+1}(θ) ∝ f_t(θ) Σ_{s, s′} η(o_{t+1} | s′) θ(s′ | s, a_t) h_t(s; θ).

The work is done by the compiled steps of `filter_bank`. A kernel that gave a reading no chance has
weight zero from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .._numba import jit as compiled
from .._utils.arrays import Array
from ..errors import ImpossibleObservation, InvalidModelError, OutOfOrderError
from ..models.model import Setting, kernel
from . import filter_bank as filtering
from . import snapshots
from .encoding import State, action_number, first_number, impossible, reading_number, same_prior, step_numbers
from .finite_prior import FinitePrior
from .sampled_filter import NOTHING_POSSIBLE, Possible
from .saved_states import filters_in, time_in


class FinitePosterior:
    """f_t over the kernels of a `FinitePrior`, with h_t for each of them and ñ_t.

    >>> setting = Setting([[0.9, 0.1], [0.2, 0.8]], [[0.0, 1.0]], [1.0, 0.0], first_observation=None)
    >>> stays, moves = [[[0.9, 0.1], [0.1, 0.9]]], [[[0.1, 0.9], [0.9, 0.1]]]
    >>> posterior = FinitePrior(setting, [stays, moves]).posterior()
    >>> posterior.start(None)
    >>> posterior.update(0, 1)
    >>> posterior.weights.round(3).tolist(), posterior.expected_counts.tolist()
    ([0.189, 0.811], [[1.0, 0.0]])
    """

    def __init__(self, prior: FinitePrior) -> None:
        compiled.LEARNING.want(f"finite-{prior.setting.n_states}")
        self.prior = prior
        self.time = 0  # t: o_1..o_t are known; 0 before the start
        self._filters = filtering.filters(prior.setting, prior.kernels, prior.weights)

    @property
    def setting(self) -> Setting:
        return self.prior.setting

    @property
    def weights(self) -> Array:
        """[M]: f_t(θ)."""
        return filtering.weights(self._filters)

    @property
    def kernels(self) -> Array:
        """[M, A, S, S]: the set."""
        return self.prior.kernels

    @property
    def beliefs(self) -> Array:
        """[M, S]: h_t(·; θ), zeros for kernels that the readings have ruled out."""
        return self._filters.belief.T.copy()

    @property
    def expected_counts(self) -> Array:
        """[A, S]: ñ_t(s, a), over steps 1..t−1, given the readings up to o_{t−1}."""
        return self._filters.expected.copy()

    def start(self, first_observation: int | str | None) -> None:
        """f_1 and h_1 from o_1, or from nothing."""
        if self.time:
            raise OutOfOrderError("start: this posterior has started already")
        reading = first_number(self.setting, first_observation)
        likelihood = filtering.first_likelihood(self.setting, reading)
        if not filtering.begin(self._filters, np.ascontiguousarray(self.prior.initial.T), likelihood):
            raise impossible(self.setting, reading, None, "every kernel")
        self.time = 1

    def update(self, action: int | str, observation: int | str | None) -> None:
        """f_{t+1}, h_{t+1} and ñ_{t+1} from a_t and o_{t+1}; None is a lost reading."""
        self._need_start("update")
        a, o = action_number(self.setting, action), reading_number(self.setting, observation)
        if not filtering.update(self._filters, a, o):
            raise impossible(self.setting, o, a, "every kernel that has weight")
        self.time += 1

    def update_many(self, actions: npt.ArrayLike, observations: npt.ArrayLike) -> None:
        """`update` for each pair in turn, in one compiled loop; −1 stands for a lost reading."""
        self._need_start("update_many")
        a, o = step_numbers(self.setting, actions, observations)
        done = filtering.update_many(self._filters, a, o)
        self.time += done
        if done < len(a):
            raise impossible(self.setting, int(o[done]), int(a[done]), "every kernel that has weight")

    @property
    def engine(self) -> tuple[filtering.Filters, Possible, float]:
        """For compiled loops: the filters; no structural zeros; no size that asks for a refresh."""
        return self._filters, NOTHING_POSSIBLE, 0.0

    def absorb(self, actions: npt.NDArray[Any], observations: npt.NDArray[Any], refresh: bool) -> None:
        """Steps that a compiled loop has taken with the `engine`."""
        self.time += len(actions)

    def sample_index(self, rng: np.random.Generator) -> int:
        """The number of a kernel drawn from f_t."""
        cumulative = np.cumsum(self.weights)
        return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))

    def sample(self, rng: np.random.Generator) -> Array:
        """θ ~ f_t, a kernel `[A, S, S]`."""
        return np.asarray(self.prior.kernels[self.sample_index(rng)])

    def belief(self, theta: npt.ArrayLike) -> Array:
        """h_t(·; θ) for a kernel of the set; where it is listed with several starts, over all of them."""
        self._need_start("belief")
        same = (self.prior.kernels == kernel("kernel", theta, self.setting)).all(axis=(1, 2, 3))
        if not same.any():
            raise InvalidModelError(f"the kernel is none of the {len(self.prior)} of this posterior")
        beliefs, weights = self.beliefs[same], self.weights[same]
        if not beliefs.any():
            raise ImpossibleObservation("the readings are impossible under this kernel: it has no belief")
        alive = beliefs.any(axis=1)
        weights = weights if weights.any() else alive / alive.sum()
        return np.asarray(weights @ beliefs / weights.sum())

    def mean(self) -> Array:
        """E[θ | F_t], a kernel `[A, S, S]`."""
        return np.asarray(np.tensordot(self.weights, self.prior.kernels, axes=1))

    @property
    def effective_size(self) -> float:
        """1 / Σ f_t²: how many kernels are still in question."""
        return float(1.0 / np.square(self.weights).sum())

    def snapshot(self) -> Any:
        """What `go_back` needs to take back whatever comes next."""
        return self.time, snapshots.snapshot(self._filters)

    def go_back(self, before: Any) -> None:
        """Be as at the snapshot `before`; it can be repeated."""
        self.time, filters = before
        self._filters = snapshots.restored(filters)

    def state(self) -> State:
        """All that `FinitePrior.restore` needs, as numbers, arrays and a text."""
        return {"prior": self.prior.fingerprint, "time": self.time, **filtering.saved(self._filters)}

    def resume(self, state: Mapping[str, object]) -> FinitePosterior:
        """Go on from a saved state, to the last bit as the posterior that saved it.

        A state that this prior's posterior cannot be in raises `InvalidModelError`.
        """
        same_prior(state, self.prior.fingerprint)
        time = time_in(state)
        filtering.resume(self._filters, filters_in(state, filtering.saved(self._filters), time))
        self.time = time
        return self

    def _need_start(self, call: str) -> None:
        if not self.time:
            raise OutOfOrderError(f"{call} before start")

    def __repr__(self) -> str:
        return f"FinitePosterior(t={self.time}, {len(self.prior)} kernels)"
