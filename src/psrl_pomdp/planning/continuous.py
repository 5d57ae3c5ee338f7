"""`plan` for densities of observations: bounds from two finite sensors, one below and one above the density.

A sensor F that is a garbling of a sensor E cannot be better than E: whoever observes with E can garble its
observations at random and act as with F. So the lower bound of a sensor that says more than the density, and
the upper bound of a sensor that says less, hold for the density. Both are finite sensors (`sensors.dilation`,
`sensors.cells`), and planning for them is as for any finite model: a grid of beliefs proves the lower bound
for one sensor, and controllers prove the upper bound for the other.

Both become better with the number K of cells. Planning begins with few cells. When rounds do not narrow the
gap much any more, the number is doubled: a controller for K cells is one for 2K cells, which are parts of
them, and the points of the grid and their values are carried over. All certificates that were found stay
valid.

If V(b) = min_n α_n·b comes from a controller for cells, the policy "play the action of the vector that
attains the minimum" may be run at the exact beliefs after readings, and costs at most the same bound: V is
concave, so that knowing more than the cell does not raise its expectation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from .._numba import jit as compiled
from .._utils.arrays import Array, Index
from ..errors import InvalidModelError
from ..models import POMDP
from ..sensors.bracket import DilatedSensors, QuantizedSensors, dilated, quantized
from .bound_pair import BoundPair
from .bounded_run import BoundedRun, Bounds
from .dynamics import Dynamics
from .lower.certificate import SLACK, LowerCertificate
from .lower.informed import InformedCertificate
from .multichain.bounds import MultichainBounds
from .multichain.closed_classes import closed_classes
from .rounds import Round, iterate
from .sensor_bracket import SensorBracket
from .solution import Plan
from .sparse.bound_pair import SparseBoundPair
from .sparse.dynamics import SparseDynamics
from .upper.evaluation import Controller

FIRST_CELLS, MOST_CELLS = 8, 512
_HUBS_PER_STATE = 5  # with the first number of cells
SPARSE_CELLS = 16  # where dense arrays are too large
_FINER = "finer"  # ends the rounds for one number of cells
_WORTHWHILE = 0.15  # share of the gap that a round has to close for another one with as many cells
_FIRST_WORTHWHILE = 0.25  # the same for the first numbers of cells,
_FEW_ATTEMPTS = 2  # so many, from which what the sensors make up cannot be judged yet
_LEAST_WORTHWHILE = 0.01  # the same where the sensors make up little of the gap,
_SENSOR_SHARE = 0.5  # that is, less than this share of it
_SEPARATION = 1e-7  # distance up to which points are the same
_STUCK = 0.7  # gap, as a share of that with a quarter of the cells, that is not due to the sensors


@dataclass(frozen=True)
class SparseRung:
    """The two finite models for one number of cells, where dense arrays are too large."""

    bracket: SensorBracket
    lower: SparseDynamics
    upper: SparseDynamics


@dataclass(frozen=True)
class Rung:
    """The two finite models for one number of cells, and their dynamics."""

    n_cells: int
    bracket: SensorBracket
    lower: Dynamics
    upper: Dynamics

    @classmethod
    def of(cls, model: POMDP, n_cells: int, discount: float = 1.0) -> Rung:
        """Return the models with about so many cells."""
        setting = model.setting
        cells = quantized(setting.sensor, setting.first_sensor, n_cells)
        hubs = dilated(setting.sensor, setting.first_sensor, n_cells)
        bracket = bracket_of(model, cells, hubs)
        above = POMDP(bracket.dilated_setting, model.transition)
        below = POMDP(bracket.quantized_setting, model.transition)
        lower = Dynamics.of(above, discount=discount)
        return cls(n_cells, bracket, lower, Dynamics.of(below, cells.error, discount))

    @property
    def states(self) -> tuple[int, ...]:
        """The states that the start can reach."""
        return self.lower.states

    def carried(self, controller: Controller, earlier: QuantizedSensors) -> Index:
        """Return the successors of a controller for earlier cells, of which the present ones are parts."""
        cells, n_actions = self.bracket.cells, self.upper.n_actions
        parents = np.zeros((n_actions, cells.n_observations), np.int64)
        for a in range(n_actions):
            low = cells.of(a).edges[:-1]
            parents[a, : len(low)] = np.searchsorted(earlier.of(a).edges[1:-1], low, side="right")
        n_costs = self.upper.n_observations // cells.n_observations  # those that are seen with a reading
        parents = (parents[:, :, None] * n_costs + np.arange(n_costs)).reshape(n_actions, -1)
        found = np.take_along_axis(controller.successors, parents[controller.actions], axis=1)
        return np.ascontiguousarray(found)


def bracket_of(model: POMDP, cells: QuantizedSensors, hubs: DilatedSensors) -> SensorBracket:
    """Return the settings of a model with cells and with hubs in place of its density."""
    below = model.setting.replace(observation=cells.table, first_observation=cells.first_table)
    above = model.setting.replace(observation=hubs.table, first_observation=hubs.first_table)
    return SensorBracket(below, above, cells, hubs)


class ContinuousRun(BoundedRun):
    """One call of `plan` for a density: the numbers of cells so far, and what to try next."""

    attempts: list[tuple[Rung, BoundPair | MultichainBounds]]
    sparse: tuple[SparseRung, SparseBoundPair] | None  # in place of all attempts
    _multichain: bool  # whether bounds are for the model's start only

    def begin(self, model: POMDP, warm_start: Plan | None) -> None:
        """Make the first attempt, which has bounds from the first moment on."""
        self.attempts, self.sparse, self._multichain = [], None, False
        if not self._begins_dense(model):
            self._begin_sparse(model, warm_start)
            return
        rung = self._rung(model, FIRST_CELLS)
        self._multichain = self.discount == 1.0 and len(closed_classes(rung.lower)) > 1
        if warm_start is None or warm_start.bracket is None or self._multichain:
            self._attempt(rung)
            if warm_start is not None:
                check_shape(warm_start, model, rung.states)
            return
        check_shape(warm_start, model, rung.states)
        self._warm_start(model, rung, warm_start)

    def iterate(self, model: POMDP) -> str:
        """Run rounds with ever more cells until the gap is narrow enough; return how that ended."""
        if self.sparse is not None:
            return self.sparse[1].iterate(self.accuracy, self._stop, self.progress, False)
        while True:
            rung, bounds = self.attempts[-1]
            more = 2 * rung.n_cells
            last = more > MOST_CELLS or not self._fits(rung.bracket, 2)
            if isinstance(bounds, BoundPair) and self._is_stuck() and self.discount == 1.0:
                self._multichain = True
                self._attempt(rung, bounds)
                continue
            status = self._rounds(bounds, last)
            if status == "stalled" and not last:
                status = _FINER
            only = isinstance(bounds, MultichainBounds) or self.discount < 1.0
            if status == "stalled" and only | self._is_narrow():
                return "sensor limit"
            if status == "stalled":
                self._multichain = True
                assert isinstance(bounds, BoundPair)
                self._attempt(rung, bounds)
            elif status != _FINER:
                return status
            else:
                self._attempt(self._rung(model, more))

    def result(self, model: POMDP, status: str) -> Plan:
        """Return the plan with the best certificates; `status` says how planning ended."""
        above, grid = self._best_lower()
        below, controller = self._best_upper()
        first, second = below.bracket, above.bracket
        bracket = SensorBracket(first.quantized_setting, second.dilated_setting, first.cells, second.hubs)
        about = (above.lower, below.upper)
        return self._plan_of(model, status, grid, controller, about, bracket)

    def _all_bounds(self) -> Sequence[Bounds]:
        return [bounds for _, bounds in self._all()]

    def _all(self) -> list[tuple[Rung | SparseRung, Bounds]]:
        return [*self.attempts] if self.sparse is None else [self.sparse]

    def _best_lower(self) -> tuple[Rung | SparseRung, LowerCertificate | InformedCertificate]:
        """Return the certificate that proves most, and what it is about; of equal ones the first."""
        best: tuple[Rung | SparseRung, LowerCertificate | InformedCertificate] | None = None
        for rung, bounds in self._all():
            if bounds.certificate is None and isinstance(bounds, BoundPair) and best is None:
                bounds.grid.certify()
            found = bounds.certificate
            if found is not None and (best is None or found.bound > best[1].bound + SLACK):
                best = rung, found
        assert best is not None
        return best

    def _best_upper(self) -> tuple[Rung | SparseRung, Controller]:
        best: tuple[Rung | SparseRung, Controller] | None = None
        for rung, bounds in self._all():
            found = bounds.controller
            if found is not None and (best is None or found.bound < best[1].bound - SLACK):
                best = rung, found
        assert best is not None
        return best

    # -- rounds ---------------------------------------------------------------------------------

    def _rounds(self, bounds: BoundPair | MultichainBounds, last: bool) -> str:
        """Run rounds for one number of cells while they narrow the gap."""

        def stop() -> str | None:
            reached = self._stop()
            if reached is not None:
                return reached
            return None if last or not self._is_finer_due(bounds.rounds) else _FINER

        return iterate(bounds, self.accuracy, stop, self.progress)

    def _is_finer_due(self, rounds: list[Round]) -> bool:
        """Return whether more cells promise to narrow the gap by more than further rounds.

        The part of the gap that is due to the sensors falls to about a quarter when the number of cells is
        doubled. So what the last doubling brought is about three times what is left of that part.
        """
        gaps = [each.upper - each.lower for each in rounds]
        if len(gaps) < 2:
            return False
        worthwhile = _FIRST_WORTHWHILE
        if len(self.attempts) > _FEW_ATTEMPTS:
            left = (self.attempts[-2][1].gap - gaps[0]) / 3.0
            worthwhile = _LEAST_WORTHWHILE if left < _SENSOR_SHARE * gaps[-1] else _WORTHWHILE
        return gaps[-2] - gaps[-1] < worthwhile * gaps[-2]

    def _is_stuck(self) -> bool:
        """Return whether more cells have not narrowed the gap, as where bounds from any start cannot meet."""
        gaps = [bounds.gap for _, bounds in self.attempts]
        return len(gaps) > 2 and gaps[-2] > _STUCK * gaps[-3] and gaps[-1] > _STUCK * gaps[-2]

    def _is_narrow(self) -> bool:
        return len(self.attempts) > 1 and not self._is_stuck()

    # -- attempts -------------------------------------------------------------------------------

    def _begins_dense(self, model: POMDP) -> bool:
        """Return whether dense arrays for the first number of cells are the quickest start, and fit."""
        setting, p = model.setting, self.parameters.representation
        # Estimates, because hubs take a while to find where there are many states
        rows = model.n_actions * setting.n_states * _HUBS_PER_STATE * setting.n_states
        vertices = rows * (setting.n_states + self.parameters.grid.initial_points)
        return rows * setting.n_states <= p.dense_entries and self.limits.fits(p.bytes_per_entry * vertices)

    def _begin_sparse(self, model: POMDP, warm_start: Plan | None) -> None:
        """Make bounds on sparse arrays, with one number of cells."""
        setting = model.setting
        cells = quantized(setting.sensor, setting.first_sensor, SPARSE_CELLS)
        hubs = dilated(setting.sensor, setting.first_sensor, SPARSE_CELLS)
        bracket = bracket_of(model, cells, hubs)
        lower = SparseDynamics.of(
            POMDP(bracket.dilated_setting, model.transition), self.limits, self.discount
        )
        upper = SparseDynamics.of(
            POMDP(bracket.quantized_setting, model.transition), self.limits, self.discount
        )
        if warm_start is not None:
            check_shape(warm_start, model, lower.states)
        bounds = SparseBoundPair(
            lower,
            self.limits,
            self.max_points,
            self.max_work or np.inf,
            self.parameters,
            upper.with_slack(cells.error),
        )
        n_joint = bracket.quantized_setting.n_joint_observations
        if warm_start is not None and warm_start.controller.successors.shape[1] == n_joint:
            bounds.warm_start(warm_start.controller)
        self.sparse = SparseRung(bracket, lower, upper), bounds

    def _rung(self, model: POMDP, n_cells: int) -> Rung:
        """Return the models with so many cells; their compiled code is ready if they are large."""
        rung = Rung.of(model, n_cells, self.discount)
        begun = self.limits.seconds
        if rung.lower.joint.size > self.parameters.representation.interpreted_entries:
            compiled.PLANNING.hurry(self.limits.time_limit is not None)
        self.limits.exclude_time(self.limits.seconds - begun)
        return rung

    def _fits(self, bracket: SensorBracket, factor: int = 1) -> bool:
        """Return whether dense arrays for the hubs, or a multiple of them, fit."""
        p, setting = self.parameters.representation, bracket.dilated_setting
        rows = factor * setting.n_actions * setting.n_observations * setting.n_states
        vertices = rows * (setting.n_states + self.parameters.grid.initial_points)
        return self.limits.fits(p.bytes_per_entry * vertices)

    def _most_points(self, dynamics: Dynamics, multichain: bool) -> int:
        """Return how many points the grid may have for what its arrays take."""
        p = self.parameters.representation
        per_weight = p.bytes_per_multichain_weight if multichain else p.bytes_per_weight
        per_point = per_weight * dynamics.n_actions * dynamics.n_observations * dynamics.n_states
        available = min(p.grid_memory, p.grid_memory_share * (self.limits.memory - self.limits.reserved))
        return min(self.max_points, max(dynamics.n_states + 1, int(available / per_point)))

    def _attempt(self, rung: Rung, any_start: BoundPair | None = None) -> None:
        """Begin with other models, where the last ones ended."""
        most = self._most_points(rung.lower, self._multichain)
        expired, parameters = self.limits.expired, self.parameters
        if self._multichain:
            bounds: BoundPair | MultichainBounds = MultichainBounds(
                rung.lower, most, any_start, expired, parameters, rung.upper
            )
        else:
            bounds = BoundPair(rung.lower, most, expired, parameters, rung.upper)
        if self.attempts:
            self._carry(rung, bounds)
        self.attempts.append((rung, bounds))

    def _carry(self, rung: Rung, bounds: BoundPair | MultichainBounds) -> None:
        """Carry the best controller and the points of the grid over to bounds for more cells."""
        bounds.external_lower = max(0.0, *(each.lower for _, each in self.attempts))
        below, controller = self._best_upper()
        successors = rung.carried(controller, below.bracket.cells)
        earlier = self.attempts[-1][1].grid
        n_states = rung.lower.n_states
        points = earlier.beliefs[n_states:]
        if isinstance(bounds, MultichainBounds):
            bounds.begin_with(points, controller.actions, successors)
            return
        _carry_points(bounds, points, earlier.h[: earlier.n].copy())
        bounds.search.evaluate(controller.actions, successors, controller.vectors)
        assert bounds.search.best is not None
        bounds.search.vectors = bounds.search.best.vectors

    def _warm_start(self, model: POMDP, coarse: Rung, earlier: Plan) -> None:
        """Begin where the earlier plan ended, or with few cells and its controller if that is no good start.

        The earlier plan needs as many cells as it has only if its gap is to be reached again.
        """
        assert earlier.bracket is not None
        n_cells = coarse.n_cells
        while n_cells < min(earlier.bracket.cells.n_observations, MOST_CELLS):
            n_cells *= 2
        rung = coarse if n_cells == coarse.n_cells else self._rung(model, n_cells)
        if isinstance(earlier.grid, LowerCertificate) and earlier.controller.gains is None:
            self._attempt(rung)
            bounds = self.attempts[-1][1]
            assert isinstance(bounds, BoundPair)
            controller = earlier.controller
            allowed = self.accuracy.allowed(earlier.lower_cost, earlier.upper_cost, bounds.constant_cost)
            same = np.array_equal(earlier.bracket.hubs.table, rung.bracket.hubs.table)
            if same:
                bounds.grid.warm_start(earlier.grid)
            else:
                _carry_points(bounds, earlier.grid.points[coarse.lower.n_states :], earlier.grid.values)
            successors = rung.carried(controller, earlier.bracket.cells)
            bounds.search.evaluate(controller.actions, successors, controller.vectors)
            assert bounds.search.best is not None
            bounds.search.vectors = bounds.search.best.vectors
            bounds.grid.tighten(max(1e-11, 0.1 * allowed), 20 * allowed)
            bounds.run_round(allowed)
            if bounds.gap <= max(10 * allowed, 3 * earlier.gap):
                return
            self.attempts = [(rung, bounds)]
        self._attempt(rung)


def _carry_points(bounds: BoundPair, points: Array, values: Array) -> None:
    """Add points to a grid; `values` are those of the vertices and then of the points."""
    grid, n_states = bounds.grid, bounds.dynamics.n_states
    if len(points) and grid.dynamics.restart:  # the starts are points already
        points, values = _without(grid.beliefs, points, values, n_states)
    points = points[: grid.most_points - grid.n]
    grid.h[:n_states] = values[:n_states]
    if len(points):
        no_parents = np.full((len(points), 3), -1)
        grid.append(points, values[n_states : n_states + len(points)], no_parents)


def _without(known: Array, points: Array, values: Array, n_states: int) -> tuple[Array, Array]:
    """Return the points that are not known, and the values of the vertices and of these points."""
    new = cKDTree(known).query(points)[0] > _SEPARATION
    return points[new], np.concatenate([values[:n_states], values[n_states : n_states + len(new)][new]])


def check_shape(earlier: Plan, model: POMDP, states: tuple[int, ...]) -> None:
    """Raise `InvalidModelError` for a plan that cannot be the start of planning for a model."""
    sizes = len(earlier.actions), earlier.states
    if sizes != (model.n_actions, states) or earlier.bracket is None:
        raise InvalidModelError("warm_start is a plan for a model of another shape")
