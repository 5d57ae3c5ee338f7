"""What results, tables and pages say of the test of the model."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from psrl_pomdp import POMDP, PSRLAgent, plan, problem, simulate
from psrl_pomdp.errors import ParseError
from psrl_pomdp.report.fit_text import e_value_text, fit_sentences
from psrl_pomdp.report.page import page
from psrl_pomdp.report.page_data import PageData
from psrl_pomdp.simulation.trace import Trace
from psrl_pomdp.studies.jobs import perform, result_of
from psrl_pomdp.studies.results import FitResult, Job, RunResult, check_result, decode, encode, jobs_of
from psrl_pomdp.studies.store import Store
from psrl_pomdp.studies.study import Study, study_from
from psrl_pomdp.studies.tables import fit_rows, write_tables

WORDS: dict[str, Any] = {
    "problem": "railway",
    "horizon": 1000,
    "seeds": 3,
    "agents": [{"kind": "psrl"}, {"kind": "oracle"}, {"kind": "random"}],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    study = study_from(WORDS)
    store = Store.create(tmp_path_factory.mktemp("fit") / "r", study)
    for job in jobs_of(study):
        store.write(job, perform(study, job))
    return store


def told() -> PSRLAgent:
    family = problem("railway").family
    assert family is not None
    return PSRLAgent(family, seed=1)


@pytest.fixture(scope="module")
def drifted() -> Trace:
    """A run in which the sensor is not what the agent was told."""
    model = problem("railway")
    right = model.setting.observation[0]
    wrong = model.setting.replace(observation=0.6 * right + 0.4 * np.roll(right, 1, axis=1))
    return simulate(POMDP(wrong, model.transition), told(), 1000, seed=1)


def result_for(store: Store, job: Job, trace: Trace) -> RunResult:
    return result_of(store.study, job, trace, plan(trace.model, 1e-2))


def test_results_and_tables_have_the_largest_e_value(store: Store) -> None:
    result, without = store.read(Job("psrl", 1)), store.read(Job("random", 1))
    assert without.fit is None
    assert without.log_e_value is None
    assert result.fit is not None
    assert result.log_e_value is not None
    assert result.log_e_value == sorted(result.log_e_value)
    assert len(result.log_e_value) == len(result.times)
    assert result.fit.readings == 999  # all but the first observation, and that after the last action
    with write_tables(store)[2].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["agent"], row["run"]) for row in rows] == [(a, r) for r in "012" for a in ("psrl", "oracle")]
    mine = rows[2]
    assert (mine["readings"], mine["alarm"], mine["departures"]) == ("999", "", "")
    assert float(mine["log_e_value"]) == result.log_e_value[-1]
    assert float(mine["p_value"]) == math.exp(-result.log_e_value[-1])


def test_the_e_value_of_a_checkpoint_is_that_of_a_shorter_run(drifted: Trace) -> None:
    short = simulate(drifted.model, told(), 100, seed=1)
    assert short.fit is not None
    at = drifted.times.tolist().index(100)
    assert drifted.checkpoints.log_e_value[at] == short.fit.largest_log_e_value
    assert drifted.checkpoints.log_e_value[-1] > drifted.checkpoints.log_e_value[at]


def test_a_result_has_the_alarms_of_the_run(store: Store, drifted: Trace) -> None:
    result = result_for(store, Job("psrl", 0), drifted)
    assert drifted.fit is not None
    assert result.fit is not None
    assert result.fit.alarm_time(0.01) == drifted.fit.alarm_time(0.01)
    assert result.fit.begin == drifted.fit.begin
    assert result.fit.departures == [str(each) for each in drifted.fit.departures]
    assert result.log_e_value is not None
    assert result.log_e_value[-1] == drifted.fit.largest_log_e_value
    assert decode(encode(result), "x") == result
    [row] = fit_rows(result)
    assert row[:2] == ("psrl", 0)
    assert row[4:7] == (
        math.exp(-drifted.fit.largest_log_e_value),
        drifted.fit.alarm_time(),
        drifted.fit.begin,
    )
    assert row[7].startswith(str(drifted.fit.departures[0]))


def test_the_page_says_that_observations_came_as_predicted(store: Store) -> None:
    [sentence] = fit_sentences(PageData(store))
    assert sentence.startswith("The observations of psrl and oracle came as predicted: no alarm in 6 runs.")
    text = page(PageData(store), steps=0)
    assert sentence in text
    assert "at most 1 % of the runs" in text


def test_the_page_says_which_agent_is_wrong_and_when(store: Store, drifted: Trace, tmp_path: Path) -> None:
    other = Store.create(tmp_path / "r", store.study)
    for job in jobs_of(store.study):
        wrong = job == Job("psrl", 2)
        other.write(job, encode(result_for(store, job, drifted)) if wrong else store.path(job).read_bytes())
    silent, alarmed = fit_sentences(PageData(other))
    assert silent.startswith("The observations of oracle came as predicted: no alarm in 3 runs.")
    assert drifted.fit is not None
    assert "The observations of psrl did not come as predicted" in alarmed
    assert "alarm in 1 of 3 runs" in alarmed
    assert f"In run 2 it came at step {drifted.fit.alarm_time(0.01):,}" in alarmed
    assert f"reached {e_value_text(drifted.fit.largest_log_e_value)}; {drifted.fit.departures[0]}" in alarmed
    assert "not excluded" not in alarmed


def weakened(store: Store, folder: Path, log_e_value: float, study: Study) -> list[str]:
    """Return the sentences if one run has an alarm with so much evidence."""
    other = Store.create(folder, study)
    for job in jobs_of(study):
        result = store.read(job)
        if job == Job("psrl", 0):
            values = [*result.log_e_value[:-1], log_e_value]  # type: ignore[index]
            fit = FitResult(999, [(0.1, 60), (0.05, 70), (0.01, 80)], 50, [])
            result = msgspec.structs.replace(result, log_e_value=values, fit=fit)
        other.write(job, encode(result))
    return fit_sentences(PageData(other))


def test_weak_evidence_among_many_runs_is_called_weak(store: Store, tmp_path: Path) -> None:
    weak = weakened(store, tmp_path / "a", math.log(299.0), store.study)[1]
    assert weak.endswith("the e-value reached 299; among 3 runs, a false alarm is not excluded.")
    strong = weakened(store, tmp_path / "b", math.log(301.0), store.study)[1]
    assert strong.endswith("the e-value reached 301.")


@pytest.mark.parametrize(
    "changes",
    [
        {"log_e_value": [0.0]},
        {"log_e_value": None},
        {"fit": None},
        {"fit": FitResult(1, [(2.0, 3)], None, [])},
    ],
)
def test_a_result_with_a_foreign_test_is_refused(store: Store, changes: dict[str, Any]) -> None:
    result = store.read(Job("psrl", 0))
    check_result(result, store.study, "x")
    with pytest.raises(ParseError, match="do not fit"):
        check_result(msgspec.structs.replace(result, **changes), store.study, "x")
    negative = [-1.0, *result.log_e_value[1:]]  # type: ignore[index]
    with pytest.raises(ParseError, match="the e-values do not fit"):
        check_result(msgspec.structs.replace(result, log_e_value=negative), store.study, "x")


def test_results_without_a_test_of_the_model_are_read(store: Store) -> None:
    """Files of version 0.2 have none."""
    result = store.read(Job("psrl", 0))
    old = msgspec.structs.replace(result, log_e_value=None, fit=None)
    check_result(old, store.study, "x")
    words = msgspec.json.decode(encode(old))["result"]
    del words["log_e_value"], words["fit"]
    assert msgspec.convert(words, RunResult) == old
