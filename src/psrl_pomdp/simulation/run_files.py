"""Kept runs, read back: every array is held against the model and the number of steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from .._serialization.contents import LARGEST_TIME, Contents
from .._serialization.random_streams import StreamState
from .._utils.arrays import Array
from ..agents import compiled_steps as steps
from ..models import POMDP

MOVING = ("present", "belief", "visits", "sums")  # what changes of a world


class RunWords(msgspec.Struct):
    """Everything about a run that is not an array."""

    version: int
    package: str  # its version: another may go on differently
    time: int
    model: str
    seed: str
    chance: StreamState
    taken: list[int]


@dataclass(frozen=True)
class KeptRun:
    """What is taken up of a run beside its agent and its chance."""

    world: dict[str, npt.NDArray[Any]]
    actions: npt.NDArray[np.uint16]
    readings: npt.NDArray[np.uint16]
    states: npt.NDArray[np.uint16] | None
    episode_sums: Array
    taken: list[dict[str, Any]]

    @classmethod
    def of(cls, contents: Contents, words: RunWords, model: POMDP, every_step: bool) -> KeptRun:
        """The run in a file, checked; `every_step` is whether it should have kept the hidden states."""
        time = words.time
        if not 0 <= time <= LARGEST_TIME:
            raise contents.refuse(f"time is {time}")
        codes = {
            name: contents.whole(name, (time,), 0, count - 1).astype(np.uint16)
            for name, count in (("actions", model.n_actions), ("readings", model.n_observations))
        }
        states = None
        if every_step:
            states = contents.whole("states", (time + 1,), 0, model.n_states - 1).astype(np.uint16)
        return cls(
            _world(contents, time, model),
            codes["actions"],
            codes["readings"],
            states,
            contents.floats("episode_sums", (None, steps.N_SUMS), allow_nan=True),
            _taken(contents, words, model),
        )


def _world(contents: Contents, time: int, model: POMDP) -> dict[str, npt.NDArray[Any]]:
    n_actions, n_states = model.n_actions, model.n_states
    present = contents.whole("world.present", (2,), -1, max(n_states, model.n_observations))
    first = 0 if time or model.setting.first_observation is not None else -1
    if not (0 <= present[0] < n_states and first <= present[1] < model.n_observations):
        raise contents.refuse("world.present is no state with a reading")
    visits = contents.whole("world.visits", (n_actions, n_states), 0, time)
    if visits.sum() != time:
        raise contents.refuse(f"world.visits do not add up to {time}")
    return {
        "present": present,
        "belief": contents.distributions("world.belief", (n_states,)),
        "visits": visits,
        "sums": contents.floats("world.sums", (steps.N_SUMS,), allow_nan=True),
    }


def _taken(contents: Contents, words: RunWords, model: POMDP) -> list[dict[str, Any]]:
    """The checkpoints."""
    times, n, pairs = words.taken, len(words.taken), (model.n_actions, model.n_states)
    if times != sorted(set(times)) or (times and not 1 <= times[0] <= times[-1] <= words.time):
        raise contents.refuse(f"taken: checkpoints are no ascending list of times up to {words.time}")
    if not n:
        return []
    columns: dict[str, npt.NDArray[Any]] = {
        "times": contents.whole("taken.times", (n,), 1, words.time),
        "sums": contents.floats("taken.sums", (n, steps.N_SUMS), allow_nan=True),
        "episodes": contents.whole("taken.episodes", (n,), 0, LARGEST_TIME),
        "visits": contents.whole("taken.visits", (n, *pairs), 0, words.time),
        "expected": contents.floats("taken.expected", (n, *pairs), allow_nan=True),
        "pseudo": contents.whole("taken.pseudo", (n, *pairs), 0, words.time + 1),
        "truth": contents.floats("taken.truth", (n,), allow_nan=True),
    }
    if columns["times"].tolist() != times:
        raise contents.refuse("taken.times are not the times of the words")
    return [{name: column[i] for name, column in columns.items()} for i in range(n)]
