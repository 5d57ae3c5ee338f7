"""What can be asked of any prior and posterior, and the checks at their door."""

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
from ..models.model import POMDP, Setting
from ..protocols import (
    BatchUpdates,
    InitialByKernel,
    ModelSample,
    Posterior,
    Prior,
    SamplesModels,
    SamplesWithBelief,
)

_MOST_LISTED = 20  # names that an error lists
Many = npt.ArrayLike | Sequence[Any]  # readings or actions, by number or by name
State = dict[str, "npt.NDArray[Any] | int | float | str"]


def check_protocol(prior: object) -> None:
    """Raise `InvalidModelError` where an object lacks what the protocol `Prior` asks for."""
    for name in ("sample", "posterior"):
        if not callable(getattr(prior, name, None)):
            raise InvalidModelError(f"prior is a {type(prior).__name__}: it has no method {name}(rng)")
    setting = getattr(prior, "setting", None)
    if not isinstance(setting, Setting):
        raise InvalidModelError(
            f"prior is a {type(prior).__name__}: its setting is a {type(setting).__name__}, not a Setting"
        )


def sample_model(posterior: Posterior, rng: np.random.Generator) -> ModelSample:
    """Draw θ ~ f_t, with h_t(·; θ), from any posterior."""
    if isinstance(posterior, SamplesWithBelief):
        return posterior.sample_model(rng)
    drawn = posterior.sample(rng)
    return ModelSample(drawn, posterior.belief(drawn))


def update_many(posterior: Posterior, actions: Index, readings: Index) -> None:
    """Condition any posterior on many steps; −1 is a lost observation."""
    if isinstance(posterior, BatchUpdates):
        posterior.update_many(actions, readings)
        return
    for a, o in zip(actions.tolist(), readings.tolist(), strict=True):
        posterior.update(a, None if o == -1 else o)


def initial_of(prior: Prior, kernel: Array) -> Array:
    """Return h(·; `kernel`): the setting's initial distribution, or the kernel's own."""
    return prior.initial_of(kernel) if isinstance(prior, InitialByKernel) else prior.setting.initial


def model_of(prior: Prior, rng: np.random.Generator) -> POMDP:
    """Draw a POMDP with θ ~ f from any prior."""
    if isinstance(prior, SamplesModels):
        return prior.sample_model(rng)
    return POMDP(prior.setting, prior.sample(rng))


def action_number(setting: Setting, action: int | str) -> int:
    """Return the number of an action, which may be given by its number or by its name."""
    return number_of("action", action, setting.n_actions, setting.names.actions)


def reading_number(setting: Setting, observation: int | str | None) -> int:
    """Return the number of a reading, given by number or by name; a lost reading has the number O.

    None, NaN and pandas' NA stand for a reading that was lost.
    """
    if is_lost(observation):
        return setting.n_observations
    return number_of("observation", observation, setting.n_observations, setting.names.observations)


def first_number(setting: Setting, observation: int | str | None) -> int | None:
    """Return the number of the first reading, or None where there was none."""
    if is_lost(observation):
        return None
    if setting.first_observation is None:
        raise OutOfOrderError(
            f"observation {observation!r}: this setting has no reading before the first action: give None"
        )
    return number_of("observation", observation, setting.n_observations, setting.names.observations)


def is_lost(observation: object) -> bool:
    """Whether this stands for a reading that was lost: None, NaN, or the NA of pandas.

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
    """Return the number that `value` stands for: a whole number or a name."""
    if isinstance(value, str):
        return _named(what, str(value), count, names)
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise UnknownNameError(f"{what} {value!r} is not a whole number{' or a name' if names else ''}")
    if not 0 <= value < count:
        raise UnknownNameError(f"{what} {value}: they are numbered 0 to {count - 1}")
    return int(value)


def _named(what: str, name: str, count: int, names: tuple[str, ...] | None) -> int:
    if names is None:
        raise UnknownNameError(
            f"{what} {name!r}: the {what}s have no names here; they are numbered 0 to {count - 1}"
        )
    if name not in names:
        known = ", ".join(names[:_MOST_LISTED]) + (", ..." if len(names) > _MOST_LISTED else "")
        raise UnknownNameError(f"no {what} is called {name!r}{did_you_mean(name, names)}; known are {known}")
    return names.index(name)


def action_numbers(setting: Setting, actions: Many) -> Index:
    """Return the numbers of many actions, each given by number or by name."""
    return _numbers("action", actions, 0, setting.n_actions, partial(action_number, setting))


def reading_numbers(setting: Setting, observations: Many, *, least: int = 0) -> Index:
    """Return the numbers of many readings; those that were lost have the number O.

    With `least` = −1, the number −1 stands for a lost reading too.
    """
    lost = setting.n_observations

    def number(value: Any) -> int:
        if least == -1 and isinstance(value, int | float | np.number) and value == -1:
            return -1
        return reading_number(setting, value)

    found = _numbers("observation", observations, least, lost, number)
    return np.where(found == -1, lost, found)


def _numbers(what: str, values: Many, least: int, count: int, number: Callable[[Any], int]) -> Index:
    """Return many numbers; an error says at which place of the list it was found.

    Whole floats are taken too: a column of a table that lacks some reading holds floats.
    """
    try:
        given: npt.NDArray[Any] = np.asarray(values)
    except ValueError:  # lists of different lengths inside
        raise InvalidModelError(f"{what}s: one list of numbers or names is wanted") from None
    if given.ndim != 1:
        raise InvalidModelError(f"{what}s have shape {given.shape}: one list of numbers or names is wanted")
    if given.dtype.kind in "iu" and ((given >= least) & (given < count)).all():
        return given.astype(np.int64)
    entries: Any = values  # and not `given`: numpy turns a list of names and numbers into texts
    found = []
    for i, value in enumerate(entries):
        whole = isinstance(value, float | np.floating) and float(value).is_integer()
        try:
            found.append(number(int(value) if whole else value))
        except UnknownNameError as error:
            raise UnknownNameError(f"{what}s[{i}]: {error}") from None
    return np.array(found, np.int64)


def step_numbers(setting: Setting, actions: Many, observations: Many) -> tuple[Index, Index]:
    """Return the numbers of many actions and of the readings after them; a lost reading, −1, becomes O."""
    a, o = action_numbers(setting, actions), reading_numbers(setting, observations, least=-1)
    if a.shape != o.shape:
        raise InvalidModelError(f"actions have shape {a.shape}, observations {o.shape}: one each is wanted")
    return a, o


def impossible(
    setting: Setting, observation: int | None, action: int | None, under: str
) -> ImpossibleObservationError:
    """Return the error that names the reading and the action, by number and by name.

    A lost reading is None or the number O.
    """
    reading = (
        "a lost reading"
        if observation is None or observation == setting.n_observations
        else "observation " + _called(observation, setting.names.observations)
    )
    when = (
        "as the first reading" if action is None else "after action " + _called(action, setting.names.actions)
    )
    return ImpossibleObservationError(f"{reading} has probability 0 {when} under {under}")


def _called(number: int, names: tuple[str, ...] | None) -> str:
    return str(number) if names is None else f"{number} ({names[number]})"


def same_prior(state: Mapping[str, object], fingerprint: str) -> None:
    """Refuse a state that was saved under another prior."""
    if str(state.get("prior")) != fingerprint:
        raise InvalidModelError("the state was saved under another prior")
