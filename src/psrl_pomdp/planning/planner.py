"""`plan(model)`: an interval that holds the optimal average whenever it is stopped, and its proof."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from ..arrays import Array
from ..errors import InvalidModelError, ParseError
from ..files.archives import unpack
from ..files.atomic import write_atomically
from ..model import POMDP, Units
from .dynamics import Dynamics
from .loop import Bracket, Round, close
from .lower import Grid, LowerCertificate
from .upper import Controller, Index

Status = Literal["closed", "time limit", "work limit", "memory limit", "interrupted", "stalled"]

MAX_POINTS = 10_000
_MEMORY = 1.5e9  # bytes that the grid may take, its certificate included


@dataclass(frozen=True)
class Plan:
    """Certified bounds on the optimal long-run average, and a policy that attains the worse one.

    `lower` ≤ `upper` are in the user's own numbers: costs, or rewards. `lower_cost` and `upper_cost` are the
    same interval as scaled costs, with `lower_cost` proved by `grid` and `upper_cost` by `controller`.
    """

    status: Status
    lower_cost: float
    upper_cost: float
    controller: Controller
    grid: LowerCertificate
    rounds: tuple[Round, ...]
    states: tuple[int, ...]  # those that the start can reach: the columns of vectors and points
    n_states: int  # of the model
    units: Units
    actions: tuple[str, ...]
    fingerprint: str  # of the model that was planned for

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

    def action(self, belief: npt.ArrayLike) -> int:
        """What to do at a belief over the model's states: the action of the vector that attains min α·b.

        Played from any start, this costs at most `upper_cost` on average.
        """
        return int(self.controller.actions[int((self.controller.vectors @ self._kept(belief)).argmin())])

    def value(self, belief: npt.ArrayLike) -> float:
        """The relative cost of standing at a belief, min α·b, in the user's scale; its least is 0."""
        vectors = self.controller.vectors
        return float(self.units.difference((vectors @ self._kept(belief)).min() - vectors.min()))

    @property
    def span(self) -> tuple[float, float]:
        """Scaled spans of the two functions that prove the bounds.

        Both approach the paper's sp(θ) as the gap closes: a bracket of it in practice, not by proof.
        """
        low = float(np.ptp(self.grid.values))
        high = _highest(self.controller.vectors) - float(self.controller.vectors.min())
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
        words = msgspec.json.encode(
            {
                "version": _VERSION,
                "status": self.status,
                "bounds": [self.lower_cost, self.upper_cost],
                "start": self.controller.start,
                "states": list(self.states),
                "n_states": self.n_states,
                "units": [self.units.low, self.units.high, self.units.kind, self.units.name],
                "actions": list(self.actions),
                "fingerprint": self.fingerprint,
                "rounds": [[getattr(r, name) for name in Round.__dataclass_fields__] for r in self.rounds],
            }
        )
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            words=np.frombuffer(words, np.uint8),
            node_actions=self.controller.actions,
            node_successors=self.controller.successors,
            node_vectors=self.controller.vectors,
            points=self.grid.points,
            values=self.grid.values,
            basis=self.grid.basis,
            weights=self.grid.weights,
            parents=self.grid.parents,
        )
        write_atomically(Path(path), buffer.getvalue())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Plan:
        """A saved plan. Its numbers are taken as they are: `verify` says what they prove."""
        name = Path(path).name
        arrays = unpack(Path(path).read_bytes(), name, int(_MEMORY))
        try:
            words: dict[str, Any] = msgspec.json.decode(arrays["words"].tobytes())
            if words["version"] != _VERSION:
                raise ParseError(f"a plan of version {words['version']}, not {_VERSION}", path=name)
            lower, upper = words["bounds"]
            return cls(
                words["status"],
                lower,
                upper,
                Controller(
                    arrays["node_actions"].astype(np.int64),
                    arrays["node_successors"].astype(np.int64),
                    arrays["node_vectors"].astype(np.float64),
                    upper,
                    words["start"],
                ),
                LowerCertificate(
                    lower, *(arrays[name] for name in ("points", "values", "basis", "weights", "parents"))
                ),
                tuple(Round(*row) for row in words["rounds"]),
                tuple(words["states"]),
                words["n_states"],
                Units(*words["units"]),
                tuple(words["actions"]),
                words["fingerprint"],
            )
        except ParseError:
            raise
        except (KeyError, ValueError, TypeError, msgspec.DecodeError) as error:
            raise ParseError(f"not a saved plan: {error!r}", path=name) from None

    def __repr__(self) -> str:
        kind = self.units.kind
        return (
            f"Plan({self.status}, {kind} in [{self.lower:.7g}, {self.upper:.7g}], gap {self.gap:.1e}, "
            f"{len(self.controller)} nodes, {len(self.grid.points)} points)"
        )


_VERSION = 1


def plan(
    model: POMDP,
    tolerance: float = 1e-4,
    time_limit: float | None = None,
    warm_start: Plan | None = None,
    *,
    max_points: int = MAX_POINTS,
    max_work: float | None = None,
    progress: Callable[[Round], None] | None = None,
) -> Plan:
    """Bounds on the optimal long-run average cost of `model`, and a policy that attains the upper one.

    Stops when the scaled gap is within `tolerance`, or at `time_limit` seconds, at `max_points` grid points,
    at `max_work` counted operations, or at Ctrl-C; the bounds hold whichever it was, and `status` says
    which. Without a time limit the same call gives the same plan, to the last bit on one platform.
    `progress` is called after every round. `warm_start`, an earlier plan for a nearby kernel of the same
    setting, saves most of the work where it is near; where it turns out not to be, planning starts afresh.

    >>> from psrl_pomdp import problem
    >>> best = plan(problem("tiger"), tolerance=1e-6)
    >>> best.status, round(best.lower, 6), round(best.upper, 6), best.action([0.5, 0.5])
    ('closed', 1.083789, 1.083789, 0)
    """
    if not 0.0 < tolerance <= 1.0:
        raise InvalidModelError(f"tolerance is {tolerance}: wanted a scaled gap above 0 and up to 1")
    dynamics = Dynamics.of(model)
    _compile()
    begun = time.monotonic()
    bracket = Bracket(dynamics, min(max_points, _most_points(dynamics)))
    if warm_start is not None:
        bracket = _warmed(bracket, warm_start, tolerance)

    def expired() -> bool:
        return time_limit is not None and time.monotonic() - begun >= time_limit

    bracket.grid.expired = bracket.search.expired = expired

    def stop() -> Status | None:
        if expired():
            return "time limit"
        if max_work is not None and bracket.work >= max_work:
            return "work limit"
        return None

    try:
        status = close(bracket, tolerance, stop, progress)
    except (KeyboardInterrupt, SystemError) as stopped:
        # Compiled code turns a Ctrl-C into a SystemError with the interrupt as its cause.
        if isinstance(stopped, SystemError) and not isinstance(stopped.__cause__, KeyboardInterrupt):
            raise
        status = "closed" if bracket.gap <= tolerance else "interrupted"
    if bracket.grid.best_certificate is None:
        bracket.grid.certify()
    certificate, controller = bracket.grid.best_certificate, bracket.search.best
    assert certificate is not None
    assert controller is not None
    assert status in get_args(Status)
    return Plan(
        status=status,  # type: ignore[arg-type]
        lower_cost=bracket.lower,
        upper_cost=bracket.upper,
        controller=controller,
        grid=certificate,
        rounds=tuple(bracket.rounds),
        states=dynamics.states,
        n_states=model.n_states,
        units=model.setting.units,
        actions=model.setting.actions,
        fingerprint=model.fingerprint,
    )


def _warmed(cold: Bracket, earlier: Plan, tolerance: float) -> Bracket:
    """A bracket that begins where the earlier plan ended, or the cold one with the controller it found.

    The attempt is a round without new points; it is kept only where that leaves a gap which few points can
    close.
    """
    from .verification import check_certificate  # which imports this module

    shapes = (earlier.grid.basis.shape[1:], earlier.states)
    if shapes != (cold.grid.basis.shape[1:], cold.dynamics.states):
        raise InvalidModelError("warm_start is a plan for a model of another shape")
    check_certificate(earlier, cold.dynamics)
    warm = Bracket(cold.dynamics, cold.grid.most_points)
    warm.start_from(earlier.grid, earlier.controller)
    warm.grid.tighten(max(1e-11, 0.1 * tolerance), 20 * tolerance)
    warm.round(tolerance)
    if warm.gap <= max(300 * tolerance, 3 * earlier.gap):
        return warm
    cold.grid.work = warm.work
    best = warm.search.best
    assert best is not None
    cold.search.evaluate(best.actions, best.successors, best.vectors)
    return cold


@cache
def _compile() -> None:
    """Plan for a tiny model once, so that compiling, which is kept on disk, is on nobody's time limit."""
    halves = np.full((1, 2, 2, 2), 0.25)
    tiny = Dynamics(halves, np.array([[0.0, 1.0]]), np.array([[0.3, 0.7]]), np.ones(1), (0, 1))
    bracket = Bracket(tiny, 16)
    bracket.round(1e-9)
    bracket.grid.wander(tiny.start, np.array([0.5]))
    bracket.grid.lift(tiny.starts)
    bracket.grid.certify()
    assert bracket.grid.best_certificate is not None
    Grid(tiny, 16).replay(bracket.grid.best_certificate)
    bracket.search.polish(Controller(*_one_node(tiny), 1.0, 0), tiny.starts, 1.0)


def _one_node(dynamics: Dynamics) -> tuple[Index, Index, Array]:
    onward = np.zeros((1, dynamics.n_observations), np.int64)
    return np.zeros(1, np.int64), onward, np.zeros((1, dynamics.n_states))


def _most_points(dynamics: Dynamics) -> int:
    per_point = 2 * 20 * dynamics.n_actions * dynamics.n_observations * dynamics.n_states
    return max(dynamics.n_states + 1, int(_MEMORY / per_point))


def _highest(vectors: Array) -> float:
    """max over beliefs of min_n α_n·b, a linear program."""
    n, n_states = vectors.shape
    result = linprog(
        c=np.append(np.zeros(n_states), -1.0),
        A_ub=np.column_stack([-vectors, np.ones(n)]),
        b_ub=np.zeros(n),
        A_eq=np.append(np.ones(n_states), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0.0, 1.0)] * n_states + [(None, None)],
        method="highs",
    )
    return float(-result.fun)
