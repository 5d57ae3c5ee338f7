"""Agents that estimate and plan, as the bytes of a file and back.

The content of a file is compared with an agent that has the same options: arrays must have its shapes,
numbers must be in its ranges, and models and plans must have the sizes of the setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ..._serialization.archives import SizeLimit, pack
from ..._serialization.contents import LARGEST_TIME, VERSION, Contents, opened
from ..._serialization.random_streams import StreamState, stream_in, stream_out
from ...errors import InvalidModelError, ParseError
from ...io.array_files import read_json, write_json
from ...models import POMDP
from ...planning.plan_files import has_file, plan_from_bytes
from ..serialization_checks import budget_in, has_sizes

if TYPE_CHECKING:
    from .base import EstimateAndPlanAgent

Kind = TypeVar("Kind", bound="EstimateAndPlanAgent")

_LATEST = 1 << 62  # the end of a phase that only counts can end
_LARGEST = 1e60  # the largest weighted count, so that products of counts are finite

# The names in files of attributes that have been renamed since version 0.1.
_NAMES_IN_FILES = {
    "phase_end": "until",
    "min_action_probability": "softness",
    "observation": "reading",
    "first_observation": "first_reading",
}


class _Metadata(msgspec.Struct):
    """Everything about an agent that is not an array."""

    version: int
    options: dict[str, Any]
    budget: dict[str, Any] = msgspec.field(name="effort")
    numbers: dict[str, Any]
    stream: StreamState
    more: dict[str, Any]


def agent_to_bytes(agent: EstimateAndPlanAgent) -> bytes:
    """Return everything that determines an agent's next actions."""
    if agent.budget.tolerance is not None:
        raise InvalidModelError("a budget with a tolerance of your own is code, which no file contains")
    setting, following = agent.setting, agent.model_policy
    identity = np.broadcast_to(np.eye(setting.n_states), (setting.n_actions,) + (setting.n_states,) * 2)
    metadata = {
        "version": VERSION,
        "options": {name: getattr(agent, name) for name in agent.option_names()},
        "effort": agent.budget.to_dict(),
        "numbers": {_NAMES_IN_FILES.get(name, name): getattr(agent, name) for name in agent.numbers},
        "stream": stream_out(agent.rng),
        "more": agent.own_metadata(),
    }
    arrays: dict[str, npt.NDArray[Any] | None] = {
        "words": _text(msgspec.json.encode(metadata)),
        "setting": _text(write_json(POMDP(setting, identity))),
        "plan": _text(agent.last_plan.to_bytes()) if has_file(agent.last_plan) else None,
        "model": None if following is None else _text(write_json(following.model)),
        "belief": None if following is None else following.filter.belief,
        "node": None if following is None or following.policy is None else following.policy.node,
    }
    return pack(arrays | {f"own.{name}": array for name, array in agent.own_arrays().items()})


def agent_from_bytes(kind: type[Kind], data: bytes) -> Kind:
    """Return an agent that continues exactly as the saved one would have."""
    size_limit = SizeLimit.for_file(data)
    contents, metadata = opened(data, "learner", _Metadata, "a saved agent of this kind", size_limit)
    setting = _model(contents, "setting").setting
    make: Any = kind
    agent: Kind = make(setting, budget=budget_in(contents, metadata.budget, None), **metadata.options)
    agent.rng = stream_in(metadata.stream)
    _set_numbers(agent, contents, metadata.numbers)
    _set_arrays(agent, contents)
    agent.set_metadata(metadata.more)
    if "plan" in contents:
        found = plan_from_bytes(contents.packed("plan"), "plan", size_limit)
        if not has_sizes(found, setting) or len(found.states) != setting.n_states:
            raise contents.refuse("its plan is for another setting")
        agent.last_plan = found
    if "model" in contents:
        model = _model(contents, "model")
        sizes = (model.n_actions, model.n_states, model.n_observations)
        if sizes != (setting.n_actions, setting.n_states, setting.n_observations):
            raise contents.refuse("its model is for another setting")
        belief = contents.floats("belief", (setting.n_states, 1), 0.0, 1.0 + 1e-6)[:, 0]
        if abs(belief.sum() - 1.0) > 1e-6:
            raise contents.refuse("belief does not sum to 1")
        agent.set_model(model, belief)
        policy = None if agent.model_policy is None else agent.model_policy.policy
        if policy is not None:
            follows = policy.node[0] >= 0
            least, most = (0, len(policy.actions) - 1) if follows else (-1, -1)
            policy.node[:] = contents.whole("node", (1,), least, most)
    return agent


def _set_numbers(agent: EstimateAndPlanAgent, contents: Contents, numbers: dict[str, Any]) -> None:
    """Set the numbers of an agent, after a check of type and range."""
    n_actions, missing = agent.n_actions, agent.missing
    time = numbers.get("time")
    if type(time) is not int or not 0 <= time <= LARGEST_TIME:
        raise contents.refuse(f"time is {time!r}")
    started = time > 0
    ranges: dict[str, tuple[float, float]] = {
        "time": (0, LARGEST_TIME),
        "episode": (0, time),
        "phase_end": (0, _LATEST),
        "counted_from": (0, _LATEST),
        "action": (0 if started else -1, n_actions - 1 if started else -1),
        "observation": (0, missing),
        "before": (0, missing),
        "first_observation": (0, missing - 1),
        "probability": (1e-12, 1.0),
        "min_action_probability": (0.0, 1.0 / n_actions),
    }
    for name in agent.numbers:
        in_file = _NAMES_IN_FILES.get(name, name)
        value, was = numbers.get(in_file), getattr(agent, name)
        if isinstance(was, bool):
            fits = isinstance(value, bool)
        elif value is None:
            fits = was is None
        else:
            low, high = ranges[name]
            kinds = int | float if isinstance(was, float) else int
            fits = isinstance(value, kinds) and not isinstance(value, bool) and low <= value <= high
        if not fits:
            raise contents.refuse(f"{in_file} is {value!r}, out of range")
        setattr(agent, name, value)


def _set_arrays(agent: EstimateAndPlanAgent, contents: Contents) -> None:
    """Set the arrays of an agent; their shapes must be equal, and the rows of a policy must sum to one."""
    for name, array in agent.own_arrays().items():
        given = f"own.{name}"
        if name == "policy":
            array[...] = contents.distributions(given, array.shape)
        elif array.dtype.kind == "i":
            array[...] = contents.whole(given, array.shape, 0, 2 * LARGEST_TIME)
        else:
            array[...] = contents.floats(given, array.shape, 0.0, _LARGEST)


def _text(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def _model(contents: Contents, name: str) -> POMDP:
    """Return a model in JSON; no array can be larger than the text, which lists every number."""
    text = contents.text(name)
    try:
        return read_json(text, max_entries=len(text))  # without a path, which would name the model
    except ParseError as error:
        raise contents.refuse(f"{name}: {error.reason}") from None
