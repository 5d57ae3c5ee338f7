"""The closed recurrent classes of a model, each solved as a separate POMDP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..._utils.arrays import Array, Index
from ...models.structure import recurrent_classes
from ..accuracy import Accuracy
from ..bound_pair import BoundPair
from ..dynamics import Dynamics
from ..parameters import PlannerParameters
from ..rounds import iterate


def closed_classes(dynamics: Dynamics) -> list[Index]:
    """Return the recurrent classes that no action leaves, without a class of all states."""
    possible = np.asarray(dynamics.joint.any(axis=1))  # [A, S, S']
    if possible.all():
        return []
    classes = recurrent_classes(possible)
    return [np.array(c.states) for c in classes if c.closed and len(c.states) < dynamics.n_states]


def closed_class_problems(
    dynamics: Dynamics,
    most_points: int,
    expired: Callable[[], bool],
    parameters: PlannerParameters | None = None,
    upper: Dynamics | None = None,
) -> list[ClosedClass | AbsorbingStates]:
    """Return a problem for each closed class, and one for all classes of a single state together.

    Controllers are for the dynamics `upper`, by default the same ones.
    """
    classes = closed_classes(dynamics)
    single = np.array([states[0] for states in classes if len(states) == 1], np.int64)
    found: list[ClosedClass | AbsorbingStates] = [
        ClosedClass.of(dynamics, states, most_points, expired, parameters, upper)
        for states in classes
        if len(states) > 1
    ]
    return [*found, AbsorbingStates(upper or dynamics, single)] if len(single) else found


def constant_controllers(dynamics: Dynamics) -> Iterator[tuple[Index, Index]]:
    """Yield actions and successors of the controllers that play one action for ever."""
    for a in range(dynamics.n_actions):
        yield np.array([a]), np.zeros((1, dynamics.n_observations), np.int64)


@dataclass
class AbsorbingStates:
    """All closed classes of a single state: the optimal policy repeats the best action of the state."""

    dynamics: Dynamics
    states: Index
    work: float = 0.0

    def iterate(self, tolerance: float) -> None:
        """Do nothing: the solution is known."""

    def points(self) -> tuple[Array, Index]:
        """Return no beliefs (beside the vertices) and no parents."""
        return np.empty((0, self.dynamics.n_states)), np.empty((0, 3), np.int64)

    def controller(self) -> tuple[Index, Index]:
        """Return a node that repeats itself for each action that is best somewhere: actions, successors."""
        actions = np.unique(self.dynamics.cost[:, self.states].argmin(axis=0))
        successors = np.repeat(np.arange(len(actions))[:, None], self.dynamics.n_observations, axis=1)
        return actions, successors


@dataclass
class ClosedClass:
    """A closed recurrent class with its own bounds."""

    bounds: BoundPair
    states: Index
    n_states: int  # of the whole model
    expired: Callable[[], bool]

    @classmethod
    def of(
        cls,
        whole: Dynamics,
        states: Index,
        most_points: int,
        expired: Callable[[], bool],
        parameters: PlannerParameters | None = None,
        upper: Dynamics | None = None,
    ) -> ClosedClass:
        """Return the class of these states as a POMDP of its own."""
        inside, above = _inside(whole, states), None if upper is None else _inside(upper, states)
        bounds = BoundPair(inside, most_points, expired, parameters, above)
        return cls(bounds, states, whole.n_states, expired)

    @property
    def work(self) -> float:
        """Operations counted so far."""
        return self.bounds.work

    def iterate(self, tolerance: float) -> None:
        """Run rounds until the gap inside of the class is within `tolerance`."""
        iterate(self.bounds, Accuracy(tolerance), lambda: "time limit" if self.expired() else None)

    def points(self) -> tuple[Array, Index]:
        """Return the grid points inside as beliefs of the whole model, without parents."""
        inside = self.bounds.grid.beliefs
        beliefs = np.zeros((len(inside), self.n_states))
        beliefs[:, self.states] = inside
        return beliefs, np.full((len(inside), 3), -1)

    def controller(self) -> tuple[Index, Index]:
        """Return actions and successors of the best controller inside."""
        best = self.bounds.search.best
        assert best is not None
        return best.actions, best.successors


def _inside(whole: Dynamics, states: Index) -> Dynamics:
    """Return the dynamics restricted to the states of a closed class."""
    share = whole.start[states]
    start = share / share.sum() if share.sum() > 0 else np.full(len(states), 1 / len(states))
    joint = np.ascontiguousarray(whole.joint[:, :, states][:, :, :, states])
    cost, previous = whole.cost[:, states].copy(), whole.depends_on_previous
    return Dynamics(joint, cost, start[None], np.ones(1), tuple(states), previous, whole.slack)
