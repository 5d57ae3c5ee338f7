"""What posteriors with a bank of filters share: weighted kernels, with a belief and expected counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.arrays import Array
from ..errors import OutOfOrderError
from ..models import Setting
from . import filter_bank as filtering
from .encoding import action_number
from .learned_tables import TablePosterior
from .model_fit import ModelFit, model_fit
from .step_codes import Reading, StepCodes


class FilteredKernels(TablePosterior):
    """Base class of posteriors that are N weighted kernels with a filter bank.

    A subclass sets the attributes below, and defines `kernels` and `update_reading`.
    """

    prior: Any
    time: int  # t: o_1..o_t are known; 0 before the start
    _codes: StepCodes
    _filters: filtering.FilterBank

    @property
    def setting(self) -> Setting:
        """The POMDP without its transition kernel."""
        return self.prior.setting  # type: ignore[no-any-return]

    @property
    def kernels(self) -> Array:
        """The kernels, shape [N, A, S, S′]."""
        raise NotImplementedError

    @property
    def beliefs(self) -> Array:
        """The belief h_t(·; θ) under each kernel, shape [N, S].

        It is zero for a kernel that is excluded by the observations.
        """
        return self._filters.belief.T.copy()

    @property
    def weights(self) -> Array:
        """The posterior probabilities f_t(θ) of the kernels, shape [N]."""
        return filtering.weights(self._filters)

    @property
    def effective_size(self) -> float:
        """The effective number of kernels, 1 / Σ f_t²."""
        return float(1.0 / np.square(self.weights).sum())

    @property
    def expected_counts(self) -> Array:
        """The expected counts ñ_t(s, a), shape [A, S].

        They count steps 1..t−1, given the observations up to o_{t−1}.
        """
        return self._filters.expected.copy()

    @property
    def fit(self) -> ModelFit | None:
        """Whether readings have come as they were predicted; None if they cannot be tested."""
        return model_fit(self._filters.test, self._codes)

    def update(self, action: int | str, observation: Any, cost: float | None = None) -> None:
        """Condition on action a_t, observation o_{t+1} and the seen cost of a_t; None is missing."""
        a = action_number(self.setting, action)
        self.update_reading(a, self._codes.reading(a, observation, cost))

    def update_reading(self, action: int, reading: Reading) -> None:
        """Condition on action a_t and what came after it."""
        raise NotImplementedError

    def sample_index(self, rng: np.random.Generator) -> int:
        """Draw the number of a kernel from f_t."""
        cumulative = np.cumsum(self.weights)
        return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))

    def distance(self, kernel: Array) -> float:
        """Return E‖θ − `kernel`‖₁, averaged over all rows."""
        distance = np.abs(self.kernels - kernel).sum(axis=3).mean(axis=(1, 2))
        return float(self.weights @ distance)

    def _need_start(self, call: str) -> None:
        if not self.time:
            raise OutOfOrderError(f"{call} before start")
