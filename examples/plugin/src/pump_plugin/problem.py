"""The problem: when to overhaul a pump that wears at two unknown rates."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from psrl_pomdp import POMDP, Setting

OVERHAUL_WORKS = 0.95  # the probability that an overhaul makes the pump sound

Array = npt.NDArray[np.float64]


def pump(wear: float = 0.1, failure: float = 0.4, hearing: float = 0.8) -> POMDP:
    """A pump is overhauled before it fails, or after.

    Hidden: whether the pump is sound, worn or failed. Actions: run it, or overhaul it. Observations: it is
    quiet, noisy or silent. A worn pump is noisy with probability `hearing`. A failed pump is silent. While it
    runs, a sound pump becomes worn with probability `wear` a step, and a worn one fails with probability
    `failure` a step.
    """
    setting = Setting(
        observation=[[hearing, 1 - hearing, 0.0], [1 - hearing, hearing, 0.0], [0.0, 0.0, 1.0]],  # [S, O]
        cost=[[0.0, 1.0, 10.0], [4.0, 4.0, 8.0]],  # [A, S]
        initial=[1.0, 0.0, 0.0],
        states=("sound", "worn", "failed"),
        actions=("run", "overhaul"),
        observations=("quiet", "noisy", "silent"),
    )
    return POMDP(setting, kernels(np.array([[wear, failure]]))[0], name="feed-pump")


def kernels(rates: Array) -> Array:
    """Return the transition kernels [N, A, S, S] for N pairs of rates [N, 2]: of wear, and of failure."""
    found = np.zeros((len(rates), 2, 3, 3))
    run, overhaul = found[:, 0], found[:, 1]
    run[:, 0, 0], run[:, 0, 1] = 1 - rates[:, 0], rates[:, 0]
    run[:, 1, 1], run[:, 1, 2] = 1 - rates[:, 1], rates[:, 1]
    run[:, 2, 2] = 1.0
    overhaul += (1 - OVERHAUL_WORKS) * np.eye(3)
    overhaul[:, :, 0] += OVERHAUL_WORKS
    return found
