"""Runs that every change must leave as they are, unless it says that it changes them.

`data/golden.json` holds hashes of what six small agents did in a study, of the actions of an agent, and of
what its file holds. Numbers are rounded to nine digits before they are hashed. `python tests/test_golden.py`
writes the hashes anew: a commit that does so says why.
"""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import PSRLAgent, problem, simulate
from psrl_pomdp.cli import main

GOLDEN = Path(__file__).parent / "data" / "golden.json"

STUDY = """
problem = "railway"
horizon = 300
seeds = 2
seed = 1
agents = [
    { kind = "psrl", name = "finite", prior = "finite" },
    { kind = "psrl", name = "rows", prior = "dirichlet" },
    { kind = "oracle" },
    { kind = "oas-ucrl" },
    { kind = "ba-pomcp" },
    { kind = "tsde" },
]
"""
# Plans agree from one platform to another within their tolerance only. Columns that come from a plan do not
# count: the amount of work, the bounds of J, and regret, which is measured against a plan of the true model.
NOT_RESULTS = {"work", "j_lower", "j_upper", "control", "regret_lower", "regret_upper"}


def rounded(value: str) -> str:
    try:
        return f"{float(value) + 0.0:.9g}"  # + 0.0: -0.0 becomes 0.0
    except ValueError:
        return value


def digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def hashes_of_study(folder: Path) -> dict[str, str]:
    """A hash for each agent and each table of the study."""
    spec, out = folder / "golden.toml", folder / "results"
    spec.write_text(STUDY)
    main(["run", str(spec), "--out", str(out), "--workers", "1"])
    lines: dict[str, list[str]] = {}
    for table in ("runs", "episodes"):
        with (out / f"{table}.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                cells = (f"{name}={rounded(row[name])}" for name in row if name not in NOT_RESULTS)
                lines.setdefault(f"{row['agent']}.{table}", []).append(",".join(cells))
    return {name: digest(rows) for name, rows in sorted(lines.items())}


def hashes_of_agents(folder: Path) -> dict[str, str]:
    """The actions of an agent over each kind of prior, and the numbers in its file."""
    found = {}
    model = problem("railway")
    assert model.family is not None
    for name, prior in (("finite", model.family), ("rows", model.prior)):
        agent = PSRLAgent(prior, seed=1)
        trace = simulate(model, agent, 400, seed=3)
        agent.save(folder / f"{name}.npz")
        found[f"{name}.actions"] = digest([str(a) for a in trace.actions])
        with np.load(folder / f"{name}.npz") as file:
            arrays = {key: file[key] for key in sorted(file.files) if file[key].dtype.kind in "bif"}
        rows = [f"{key} {array.shape} " + numbers(array) for key, array in arrays.items()]
        found[f"{name}.file"] = digest(rows)
    return found


def numbers(array: np.ndarray[Any, Any]) -> str:
    return " ".join(rounded(str(x)) for x in array.ravel())


@pytest.fixture(scope="module")
def wanted() -> dict[str, str]:
    found: dict[str, str] = json.loads(GOLDEN.read_text())
    return found


def test_a_study_gives_the_results_that_it_gave_before(tmp_path: Path, wanted: dict[str, str]) -> None:
    found = hashes_of_study(tmp_path)
    assert found == {name: wanted[name] for name in found}
    assert len(found) >= 6


def test_agents_do_what_they_did_before(tmp_path: Path, wanted: dict[str, str]) -> None:
    found = hashes_of_agents(tmp_path)
    assert found == {name: wanted[name] for name in found}
    assert len(found) == 4


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        everything = hashes_of_study(Path(place)) | hashes_of_agents(Path(place))
    GOLDEN.write_text(json.dumps(everything, indent=1) + "\n")
