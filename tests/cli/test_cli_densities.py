"""Commands with densities of observations, acknowledgments, and costs that are seen."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from commands import run
from psrl_pomdp.studies.study import read_study

QUICK = ("--horizon", "40", "--seeds", "2", "--workers", "1")


def test_run_with_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "own"
    study = tmp_path / "study.toml"
    study.write_text(
        'problem = "pump"\nhorizon = 40\nseeds = 2\ntolerance = 1e-2\n'
        '[[agents]]\nkind = "random"\n[[agents]]\nkind = "memoryless"\ncells = 6\n'
    )
    code, out, _ = run("run", str(study), "--out", str(folder), "--workers", "1", capsys=capsys)
    assert code == 0, out
    assert "memoryless" in out
    code, out, _ = run("compare", str(folder), "--json", capsys=capsys)
    assert code == 0
    information = {row["agent"]: row["information"] for row in json.loads(out)["agents"]}
    assert information == {"random": "nothing", "memoryless": "everything, 6 cells"}


def test_compare_with_names_in_cells_and_seen_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "own"
    words = ("spectrum-access-acks", "--seen-costs", "--agents", "random,memoryless,tsde")
    code, out, err = run("compare", *words, *QUICK, "--out", str(folder), "--json", capsys=capsys)
    assert code == 0, err
    document = json.loads(out)
    assert list(document["refused"]) == ["tsde"]
    assert "depend on the state before the action" in document["refused"]["tsde"]
    assert read_study(folder / "study.toml").seen_cost == "exact"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "pump", "--agents", "memoryless", *QUICK), "`cells = K` of an agent in a study"),
        (("run", "tiger", "--agents", "random-cells-4", *QUICK), "cells are for a density"),
        (
            ("compare", "tiger", "--agents", "nobody-cells-4", *QUICK),
            "no agent .* is called 'nobody-cells-4'",
        ),
        (("sensitivity", "pump", "--horizon", "9", "--seeds", "2"), "log-normal observations.*--cells K"),
        (("sensitivity", "tiger", "--cells", "4", "--horizon", "9"), "cells are for a density"),
    ],
)
def test_refusals_name_the_way_out(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    code, _, err = run(*words, capsys=capsys)
    assert code == 1
    assert re.search(message, err), err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["railway-gaussian", "spectrum-access-acks"])
def test_solve_tells_the_controller(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run("solve", name, "--tolerance", "0.01", "--json", capsys=capsys)
    assert code == 0, err
    document = json.loads(out)
    sizes = {len(node["successors"]) for node in document["controller"]["nodes"]}
    assert sizes == {document["cells"] or 4}
    assert document["policy"]["words"]["lines"]
