"""The skeletons that a user copies do what they say, and the checkers find nothing wrong with them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SKELETONS = Path(__file__).parents[2] / "docs" / "skeletons"
PRINTED = {"agent": 0, "planner": 0, "prior": 0, "problem": 1}  # lines; the problem prints its solution


def test_every_skeleton_is_tested() -> None:
    assert {path.stem for path in SKELETONS.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_the_checkers_find_nothing_wrong(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(SKELETONS / f"{name}.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == PRINTED[name], lines
