"""`fit_logs`: tables of many units, every bad row by its name, and warnings about what looks wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import (
    DirichletPrior,
    FinitePrior,
    Fleet,
    GaussianSensor,
    InvalidModelError,
    Log,
    MultivariateGaussianSensor,
    ParseError,
    Setting,
    fit_logs,
)
from psrl_pomdp.agents.log_tables import BadLinesError, Columns, read_table

SENSOR = [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]
SETTING = Setting(
    SENSOR, [[0.0, 1.0], [0.4, 0.4]], [1.0, 0.0], states=["new", "worn"], actions=["run", "repair"],
    observations=["low", "middle", "high"],
)  # fmt: skip
KERNELS = np.array([[[[1 - p, p], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]] for p in (0.05, 0.1, 0.2)])
PRIOR = FinitePrior(SETTING, KERNELS)
GOOD = """unit;time;reading;action;note
p2;3;high;;
p1;1;low;run;x
p1;3;2;repair;
p2;2;NA;repair;
p1;2;low;run;
"""


def written(path: Path, text: str) -> Path:
    file = path / "logs.csv"
    file.write_text(text, encoding="utf-8")
    return file


def run_of(rng: np.random.Generator, n: int, sensor: Any = SENSOR, p: float = 0.1) -> dict[str, list[Any]]:
    """n rows of one unit of a wear process that this file makes, with its true states."""
    state, rows = 0, {"time": [], "reading": [], "action": [], "state": []}  # type: ignore[var-annotated]
    for t in range(n):
        action = int(t % 10 == 9)
        for name, value in (
            ("time", t),
            ("reading", int(rng.choice(3, p=sensor[state]))),
            ("action", action),
            ("state", state),
        ):
            rows[name].append(value)
        state = 0 if action else int(state or rng.random() < p)
    return rows


def table_of(units: dict[str, dict[str, list[Any]]]) -> dict[str, list[Any]]:
    names = next(iter(units.values())).keys()
    table = {name: [value for rows in units.values() for value in rows[name]] for name in names}
    return {"unit": [unit for unit, rows in units.items() for _ in rows["time"]], **table}


def warned(found: Any, words: str) -> bool:
    return any(words in text for text in found.warnings)


# -- reading ------------------------------------------------------------------------------------------


def test_rows_are_sorted_by_unit_and_time(tmp_path: Path) -> None:
    text = GOOD.replace("p1;3;2;", "p1;3;high;")
    found = read_table(written(tmp_path, text), SETTING, Columns())
    assert [(u.name, u.times, u.observations, u.actions, u.lines) for u in found.units] == [
        ("p1", [1, 2, 3], [0, 0, 2], [0, 0, 1], [3, 6, 4]),
        ("p2", [2, 3], [None, 2], [1, None], [5, 2]),
    ]
    assert found.ignored == ("note",)


def test_the_fleet_has_learned_what_the_logs_say(tmp_path: Path) -> None:
    found = fit_logs(written(tmp_path, GOOD.replace("p1;3;2;", "p1;3;high;")), PRIOR)
    by_hand = Fleet(PRIOR)
    by_hand.learn([Log(["low", "low", "high"], ["run", "run", "repair"]), Log([None, "high"], ["repair"])])
    np.testing.assert_array_equal(found.fleet.posterior.weights, by_hand.posterior.weights)
    assert str(found).startswith("logs.csv: 5 rows of 2 units, from 1 to 3; 1 reading is missing.")
    assert found.to_dict()["rows"] == 5
    found.fleet.act("p1", "low")  # a unit joins at its first reading
    assert found.fleet.unit("p1").time == 1


def test_columns_rows_and_a_data_frame_give_the_same() -> None:
    columns: dict[str, list[Any]] = {
        "unit": ["a", "a", "b"],
        "time": [1, 2, 1],
        "reading": [0, float("nan"), 2],
        "action": [1, 0, None],
    }

    class Frame:
        """What of a data frame is used."""

        def __init__(self) -> None:
            self.columns = tuple(columns)

        def to_dict(self) -> dict[str, list[Any]]:
            raise AssertionError

        def __getitem__(self, name: str) -> list[Any]:
            return columns[name]

    rows = [{name: column[i] for name, column in columns.items()} for i in range(3)]
    found = [read_table(table, SETTING, Columns()) for table in (columns, rows, Frame())]
    assert found[0] == found[1] == found[2]
    assert found[0].units[0].observations == [0, None]


def test_every_bad_line_is_named(tmp_path: Path) -> None:
    text = """unit,time,reading,action
p1,1,hihg,run
p1,2,low,stop
p1,x,low,run
p1,4,low
,5,low,run
p1,6,low,run
p1,6,low,run
p2,1,low,
p2,2,5,run
"""
    with pytest.raises(BadLinesError) as caught:
        fit_logs(written(tmp_path, text), PRIOR)
    allowed = "allowed are low, middle, high"
    assert caught.value.lines == (
        "line 2, column reading: 'hihg' is no observation (did you mean 'high'?); " + allowed,
        "line 3, column action: 'stop' is no action; allowed are run, repair",
        "line 4, column time: 'x' is neither a number nor a date such as 2026-03-31 or 2026-03-31T14:00",
        "line 5: has 4 fields, the header has 4".replace("4 fields", "3 fields"),
        "line 6, column unit: is missing",
        "line 10, column reading: '5' is no observation; " + allowed,
        "line 8, column time: unit p1 has line 7 at the same time",
    )
    assert "logs.csv" in str(caught.value)


def test_an_action_may_be_missing_in_the_last_row_only(tmp_path: Path) -> None:
    with pytest.raises(
        BadLinesError, match="line 2, column action: is missing; only the last line of a unit"
    ):
        fit_logs(written(tmp_path, "unit,time,reading,action\na,1,low,\na,2,low,run\n"), PRIOR)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("unit,time,reading,action\n", "there are no rows"),
        ("unit,tme,reading,action\na,1,low,run\n", r"no column 'time' \(did you mean 'tme'\?\)"),
        ("unit,unit,time,reading,action\n", "the column 'unit' is there twice"),
        ('unit,time,reading,action\na,1,"low,run\n', "logs.csv"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        fit_logs(written(tmp_path, text), PRIOR)


def test_other_tables_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_bytes(b"unit,time\xff\n")
    with pytest.raises(ParseError, match="byte 9 is not UTF-8"):
        fit_logs(tmp_path / "logs.csv", PRIOR)
    with pytest.raises(InvalidModelError, match="the table is a int"):
        fit_logs(3, PRIOR)
    with pytest.raises(InvalidModelError, match="different lengths"):
        fit_logs({"unit": ["a"], "time": [], "reading": [], "action": []}, PRIOR)
    with pytest.raises(InvalidModelError, match="does not say that costs are seen"):
        fit_logs({"unit": ["a"], "time": [1], "reading": [0], "action": [0], "euro": [1]}, PRIOR, cost="euro")
    with pytest.raises(InvalidModelError, match="2 columns of readings"):
        fit_logs({}, PRIOR, reading=("a", "b"))


def test_a_line_break_in_a_field_does_not_shift_the_lines(tmp_path: Path) -> None:
    text = 'unit,time,reading,action,note\na,1,low,run,"two\nlines"\na,2,lo,run,\n'
    with pytest.raises(BadLinesError, match="line 4, column reading: 'lo'"):
        fit_logs(written(tmp_path, text), PRIOR)


def test_a_reading_that_no_state_explains_is_named_by_its_line(tmp_path: Path) -> None:
    sharp = FinitePrior(SETTING.replace(observation=[[1, 0, 0], [0, 0, 1]]), KERNELS)
    text = "unit,time,reading,action\nb,1,low,run\na,1,low,run\na,2,high,run\na,3,low,run\n"
    with pytest.raises(BadLinesError, match=r"line 5, unit a: observation 0 \(low\) has probability 0"):
        fit_logs(written(tmp_path, text), sharp)


def test_densities_dates_and_vectors(tmp_path: Path) -> None:
    own = Setting(
        GaussianSensor([0.0, 2.0], [1.0, 1.0]), SETTING.own_cost, [1.0, 0.0], actions=["run", "repair"]
    )
    text = "unit,day,mm,did\na,2026-01-01,0.3,run\na,2026-01-02,,run\na,2026-01-03,1.8,repair\n"
    prior = DirichletPrior(own, np.ones((2, 2, 2)))
    columns = {"time": "day", "reading": "mm", "action": "did"}
    found = fit_logs(written(tmp_path, text), prior, **columns)  # type: ignore[arg-type]
    assert "from 2026-01-01 to 2026-01-03" in str(found)
    by_hand = Fleet(prior)
    by_hand.learn([Log([0.3, None, 1.8], [0, 0, 1])])
    np.testing.assert_array_equal(found.fleet.posterior.weights, by_hand.posterior.weights)
    with pytest.raises(
        BadLinesError, match=r"line 2, column mm: '0,3' is not a number \(write a decimal point"
    ):
        fit_logs(written(tmp_path, text.replace("0.3", '"0,3"')), prior, **columns)  # type: ignore[arg-type]
    with pytest.raises(BadLinesError, match="line 3, column day: '7': the times before are dates"):
        fit_logs(written(tmp_path, text.replace("2026-01-02", "7")), prior, **columns)  # type: ignore[arg-type]
    sensor = MultivariateGaussianSensor([[0, 0], [2, 1]], np.eye(2))
    vectors = own.replace(observation=sensor, first_observation=None)
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    table = {"unit": ["a"] * 3, "time": days, "x": [0.1, None, 3], "y": [1, 2, 3], "action": [0, 0, 0]}
    found = fit_logs(table, DirichletPrior(vectors, np.ones((2, 2, 2))), reading=("x", "y"))
    observations = found.table.units[0].observations
    assert observations[1] is None  # a part of it is missing
    np.testing.assert_array_equal(observations[2], [3.0, 3.0])
    assert warned(found, "the first reading of each unit was not used")


def test_costs_are_learned_from() -> None:
    prior = FinitePrior(SETTING.replace(seen_cost="exact"), KERNELS)
    table: dict[str, list[Any]] = {"unit": ["a"] * 3, "time": [1, 2, 3], "reading": [0, None, 2]}
    table |= {"action": [0, 0, 1], "euro": [0, 1, None]}
    by_hand = Fleet(prior)
    by_hand.learn([Log([0, None, 2], [0, 0, 1], [0.0, 1.0, None])])
    found = fit_logs(table, prior, cost="euro").fleet.posterior.weights
    np.testing.assert_array_equal(found, by_hand.posterior.weights)
    assert not np.allclose(found, fit_logs(table, prior).fleet.posterior.weights)


# -- what looks wrong ---------------------------------------------------------------------------------


def test_gaps_are_warned_of_or_filled() -> None:
    table = {"unit": ["a"] * 5, "time": [1, 2, 3, 7, 8], "reading": [0, 0, 0, 2, 2], "action": [0] * 5}
    found = fit_logs(table, PRIOR)
    assert warned(found, "unit a has no rows for 3 steps between 3 and 7 (rows 2 and 3)")
    filled = fit_logs(table, PRIOR, gap_action="run")
    assert filled.warnings == ()
    assert filled.added == 3
    by_hand = Fleet(PRIOR)
    by_hand.learn([Log([0, 0, 0, None, None, None, 2, 2], [0] * 7)])
    np.testing.assert_array_equal(filled.fleet.posterior.weights, by_hand.posterior.weights)
    assert "5 rows of 1 unit" in str(filled)
    assert "3 missing steps were added" in str(filled)
    with pytest.raises(InvalidModelError, match="too many to be filled"):
        fit_logs({**table, "time": [1, 2, 3, 4, 1e9]}, PRIOR, gap_action=0)
    days = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=d) for d in (0, 1, 2, 9, 10)]
    assert warned(fit_logs({**table, "time": days}, PRIOR), "6 steps between 2026-01-03 and 2026-01-10")


def test_states_that_read_alike() -> None:
    alike = FinitePrior(SETTING.replace(observation=[[0.5, 0.3, 0.2], [0.45, 0.3, 0.25]]), KERNELS)
    rows = table_of({"a": run_of(np.random.default_rng(0), 20)})
    assert warned(fit_logs(rows, alike), "new and worn have nearly the same readings")
    assert fit_logs(rows, PRIOR).warnings == ()


def test_labels_that_agree_with_the_sensor_raise_no_warning() -> None:
    """20 tables of 200 right labels: a false warning has probability at most 2/1000 in each of them."""
    for seed in range(20):
        rows = table_of({"a": run_of(np.random.default_rng(seed), 200)})
        assert fit_logs(rows, PRIOR, state="state").warnings == (), seed


def test_labels_that_contradict_the_sensor() -> None:
    rows = table_of({"a": run_of(np.random.default_rng(0), 200)})
    swapped = {**rows, "state": [1 - s for s in rows["state"]]}
    found = fit_logs(swapped, PRIOR, state="state")
    assert warned(found, "labelled worn look like new")
    assert warned(found, "which is impossible after")
    noisy = table_of({"a": run_of(np.random.default_rng(0), 300, [[0.35, 0.55, 0.1], [0.1, 0.3, 0.6]])})
    found = fit_logs(noisy, PRIOR, state="state")
    assert warned(found, "readings that are labelled new do not come as the sensor says: ")
    density = Setting(GaussianSensor([0.0, 2.0], [1.0, 1.0]), SETTING.own_cost, [1.0, 0.0])
    values = {**swapped, "reading": [2.0 * (1 - s) for s in swapped["state"]]}
    assert warned(fit_logs(values, FinitePrior(density, KERNELS), state="state"), "labelled 1 look like 0")
    sharp = FinitePrior(SETTING.replace(observation=[[0.7, 0.3, 0.0], [0.1, 0.3, 0.6]]), KERNELS)
    table = {"unit": ["a"] * 2, "time": [1, 2], "reading": [0, 2], "action": [0, 0], "state": ["new", "new"]}
    assert warned(
        fit_logs(table, sharp, state="state"), "row 1, unit a: the state is labelled new, where this"
    )


def test_a_unit_whose_readings_do_not_fit_is_named_with_its_date() -> None:
    rng = np.random.default_rng(3)
    units = {f"p{i}": run_of(rng, 300) for i in range(8)}
    odd = run_of(rng, 300, [[0.2, 0.7, 0.1], [0.1, 0.8, 0.1]])
    units["p5"]["reading"] = units["p5"]["reading"][:100] + odd["reading"][100:]
    found = fit_logs(table_of(units), PRIOR)
    assert [text[:28] for text in found.warnings] == ["the readings of unit p5 do n"]
    begin = int(found.warnings[0].split("about ")[1].split(" ")[0])
    assert 80 <= begin <= 150
    assert "after run, " in found.warnings[0]


def test_progress_is_told_and_an_interrupt_is_passed_on() -> None:
    rows = table_of({name: run_of(np.random.default_rng(0), 10) for name in "abc"})
    seen: list[tuple[int, int]] = []
    fit_logs(rows, PRIOR, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(1, 3), (2, 3), (3, 3)]

    def stop(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_logs(rows, PRIOR, progress=stop)
