"""`fleet.watch`: one false-alarm rate for all units, and what an alarm says."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from density_settings import setting_of
from psrl_pomdp import DirichletPrior, FinitePrior, Fleet, InvalidModelError, Log, Setting, UnknownNameError
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.agents.watch import weight

SENSOR = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
SETTING = Setting(
    SENSOR, [[0.0, 1.0], [0.4, 0.4]], [1.0, 0.0], states=["new", "worn"], actions=["run", "repair"],
    observations=["low", "middle", "high"],
)  # fmt: skip
KERNELS = np.array([[[[1 - p, p], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]] for p in (0.05, 0.1, 0.2)])


class Periodic:
    """A planner without planning: it repairs where worn is probable."""

    lower, upper, status = 0.0, 1.0, "none"

    @staticmethod
    def action(belief: Array) -> int:
        return int(belief[1] > 0.6)


def quick(rate: float = 0.01, seed: int = 0, **options: Any) -> Fleet:
    prior = FinitePrior(SETTING, KERNELS)
    return Fleet(prior, seed=seed, planner=lambda *_, **__: Periodic(), false_alarm_rate=rate, **options)


class World:
    """Units whose sensor may be another one than that of the setting."""

    def __init__(self, seed: int, kernel: Array, sensor: Array = SENSOR) -> None:
        self.rng, self.kernel, self.sensor = np.random.default_rng(seed), kernel, sensor
        self.states: dict[str, int] = {}

    def reading(self, fleet: Fleet, unit: str) -> int:
        if unit not in fleet.units or not fleet.unit(unit).present or fleet.unit(unit).action is None:
            self.states[unit] = 0
        else:
            row = self.kernel[fleet.unit(unit).action, self.states[unit]]
            self.states[unit] = int(self.rng.choice(2, p=row))
        return int(self.rng.choice(3, p=self.sensor[self.states[unit]]))

    def step(self, fleet: Fleet, *units: str) -> None:
        for unit in units:
            fleet.act(unit, self.reading(fleet, unit))


def test_the_weights_sum_to_one() -> None:
    assert sum(map(weight, range(1, 100))) + 1 / 100 == pytest.approx(1.0)


def test_the_value_of_the_fleet_is_the_weighted_sum_at_every_step() -> None:
    """From the e-values of `fit`, unit by unit, with 1 for all units that may still join."""
    fleet, world = quick(1e-9), World(1, KERNELS[1], SENSOR[:, ::-1])
    assert fleet.watch.e_value == pytest.approx(1.0)
    for step in range(40):
        units = "abc"[: 1 + step // 10]
        world.step(fleet, *units)
        with pytest.raises(UnknownNameError):  # which changes nothing, although another unit comes first
            fleet.act_all({units[-1]: 0, "d": "nothing"})
        fits = [posterior.fit.e_value for posterior in fleet.posterior.units[1:]]
        expected = sum(e / (k * (k + 1)) for k, e in enumerate(fits, start=1)) + 1 / (len(fits) + 1)
        assert fleet.watch.e_value == pytest.approx(expected)
        assert fleet._e_values.total(fleet.unit("a").posterior) == pytest.approx(expected)
        assert fleet.watch.e_values == pytest.approx(dict(zip("abc", fits, strict=False)))
    assert fleet.watch.e_value > 10.0  # so that the sums above are not sums of constants


def test_an_alarm_comes_at_the_first_crossing_of_its_threshold() -> None:
    fleet, world = quick(0.05), World(2, KERNELS[1], SENSOR[:, ::-1])
    crossed: dict[int, int] = {}
    for _ in range(80):
        world.step(fleet, "a", "b")
        for k, unit in enumerate("ab", start=1):
            value = math.exp(fleet.unit(unit).posterior.fit.largest_log_e_value)
            if value * weight(k) >= 1 / 0.05:
                crossed.setdefault(k, fleet.unit(unit).time)
    alarms = {alarm.history: alarm.step for alarm in fleet.watch.alarms if alarm.unit is not None}
    assert alarms == crossed
    assert set(alarms) == {1, 2}
    alarm = fleet.watch.of("a")[0]
    assert alarm.e_value >= 1 / (0.05 * 0.5) == pytest.approx(math.exp(alarm.log_threshold))
    assert alarm.begin is not None
    assert alarm.begin <= alarm.step
    assert str(alarm).startswith(f"a, step {alarm.step}: readings do not come as the model predicts them")
    assert json.loads(json.dumps(fleet.watch.to_dict()))["alarms"][0]["unit"] == alarm.unit
    assert fleet.watch.alarm


def test_an_alarm_says_what_was_expected_and_what_came() -> None:
    fleet, world = quick(0.05), World(3, KERNELS[0], np.array([[0.2, 0.7, 0.1], [0.1, 0.3, 0.6]]))
    while not fleet.watch.of("a"):
        world.step(fleet, "a")
    text = str(fleet.watch)
    assert "after run, low came in" in text or "after run, middle came in" in text
    assert "and the model expected" in text


def test_no_alarm_says_so() -> None:
    fleet = quick()
    world = World(4, KERNELS[1])
    for _ in range(30):
        world.step(fleet, "a", "b")
    assert str(fleet.watch) == (
        "No alarm in 58 readings of 2 units (false-alarm rate 1 % over the whole life)."
    )


def test_the_fleet_can_raise_an_alarm_that_no_unit_raises() -> None:
    """Three units that are wrong together: for some seed, F passes 1/α before one of its terms does."""
    found = False
    for seed in range(30):
        fleet, world = quick(0.05), World(seed, KERNELS[1], SENSOR[:, ::-1])
        while not fleet.watch.alarms:
            world.step(fleet, "a", "b", "c")
        first = fleet.watch.alarms[0]
        if first.unit is None:
            found = True
            assert str(first).startswith("The fleet, step ")
            assert first.e_value >= 20.0
            break
    assert found


def test_a_unit_that_comes_back_begins_anew() -> None:
    fleet, wrong, right = quick(0.05), World(2, KERNELS[1], SENSOR[:, ::-1]), World(3, KERNELS[1])
    while not fleet.watch.of("a"):
        wrong.step(fleet, "a")
    fleet.leave("a")
    right.step(fleet, "a")
    assert fleet.unit("a").posterior.unit_number == 2
    for _ in range(20):
        right.step(fleet, "a")
    assert len(fleet.watch.of("a")) == 1
    while len(fleet.watch.of("a")) < 2:
        wrong.step(fleet, "a")
    assert [alarm.history for alarm in fleet.watch.of("a")] == [1, 2]


def test_logs_are_watched_too() -> None:
    rng = np.random.default_rng(0)
    fleet = quick()
    fleet.learn(
        [
            Log(["low", "low"], ["run"], name="short"),
            Log([*rng.integers(1, 3, 300)], ["run", "repair"] * 150, name="pump 7"),
        ]
    )
    assert [alarm.unit for alarm in fleet.watch.alarms] == ["pump 7"]
    assert fleet.watch.alarms[0].history == 2


def test_alarms_are_saved_and_undone_with_a_failed_call() -> None:
    fleet = Fleet(FinitePrior(SETTING, KERNELS), false_alarm_rate=0.05)
    world = World(2, KERNELS[1], SENSOR[:, ::-1])
    while not fleet.watch.alarms:
        before = fleet.to_bytes()
        reading = world.reading(fleet, "a")
        fleet.act("a", reading)
    again = Fleet.from_bytes(fleet.to_bytes())
    assert again.watch == fleet.watch
    assert again.false_alarm_rate == 0.05
    last = Fleet.from_bytes(before)
    with pytest.raises(UnknownNameError):  # the second unit's reading does not exist
        last.act_all({"a": reading, "b": "higher"})
    assert last.watch.alarms == ()
    assert last.to_bytes() == before
    last.act_all({"a": reading})
    assert len(last.watch.alarms) == 1


def test_readings_that_cannot_be_compared() -> None:
    fleet = Fleet(DirichletPrior(setting_of("vectors"), np.ones((2, 3, 3))))
    assert str(fleet.watch) == "The readings of this setting cannot be compared with the model."
    assert quick().watch.tested
    with pytest.raises(InvalidModelError, match=r"false_alarm_rate is 0"):
        quick(0.0)


def test_false_alarms_of_plants_with_two_units() -> None:
    """200 plants with θ from the prior, at α = .1.

    A right test has more than 34 alarms with probability below 1e-3 (binomial, at the bound); this one has
    few, because e-values are careful. The random numbers are fixed.
    """
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng([seed, 7])
        fleet, world = quick(0.1, seed), World(seed, KERNELS[int(rng.integers(3))])
        for _ in range(25):
            world.step(fleet, "a", "b")
        alarms += fleet.watch.alarm
    assert alarms <= 34
