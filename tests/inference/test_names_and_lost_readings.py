"""Readings and actions by name, readings that were lost, and what errors say about both."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import (
    DirichletPrior,
    FinitePrior,
    InvalidModelError,
    OutOfOrderError,
    PSRLAgent,
    Setting,
    UnknownNameError,
)
from psrl_pomdp.agents.baselines.memoryless import MemorylessAgent, MemorylessPolicy
from psrl_pomdp.agents.baselines.oas_ucrl import OASUCRL
from psrl_pomdp.agents.baselines.tsde import TSDEAgent
from psrl_pomdp.agents.psrl import PlanningBudget
from psrl_pomdp.inference.encoding import is_lost, reading_numbers

COARSE = PlanningBudget(min_tolerance=0.02, max_tolerance=0.05)
READINGS: tuple[Any, ...] = ("low", None, "high", "low", "high", "high")
NUMBERS: tuple[Any, ...] = (0, None, 1, 0, 1, 1)
Maker = Callable[[], Any]


def pump(first: bool = True, named: bool = True) -> FinitePrior:
    rng = np.random.default_rng(3)
    names: dict[str, Any] = {"actions": ["run", "mend"], "observations": ["low", "high"]} if named else {}
    sensor = [[0.8, 0.2], [0.3, 0.7]]
    setting = Setting(
        sensor, [[0.0, 1.0], [0.4, 0.5]], [1.0, 0.0], np.array(sensor) if first else None, **names
    )
    return FinitePrior(setting, rng.dirichlet(np.ones(2), size=(3, 2, 2)))


def rows(**words: Any) -> DirichletPrior:
    return DirichletPrior(pump(**words).setting, np.ones((2, 2, 2)))


def pandas_na() -> Any:
    """An object that looks like the NA of pandas: its truth value cannot be asked for."""

    def refuse(self: object) -> bool:
        raise TypeError("boolean value of NA is ambiguous")

    kind = type("NAType", (), {"__module__": "pandas._libs.missing", "__bool__": refuse, "__eq__": refuse})
    return kind()


AGENTS: dict[str, Maker] = {
    "psrl, finite": lambda: PSRLAgent(pump(), seed=1, budget=COARSE),
    "psrl, dirichlet": lambda: PSRLAgent(rows(), seed=1, budget=COARSE),
    "tsde": lambda: TSDEAgent(rows(), 1, budget=COARSE),
    "oas-ucrl": lambda: OASUCRL(pump().setting, 1, budget=COARSE),
}


@pytest.mark.parametrize("made", AGENTS.values(), ids=AGENTS.keys())
def test_names_do_what_numbers_do(made: Maker) -> None:
    by_name, by_number = made(), made()
    assert [by_name.act(o) for o in READINGS] == [by_number.act(o) for o in NUMBERS]


@pytest.mark.parametrize("made", AGENTS.values(), ids=AGENTS.keys())
@pytest.mark.parametrize("lost", [float("nan"), np.float64("nan"), pandas_na()], ids=["nan", "numpy", "NA"])
def test_nan_and_pandas_na_are_lost_readings(made: Maker, lost: Any) -> None:
    one, other = made(), made()
    marked = [lost if o is None else o for o in (*NUMBERS, None)]
    assert [one.act(o) for o in marked] == [other.act(o) for o in (*NUMBERS, None)]


@pytest.mark.parametrize("lost", [None, float("nan"), pandas_na()], ids=["None", "nan", "NA"])
def test_the_first_reading_may_be_lost_too(lost: Any) -> None:
    one, other = PSRLAgent(pump(), seed=2, budget=COARSE), PSRLAgent(pump(), seed=2, budget=COARSE)
    assert one.act(lost) == other.act(None)
    assert np.array_equal(one.info.belief, other.info.belief)


def test_a_memoryless_policy_takes_lost_readings() -> None:
    policy = MemorylessPolicy(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 0.5)
    agent = MemorylessAgent(policy, seed=0)
    readings: list[Any] = [0, float("nan"), pandas_na(), 1]
    assert [agent.act(o) for o in readings] == [0, 1, 1, 0]
    with pytest.raises(UnknownNameError, match="'low': this setting does not name its observations"):
        agent.act("low")


@pytest.mark.parametrize("prior", [pump(), rows()], ids=["finite", "dirichlet"])
def test_a_log_may_hold_names_numbers_floats_and_lost_readings(prior: Any) -> None:
    logs: list[tuple[Any, Any]] = [
        (NUMBERS, [0, 1, 0, 0, 1, 0]),
        (READINGS, ["run", "mend", "run", "run", "mend", "run"]),
        (["low", np.nan, 1, 0, "high", 1.0], ["run", 1, 0.0, 0, "mend", "run"]),
        (np.array([0, np.nan, 1, 0, 1, 1]), np.array([0.0, 1, 0, 0, 1, 0])),
        ([0, pandas_na(), 1, 0, 1, 1], np.array([0, 1, 0, 0, 1, 0], np.uint8)),
        (np.array(READINGS, object), np.array(["run", "mend", "run", "run", "mend", "run"])),
    ]
    found = []
    for readings, actions in logs:
        agent = PSRLAgent(prior, seed=4, budget=COARSE)
        agent.learn(readings, actions)
        agent.act("low")
        found.append(np.concatenate([agent.posterior.weights, agent.info.belief]))
    assert all(np.array_equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("prior", [pump(), rows()], ids=["finite", "dirichlet"])
def test_a_posterior_takes_names_too(prior: Any) -> None:
    one, other = (prior.posterior(np.random.default_rng(0)) for _ in range(2))
    one.start("low")
    one.update("mend", "high")
    one.update_many(["run", "mend"], ["low", -1])
    other.start(0)
    other.update(1, 1)
    other.update_many([0, 1], [0, -1])
    assert np.array_equal(one.weights, other.weights)
    assert np.array_equal(one.expected_counts, other.expected_counts)


def test_typos_are_told_with_what_may_have_been_meant() -> None:
    agent = PSRLAgent(pump(), seed=1, budget=COARSE)
    with pytest.raises(UnknownNameError, match=r"unknown observation 'hihg' \(did you mean 'high'\?\)"):
        agent.act("hihg")
    assert agent.act("high") in (0, 1)
    with pytest.raises(UnknownNameError, match=r"^unknown observation 'lov' .*the names are low, high$"):
        agent.act("lov")
    log = PSRLAgent(pump(), seed=1, budget=COARSE)
    with pytest.raises(UnknownNameError, match=r"actions\[1\]: unknown action 'mned' \(did you mean"):
        log.learn(["low", "low"], ["run", "mned"])
    with pytest.raises(UnknownNameError, match=r"observations\[2\]: unknown observation 'lw'"):
        log.learn(["low", "low", "lw"], ["run"] * 3)
    with pytest.raises(UnknownNameError, match=r"observations\[1\]: observation 0.5 is not an integer"):
        log.learn([0, 0.5], [0, 0])
    with pytest.raises(InvalidModelError, match="one list of numbers or names"):
        log.learn([0, [0, 1]], [0, 0])
    log.learn(["low", "low"], ["run", "mend"])  # and nothing was taken in before


def test_names_where_the_setting_has_none() -> None:
    agent = PSRLAgent(pump(named=False), seed=1, budget=COARSE)
    with pytest.raises(UnknownNameError, match=r"does not name its .*; they are numbered 0 to 1"):
        agent.act("low")


@pytest.mark.parametrize("made", [pump, rows], ids=["finite", "dirichlet"])
def test_a_first_reading_where_there_is_none_is_told_in_words_of_every_caller(made: Any) -> None:
    """The user called `act` or `learn`: an error must not speak of `start`."""
    prior = made(first=False)
    for call in (
        lambda: PSRLAgent(prior, seed=1, budget=COARSE).act(0),
        lambda: PSRLAgent(prior, seed=1, budget=COARSE).learn([0, 1], [0, 0]),
        lambda: prior.posterior(np.random.default_rng(0)).start(0),
    ):
        with pytest.raises(
            OutOfOrderError, match="no observation before the first action; pass None"
        ) as told:
            call()
        assert "start(" not in str(told.value)


def test_numbers_in_bulk_agree_with_numbers_one_by_one() -> None:
    setting = pump().setting
    found = reading_numbers(setting, [0, 1, None, "high", np.int64(1), 1.0, float("nan")])
    assert found.tolist() == [0, 1, 2, 1, 1, 1, 2]
    assert reading_numbers(setting, []).tolist() == []
    with pytest.raises(UnknownNameError, match=r"observations\[0\]: observation -1 is out of range"):
        reading_numbers(setting, [-1])


def test_nothing_else_is_lost() -> None:
    impostor = type("NAType", (), {"__module__": "elsewhere"})()
    for value in (0, -1, "", "nan", False, float("inf"), impostor, [], object()):
        assert not is_lost(value)


def test_the_real_pandas_na_is_lost() -> None:
    pandas: ModuleType = pytest.importorskip("pandas")
    assert is_lost(pandas.NA)
    column = pandas.array([0, None, 1], dtype="Int64")
    assert reading_numbers(pump().setting, column).tolist() == [0, 2, 1]
    assert "pandas" in sys.modules
