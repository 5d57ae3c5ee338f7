"""The states of several units in one array for each name: taken apart as they were, and checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from psrl_pomdp import DirichletPrior, InvalidModelError, problem
from psrl_pomdp.inference.saved_states import stacked, total_time_in, unstacked


def states() -> list[dict[str, Any]]:
    return [
        {"time": 3, "belief": np.ones((2, 3)), "history": np.array([1, 2], np.uint16), "history_first": 1.0},
        {"time": 1, "belief": np.zeros((2, 3)), "history": np.array([], np.uint16)},
        {"time": 4, "belief": np.eye(2, 3), "history": np.array([3, 4, 5], np.uint16), "history_first": 2.0},
    ]


def test_units_come_back_as_they_were() -> None:
    given = states()
    state = {"units": 4, "time": 2, **stacked(given)}
    found = unstacked(state)
    assert [set(each) for each in found] == [set(each) for each in given]
    for one, other in zip(found, given, strict=True):
        for name, value in other.items():
            np.testing.assert_array_equal(np.asarray(one[name]), np.asarray(value))
            assert np.asarray(one[name]).dtype == np.asarray(value).dtype
    assert total_time_in(state) == 1 + 1 + 2 + 0 + 3
    assert unstacked({"time": 2}) == []


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("units", 5, "others_time"),
        ("units", 1 << 40, "others_time"),
        ("others_belief", np.ones((2, 2, 3)), "others_belief is not for 3 units"),
        ("others_history", np.zeros(4, np.uint16), "others_history has not the length"),
        ("others_history_lengths", np.array([2, -1, 4]), "others_history_lengths contains"),
        ("others_history_lengths", np.array([2, 0, 1 << 61]), "others_history"),
        ("others_history_first_present", np.array([True, True, True]), "others_history_first is not for 3"),
        ("others_history_first_present", np.array([True]), "others_history_first_present"),
    ],
)
def test_arrays_that_do_not_belong_to_the_units_are_refused(name: str, value: Any, error: str) -> None:
    state = {"units": 4, "time": 2, **stacked(states()), name: value}
    with pytest.raises(InvalidModelError, match=error):
        unstacked(state)


def test_a_time_that_no_unit_has_is_refused() -> None:
    state = {"units": 4, "time": 2, **stacked(states()), "others_time": np.array([3, -1, 4])}
    with pytest.raises(InvalidModelError, match="others_time contains"):
        total_time_in(state)


def test_an_array_of_one_unit_that_is_wrong_is_refused() -> None:
    world = problem("railway")
    prior = DirichletPrior(world.setting, np.ones_like(world.transition))
    posterior = prior.posterior(np.random.default_rng(1))
    for number in (1, 2):
        unit = posterior.new_unit()
        unit.start(None)
        for _ in range(number):
            unit.update(0, 0)
    state = posterior.state()
    prior.restore(state, np.random.default_rng(1))
    beliefs = np.array(state["others_belief"])
    beliefs[1] *= 0.9
    with pytest.raises(InvalidModelError, match="belief has a column"):
        prior.restore({**state, "others_belief": beliefs}, np.random.default_rng(1))
