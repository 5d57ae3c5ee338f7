"""Unknown tables with Dirichlet rows: an observation model, or a distribution of costs, that is learned.

Each row of the table is a probability distribution that is drawn from a Dirichlet distribution. Readings that
were made in a known state, such as those of a calibration, are added to the concentration of its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Index, Mask, Names, distributions, finite, frozen, numbers, shaped
from .._utils.dirichlet import log_dirichlet
from .._utils.frozen import Frozen
from ..errors import InvalidModelError

_LEAST, _MOST = 1e-50, 1e15  # outside this range, samples and means lose all their digits
_NAMES = Names()
_Generic = TypeVar("_Generic", bound=np.generic)

Row = int | tuple[int, int]  # s, or (a, s)


class DirichletTable(Frozen):
    """A table of independent Dirichlet rows, of which some may be known and some may be equal.

    Attributes
    ----------
    counts
        The concentration of each row; known rows contain their distributions.
    known
        Which rows are known.
    row
        The number of each row; rows with the same number are equal.
    """

    counts: Array  # [.., K]
    known: Mask  # [..]
    row: Index  # [..]

    def _fill(
        self,
        counts: npt.ArrayLike,
        axes: str,
        known: Mapping[Row, npt.ArrayLike] | None,
        ties: Iterable[Sequence[Row]],
    ) -> None:
        given = numbers("counts", counts, axes).copy()
        letters = next(choice for choice in axes.split("|") if len(choice) == given.ndim)
        is_known = np.zeros(given.shape[:-1], dtype=bool)
        for key, values in (known or {}).items():
            where = _place("known", key, given.shape[:-1])
            called = _NAMES.entry("known", letters, where)
            row = shaped(
                called, numbers(called, values, letters[-1]), given.shape[-1:], "the columns of counts"
            )
            given[where] = distributions(called, row, letters[-1], _NAMES)
            is_known[where] = True
        _check(given, is_known, letters)
        self._set(
            counts=frozen(given), known=_locked(is_known), row=_locked(_tied(ties, given, is_known, letters))
        )

    def _contents(self) -> tuple[str, list[Array]]:
        arrays = [self.counts, self.known.astype(np.float64), self.row.astype(np.float64)]
        return type(self).__name__, arrays

    @property
    def mean(self) -> Array:
        """The mean of the table, of the shape of `counts`."""
        return np.asarray(self.counts / self.counts.sum(axis=-1, keepdims=True))

    @property
    def support(self) -> Mask:
        """The entries that are possible, of the shape of `counts`."""
        return np.asarray(self.counts > 0.0)

    @property
    def n_states(self) -> int:
        """The number of states S."""
        return int(self.counts.shape[-2])

    def sample(self, rng: np.random.Generator) -> Array:
        """Draw a table, of the shape of `counts`."""
        drawn = np.exp(log_dirichlet(rng, self.counts))
        first = np.unique(self.row, return_index=True)[1]  # the first of the rows that are equal
        shared = drawn.reshape(-1, drawn.shape[-1])[first][self.row]
        return np.where(self.known[..., None], self.counts, shared)


class DirichletSensor(DirichletTable):
    """An observation model that is not exactly known: each row is drawn from Dirichlet(`counts[.., s, :]`).

    Parameters
    ----------
    counts
        The concentration of each row, shape [S, O]; or [A, S, O] if the observation depends on the action.
        An entry of 0 marks an impossible observation.
    known
        Rows that are known, as a mapping from states, or pairs (action, state), to distributions of shape
        [O].
    ties
        Groups of states, or of pairs (action, state), that share one row. Their counts must be equal.

    Raises
    ------
    InvalidModelError
        If `counts` has the wrong shape, an entry that is neither 0 nor in [1e-50, 1e15], or a row of zeros;
        if a known row is not a distribution; or if tied rows are known or have different counts.

    >>> sensor = DirichletSensor([[9.0, 1.0], [1.0, 1.0]], known={1: [0.2, 0.8]})
    >>> sensor.mean.tolist()
    [[0.9, 0.1], [0.2, 0.8]]
    """

    def __init__(
        self,
        counts: npt.ArrayLike,
        known: Mapping[Row, npt.ArrayLike] | None = None,
        ties: Iterable[Sequence[Row]] = (),
    ) -> None:
        self._fill(counts, "aso|so", known, ties)

    @classmethod
    def around(cls, estimate: npt.ArrayLike, worth: float = 50.0) -> Self:
        """Return the opinion that the observation model is about `estimate`, worth so many readings a row.

        Parameters
        ----------
        estimate
            The probability of each observation, shape [S, O] or [A, S, O]. A probability of 0 stays 0.
        worth
            The number of readings, in each state, that would say as much.
        """
        axes = "aso" if np.ndim(estimate) == 3 else "so"
        if not worth > 0.0:
            raise InvalidModelError(f"worth is {worth!r}: a positive number of readings is wanted")
        return cls(worth * distributions("estimate", numbers("estimate", estimate, "aso|so"), axes, _NAMES))

    @classmethod
    def from_calibration(cls, counts: npt.ArrayLike, prior: npt.ArrayLike = 0.5) -> Self:
        """Return what a calibration says: how often each observation was made in a known state.

        Parameters
        ----------
        counts
            The number of readings, shape [S, O] or [A, S, O].
        prior
            What is added to every entry: a number, or an array. An entry of 0 in an array marks an
            observation that is impossible unless it was made.
        """
        axes = "aso" if np.ndim(counts) == 3 else "so"
        seen = finite("counts", numbers("counts", counts, "aso|so"), axes, _NAMES)
        if (seen < 0).any():
            where = tuple(int(i) for i in np.argwhere(seen < 0)[0])
            raise InvalidModelError(f"{_NAMES.entry('counts', axes, where)} is {seen[where]:g}, negative")
        try:
            added = np.broadcast_to(np.asarray(prior, dtype=np.float64), seen.shape)
        except (TypeError, ValueError):
            raise InvalidModelError(
                f"prior is neither a number nor an array that fits counts of shape {seen.shape}"
            ) from None
        return cls(seen + added)

    @property
    def n_observations(self) -> int:
        """The number of observations O."""
        return int(self.counts.shape[-1])

    @property
    def depends_on_action(self) -> bool:
        """Whether there is a row for each action and state."""
        return self.counts.ndim == 3

    def __repr__(self) -> str:
        return f"DirichletSensor({self.n_states} states, {self.n_observations} observations)"


class DirichletCosts(DirichletTable):
    """The unknown distribution of the cost of a step over known values, with Dirichlet rows.

    The agent is told costs with `act(observation, cost=...)`. The distribution of the cost depends on the
    action and on the state in which it is taken. A cost is one of finitely many values.

    Parameters
    ----------
    values
        The C values that a cost can have, in the user's own numbers; increasing.
    counts
        The concentration of each row, shape [A, S, C]. An entry of 0 marks an impossible cost.
    known
        Rows that are known, as a mapping from pairs (action, state) to distributions of shape [C].
    ties
        Groups of pairs (action, state) that share one row. Their counts must be equal.

    Raises
    ------
    InvalidModelError
        As for `DirichletSensor`; or if `values` are not increasing.

    >>> costs = DirichletCosts([0.0, 100.0], [[[1.0, 1.0], [1.0, 3.0]]])
    >>> costs.mean_cost.tolist()
    [[50.0, 75.0]]
    """

    values: Array  # [C]

    def __init__(
        self,
        values: npt.ArrayLike,
        counts: npt.ArrayLike,
        known: Mapping[Row, npt.ArrayLike] | None = None,
        ties: Iterable[Sequence[Row]] = (),
    ) -> None:
        given = finite("values", numbers("values", values, "c"), "c", _NAMES)
        if (np.diff(given) <= 0.0).any():
            raise InvalidModelError(f"values are {given.tolist()}: they must be increasing")
        self._fill(counts, "asc", known, ties)
        if len(given) != self.counts.shape[2]:
            raise InvalidModelError(
                f"counts has shape {self.counts.shape}, expected {len(given)} columns for {len(given)} values"
            )
        self._set(values=frozen(given))

    def _contents(self) -> tuple[str, list[Array]]:
        text, arrays = super()._contents()
        return text, [*arrays, self.values]

    @property
    def n_values(self) -> int:
        """The number of values C."""
        return len(self.values)

    @property
    def mean_cost(self) -> Array:
        """The mean cost E[C(s, a)], shape [A, S]."""
        return np.asarray(self.mean @ self.values)

    def __repr__(self) -> str:
        return f"DirichletCosts({self.n_values} values from {self.values[0]:g} to {self.values[-1]:g})"


def _locked(array: npt.NDArray[_Generic]) -> npt.NDArray[_Generic]:
    array.setflags(write=False)
    return array


def _place(what: str, key: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of the row that a state, or a pair (action, state), stands for."""
    try:
        where = tuple(int(i) for i in (key if isinstance(key, tuple | list) else (key,)))
        inside = len(where) == len(shape) and all(0 <= i < n for i, n in zip(where, shape, strict=True))
    except (TypeError, ValueError):
        inside = False
    if not inside:
        wanted = "a state" if len(shape) == 1 else "a pair (action, state)"
        raise InvalidModelError(f"{what}: {key!r} is not the number of {wanted} of this table")
    return where


def _check(given: Array, known: Mask, axes: str) -> None:
    finite("counts", given, axes, _NAMES)
    wrong = (given < 0) | ((given > 0) & ((given < _LEAST) | (given > _MOST)) & ~known[..., None])
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        entry = _NAMES.entry("counts", axes, where)
        raise InvalidModelError(f"{entry} is {given[where]:g}: it must be 0 or in [{_LEAST:g}, {_MOST:g}]")
    empty = ~(given > 0).any(axis=-1)
    if empty.any():
        entry = _NAMES.entry("counts", axes[:-1], tuple(int(i) for i in np.argwhere(empty)[0]))
        raise InvalidModelError(f"{entry} is zero everywhere, so nothing is possible")


def _tied(ties: Iterable[Sequence[Row]], given: Array, known: Mask, axes: str) -> Index:
    """Return the number of each row; tied rows have the same number."""
    label = np.arange(known.size).reshape(known.shape)
    for group in ties:
        places = [_place("ties", key, known.shape) for key in group]
        for where in places:
            entry = _NAMES.entry("counts", axes[:-1], where)
            if known[where]:
                raise InvalidModelError(f"ties: {entry} is a known row, so it cannot be tied to others")
            if (given[where] != given[places[0]]).any():
                first = _NAMES.entry("counts", axes[:-1], places[0])
                raise InvalidModelError(f"ties: {entry} differs from {first}, which it is tied to")
            label[label == label[where]] = label[places[0]]
    _, places_of, number = np.unique(label, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(places_of))  # rows are numbered by their first places
    return np.asarray(rank[number].reshape(known.shape))
