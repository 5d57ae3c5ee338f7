"""Agents in files: everything that determines what an agent does next, without pickles.

A file is an archive of arrays (`.npz`); one of them contains metadata in JSON. The file contains the setting,
the prior, the posterior's state, both random streams, the current episode with its policy, the plans that
later ones may start from, and the records of all episodes. Therefore a loaded agent continues exactly as the
saved one would have, to the last bit.

A file is not trusted: `serialization_checks` compares everything in it with the prior and with the rest of
the file before an agent is constructed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
import numpy as np

from .._serialization.archives import SizeLimit, as_saved_agent, pack
from .._serialization.contents import VERSION, Contents, opened
from .._serialization.random_streams import StreamState, stream_in, stream_out
from ..errors import InvalidModelError
from ..inference.choosing import learns_tables
from ..inference.dirichlet_prior import learned_setting
from ..inference.dirichlet_prior import ties_of as ties_of
from ..inference.prior_files import is_code, posterior_in, posterior_out, prior_in, prior_out
from ..models import Kind, Setting, Units
from ..planning import Plan, plan
from ..planning.plan_files import has_file, plan_from_bytes
from ..sensors.base import ContinuousSensor
from ..sensors.costs import SeenCosts
from ..sensors.gaussian import GaussianSensor
from ..sensors.records import from_record, to_record
from . import serialization_checks as checks
from .compiled_policy import new_sampled_filter, policy_of
from .schedules import Schedule, schedule_named

if TYPE_CHECKING:
    from ..protocols import Planner, Prior
    from .planning_budget import Tolerance
    from .psrl import PSRLAgent

Streams = tuple[np.random.Generator, np.random.Generator]  # for samples, and for the posterior
SettingLike = TypeVar("SettingLike", bound="SettingMetadata")


class SettingMetadata(msgspec.Struct, kw_only=True):
    """The part of a setting that is not an array."""

    units: tuple[float, float, Kind, str]
    states: list[str] | None
    actions: list[str] | None
    observations: list[str] | None
    fingerprint: str
    sensor: dict[str, Any] | None = None  # observations without numbers
    first_sensor: dict[str, Any] | None = None
    own_sensor: bool = False  # whether the sensor is code, which no file contains


class EpisodeMetadata(msgspec.Struct):
    """The current episode."""

    number: int
    start: int
    previous_length: int
    index: int | None
    tolerance: float
    work: float


class _PlanNumbers(msgspec.Struct):
    """The numbers of the plans in the file."""

    by_kernel: dict[str, int] = msgspec.field(name="kept")  # for a finite set, by the number of the kernel
    last: int | None
    present: int | None  # of the current episode


class AgentMetadata(SettingMetadata, kw_only=True):
    """Everything about an agent that is not an array."""

    version: int
    prior: str  # the name of its class
    prior_fingerprint: str = ""  # if the prior is code
    schedule: str
    budget: dict[str, Any] = msgspec.field(name="effort")
    options: dict[str, Any]
    own_tolerance: bool
    own_planner: bool
    own_schedule: bool
    streams: tuple[StreamState, StreamState]
    action: int | None
    observation_processed: Literal[0, 1] = msgspec.field(name="taken_in")
    present: EpisodeMetadata
    episodes: list[Any]
    plans: _PlanNumbers
    n_plans: int


@dataclass(frozen=True)
class OwnCode:
    """Code of the user's that an agent needs, and that no file contains."""

    prior: Prior | None = None
    schedule: Schedule | None = None
    planner: Planner = plan
    tolerance: Tolerance | None = None

    @classmethod
    def of(cls, agent: PSRLAgent) -> OwnCode:
        """Return the code of the user's in an agent."""
        return cls(
            agent.prior if is_code(agent.prior) else None,
            agent.schedule if type(agent.schedule) is Schedule else None,
            agent.planner,
            agent.budget.tolerance,
        )


def to_bytes(agent: PSRLAgent) -> bytes:
    """Return an agent as the bytes of a file."""
    arrays, metadata = setting_out(agent.setting)
    prior_arrays, prior_metadata = prior_out(agent.prior)
    metadata |= {"version": VERSION, **prior_metadata, "schedule": agent.schedule.name}
    metadata["effort"] = agent.budget.to_dict()
    metadata["options"] = agent.options
    metadata["own_tolerance"] = agent.budget.tolerance is not None
    metadata["own_planner"] = agent.planner is not plan
    metadata["own_schedule"] = type(agent.schedule) is Schedule
    metadata["streams"] = [stream_out(rng) for rng in (agent.rng, agent.posterior_rng)]
    metadata["action"], metadata["taken_in"] = agent.action, agent.observation_processed
    metadata["present"] = {
        name: getattr(agent.current_episode, name) for name in EpisodeMetadata.__struct_fields__
    }
    metadata["episodes"] = [[getattr(e, f.name) for f in fields(e)] for e in agent.episodes]
    arrays |= prior_arrays | posterior_out(agent.posterior)
    arrays |= {"clock": agent.episode_clock.clock, "pseudo": agent.episode_clock.pseudo}
    arrays |= {"pseudo_start": agent.episode_clock.pseudo_start, "node": agent.current_episode.policy.node}
    arrays |= {
        "kernel": agent.current_episode.kernel,
        "used_kernel": agent.sampled_filter.transition,
        "used": agent.sampled_filter.belief,
    }
    if agent.current_episode.setting is not None:
        arrays |= sampled_setting_out(agent.current_episode.setting)
    metadata["plans"] = _plans_out(agent, arrays)
    metadata["n_plans"] = sum(name.startswith("plan.") for name in arrays)
    arrays["words"] = np.frombuffer(msgspec.json.encode(metadata), np.uint8)
    return pack(arrays)


def from_bytes(
    kind: type[PSRLAgent],
    data: bytes,
    name: str,
    own: OwnCode,
    streams: Streams | None = None,
) -> PSRLAgent:
    """Return an agent that continues as the saved one would have; `name` is for error messages.

    `own` is the code that the file does not contain. `streams` replace the saved random streams.

    Raises `ParseError` or another `InvalidModelError` if the bytes are not a saved agent of this class.
    """
    size_limit = SizeLimit.for_file(data)
    contents, metadata = opened(data, name, AgentMetadata, "a saved agent", size_limit)
    with as_saved_agent(name):
        if metadata.own_tolerance and own.tolerance is None:
            raise InvalidModelError("this agent was saved with a tolerance of your own: pass it again")
        if metadata.own_schedule and own.schedule is None:
            raise InvalidModelError("this agent was saved with a schedule of your own: pass it again")
        if metadata.own_planner and own.planner is plan:
            raise InvalidModelError("this agent was saved with a planner of your own: pass it again")
        saved_streams = stream_in(metadata.streams[0]), stream_in(metadata.streams[1])
        agent = _new_agent(kind, contents, metadata, own, streams or saved_streams)
        checks.check_clock(agent, contents, metadata, own_schedule=own.schedule is not None)
        _set_episodes(agent, contents, metadata)
        _set_plans(agent, contents, metadata, size_limit)
        return agent


def _new_agent(
    kind: type[PSRLAgent],
    contents: Contents,
    metadata: AgentMetadata,
    own: OwnCode,
    streams: Streams,
) -> PSRLAgent:
    """Return an agent with the saved one's prior and posterior, and with these random streams."""
    setting = setting_in(contents, metadata, None if own.prior is None else own.prior.setting)
    prior = prior_in(contents, metadata.prior, metadata.prior_fingerprint, setting, own.prior)
    rng, posterior_rng = streams
    posterior = prior.restore(posterior_in(contents), posterior_rng)
    budget = checks.budget_in(contents, metadata.budget, own.tolerance)
    chosen = own.schedule or schedule_named(metadata.schedule)
    agent = kind(prior, chosen, budget=budget, planner=own.planner, **metadata.options)
    agent.rng, agent.posterior_rng, agent.posterior = rng, posterior_rng, posterior
    return agent


def _set_episodes(agent: PSRLAgent, contents: Contents, metadata: AgentMetadata) -> None:
    """Set the episodes that have ended, and the current one without its plan."""
    agent.action, agent.observation_processed = metadata.action, metadata.observation_processed
    agent.episodes = checks.episodes_in(agent, contents, metadata)
    for own, given in checks.episode_arrays(agent, contents, metadata).items():
        getattr(agent.episode_clock, own)[...] = given
    if metadata.present.number:
        kernel, belief = checks.kernel_and_belief(agent, contents, metadata)
        has_own = learns_tables(agent.prior) or agent.step_codes.unknown
        setting = sampled_setting_in(contents, agent.setting) if has_own else None
        if setting is not None:
            checks.check_sampled_setting(agent, contents, setting, metadata.present.index)
        agent.current_episode = replace(
            agent.current_episode,
            kernel=kernel,
            sampled_filter=new_sampled_filter(kernel, belief, agent.step_codes, setting),
            setting=setting,
            **msgspec.structs.asdict(metadata.present),
        )


def _set_plans(agent: PSRLAgent, contents: Contents, metadata: AgentMetadata, size_limit: SizeLimit) -> None:
    """Set the plans and the policy of the current episode; a user's own planner plans again."""
    if not 0 <= metadata.n_plans <= sum(name.startswith("plan.") for name in contents):
        raise contents.refuse(f"n_plans is {metadata.n_plans}, but the file has fewer plans")
    plans = [
        plan_from_bytes(contents.packed(f"plan.{i}"), f"{contents.path}: plan {i}", size_limit)
        for i in range(metadata.n_plans)
    ]
    listed = metadata.plans
    checks.check_plans(agent, contents, metadata, plans)
    agent.plans = {int(index): plans[i] for index, i in listed.by_kernel.items()}
    agent.last_plan = None if listed.last is None else plans[listed.last]
    if listed.present is not None:
        found, now = plans[listed.present], agent.current_episode
        policy = policy_of(found, now.belief, now.setting or agent.setting, agent.step_codes)
        policy.node[:] = checks.node_in(contents, found)
        agent.current_episode = replace(now, plan=found, policy=policy)
    elif agent.current_episode.number:
        agent.replan()


# -- parts ------------------------------------------------------------------------------------------


def _plans_out(agent: PSRLAgent, arrays: dict[str, Any]) -> dict[str, Any]:
    """Add each plan to `arrays` once, without those of a user's own planner, and return their numbers."""
    stored: list[Plan] = []

    def number(plan: object) -> int | None:
        if not has_file(plan):
            return None
        for i, other in enumerate(stored):
            if other is plan:
                return i
        # Planning times are left out, so that equal agents have equal bytes.
        timeless = replace(plan, rounds=tuple(replace(r, seconds=0.0) for r in plan.rounds))
        arrays[f"plan.{len(stored)}"] = np.frombuffer(timeless.to_bytes(), np.uint8)
        stored.append(plan)
        return len(stored) - 1

    numbers = {str(index): number(plan) for index, plan in agent.plans.items()}
    by_kernel = {index: i for index, i in numbers.items() if i is not None}
    return {"kept": by_kernel, "last": number(agent.last_plan), "present": number(agent.current_episode.plan)}


def setting_out(setting: Setting) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays and the metadata of a setting."""
    arrays = {"cost": setting.cost, "initial": setting.initial}
    if setting.is_finite:
        arrays["observation"] = setting.observation
        if setting.first_observation is not None:
            arrays["first_observation"] = setting.first_observation
    if setting.seen_cost is not None:
        arrays["seen_values"] = setting.seen_cost.values
        arrays["seen_probabilities"] = setting.seen_cost.probabilities
        if setting.seen_cost.edges is not None:
            arrays["seen_edges"] = setting.seen_cost.edges
    units, names = setting.units, setting.names
    metadata = {
        "units": [units.low, units.high, units.kind, units.name],
        "states": names.states,
        "actions": names.actions,
        "observations": names.observations,
        "fingerprint": setting.fingerprint,
    }
    if not setting.is_finite:
        metadata |= _sensors_out(setting)
    return arrays, metadata


def _sensors_out(setting: Setting) -> dict[str, Any]:
    """Return sensors of observations without numbers as metadata; a sensor that is code is only named."""
    sensors = {"sensor": setting.sensor, "first_sensor": setting.first_sensor}
    try:
        return {
            name: to_record(sensor)
            for name, sensor in sensors.items()
            if isinstance(sensor, ContinuousSensor)
        }
    except InvalidModelError:
        return {"own_sensor": True}


def _sensor_setting_in(contents: Contents, metadata: SettingMetadata) -> Setting:
    """Return a setting whose observations have no numbers."""
    assert metadata.sensor is not None
    first, cost = metadata.first_sensor, contents.floats("cost", (None, None))
    return Setting(
        from_record(metadata.sensor),
        cost,
        contents.floats("initial", (None,)),
        None if first is None else from_record(first, "first_sensor"),
        units=Units(*metadata.units),
        seen_cost=_seen_cost_in(contents, len(cost), cost.shape[1]),
        states=metadata.states,
        actions=metadata.actions,
    )


def setting_in(contents: Contents, metadata: SettingMetadata, own: Setting | None = None) -> Setting:
    """Return the setting in a file; `own` is that of the prior that the caller passes."""
    if metadata.own_sensor:
        if own is None:
            raise InvalidModelError(
                "this agent was saved with a sensor that is code: pass its prior as prior=..."
            )
        if own.fingerprint != metadata.fingerprint:
            raise InvalidModelError("prior= has another setting than the saved agent")
        return own
    if metadata.sensor is not None:
        setting = _sensor_setting_in(contents, metadata)
        if setting.fingerprint != metadata.fingerprint:
            raise InvalidModelError("the setting of the saved agent was changed")
        return setting
    axes = 4 if contents.raw("observation").ndim == 4 else 3
    observation = contents.floats("observation", (None,) * axes)
    n_actions, n_states, n_observations = observation.shape[0], *observation.shape[-2:]
    first = None
    if "first_observation" in contents:
        first = contents.floats("first_observation", (n_states, n_observations))
    setting = Setting(
        observation,
        contents.floats("cost", (n_actions, n_states)),
        contents.floats("initial", (n_states,)),
        first,
        units=Units(*metadata.units),
        seen_cost=_seen_cost_in(contents, n_actions, n_states),
        states=metadata.states,
        actions=metadata.actions,
        observations=metadata.observations,
    )
    if setting.fingerprint != metadata.fingerprint:
        raise InvalidModelError("the setting of the saved agent was changed")
    return setting


def _seen_cost_in(contents: Contents, n_actions: int, n_states: int) -> SeenCosts | None:
    """Return the costs that are seen, if the file has them."""
    if "seen_values" not in contents:
        return None
    values = contents.floats("seen_values", (None,))
    probabilities = contents.floats("seen_probabilities", (n_actions, n_states, len(values)))
    edges = contents.floats("seen_edges", (len(values) - 1,)) if "seen_edges" in contents else None
    return SeenCosts(values, probabilities, edges)


def sampled_setting_out(setting: Setting) -> dict[str, Any]:
    """Return the arrays of the observation model and the costs that the agent sampled."""
    if isinstance(setting.sensor, GaussianSensor):
        return {"used_means": setting.sensor.means, "used_sds": setting.sensor.sds}
    found = {"used_observation": setting.observation, "used_cost": setting.cost}
    if setting.first_observation is not None:
        found["used_first"] = setting.first_observation
    if setting.seen_cost is not None:
        found["used_seen"] = setting.seen_cost.probabilities
    return found


def sampled_setting_in(contents: Contents, setting: Setting) -> Setting:
    """Return the setting with the observation model and the costs that the agent sampled."""
    if isinstance(setting.sensor, GaussianSensor):
        shape = setting.sensor.means.shape
        found = contents.floats("used_means", shape), contents.floats("used_sds", shape)
        return learned_setting(setting, GaussianSensor(*found))
    changes: dict[str, Any] = {
        "observation": contents.floats("used_observation", setting.observation.shape),
        "cost": contents.floats("used_cost", setting.cost.shape, 0.0, 1.0),
    }
    if setting.first_observation is not None:
        changes["first_observation"] = contents.floats("used_first", setting.first_observation.shape)
    if setting.seen_cost is not None:
        seen = setting.seen_cost
        probabilities = contents.floats("used_seen", seen.probabilities.shape)
        changes["seen_cost"] = SeenCosts(seen.values, probabilities, seen.edges)
    return setting.replace(**changes)
