"""Closed recurrent classes, planned for one by one: once inside, nothing else matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..structure import recurrent_classes
from .accuracy import Accuracy
from .dynamics import Dynamics
from .loop import Bracket, close
from .upper import Index


def closed_classes(dynamics: Dynamics) -> list[Index]:
    """The recurrent classes that no action leaves, where that is not all of the states."""
    possible = np.asarray(dynamics.joint.any(axis=1))  # [A, S, S']
    if possible.all():
        return []
    classes = recurrent_classes(possible)
    return [np.array(c.states) for c in classes if c.closed and len(c.states) < dynamics.n_states]


@dataclass
class Room:
    """A closed recurrent class, planned for by itself."""

    bracket: Bracket
    states: Index
    n_states: int

    @classmethod
    def of(cls, whole: Dynamics, states: Index, most_points: int) -> Room:
        share = whole.start[states]
        start = share / share.sum() if share.sum() > 0 else np.full(len(states), 1 / len(states))
        joint = np.ascontiguousarray(whole.joint[:, :, states][:, :, :, states])
        inside = Dynamics(joint, whole.cost[:, states].copy(), start[None], np.ones(1), tuple(states))
        return cls(Bracket(inside, most_points), states, whole.n_states)

    def close(self, tolerance: float, expired: Callable[[], bool]) -> None:
        self.bracket.grid.expired = self.bracket.search.expired = expired
        close(self.bracket, Accuracy(tolerance), lambda: "time limit" if expired() else None)

    def points(self) -> tuple[Array, Index]:
        """Its beliefs as beliefs of the whole."""
        inside = self.bracket.grid.beliefs
        beliefs = np.zeros((len(inside), self.n_states))
        beliefs[:, self.states] = inside
        return beliefs, np.full((len(inside), 3), -1)
