"""An observation model that is given by functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from ..errors import InvalidModelError
from .base import ContinuousSensor, Integers
from .parameters import shortened


class DensitySensor(ContinuousSensor):
    """Observations with any log density that a function computes.

    Learning and filtering need nothing but this function. The planner needs a function that draws
    observations, and its bounds are then estimates.

    Parameters
    ----------
    log_density
        `log_density(observations, action)` returns the log density of observations of shape [T], or [T, d],
        under every state, shape [T, S]; or shape [T, S, S′] if `depends_on_previous`. It may return −inf, and
        may leave out terms that are the same in all states. It must not keep a state of its own.
    sampler
        `sampler(rng, states, action)` draws an observation in each of `states[T]`, shape [T] or [T, d]. If
        `depends_on_previous`, it is called with the states before the action as a fourth argument.
    n_states
        The number of states S.
    n_actions
        The number of actions, or None if the distribution is the same for every action.
    dimension
        The number d of components of an observation, or None for single numbers.
    depends_on_previous
        Whether the distribution depends on the state before the action, too.
    name
        A name that stands for the functions: two sensors of the same name are equal. By default it is the
        name of the function `log_density`; a lambda or a function inside a function needs a name.

    Raises
    ------
    InvalidModelError
        If an argument has the wrong type, or if `log_density` or `sampler` returns something of the wrong
        shape. The message names the argument.

    >>> from math import pi
    >>> def log_density(angles, action):  # von Mises, around 0 and around π
    ...     return 2.0 * np.cos(angles[:, None] - np.array([0.0, pi]))
    >>> def sampler(rng, states, action):
    ...     return rng.vonmises(pi * states, 2.0)
    >>> DensitySensor(log_density, sampler, n_states=2, name="direction of the wind")
    DensitySensor(2 states, observations with the density 'direction of the wind')
    """

    family = "density"

    def __init__(
        self,
        log_density: Callable[..., npt.ArrayLike],
        sampler: Callable[..., npt.ArrayLike],
        n_states: int,
        n_actions: int | None = None,
        *,
        dimension: int | None = None,
        depends_on_previous: bool = False,
        name: str = "",
    ) -> None:
        for argument, function in (("log_density", log_density), ("sampler", sampler)):
            if not callable(function):
                raise InvalidModelError(f"{argument} is {shortened(function)}, not a function")
        for argument, count in (("n_states", n_states), ("n_actions", n_actions), ("dimension", dimension)):
            if count is None and argument != "n_states":
                continue
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
                raise InvalidModelError(f"{argument} is {shortened(count)}, not a positive integer")
        if not isinstance(name, str):
            raise InvalidModelError(f"name is {shortened(name)}, not a string")
        self._set(
            log_density=log_density,
            sampler=sampler,
            name=name or _name_of(log_density),
            n_states=int(n_states),
            n_actions=None if n_actions is None else int(n_actions),
            dimension=None if dimension is None else int(dimension),
            depends_on_previous=bool(depends_on_previous),
        )
        self._try()

    log_density: Callable[..., npt.ArrayLike]
    sampler: Callable[..., npt.ArrayLike]
    name: str

    def _contents(self) -> tuple[str, list[Array]]:
        shape = (self.n_states, self.n_actions, self.dimension, self.depends_on_previous)
        return repr((self.family, self.name, shape)), []

    def described(self) -> str:
        """Return a few words for messages and reports."""
        return f"observations with the density {self.name!r}"

    def log_likelihood(self, action: int, observations: Array) -> Array:
        """Return the log density of observations under every state."""
        values = np.asarray(observations, dtype=np.float64)
        lost = np.isnan(values) if values.ndim == 1 else np.isnan(values).any(axis=1)
        shape = (len(values), *[self.n_states] * (1 + self.depends_on_previous))
        found = np.zeros(shape)
        if not lost.all():
            kept = values[~lost]
            found[~lost] = self._returned(
                "log_density", self.log_density(kept, action), (len(kept), *shape[1:])
            )
            if np.isnan(found).any() or (found == np.inf).any():
                where = tuple(int(i) for i in np.argwhere(~(found < np.inf))[0])
                raise InvalidModelError(
                    f"log_density of {self.name!r} is {found[where]} at the observation {values[where[0]]} "
                    f"after action {action} in state {where[-1]}"
                )
        return found

    def draw(
        self, rng: np.random.Generator, action: int, states: Integers, previous: Integers | None = None
    ) -> Array:
        """Draw one observation in each of `states[T]`."""
        more = (previous,) if self.depends_on_previous else ()
        shape = (len(states),) if self.dimension is None else (len(states), self.dimension)
        return self._returned("sampler", self.sampler(rng, states, action, *more), shape)

    def _returned(self, function: str, value: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
        try:
            found = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidModelError(
                f"{function} of {self.name!r} returned {shortened(value)}, not an array of numbers"
            ) from None
        if found.shape != shape:
            raise InvalidModelError(
                f"{function} of {self.name!r} returned an array of shape {found.shape}, not {shape}"
            )
        return found

    def _try(self) -> None:
        """Call both functions once, so that a mistake in them is found here."""
        states = np.arange(self.n_states)
        drawn = self.draw(np.random.default_rng(0), 0, states, states)
        if not np.isfinite(drawn).all():
            raise InvalidModelError(f"sampler of {self.name!r} returned a number that is not finite")
        logs = self.log_likelihood(0, drawn)
        own = logs[states, states, states] if self.depends_on_previous else logs[states, states]
        if (own == -np.inf).any():
            s = int(np.argmax(own == -np.inf))
            raise InvalidModelError(
                f"sampler of {self.name!r} drew {drawn[s]} in state {s}, where log_density is -inf"
            )


def _name_of(function: Any) -> str:
    """Return the importable name of a function."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name:
        raise InvalidModelError(
            f"log_density is {shortened(function)}, which has no name of its own: "
            'pass name="..." to DensitySensor, so that sensors can be compared'
        )
    return f"{module}:{name}"
