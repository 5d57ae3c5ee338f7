"""The package in examples/plugin, installed beside this one and used without touching it.

Everything runs in programs of their own, which see the package through PYTHONPATH alone.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import psrl_pomdp
from psrl_pomdp import registry

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin"
PAGE = ROOT / "docs" / "extending.md"
MAIN = "from psrl_pomdp.cli import main; main()"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which pip has installed the example, without a look at the network."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder)]
    command = [sys.executable, "-m", "pip", "install", *options, str(EXAMPLE)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def psrl(*words: str, cwd: Path, site: Path | None = None) -> str:
    """What the command prints, with the packages in `site`."""
    paths = [str(site or ""), str(Path(psrl_pomdp.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *words],
        check=False,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_part_is_found_and_keeps_its_contract(installed: Path, tmp_path: Path) -> None:
    rows = json.loads(psrl("plugins", "--check", "pump-plugin", "--json", cwd=tmp_path, site=installed))
    found = [(row["group"].partition(".")[2], row["name"]) for row in rows]
    assert found == [
        ("priors", "wear"), ("priors", "wear-grid"), ("agents", "overhaul-interval"),
        ("problems", "feed-pump"),
        ("executors", "batch"),
    ]  # fmt: skip
    assert [row["findings"] for row in rows] == [[], [], [], [], []]
    assert {(row["package"], row["version"]) for row in rows} == {("pump-plugin", "1.0.0")}


def test_its_learner_is_compared_on_its_problem_with_its_prior(installed: Path, tmp_path: Path) -> None:
    words = ["feed-pump", "--prior", "wear", "--agents", "psrl,overhaul-interval,random", "--horizon", "300"]
    found = json.loads(psrl("compare", *words, "--seeds", "2", "--json", cwd=tmp_path, site=installed))
    assert [row["agent"] for row in found["agents"]] == ["psrl", "overhaul-interval", "random"]
    manifest = json.loads((tmp_path / "feed-pump-comparison" / "manifest.json").read_text())
    assert [
        (each["group"], each["name"], each["package"], each["version"]) for each in manifest["plugins"]
    ] == [
        ("psrl_pomdp.problems", "feed-pump", "pump-plugin", "1.0.0"),
        ("psrl_pomdp.priors", "wear", "pump-plugin", "1.0.0"),
        ("psrl_pomdp.agents", "overhaul-interval", "pump-plugin", "1.0.0"),
    ]


def test_the_study_of_its_readme_runs_on_its_executor(installed: Path, tmp_path: Path) -> None:
    """With the same bytes as in this process; without the package the study is refused by name."""
    [study] = re.findall(
        r"^```toml\n(.*?)^```", (EXAMPLE / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    shorter = study.replace("horizon = 2000", "horizon = 100").replace("seeds = 8", "seeds = 1")
    (tmp_path / "study.toml").write_text(shorter)
    psrl("run", "study.toml", "--engine", "batch", "--workers", "2", cwd=tmp_path, site=installed)
    said = psrl("run", "--verify", "study-results", cwd=tmp_path, site=installed)
    assert "2 runs were repeated: the same bytes" in said
    with pytest.raises(AssertionError, match=r"'overhaul-interval'|'wear'") as refused:
        psrl("run", "study.toml", cwd=tmp_path)
    assert "group psrl_pomdp." in str(refused.value)


def test_the_prior_without_a_grid_is_a_density(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It integrates to one, its draws have its moments, and its kernels are kernels."""
    monkeypatch.syspath_prepend(installed)
    pump = importlib.import_module("pump_plugin.problem").pump()
    prior = importlib.import_module("pump_plugin.prior").WearPrior(pump.setting, low=0.1, high=0.5)
    axis = 0.1 + 0.4 * (np.arange(400) + 0.5) / 400
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    density = np.exp(prior.log_density(grid)) * (0.4 / 400) ** 2
    assert abs(density.sum() - 1) < 1e-4
    draws = prior.sample_parameters(np.random.default_rng(0), 20_000)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - density @ grid) < 5 * error).all()  # false alarm 1e-6
    assert prior.log_density(np.array([[0.05, 0.2], [0.2, 0.6]])).tolist() == [-np.inf, -np.inf]
    kernels = prior.kernels(draws[:50])
    assert kernels.shape == (50, 2, 3, 3)
    assert np.abs(kernels.sum(axis=-1) - 1).max() < 1e-12
    assert (importlib.import_module("pump_plugin.problem").kernels(np.array([[0.1, 0.4]]))[0]
            == pump.transition).all()  # fmt: skip


# -- the manual's page --------------------------------------------------------------------------------


def test_the_example_of_the_manual_runs(tmp_path: Path) -> None:
    """Its file, its commands and its study, from the current directory."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    [code] = [text for kind, text in blocks if kind == "python" and text.startswith("# mine.py")]
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    [compare, check] = [
        text.removeprefix("$ psrl-pomdp ").split() for kind, text in blocks if kind == "console"
    ]
    shown = psrl(*compare, cwd=tmp_path)
    assert "Cautious" in shown
    assert "warning: it has no to_bytes" in psrl(*check, cwd=tmp_path)
    study = next(text for kind, text in blocks if kind == "toml" and text.startswith("problem"))
    (tmp_path / "study.toml").write_text(study)
    assert "Cautious" in psrl("run", "study.toml", "--workers", "1", cwd=tmp_path)
    points = [text for kind, text in blocks if kind == "toml" and "entry-points" in text]
    assert all(f'"{group}"' in points[0] for group in ("psrl_pomdp.problems", "psrl_pomdp.agents"))
    assert all(f"psrl_pomdp.{group}" in PAGE.read_text(encoding="utf-8") for group in registry.GROUPS)
