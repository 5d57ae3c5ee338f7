"""Priors of a user's own, for tests: a pump that wears at two rates, and the same with gradients."""

from __future__ import annotations

import numpy as np

from psrl_pomdp import ParametricPrior, Setting
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.inference.moves import HMC

PUMP = Setting(
    [[0.8, 0.15, 0.05], [0.15, 0.7, 0.15], [0.05, 0.25, 0.7]],
    [[0.0, 30.0, 100.0], [40.0, 40.0, 60.0]],
    [1.0, 0.0, 0.0],
)


class WearPrior(ParametricPrior):
    """new -> worn at rate φ_0, worn -> broken at rate φ_1, both Beta(1, k); action 1 replaces."""

    support = np.array([[[1, 1, 0], [0, 1, 1], [0, 0, 1]], [[1, 0, 0], [1, 0, 0], [1, 0, 0]]], dtype=bool)

    def __init__(self, setting: Setting = PUMP, k: float = 9.0) -> None:
        super().__init__(setting)
        self.k = k

    def sample_parameters(self, rng: np.random.Generator, size: int) -> Array:
        return rng.beta(1.0, self.k, (size, 2))

    def log_density(self, parameters: Array) -> Array:
        inside = np.asarray(((parameters > 0) & (parameters < 1)).all(axis=1))
        safe = np.where(inside[:, None], parameters, 0.5)
        return np.where(inside, (self.k - 1) * np.log1p(-safe).sum(axis=1), -np.inf)

    def kernels(self, parameters: Array) -> Array:
        kernels = np.zeros((len(parameters), 2, 3, 3))
        for s in range(2):
            kernels[:, 0, s, s], kernels[:, 0, s, s + 1] = 1 - parameters[:, s], parameters[:, s]
        kernels[:, 0, 2, 2] = kernels[:, 1, :, 0] = 1.0
        return kernels


class WearWithGradient(WearPrior):
    """The same, moved by HMC."""

    move = HMC()

    def log_density_gradient(self, parameters: Array) -> Array:
        return -(self.k - 1) / (1 - parameters)

    def kernel_gradient(self, parameters: Array) -> Array:
        slope = np.zeros((len(parameters), 2, 2, 3, 3))
        for s in range(2):
            slope[:, s, 0, s, s], slope[:, s, 0, s, s + 1] = -1.0, 1.0
        return slope


class ManyRates(ParametricPrior):
    """Twelve logits, one for each free entry of a kernel: more than a random walk is for."""

    def sample_parameters(self, rng: np.random.Generator, size: int) -> Array:
        return rng.standard_normal((size, 12))

    def log_density(self, parameters: Array) -> Array:
        return np.asarray(-0.5 * np.square(parameters).sum(axis=1))

    def kernels(self, parameters: Array) -> Array:
        logits = np.concatenate(
            [parameters.reshape(-1, 2, 3, 2), np.zeros((len(parameters), 2, 3, 1))], axis=3
        )
        weights = np.exp(logits)
        return np.asarray(weights / weights.sum(axis=3, keepdims=True))
