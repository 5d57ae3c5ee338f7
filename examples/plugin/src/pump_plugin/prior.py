"""The prior without a grid: the logarithm of each of the two rates is uniform between two limits."""

from __future__ import annotations

import numpy as np

from psrl_pomdp import InvalidModelError, ParametricPrior, Setting

from .problem import Array, kernels


class WearPrior(ParametricPrior):
    """Log-uniform rates of wear and of failure, independent of each other."""

    def __init__(self, setting: Setting, *, low: float = 0.025, high: float = 0.4) -> None:
        if (setting.n_actions, setting.n_states) != (2, 3):
            raise InvalidModelError("the prior `wear` is for the pump, which has 2 actions and 3 states")
        if not 0.0 < low < high < 1.0:
            raise InvalidModelError(f"low is {low} and high {high}: wanted 0 < low < high < 1")
        super().__init__(setting)
        self.low, self.high = low, high

    def sample_parameters(self, rng: np.random.Generator, size: int) -> Array:
        """Draw `size` pairs of rates, shape [size, 2]."""
        return np.exp(rng.uniform(np.log(self.low), np.log(self.high), (size, 2)))

    def log_density(self, parameters: Array) -> Array:
        """Return the log density at each pair of rates, shape [N]; −inf outside of the limits."""
        inside = ((parameters >= self.low) & (parameters <= self.high)).all(axis=1)
        constant = 2 * np.log(np.log(self.high / self.low))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(inside, -np.log(parameters).sum(axis=1) - constant, -np.inf)

    def kernels(self, parameters: Array) -> Array:
        """Return the transition kernels of each pair of rates, shape [N, A, S, S]."""
        return kernels(parameters)
