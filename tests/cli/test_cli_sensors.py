"""`show`, `check`, `problems` for observations that are real numbers, counts or vectors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from commands import run
from psrl_pomdp import POMDP, Setting, problem, save
from psrl_pomdp.sensors import (
    GaussianSensor,
    MixtureSensor,
    MultivariateGaussianSensor,
    PoissonSensor,
    SensorBase,
    by_action,
    with_outliers,
)

GAUSSIAN = GaussianSensor([0.0, 1.5], [0.25, 0.5])


def saved(sensor: SensorBase, path: Path, **more: object) -> str:
    setting = Setting(sensor, [[0.0, 3.0], [1.0, 1.0]], [1.0, 0.0], states=["new", "worn"],
                      actions=["run", "stop"], **more)  # type: ignore[arg-type]  # fmt: skip
    save(POMDP(setting, [[[0.9, 0.1], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]]), path / "model.json")
    return str(path / "model.json")


def shown(sensor: SensorBase, path: Path, capsys: pytest.CaptureFixture[str], **more: object) -> str:
    code, out, err = run("show", saved(sensor, path, **more), capsys=capsys)
    assert (code, err) == (0, "")
    return " ".join(out.split())


def test_show_the_families_and_their_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = shown(GAUSSIAN, tmp_path, capsys)
    assert (
        "observations Gaussian observations; means 0 (new), 1.5 (worn); sds 0.25 (new), 0.5 (worn)" in words
    )
    assert "smallest singular value of 32 classes 0." in words
    assert "first observation before the first action" in words
    words = shown(PoissonSensor([[0.5, 2.0], [1.0, 1.0]]), tmp_path, capsys)
    assert "rates after run: 0.5 (new), 2 (worn); after stop: 1 (new), 1 (worn)" in words
    assert "changes with the action" in words
    assert "the observation after stop contains no information about the state" in words
    words = shown(with_outliers(GAUSSIAN, share=0.25), tmp_path, capsys)
    assert "a mixture of 2 kinds of observations; 1: gaussian, means 0 (new), 1.5 (worn)" in words
    assert "weights (0.75, 0.25) (new), (0.75, 0.25) (worn)" in words
    words = shown(by_action([None, GAUSSIAN]), tmp_path, capsys)
    assert "after run: none; after stop: gaussian, means 0 (new)" in words
    words = shown(MultivariateGaussianSensor([[0.0, 1.0], [2.0, 3.0]], np.eye(2)), tmp_path, capsys)
    assert "Gaussian vectors of 2 numbers; means (0, 1) (new), (2, 3) (worn)" in words
    words = shown(GAUSSIAN, tmp_path, capsys, first_observation=GaussianSensor([0.0, 1.0], [2.0, 2.0]))
    assert "before the actions Gaussian observations; means 0 (new), 1 (worn); sds 2 (new), 2 (worn)" in words
    words = shown(MixtureSensor([GAUSSIAN] * 14, np.full(14, 1 / 14)), tmp_path, capsys)
    assert "and 2 more" in words


def test_show_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("show", "railway-gaussian", "--json", capsys=capsys)
    found = json.loads(out)
    assert code == 0
    assert found["observations"] == []
    assert found["sensor"]["parameters"] == {
        "family": "gaussian", "means": [1.0, 0.0, -1.0], "sds": [1.0, 0.5, 0.2],
    }  # fmt: skip
    assert found["sensor"]["classes"] == problem("railway-gaussian").setting.quantized(32).n_observations
    assert found["first_sensor"] == found["sensor"]
    code, out, _ = run("show", "spectrum-access-acks", "--json", capsys=capsys)
    found = json.loads(out)
    assert found["sensor_depends_on_previous"]
    assert len(found["observations"]) == 4


def test_the_list_of_problems(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run("problems", "--json", capsys=capsys)
    counts = {row["name"]: row["observations"] for row in json.loads(out)}
    assert (counts["tiger"], counts["pump"], counts["spectrum-access-acks"]) == (2, "real", 4)


@pytest.mark.parametrize("name", ["railway-gaussian", "spectrum-access-acks"])
def test_check_by_classes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    short = ("--horizon", "50", "--seeds", "2", "--prior", "dirichlet", "--json")
    _, out, err = run("check", name, *short, capsys=capsys)
    assert err == ""
    document = json.loads(out)
    verdicts = {each["name"]: each["verdict"] for each in document["assumptions"]}
    if name == "railway-gaussian":
        assert document["observations"].startswith("Gaussian observations, assessed by 32 classes")
        assert verdicts["sensor"] == "holds"
    else:
        assert document["observations"] == ""
        assert verdicts["1 Bellman"] == "holds"


def test_check_says_how_observations_are_assessed(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run("check", "pump", "--horizon", "20", "--seeds", "1", "--prior", "dirichlet", capsys=capsys)
    assert "log-normal observations, assessed by 32 classes" in " ".join(out.split())
