"""`Plan`: certified bounds on the optimal average cost, a policy, and how to save both."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .._serialization.atomic_files import write_atomically
from .._serialization.reading import read_bytes
from .._utils.arrays import Array
from ..errors import InvalidModelError, StartDependentError
from .accuracy import at_stake
from .envelopes import max_of_lower_envelope
from .plan_codec import decoded, encoded
from .plan_record import PlanRecord
from .upper.evaluation import Controller

_EQUAL_GAINS = 1e-9  # gains nearer than this are equal for choosing a node


@dataclass
class ControllerRun:
    """A run of a controller: `action` is its present action, and `read` gives it the next observation."""

    controller: Controller
    node: int

    @property
    def action(self) -> int:
        """The action of the present node."""
        return int(self.controller.actions[self.node])

    def read(self, observation: int) -> None:
        """Go to the node that follows after an observation."""
        self.node = int(self.controller.successors[self.node, observation])


@dataclass(frozen=True)
class Plan(PlanRecord):
    """Certified bounds on the optimal long-run average, and a policy that attains the worse of them.

    `lower` ≤ `upper` are in the user's own units: costs, or rewards. `lower_cost` and `upper_cost` are the
    same interval as scaled costs, with `lower_cost` proved by `grid` and `upper_cost` by `controller`.

    `status` is "closed" where the gap is as narrow as was asked for, "coarse" where it is but is more than a
    fifth of what is at stake, and else says what stopped planning before.

    Where the bounds hold from any start, `action(belief)` is the policy that attains the worse one. Where the
    model has several closed classes, the bounds are about its own start, `bounds(belief)` returns those from
    another start, and the policy that attains the worse one is the controller itself: `follow(belief)`.
    """

    @property
    def lower(self) -> float:
        """The lower bound, in the user's units."""
        return min(self._in_units)

    @property
    def upper(self) -> float:
        """The upper bound, in the user's units."""
        return max(self._in_units)

    @property
    def _in_units(self) -> tuple[float, float]:
        low, high = self.units.from_scaled([self.lower_cost, self.upper_cost]).tolist()
        return low, high

    @property
    def gap(self) -> float:
        """The width of the interval of scaled costs."""
        return self.upper_cost - self.lower_cost

    @property
    def relative_gap(self) -> float:
        """The gap as a share of what is at stake (`planning.accuracy`); above .2 the plan is a coarse one."""
        stake = at_stake(self.lower_cost, self.upper_cost, self.blind_cost)
        return self.gap / stake if self.gap > 0.0 else 0.0

    @property
    def depends_on_start(self) -> bool:
        """Whether the bounds hold from the model's own start only."""
        return self.controller.gains is not None or self.grid.gains is not None

    def bounds(self, belief: npt.ArrayLike) -> tuple[float, float]:
        """Return the interval for runs that start at a belief.

        Parameters
        ----------
        belief
            `[S]`, a distribution over the states that the model's start can reach.

        Returns
        -------
        tuple of float
            The lower and the upper bound, in the user's units: `lower` and `upper` unless the plan
            `depends_on_start`.

        Raises
        ------
        InvalidModelError
            `belief` is no such distribution.
        """
        reachable = self._reachable_part(belief)
        lower, upper = self.lower_cost, self.upper_cost
        if self.grid.gains is not None:
            lower = max(0.0, self.grid.at(reachable))
        if self.controller.gains is not None:
            upper = min(1.0, float((self.controller.gains @ reachable).min()))
        low, high = sorted(self.units.from_scaled([min(lower, upper), upper]).tolist())
        return low, high

    def action(self, belief: npt.ArrayLike) -> int:
        """Return the action of the belief policy: that of the vector that attains min α·b.

        Played from any start, this policy costs at most `upper_cost` on average.

        Parameters
        ----------
        belief
            `[S]`, a distribution over the states that the model's start can reach.

        Returns
        -------
        int
            The number of the action.

        Raises
        ------
        StartDependentError
            The plan `depends_on_start`, and only `follow` attains the bound.
        InvalidModelError
            `belief` is no such distribution.
        """
        if self.controller.gains is not None:
            raise StartDependentError(
                "what this model costs depends on where it starts, and the bound is for a controller that "
                "remembers more than the belief: run it with plan.follow(belief)"
            )
        return int(self.controller.actions[self._node(belief)])

    def follow(self, belief: npt.ArrayLike) -> ControllerRun:
        """Start a run of the controller at a belief, in the node that is best there.

        It costs at most the upper end of `bounds(belief)` on average, to within 1e-9 of the cost's range.

        Parameters
        ----------
        belief
            `[S]`, a distribution over the states that the model's start can reach.

        Returns
        -------
        ControllerRun
            Its `action` is to be played; then `read(observation)` moves it on.

        Raises
        ------
        InvalidModelError
            `belief` is no such distribution.
        """
        return ControllerRun(self.controller, self._node(belief))

    def value(self, belief: npt.ArrayLike) -> float:
        """Return the relative value of a belief, min α·b, in the user's units; the least of all is 0.

        Where the plan depends on the start, it is that of the node with the least gain at the belief.

        Parameters
        ----------
        belief
            `[S]`, a distribution over the states that the model's start can reach.

        Raises
        ------
        InvalidModelError
            `belief` is no such distribution.
        """
        worth = self.controller.vectors[self._node(belief)] @ self._reachable_part(belief)
        return float(self.units.difference(worth - self.controller.vectors.min()))

    def _node(self, belief: npt.ArrayLike) -> int:
        """Return the node of the controller that is best at a belief."""
        reachable, gains = self._reachable_part(belief), self.controller.gains
        worth = self.controller.vectors @ reachable
        if gains is not None:
            long_run = gains @ reachable
            worth = np.where(long_run <= long_run.min() + _EQUAL_GAINS, worth, np.inf)
        return int(worth.argmin())

    @property
    def span(self) -> tuple[float, float]:
        """The spans of the two functions that prove the bounds, in scaled costs, the smaller first.

        Both approach the paper's sp(θ) as the gap closes. They enclose it in practice, which is not proved.
        They are NaN where the plan depends on the start, because the optimality equation has no solution
        then.
        """
        if self.depends_on_start:
            return float("nan"), float("nan")
        low = self.grid.span
        high = max_of_lower_envelope(self.controller.vectors) - float(self.controller.vectors.min())
        return min(low, high), max(low, high)

    def _reachable_part(self, belief: npt.ArrayLike) -> Array:
        """Return a belief restricted to the states that the start can reach, or raise `InvalidModelError`."""
        given = np.asarray(belief, dtype=np.float64)
        if given.shape != (self.n_states,):
            raise InvalidModelError(f"belief has shape {given.shape}; {self.n_states} states make it one")
        reachable = given[list(self.states)]
        if abs(reachable.sum() - 1.0) > 1e-6 or (reachable < 0).any():
            raise InvalidModelError("belief is no distribution over the states that the start can reach")
        return reachable

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan and its certificates to a `.npz` file, without pickles.

        Parameters
        ----------
        path
            The file. It is replaced at once, when all is written.
        """
        write_atomically(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the bytes that `save` writes."""
        return encoded(self)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Plan:
        """Read a saved plan. Use `verify` to check what it proves.

        Parameters
        ----------
        path
            The file.

        Raises
        ------
        ParseError
            The file holds no plan.
        """
        return cls.from_bytes(read_bytes(path), Path(path).name)

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Plan:
        """Return the plan in the bytes of a file; `name` is for error messages. Raises `ParseError`."""
        return decoded(cls, data, name)

    def __repr__(self) -> str:
        kind = self.units.kind
        return (
            f"Plan({self.status}, {kind} in [{self.lower:.7g}, {self.upper:.7g}], gap {self.gap:.1e}, "
            f"{len(self.controller)} nodes, {len(self.grid)} points)"
        )
