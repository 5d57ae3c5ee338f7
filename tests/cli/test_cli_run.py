"""`psrl-pomdp run` and `resume`, as they are typed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import run

SMALL = ["--horizon", "100", "--seeds", "2", "--workers", "1"]


def test_a_quick_run_and_its_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = str(tmp_path / "r")
    code, text, _ = run("run", "separated", *SMALL, "--agents", "psrl, oracle", "--out", out, capsys=capsys)
    assert code == 0
    assert "Regret after 100 steps of separated" in text
    assert "psrl" in text
    assert {path.name for path in (tmp_path / "r").iterdir()} >= {"study.toml", "runs.csv", "episodes.csv"}
    code, text, _ = run("resume", out, "--workers", "1", "--json", capsys=capsys)
    document = json.loads(text)
    assert code == 0
    assert [row["agent"] for row in document["agents"]] == ["psrl", "oracle"]
    assert document["failures"] == document["violations"] == []
    (tmp_path / "r" / "results" / "psrl-00001.json").write_text("{")
    code, _, error = run("resume", out, "--workers", "1", capsys=capsys)
    assert code == 0
    assert "results/psrl-00001.json" in error
    assert run("run", "--verify", out, capsys=capsys)[0] == 0
    sealed = tmp_path / "r" / "results" / "oracle-00000.json"
    sealed.write_bytes(sealed.read_bytes().replace(b"0", b"1", 1))
    assert run("run", "--verify", out, capsys=capsys)[0] == 4


def test_a_study_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    study = tmp_path / "mine.toml"
    study.write_text('problem = "separated"\nhorizon = 50\nseeds = 1\ntolerance = 1e-3\ntruth = "prior"\n')
    code, text, _ = run("run", str(study), "--out", str(tmp_path / "r"), "--workers", "1", capsys=capsys)
    assert code == 0
    assert "Bayesian regret" in text
    assert run("run", str(study), "--horizon", "9", "--out", str(tmp_path / "s"), capsys=capsys)[0] == 2
    study.write_text('problem = "separated"\nhorizons = 50\nseeds = 1\n')
    code, _, error = run("run", str(study), "--out", str(tmp_path / "t"), capsys=capsys)
    assert code == 1
    assert "did you mean 'horizon'" in error
    assert not (tmp_path / "t").exists()


def test_mistakes_write_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "r"
    for words, message in (
        (["run", "tigr", "--out", str(out)], "did you mean 'tiger'"),
        (["run", "tiger", "--agents", "prsl", "--out", str(out)], "did you mean 'psrl'"),
        (["run", "tiger", "--engine", "dusk", "--out", str(out)], "did you mean 'dask'"),
        (["resume", str(tmp_path)], "holds no study"),
    ):
        code, _, error = run(*words, capsys=capsys)
        assert code in (1, 2)
        assert message in error, error
    assert not list(tmp_path.rglob("*.json"))


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    # Whoever runs the tests in the background of a shell has Ctrl-C ignored, and so have their children.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    script = heed + "from psrl_pomdp.cli import main; main()"
    words = ["run", "separated", "--horizon", "20000", "--seeds", "40", "--workers", "1", "--out", "r"]
    child = subprocess.Popen(
        [sys.executable, "-c", script, *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    results = tmp_path / "r" / "results"
    limit = time.monotonic() + 400  # where nothing is compiled yet, on a busy machine
    while time.monotonic() < limit and not (results.is_dir() and any(results.glob("*.json"))):
        time.sleep(0.1)
    os.killpg(child.pid, signal.SIGINT)
    _, error = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "psrl-pomdp resume r" in error
    assert 1 <= len(list(results.glob("*.json"))) < 120


def test_nothing_is_compiled_before_there_is_a_folder_to_resume() -> None:
    """Killed a second after the start, a study must leave a folder: numba alone takes longer than that."""
    script = (
        "import sys\n"
        "from psrl_pomdp.cli.run import asked_study, refuse_misfits\n"
        "flags = dict.fromkeys(('horizon', 'seeds', 'agents', 'prior', 'bayesian', 'seed'))\n"
        "refuse_misfits(asked_study('tiger', (), flags))\n"
        "assert 'numba' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_full_disk_costs_the_tables_and_not_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("psrl_pomdp.studies.tables.write_atomically", full)
    out = str(tmp_path / "r")
    words = ["run", "separated", "--agents", "random", "--horizon", "20", "--seeds", "2", "--workers", "1"]
    code, text, error = run(*words, "--out", out, capsys=capsys)
    assert code == 1
    assert "random" in text
    assert "the tables cannot be written" in error
    assert "No space left" in error
    monkeypatch.undo()
    assert run("resume", out, "--workers", "1", capsys=capsys)[0] == 0
    assert (tmp_path / "r" / "fits.csv").exists()
