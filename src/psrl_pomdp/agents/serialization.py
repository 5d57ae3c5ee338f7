"""Agents in files: everything that decides what an agent does next, without pickles.

A file is an archive of arrays (`.npz`) with words among them, in JSON. It holds the setting, the prior, the
posterior's state, both random streams, the present episode with its policy, the plans that later ones may
start from, and the records of all episodes. So a loaded agent goes on to the last bit as the saved one would.

Nothing in a file is believed: `agent_file_checks` holds everything against the prior and against everything
else before an agent is made of it.
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
from ..inference.dirichlet_prior import ties_of as ties_of
from ..inference.prior_files import is_code, posterior_in, posterior_out, prior_in, prior_out
from ..models import Kind, Setting, Units
from ..planning import Plan, plan
from ..planning.plan_files import plan_from_bytes
from . import serialization_checks as checks
from .compiled_policy import new_sampled_filter, policy_of
from .schedules import Schedule, schedule_named

if TYPE_CHECKING:
    from ..protocols import Planner, Prior
    from .planning_budget import Tolerance
    from .psrl import PSRLAgent

Streams = tuple[np.random.Generator, np.random.Generator]  # for samples, and for the posterior
SettingLike = TypeVar("SettingLike", bound="SettingWords")


class SettingWords(msgspec.Struct, kw_only=True):
    """What a setting has beside arrays."""

    units: tuple[float, float, Kind, str]
    states: list[str] | None
    actions: list[str] | None
    observations: list[str] | None
    fingerprint: str


class PresentWords(msgspec.Struct):
    """The episode that is going on."""

    number: int
    start: int
    previous_length: int
    index: int | None
    tolerance: float
    work: float


class _PlanNumbers(msgspec.Struct):
    """Which of the plans in the file belongs to whom."""

    kept: dict[str, int]  # of a finite set, by kernel
    last: int | None
    present: int | None


class AgentWords(SettingWords, kw_only=True):
    """Everything about an agent that is not an array."""

    version: int
    prior: str  # the name of its class
    prior_fingerprint: str = ""  # where the prior is code
    schedule: str
    budget: dict[str, Any] = msgspec.field(name="effort")
    options: dict[str, Any]
    own_tolerance: bool
    own_planner: bool
    own_schedule: bool
    streams: tuple[StreamState, StreamState]
    action: int | None
    taken_in: Literal[0, 1]
    present: PresentWords
    episodes: list[Any]
    plans: _PlanNumbers
    n_plans: int


@dataclass(frozen=True)
class OwnCode:
    """Code of the user's that an agent runs with, and that no file holds."""

    prior: Prior | None = None
    schedule: Schedule | None = None
    planner: Planner = plan
    tolerance: Tolerance | None = None

    @classmethod
    def of(cls, agent: PSRLAgent) -> OwnCode:
        """What there is of it in an agent."""
        return cls(
            agent.prior if is_code(agent.prior) else None,
            agent.schedule if type(agent.schedule) is Schedule else None,
            agent.planner,
            agent.budget.tolerance,
        )


def to_bytes(agent: PSRLAgent) -> bytes:
    """The agent as the bytes of a file."""
    arrays, words = setting_out(agent.setting)
    prior_arrays, prior_words = prior_out(agent.prior)
    words |= {"version": VERSION, **prior_words, "schedule": agent.schedule.name}
    words["effort"] = agent.budget.to_dict()
    words["options"] = agent.options
    words["own_tolerance"] = agent.budget.tolerance is not None
    words["own_planner"] = agent.planner is not plan
    words["own_schedule"] = type(agent.schedule) is Schedule
    words["streams"] = [stream_out(rng) for rng in (agent.rng, agent.posterior_rng)]
    words["action"], words["taken_in"] = agent.action, agent.observation_processed
    words["present"] = {name: getattr(agent.current_episode, name) for name in PresentWords.__struct_fields__}
    words["episodes"] = [[getattr(e, f.name) for f in fields(e)] for e in agent.episodes]
    arrays |= prior_arrays | posterior_out(agent.posterior)
    arrays |= {"clock": agent.episode_clock.clock, "pseudo": agent.episode_clock.pseudo}
    arrays |= {"pseudo_start": agent.episode_clock.pseudo_start, "node": agent.current_episode.policy.node}
    arrays |= {
        "kernel": agent.current_episode.kernel,
        "used_kernel": agent.sampled_filter.transition,
        "used": agent.sampled_filter.belief,
    }
    words["plans"] = _plans_out(agent, arrays)
    words["n_plans"] = sum(name.startswith("plan.") for name in arrays)
    arrays["words"] = np.frombuffer(msgspec.json.encode(words), np.uint8)
    return pack(arrays)


def from_bytes(
    kind: type[PSRLAgent],
    data: bytes,
    name: str,
    own: OwnCode,
    streams: Streams | None = None,
) -> PSRLAgent:
    """An agent that goes on as the saved one would have; `name` is for errors.

    `own` is the code that the file does not hold. `streams` take the place of the saved random streams.

    Raises `ParseError` or another `InvalidModelError` where the bytes hold no such agent.
    """
    room = SizeLimit.for_file(data)
    contents, words = opened(data, name, AgentWords, "a saved agent", room)
    with as_saved_agent(name):
        if words.own_tolerance and own.tolerance is None:
            raise InvalidModelError("this agent was saved with a tolerance of your own: pass it again")
        if words.own_schedule and own.schedule is None:
            raise InvalidModelError("this agent was saved with a schedule of your own: pass it again")
        if words.own_planner and own.planner is plan:
            raise InvalidModelError("this agent was saved with a planner of your own: pass it again")
        saved_streams = stream_in(words.streams[0]), stream_in(words.streams[1])
        agent = _begun(kind, contents, words, own, streams or saved_streams)
        checks.check_clock(agent, contents, words, own_schedule=own.schedule is not None)
        _take_episodes(agent, contents, words)
        _take_plans(agent, contents, words, room)
        return agent


def _begun(
    kind: type[PSRLAgent],
    contents: Contents,
    words: AgentWords,
    own: OwnCode,
    streams: Streams,
) -> PSRLAgent:
    """An agent with the saved one's prior and posterior, and with these random streams."""
    prior = prior_in(contents, words.prior, words.prior_fingerprint, setting_in(contents, words), own.prior)
    rng, posterior_rng = streams
    posterior = prior.restore(posterior_in(contents), posterior_rng)
    budget = checks.budget_in(contents, words.budget, own.tolerance)
    chosen = own.schedule or schedule_named(words.schedule)
    agent = kind(prior, chosen, budget=budget, planner=own.planner, **words.options)
    agent.rng, agent.posterior_rng, agent.posterior = rng, posterior_rng, posterior
    return agent


def _take_episodes(agent: PSRLAgent, contents: Contents, words: AgentWords) -> None:
    """The episodes that have ended, and the present one without its plan."""
    agent.action, agent.observation_processed = words.action, words.taken_in
    agent.episodes = checks.episodes_in(agent, contents, words)
    for own, given in checks.episode_arrays(agent, contents, words).items():
        getattr(agent.episode_clock, own)[...] = given
    if words.present.number:
        kernel, belief = checks.kernel_and_belief(agent, contents, words)
        agent.current_episode = replace(
            agent.current_episode,
            kernel=kernel,
            sampled_filter=new_sampled_filter(kernel, belief),
            **msgspec.structs.asdict(words.present),
        )


def _take_plans(agent: PSRLAgent, contents: Contents, words: AgentWords, room: SizeLimit) -> None:
    """The plans, and the policy of the present one; a planner of somebody else's is asked again."""
    if not 0 <= words.n_plans <= sum(name.startswith("plan.") for name in contents):
        raise contents.refuse(f"n_plans is {words.n_plans}, and there are not as many")
    plans = [
        plan_from_bytes(contents.packed(f"plan.{i}"), f"{contents.path}: plan {i}", room)
        for i in range(words.n_plans)
    ]
    listed = words.plans
    checks.check_plans(agent, contents, words, plans)
    agent.plans = {int(index): plans[i] for index, i in listed.kept.items()}
    agent.last_plan = None if listed.last is None else plans[listed.last]
    if listed.present is not None:
        found, now = plans[listed.present], agent.current_episode
        policy = policy_of(found, now.belief, agent.setting, agent.likelihood)
        policy.node[:] = checks.node_in(contents, found)
        agent.current_episode = replace(now, plan=found, policy=policy)
    elif agent.current_episode.number:
        agent.replan()


# -- parts ------------------------------------------------------------------------------------------


def _plans_out(agent: PSRLAgent, arrays: dict[str, Any]) -> dict[str, Any]:
    """Each plan once, and who has which; somebody else's plans are made again."""
    found: list[Plan] = []

    def number(plan: object) -> int | None:
        if not isinstance(plan, Plan):
            return None
        for i, other in enumerate(found):
            if other is plan:
                return i
        # The same agent has the same bytes, however long its plans took.
        timeless = replace(plan, rounds=tuple(replace(r, seconds=0.0) for r in plan.rounds))
        arrays[f"plan.{len(found)}"] = np.frombuffer(timeless.to_bytes(), np.uint8)
        found.append(plan)
        return len(found) - 1

    kept = {str(index): number(plan) for index, plan in agent.plans.items() if isinstance(plan, Plan)}
    return {"kept": kept, "last": number(agent.last_plan), "present": number(agent.current_episode.plan)}


def setting_out(setting: Setting) -> tuple[dict[str, Any], dict[str, Any]]:
    arrays = {"observation": setting.observation, "cost": setting.cost, "initial": setting.initial}
    if setting.first_observation is not None:
        arrays["first_observation"] = setting.first_observation
    units, names = setting.units, setting.names
    words = {
        "units": [units.low, units.high, units.kind, units.name],
        "states": names.states,
        "actions": names.actions,
        "observations": names.observations,
        "fingerprint": setting.fingerprint,
    }
    return arrays, words


def setting_in(contents: Contents, words: SettingWords) -> Setting:
    observation = contents.floats("observation", (None, None, None))
    n_actions, n_states, n_readings = observation.shape
    first = None
    if "first_observation" in contents:
        first = contents.floats("first_observation", (n_states, n_readings))
    setting = Setting(
        observation,
        contents.floats("cost", (n_actions, n_states)),
        contents.floats("initial", (n_states,)),
        first,
        units=Units(*words.units),
        states=words.states,
        actions=words.actions,
        observations=words.observations,
    )
    if setting.fingerprint != words.fingerprint:
        raise InvalidModelError("the setting of the saved agent was changed")
    return setting
