"""Skeleton of a prior: transition kernels that depend on a few unknown parameters.

Copy this file, replace the parts marked CHANGE, and run it: `python prior.py` checks the prior and its
posterior. The example is a machine that wears out at an unknown rate under each of its two actions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from psrl_pomdp import ParametricPrior, Setting
from psrl_pomdp.testing import check_posterior, check_prior

Array = npt.NDArray[np.float64]

# CHANGE: the POMDP without its transition kernel: observation model [S, O], cost [A, S], initial belief [S].
SETTING = Setting(
    observation=[[0.9, 0.1], [0.2, 0.8]],
    cost=[[0.0, 1.0], [0.4, 0.4]],
    initial=[1.0, 0.0],
    first_observation=None,
)


class WearPrior(ParametricPrior):
    """Two wear rates, independent, each Beta(1, 9)."""

    def sample_parameters(self, rng: np.random.Generator, size: int) -> Array:
        """Draw parameter vectors, shape [size, d]."""
        return rng.beta(1.0, 9.0, size=(size, 2))  # CHANGE

    def log_density(self, parameters: Array) -> Array:
        """Return the log density of each row, shape [N]; -inf outside of the support."""
        inside = ((parameters > 0.0) & (parameters < 1.0)).all(axis=1)
        rates = np.where(inside[:, None], parameters, 0.5)
        return np.where(inside, np.log(9.0 * (1.0 - rates) ** 8).sum(axis=1), -np.inf)  # CHANGE

    def kernels(self, parameters: Array) -> Array:
        """Return the transition kernel of each row, shape [N, A, S, S]; the rows of a kernel sum to 1."""
        kernels = np.zeros((len(parameters), 2, 2, 2))
        kernels[:, 0] = [[1.0, 0.0], [0.0, 1.0]]  # CHANGE: worn stays worn
        kernels[:, 0, 0, 1] = parameters[:, 0]
        kernels[:, 0, 0, 0] = 1.0 - parameters[:, 0]
        kernels[:, 1] = [[1.0, 0.0], [1.0, 0.0]]  # CHANGE: a repair usually helps
        kernels[:, 1, :, 1] = parameters[:, 1:]
        kernels[:, 1, :, 0] = 1.0 - parameters[:, 1:]
        return kernels


if __name__ == "__main__":
    prior = WearPrior(SETTING)
    for issue in [*check_prior(prior), *check_posterior(prior, replicates=50, length=10)]:
        print(issue)
