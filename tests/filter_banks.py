"""Filter banks of settings with numbered observations, for tests that compare with them."""

from __future__ import annotations

import numpy as np

from psrl_pomdp import Setting
from psrl_pomdp._utils.arrays import Array, Index
from psrl_pomdp.inference import filter_bank as filtering
from psrl_pomdp.inference.filter_bank import FilterBank
from psrl_pomdp.inference.predictive_test import kind_of_code
from psrl_pomdp.inference.step_codes import StepCodes


def new_bank(setting: Setting, kernels: Array, weights: Array) -> FilterBank:
    """A filter bank for kernels [N, A, S, S′] before the first observation."""
    return filtering.make_filter_bank(StepCodes(setting), kernels, weights)


def first_likelihood(setting: Setting, observation: int | None) -> Array:
    """η(o_1 | s), shape [S]."""
    codes = StepCodes(setting)
    return codes.first_likelihood(codes.first_reading(observation))


def start(own: FilterBank, initial: Array, likelihood: Array) -> bool:
    """Condition on the first observation, of which all kernels have the same likelihoods [S]."""
    return filtering.start_filters(own, initial, np.repeat(likelihood[:, None], initial.shape[1], axis=1))


def update(own: FilterBank, action: int, code: int) -> bool:
    """Take one step."""
    number = filtering.matrix_number(own, action, code)
    return filtering.update(own, action, number, kind_of_code(own.test, code), own.likelihood[action, code])


def update_many(own: FilterBank, actions: Index, codes: Index) -> int:
    """Take many steps."""
    return filtering.update_many(own, actions, codes, np.zeros((0, len(own.states))), codes)
