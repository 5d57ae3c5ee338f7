"""A sensor for each action, and actions after which there is no observation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._utils.arrays import Array
from ..errors import InvalidModelError
from .base import ContinuousSensor, Integers, ScalarSensor
from .parameters import checked_parts


class ActionSensor(ContinuousSensor):
    """A sensor for each action; `by_action` makes it.

    Attributes
    ----------
    parts
        The sensor after each action, or None if there is no observation after it. The observation is then
        always 0, and it says nothing about the state; the agent may be given None or any number.
    """

    family = "by-action"
    parts: tuple[ContinuousSensor | None, ...]

    def __init__(self, parts: Sequence[ContinuousSensor | None]) -> None:
        found = _checked_parts(parts)
        first = next(part for part in found if part is not None)
        self._set(
            parts=found,
            n_states=first.n_states,
            n_actions=len(found),
            dimension=first.dimension,
            depends_on_previous=any(part.depends_on_previous for part in found if part is not None),
        )

    def _contents(self) -> tuple[str, list[Array]]:
        texts: list[str] = [self.family]
        arrays: list[Array] = []
        for part in self.parts:
            text, more = ("none", []) if part is None else part._contents()
            texts.append(f"{text}:{len(more)}")
            arrays += more
        return " ".join(texts), arrays

    def parameters(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {"parts": list(self.parts)}

    def described(self) -> str:
        """Return a few words for messages and reports."""
        kinds = list(dict.fromkeys(part.described() for part in self.parts if part is not None))
        words = kinds[0] if len(kinds) == 1 else "observations of several kinds"
        silent = sum(part is None for part in self.parts)
        return (
            words if not silent else f"{words} after {len(self.parts) - silent} of {len(self.parts)} actions"
        )

    def log_likelihood(self, action: int, observations: Array) -> Array:
        """Return the log density of observations under every state; 0 after an action without observation."""
        part = self.parts[action]
        if part is None:
            shape = (len(observations), *[self.n_states] * (1 + self.depends_on_previous))
            return np.zeros(shape)
        found = part.log_likelihood(self._number(action), observations)
        if self.depends_on_previous and not part.depends_on_previous:
            found = np.repeat(found[:, None, :], self.n_states, axis=1)
        return found

    def draw(
        self, rng: np.random.Generator, action: int, states: Integers, previous: Integers | None = None
    ) -> Array:
        """Draw one observation in each of `states[T]`; 0 after an action without observation."""
        part = self.parts[action]
        if part is None:
            return np.zeros((len(states), *([] if self.dimension is None else [self.dimension])))
        return part.draw(rng, self._number(action), states, previous if part.depends_on_previous else None)

    def _number(self, action: int) -> int:
        part = self.parts[action]
        return 0 if part is None or part.n_actions is None else action


class ScalarActionSensor(ActionSensor, ScalarSensor):
    """An `ActionSensor` of single numbers; `by_action` makes it."""

    parts: tuple[ScalarSensor | None, ...]

    def __init__(self, parts: Sequence[ScalarSensor | None]) -> None:
        super().__init__(parts)
        kinds = {part.is_discrete: a for a, part in enumerate(self.parts) if part is not None}
        if len(kinds) == 2:
            raise InvalidModelError(
                f"parts[{kinds[True]}] has counts, and parts[{kinds[False]}] has real numbers: "
                "all actions must have the same kind of observations"
            )
        self._set(is_discrete=next(iter(kinds)))

    def interval_masses(self, action: int, edges: Array) -> tuple[Array, Array]:
        """Return the probability of each interval under every state, and bounds on the errors."""
        part = self.parts[action]
        if part is not None:
            return part.interval_masses(self._number(action), edges)
        inside = (edges[:-1] < 0.0) & (edges[1:] >= 0.0)
        masses = np.tile(inside.astype(np.float64), (self.n_states, 1))
        return masses, np.zeros(masses.shape)

    def log_density_bounds(self, action: int, edges: Array) -> tuple[Array, Array]:
        """Return bounds on the log density in each interval."""
        part = self.parts[action]
        if part is not None:
            return part.log_density_bounds(self._number(action), edges)
        zero = np.zeros((self.n_states, len(edges) - 1))
        return zero, zero


def by_action(parts: Sequence[ContinuousSensor | None]) -> ActionSensor:
    """Return a sensor that is composed of one for each action.

    Parameters
    ----------
    parts
        The sensor after each action; None if there is no observation after this action. A part that depends
        on the action itself is used for the action of its place.

    Returns
    -------
    ActionSensor
        The sensor. It gives the probabilities of intervals if all parts do.

    Raises
    ------
    InvalidModelError
        If the parts have different numbers of states or different kinds of observations.

    >>> from psrl_pomdp.sensors import GaussianSensor
    >>> by_action([None, GaussianSensor(means=[0.0, 1.0], sds=[0.2, 0.2])])
    ScalarActionSensor(2 states, Gaussian observations after 1 of 2 actions)
    """
    found = _checked_parts(parts)
    scalar = [part for part in found if part is None or isinstance(part, ScalarSensor)]
    if len(scalar) == len(found) and not any(part.depends_on_previous for part in found if part is not None):
        return ScalarActionSensor(scalar)
    return ActionSensor(found)


def _checked_parts(parts: object) -> tuple[ContinuousSensor | None, ...]:
    """Return the parts after a check that they fit together."""
    found: tuple[ContinuousSensor | None, ...] = checked_parts(
        "parts", parts, (ContinuousSensor, type(None)), "a sensor such as GaussianSensor, or None"
    )
    given = [(a, part) for a, part in enumerate(found) if part is not None]
    if not given:
        raise InvalidModelError(
            "parts has no sensor: after one action at least, there must be an observation"
        )
    place, first = given[0]
    for a, part in given:
        if part.n_states != first.n_states:
            raise InvalidModelError(
                f"parts[{a}] has {part.n_states} states, and parts[{place}] has {first.n_states}"
            )
        if part.n_actions not in (None, len(found)):
            raise InvalidModelError(
                f"parts[{a}] is for {part.n_actions} actions, but there are {len(found)} parts"
            )
        if part.dimension != first.dimension:
            raise InvalidModelError(
                f"parts[{a}] has {part.described()}, and parts[{place}] has {first.described()}: they must "
                "have the same number of components"
            )
    return found
