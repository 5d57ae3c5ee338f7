"""Functions for any prior and posterior, and the checked numbers of actions and observations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Index
from ..errors import (
    ImpossibleObservationError,
    InvalidModelError,
    OutOfOrderError,
    UnknownNameError,
    did_you_mean,
)
from ..models import POMDP, Setting
from ..protocols import (
    BatchUpdates,
    InitialByKernel,
    ModelSample,
    Posterior,
    Prior,
    SamplesModels,
    SamplesWithBelief,
)

_MOST_LISTED = 20  # the most names that an error message lists
Many = npt.ArrayLike | Sequence[Any]  # observations or actions, by number or by name
State = dict[str, "npt.NDArray[Any] | int | float | str"]


def check_protocol(prior: object) -> None:
    """Raise `InvalidModelError` if an object lacks a part of the protocol `Prior`."""
    if isinstance(prior, type):
        raise InvalidModelError(f"prior is the class {prior.__name__}: pass an object, {prior.__name__}(...)")
    for name in ("sample", "posterior"):
        if not callable(getattr(prior, name, None)):
            raise InvalidModelError(f"prior is a {type(prior).__name__}, which has no method {name}(rng)")
    if not hasattr(prior, "setting"):
        raise InvalidModelError(
            f"prior is a {type(prior).__name__}, which has no setting: does its __init__ call "
            "super().__init__(setting)?"
        )
    setting = prior.setting
    if not isinstance(setting, Setting):
        raise InvalidModelError(
            f"prior is a {type(prior).__name__} whose setting is a {type(setting).__name__}, not a Setting"
        )


def sample_model(posterior: Posterior, rng: np.random.Generator) -> ModelSample:
    """Draw θ ~ f_t from any posterior and return it with h_t(·; θ)."""
    if isinstance(posterior, SamplesWithBelief):
        return posterior.sample_model(rng)
    kernel = posterior.sample(rng)
    return ModelSample(kernel, posterior.belief(kernel))


def update_many(posterior: Posterior, actions: Index, readings: Index) -> None:
    """Condition any posterior on many steps; −1 is a missing observation."""
    if isinstance(posterior, BatchUpdates):
        posterior.update_many(actions, readings)
        return
    for a, o in zip(actions.tolist(), readings.tolist(), strict=True):
        posterior.update(a, None if o == -1 else o)


def initial_of(prior: Prior, kernel: Array) -> Array:
    """Return h(·; `kernel`), which is that of the setting unless it depends on the kernel."""
    return prior.initial_of(kernel) if isinstance(prior, InitialByKernel) else prior.setting.initial


def model_of(prior: Prior, rng: np.random.Generator) -> POMDP:
    """Draw θ ~ f from any prior and return it as a POMDP."""
    if isinstance(prior, SamplesModels):
        return prior.sample_model(rng)
    return POMDP(prior.setting, prior.sample(rng))


def action_number(setting: Setting, action: int | str) -> int:
    """Return the number of an action that is given by its number or its name."""
    return number_of("action", action, setting.n_actions, setting.names.actions)


def reading_number(setting: Setting, observation: int | str | None) -> int:
    """Return the number of an observation that is given by its number or its name.

    A missing observation (None, NaN or the NA of pandas) has the number O.
    """
    if is_lost(observation):
        return setting.n_observations
    return number_of("observation", observation, setting.n_observations, setting.names.observations)


def first_number(setting: Setting, observation: int | str | None) -> int | None:
    """Return the number of the first observation, or None if it is missing.

    Raises `OutOfOrderError` if the setting has no observation before the first action and one is given.
    """
    if is_lost(observation):
        return None
    if setting.first_observation is None:
        raise OutOfOrderError(
            f"observation {observation!r}: this setting has no observation before the first action; pass None"
        )
    return number_of("observation", observation, setting.n_observations, setting.names.observations)


def is_lost(observation: object) -> bool:
    """Return whether `observation` is missing: None, NaN, or the NA of pandas.

    >>> [is_lost(value) for value in (None, float("nan"), 0, "low")]
    [True, True, False, False]
    """
    if observation is None:
        return True
    if isinstance(observation, float | np.floating):
        return bool(np.isnan(observation))
    kind = type(observation)  # pandas is not imported for this
    return kind.__name__ == "NAType" and kind.__module__.startswith("pandas.")


def number_of(what: str, value: object, count: int, names: tuple[str, ...] | None = None) -> int:
    """Return the number, below `count`, of `value`, which is an integer or a name."""
    if isinstance(value, str):
        return _named(what, str(value), count, names)
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise UnknownNameError(f"{what} {value!r} is not an integer{' or a name' if names else ''}")
    if not 0 <= value < count:
        raise UnknownNameError(f"{what} {value} is out of range: {what}s are numbered 0 to {count - 1}")
    return int(value)


def _named(what: str, name: str, count: int, names: tuple[str, ...] | None) -> int:
    if names is None:
        raise UnknownNameError(
            f"{what} {name!r}: this setting does not name its {what}s; they are numbered 0 to {count - 1}"
        )
    if name not in names:
        known = ", ".join(names[:_MOST_LISTED]) + (", ..." if len(names) > _MOST_LISTED else "")
        raise UnknownNameError(f"unknown {what} {name!r}{did_you_mean(name, names)}; the names are {known}")
    return names.index(name)


def action_numbers(setting: Setting, actions: Many) -> Index:
    """Return the numbers of actions that are given by number or name."""
    return _numbers("action", actions, 0, setting.n_actions, partial(action_number, setting))


def reading_numbers(setting: Setting, observations: Many, *, least: int = 0) -> Index:
    """Return the numbers of observations that are given by number or name; a missing one has the number O.

    With `least` = −1, the number −1 also stands for a missing observation.
    """
    lost = setting.n_observations

    def number(value: Any) -> int:
        if least == -1 and isinstance(value, int | float | np.number) and value == -1:
            return -1
        return reading_number(setting, value)

    found = _numbers("observation", observations, least, lost, number)
    return np.where(found == -1, lost, found)


def _numbers(what: str, values: Many, least: int, count: int, number: Callable[[Any], int]) -> Index:
    """Return the numbers of `values`; an error names the position in the list.

    Floats with integer values are accepted, because a table column with missing observations contains floats.
    """
    try:
        given: npt.NDArray[Any] = np.asarray(values)
    except ValueError:  # nested lists of different lengths
        raise InvalidModelError(f"{what}s must be one list of numbers or names") from None
    if given.ndim != 1:
        raise InvalidModelError(
            f"{what}s have shape {given.shape}: they must be one list of numbers or names"
        )
    if given.dtype.kind in "iu" and ((given >= least) & (given < count)).all():
        return given.astype(np.int64)
    entries: Any = values  # not `given`, because numpy turns a list of names and numbers into strings
    found = []
    for i, value in enumerate(entries):
        whole = isinstance(value, float | np.floating) and float(value).is_integer()
        try:
            found.append(number(int(value) if whole else value))
        except UnknownNameError as error:
            raise UnknownNameError(f"{what}s[{i}]: {error}") from None
    return np.array(found, np.int64)


def step_numbers(setting: Setting, actions: Many, observations: Many) -> tuple[Index, Index]:
    """Return the numbers of actions and of the observations after them.

    A missing observation, −1, becomes O.
    """
    a, o = action_numbers(setting, actions), reading_numbers(setting, observations, least=-1)
    if a.shape != o.shape:
        raise InvalidModelError(
            f"actions have shape {a.shape}, observations have shape {o.shape}: the shapes must be equal"
        )
    return a, o


def impossible(
    setting: Setting, observation: int | None, action: int | None, under: str
) -> ImpossibleObservationError:
    """Return the error for an observation of probability 0, with the names of observation and action.

    A missing observation is None or the number O; `action` is None for the first observation.
    """
    reading = (
        "a missing observation"
        if observation is None or observation == setting.n_observations
        else "observation " + _called(observation, setting.names.observations)
    )
    when = (
        "as the first observation"
        if action is None
        else "after action " + _called(action, setting.names.actions)
    )
    return ImpossibleObservationError(f"{reading} has probability 0 {when} under {under}")


def _called(number: int, names: tuple[str, ...] | None) -> str:
    return str(number) if names is None else f"{number} ({names[number]})"


def same_prior(state: Mapping[str, object], fingerprint: str) -> None:
    """Raise `InvalidModelError` if the state was saved under another prior."""
    if str(state.get("prior")) != fingerprint:
        raise InvalidModelError("the state was saved under another prior")
