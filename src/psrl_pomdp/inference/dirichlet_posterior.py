"""The posterior of Dirichlet rows: an ensemble of kernels, moved by Gibbs sweeps or HMC (`refresh.py`).

The ensemble has 32 kernels, or 64 if the prior has 60 or more unknown parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

import numpy as np

from .._utils.arrays import Array
from .dirichlet_prior import DirichletPrior
from .encoding import same_prior
from .ensemble_posterior import EnsemblePosterior
from .ensemble_state import check_sizes, size_in
from .kernel_groups import KernelGroup, RowGroup
from .mode import MODE_CLOSE, MODE_PASSES, free_rows_near, mode_of_rows
from .refresh import AdaptationState
from .rows import FreeRows
from .saved_states import total_time_in
from .workspace import Workspace

if TYPE_CHECKING:
    from .gaussian_group import GaussianGroup


class DirichletPosterior(EnsemblePosterior):
    """The posterior of a `DirichletPrior`: weighted kernels, the belief under each, and expected counts.

    Parameters
    ----------
    prior
        The prior.
    rng
        The random numbers of the initial ensemble and of its refreshes.
    size
        The number of kernels; by default 32, or 64 if 60 or more parameters are unknown.

    >>> from psrl_pomdp import Setting
    >>> setting = Setting([[0.9, 0.1], [0.2, 0.8]], [[0.0, 1.0]], [1.0, 0.0], first_observation=None)
    >>> rng = np.random.default_rng(0)
    >>> posterior = DirichletPrior(setting, [[[1.0, 1.0], [1.0, 1.0]]]).posterior(rng)
    >>> posterior.start(None)
    >>> posterior.update(0, 1)
    >>> bool(posterior.mean()[0, 0, 1] > 0.5), posterior.expected_counts.tolist()
    (True, [[1.0, 0.0]])
    """

    _group_kind: type[RowGroup | GaussianGroup] = RowGroup

    def __init__(self, prior: DirichletPrior, rng: np.random.Generator, size: int | None = None) -> None:
        self._prepare(prior, self._group_kind.drawn(prior, rng, size), rng)

    def _prepare(self, prior: DirichletPrior, group: KernelGroup, rng: np.random.Generator) -> None:
        """Set the attributes, with a group of kernels that is drawn or restored."""
        super().__init__(prior, [group], rng)

    @classmethod
    def resumed(cls, prior: DirichletPrior, state: Mapping[str, object], rng: np.random.Generator) -> Self:
        """Return the posterior that saved `state`."""
        same_prior(state, prior.fingerprint)
        size = size_in(state)
        check_sizes(state, prior.setting, size)
        posterior = cls.__new__(cls)
        posterior._prepare(prior, cls._group_kind.restored(prior, state, size, total_time_in(state)), rng)
        posterior.resume(state)
        return posterior

    def mode(
        self, near: Array | None = None, *, passes: int = MODE_PASSES, close: float = MODE_CLOSE
    ) -> Array:
        """Return a mode of the posterior, by expectation-maximization (`psrl_pomdp.inference.mode`).

        Parameters
        ----------
        near
            The kernel at which the iterations start, shape [A, S, S′]; by default the posterior mean.
        passes
            The largest number of iterations.
        close
            The iterations stop when no entry changes by more than this.

        Returns
        -------
        array
            The kernel, shape [A, S, S′].

        >>> from psrl_pomdp import problem
        >>> posterior = problem("separated").prior.posterior(np.random.default_rng(0))
        >>> posterior.start(0)
        >>> posterior.mode()[0, 0].round(3).tolist()
        [0.25, 0.25, 0.25, 0.25]
        """
        rows = self._rows
        start = free_rows_near(rows, self.mean() if near is None else near, self._log_rows, self.weights)
        log_rows = mode_of_rows(rows, self.histories, start, passes=passes, close=close)
        return np.asarray(rows.kernels(log_rows)[..., 0])

    @property
    def tuning(self) -> AdaptationState:
        """The state of the adaptation of the moves."""
        return self._group.tuning

    @property
    def _group(self) -> RowGroup:
        group = self._groups[0]
        assert isinstance(group, RowGroup)
        return group

    @property
    def _rows(self) -> FreeRows:
        return self._group.rows

    @property
    def _log_rows(self) -> Array:
        return self._group.log_rows

    @property
    def _space(self) -> Workspace:
        return self._group.space
