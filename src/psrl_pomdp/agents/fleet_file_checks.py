"""Checks of a saved fleet: its parts must be consistent with its prior and with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._serialization.contents import LARGEST_TIME, Contents
from .._utils.arrays import Array
from ..inference.choosing import declared_support
from ..models import POMDP, Setting
from ..planning import Plan
from ..protocols import FiniteSupport
from . import compiled_steps as steps
from .fleet_units import FleetUnit
from .serialization_checks import check_fit, check_sampled_setting

if TYPE_CHECKING:
    from .fleet import Fleet
    from .serialization import EpisodeMetadata


def whole_number(contents: Contents, name: str, number: int, end: int) -> int:
    """Return a number from 0 to `end` − 1."""
    if not 0 <= number < end:
        raise contents.refuse(f"{name} is {number}, not a number from 0 to {end - 1}")
    return number


def place_in(contents: Contents, name: str, number: int, listed: Any) -> int:
    """Return the number of an item of a list."""
    return whole_number(contents, name, number, len(listed))


def tolerance_in(contents: Contents, tolerance: float) -> float:
    """Return the tolerance of a plan."""
    if not 0.0 < tolerance <= 1.0:
        raise contents.refuse(f"the tolerance of a plan is {tolerance!r}, out of range")
    return tolerance


def check_model(
    fleet: Fleet, contents: Contents, kernel: Array, sampled: Setting | None, index: int | None
) -> None:
    """Check a sampled model against the prior."""
    prior = fleet.prior
    if isinstance(prior, FiniteSupport):
        if index is None:
            raise contents.refuse("a sampled kernel has no number, and those of the prior have")
        number = whole_number(contents, "the number of a kernel", index, len(prior))
        if not np.array_equal(kernel, prior.kernels[number]):
            raise contents.refuse(f"a sampled kernel is not number {number} of the prior")
    elif index is not None:
        raise contents.refuse("a sampled kernel has a number, and those of the prior have none")
    support = declared_support(prior)
    if support is not None and (kernel[~support] > 0.0).any():
        raise contents.refuse("a sampled kernel has a transition that the prior rules out")
    if sampled is not None:
        check_sampled_setting(fleet, contents, sampled, index)


def model_of(fleet: Fleet, kernel: Array, sampled: Setting | None, index: int | None) -> POMDP:
    """Return the model that a plan is for."""
    if index is not None and isinstance(fleet.prior, FiniteSupport):
        return fleet.prior.model(index)
    return POMDP(sampled or fleet.setting, kernel)


def check_episode(fleet: Fleet, contents: Contents, given: EpisodeMetadata) -> None:
    """Check the numbers of an episode that units are in; one that has left may be in an earlier one."""
    if not 1 <= given.number <= len(fleet.episodes) + 1:
        raise contents.refuse(f"an episode has number {given.number} after {len(fleet.episodes)}")
    if not 1 <= given.start <= fleet.time or not 1 <= given.previous_length <= fleet.time:
        raise contents.refuse(f"an episode began at {given.start}, and t is {fleet.time}")
    tolerance_in(contents, given.tolerance)
    if not 0.0 <= given.work <= 1e300:
        raise contents.refuse(f"the work of an episode is {given.work!r}, out of range")


def check_current(fleet: Fleet, contents: Contents, own_schedule: bool) -> None:
    """Check that the clock is that of the current episode."""
    now, clock = fleet.current_episode, fleet.episode_clock.clock
    over = clock[steps.END_REASON] != steps.GOES_ON
    if not now.number:
        if fleet.episodes or (over and fleet.following is None) or clock[steps.LAST_T]:
            raise contents.refuse("there are past episodes but no current one")
        if fleet.following is None and fleet.time:
            raise contents.refuse("there are observations but no episode")
        return
    if now.number != len(fleet.episodes) + 1:
        raise contents.refuse(f"the current episode has number {now.number} after {len(fleet.episodes)}")
    last = int(clock[steps.LAST_T])
    if last > LARGEST_TIME or (
        not own_schedule and last != fleet.schedule.last(now.start, now.previous_length)
    ):
        raise contents.refuse(f"clock ends the episode at {last}, and the schedule does not")
    if over != (fleet.following is not None):
        raise contents.refuse("the current episode is over, but no other one follows, or the reverse")


def check_unit(fleet: Fleet, contents: Contents, unit: FleetUnit, in_fleet: bool) -> None:
    """Check that a unit has acted if it has had an observation, and that it is in an episode."""
    if in_fleet and (unit.action is None) != (unit.time == 0):
        raise contents.refuse(f"unit {unit.name!r} has {unit.time} observations and action {unit.action}")
    if unit.present and not in_fleet:
        raise contents.refuse(f"unit {unit.name!r} has ended, but not left")
    if not unit.present or not unit.time:
        return
    if unit.time > fleet.time:
        raise contents.refuse(f"unit {unit.name!r} is at {unit.time}, and t is {fleet.time}")
    if (unit.episode is None) != (fleet.current_episode.number == 0):
        raise contents.refuse(f"unit {unit.name!r} is in no episode, or there is none")
    if (unit.upcoming is None) != (fleet.following is None):
        raise contents.refuse(f"unit {unit.name!r} has no belief for the next episode, or there is none")


def plans_by_kernel(
    fleet: Fleet, contents: Contents, listed: dict[str, int], plans: list[Plan]
) -> dict[int, Plan]:
    """Return the plans for the kernels of a finite set."""
    prior, found = fleet.prior, {}
    for key, i in listed.items():
        if not isinstance(prior, FiniteSupport):
            raise contents.refuse("plans are stored by kernel, but the prior has no numbered kernels")
        if not (key.isascii() and key.isdigit() and len(key) < 10 and int(key) < len(prior)):
            raise contents.refuse(f"plans: kernel {key!r} of {len(prior)}")
        found[int(key)] = plans[place_in(contents, "plan", i, plans)]
        check_fit(contents, found[int(key)], prior.model(int(key)))
    return found
