"""`Plan`: certified bounds on the optimal average cost, a policy, and how to save both."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .._serialization.atomic_files import write_atomically
from .._serialization.reading import read_bytes
from .._utils.arrays import Array, Index
from ..errors import InvalidModelError, StartDependentError
from ..models import Setting, Units
from ..sensors.bracket import QuantizedSensors
from ..sensors.estimated import EstimatedSensors
from .accuracy import at_stake
from .discounted import best_lower_value, total_units
from .envelopes import max_of_lower_envelope
from .plan_codec import decoded, encoded
from .plan_record import PlanRecord
from .sensor_bracket import SensorBracket, SensorEstimate
from .upper.evaluation import Controller

_EQUAL_GAINS = 1e-9  # gains nearer than this are equal for choosing a node


@dataclass
class ControllerRun:
    """A run of a controller: `action` is its present action, and `read` gives it the next observation."""

    controller: Controller
    node: int
    cells: QuantizedSensors | EstimatedSensors | None = None  # of a density: its readings are put into cells

    @property
    def action(self) -> int:
        """The action of the present node."""
        return int(self.controller.actions[self.node])

    def read(self, observation: float) -> None:
        """Go to the node that follows after an observation: its number, or the reading of a density."""
        number = observation if self.cells is None else self.cells.of(self.action).cell(observation)
        self.node = int(self.controller.successors[self.node, int(number)])


@dataclass(frozen=True)
class Plan(PlanRecord):
    """Proved bounds on the optimal average cost or the optimal discounted total, and a policy.

    `lower` ≤ `upper` are in the user's units: costs, or rewards. `lower_cost` and `upper_cost` are the same
    interval as scaled costs. `grid` proves `lower_cost`, and `controller` proves `upper_cost`.

    `status` is "closed" if the gap satisfies all requests, and "coarse" if it does and is more than 20 % of
    the reference value. Otherwise it states why planning stopped before.

    If the bounds hold for every initial belief, `action(belief)` is a policy whose average cost is at most
    `upper_cost`. If the optimal average cost depends on the initial belief, the bounds hold for the initial
    distribution of the model, `bounds(belief)` returns the bounds for another initial belief, and
    `follow(belief)` executes the controller, whose average cost is at most the upper bound.

    If `discount` is below 1, `lower` and `upper` are bounds on the optimal discounted total from the initial
    distribution of the model, in the user's units: the sum of the costs, in which each step has the weight
    `discount` on the one before it. `lower_cost` and `upper_cost` are 1 − discount times these totals, for
    scaled costs. `action(belief)` is a policy that keeps the upper bound, and `value_bounds(belief)` returns
    the bounds from any other belief.

    If the model has a density of observations, `bracket` holds the two finite sensors between which the
    density is: `grid` proves the lower bound for the one that says more, and `controller` the upper bound for
    cells of readings (`cells`, `cell`, `quantized_setting`). `action(belief)` attains the upper bound at the
    exact beliefs of the density, too.
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
    def value_units(self) -> Units:
        """The units of the bounds: those of the model, or of discounted totals."""
        return total_units(self.units, self.discount)

    @property
    def is_discounted(self) -> bool:
        """Whether the bounds are on a discounted total, and not on an average."""
        return self.discount < 1.0

    @property
    def _in_units(self) -> tuple[float, float]:
        low, high = self.value_units.from_scaled([self.lower_cost, self.upper_cost]).tolist()
        return low, high

    @property
    def gap(self) -> float:
        """The width of the interval of scaled costs."""
        return self.upper_cost - self.lower_cost

    @property
    def relative_gap(self) -> float:
        """The gap as a fraction of the reference value (`planning.accuracy`)."""
        stake = at_stake(self.lower_cost, self.upper_cost, self.blind_cost)
        return self.gap / stake if self.gap > 0.0 else 0.0

    @property
    def promised_cost(self) -> float:
        """The average cost that the policy does not exceed, as a scaled cost: the upper bound."""
        return self.upper_cost

    @property
    def depends_on_start(self) -> bool:
        """Whether the bounds hold for the initial distribution of the model only."""
        return self.controller.gains is not None or self.grid.gains is not None

    @property
    def cells(self) -> int | None:
        """The number of cells of readings that the controller is for; None for finite observations."""
        return None if self._finite is None else self._finite.cells.n_observations

    @property
    def quantized_setting(self) -> Setting | None:
        """The finite setting that the controller is for, with a table of the cells; None if not needed."""
        return None if self._finite is None else self._finite.quantized_setting

    def cell(self, action: int | None, reading: float) -> int:
        """Return the number of the cell that contains a reading.

        It is an observation of `quantized_setting`, and a column of the controller's successors.

        Parameters
        ----------
        action
            The action before the reading; None before the first action.
        reading
            A number.

        Raises
        ------
        InvalidModelError
            If the plan is for finite observations.
        """
        if self._finite is None:
            raise InvalidModelError("this plan is for a finite number of observations: there are no cells")
        return int(self._finite.cells.of(action).cell(reading))

    @property
    def _finite(self) -> SensorBracket | SensorEstimate | None:
        """What stands for a density of observations."""
        return self.bracket or self.estimate

    def cells_of(self, action: int | None, readings: npt.ArrayLike) -> Index:
        """Return the numbers of the cells that contain readings [T] after one action, shape [T]."""
        if self.bracket is None:
            raise InvalidModelError("this plan is for a finite number of observations: there are no cells")
        edges = self.bracket.cells.of(action).edges
        return np.searchsorted(edges[1:-1], np.asarray(readings), side="left")

    def bounds(self, belief: npt.ArrayLike) -> tuple[float, float]:
        """Return the bounds on the optimal average cost from an initial belief; see also `value_bounds`.

        Parameters
        ----------
        belief
            `[S]`, a distribution over the reachable states of the model.

        Returns
        -------
        tuple of float
            The lower and the upper bound, in the user's units: `lower` and `upper` unless the plan
            `depends_on_start`.

        Raises
        ------
        InvalidModelError
            If `belief` is not such a distribution.
        """
        if self.is_discounted:
            return self.value_bounds(belief)
        reachable = self._reachable_part(belief)
        lower, upper = self.lower_cost, self.upper_cost
        if self.grid.gains is not None:
            lower = max(0.0, self.grid.at(reachable))
        if self.controller.gains is not None:
            upper = min(1.0, float((self.controller.gains @ reachable).min()))
        low, high = sorted(self.units.from_scaled([min(lower, upper), upper]).tolist())
        return low, high

    def value_bounds(self, belief: npt.ArrayLike) -> tuple[float, float]:
        """Return bounds on the optimal discounted total from any belief at which an action is chosen.

        From this belief, the discounted total of the policy `action` is no worse than the upper bound; for
        rewards, than the lower bound.

        Parameters
        ----------
        belief
            `[S]`, a distribution over the reachable states of the model, given all observations so far.

        Returns
        -------
        tuple of float
            The lower and the upper bound, in the user's units.

        Raises
        ------
        InvalidModelError
            If `belief` is not such a distribution, or the plan is for the average cost.
        """
        if not self.is_discounted:
            raise InvalidModelError(
                "this plan is for the long-run average: only a plan with a discount bounds totals"
            )
        reachable = self._reachable_part(belief)
        rest = 1.0 - self.discount
        upper = min(1.0, rest * float((self.controller.vectors @ reachable).min()))
        lower = max(0.0, rest * best_lower_value(self.grid, reachable))
        low, high = sorted(self.value_units.from_scaled([min(lower, upper), upper]).tolist())
        return low, high

    def action(self, belief: npt.ArrayLike) -> int:
        """Return the action of the belief policy: that of the vector that attains min α·b.

        From every initial belief, the average cost of this policy is at most `upper_cost`.

        Parameters
        ----------
        belief
            `[S]`, a distribution over the reachable states of the model.

        Returns
        -------
        int
            The number of the action.

        Raises
        ------
        StartDependentError
            If the plan `depends_on_start`; use `follow` instead.
        InvalidModelError
            If `belief` is not such a distribution.
        """
        if self.controller.gains is not None:
            raise StartDependentError(
                "what this model costs depends on where it starts, and the bound is for a controller that "
                "remembers more than the belief: run it with plan.follow(belief)"
            )
        return int(self.controller.actions[self._node(belief)])

    def follow(self, belief: npt.ArrayLike) -> ControllerRun:
        """Return a run of the controller from an initial belief, in the best node for this belief.

        The average cost of the controller exceeds the upper end of `bounds(belief)` by at most 1e-9 of the
        cost range.

        Parameters
        ----------
        belief
            `[S]`, a distribution over the reachable states of the model.

        Returns
        -------
        ControllerRun
            Play its `action`; then call `read(observation)`.

        Raises
        ------
        InvalidModelError
            If `belief` is not such a distribution.
        """
        cells = None if self._finite is None else self._finite.cells
        return ControllerRun(self.controller, self._node(belief), cells)

    def value(self, belief: npt.ArrayLike) -> float:
        """Return the relative value min α·b of a belief in the user's units; the smallest one is 0.

        If the plan `depends_on_start`, it is the relative value of the node with the smallest gain at the
        belief.

        Parameters
        ----------
        belief
            `[S]`, a distribution over the reachable states of the model.

        Raises
        ------
        InvalidModelError
            If `belief` is not such a distribution.
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
        """The spans of the two functions that prove the bounds, for scaled costs, in increasing order.

        Both approach the paper's sp(θ) as the gap approaches 0. In practice sp(θ) lies between them, which is
        not proved. They are NaN if the plan `depends_on_start`, because the optimality equation then has no
        solution.
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
            The path of the file. An existing file is replaced atomically.
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
            If the file contains no valid plan.
        """
        return cls.from_bytes(read_bytes(path), Path(path).name)

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Plan:
        """Return the plan in the bytes of a file; `name` is for error messages. Raises `ParseError`."""
        return decoded(cls, data, name)

    def __repr__(self) -> str:
        kind: str = self.units.kind
        if self.is_discounted:
            kind = f"{kind} discounted by {self.discount:g}"
        return (
            f"Plan({self.status}, {kind} in [{self.lower:.7g}, {self.upper:.7g}], gap {self.gap:.1e}, "
            f"{len(self.controller)} nodes, {len(self.grid)} points)"
        )
