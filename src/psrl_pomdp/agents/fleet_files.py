"""Fleets in files: everything that determines what a fleet does next, without pickles.

The file is an archive like that of an agent (`serialization`): the setting, the prior, the posterior with the
histories of all units, both random streams, the distinct episodes of the units with their plans, and for each
unit its belief, its node and its last action. A loaded fleet continues as the saved one would have, to the
last bit. The file is not trusted: sizes, ranges and sums are checked before a fleet is constructed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from .._serialization.archives import SizeLimit, as_saved_agent, pack
from .._serialization.contents import LARGEST_TIME, VERSION, Contents, opened
from .._serialization.random_streams import StreamState, stream_in, stream_out
from .._utils.arrays import Array
from ..errors import InvalidModelError
from ..inference.prior_files import posterior_in, posterior_out, prior_in, prior_out
from ..models import Setting
from ..planning import Plan, plan
from ..planning.plan_files import plan_from_bytes
from ..protocols import ModelSample, Prior, Solution
from . import compiled_steps as steps
from .compiled_policy import new_sampled_filter, policy_of
from .current_episode import CurrentEpisode
from .deferred_work import PlannedNext
from .episode_records import EpisodeRecord
from .fleet_file_checks import (
    check_current,
    check_episode,
    check_model,
    check_unit,
    model_of,
    place_in,
    plans_by_kernel,
    tolerance_in,
    whole_number,
)
from .fleet_units import FleetUnit
from .schedules import Schedule, schedule_named
from .serialization import (
    EpisodeMetadata,
    SettingMetadata,
    sampled_setting_in,
    sampled_setting_out,
    setting_in,
    setting_out,
)
from .serialization_checks import budget_in, check_fit, has_sizes, record_in, record_row
from .watch import LEVEL, Alarm

if TYPE_CHECKING:
    from .fleet import Fleet

_NEAR = 1e-6  # tolerance of sums


class _Unit(msgspec.Struct):
    """A unit; `posterior` and `episode` are numbers."""

    name: str
    posterior: int
    action: int | None
    present: bool
    episode: int | None
    has_upcoming: bool
    chosen: int | None = None
    late: bool = False
    observed: str = ""


class _Episode(msgspec.Struct):
    """An episode that units are in, and the number of its plan."""

    metadata: EpisodeMetadata
    plan: int
    has_setting: bool


class _Following(msgspec.Struct):
    """The model that is being planned for."""

    index: int | None
    tolerance: float
    has_setting: bool


class FleetMetadata(SettingMetadata, kw_only=True):
    """Everything about a fleet that is not an array."""

    version: int
    kind: Literal["fleet"] = "fleet"
    prior: str
    prior_fingerprint: str = ""
    schedule: str
    budget: dict[str, Any]
    own_schedule: bool
    samples: Literal["shared", "own"]
    wait: bool
    refresh_due: bool
    streams: tuple[StreamState, StreamState]
    late_steps: int
    n_observations: int
    members: list[_Unit]
    ended: list[_Unit]
    episodes: list[_Episode]
    current: int | None
    following: _Following | None
    records: list[Any]
    by_kernel: dict[str, int]
    last_plan: int | None
    n_plans: int
    false_alarm_rate: float = LEVEL
    alarms: list[Alarm] = msgspec.field(default_factory=list)


def to_bytes(fleet: Fleet) -> bytes:
    """Return a fleet as the bytes of a file."""
    if fleet.planner is not plan or fleet.budget.tolerance is not None:
        what = "planner" if fleet.planner is not plan else "tolerance"
        raise InvalidModelError(f"a fleet with a {what} of your own cannot be saved: it is code")
    arrays, metadata = setting_out(fleet.setting)
    prior_arrays, prior_metadata = prior_out(fleet.prior)
    arrays |= prior_arrays | posterior_out(fleet.posterior)
    clock, pseudo, begun = fleet.episode_clock
    arrays |= {"clock": clock, "pseudo": pseudo, "pseudo_start": begun, "expected": fleet.expected_counts}
    numbers = {id(posterior): i for i, posterior in enumerate(fleet.posterior.units)}
    stored = _Stored(arrays)
    units = [stored.unit(unit, numbers) for unit in fleet.all_units("units")]
    ended = [stored.unit(unit, numbers) for unit in fleet.all_units("ended")]
    stored.write_units()
    following = None
    if fleet.following is not None:
        sample, tolerance = fleet.following
        arrays["following.kernel"] = sample.kernel
        if sample.setting is not None:
            arrays |= {f"following.{n}": a for n, a in sampled_setting_out(sample.setting).items()}
        following = _Following(sample.kernel_index, tolerance, sample.setting is not None)
    current = stored.episode(fleet.current_episode) if fleet.current_episode.number else None
    metadata |= {
        "version": VERSION,
        "kind": "fleet",
        **prior_metadata,
        "schedule": fleet.schedule.name,
        "own_schedule": type(fleet.schedule) is Schedule,
        "budget": fleet.budget.to_dict(),
        "samples": fleet.samples,
        "wait": fleet.wait,
        "refresh_due": fleet.posterior.refresh_due,
        "streams": [stream_out(rng) for rng in (fleet.rng, fleet.posterior_rng)],
        "late_steps": fleet.late_steps,
        "n_observations": fleet.n_observations,
        "members": units,
        "ended": ended,
        "following": following,
        "current": current,
        "records": [[getattr(e, f.name) for f in fields(EpisodeRecord)] for e in fleet.episodes],
        "by_kernel": {str(index): stored.plan(found) for index, found in fleet.plans.items()},
        "last_plan": None if fleet.last_plan is None else stored.plan(fleet.last_plan),
        "episodes": stored.episodes,
        "n_plans": len(stored.plans),
        "false_alarm_rate": fleet.false_alarm_rate,
        "alarms": list(fleet.alarms),
    }
    arrays["words"] = np.frombuffer(msgspec.json.encode(metadata), np.uint8)
    return pack(arrays)


class _Stored:
    """The episodes and plans that are in the file already, each of them once."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        self.arrays = arrays
        self.episodes: list[_Episode] = []
        self.plans: list[Solution] = []
        self._kernels: list[Array] = []
        self._beliefs: list[Array] = []
        self._nodes: list[int] = []
        self._upcoming: list[Array] = []

    def write_units(self) -> None:
        """Write the arrays of all units: one array for all of them is quicker than one for each."""
        if self._beliefs:
            self.arrays["units.belief"] = np.array(self._beliefs)
            self.arrays["units.node"] = np.array(self._nodes)
        if self._upcoming:
            self.arrays["units.upcoming"] = np.array(self._upcoming)

    def plan(self, found: Solution) -> int:
        for i, other in enumerate(self.plans):
            if other is found:
                return i
        assert isinstance(found, Plan)  # the planner is that of the package
        timeless = replace(found, rounds=tuple(replace(r, seconds=0.0) for r in found.rounds))
        self.arrays[f"plan.{len(self.plans)}"] = np.frombuffer(timeless.to_bytes(), np.uint8)
        self.plans.append(found)
        return len(self.plans) - 1

    def episode(self, now: CurrentEpisode) -> int:
        for i, kernel in enumerate(self._kernels):
            if kernel is now.kernel:
                return i
        number = len(self.episodes)
        self._kernels.append(now.kernel)
        self.arrays[f"episode.{number}.kernel"] = now.kernel
        if now.setting is not None:
            for name, array in sampled_setting_out(now.setting).items():
                self.arrays[f"episode.{number}.{name}"] = array
        metadata = EpisodeMetadata(**{n: getattr(now, n) for n in EpisodeMetadata.__struct_fields__})
        self.episodes.append(_Episode(metadata, self.plan(now.plan), now.setting is not None))
        return number

    def unit(self, unit: FleetUnit, numbers: dict[int, int]) -> _Unit:
        episode = None
        if unit.episode is not None:
            episode = self.episode(unit.episode)
            self._beliefs.append(unit.episode.belief)
            self._nodes.append(unit.episode.policy.node[0])
        if unit.upcoming is not None:
            self._upcoming.append(unit.upcoming.belief[:, 0])
        posterior = numbers[id(unit.posterior)]
        return _Unit(
            unit.name, posterior, unit.action, unit.present, episode, unit.upcoming is not None, unit.chosen,
            unit.late, unit.observed,
        )  # fmt: skip


def from_bytes(
    kind: type[Fleet],
    data: bytes,
    name: str,
    prior: Prior | None = None,
    schedule: Schedule | None = None,
    wait: bool | None = None,
) -> Fleet:
    """Return a fleet that continues as the saved one would have; `name` is for error messages.

    `wait` replaces that of the file, if it is given.

    Raises `ParseError` or another `InvalidModelError` if the bytes are not a saved fleet.
    """
    limit = SizeLimit.for_file(data)
    contents, metadata = opened(data, name, FleetMetadata, "a saved fleet", limit)
    with as_saved_agent(name):
        if metadata.own_schedule and schedule is None:
            raise InvalidModelError("this fleet was saved with a schedule of your own: pass it again")
        if wait is not None:
            if wait and (metadata.following is not None or metadata.refresh_due):
                raise InvalidModelError("this fleet has work that is due: it cannot begin to wait for it")
            metadata.wait = wait
        fleet = _new_fleet(kind, contents, metadata, prior, schedule)
        plans = [
            plan_from_bytes(contents.packed(f"plan.{i}"), f"{name}: plan {i}", limit)
            for i in range(whole_number(contents, "n_plans", metadata.n_plans, len(list(contents))))
        ]
        for i, found in enumerate(plans):
            if not has_sizes(found, fleet.setting):
                raise contents.refuse(f"plan {i} is for another setting")
        _set_clock(fleet, contents, metadata)
        _set_units(fleet, contents, metadata, plans)
        fleet.plans = dict(plans_by_kernel(fleet, contents, metadata.by_kernel, plans))
        if metadata.last_plan is not None:
            fleet.last_plan = plans[place_in(contents, "last_plan", metadata.last_plan, plans)]
        used = {each.plan for each in metadata.episodes} | set(metadata.by_kernel.values())
        if used != set(range(len(plans))):
            raise contents.refuse("it has a plan that was made for no model in the file")
        return fleet


def _new_fleet(
    kind: type[Fleet],
    contents: Contents,
    metadata: FleetMetadata,
    own: Prior | None,
    schedule: Schedule | None,
) -> Fleet:
    """Return a fleet with the saved one's prior, posterior and random streams, without units."""
    setting = setting_in(contents, metadata, None if own is None else own.setting)
    prior = prior_in(contents, metadata.prior, metadata.prior_fingerprint, setting, own)
    rng, posterior_rng = (stream_in(stream) for stream in metadata.streams)
    posterior: Any = prior.restore(posterior_in(contents), posterior_rng)
    fleet = kind(
        prior,
        schedule or schedule_named(metadata.schedule),
        budget=budget_in(contents, metadata.budget, None),
        samples=metadata.samples,
        wait=metadata.wait,
        false_alarm_rate=metadata.false_alarm_rate,
    )
    fleet.alarms = tuple(metadata.alarms)
    posterior.wait_for_refreshes(metadata.wait)
    posterior.set_refresh_due(metadata.refresh_due)
    fleet.rng, fleet.posterior_rng, fleet.posterior = rng, posterior_rng, posterior
    fleet.late_steps = whole_number(contents, "late_steps", metadata.late_steps, LARGEST_TIME + 1)
    return fleet


def _set_clock(fleet: Fleet, contents: Contents, metadata: FleetMetadata) -> None:
    """Set the clock, the pseudo-counts and the records of episodes."""
    clock = contents.whole("clock", (4,), 0, 1 << 62)
    total = sum(posterior.time for posterior in fleet.posterior.units)
    if metadata.n_observations != total:
        raise contents.refuse(f"n_observations is {metadata.n_observations}, and the histories have {total}")
    if clock[steps.T] > total or clock[steps.COUNT_RULE] != fleet.episode_clock.clock[steps.COUNT_RULE]:
        raise contents.refuse("clock is not one of this schedule and these histories")
    if not 0 <= clock[steps.END_REASON] <= steps.RULED_OUT:
        raise contents.refuse("clock has an unknown reason for the end of the episode")
    shape = fleet.episode_clock.pseudo.shape
    fleet.episode_clock.clock[...] = clock
    fleet.episode_clock.pseudo[...] = contents.whole("pseudo", shape, 0, max(total, int(clock[steps.T])))
    fleet.episode_clock.pseudo_start[...] = contents.whole("pseudo_start", shape, 0, max(total, 1))
    fleet.expected_counts[...] = contents.floats("expected", shape, 0.0, total + 1.0)
    fleet.n_observations = total
    try:
        rows = msgspec.convert(metadata.records, list[record_row()])  # type: ignore[misc]
    except msgspec.ValidationError as error:
        raise contents.refuse(f"records: {error}") from None
    fleet.episodes = [record_in(row) for row in rows]


def _set_units(fleet: Fleet, contents: Contents, metadata: FleetMetadata, plans: list[Plan]) -> None:
    """Set the episodes, the units and the model that is being planned for."""
    episodes = [_episode_in(fleet, contents, i, each, plans) for i, each in enumerate(metadata.episodes)]
    if metadata.following is not None:
        kernel = contents.distributions(
            "following.kernel", fleet.current_episode.sampled_filter.transition.shape[:3]
        )
        setting = _sampled_in(fleet, contents, "following.") if metadata.following.has_setting else None
        sample = ModelSample(kernel, np.zeros(0), metadata.following.index, setting)
        check_model(fleet, contents, kernel, setting, sample.kernel_index)
        fleet.following = PlannedNext(sample, tolerance_in(contents, metadata.following.tolerance))
    if metadata.current is not None:
        fleet.current_episode = episodes[place_in(contents, "current", metadata.current, episodes)]
    everyone = metadata.members + metadata.ended
    beliefs = _beliefs_in(fleet, contents, "units.belief", sum(u.episode is not None for u in everyone))
    upcoming = _beliefs_in(fleet, contents, "units.upcoming", sum(unit.has_upcoming for unit in everyone))
    nodes = contents.whole("units.node", (len(beliefs),), -1, 1 << 31).tolist() if len(beliefs) else []
    begun, later = zip(beliefs, nodes, strict=True), iter(upcoming)
    given = [_unit_in(fleet, contents, unit, episodes, begun, later) for unit in everyone]
    numbers = sorted(unit.posterior for unit in metadata.members + metadata.ended)
    if numbers != list(range(1, len(fleet.posterior.units))):
        raise contents.refuse("the units do not belong to the histories of the posterior")
    n_units = len(metadata.members)
    names = [unit.name for unit in given[:n_units]]
    if len(set(names)) != len(names):
        raise contents.refuse("two units have the same name")
    check_current(fleet, contents, metadata.own_schedule)
    for i, unit in enumerate(given):
        check_unit(fleet, contents, unit, in_fleet=i < n_units)
    fleet.set_units(given[:n_units], given[n_units:])


def _episode_in(
    fleet: Fleet, contents: Contents, i: int, given: _Episode, plans: list[Plan]
) -> CurrentEpisode:
    """Return an episode without a belief."""
    n_actions, n_states = fleet.setting.n_actions, fleet.setting.n_states
    kernel = contents.distributions(f"episode.{i}.kernel", (n_actions, n_states, n_states))
    sampled = _sampled_in(fleet, contents, f"episode.{i}.") if given.has_setting else None
    index = given.metadata.index
    check_episode(fleet, contents, given.metadata)
    check_model(fleet, contents, kernel, sampled, index)
    setting, found = sampled or fleet.setting, plans[place_in(contents, "plan", given.plan, plans)]
    check_fit(contents, found, model_of(fleet, kernel, sampled, index))
    nothing = np.zeros(n_states)
    return CurrentEpisode(
        sampled_filter=new_sampled_filter(kernel, nothing, fleet.step_codes, setting),
        policy=policy_of(found, setting.initial, setting, fleet.step_codes),
        kernel=kernel,
        setting=sampled,
        plan=found,
        **msgspec.structs.asdict(given.metadata),
    )


def _unit_in(
    fleet: Fleet,
    contents: Contents,
    given: _Unit,
    episodes: list[CurrentEpisode],
    begun: Iterator[tuple[Array, int]],
    upcoming: Iterator[Array],
) -> FleetUnit:
    """Return a unit with its episode, its belief and its node, which are the next ones of `begun`."""
    posteriors = fleet.posterior.units
    unit = FleetUnit(given.name, posteriors[place_in(contents, "unit", given.posterior, posteriors)])
    if given.action is not None:
        unit.action = whole_number(contents, "action", given.action, fleet.setting.n_actions)
    if given.chosen is not None:
        unit.chosen = whole_number(contents, "chosen", given.chosen, fleet.setting.n_actions)
    unit.present, unit.late, unit.observed = given.present, given.late, given.observed
    if given.episode is not None:
        episode = episodes[place_in(contents, "episode", given.episode, episodes)]
        belief, node = next(begun)
        unit.episode = episode.with_belief(belief)
        nodes = len(episode.policy.actions) if episode.has_nodes else 0
        if not (0 if nodes else -1) <= node <= nodes - 1:
            raise contents.refuse(f"units.node contains {node}, and the plan has {nodes} nodes")
        unit.episode.policy.node[:] = node
    if given.has_upcoming:
        if fleet.following is None:
            raise contents.refuse("a unit has a belief for a model that is not there")
        sample = fleet.following.sample
        setting = sample.setting or fleet.setting
        unit.upcoming = new_sampled_filter(sample.kernel, next(upcoming), fleet.step_codes, setting)
    return unit


def _beliefs_in(fleet: Fleet, contents: Contents, name: str, count: int) -> Array:
    """Return `count` beliefs; one is zero after an observation that is impossible under the kernel."""
    if not count:
        return np.zeros((0, fleet.setting.n_states))
    beliefs = contents.floats(name, (count, fleet.setting.n_states), 0.0, 1.0 + _NEAR)
    sums = beliefs.sum(axis=1)
    if ((np.abs(sums - 1.0) > _NEAR) & beliefs.any(axis=1)).any():
        raise contents.refuse(f"{name} has a row that does not sum to 1")
    return beliefs


def _sampled_in(fleet: Fleet, contents: Contents, start: str) -> Setting:
    """Return the setting with a sampled observation model and sampled costs."""
    own = {n.removeprefix(start): contents.raw(n) for n in contents if n.startswith(start)}
    return sampled_setting_in(Contents(own, contents.path), fleet.setting)
