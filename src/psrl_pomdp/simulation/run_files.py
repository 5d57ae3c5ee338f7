"""Saved runs: every array of a file is compared with the model and with the number of steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from .._serialization.archives import pack
from .._serialization.contents import LARGEST_TIME, VERSION, Contents
from .._serialization.random_streams import StreamState
from .._utils.arrays import Array
from .._version import __version__
from ..agents import compiled_steps as steps
from ..inference.step_codes import StepCodes
from ..models import POMDP
from ..protocols import Agent, RestoresAgents, SavableAgent

CHANGING_ARRAYS = ("present", "belief", "visits", "sums")  # the fields of `EnvironmentState` that change


class RunMetadata(msgspec.Struct):
    """Everything about a run that is not an array."""

    version: int
    package: str  # the version of the package; the run may continue differently with another one
    time: int
    model: str
    seed: str
    stream: StreamState = msgspec.field(name="chance")
    checkpoint_times: list[int] = msgspec.field(name="taken")


@dataclass(frozen=True)
class SavedRun:
    """The content of a saved run without its agent and its random stream."""

    environment: dict[str, npt.NDArray[Any]]
    actions: npt.NDArray[np.uint16]
    observations: npt.NDArray[np.uint16]
    states: npt.NDArray[np.uint16] | None
    values: Array | None  # observations without numbers
    value: Array | None  # the present one
    episode_sums: Array
    checkpoints: list[dict[str, Any]]

    @classmethod
    def of(cls, contents: Contents, metadata: RunMetadata, model: POMDP, every_step: bool) -> SavedRun:
        """Return the run in a file after checks; with `every_step` it must contain the hidden states."""
        time = metadata.time
        if not 0 <= time <= LARGEST_TIME:
            raise contents.refuse(f"time is {time}")
        step_codes = StepCodes(model.setting)
        codes = {
            name: contents.whole(name, (time,), 0, count - 1).astype(np.uint16)
            for name, count in (("actions", model.n_actions), ("readings", count_of_codes(step_codes)))
        }
        values = value = None
        if step_codes.has_rows:
            values = contents.floats("values", (time, *step_codes.value_shape))
            shape = step_codes.value_shape  # () would become (1,)
            value = contents.floats("value", shape, allow_nan=True).reshape(shape)
        states = None
        if every_step:
            states = contents.whole("states", (time + 1,), 0, model.n_states - 1).astype(np.uint16)
        return cls(
            _environment(contents, time, model, count_of_codes(step_codes)),
            codes["actions"],
            codes["readings"],
            states,
            values,
            value,
            contents.floats("episode_sums", (None, steps.N_SUMS), allow_nan=True),
            _checkpoints(contents, metadata, model),
        )

    def packed(self, time: int, model: POMDP, seed: str, stream: dict[str, Any], agent: bytes) -> bytes:
        """Return the bytes of a file with this run, its random stream and its saved agent."""
        metadata = {
            "version": VERSION,
            "package": __version__,
            "time": time,
            "model": model.fingerprint,
            "seed": seed,
            "chance": stream,
            "taken": [int(row["times"]) for row in self.checkpoints],
        }
        arrays: dict[str, Any] = {f"taken.{name}": col for name, col in columns_of(self.checkpoints).items()}
        arrays |= {f"world.{name}": array for name, array in self.environment.items()}
        arrays |= {
            "words": np.frombuffer(msgspec.json.encode(metadata), np.uint8),
            "actions": self.actions,
            "readings": self.observations,
            "values": self.values,
            "value": self.value,
            "states": self.states,
            "episode_sums": self.episode_sums,
            "agent": np.frombuffer(agent, np.uint8),
        }
        return pack(arrays)


def columns_of(rows: list[dict[str, Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return the rows of checkpoints as one array per column."""
    names = rows[0] if rows else ()
    return {name: np.array([row[name] for row in rows]) for name in names}


def count_of_codes(codes: StepCodes) -> int:
    """Return how many numbers an observation can have, together with the cost if it is seen."""
    if codes.has_rows:
        # its place among those that were drawn ahead, and the number of the cost
        return codes.n_actions * codes.n_states * (codes.n_costs + 1)
    return codes.n_codes if codes.by_code else codes.n_observations


def _environment(contents: Contents, time: int, model: POMDP, count: int) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of the environment."""
    n_actions, n_states = model.n_actions, model.n_states
    present = contents.whole("world.present", (2,), -1, max(n_states, count))
    first = 0 if time or model.setting.has_first_observation else -1
    if not (0 <= present[0] < n_states and first <= present[1] < count):
        raise contents.refuse("world.present is not a state and an observation")
    visits = contents.whole("world.visits", (n_actions, n_states), 0, time)
    if visits.sum() != time:
        raise contents.refuse(f"world.visits do not sum to {time}")
    return {
        "present": present,
        "belief": contents.distributions("world.belief", (n_states,)),
        "visits": visits,
        "sums": contents.floats("world.sums", (steps.N_SUMS,), allow_nan=True),
    }


def _checkpoints(contents: Contents, metadata: RunMetadata, model: POMDP) -> list[dict[str, Any]]:
    """Return the rows of the checkpoints."""
    times, n, pairs = (
        metadata.checkpoint_times,
        len(metadata.checkpoint_times),
        (model.n_actions, model.n_states),
    )
    if times != sorted(set(times)) or (times and not 1 <= times[0] <= times[-1] <= metadata.time):
        raise contents.refuse(f"taken: the times of the checkpoints are not ascending up to {metadata.time}")
    if not n:
        return []
    columns: dict[str, npt.NDArray[Any]] = {
        "times": contents.whole("taken.times", (n,), 1, metadata.time),
        "sums": contents.floats("taken.sums", (n, steps.N_SUMS), allow_nan=True),
        "episodes": contents.whole("taken.episodes", (n,), 0, LARGEST_TIME),
        "visits": contents.whole("taken.visits", (n, *pairs), 0, metadata.time),
        "expected": contents.floats("taken.expected", (n, *pairs), allow_nan=True),
        "pseudo": contents.whole("taken.pseudo", (n, *pairs), 0, metadata.time + 1),
        "truth": contents.floats("taken.truth", (n,), allow_nan=True),
        "log_e_value": contents.floats("taken.log_e_value", (n,), allow_nan=True),
    }
    if columns["times"].tolist() != times:
        raise contents.refuse("taken.times are not the times in the metadata")
    return [{name: column[i] for name, column in columns.items()} for i in range(n)]


def restored_agent(agent: Agent, data: bytes) -> Agent:
    """Return the saved agent, of the same class."""
    if isinstance(agent, RestoresAgents):
        return agent.restored(data)
    assert isinstance(agent, SavableAgent)
    return type(agent).from_bytes(data)
