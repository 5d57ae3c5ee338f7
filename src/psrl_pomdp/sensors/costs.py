"""Costs that the agent sees: the distribution of the cost of a step, which then informs about the state."""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Names, distributions, finite, frozen, numbers, shaped
from .._utils.frozen import Frozen
from ..errors import InvalidModelError, UnknownNameError

_NAMES = Names()
_NEAR = 1e-6  # the largest distance from a value, as a fraction of the range of all values


class SeenCosts(Frozen):
    """The distribution of the cost that is seen after each action, in the user's own numbers.

    A cost is one of finitely many values. Its distribution depends on the action and on the state in which
    the action is taken. `SeenCosts.exact` describes costs without noise, and `SeenCosts.gaussian` costs with
    Gaussian noise, which are rounded to intervals.

    Parameters
    ----------
    values
        The C values, increasing.
    probabilities
        The probability of each value, shape [A, S, C].
    edges
        The C − 1 numbers between the intervals that stand for the values, increasing. Without edges, a cost
        must be one of the values.

    Raises
    ------
    InvalidModelError
        If an array has the wrong shape, a row of `probabilities` is not a distribution, or `values` or
        `edges` are not increasing.

    >>> costs = SeenCosts.exact([[0.0, 50.0], [20.0, 20.0]])
    >>> costs.values.tolist(), costs.number(50)
    ([0.0, 20.0, 50.0], 2)
    """

    values: Array  # [C]
    probabilities: Array  # [A, S, C]
    edges: Array | None  # [C - 1]

    def __init__(
        self, values: npt.ArrayLike, probabilities: npt.ArrayLike, edges: npt.ArrayLike | None = None
    ) -> None:
        given = _increasing("values", values)
        table = numbers("probabilities", probabilities, "asc")
        sizes = (*table.shape[:2], len(given))
        shaped("probabilities", table, sizes, f"{len(given)} values")
        between = None
        if edges is not None:
            between = frozen(_increasing("edges", edges))
            shaped("edges", between, (len(given) - 1,), f"{len(given)} values")
        self._set(
            values=frozen(given),
            probabilities=frozen(distributions("probabilities", table, "asc", _NAMES)),
            edges=between,
        )

    @classmethod
    def exact(cls, cost: npt.ArrayLike) -> Self:
        """Return the costs without noise: the cost of each action in each state, shape [A, S]."""
        given = finite("cost", numbers("cost", cost, "as"), "as", _NAMES)
        values, number = np.unique(given, return_inverse=True)
        return cls(values, np.eye(len(values))[number.reshape(given.shape)])

    @classmethod
    def gaussian(cls, cost: npt.ArrayLike, sd: npt.ArrayLike, intervals: int = 16) -> Self:
        """Return costs with Gaussian noise of known standard deviation.

        Parameters
        ----------
        cost
            The mean cost of each action in each state, shape [A, S].
        sd
            The standard deviations: a positive number, or shape [A, S].
        intervals
            The number of intervals to which costs are rounded. They have equal probabilities under the
            mixture of all means.
        """
        from scipy.special import ndtr  # imported here because the import is slow

        means = finite("cost", numbers("cost", cost, "as"), "as", _NAMES)
        scales = np.broadcast_to(np.asarray(sd, dtype=np.float64), means.shape)
        if not (np.isfinite(scales) & (scales > 0.0)).all():
            raise InvalidModelError(f"sd is {sd!r}: positive numbers are wanted")
        if intervals < 2:
            raise InvalidModelError(f"intervals is {intervals!r}: at least 2 are wanted")
        low, high = (means - 8 * scales).min(), (means + 8 * scales).max()
        grid = np.linspace(low, high, 4001)
        below = ndtr((grid[:, None, None] - means) / scales)  # [G, A, S]
        edges = np.interp(np.arange(1, intervals) / intervals, below.mean(axis=(1, 2)), grid)
        edges = np.unique(edges)
        cumulative = ndtr((edges - means[..., None]) / scales[..., None])
        ends = np.ones((*means.shape, 1))
        masses = np.diff(np.concatenate([0 * ends, cumulative, ends], axis=2), axis=2)
        middle = np.concatenate([[edges[0] - scales.min()], edges, [edges[-1] + scales.min()]])
        return cls(0.5 * (middle[1:] + middle[:-1]), masses / masses.sum(axis=2, keepdims=True), edges)

    def _contents(self) -> tuple[str, list[Array]]:
        edges = [] if self.edges is None else [self.edges]
        return "costs", [self.values, self.probabilities, *edges]

    @property
    def n_values(self) -> int:
        """The number of values C."""
        return len(self.values)

    def number(self, cost: object) -> int:
        """Return the number of the value that stands for a cost.

        Raises
        ------
        UnknownNameError
            If `cost` is not a finite number, or is none of the values and there are no edges.
        """
        return number_of_cost(self.values, self.edges, cost)

    def __repr__(self) -> str:
        return f"SeenCosts({self.n_values} values from {self.values[0]:g} to {self.values[-1]:g})"


def number_of_cost(values: Array, edges: Array | None, cost: object) -> int:
    """Return the number of the value, or of the interval between edges, that stands for a cost."""
    if not isinstance(cost, int | float | np.integer | np.floating) or isinstance(cost, bool):
        raise UnknownNameError(f"cost {cost!r} is not a number")
    if not np.isfinite(cost):
        raise UnknownNameError(f"cost {cost!r} is not finite")
    if edges is not None:
        return int(np.searchsorted(edges, cost, side="left"))
    nearest = int(np.abs(values - cost).argmin())
    size = max(values[-1] - values[0], np.abs(values).max(), 1e-300)
    if abs(values[nearest] - cost) > _NEAR * size:
        known = ", ".join(f"{v:g}" for v in values[:20]) + (", ..." if len(values) > 20 else "")
        raise UnknownNameError(f"cost {cost:g} is none of the costs that can be seen: {known}")
    return nearest


def _increasing(name: str, values: npt.ArrayLike) -> Array:
    given = finite(name, numbers(name, values, "c"), "c", _NAMES)
    if (np.diff(given) <= 0.0).any():
        raise InvalidModelError(f"{name} are {given.tolist()}: they must be increasing")
    return given
