"""Setting, POMDP and Units: what is accepted, what is refused and how, and that nothing changes."""

from __future__ import annotations

import copy
import pickle
import sys
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psrl_pomdp import POMDP, InvalidModelError, Setting, Units

SENSOR = [[0.9, 0.1], [0.2, 0.8]]
COST = [[0.0, 1.0], [0.5, 0.5], [0.2, 0.9]]
START = [1.0, 0.0]
KERNEL = [[[0.9, 0.1], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]]
NAMES: dict[str, Any] = {
    "states": ["fine", "worn"],
    "actions": ["run", "replace", "toss"],
    "observations": ["ok", "odd"],
}


def setting(**changes: Any) -> Setting:
    given: dict[str, Any] = {"observation": SENSOR, "cost": COST, "initial": START}
    return Setting(**(given | changes))


def model(transition: Any = KERNEL, **changes: Any) -> POMDP:
    return POMDP(setting(**changes), transition)


def test_shapes_and_defaults() -> None:
    m = model()
    assert (m.n_states, m.n_actions, m.n_observations) == (2, 3, 2)
    assert m.setting.observation.shape == (3, 2, 2)
    assert m.setting.first_observation is not None
    assert (m.setting.first_observation == SENSOR).all()
    assert m.setting.states == ("0", "1")
    assert model(**NAMES).setting.actions == ("run", "replace", "toss")


def test_first_reading_by_default_only_where_no_action_changes_the_sensor() -> None:
    by_action = np.array([SENSOR, SENSOR, [[0.5, 0.5], [0.5, 0.5]]])
    assert setting(observation=by_action).first_observation is None
    assert setting(observation=by_action).sensor_depends_on_action
    assert setting(first_observation=None).first_observation is None
    own = setting(observation=by_action, first_observation=SENSOR).first_observation
    assert own is not None
    assert (own == SENSOR).all()


def test_arrays_are_ours_and_read_only() -> None:
    kernel, sensor = np.array(KERNEL), np.asfortranarray(SENSOR)
    m = model(kernel, observation=sensor)
    kernel[0, 0, 0] = sensor[0, 0] = 7.0
    assert m.transition[0, 0, 0] == 0.9
    for clone in (m, copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert clone == m
        own = clone.setting
        arrays = [clone.transition, own.observation, own.cost, own.initial, own.first_observation]
        for array in arrays:
            assert array is not None
            assert array.dtype == np.float64
            assert array.flags.c_contiguous
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
    with pytest.raises(AttributeError, match="frozen"):
        m.name = "other"
    with pytest.raises(AttributeError, match="frozen"):
        del m.transition


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: model([[[0.9, 0.07], [0, 1]], *KERNEL[1:]]), "transition[a=0, s=0] sums to 0.97"),
        (
            lambda: model([*KERNEL[:2], [[0.5, 0.5], [1.5, -0.5]]], **NAMES),
            "transition[a=toss, s=worn, s′=worn] is -0.5, negative",
        ),
        (
            lambda: model([[[0.9, 0.1], [0, np.nan]], *KERNEL[1:]], **NAMES),
            "transition[a=run, s=worn, s′=worn] is nan",
        ),
        (
            lambda: model(KERNEL[:2]),
            "transition has shape (2, 2, 2), expected (3, 2, 2) for 3 actions and 2 states",
        ),
        (lambda: model(KERNEL[0]), "transition has shape (2, 2), not [a, s, s′]"),
        (lambda: model([[[0.5], [0.5, 0.5]]]), "transition is not an array of numbers"),
        (lambda: model("dynamics"), "transition is not an array of numbers"),
        (lambda: setting(observation=[[0.9, 0.2], [0.2, 0.8]]), "observation[a=0, s=0] sums to 1.1"),
        (
            lambda: setting(observation=[[0.9, 0.1], [0.2, 0.7]], **NAMES),
            "observation[a=run, s=worn] sums to 0.9",
        ),
        (lambda: setting(observation=[[0.9, 0.1]]), "observation has shape (3, 1, 2)"),
        (lambda: setting(observation=[0.9, 0.1]), "not [a, s, o] or [s, o] or [a, s, s′, o]"),
        (lambda: setting(cost=[0.0, 1.0]), "cost has shape (2,), not [a, s]"),
        (lambda: setting(cost=[[0.0, np.inf]] * 3, **NAMES), "cost[a=run, s=worn] is inf"),
        (lambda: setting(cost=np.zeros((0, 2))), "cost is empty"),
        (lambda: setting(cost=[[-1e308, 1e308]] * 3), "must be positive and finite"),
        (lambda: setting(initial=[0.5, 0.4]), "initial sums to 0.9"),
        (lambda: setting(initial=[0.5, 0.25, 0.25]), "initial has shape (3,)"),
        (lambda: setting(initial=[2.0, -1.0], **NAMES), "initial[s=worn] is -1, negative"),
        (lambda: setting(first_observation=[[1.0]]), "first_observation has shape (1, 1)"),
        (lambda: setting(first_observation=[[0.5, 0.5], [0.5, 0.4]]), "first_observation[s=1] sums to 0.9"),
        (lambda: setting(states=["only-one"]), "states has 1 names, but the model has 2 states"),
        (lambda: setting(states=["twice", "twice"]), "'twice' twice"),
        (lambda: setting(actions="run"), "not a list of names"),
        (lambda: setting(actions=["run", "", "toss"]), "actions[1] is '', not a name"),
        (lambda: setting(units=Units(0, 10), cost=[[0, 2.0]] * 3), "cost[a=0, s=1] is 2, outside [0, 1]"),
        (lambda: POMDP("tiger", KERNEL), "setting is a str"),  # type: ignore[arg-type]
        (lambda: Units(1.0, 1.0), "must be positive and finite"),
        (lambda: Units(kind="profit"), "'profit', not 'cost' or 'reward'"),  # type: ignore[arg-type]
    ],
)
def test_refusals_name_the_entry(build: Any, message: str) -> None:
    with pytest.raises(InvalidModelError) as caught:
        build()
    assert message in str(caught.value)


def test_rows_within_tolerance_are_renormalized_and_others_refused() -> None:
    kernel = np.array(KERNEL)
    kernel[0, 0] = [0.9, 0.1 + 5e-10]
    assert abs(model(kernel).transition[0, 0].sum() - 1) < 1e-15
    kernel[0, 0] = [0.9, 0.1 + 5e-9]
    with pytest.raises(InvalidModelError, match="sums to"):
        model(kernel)


def test_normalising_twice_changes_no_bit() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        kernel = rng.dirichlet(np.full(5, 0.3), size=(2, 5)) * (1 + 1e-10 * rng.standard_normal((2, 5, 1)))
        base = Setting(np.eye(5), rng.random((2, 5)), np.eye(5)[0])
        once = POMDP(base, kernel)
        assert POMDP(base, once.transition).fingerprint == once.fingerprint


def test_equality_sees_every_number_and_name() -> None:
    assert model() == model()
    assert hash(model()) == hash(model())
    assert model(**NAMES) != model()
    assert model(cost=[[0.0, 1.0], [0.5, 0.5], [0.2, 0.9 + 1e-16 + 1e-15]]) != model()
    assert model(first_observation=None) != model()
    assert model() != 3
    assert POMDP(setting(), KERNEL, name="x", remarks=["y"]) == model()


def test_costs_in_the_unit_interval_stay_as_they_are() -> None:
    assert (setting().cost == COST).all()
    assert setting().units == Units()
    rewards = Setting.from_rewards(SENSOR, [[0.25, 1.0]], START)
    assert rewards.cost.tolist() == [[0.75, 0.0]]
    assert rewards.own_cost.tolist() == [[0.25, 1.0]]


def test_other_scales_are_mapped_and_mapped_back() -> None:
    euro = setting(cost=[[10.0, 100.0], [210.0, 300.0], [10.0, 810.0]], units="euro")
    assert euro.units == Units(10.0, 810.0, "cost", "euro")
    assert (euro.cost.min(), euro.cost.max()) == (0.0, 1.0)
    assert euro.own_cost == pytest.approx(np.array([[10, 100], [210, 300], [10, 810.0]]))
    profit = Setting.from_rewards(SENSOR, [[-100.0, 10.0], [-1.0, -1.0]], START)
    assert profit.cost == pytest.approx(np.array([[1.0, 0.0], [0.1, 0.1]]))
    assert profit.own_cost == pytest.approx(np.array([[-100.0, 10.0], [-1.0, -1.0]]))


@pytest.mark.parametrize("constant", [0.0, 0.5, 7.0, -3.0, 1e20, -1e-20])
def test_a_constant_cost_is_legal(constant: float) -> None:
    for make in (Setting, Setting.from_rewards):
        made = make(SENSOR, [[constant, constant]], START)
        assert ((made.cost >= 0) & (made.cost <= 1)).all()
        assert made.own_cost == pytest.approx(np.full((1, 2), constant), rel=1e-15)


numbers = st.floats(-1e12, 1e12, allow_nan=False)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(numbers, min_size=1, max_size=6), st.sampled_from(["cost", "reward"]))
def test_units_map_into_the_interval_and_back(values: list[float], kind: Any) -> None:
    own = np.array(values)
    units = Units.spanning(own, kind)
    scaled = units.to_scaled(own)
    assert ((scaled >= 0) & (scaled <= 1)).all()
    width = units.high - units.low
    assert np.abs(units.from_scaled(scaled) - own).max() <= 4e-16 * (width + np.abs(own).max())
    # Better for the user is cheaper for the model.
    order = np.argsort(own if kind == "cost" else -own, kind="stable")
    assert (np.diff(scaled[order]) >= 0).all()
    assert units.difference(1.0) == width


def test_pickles_of_version_0_1_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 0.1 had one module `model`; pickles name the module of a class."""
    monkeypatch.delitem(sys.modules, "psrl_pomdp.model", raising=False)  # Python warns once
    with pytest.warns(DeprecationWarning, match=r"psrl_pomdp\.model is now psrl_pomdp\.models"):
        old = import_module("psrl_pomdp.model")
    assert (old.POMDP, old.Setting, old.Units) == (POMDP, Setting, Units)
    m = model()
    by_place = pickle.dumps(m, protocol=0)
    by_old_path = by_place
    for place in (b"setting", b"pomdp", b"units"):
        by_old_path = by_old_path.replace(b"psrl_pomdp.models." + place, b"psrl_pomdp.model")
    assert by_old_path != by_place
    assert pickle.loads(by_old_path).fingerprint == m.fingerprint
