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
from ..errors import ImpossibleObservationError, InvalidModelError, OutOfOrderError
from ..models.model import Setting, kernel
from ..protocols import ModelSample
from . import filter_bank as filtering
from . import snapshots
from .encoding import State, action_number, first_number, impossible, reading_number, same_prior, step_numbers
from .finite_prior import FinitePrior
from .sampled_filter import NO_POSSIBLE_STATES, NO_REFRESH, PossibleStates, RefreshRule
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
        self._filters = filtering.make_filter_bank(prior.setting, prior.kernels, prior.weights)

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
        if not filtering.start_filters(self._filters, np.ascontiguousarray(self.prior.initial.T), likelihood):
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

    def filter_bank(self) -> tuple[filtering.FilterBank, PossibleStates, RefreshRule]:
        """For compiled loops: the filters; no structural zeros; no refreshes."""
        return self._filters, NO_POSSIBLE_STATES, NO_REFRESH

    def commit(self, actions: npt.NDArray[Any], observations: npt.NDArray[Any], *, refresh: bool) -> None:
        """Record steps that a compiled loop has taken with the `filter_bank`."""
        self.time += len(actions)

    def sample_index(self, rng: np.random.Generator) -> int:
        """The number of a kernel drawn from f_t."""
        cumulative = np.cumsum(self.weights)
        return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))

    def sample(self, rng: np.random.Generator) -> Array:
        """θ ~ f_t, a kernel `[A, S, S]`."""
        return np.asarray(self.prior.kernels[self.sample_index(rng)])

    def sample_model(self, rng: np.random.Generator) -> ModelSample:
        """Draw θ ~ f_t; return it with h_t(·; θ) and its number."""
        return self._member(self.sample_index(rng))

    def _member(self, index: int) -> ModelSample:
        return ModelSample(self.prior.kernels[index], self._filters.belief[:, index].copy(), index)

    def belief(self, theta: npt.ArrayLike) -> Array:
        """h_t(·; θ) for a kernel of the set; where it is listed with several starts, over all of them."""
        self._need_start("belief")
        same = (self.prior.kernels == kernel("kernel", theta, self.setting)).all(axis=(1, 2, 3))
        if not same.any():
            raise InvalidModelError(f"the kernel is none of the {len(self.prior)} of this posterior")
        beliefs, weights = self.beliefs[same], self.weights[same]
        if len(beliefs) == 1 and beliefs.any():
            return np.asarray(beliefs[0])
        if not beliefs.any():
            raise ImpossibleObservationError(
                "the readings are impossible under this kernel: it has no belief"
            )
        alive = beliefs.any(axis=1)
        weights = weights if weights.any() else alive / alive.sum()
        return np.asarray(weights @ beliefs / weights.sum())

    def mean(self) -> Array:
        """E[θ | F_t], a kernel `[A, S, S]`."""
        return np.asarray(np.tensordot(self.weights, self.prior.kernels, axes=1))

    def mean_model(self) -> ModelSample:
        """Return the posterior mean of θ, which is no kernel of the set, with the mean belief."""
        return ModelSample(self.mean(), self.weights @ self.beliefs)

    def mode_model(self, near: Array | None = None) -> ModelSample:
        """Return the likeliest kernel of the set; `near` is there for the common protocol."""
        return self._member(int(np.argmax(self.weights)))

    def distance(self, kernel: Array) -> float:
        """E‖θ − `kernel`‖₁, the mean of all rows."""
        distance = np.abs(self.prior.kernels - kernel).sum(axis=3).mean(axis=(1, 2))
        return float(self.weights @ distance)

    def probability(self, kernel: Array) -> float | None:
        """Return f_t(`kernel`), or None for a kernel that is not in the set."""
        same = (self.prior.kernels == kernel).all(axis=(1, 2, 3))
        return float(self.weights[same].sum()) if same.any() else None

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
        return {"prior": self.prior.fingerprint, "time": self.time, **filtering.filter_state(self._filters)}

    def resume(self, state: Mapping[str, object]) -> FinitePosterior:
        """Go on from a saved state, to the last bit as the posterior that saved it.

        A state that this prior's posterior cannot be in raises `InvalidModelError`.
        """
        same_prior(state, self.prior.fingerprint)
        time = time_in(state)
        filtering.load_filter_state(
            self._filters, filters_in(state, filtering.filter_state(self._filters), time)
        )
        self.time = time
        return self

    def _need_start(self, call: str) -> None:
        if not self.time:
            raise OutOfOrderError(f"{call} before start")

    def __repr__(self) -> str:
        return f"FinitePosterior(t={self.time}, {len(self.prior)} kernels)"
