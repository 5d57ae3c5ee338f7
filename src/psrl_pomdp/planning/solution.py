"""`Plan`: what planning found, how to play it, and how to keep it."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from .._serialization.atomic_files import write_atomically
from .._serialization.reading import read_bytes
from .._utils.arrays import Array
from ..errors import InvalidModelError, StartDependentError
from ..models.model import Units
from .accuracy import at_stake
from .bound_pair import Round
from .lower.grid import LowerCertificate
from .lower.informed import InformedCertificate
from .upper.controllers import Controller
from .upper.envelopes import highest

Status = Literal["closed", "coarse", "time limit", "work limit", "memory limit", "interrupted", "stalled"]

MEMORY = 1.5e9  # bytes that the grid may take, its certificate included
_SAME = 1e-9  # gains this near are equal for choosing a node


@dataclass
class ControllerRun:
    """A controller at work: `action` is what it does now, `read` tells it what came of that."""

    controller: Controller
    node: int

    @property
    def action(self) -> int:
        return int(self.controller.actions[self.node])

    def read(self, observation: int) -> None:
        self.node = int(self.controller.successors[self.node, observation])


@dataclass(frozen=True)
class Plan:
    """Certified bounds on the optimal long-run average, and a policy that attains the worse one.

    `lower` ≤ `upper` are in the user's own numbers: costs, or rewards. `lower_cost` and `upper_cost` are the
    same interval as scaled costs, with `lower_cost` proved by `grid` and `upper_cost` by `controller`.

    `status` is "closed" where the gap is as narrow as was asked for, "coarse" where it is but is more than a
    fifth of what is at stake, and else says what stopped planning before.

    Where the bounds are the same from any start, `action(belief)` is the policy that attains the worse one.
    Where the model has parts that nobody can leave, they are about its own start, `bounds(belief)` has those
    for others, and what attains them is the controller itself: `follow(belief)`.
    """

    status: Status
    lower_cost: float
    upper_cost: float
    controller: Controller
    grid: LowerCertificate | InformedCertificate
    rounds: tuple[Round, ...]
    states: tuple[int, ...]  # those that the start can reach: the columns of vectors and points
    n_states: int  # of the model
    units: Units
    actions: tuple[str, ...]
    fingerprint: str  # of the model that was planned for
    blind_cost: float = 1.0  # of the best constant action, at most; scaled

    @property
    def lower(self) -> float:
        return min(self._own)

    @property
    def upper(self) -> float:
        return max(self._own)

    @property
    def _own(self) -> tuple[float, float]:
        low, high = self.units.from_scaled([self.lower_cost, self.upper_cost]).tolist()
        return low, high

    @property
    def gap(self) -> float:
        """Of the scaled costs."""
        return self.upper_cost - self.lower_cost

    @property
    def relative_gap(self) -> float:
        """The gap as a share of what is at stake (`planning.accuracy`); above .2 the plan is a coarse one."""
        stake = at_stake(self.lower_cost, self.upper_cost, self.blind_cost)
        return self.gap / stake if self.gap > 0.0 else 0.0

    @property
    def depends_on_start(self) -> bool:
        """Whether the bounds are about the model's start alone."""
        return self.controller.gains is not None or self.grid.gains is not None

    def bounds(self, belief: npt.ArrayLike) -> tuple[float, float]:
        """The interval for runs that start at this belief, in the user's numbers.

        The same as `lower` and `upper` unless the plan `depends_on_start`.
        """
        kept = self._kept(belief)
        lower, upper = self.lower_cost, self.upper_cost
        if self.grid.gains is not None:
            lower = max(0.0, self.grid.at(kept))
        if self.controller.gains is not None:
            upper = min(1.0, float((self.controller.gains @ kept).min()))
        low, high = sorted(self.units.from_scaled([min(lower, upper), upper]).tolist())
        return low, high

    def action(self, belief: npt.ArrayLike) -> int:
        """What to do at a belief over the model's states: the action of the vector that attains min α·b.

        Played from any start, this costs at most `upper_cost` on average. Raises `StartDependentError` where
        that is not so, and only `follow` keeps what `upper_cost` promises.
        """
        if self.controller.gains is not None:
            raise StartDependentError(
                "what this model costs depends on where it starts, and the bound is for a controller that "
                "remembers more than the belief: run it with plan.follow(belief)"
            )
        return int(self.controller.actions[self._node(belief)])

    def follow(self, belief: npt.ArrayLike) -> ControllerRun:
        """The controller at work from a belief, in the node that is best there.

        It costs at most the upper end of `bounds(belief)` on average, to within 1e-9 of the cost's range.
        """
        return ControllerRun(self.controller, self._node(belief))

    def value(self, belief: npt.ArrayLike) -> float:
        """The relative cost of standing at a belief, min α·b, in the user's scale; its least is 0.

        Where the plan depends on the start, that of the node with the least gain there.
        """
        worth = self.controller.vectors[self._node(belief)] @ self._kept(belief)
        return float(self.units.difference(worth - self.controller.vectors.min()))

    def _node(self, belief: npt.ArrayLike) -> int:
        kept, gains = self._kept(belief), self.controller.gains
        worth = self.controller.vectors @ kept
        if gains is not None:
            long_run = gains @ kept
            worth = np.where(long_run <= long_run.min() + _SAME, worth, np.inf)
        return int(worth.argmin())

    @property
    def span(self) -> tuple[float, float]:
        """Scaled spans of the two functions that prove the bounds.

        Both approach the paper's sp(θ) as the gap closes: a bracket of it in practice, not by proof. Not
        numbers where the plan depends on the start: the optimality equation, and with it sp(θ), fails there.
        """
        if self.depends_on_start:
            return float("nan"), float("nan")
        low = self.grid.span
        high = highest(self.controller.vectors) - float(self.controller.vectors.min())
        return min(low, high), max(low, high)

    def _kept(self, belief: npt.ArrayLike) -> Array:
        given = np.asarray(belief, dtype=np.float64)
        if given.shape != (self.n_states,):
            raise InvalidModelError(f"belief has shape {given.shape}; {self.n_states} states make it one")
        kept = given[list(self.states)]
        if abs(kept.sum() - 1.0) > 1e-6 or (kept < 0).any():
            raise InvalidModelError("belief is no distribution over the states that the start can reach")
        return kept

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan and its certificates to a `.npz` file, without pickles."""
        write_atomically(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """What `save` writes."""
        from .plan_files import plan_to_bytes

        return plan_to_bytes(self)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Plan:
        """A saved plan. Its arrays make a plan, or `ParseError` is raised; `verify` says what they prove."""
        return cls.from_bytes(read_bytes(path), Path(path).name)

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Plan:
        """What `load` reads; `name` is for errors."""
        from .plan_files import plan_from_bytes

        return plan_from_bytes(data, name)

    def __repr__(self) -> str:
        kind = self.units.kind
        return (
            f"Plan({self.status}, {kind} in [{self.lower:.7g}, {self.upper:.7g}], gap {self.gap:.1e}, "
            f"{len(self.controller)} nodes, {len(self.grid)} points)"
        )
