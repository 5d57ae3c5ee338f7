"""Restore the state of an ensemble from a file, checked before compiled code uses it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from .._utils.arrays import Array, Codes
from ..errors import InvalidModelError
from ..models import Setting
from . import filter_bank as filtering
from .encoding import same_prior
from .history import History
from .kernel_groups import MOST_KERNELS, KernelGroup
from .model_fit import resume_test
from .sampled_filter import PossibleStates, SampledFilter
from .saved_states import (
    array_in,
    codes_in,
    distributions_or_nothing,
    filters_in,
    has_shape,
    near,
    time_in,
    units_in,
    whole_in,
)
from .step_codes import Reading, StepCodes, Steps

State = Mapping[str, object]


def size_in(state: State, name: str = "size") -> int:
    """Return the number of kernels of a group in a saved state."""
    return whole_in(state, name, 1, MOST_KERNELS)


def check_sizes(state: State, setting: Setting, size: int) -> None:
    """Raise an error if arrays have other sizes, before arrays of their size are allocated."""
    n_states = setting.n_states
    has_shape(state, "counts", (n_states, setting.n_actions, n_states, size))


def restore_state(
    state: State,
    setting: Setting,
    fingerprint: str,
    filters: filtering.FilterBank,
    past: History,
    possible: PossibleStates,
    used: SampledFilter,
    groups: Iterable[KernelGroup],
) -> int:
    """Restore a saved state in an ensemble whose groups are restored already, and return the time t."""
    same_prior(state, fingerprint)
    time = time_in(state)
    fresh = filtering.filter_state(filters)
    filtering.load_filter_state(filters, filters_in(state, fresh, time, shared=units_in(state) > 1))
    _restore_history(state, setting, filters, past, possible, groups, time)
    _restore_used(state, used, possible, past.step_codes)
    resume_test(filters.test, state, time)
    return time


def _restore_history(
    state: State,
    setting: Setting,
    filters: filtering.FilterBank,
    past: History,
    possible: PossibleStates,
    groups: Iterable[KernelGroup],
    time: int,
) -> None:
    """Restore the history, and the states that are possible after it."""
    n_actions, n_codes, n_states = filters.likelihood.shape
    codes = codes_in(state, "history", max(time - 1, 0), n_actions * n_codes)
    start = array_in(state, "history_start", (n_states if time else 0,), 0.0, 1.0)
    past.first = _first_in(state, past)
    if time and not any(near(start, known, 0.0, 1e-9) for known in _starts(past, setting, groups)):
        raise InvalidModelError("history_start is not the belief after any possible first observation")
    if past.step_codes.has_rows:
        steps = _steps_in(state, past, codes)
        past.resume(start, codes, steps.rows, steps.values)
    else:
        past.resume(start, codes)
    now = array_in(state, "possible", (n_states,), 0.0, 1.0) > 0
    if (filters.belief.any(axis=1) & ~now).any():
        raise InvalidModelError("possible excludes a state that has positive belief under a kernel")
    possible.now[:] = now


def _restore_used(
    state: State,
    used: SampledFilter,
    possible: PossibleStates,
    codes: StepCodes,
) -> None:
    """Restore the sampled kernel and its belief; they are NaN if the belief is not up to date."""
    kernel = array_in(state, "used_kernel", used.transition.shape, finite=False)
    if not np.isnan(kernel).all():
        kernel = array_in(state, "used_kernel", used.transition.shape, 0.0, 1.0 + 1e-6)
        sums = kernel.sum(axis=2)
        by_action = possible.support.reshape(len(kernel), -1, *kernel.shape[1:3]).any(axis=1)
        impossible = kernel[np.logical_not(by_action)[..., None]]
        if kernel.any() and ((np.abs(sums - 1.0) > 1e-6).any() or (impossible > 0.0).any()):
            raise InvalidModelError("used_kernel is not a kernel in the support of the prior")
        distributions_or_nothing(
            "used_belief", array_in(state, "used_belief", used.belief.shape, 0.0, 1.0 + 1e-6)
        )
    used.transition[...] = kernel
    if np.isnan(kernel).any():
        used.matrices[...] = np.nan
    elif codes.unknown:
        used.matrices[...] = _used_matrices(state, used, possible, codes)
    else:
        used.matrices[...] = codes.matrices(used.transition)
    used.belief[...] = array_in(state, "used_belief", used.belief.shape, finite=False)


def _used_matrices(state: State, used: SampledFilter, possible: PossibleStates, codes: StepCodes) -> Array:
    """Return the matrices of the sampled kernel, which has an observation model or costs of its own.

    The matrices of all complete codes must add up to the kernel, and those of codes for what is missing to
    the sums over it.
    """
    found = array_in(state, "used_matrices", used.matrices.shape, 0.0, 1.0 + 1e-6)
    by_code = found.reshape(codes.n_actions, codes.n_numbers + 1, codes.n_costs + 1, *found.shape[1:])
    parts = [(by_code[:, -1], by_code[:, :-1].sum(axis=1)), (by_code[:, -1, -1], used.transition)]
    if codes.n_costs:
        parts.append((by_code[:, :, -1], by_code[:, :, :-1].sum(axis=2)))
    agree = all(np.allclose(one, other, 0.0, 1e-6) for one, other in parts)
    if not agree or found[np.logical_not(possible.support)].any():
        raise InvalidModelError(
            "used_matrices are not those of used_kernel with a possible observation model"
        )
    return found


def _first_in(state: State, past: History) -> Reading | None:
    """Return the first observation, if the file has it."""
    if "history_first" not in state:
        return None
    codes = past.step_codes
    if codes.has_rows:
        value = array_in(state, "history_first", codes.value_shape)
        return codes.first_reading(float(value) if value.ndim == 0 else value)
    return codes.first_reading(whole_in(state, "history_first", 0, codes.n_observations - 1))


def _steps_in(state: State, past: History, codes: Codes) -> Steps:
    """Return the observations without numbers, whose likelihoods are computed again and compared."""
    step_codes = past.step_codes
    values = array_in(state, "history_values", (len(codes), *step_codes.value_shape), finite=False)
    rows = array_in(state, "history_rows", (len(codes), step_codes.n_states), 0.0, 1.0)
    actions, numbers = np.divmod(codes.astype(np.int64), step_codes.n_codes)
    lost = [step_codes.is_missing(number) for number in numbers.tolist()]
    given = [None if none else value for none, value in zip(lost, values, strict=True)]
    again = step_codes.steps(actions, given)
    if not np.allclose(rows, again.rows, 1e-9, 1e-12):
        raise InvalidModelError("history_rows are not the likelihoods of history_values")
    return again._replace(rows=rows)


def _starts(past: History, setting: Setting, groups: Iterable[KernelGroup]) -> Iterator[Array]:
    """Yield the belief h_1 after every possible first observation."""
    codes, first = past.step_codes, setting.first_sensor
    readings: list[Reading | None] = [None, past.first]
    if first is not None and not codes.has_rows:
        readings += map(Reading, range(setting.n_observations))
    for reading in readings:
        begin = setting.initial * codes.first_likelihood(reading)
        if begin.any():
            yield begin / begin.sum()
        elif not all(group.movable for group in groups):  # possible only under a kernel's own initial
            yield begin
