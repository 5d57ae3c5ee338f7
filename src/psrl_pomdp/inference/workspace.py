"""Scratch arrays for the compiled passes over the history."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from .hidden_paths import SEGMENT


class Workspace:
    """Inputs and scratch arrays of a pass over the history for N kernels; `fit` grows them with the
    history.
    """

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
        """Allocate checkpoints for a history of `length` steps."""
        wanted = length // SEGMENT + 1
        if wanted > len(self.checkpoints):
            self.checkpoints = np.zeros((2 * wanted, *self.checkpoints.shape[1:]))


def flat(kernels: npt.NDArray[np.generic]) -> npt.NDArray[Any]:
    """Return `kernels` [A, S, S′, N] as an array [A, S·S·N] without a copy, as the compiled passes need
    it.
    """
    return kernels.reshape(len(kernels), -1)
