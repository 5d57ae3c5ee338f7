"""The base classes of observation models.

An observation model, or sensor, η gives the distribution of the observation o_{t+1} given the action a_t and
the state s_{t+1} that it led to; some also depend on the state s_t before the action. A `TableSensor` has
finitely many observations. A `ContinuousSensor` has a density, or infinitely many counts, and is given by its
log-likelihood: learning and filtering need nothing else. A `ScalarSensor` also gives the probability of every
interval, from which the planner computes certified bounds.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from .._utils.frozen import Frozen
from ..errors import InvalidModelError, UnknownNameError
from .parameters import LARGEST_VALUE as LARGEST_VALUE
from .parameters import shortened

Integers = npt.NDArray[np.int64]


class SensorBase(Frozen):
    """The base class of all observation models.

    Attributes
    ----------
    n_states
        The number of states S.
    n_actions
        The number of actions A, or None if the distribution is the same for every action.
    is_finite
        Whether there are finitely many observations, which are numbered.
    depends_on_previous
        Whether the distribution depends on the state before the action as well.
    """

    n_states: int
    n_actions: int | None
    is_finite: ClassVar[bool] = False
    depends_on_previous: bool = False

    def described(self) -> str:
        """Return a few words for messages and reports, such as "Gaussian observations"."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_states} states, {self.described()})"


class ContinuousSensor(SensorBase):
    """An observation model with a density with respect to a measure that does not depend on the state.

    Subclasses define `log_likelihood`, `draw` and `described`, and `_contents` as every `Frozen` object does.

    Attributes
    ----------
    family
        The name of the family in files, such as "gaussian".
    dimension
        The number d of components of an observation, or None if an observation is a single number.
    """

    family: ClassVar[str] = ""
    dimension: int | None = None

    @abstractmethod
    def log_likelihood(self, action: int, observations: Array) -> Array:
        """Return the log density of observations under every state.

        Parameters
        ----------
        action
            The number of the action; 0 if the distribution is the same for every action.
        observations
            Shape [T], or [T, d] for vectors. NaN stands for an observation that was lost.

        Returns
        -------
        ndarray
            Shape [T, S′], or [T, S, S′] if `depends_on_previous`. Entries may be −inf, and differ from the
            log density by a number that does not depend on the states. All entries for an observation that
            was lost are 0.
        """

    @abstractmethod
    def draw(
        self, rng: np.random.Generator, action: int, states: Integers, previous: Integers | None = None
    ) -> Array:
        """Draw one observation in each of `states[T]`, shape [T] or [T, d].

        `previous[T]` are the states before the action, given only if `depends_on_previous`.
        """

    def parameters(self) -> dict[str, Any]:
        """Return the keyword arguments that construct this sensor, as arrays and numbers, for files."""
        raise InvalidModelError(
            f"{type(self).__name__} contains code, which a model file cannot contain; pass the sensor to "
            "`Setting` again"
        )

    def checked(self, observation: object) -> float | Array:
        """Return one observation as a float, or as an array [d], after a check.

        Raises
        ------
        UnknownNameError
            If it is not a number, or an array of d numbers, or if it is infinite or too large.
        """
        wanted = "a number" if self.dimension is None else f"a list of {self.dimension} numbers"
        try:
            value = np.asarray(observation)
            if value.dtype.kind not in "biuf" or isinstance(observation, bool | np.bool_):
                raise TypeError
            value = value.astype(np.float64)
        except (TypeError, ValueError):
            raise UnknownNameError(f"observation {shortened(observation)} is not {wanted}") from None
        if value.shape != (() if self.dimension is None else (self.dimension,)):
            raise UnknownNameError(f"observation {shortened(observation)} is not {wanted}")
        if not (np.abs(value) <= LARGEST_VALUE).all():
            raise UnknownNameError(
                f"observation {shortened(observation)} is not {wanted} of at most {LARGEST_VALUE:g}"
            )
        return float(value) if self.dimension is None else value

    def is_possible(self, observation: float | Array) -> bool:
        """Return whether some state can emit the observation (after some action)."""
        values = np.asarray(observation, dtype=np.float64)[None]
        return any(bool((self.log_likelihood(a, values) > -np.inf).any()) for a in range(self.n_actions or 1))


class ScalarSensor(ContinuousSensor):
    """A `ContinuousSensor` of single numbers that knows the probabilities of intervals.

    Attributes
    ----------
    is_discrete
        Whether all observations are counts: 0, 1, 2, and so on. An interval then contains the integers above
        its lower edge, up to and including its upper edge.
    """

    is_discrete: bool = False

    def checked(self, observation: object) -> float | Array:
        """Return one observation as a float, after a check; a count must be an integer of at least 0."""
        value = super().checked(observation)
        if self.is_discrete and not (value >= 0 and value == np.floor(value)):
            raise UnknownNameError(f"observation {shortened(observation)} is not a count")
        return value

    @abstractmethod
    def interval_masses(self, action: int, edges: Array) -> tuple[Array, Array]:
        """Return the probability of each interval (edges[k], edges[k + 1]] under every state.

        Parameters
        ----------
        action
            The number of the action.
        edges
            Increasing numbers [K + 1], the first −inf and the last +inf.

        Returns
        -------
        masses
            Shape [S′, K].
        errors
            A bound on the absolute error of each mass, shape [S′, K].
        """

    @abstractmethod
    def log_density_bounds(self, action: int, edges: Array) -> tuple[Array, Array]:
        """Return bounds on the log density in each interval between `edges`, both of shape [S′, K].

        They use the same constant as `log_likelihood`. A lower bound may be −inf, an upper one +inf.
        """

    def quantiles(self, action: int, probabilities: Array) -> Array:
        """Return quantiles of the equally weighted mixture of all states' distributions, for placing cells.

        They have nine correct digits or more: cells may lie anywhere.

        Parameters
        ----------
        action
            The number of the action.
        probabilities
            Numbers from 0 to 1, shape [P].

        Returns
        -------
        ndarray
            Shape [P]; the quantile of 0 is −inf and that of 1 is +inf.
        """
        wanted = np.asarray(probabilities, dtype=np.float64)
        high = _place(np.full(wanted.shape, LARGEST_VALUE))
        low = -high
        # Bisection over the floating-point numbers in their order needs no first guess of the scale.
        while (high // 2 - low // 2).max(initial=0) > _NEAR:
            middle = low // 2 + high // 2
            edges, where = np.unique(middle, return_inverse=True)
            masses, _ = self.interval_masses(action, np.r_[-np.inf, _number(edges), np.inf])
            under = np.cumsum(masses.mean(axis=0))[:-1][where] < wanted
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        found = _number(high)
        found = np.where(np.abs(found) <= 1e-100 * np.abs(found).max(initial=1e-200), 0.0, found)
        if self.is_discrete:
            found = np.floor(found)
        found = np.where(wanted <= 0.0, -np.inf, found)
        return np.asarray(np.where(wanted >= 1.0, np.inf, found))


_NEAR = 1 << 19  # twice as many floating-point numbers are 2e-10 of their size


def _place(values: Array) -> Integers:
    """Return the place of each number in the order of all floating-point numbers, counted from 0."""
    bits = np.abs(values).view(np.int64)
    return np.where(values < 0.0, -bits, bits)


def _number(places: Integers) -> Array:
    sizes = np.abs(places).view(np.float64)
    return np.where(places < 0, -sizes, sizes)
