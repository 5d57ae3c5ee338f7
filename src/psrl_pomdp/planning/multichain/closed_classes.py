"""Closed recurrent classes, planned for one by one: once inside, nothing else matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..._utils.arrays import Array, Index
from ...models.structure import recurrent_classes
from ..accuracy import Accuracy
from ..bound_pair import Bracket, close
from ..dynamics import Dynamics


def closed_classes(dynamics: Dynamics) -> list[Index]:
    """The recurrent classes that no action leaves, where that is not all of the states."""
    possible = np.asarray(dynamics.joint.any(axis=1))  # [A, S, S']
    if possible.all():
        return []
    classes = recurrent_classes(possible)
    return [np.array(c.states) for c in classes if c.closed and len(c.states) < dynamics.n_states]


def rooms(dynamics: Dynamics, most_points: int, expired: Callable[[], bool]) -> list[Room | Absorbing]:
    """All of them, those of a single state together."""
    classes = closed_classes(dynamics)
    single = np.array([states[0] for states in classes if len(states) == 1], np.int64)
    found: list[Room | Absorbing] = [
        Room.of(dynamics, states, most_points, expired) for states in classes if len(states) > 1
    ]
    return [*found, Absorbing(dynamics, single)] if len(single) else found


@dataclass
class Absorbing:
    """All states that nobody leaves: the best action for each, for ever."""

    dynamics: Dynamics
    states: Index
    work: float = 0.0

    def close(self, tolerance: float) -> None:
        """There is nothing to close."""

    def points(self) -> tuple[Array, Index]:
        """None beside the vertices."""
        return np.empty((0, self.dynamics.n_states)), np.empty((0, 3), np.int64)

    def nodes(self) -> tuple[Index, Index]:
        """A node that repeats itself for each action that is the best of some state."""
        actions = np.unique(self.dynamics.cost[:, self.states].argmin(axis=0))
        again = np.repeat(np.arange(len(actions))[:, None], self.dynamics.n_observations, axis=1)
        return actions, again


@dataclass
class Room:
    """A closed recurrent class, planned for by itself."""

    bracket: Bracket
    states: Index
    n_states: int
    expired: Callable[[], bool]

    @classmethod
    def of(cls, whole: Dynamics, states: Index, most_points: int, expired: Callable[[], bool]) -> Room:
        share = whole.start[states]
        start = share / share.sum() if share.sum() > 0 else np.full(len(states), 1 / len(states))
        joint = np.ascontiguousarray(whole.joint[:, :, states][:, :, :, states])
        inside = Dynamics(joint, whole.cost[:, states].copy(), start[None], np.ones(1), tuple(states))
        return cls(Bracket(inside, most_points, expired), states, whole.n_states, expired)

    @property
    def work(self) -> float:
        return self.bracket.work

    def close(self, tolerance: float) -> None:
        close(self.bracket, Accuracy(tolerance), lambda: "time limit" if self.expired() else None)

    def points(self) -> tuple[Array, Index]:
        """Its beliefs as beliefs of the whole."""
        inside = self.bracket.grid.beliefs
        beliefs = np.zeros((len(inside), self.n_states))
        beliefs[:, self.states] = inside
        return beliefs, np.full((len(inside), 3), -1)

    def nodes(self) -> tuple[Index, Index]:
        """Those of the best controller inside: actions, successors."""
        best = self.bracket.search.best
        assert best is not None
        return best.actions, best.successors
