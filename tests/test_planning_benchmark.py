"""The planning benchmark: rows, limits, other solvers by their formats, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import load, plan, problem, save

FOLDER = Path(__file__).parents[1] / "benchmarks" / "planning"
pytestmark = pytest.mark.skipif(not hasattr(os, "wait4"), reason="the benchmark is for Linux and macOS")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(FOLDER))
    yield import_module("run")
    for name in ("run", "models", "solvers"):
        sys.modules.pop(name, None)


def test_a_row_has_a_checked_interval_and_what_it_took(bench: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{bench.BEGIN}\nold\n{bench.END}\nafter\n")
    words = ["--only", "machine-repair", "--seconds", "5", "--json", str(tmp_path / "a.json")]
    assert bench.main([*words, "--write", str(page)]) == 0
    [row] = json.loads((tmp_path / "a.json").read_text())["rows"]
    best = plan(problem("machine-repair"), 1e-6)
    assert (row["model"], row["S"], row["A"], row["O"], row["status"]) == (
        "machine-repair",
        3,
        4,
        2,
        "closed",
    )
    assert row["lower"] == pytest.approx(best.lower, abs=1e-5)
    assert row["lower"] <= row["upper"]
    assert 0 < row["CPU s"] < 60
    assert 20 < row["MB"] < 4000
    text = page.read_text()
    assert text.startswith("before\n\n<!--")
    assert text.endswith("after\n")
    assert "| machine-repair | 3 | 4 | 2 | psrl-pomdp |" in text
    assert "old" not in text


def test_files_of_a_folder_take_part(bench: Any, tmp_path: Path) -> None:
    save(problem("tiger"), tmp_path / "mine.pomdp")
    (tmp_path / "notes.txt").write_text("no model")
    (tmp_path / "broken.pomdp").write_text("states: ?")
    options = bench.parsed(["--files", str(tmp_path), "--seconds", "2"])
    assert bench.names_of(options, None) == ["broken.pomdp", "mine.pomdp"]
    task = bench.Task("broken.pomdp", tmp_path, None, 2.0, 1.0, False)
    assert bench.our_row(task)["status"].startswith("failed: ")


def test_a_process_is_killed_far_beyond_its_limits(bench: Any, tmp_path: Path) -> None:
    bench.GRACE_SECONDS = 0.2
    begun = time.monotonic()
    run = bench.watched([sys.executable, "-c", "import time; time.sleep(60)"], 0.01, 1.0, tmp_path)
    assert run["ended"] == "killed: time"
    assert time.monotonic() - begun < 30
    bench.GRACE_SECONDS, bench.GRACE_GIGABYTES = 60.0, 0.05
    hungry = "x = bytearray(300_000_000)\nimport time; time.sleep(60)"
    if Path("/proc/self/statm").exists():
        run = bench.watched([sys.executable, "-c", hungry], 60.0, 0.05, tmp_path)
        assert run["ended"] == "killed: memory"
        assert run["MB"] > 100
    assert (
        bench.watched([sys.executable, "-c", "import sys; sys.exit('no luck')"], 9.0, 9.0, tmp_path)["ended"]
        == "failed: no luck"
    )


SARSOP_TABLE = """
Loading the model ...
  input file   : model.pomdp
------------------------------------------------------------------------------------------
 Time   |#Trial |#Backup |LBound    |UBound    |Precision  |#Alphas |#Beliefs
------------------------------------------------------------------------------------------
 0       0       0        -20        92.8205    112.821     3        1
 0.02    51      300      19.3711    19.3721    0.00099     10       28
------------------------------------------------------------------------------------------
"""


def test_other_solvers_are_read_in_the_units_of_the_model(bench: Any, tmp_path: Path) -> None:
    """In the formats of their manuals; pomdpsol and pomdp-solve themselves are not needed."""
    solvers: Any = import_module("solvers")

    tiger, rail = problem("tiger"), problem("railway")
    assert (tiger.setting.units.kind, rail.setting.units.kind) == ("reward", "cost")
    found = solvers.read_sarsop(SARSOP_TABLE, tmp_path, tiger)
    assert (found["lower"], found["upper"]) == (19.3711, 19.3721)
    found = solvers.read_sarsop(SARSOP_TABLE, tmp_path, rail)
    assert (found["lower"], found["upper"]) == (-19.3721, -19.3711)
    assert "lower" not in solvers.read_sarsop("Segmentation fault", tmp_path, rail)
    (tmp_path / "answer.alpha").write_text("0\n1.0 2.0 3.0\n\n2\n4.0 0.0 0.0\n\n")
    found = solvers.read_pomdp_solve("", tmp_path / "answer", rail)
    assert found["value"] == -4.0  # railway begins in its first state
    assert "value" not in solvers.read_pomdp_solve("", tmp_path / "nothing", rail)


def test_the_file_for_other_solvers_is_the_model_with_rewards(bench: Any, tmp_path: Path) -> None:
    solvers: Any = import_module("solvers")

    model = problem("bridge-ratings", ratings=4)
    solvers.write_for_others(model, 0.95, tmp_path / "model.pomdp")
    text = (tmp_path / "model.pomdp").read_text()
    assert "discount: 0.95" in text
    assert "values: reward" in text
    again = load(tmp_path / "model.pomdp")
    assert again.transition == pytest.approx(model.transition, abs=1e-12)
    assert again.setting.observation == pytest.approx(model.setting.observation, abs=1e-12)
    assert again.setting.own_cost == pytest.approx(-model.setting.own_cost, abs=1e-9)


def test_another_solver_on_the_path_has_a_row(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in prints a table; it must get a file that exists, and a limit of time."""
    stand_in = tmp_path / "pomdpsol"
    stand_in.write_text(
        f"#!/bin/sh\nfor last; do :; done\ntest -f \"$last\" || exit 3\ncat <<'X'\n{SARSOP_TABLE}X\n"
    )
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    task = bench.Task("tiger", None, 0.95, 3.0, 1.0, False)
    row = bench.their_row("SARSOP", task)
    assert (row["lower"], row["upper"], row["status"]) == (19.3711, 19.3721, "bounds not checked")
    assert bench.OTHERS["SARSOP"].path == str(stand_in)
    assert "--timeout" in bench.OTHERS["SARSOP"].command(tmp_path, tmp_path, task)


def test_generated_models_repeat_and_differ_by_seed(bench: Any) -> None:
    models: Any = import_module("models")

    for make, sizes in ((models.dense, (5, 3, 4)), (models.sparse, (30,)), (models.wear, (15,))):
        one, same, other = (make(*sizes, seed=seed).transition for seed in (1, 1, 2))
        assert (one == same).all()
        assert (one != other).any()
    assert not models.made("tiger", None).setting.has_first_observation
    assert (np.count_nonzero(models.sparse(100, 0).transition, axis=2) <= 5).all()
    assert set(bench.QUICK) <= set(bench.MODELS)


def test_ctrl_c_keeps_the_rows_so_far(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    words = [sys.executable, str(FOLDER / "run.py"), "--only", "e", "--seconds", "1", "--json", str(kept)]
    child = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )
    deadline = time.monotonic() + 240
    while not kept.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=60)[1]
    rows = json.loads(kept.read_text())["rows"]
    assert child.returncode == 130
    assert len(rows) >= 1
    assert f"Interrupted: {len(rows)} rows are kept." in said
