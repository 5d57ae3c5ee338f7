"""What a fleet consists of, and how a call that fails is undone.

A step of one unit must cost the same in a fleet of one unit and of thousands. Therefore the snapshot before a
call has only what is small; a call adds to it what it is about to change: a unit, the kernels that all units
share, or the episodes of all units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from ..errors import InvalidModelError, UnknownNameError, did_you_mean
from ..inference.labels import warn_of_labels
from ..planning import plan
from ..protocols import Planner, Prior, ResumablePrior, SharesParameters
from . import compiled_steps as steps
from . import watch as watching
from .deferred_work import PlannedNext
from .fleet_units import FleetUnit
from .learner import Learner
from .planning_budget import PlanningBudget
from .schedules import Schedule

Samples = Literal["shared", "own"]

# Attributes that calls replace. The objects behind them are not changed in place, except for those that
# `_remember` and `_snapshot` copy.
_REPLACED = (
    "following", "current_episode", "plans", "last_plan", "late_steps", "n_observations",
    "warned_of_coarse_plan", "alarms",
)  # fmt: skip


class FleetSnapshot(NamedTuple):
    """What a call can change. It adds to `undo` how the units that it touches are restored."""

    replaced: dict[str, Any]
    arrays: list[npt.NDArray[Any]]
    n_episodes: int
    streams: list[Any]
    n_ended: int
    undo: list[Callable[[], None]]


class FleetState(Learner):
    """The attributes of a fleet, its units, and snapshots of them."""

    def __init__(
        self,
        prior: Prior,
        schedule: Schedule | None = None,
        seed: int | Sequence[int] = 0,
        *,
        budget: PlanningBudget | None = None,
        planner: Planner = plan,
        samples: Samples = "shared",
        wait: bool = True,
        false_alarm_rate: float = watching.LEVEL,
    ) -> None:
        if samples not in ("shared", "own"):
            raise InvalidModelError(f"samples is {samples!r}: it must be 'shared' or 'own'")
        if not 0.0 < false_alarm_rate < 1.0:
            raise InvalidModelError(f"false_alarm_rate is {false_alarm_rate!r}: a number between 0 and 1")
        super().__init__(prior, schedule, seed, budget, planner)  # the posterior is that of θ alone
        warn_of_labels(prior)
        self.samples: Samples = samples
        if samples == "own" and not wait:
            raise InvalidModelError("samples='own' needs wait=True: each unit would wait for its own plan")
        if not wait and (planner is not plan or not isinstance(prior, ResumablePrior)):
            what = "a planner of your own" if planner is not plan else f"a {type(prior).__name__}"
            raise InvalidModelError(
                f"wait=False cannot be used with {what}: its work could not be done in another process"
            )
        if not isinstance(self.posterior, SharesParameters):
            raise InvalidModelError(
                f"the posterior of a {type(prior).__name__} has no method new_unit(): it cannot take the "
                "histories of several units"
            )
        self.posterior.wait_for_refreshes(wait)
        self.wait = wait
        self.late_steps = 0  # actions by a policy whose episode was over, because no new plan had come
        self.expected_counts: Array = np.zeros(prior.setting.cost.shape)  # ñ of all units, [A, S]
        self.n_observations = 0  # of all units
        self._units: dict[str, FleetUnit] = {}
        self._ended: list[FleetUnit] = []  # logs, and earlier histories of units that came back
        self.following: PlannedNext | None = None  # the kernel that is being planned for
        self.false_alarm_rate = float(false_alarm_rate)
        self.alarms: tuple[watching.Alarm, ...] = ()
        self._e_values = watching.FleetEValues()

    @property
    def time(self) -> int:
        """t, the number of observations of the unit that has most."""
        return int(self.episode_clock.clock[steps.T])

    @property
    def units(self) -> tuple[str, ...]:
        """The names of the units, in order of joining, with those that have left."""
        return tuple(self._units)

    def unit(self, name: str) -> FleetUnit:
        """Return a unit by name. An unknown name raises `UnknownNameError`."""
        found = self._units.get(name)
        if found is None:
            raise UnknownNameError(f"no unit is named {name!r}" + did_you_mean(name, self._units))
        return found

    def all_units(self, which: Literal["all", "units", "ended"] = "all") -> Iterator[FleetUnit]:
        """Yield units that have histories in the posterior: those in `units`, ended ones, or all."""
        if which != "units":
            yield from self._ended
        if which != "ended":
            yield from self._units.values()

    def set_units(self, units: Sequence[FleetUnit], ended: Sequence[FleetUnit]) -> None:
        """Set the units of a saved fleet."""
        self._units, self._ended = {unit.name: unit for unit in units}, list(ended)

    def _present_units(self) -> list[FleetUnit]:
        return [unit for unit in self._units.values() if unit.present]

    def _sum_of_counts(self) -> Array:
        total = np.zeros_like(self.expected_counts)
        for unit in self.all_units():
            total += unit.expected_counts
        return total

    # -- calls that fail change nothing ---------------------------------------------------------

    def _snapshot(self) -> FleetSnapshot:
        return FleetSnapshot(
            {name: getattr(self, name) for name in _REPLACED},
            [array.copy() for array in (*self.episode_clock, self.expected_counts)],
            len(self.episodes),
            [rng.bit_generator.state for rng in (self.rng, self.posterior_rng)],
            len(self._ended),
            [],
        )

    def _add_unit(self, unit: FleetUnit) -> None:
        """Add a unit, or replace an earlier one of the same name, whose history has ended."""
        before = self._units.get(unit.name)

        def restore() -> None:
            if before is None:
                self._units.pop(unit.name, None)
            else:
                self._units[unit.name] = before

        self._before.undo.append(restore)
        self._units[unit.name] = unit
        if before is not None:
            self._ended.append(before)

    def _remember(self, unit: FleetUnit) -> None:
        """Take a snapshot of a unit, and of what all units share, before the present call changes it."""
        attributes, posterior = dict(vars(unit)), unit.posterior.snapshot()
        arrays = [(array, array.copy()) for array in _changed_arrays(unit)]

        def restore() -> None:
            vars(unit).update(attributes)
            for array, before in arrays:
                array[...] = before
            unit.posterior.go_back(posterior)

        self._before.undo.append(restore)

    def _remember_posterior(self) -> None:
        """Take a snapshot of what all units share."""
        before = self.posterior.snapshot()
        self._before.undo.append(lambda: self.posterior.go_back(before))

    def _remember_episodes(self) -> None:
        """Remember the episodes of all units, which the present call replaces."""
        before = [(unit, unit.episode, unit.upcoming) for unit in self._units.values()]

        def restore() -> None:
            for unit, episode, upcoming in before:
                unit.episode, unit.upcoming = episode, upcoming

        self._before.undo.append(restore)

    def _restore(self, snapshot: FleetSnapshot) -> None:
        for restore in reversed(snapshot.undo):
            restore()
        self.posterior.wait_for_refreshes(self.wait)
        vars(self).update(snapshot.replaced)
        self._e_values.forget()
        for array, values in zip((*self.episode_clock, self.expected_counts), snapshot.arrays, strict=True):
            array[...] = values
        del self.episodes[snapshot.n_episodes :]
        for rng, state in zip((self.rng, self.posterior_rng), snapshot.streams, strict=True):
            rng.bit_generator.state = state
        del self._ended[snapshot.n_ended :]


def _changed_arrays(unit: FleetUnit) -> list[npt.NDArray[Any]]:
    """Return the arrays of a unit that a step changes in place, beside those of the posterior."""
    filters = [] if unit.upcoming is None else [unit.upcoming]
    if unit.episode is not None:
        filters.append(unit.episode.sampled_filter)
    found: list[npt.NDArray[Any]] = [array for each in filters for array in (each.belief, each.chance)]
    return found if unit.episode is None else [*found, unit.episode.policy.node]
