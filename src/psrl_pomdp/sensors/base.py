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

from .._utils.arrays import Array, frozen
from .._utils.frozen import Frozen
from ..errors import InvalidModelError, UnknownNameError

Integers = npt.NDArray[np.int64]
LARGEST_VALUE = 1e150  # observations are at most this large, so that their squares are finite


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
            Shape [T], or [T, d] for vectors.

        Returns
        -------
        ndarray
            Shape [T, S′], or [T, S, S′] if `depends_on_previous`. Entries may be −inf, and differ from the
            log density by a constant that does not depend on the states.
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
        raise InvalidModelError(f"{type(self).__name__} contains code and cannot be written to a model file")

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
            raise UnknownNameError(f"observation {observation!r} is not {wanted}") from None
        if value.shape != (() if self.dimension is None else (self.dimension,)):
            raise UnknownNameError(f"observation {observation!r} is not {wanted}")
        if not (np.abs(value) <= LARGEST_VALUE).all():
            raise UnknownNameError(
                f"observation {observation!r} is not {wanted} of at most {LARGEST_VALUE:g}"
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
        Whether all observations are integers. An interval then contains the integers above its lower edge, up
        to and including its upper edge.
    """

    is_discrete: ClassVar[bool] = False

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

    @abstractmethod
    def quantiles(self, action: int, probabilities: Array) -> Array:
        """Return quantiles of the equally weighted mixture of all states' distributions, for placing cells.

        They need not be exact: cells may lie anywhere.
        """


def by_state(name: str, values: npt.ArrayLike, *, positive: bool = False) -> Array:
    """Return a parameter of shape [S], or [A, S], after a check that all its numbers are finite.

    Raises
    ------
    InvalidModelError
        The message names the parameter and the entry.
    """
    try:
        found = np.asarray(values)
        if found.dtype.kind not in "biuf":
            raise TypeError
        found = found.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidModelError(f"{name} is not an array of numbers: {values!r}") from None
    if found.ndim not in (1, 2) or found.size == 0:
        raise InvalidModelError(f"{name} has shape {found.shape}, not [S] or [A, S]")
    wrong = ~np.isfinite(found) | (np.abs(found) > LARGEST_VALUE)
    if positive:
        wrong |= found < 1 / LARGEST_VALUE
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        wanted = "positive and finite" if positive else "finite"
        raise InvalidModelError(f"{name}{list(where)} is {found[where]:g}: it must be {wanted}")
    return frozen(found)


def together(**parameters: Array) -> dict[str, Array]:
    """Return parameters of shapes [S] or [A, S] broadcast to a common one; a scalar axis is not accepted."""
    shape = max((p.shape for p in parameters.values()), key=len)
    for name, value in parameters.items():
        if value.shape not in (shape, shape[-1:]):
            first = next(iter(parameters))
            raise InvalidModelError(
                f"{name} has shape {value.shape}, but {first} has shape {parameters[first].shape}: "
                "both must be [S] or [A, S]"
            )
    return {name: frozen(np.broadcast_to(value, shape)) for name, value in parameters.items()}
