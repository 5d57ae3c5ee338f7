"""What every posterior does, and the checks at its door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..arrays import Array
from ..errors import ImpossibleObservation, InvalidModelError, OutOfOrderError, UnknownNameError
from ..model import Setting

Index = npt.NDArray[np.int64]
State = dict[str, "npt.NDArray[Any] | int | float | str"]


class Posterior(Protocol):
    """f_t(θ) and h_t(·; θ), from the first reading on: what Algorithm 1 asks of a posterior.

    `start` takes o_1, or None where nothing was read; `update` takes a_t and o_{t+1}, or None for a
    reading that was lost: the filters then predict, and nothing is learned. A reading that is impossible
    under everything held possible raises `ImpossibleObservation` and changes nothing.
    """

    @property
    def setting(self) -> Setting: ...
    @property
    def expected_counts(self) -> Array: ...  # [A, S]: ñ_t
    def start(self, first_observation: int | None) -> None: ...
    def update(self, action: int, observation: int | None) -> None: ...
    def sample(self, rng: np.random.Generator) -> Array: ...  # [A, S, S'] ~ f_t
    def belief(self, kernel: Array) -> Array: ...  # [S]: h_t(·; kernel)


class Prior(Protocol):
    """f(θ), and the posterior that starts from it."""

    @property
    def setting(self) -> Setting: ...
    def sample(self, rng: np.random.Generator) -> Array: ...
    def posterior(self, rng: np.random.Generator) -> Posterior: ...


def action_number(setting: Setting, action: int) -> int:
    """`action` if it is one."""
    return _number("action", action, setting.n_actions)


def reading_number(setting: Setting, observation: int | None) -> int:
    """The number of a reading; a lost one is one past the last."""
    if observation is None:
        return setting.n_observations
    return _number("observation", observation, setting.n_observations)


def _number(what: str, value: int, count: int) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise UnknownNameError(f"{what} {value!r} is not a whole number")
    if not 0 <= value < count:
        raise UnknownNameError(f"{what} {value}: they are numbered 0 to {count - 1}")
    return int(value)


def step_numbers(
    setting: Setting, actions: npt.ArrayLike, observations: npt.ArrayLike
) -> tuple[Index, Index]:
    """Many actions and readings, checked; a lost reading, −1, becomes one past the last."""
    a, o = np.asarray(actions, dtype=np.int64), np.asarray(observations, dtype=np.int64)
    if a.ndim != 1 or a.shape != o.shape:
        raise InvalidModelError(f"actions have shape {a.shape}, observations {o.shape}: one each is wanted")
    for what, values, least, count in (
        ("action", a, 0, setting.n_actions),
        ("observation", o, -1, setting.n_observations),
    ):
        wrong = np.flatnonzero((values < least) | (values >= count))
        if len(wrong):
            raise UnknownNameError(f"{what} {values[wrong[0]]}: they are numbered 0 to {count - 1}")
    return a, np.where(o < 0, setting.n_observations, o)


def first_number(setting: Setting, observation: int | None) -> int | None:
    """o_1 checked: None, or a reading where the setting has a first one."""
    if observation is None:
        return None
    if setting.first_observation is None:
        raise OutOfOrderError(
            f"start({observation}): this setting has no reading before the first action; start(None) is meant"
        )
    return _number("observation", observation, setting.n_observations)


def impossible(
    setting: Setting, observation: int | None, action: int | None, under: str
) -> ImpossibleObservation:
    """The error that names the reading and the action, by number and by name."""
    reading = (
        "a lost reading"
        if observation is None
        else "observation " + _called(observation, setting.names.observations)
    )
    when = (
        "as the first reading" if action is None else "after action " + _called(action, setting.names.actions)
    )
    return ImpossibleObservation(f"{reading} has probability 0 {when} under {under}")


def _called(number: int, names: tuple[str, ...] | None) -> str:
    return str(number) if names is None else f"{number} ({names[number]})"


def same_prior(state: Mapping[str, object], fingerprint: str) -> None:
    """Refuse a state that was saved under another prior."""
    if str(state.get("prior")) != fingerprint:
        raise InvalidModelError("the state was saved under another prior")
