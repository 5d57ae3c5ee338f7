"""Agents in files: everything that decides what an agent does next, without pickles.

A file is an archive of arrays (`.npz`) with words among them, in JSON. It holds the setting, the prior, the
posterior's state, both random streams, the present episode with its policy, the plans that later ones may
start from, and the records of all episodes. So a loaded agent goes on to the last bit as the saved one would.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from .errors import InvalidModelError, ParseError
from .files.archives import as_saved_agent, pack, unpack
from .files.streams import stream_in, stream_out
from .model import Setting, Units
from .planning import Plan, plan
from .posterior import DirichletPrior, FinitePrior
from .schedule import Schedule, schedule_named

if TYPE_CHECKING:
    from .agent import PSRLAgent
    from .checks import Planner
    from .effort import Tolerance

VERSION = 1
_LARGEST = 4 << 30  # bytes of one array
_PRESENT = ("number", "start", "previous_length", "index", "tolerance", "work")


def to_bytes(agent: PSRLAgent) -> bytes:
    """The agent as the bytes of a file."""
    arrays, words = setting_out(agent.setting)
    words |= {"version": VERSION, "prior": type(agent.prior).__name__, "schedule": agent.schedule.name}
    words["effort"] = agent.effort.words()
    words["options"] = agent.options
    words["own_tolerance"] = agent.effort.tolerance is not None
    words["own_planner"] = agent.planner is not plan
    words["own_schedule"] = type(agent.schedule) is Schedule
    words["streams"] = [stream_out(rng) for rng in (agent.rng, agent.posterior_rng)]
    words["action"], words["taken_in"] = agent.action, agent._taken_in
    words["present"] = {name: getattr(agent._present, name) for name in _PRESENT}
    words["episodes"] = [[getattr(e, f.name) for f in fields(e)] for e in agent.episodes]
    arrays |= prior_out(agent.prior)
    for name, value in agent.posterior.state().items():
        arrays[f"posterior.{name}"] = np.asarray(value)
    arrays |= {"clock": agent._episode.clock, "pseudo": agent._episode.pseudo}
    arrays |= {"pseudo_start": agent._episode.pseudo_start, "node": agent._policy.node}
    arrays |= {
        "kernel": agent._present.kernel,
        "used_kernel": agent._used.transition,
        "used": agent._used.belief,
    }
    words["plans"] = _plans_out(agent, arrays)
    words["n_plans"] = sum(name.startswith("plan.") for name in arrays)
    arrays["words"] = np.frombuffer(msgspec.json.encode(words), np.uint8)
    return pack(arrays)


def from_bytes(
    kind: type[PSRLAgent],
    data: bytes,
    name: str,
    schedule: Schedule | None,
    planner: Planner,
    tolerance: Tolerance | None,
) -> PSRLAgent:
    """An agent that goes on as the saved one would have; `name` is for errors."""
    arrays = unpack(data, name, _LARGEST)
    with as_saved_agent(name):
        words: dict[str, Any] = msgspec.json.decode(arrays["words"].tobytes())
        if words["version"] != VERSION:
            raise ParseError(f"an agent of version {words['version']}, not {VERSION}", path=name)
        return _rebuilt(kind, arrays, words, schedule, planner, tolerance)


def _rebuilt(
    kind: type[PSRLAgent],
    arrays: dict[str, npt.NDArray[Any]],
    words: dict[str, Any],
    schedule: Schedule | None,
    planner: Planner,
    tolerance: Tolerance | None,
) -> PSRLAgent:
    from .effort import Effort
    from .records import EpisodeRecord

    if words["own_tolerance"] and tolerance is None:
        raise InvalidModelError("this agent was saved with a tolerance of your own: pass it again")
    if words["own_schedule"] and schedule is None:
        raise InvalidModelError("this agent was saved with a schedule of your own: pass it again")
    if words["own_planner"] and planner is plan:
        raise InvalidModelError("this agent was saved with a planner of your own: pass it again")
    prior = prior_in(arrays, words, setting_in(arrays, words))
    schedule = schedule or schedule_named(words["schedule"])
    effort = Effort(tolerance, **words["effort"])
    agent = kind(prior, schedule, effort=effort, planner=planner, **words["options"])
    agent.rng, agent.posterior_rng = (stream_in(state) for state in words["streams"])
    state = {key.removeprefix("posterior."): v for key, v in arrays.items() if key.startswith("posterior.")}
    agent.posterior = prior.restore(state, agent.posterior_rng)
    agent.action, agent._taken_in = words["action"], words["taken_in"]
    agent.episodes = [EpisodeRecord(*row) for row in words["episodes"]]
    for own, given in (
        (agent._episode.clock, "clock"),
        (agent._episode.pseudo, "pseudo"),
        (agent._episode.pseudo_start, "pseudo_start"),
        (agent._used.transition, "used_kernel"),
        (agent._used.belief, "used"),
    ):
        own[...] = arrays[given]
    plans = [Plan.from_bytes(arrays[f"plan.{i}"].tobytes(), f"plan {i}") for i in range(words["n_plans"])]
    listed = words["plans"]
    agent.plans = {int(index): plans[i] for index, i in listed["kept"].items()}
    agent.last_plan = None if listed["last"] is None else plans[listed["last"]]
    agent._present = replace(agent._present, kernel=arrays["kernel"], **words["present"])
    if listed["present"] is not None:
        agent._present.plan = plans[listed["present"]]
        belief = agent._used.belief[:, 0]
        agent._policy = agent._present.policy(belief, prior.setting, agent._likelihood)
        agent._policy.node[:] = arrays["node"]
    elif agent._present.number:
        agent.replan()
    return agent


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
    return {"kept": kept, "last": number(agent.last_plan), "present": number(agent._present.plan)}


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


def setting_in(arrays: dict[str, npt.NDArray[Any]], words: dict[str, Any]) -> Setting:
    setting = Setting(
        arrays["observation"],
        arrays["cost"],
        arrays["initial"],
        arrays.get("first_observation"),
        units=Units(*words["units"]),
        states=words["states"],
        actions=words["actions"],
        observations=words["observations"],
    )
    if setting.fingerprint != words["fingerprint"]:
        raise InvalidModelError("the setting of the saved agent was changed")
    return setting


def prior_out(prior: FinitePrior | DirichletPrior) -> dict[str, npt.NDArray[Any]]:
    if isinstance(prior, FinitePrior):
        return {"kernels": prior.kernels, "weights": prior.weights, "initials": prior.initial}
    return {"concentration": prior.concentration, "known": prior.known, "row": prior.row}


def prior_in(
    arrays: dict[str, npt.NDArray[Any]], words: dict[str, Any], setting: Setting
) -> FinitePrior | DirichletPrior:
    if words["prior"] == FinitePrior.__name__:
        return FinitePrior(setting, arrays["kernels"], arrays["weights"], arrays["initials"])
    row, known = arrays["row"], np.argwhere(arrays["known"])
    ties = [np.argwhere(row == number).tolist() for number in np.unique(row)]
    return DirichletPrior(
        setting,
        arrays["concentration"],
        known={(int(a), int(s)): arrays["concentration"][a, s] for a, s in known},
        ties=[[(a, s) for a, s in group] for group in ties if len(group) > 1],
    )
