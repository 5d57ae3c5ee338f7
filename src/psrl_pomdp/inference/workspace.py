"""Room for the compiled passes over the history, and the shapes they take."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from .hidden_paths import SEGMENT


class Workspace:
    """What a pass over the history reads beside it, and writes, for N kernels; grown with the history."""

    def __init__(self, likelihood: Array, size: int) -> None:
        n_actions, n_readings, n_states = likelihood.shape
        self.states = (0,) * n_states
        self.likelihood = likelihood
        self.action_of = np.repeat(np.arange(n_actions, dtype=np.uint32), n_readings)  # [code]
        self.joint = np.zeros((n_actions * n_readings, n_states * n_states * size))
        self.shares = np.zeros_like(self.joint)
        self.alpha = np.zeros((SEGMENT + 1, n_states * size))
        self.checkpoints = np.zeros((1, n_states * size))

    def fit(self, length: int) -> None:
        wanted = length // SEGMENT + 1
        if wanted > len(self.checkpoints):
            self.checkpoints = np.zeros((2 * wanted, *self.checkpoints.shape[1:]))


def flat(kernels: npt.NDArray[np.generic]) -> npt.NDArray[Any]:
    """`[A, S, S′, N]` as the flat `[A, S·S·N]` of the compiled passes, without a copy."""
    return kernels.reshape(len(kernels), -1)
