"""Scratch arrays for the compiled passes over the history."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Codes
from .hidden_paths import SEGMENT, tabulate
from .step_codes import StepCodes


class Workspace:
    """Inputs and scratch arrays of a pass over the history for N kernels.

    The method `fit` grows them with the history. `joint[K, S·S·N]` contains M by step number (or θ by step
    number, if observations have rows of likelihoods).
    """

    def __init__(self, codes: StepCodes, size: int) -> None:
        n_steps, n_states = codes.n_actions * codes.n_codes, codes.n_states
        self.step_codes = codes
        self.states = (0,) * n_states
        self.likelihood = codes.likelihood
        self.action_of = codes.action_of  # [A·R]
        self.number_of = np.arange(n_steps, dtype=np.uint32)  # [A·R]: the number of each step number
        self.joint = np.zeros((n_steps, n_states * n_states * size))
        self.shares = np.zeros_like(self.joint)
        self.alpha = np.zeros((SEGMENT + 1, n_states * size))
        self.checkpoints = np.zeros((1, n_states * size))

    def tabulate(self, kernels: Array, factors: Array | None = None) -> None:
        """Compute `joint` for kernels [A, S, S′, N].

        `factors[A·R, S, S′, N]` are η κ of each kernel, if the kernels have observation models of their own.
        """
        if self.step_codes.by_code:
            self.joint[...] = flat(self.step_codes.matrices(kernels, factors))
        else:
            tabulate(flat(kernels), self.likelihood, self.joint)

    def start(self, start: Array) -> Array:
        """Return `start`, h_1 of shape [S] or [S, N], for each kernel, shape [S·N]."""
        size = self.alpha.shape[1] // len(self.states)
        return np.repeat(start, size) if start.ndim == 1 else np.ascontiguousarray(start).reshape(-1)

    def fit(self, length: int) -> None:
        """Allocate checkpoints for a history of `length` steps."""
        wanted = length // SEGMENT + 1
        if wanted > len(self.checkpoints):
            self.checkpoints = np.zeros((2 * wanted, *self.checkpoints.shape[1:]))

    @property
    def by_step(self) -> tuple[Array, Codes]:
        """The matrices from which hidden paths are drawn backwards, and the number of that of each step."""
        return self.joint, self.number_of


def flat(kernels: npt.NDArray[np.generic]) -> npt.NDArray[Any]:
    """Return `kernels` [A, S, S′, N] as an array [A, S·S·N], as the compiled passes need it.

    The array is not copied.
    """
    return kernels.reshape(len(kernels), -1)
