"""Input that no person would write: refused on one line, with the exit code of other mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import run as command
from psrl_pomdp import ParseError, PSRLAgent, problem
from psrl_pomdp.studies import read_study
from psrl_pomdp.studies.results import check_result, jobs_of
from psrl_pomdp.studies.runner import run
from psrl_pomdp.studies.store import Store
from psrl_pomdp.studies.study import study_from

GOOD = 'problem = "tiger"\nhorizon = 10\nseeds = 1\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 5000, "not a study in TOML"),
        ("a = " + "{a=" * 5000, "not a study in TOML"),
        (GOOD.replace("10", "9" * 5000), "not a study in TOML"),
        (GOOD.replace("10", "1e30"), "horizon"),
        (GOOD.replace("10", "1" + "0" * 18), "horizon is 1000000000000000000: wanted from 1 to 1000000000"),
        (GOOD.replace("= 1\n", "= 1000000000000\n"), "seeds is 1000000000000: wanted from 1 to 1000000"),
        (GOOD + "seed = " + "9" * 30, "seed is 9"),
        (GOOD + "max_work = inf", "max_work is inf"),
        (GOOD + '[[agents]]\nkind = "psrl"\nschedule = "fixed-' + "9" * 400 + '"', "schedule"),
    ],
)
def test_studies_that_ask_too_much(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(text)
    with pytest.raises(ParseError, match=message):
        read_study(path)
    code, out, err = command("run", str(path), "--out", str(tmp_path / "out"), capsys=capsys)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("value", "code"), [("name=1", 1), ("accuracy=" + "9" * 5000, 2), ("accuracy=" + "[" * 5000, 2)]
)
def test_parameters_that_are_none(value: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    found, out, err = command("show", "tiger", "-p", value, capsys=capsys)
    assert (found, out) == (code, "")
    assert "Traceback" not in err
    assert len(err) < 1000


def test_characters_that_drive_a_terminal_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model: dict[str, Any] = {"transition": [[[1]]], "observation": [[1]], "initial": [1], "cost": [[1]]}
    model |= {"name": "a\u202eb", "states": ["\x1b[2J\u2066x\U000e0001"]}
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(model))
    code, out, _ = command("show", str(path), "--json", capsys=capsys)
    assert code == 0
    assert all(character.isprintable() or character == "\n" for character in out)
    assert "a\u202eb" in json.dumps(json.loads(out), ensure_ascii=False)
    path.write_text(json.dumps(model | {"states": ["\u202e", "\u202e"]}))
    code, out, err = command("show", str(path), capsys=capsys)
    assert (code, out) == (1, "")
    assert all(character.isprintable() for character in err[:-1])


def test_results_that_no_job_leaves(tmp_path: Path) -> None:
    study = study_from({"problem": "separated", "horizon": 30, "seeds": 1, "tolerance": 1e-2})
    store = Store.create(tmp_path / "s", study)
    run(store, workers=1)
    good = store.read(jobs_of(study)[0])
    odd: list[dict[str, Any]] = [
        {"times": [1, 2]},
        {"control": good["control"][:-1]},
        {"control": [None] * len(good["control"])},
        {"units": [1.0, 1.0, "cost", ""]},
        {"promised": None},
        {"episodes": good["episodes"] | {"start": good["episodes"]["start"][:-1]}},
        {"truth": good["truth"] | {"lower": 2.0}},
        {"cost": [1e300] * len(good["cost"])},
        {"violations": 3},
    ]
    check_result(good, study, "good")
    for change in odd:
        with pytest.raises(ParseError, match="the result is not one"):
            check_result(good | change, study, "odd")


def test_agents_are_saved_before_they_begin_and_after_a_log(tmp_path: Path) -> None:
    model = problem("railway")
    for prior in (model.family, model.prior):
        assert prior is not None
        fresh, late = PSRLAgent(prior, seed=1), PSRLAgent(prior, seed=1)
        late.learn([0, 1, None, 2], [0, 1, 0, 0])
        for agent in (fresh, late):
            again = PSRLAgent.from_bytes(agent.to_bytes())
            readings = [0, None, 1, 2, 0]
            assert [again.act(o) for o in readings] == [agent.act(o) for o in readings]
            assert again.to_bytes() == PSRLAgent.from_bytes(again.to_bytes()).to_bytes()
