"""Step codes: how actions, observations and seen costs become the numbers that compiled code uses.

A step consists of an action a, the observation o after it and, if costs are seen, the cost c of the action.
It multiplies the belief by

    M(s, s′) = κ(c | a, s) θ(s′ | s, a) η(o | a, s, s′),

where κ is the distribution of the seen cost. Each action has R codes r: r = o (C + 1) + c with o = O for a
missing observation and c = C for a missing cost; C is 0 if costs are not seen. The step (a, r) has the number
a R + r.

- *By action*: η depends on a and s′ alone, is known, and costs are not seen. One matrix θ(· | ·, a) for each
  action suffices, and a step multiplies by the likelihoods η(o | a, ·) afterwards.
- *By code*: all other cases with numbered observations. There is one matrix M for each step number.
- *Rows*: observations are real numbers, counts or vectors. Each step has its own likelihoods, a row [S′], by
  which it multiplies, and o is 0 if the observation came and 1 if it is missing. There is one matrix for each
  action; or, if costs are seen, one matrix κ(c | a, s) θ(s′ | s, a) for each step number.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Codes, Index
from ..errors import ImpossibleObservationError, InvalidModelError, OutOfOrderError, UnknownNameError
from ..models import Setting
from ..protocols import Prior
from ..sensors.base import ContinuousSensor
from .encoding import Many, action_numbers, impossible, is_lost, reading_number, step_numbers
from .reading_cells import ReadingCells

CAME, MISSING = 0, 1  # the numbers of observations that have rows


class Reading(NamedTuple):
    """What came with a step, as compiled code uses it."""

    code: int  # r
    row: Array | None = None  # [S']: likelihoods of an observation without a number
    value: Any = np.nan  # this observation: a float, or an array [d]; NaN if it is missing
    likelihood: Array = np.zeros(0)  # [S']: those of the code, or `row`; empty for an observation of the past


class Steps(NamedTuple):
    """Many steps, as compiled code uses them."""

    actions: Index  # [T]
    codes: Index  # [T]: r
    rows: Array  # [T, S']: likelihoods of observations without numbers; else empty
    values: Array  # [T] or [T, d]: these observations; else empty


class StepCodes:
    """The step codes of a setting.

    Parameters
    ----------
    setting
        The POMDP without its transition kernel.
    unknown
        Whether observation model or costs are unknown, so that each kernel has its own.

    Attributes
    ----------
    n_codes
        The number R of codes for each action.
    n_observations, n_costs
        O and C; O is 0 if observations are not numbered.
    unknown
        Whether each kernel has its own observation model or costs.
    by_code
        Whether there is a matrix for each code.
    n_numbers
        How many numbers an observation can have, without that of a missing one: O, or 1 if `has_rows`.
    has_rows
        Whether each step has its own likelihoods.
    likelihood
        The likelihoods of each code, shape [A, R, S′]; ones if `by_code` or `has_rows`.
    factors
        κ(c | a, s) η(o | a, s, s′) of each step number, shape [A·R, S, S′], or κ if `has_rows`; None unless
        `by_code` and known.
    """

    def __init__(self, setting: Setting, *, unknown: bool = False) -> None:
        self.setting = setting
        self.unknown = unknown
        self.has_rows = not setting.is_finite
        seen = setting.seen_cost is not None
        if self.has_rows and (unknown or setting.sensor_depends_on_previous):
            raise InvalidModelError(
                f"{setting.sensor.described()} cannot be combined with an unknown table, or with a "
                "dependence on the state before the action: use `setting.quantized(K)`"
            )
        self.n_actions, self.n_states = setting.n_actions, setting.n_states
        self.n_costs = 0 if setting.seen_cost is None else setting.seen_cost.n_values
        self.n_observations = 0 if self.has_rows else setting.n_observations
        self.by_code = seen or unknown or setting.sensor_depends_on_previous
        self.n_numbers = 1 if self.has_rows else self.n_observations
        self.n_codes = (self.n_numbers + 1) * (self.n_costs + 1)
        self.stride = self.n_codes if self.by_code else 1
        self.likelihood = np.ones((self.n_actions, self.n_codes, self.n_states))
        self.factors: Array | None = None
        if self.by_code and not unknown:
            self.factors = self.factors_of(setting)
        elif not self.has_rows and not self.by_code:
            self.likelihood[:, :-1] = setting.observation.transpose(0, 2, 1)

    # -- from readings to codes -------------------------------------------------------------------

    def reading(self, action: int, observation: Any, cost: Any = None) -> Reading:
        """Return what came after an action: an observation, and the cost of the action; None is missing."""
        if self.has_rows:
            paid = self.cost_number(cost)
            found = self._row(self.setting.sensor, action, observation)
            return found._replace(code=found.code * (self.n_costs + 1) + paid)
        number = reading_number(self.setting, observation)
        code = number * (self.n_costs + 1) + (self.n_costs if cost is None else self.cost_number(cost))
        return Reading(code, likelihood=self.likelihood[action, code])

    def first_reading(self, observation: Any) -> Reading | None:
        """Return the observation before the first action, or None if it is missing.

        Raises `OutOfOrderError` if the setting has no observation before the first action and one is given.
        """
        if is_lost(observation):
            return None
        first = self.setting.first_sensor
        if first is None:
            raise OutOfOrderError(
                f"observation {observation!r}: this setting has no observation before the first action; "
                "pass None"
            )
        if self.has_rows:
            return self._row(first, 0, observation)
        return Reading(reading_number(self.setting, observation))

    def first_likelihood(self, reading: Reading | None) -> Array:
        """Return η(o_1 | s), shape [S]; ones if there is no observation before the first action."""
        if reading is None:
            return np.ones(self.n_states)
        if reading.row is not None:
            return reading.row
        first = self.setting.first_observation
        assert first is not None
        return np.ascontiguousarray(first[:, reading.code])

    def steps(self, actions: Many, observations: Many, costs: Many | None = None) -> Steps:
        """Return many steps as compiled code uses them.

        An observation of −1 is missing if observations are numbered. Raises `UnknownNameError` or
        `InvalidModelError`; the message names the position in the list.
        """
        if self.has_rows:
            return self._row_steps(actions, observations, costs)
        a, o = step_numbers(self.setting, actions, observations)
        c = self._cost_numbers(costs, len(a))
        return Steps(a, o * (self.n_costs + 1) + c, np.zeros((0, self.n_states)), np.zeros(0))

    def _cost_numbers(self, costs: Many | None, n: int) -> Index:
        """Return the numbers of the costs of n steps; all are missing if `costs` is None."""
        if costs is None:
            return np.full(n, self.n_costs)
        given = list(costs)  # type: ignore[arg-type]
        if len(given) != n:
            raise InvalidModelError(f"{len(given)} costs of {n} actions: there must be one for each")
        return np.array([_at(i, self.cost_number, cost) for i, cost in enumerate(given)], np.int64)

    def _row_steps(self, actions: Many, observations: Many, costs: Many | None) -> Steps:
        if costs is not None and not self.n_costs:
            raise InvalidModelError("this setting does not say that costs are seen")
        a = action_numbers(self.setting, actions)
        given = list(observations)  # type: ignore[arg-type]
        if len(given) != len(a):
            raise InvalidModelError(f"{len(given)} observations after {len(a)} actions")
        sensor = self.setting.sensor
        assert isinstance(sensor, ContinuousSensor)
        missing = np.array([is_lost(y) for y in given], dtype=bool)
        values = np.full((len(a), *self.value_shape), np.nan)
        for i in np.flatnonzero(~missing):
            values[i] = _at(int(i), sensor.checked, given[i])
        rows = np.ones((len(a), self.n_states))
        for action in np.unique(a).tolist():
            mine = (a == action) & ~missing
            rows[mine] = likelihood_rows(sensor, 0 if sensor.n_actions is None else action, values[mine])
        codes = missing.astype(np.int64) * (self.n_costs + 1) + self._cost_numbers(costs, len(a))
        return Steps(a, codes, rows, values)

    def is_missing(self, code: int) -> bool:
        """Return whether the observation of a code is missing."""
        return code // (self.n_costs + 1) == self.n_numbers

    def impossible(
        self, reading: Reading | None, action: int | None, under: str
    ) -> ImpossibleObservationError:
        """Return the error for a step of probability 0; `action` is None for the first observation."""
        if reading is not None and reading.row is not None:
            when = "as the first observation" if action is None else f"after action {self._action(action)}"
            paid = "" if action is None else self._paid(reading.code)
            return ImpossibleObservationError(
                f"{paid}observation {reading.value} has probability 0 {when} under {under}"
            )
        if reading is None:
            return impossible(self.setting, None, action, under)
        if action is None:
            return impossible(self.setting, reading.code, None, under)
        error = impossible(self.setting, reading.code // (self.n_costs + 1), action, under)
        return ImpossibleObservationError(f"{self._paid(reading.code)}{error}")

    def _paid(self, code: int) -> str:
        """Return the seen cost of a code as the beginning of a phrase; empty if it is missing."""
        cost, seen = code % (self.n_costs + 1), self.setting.seen_cost
        return "" if seen is None or cost == self.n_costs else f"cost {seen.values[cost]:g} with "

    def _action(self, action: int) -> str:
        names = self.setting.names.actions
        return str(action) if names is None else f"{action} ({names[action]})"

    def cost_number(self, cost: Any) -> int:
        """Return the number of a seen cost in the user's units; a missing one has the number C."""
        if is_lost(cost):
            return self.n_costs
        if self.setting.seen_cost is None:
            raise InvalidModelError(
                f"cost {cost!r}: this setting does not say that costs are seen; pass seen_cost= to Setting"
            )
        return self.setting.seen_cost.number(cost)

    def _row(self, sensor: Any, action: int, observation: Any) -> Reading:
        """Return the likelihoods of an observation without a number, divided by their maximum."""
        assert isinstance(sensor, ContinuousSensor)
        if is_lost(observation):
            ones = np.ones(self.n_states)
            return Reading(MISSING, ones, likelihood=ones)
        value = sensor.checked(observation)
        number = 0 if sensor.n_actions is None else action
        row = likelihood_rows(sensor, number, np.asarray(value)[None])[0]
        return Reading(CAME, row, value, row)

    # -- matrices ---------------------------------------------------------------------------------

    def matrix_number(self, action: int, code: int) -> int:
        """Return the number of the matrix of a step."""
        return action * self.stride + code if self.by_code else action

    def matrices(self, transition: Array, factors: Array | None = None) -> Array:
        """Return the matrices of the filters, shape [K, S, S′, N].

        `transition[A, S, S′, N]` are the kernels. `factors[A·R, S, S′, N]` are given if the observation
        models are not all equal.
        """
        if not self.by_code:
            return transition
        if factors is None:
            assert self.factors is not None
            factors = self.factors[..., None]
        return np.repeat(transition, self.n_codes, axis=0) * factors

    def factors_of(self, setting: Setting) -> Array:
        """Return κ η of another setting of the same sizes by step number, shape [A·R, S, S′]."""
        seen = setting.seen_cost
        return step_factors(self.table_of(setting), None if seen is None else seen.probabilities)

    def table_of(self, setting: Setting) -> Array:
        """Return the table η by which matrices are multiplied: ones [A, S′, 1] if likelihoods are in rows."""
        return np.ones((self.n_actions, self.n_states, 1)) if self.has_rows else setting.observation

    @cached_property
    def cells(self) -> ReadingCells:
        """The cells into which the test of the model sorts observations without numbers."""
        return ReadingCells(self.setting)

    @property
    def value_shape(self) -> tuple[int, ...]:
        """The shape of an observation without a number."""
        dimension = getattr(self.setting.sensor, "dimension", None)
        return () if dimension is None else (dimension,)

    @property
    def number_of_matrices(self) -> int:
        """K."""
        return self.n_actions * self.stride

    @property
    def action_of(self) -> Codes:
        """The action of each step number, shape [A·R]."""
        return np.repeat(np.arange(self.n_actions, dtype=np.uint32), self.n_codes)

    @property
    def observation_of(self) -> Index:
        """The number of each code among the complete ones, shape [R]; −1 if a part is missing."""
        found = np.full(self.n_codes, -1)
        found[self.full_codes] = np.arange(len(self.full_codes))
        return found

    @property
    def full_codes(self) -> Index:
        """The codes of complete observations, shape [O·max(C, 1)]: those that a policy plans with."""
        o = np.arange(self.n_observations)[:, None]
        return (o * (self.n_costs + 1) + np.arange(max(self.n_costs, 1))).reshape(-1)


def step_codes_of(prior: Prior) -> StepCodes:
    """Return the step codes of a prior: its own, if its observation model or costs may be unknown."""
    own = getattr(prior, "step_codes", None)
    return own if isinstance(own, StepCodes) else StepCodes(prior.setting)


@runtime_checkable
class TakesReadings(Protocol):
    """A posterior that conditions on steps whose observations have been checked and encoded."""

    def update_reading(self, action: int, reading: Reading) -> None:
        """Condition on action a_t and what came after it."""


def condition(posterior: Any, codes: StepCodes, action: int, observation: Any, cost: Any) -> None:
    """Condition any posterior on a step; only posteriors of settings with seen costs take a cost."""
    if codes.n_costs:
        posterior.update(action, observation, cost)
    else:
        posterior.update(action, observation)


def _at(i: int, convert: Any, value: Any) -> Any:
    """Return a converted value; an error names its position in the list."""
    try:
        return convert(value)
    except UnknownNameError as error:
        raise UnknownNameError(f"at position {i}: {error}") from None


def are_missing(observations: Array) -> npt.NDArray[np.bool_]:
    """Return which of the observations [T] or [T, d] are missing, which are NaN."""
    return np.asarray(np.isnan(observations).any(axis=tuple(range(1, observations.ndim))))


def likelihood_rows(sensor: ContinuousSensor, action: int, observations: Array) -> Array:
    """Return the likelihoods of observations [T], shape [T, S′], each row divided by its maximum.

    The divisors cancel from weights, beliefs and moves. A row is zero if no state can emit the observation,
    and one if the observation is NaN, which stands for a missing one.
    """
    missing = are_missing(observations)
    rows = np.ones((len(observations), sensor.n_states))
    if not missing.all():
        logs = np.asarray(sensor.log_likelihood(action, observations[~missing]), dtype=np.float64)
        largest = logs.max(axis=1, keepdims=True)
        rows[~missing] = np.exp(logs - np.where(np.isfinite(largest), largest, 0.0))
    return rows


def step_factors(observation: Array, costs: Array | None = None) -> Array:
    """Return κ(c | a, s) η(o | a, s, s′) by step number, missing ones among them, shape [A·R, S, S′].

    `observation` is η, shape [A, S′, O] or [A, S, S′, O]. `costs` is κ, shape [A, S, C], or None if costs are
    not seen.
    """
    return kernel_factors(observation[..., None], None if costs is None else costs[..., None])[..., 0]


def kernel_factors(observation: Array, costs: Array | None = None) -> Array:
    """Return `step_factors` for N tables at once, shape [A·R, S, S′, N].

    Both arrays have a last axis for the N kernels, which may have length 1.
    """
    by_state = observation if observation.ndim == 5 else observation[:, None]  # [A, S or 1, S', O, N]
    n_actions, _, n_states, n_observations, n_kernels = by_state.shape
    seen = np.ones((n_actions, n_observations + 1, *by_state.shape[1:3], n_kernels))
    seen[:, :-1] = np.moveaxis(by_state, 3, 1)
    if costs is None:
        paid = np.ones((n_actions, 1, n_states, 1))
    else:
        paid = np.ones((n_actions, costs.shape[2] + 1, n_states, costs.shape[3]))
        paid[:, :-1] = costs.transpose(0, 2, 1, 3)
    found = seen[:, :, None] * paid[:, None, :, :, None]  # [A, O + 1, C + 1, S or 1, S', N]
    n_codes = (n_observations + 1) * paid.shape[1]
    whole = np.broadcast_to(found, (*found.shape[:3], n_states, n_states, found.shape[-1]))
    return np.ascontiguousarray(whole.reshape(n_actions * n_codes, n_states, n_states, found.shape[-1]))
