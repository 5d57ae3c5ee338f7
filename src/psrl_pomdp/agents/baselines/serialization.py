"""Learners from moments as the bytes of a file, and back.

What a file says is held against the learner that its options make: arrays have that one's shapes, numbers are
those that it can have, and models and plans have the setting's sizes.
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
from ...planning import Plan
from ...planning.plan_files import plan_from_bytes
from ..serialization_checks import budget_in, has_sizes

if TYPE_CHECKING:
    from .base import Learner

Kind = TypeVar("Kind", bound="Learner")

_LATEST = 1 << 62  # a phase that only counts can end
_LARGEST = 1e60  # of weighted counts: their products are finite


class _Words(msgspec.Struct):
    """Everything about a learner that is not an array."""

    version: int
    options: dict[str, Any]
    budget: dict[str, Any] = msgspec.field(name="effort")
    numbers: dict[str, Any]
    stream: StreamState
    more: dict[str, Any]


def learner_to_bytes(learner: Learner) -> bytes:
    """Everything that decides how a learner goes on."""
    if learner.budget.tolerance is not None:
        raise InvalidModelError("a budget with a tolerance of your own is code, which no file holds")
    setting, player = learner.setting, learner.player
    still = np.broadcast_to(np.eye(setting.n_states), (setting.n_actions,) + (setting.n_states,) * 2)
    words = {
        "version": VERSION,
        "options": {name: getattr(learner, name) for name in learner.option_names()},
        "effort": learner.budget.to_dict(),
        "numbers": {name: getattr(learner, name) for name in learner.numbers},
        "stream": stream_out(learner.rng),
        "more": learner._words(),
    }
    arrays: dict[str, npt.NDArray[Any] | None] = {
        "words": _text(msgspec.json.encode(words)),
        "setting": _text(write_json(POMDP(setting, still))),
        "plan": _text(learner.found.to_bytes()) if isinstance(learner.found, Plan) else None,
        "model": None if player is None else _text(write_json(player.model)),
        "belief": None if player is None else player.used.belief,
        "node": None if player is None or player.policy is None else player.policy.node,
    }
    return pack(arrays | {f"own.{name}": array for name, array in learner._arrays().items()})


def learner_from_bytes(kind: type[Kind], data: bytes) -> Kind:
    """A learner that goes on exactly as the saved one would have."""
    room = SizeLimit.for_file(data)
    contents, words = opened(data, "learner", _Words, "a saved agent of this kind", room)
    setting = _model(contents, "setting").setting
    make: Any = kind
    learner: Kind = make(setting, budget=budget_in(contents, words.budget, None), **words.options)
    learner.rng = stream_in(words.stream)
    _take_numbers(learner, contents, words.numbers)
    _take_arrays(learner, contents)
    learner._put_back(words.more)
    if "plan" in contents:
        learner.found = plan_from_bytes(contents.packed("plan"), "plan", room)
        if not has_sizes(learner.found, setting) or len(learner.found.states) != setting.n_states:
            raise contents.refuse("its plan is for another setting")
    if "model" in contents:
        model = _model(contents, "model")
        sizes = (model.n_actions, model.n_states, model.n_observations)
        if sizes != (setting.n_actions, setting.n_states, setting.n_observations):
            raise contents.refuse("its model is for another setting")
        belief = contents.floats("belief", (setting.n_states, 1), 0.0, 1.0 + 1e-6)[:, 0]
        if abs(belief.sum() - 1.0) > 1e-6:
            raise contents.refuse("belief does not sum to 1")
        learner._resume_playing(model, belief)
        policy = None if learner.player is None else learner.player.policy
        if policy is not None:
            follows = policy.node[0] >= 0
            least, most = (0, len(policy.actions) - 1) if follows else (-1, -1)
            policy.node[:] = contents.whole("node", (1,), least, most)
    return learner


def _take_numbers(learner: Learner, contents: Contents, numbers: dict[str, Any]) -> None:
    """The learner's own numbers, each of its type and in its range."""
    n_actions, lost = learner.n_actions, learner.lost
    time = numbers.get("time")
    if type(time) is not int or not 0 <= time <= LARGEST_TIME:
        raise contents.refuse(f"time is {time!r}")
    started = time > 0
    ranges: dict[str, tuple[float, float]] = {
        "time": (0, LARGEST_TIME),
        "episode": (0, time),
        "until": (0, _LATEST),
        "counted_from": (0, _LATEST),
        "action": (0 if started else -1, n_actions - 1 if started else -1),
        "reading": (0, lost),
        "before": (0, lost),
        "first_reading": (0, lost - 1),
        "probability": (1e-12, 1.0),
        "softness": (0.0, 1.0 / n_actions),
    }
    for name in learner.numbers:
        value, was = numbers.get(name), getattr(learner, name)
        if isinstance(was, bool):
            fits = isinstance(value, bool)
        elif value is None:
            fits = was is None
        else:
            low, high = ranges[name]
            kinds = int | float if isinstance(was, float) else int
            fits = isinstance(value, kinds) and not isinstance(value, bool) and low <= value <= high
        if not fits:
            raise contents.refuse(f"{name} is {value!r}, out of range")
        setattr(learner, name, value)


def _take_arrays(learner: Learner, contents: Contents) -> None:
    """What it has counted, in arrays of the same shapes; a policy has rows that sum to one."""
    for name, array in learner._arrays().items():
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
    """A model in a text; no array is larger than the text, which lists every number."""
    text = contents.text(name)
    try:
        return read_json(text, max_entries=len(text))  # without a path, which would name the model
    except ParseError as error:
        raise contents.refuse(f"{name}: {error.reason}") from None
