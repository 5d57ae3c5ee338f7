"""What a posterior says of an unknown observation model and of unknown costs: means and intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._utils.arrays import Array
from ..errors import InvalidModelError
from ..models import Setting

LEVEL = 0.95


@dataclass(frozen=True)
class LearnedTable:
    """An unknown table: what was told of it, and what is known of it now.

    For Gaussian observations with unknown parameters, the table has shape [S, 2], or [A, S, 2] if they depend
    on the action: the last axis has the mean and the standard deviation.

    Attributes
    ----------
    told
        The mean under the prior.
    mean
        The mean under the posterior.
    lower, upper
        An interval that contains each entry with probability `level` under the posterior. If the posterior
        is an ensemble, its ends are quantiles of a few dozen kernels, which are rough.
    level
        The probability of the interval.
    """

    told: Array
    mean: Array
    lower: Array
    upper: Array
    level: float


class TablePosterior:
    """Base class of posteriors under which observation model and costs may be unknown."""

    @property
    def setting(self) -> Setting:
        """The POMDP without its transition kernel."""
        raise NotImplementedError

    @property
    def weights(self) -> Array:
        """The weights of the kernels, shape [N]."""
        raise NotImplementedError

    def _sensor_tables(self) -> Array | None:
        """Return the observation model of each kernel, with an axis N at the end; None if it is known."""
        raise NotImplementedError

    def _cost_tables(self) -> Array | None:
        """Return the costs under each kernel in the user's units, shape [A, S, N]; None if they are known."""
        raise NotImplementedError

    def unknown_tables(self) -> tuple[Array | None, Array | None]:
        """Return observation model and costs under each kernel, with an axis N at the end; None if known."""
        return self._sensor_tables(), self._cost_tables()

    def sensor_mean(self) -> Array:
        """Return the posterior mean of the observation model.

        Returns
        -------
        array
            Shape [S, O] if the unknown observation model does not depend on the action; else that of
            `setting.observation`, [A, S′, O] or [A, S, S′, O].
        """
        tables = self._sensor_tables()
        return self.setting.observation if tables is None else np.asarray(tables @ self.weights)

    def sensor_interval(self, level: float = LEVEL) -> tuple[Array, Array]:
        """Return the ends of an interval for each entry of the observation model.

        Parameters
        ----------
        level
            The probability, between 0 and 1.

        Returns
        -------
        tuple of two arrays
            Quantiles of the kernels by weight, of the shape of `sensor_mean`; twice the observation model if
            it is known.
        """
        tables = self._sensor_tables()
        return self._interval_of(tables, self.setting.observation, level)

    def cost_mean(self) -> Array:
        """Return the posterior mean of the cost of each action in each state, in the user's units, [A, S]."""
        tables = self._cost_tables()
        return self.setting.own_cost if tables is None else np.asarray(tables @ self.weights)

    def cost_interval(self, level: float = LEVEL) -> tuple[Array, Array]:
        """Return the ends of an interval for the cost of each action in each state, both [A, S].

        Parameters
        ----------
        level
            The probability, between 0 and 1.

        Returns
        -------
        tuple of two arrays
            Quantiles of the kernels by weight, in the user's units; twice the costs if they are known.
        """
        return self._interval_of(self._cost_tables(), self.setting.own_cost, level)

    def _interval_of(self, tables: Array | None, known: Array, level: float) -> tuple[Array, Array]:
        """Return the ends of an interval for each entry of unknown tables, or twice the known one."""
        return (known, known) if tables is None else interval(tables, self.weights, level)

    def learned_sensor(self, level: float = LEVEL) -> LearnedTable | None:
        """Return what is known of the observation model, or None if it was known before."""
        tables = self._sensor_tables()
        if tables is None:
            return None
        told = self.setting.observation
        told = told if tables.ndim == told.ndim + 1 else told[0]
        return LearnedTable(told, self.sensor_mean(), *self.sensor_interval(level), level)

    def learned_costs(self, level: float = LEVEL) -> LearnedTable | None:
        """Return what is known of the costs, or None if they were known before."""
        if self._cost_tables() is None:
            return None
        return LearnedTable(self.setting.own_cost, self.cost_mean(), *self.cost_interval(level), level)


def interval(values: Array, weights: Array, level: float) -> tuple[Array, Array]:
    """Return weighted quantiles of the last axis of values [.., N], at both ends of a central interval.

    The distribution function is interpolated between the values, each of which stands in the middle of its
    weight.
    """
    if not 0.0 < level < 1.0:
        raise InvalidModelError(f"level is {level!r}: a probability between 0 and 1 is wanted")
    order = np.argsort(values, axis=-1, kind="stable")
    ordered, shares = np.take_along_axis(values, order, axis=-1), weights[order]
    middle = np.cumsum(shares, axis=-1) - 0.5 * shares
    ends = []
    for share in (0.5 * (1.0 - level), 0.5 * (1.0 + level)):
        found = np.empty(values.shape[:-1])
        for place in np.ndindex(found.shape):
            found[place] = np.interp(share, middle[place], ordered[place])
        ends.append(found)
    return ends[0], ends[1]
