"""The examples run, in small sizes, as their help says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL = {
    "maintenance": (["--days", "200", "--seeds", "2"], "Learning it cost"),
    "spectrum_access": (["--slots", "100", "--seeds", "1"], "knows nothing"),
    "custom_pomdp": (["--horizon", "200", "--tolerance", "1e-3"], "proved again"),
    "live_plant": (["--steps", "30", "--kills", "1"], "a replay gives the same decisions"),
    "own_prior": (["--days", "100", "--seeds", "1"], "nothing is wrong"),
    "cluster_study": (["--horizon", "100", "--seeds", "2"], "the same bytes"),
}


def run(name: str, *words: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *words],
        capture_output=True, text=True, cwd=cwd, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_is_tried() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_example_runs(name: str, tmp_path: Path) -> None:
    words, promised = SMALL[name]
    assert promised in run(name, *words, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


@pytest.mark.parametrize("name", SMALL)
def test_help_teaches(name: str, tmp_path: Path) -> None:
    """It says what is shown and how to run it, in the docstring's own words, and every option has a line."""
    words = run(name, "--help", cwd=tmp_path)
    assert f"python examples/{name}.py" in words
    assert len(words.splitlines()) > 15


def test_a_mistake_in_a_file_is_named(tmp_path: Path) -> None:
    text = (EXAMPLES / "greenhouse.pomdp").read_text(encoding="utf-8").replace("wait : moist", "wait : mosit")
    (tmp_path / "wrong.pomdp").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "custom_pomdp.py"), str(tmp_path / "wrong.pomdp")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "unknown state 'mosit' (did you mean 'moist'?)" in done.stderr
