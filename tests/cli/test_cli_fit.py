"""`psrl-pomdp fit` and `diagnose`: from a CSV file to a fleet."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from commands import run
from psrl_pomdp import POMDP, Fleet, PSRLAgent, Setting, problem, save

SENSOR = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
SETTING = Setting(
    SENSOR, [[0.0, 100.0], [40.0, 40.0]], [1.0, 0.0], states=["new", "worn"], actions=["run", "repair"],
    observations=["low", "middle", "high"], units="euro",
)  # fmt: skip
KERNEL = np.array([[[0.9, 0.1], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]])


def plant(path: Path, odd: str = "", n: int = 60) -> None:
    """Write a model, a plant file, and logs of four pumps; the sensor of the pump `odd` is broken."""
    save(POMDP(SETTING, KERNEL), path / "pump.json")
    (path / "plant.toml").write_text('name = "pumps"\nmodel = "pump.json"\nprior = "dirichlet"\nseed = 1\n')
    rng = np.random.default_rng(1)
    rows = ["day,pump,vibration,done,found"]
    for pump in ("P1", "P2", "P3", "P4"):
        state = 0
        for day in range(1, n + 1):
            row = SENSOR[1 - state] if pump == odd else SENSOR[state]
            action = int(day % 10 == 0)
            reading = SETTING.observations[int(rng.choice(3, p=row))]
            rows.append(f"{day},{pump},{reading},{SETTING.actions[action]},{SETTING.states[state]}")
            state = int(rng.choice(2, p=KERNEL[action, state]))
    (path / "logs.csv").write_text("\n".join(rows) + "\n")


COLUMNS = ("--unit", "pump", "--time", "day", "--reading", "vibration", "--action", "done")


def test_from_a_csv_file_to_a_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(tmp_path)
    out_file = str(tmp_path / "fleet.npz")
    logs, model = str(tmp_path / "logs.csv"), str(tmp_path / "plant.toml")
    code, out, err = run("fit", logs, "--model", model, *COLUMNS, "-o", out_file, capsys=capsys)
    assert (code, err) == (0, "")
    assert out.startswith(
        "logs.csv: 240 rows of 4 units, from 1 to 60; 0 readings are missing.\nNo alarm in "
    )
    fleet = Fleet.load(out_file)
    assert fleet.posterior.summary().readings == 240
    wear = next(row for row in fleet.posterior.summary().rows if row.name == "run: new → worn")
    assert wear.lower <= 0.1 <= wear.upper
    code, out, err = run("diagnose", out_file, capsys=capsys)
    assert (code, err) == (0, "")
    assert "run: new → worn" in out
    assert "largest e-value" in out
    assert "No alarm in 236 readings of 4 units" in out


def test_bad_lines_are_listed_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(tmp_path, n=3)
    text = (tmp_path / "logs.csv").read_text().replace("2,P1,", "2,P1,hihg\x1b").replace("3,P4", "x,P4")
    (tmp_path / "logs.csv").write_text(text)
    out_file = tmp_path / "fleet.npz"
    arguments = ("fit", str(tmp_path / "logs.csv"), "--model", str(tmp_path / "pump.json"), *COLUMNS)
    code, out, err = run(*arguments, "-o", str(out_file), capsys=capsys)
    assert (code, out) == (1, "")
    lines = err.splitlines()
    assert lines[0] == "psrl-pomdp: logs.csv: 2 bad rows"
    assert lines[1].startswith("  line 3, column vibration: ")
    assert lines[2].startswith("  line 13, column day: 'x' is neither")
    assert "\x1b" not in err
    assert not out_file.exists()


def test_warnings_and_alarms_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(tmp_path, odd="P3", n=400)
    text = (tmp_path / "logs.csv").read_text().splitlines()
    del text[100:105]
    (tmp_path / "logs.csv").write_text("\n".join(text))
    out_file = str(tmp_path / "fleet.npz")
    arguments = ("fit", str(tmp_path / "logs.csv"), "--model", "plant.toml", *COLUMNS, "--state", "found")
    model = str(tmp_path / "plant.toml")
    arguments = (*arguments[:3], model, *arguments[4:])
    code, out, _ = run(*arguments, "-o", out_file, capsys=capsys)
    assert code == 0
    assert "Warning: unit P1 has no rows for 5 steps between 99 and 105 (lines 100 and 101)" in out
    assert "Warning: readings that are labelled" in out
    assert "Warning: the readings of unit P3 do not come as the model predicts them" in out
    code, out, _ = run("diagnose", out_file, "--json", capsys=capsys)
    assert code == 3
    document = json.loads(out)
    assert document["alarm"]
    assert document["watch"]["alarms"][0]["unit"] == "P3"
    assert run("diagnose", out_file, capsys=capsys)[0] == 3


def test_gaps_are_filled_and_the_sensor_is_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(tmp_path)
    text = (tmp_path / "logs.csv").read_text().splitlines()
    del text[20:23]
    (tmp_path / "logs.csv").write_text("\n".join(text))
    out_file = str(tmp_path / "fleet.npz")
    arguments = ("fit", str(tmp_path / "logs.csv"), "--model", str(tmp_path / "pump.json"), *COLUMNS)
    more = ("--gap-action", "run", "--sensor-worth", "20", "--json", "-o", out_file)
    code, out, err = run(*arguments, *more, capsys=capsys)
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert (document["added_steps"], document["output"]) == (3, out_file)
    assert {row.part for row in Fleet.load(out_file).posterior.summary().rows} == {
        "dynamics",
        "observation model",
    }
    code, out, err = run(*arguments, "--gap-action", "runn", capsys=capsys)
    assert (code, out) == (1, "")
    assert "unknown action 'runn'" in err


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(tmp_path, n=3)
    logs, model = str(tmp_path / "logs.csv"), str(tmp_path / "pump.json")
    code, _, err = run("fit", logs, "--model", model, "-o", "fleet.csv", capsys=capsys)
    assert code == 2
    assert "the name of a fleet ends in .npz" in err
    code, _, err = run("fit", logs, "--model", model, capsys=capsys)
    assert code == 1
    assert "there is no column 'unit'; there are day, pump, vibration, done, found" in err
    (tmp_path / "plant.toml").write_text("model = 3\n")
    code, _, err = run("fit", logs, "--model", str(tmp_path / "plant.toml"), capsys=capsys)
    assert (code, err) == (1, "psrl-pomdp: plant.toml: model is 3, not the name of a problem or a file\n")
    code, _, err = run("fit", str(tmp_path / "none.csv"), "--model", model, capsys=capsys)
    assert code == 1
    assert "none.csv: no such file" in err
    code, _, err = run("diagnose", model, capsys=capsys)
    assert code == 1
    assert "neither a fleet" in err
    (tmp_path / "logs.csv").write_text("unit,time,reading,action\n" + "a,1,low,run\n" * 2)
    assert run("fit", logs, "--model", model, capsys=capsys)[0] == 1
    assert not Path("fleet.npz").exists()


def test_diagnose_reads_agents_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    family = problem("separated").family
    assert family is not None
    agent = PSRLAgent(family, seed=1)
    for reading in (0, 3, 0, 0):
        agent.act(reading)
    agent.save(tmp_path / "agent.npz")
    code, out, err = run("diagnose", str(tmp_path / "agent.npz"), capsys=capsys)
    assert (code, err) == (0, "")
    assert out.startswith("Agent: Setting(")
    assert "Nothing speaks against the model" in out


def test_ctrl_c_leaves_no_half_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, n=3)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Fleet, "learn", interrupted)
    out_file = tmp_path / "fleet.npz"
    arguments = ("fit", str(tmp_path / "logs.csv"), "--model", str(tmp_path / "pump.json"), *COLUMNS)
    assert run(*arguments, "-o", str(out_file), capsys=capsys)[0] == 130
    assert list(tmp_path.glob("*fleet*")) == []


def test_progress_is_shown_on_a_terminal_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    from psrl_pomdp.cli import fit

    written: list[str] = []
    clock = iter([0.0, 0.5, 2.0, 2.0, 3.0, 3.0])
    monkeypatch.setattr(fit, "watched", lambda: True)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(sys.stderr, "write", written.append)
    show = fit._progress()
    assert show is not None
    show(1, 40)
    assert written == []
    show(2, 40)
    assert written == ["\r2 of 40 units, 2 s"]
    show(40, 40)
    assert written[-1].endswith("\r\x1b[K")
