"""The exact posterior on a finite set of kernels.

Each kernel has a filter, and each observation multiplies the weight of the kernel by the probability of the
observation under its filter, as in the paper's equations for f_{t+1} and h_{t+1}:

    f_{t+1}(θ) ∝ f_t(θ) Σ_{s, s′} η(o_{t+1} | s′) θ(s′ | s, a_t) h_t(s; θ).

The compiled functions of `filter_bank` do the computations. A kernel under which an observation has
probability 0 has weight 0 from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .._numba import jit as compiled
from .._utils.arrays import Array
from ..errors import ImpossibleObservationError, InvalidModelError, OutOfOrderError
from ..models import kernel
from ..protocols import ModelSample
from . import filter_bank as filtering
from . import snapshots
from .encoding import Many, State, same_prior
from .filtered_kernels import FilteredKernels
from .finite_prior import FinitePrior
from .mean_settings import mean_of_settings
from .model_fit import resume_test
from .predictive_test import kind_of_code
from .sampled_filter import NO_POSSIBLE_STATES, NO_REFRESH, PossibleStates, RefreshRule
from .saved_states import filters_in, time_in, units_in
from .step_codes import Reading, Steps


class FinitePosterior(FilteredKernels):
    """The posterior of a `FinitePrior`: weights of the kernels, the belief under each, and expected counts.

    Parameters
    ----------
    prior
        The prior.

    >>> from psrl_pomdp import FinitePrior, Setting
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
        self.prior: FinitePrior = prior
        self.time = 0  # t: o_1..o_t are known; 0 before the start
        self._codes = prior.step_codes
        self._set_filters(
            filtering.make_filter_bank(self._codes, prior.kernels, prior.weights, prior.factors)
        )

    @property
    def kernels(self) -> Array:
        """The kernels of the set, shape [M, A, S, S′]."""
        return self.prior.kernels

    def start(self, first_observation: Any) -> None:
        """Condition on the first observation, or on nothing if it is None."""
        if self.time:
            raise OutOfOrderError("start: this posterior has started already")
        reading = self._codes.first_reading(first_observation)
        likelihood = self.prior.first_likelihood(reading)
        if not filtering.start_filters(self._filters, np.ascontiguousarray(self.prior.initial.T), likelihood):
            raise self._codes.impossible(reading, None, "every kernel of the prior")
        self.time = 1

    def update_reading(self, action: int, reading: Reading) -> None:
        """Condition on action a_t and what came after it."""
        self._need_start("update")
        filters = self._filters
        likelihood = filters.likelihood[action, reading.code] if reading.row is None else reading.row
        matrix = self._codes.matrix_number(action, reading.code)
        kind = kind_of_code(filters.test, reading.code)
        if reading.row is not None:
            kind = int(self._codes.cells.numbers(action, [reading.value])[0])
        if not filtering.update(filters, action, matrix, kind, likelihood):
            raise self._codes.impossible(reading, action, "every kernel of positive weight")
        self.time += 1

    def update_many(self, actions: npt.ArrayLike, observations: Many, costs: Many | None = None) -> None:
        """Condition on many steps in one compiled loop; −1 is a missing observation."""
        self._need_start("update_many")
        steps = self._codes.steps(actions, observations, costs)
        a, codes, rows, values = steps
        kinds = self._codes.cells.numbers_after(a, values) if len(rows) else codes
        done = filtering.update_many(self._filters, a, codes, rows, kinds)
        self.time += done
        if done < len(a):
            reading = Reading(int(codes[done]))
            if len(rows):
                reading = Reading(int(codes[done]), rows[done], values[done])
            raise self._codes.impossible(reading, int(a[done]), "every kernel of positive weight")

    def filter_bank(self) -> tuple[filtering.FilterBank, PossibleStates, RefreshRule]:
        """Return the filters, for compiled loops. There are no structural zeros and no refreshes."""
        return self._filters, NO_POSSIBLE_STATES, NO_REFRESH

    def commit(self, steps: Steps, *, refresh: bool) -> None:
        """Record steps that a compiled loop has taken with the filters."""
        self.time += len(steps.actions)

    def sample(self, rng: np.random.Generator) -> Array:
        """Draw θ ~ f_t, shape [A, S, S′]."""
        return np.asarray(self.prior.kernels[self.sample_index(rng)])

    def member(self, index: int) -> ModelSample:
        """Return a kernel by number with the belief h_t(·; θ) of this unit."""
        setting = None if self.prior.sensors is None else self.prior.setting_of(index)
        return ModelSample(self.prior.kernels[index], self._filters.belief[:, index].copy(), index, setting)

    def belief_of(self, sample: ModelSample) -> Array:
        """Return the belief under a kernel of the set; zeros if the observations are impossible under it."""
        if sample.kernel_index is None:
            return self.belief(sample.kernel)
        return self._filters.belief[:, sample.kernel_index].copy()

    def belief(self, theta: npt.ArrayLike) -> Array:
        """Return h_t(·; θ) for a kernel of the set.

        If the set has the kernel several times, with different initial distributions, this is the weighted
        mean.
        """
        self._need_start("belief")
        same = (self.prior.kernels == kernel("kernel", theta, self.setting)).all(axis=(1, 2, 3))
        if not same.any():
            raise InvalidModelError(
                f"the kernel is not one of the {len(self.prior)} kernels of this posterior"
            )
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

    def _sensor_tables(self) -> Array | None:
        sensors = self.prior.sensors
        return None if sensors is None else np.moveaxis(sensors, 0, -1)

    def _cost_tables(self) -> Array | None:
        return None  # all kernels share the costs

    def mean(self) -> Array:
        """Return E[θ | F_t], shape [A, S, S′]."""
        return np.asarray(np.tensordot(self.weights, self.prior.kernels, axes=1))

    def mean_model(self) -> ModelSample:
        """Return the posterior mean of θ, which is usually not in the set, and the mean belief."""
        setting = None
        if self.prior.sensors is not None:
            settings = [self.prior.setting_of(m) for m in range(len(self.prior))]
            setting = mean_of_settings(settings, self.weights)
        return ModelSample(self.mean(), self.weights @ self.beliefs, None, setting)

    def mode_model(self, near: Array | None = None) -> ModelSample:
        """Return the most probable kernel of the set; `near` is not used."""
        return self.member(int(np.argmax(self.weights)))

    def probability(self, kernel: Array) -> float | None:
        """Return f_t(`kernel`), or None if the kernel is not in the set."""
        same = (self.prior.kernels == kernel).all(axis=(1, 2, 3))
        return float(self.weights[same].sum()) if same.any() else None

    def snapshot(self) -> Any:
        """Return the data that `go_back` needs."""
        return self.time, snapshots.snapshot(self._shared, self._number)

    def go_back(self, before: Any) -> None:
        """Return to the state at the snapshot `before`. A snapshot can be restored several times."""
        self.time, filters = before
        snapshots.restore(self._shared, filters)

    def state(self) -> State:
        """Return the data that `FinitePrior.restore` needs: numbers, arrays and a string."""
        return {
            "prior": self.prior.fingerprint,
            **filtering.filter_state(self._filters),
            **self._unit_state(),
            **self._other_states(),
        }

    def resume(self, state: Mapping[str, object]) -> FinitePosterior:
        """Restore a saved state; later results are equal to the last bit.

        Raises `InvalidModelError` if this posterior cannot be in the state.
        """
        same_prior(state, self.prior.fingerprint)
        self._resume_unit(state)
        self._resume_others(state)
        return self

    def _resume_unit(self, state: Mapping[str, object]) -> None:
        time, fresh = time_in(state), filtering.filter_state(self._filters)
        filtering.load_filter_state(self._filters, filters_in(state, fresh, time, shared=units_in(state) > 1))
        resume_test(self._filters.test, state, time)
        self.time = time

    def __repr__(self) -> str:
        return f"FinitePosterior(t={self.time}, {len(self.prior)} kernels)"
