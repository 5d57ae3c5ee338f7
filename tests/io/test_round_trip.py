"""Writing then reading returns the same model, in every format that can be written."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from model_strategies import models, previous_state_model
from psrl_pomdp import POMDP, InvalidModelError, ParseError, Setting, Units, load, problem, save
from psrl_pomdp.io import MAX_ENTRIES
from psrl_pomdp.io.array_files import read_json, read_npz, write_json, write_npz
from psrl_pomdp.io.pomdp.reader import read_pomdp
from psrl_pomdp.io.pomdp.writer import write_pomdp

often = settings(max_examples=300, deadline=None, derandomize=True, database=None)


@often
@given(models())
def test_json_is_exact(model: POMDP) -> None:
    again = read_json(write_json(model), max_entries=MAX_ENTRIES)
    assert again == model
    assert (again.name, again.remarks) == (model.name, model.remarks)


@often
@given(models())
def test_npz_is_exact(model: POMDP) -> None:
    again = read_npz(write_npz(model), max_entries=MAX_ENTRIES)
    assert again == model
    assert (again.name, again.remarks) == (model.name, model.remarks)


@often
@given(models())
def test_pomdp_is_exact_but_for_the_last_bits_of_rescaled_costs(model: POMDP) -> None:
    again = read_pomdp(write_pomdp(model).encode(), max_entries=MAX_ENTRIES)
    one, other = model.setting, again.setting
    assert (again.transition == model.transition).all()
    assert (other.observation == one.observation).all()
    assert (other.initial == one.initial).all()
    assert (other.first_observation is None) == (one.first_observation is None)
    assert other.names == one.names
    assert other.units == one.units
    wide = max(abs(one.units.low), abs(one.units.high)) / (one.units.high - one.units.low)
    assert np.abs(other.cost - one.cost).max() <= 1e-15 * (1 + wide)


def test_written_pomdp_reads_well() -> None:
    text = write_pomdp(problem("tiger"))
    assert "values: reward" in text
    assert "R: open-left : tiger-left : * : * -100.0" in text
    assert "T: listen\nidentity" in text
    assert "T: open-left\nuniform" in text


def test_small_numbers_are_written_without_exponents() -> None:
    tiny = POMDP(Setting([[1.0], [1.0]], [[0, 1.0]], [1.0, 0.0]), [[[1 - 1e-7, 1e-7], [0.0, 1.0]]])
    assert "0.9999999 0.0000001" in write_pomdp(tiny)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"states": ["very worn", "new"]}, "'very worn' cannot stand in a .pomdp file: save as .json"),
        ({"states": ["start", "new"]}, "'start' cannot stand"),
        ({"units": "euro\na day"}, "does not fit on a line"),
        ({"first_observation": [[1.0], [1.0]], "observation": [[[0.5, 0.5]] * 2]}, "shape"),
        (
            {"first_observation": [[0.1, 0.9]] * 2, "observation": [[0.5, 0.5]] * 2},
            "first_observation differs from the sensor",
        ),
    ],
)
def test_what_pomdp_files_cannot_say_is_refused(changes: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {
        "observation": [[1.0], [1.0]],
        "cost": [[0.0, 1.0]],
        "initial": [1.0, 0.0],
    }
    with pytest.raises(InvalidModelError, match=message):
        write_pomdp(POMDP(Setting(**(arguments | changes)), [np.eye(2)]))  # type: ignore[arg-type]


def test_a_json_file_by_hand() -> None:
    text = """{"transition": [[[0.9, 0.1], [0, 1]]], "observation": [[1, 0], [0, 1]],
               "reward": [[1, -5]], "initial": [1, 0], "states": ["working", "broken"]}"""
    model = read_json(text.encode(), "mine.json", max_entries=MAX_ENTRIES)
    assert model.setting.units == Units(-5, 1, "reward")
    assert model.setting.first_observation is not None
    assert model.name == "mine"
    by_cost = read_json(text.replace("reward", "cost").encode(), max_entries=MAX_ENTRIES)
    assert by_cost.setting.units == Units(-5, 1, "cost")


GOOD = {
    "transition": [[[0.9, 0.1], [0, 1]]],
    "observation": [[1, 0], [0, 1]],
    "cost": [[1, 0]],
    "initial": [1, 0],
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transition": [[[0.9, 0.2], [0, 1]]]}, r"transition\[a=0, s=0\] sums to 1.1"),
        ({"transition": [[[0.9, 0.1], [0]]]}, "transition is not an array of numbers"),
        ({"transition": [[["a", 0.1], [0, 1]]]}, "transition is not an array of numbers"),
        ({"transition": [[[0.9, None], [0, 1]]]}, r"transition\[a=0, s=0, s′=1\] is nan|not an array"),
        ({"transition": 3}, "Expected `array`, got `int`"),
        ({"observations": ["on"]}, "observations has 1 names, but the model has 2 observations"),
        ({"transitions": []}, "unknown field `transitions`"),
        ({"reward": [[0, 1]]}, "one of cost and reward"),
        ({"initial": [0.5, 0.4]}, "initial sums to 0.9"),
        ({"first_observation": [[1, 0]]}, "first_observation has shape"),
        ({"units": {"low": 0, "high": 0, "kind": "cost"}}, "must be positive and finite"),
        ({"units": {"low": 0, "high": 9, "kind": "gain"}}, "Invalid enum value 'gain'"),
        ({"cost": [[1, 0]], "observation": [[1.0, 0.0]]}, "observation has shape"),
    ],
)
def test_json_refusals(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ParseError, match=message):
        read_json(json.dumps(GOOD | changes).encode(), "x.json", max_entries=MAX_ENTRIES)


def test_json_missing_parts_and_limits() -> None:
    for key in GOOD:
        partial = {k: v for k, v in GOOD.items() if k != key}
        with pytest.raises(ParseError, match=key):
            read_json(json.dumps(partial).encode(), "x.json", max_entries=MAX_ENTRIES)
    with pytest.raises(ParseError, match="too large"):
        read_json(json.dumps(GOOD).encode(), "x.json", max_entries=3)
    with pytest.raises(ParseError, match="not a model"):
        read_json(b"[" * 100_000, "x.json", max_entries=MAX_ENTRIES)


def test_npz_refuses_pickles_strangers_and_bombs(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, transition=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ParseError, match="not an archive of arrays"):
        load(path)
    np.savez(path, **GOOD, kernel=np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(ParseError, match="unknown array 'kernel'"):
        load(path)
    np.savez(path, **GOOD)  # type: ignore[arg-type]
    assert load(path).n_states == 2
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("transition.npy", bytes(200_000_000))
    assert path.stat().st_size < 10**6
    with pytest.raises(ParseError, match="too large to unpack"):
        load(path)


def test_saving_is_atomic_and_leaves_ordinary_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tiger.json"
    save(problem("tiger"), path)
    before = path.read_bytes()
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask

    def full_disk(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        save(problem("railway"), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["tiger.json"]


def test_unknown_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModelError, match=r"unknown ending '.pomdpx'; known are .pomdp"):
        save(problem("tiger"), tmp_path / "tiger.pomdpx")


@pytest.mark.parametrize("ending", ["json", "npz"])
@pytest.mark.parametrize("seed", range(3))
def test_observations_that_depend_on_the_state_before_are_exact(
    ending: str, seed: int, tmp_path: Path
) -> None:
    model = previous_state_model(seed, 2 + seed, 2, 3 - seed)
    if seed == 1:
        first = np.full((3, 2), 0.5)
        model = POMDP(
            model.setting.replace(first_observation=first, states=["x", "y", "z"]), model.transition
        )
    save(model, tmp_path / f"model.{ending}")
    again = load(tmp_path / f"model.{ending}")
    assert again == model
    assert again.setting.observation.shape == model.setting.observation.shape
    assert again.setting.has_first_observation == (seed == 1)
    entries = model.setting.observation.size
    load(tmp_path / f"model.{ending}", max_entries=entries)
    with pytest.raises(ParseError, match=f"the limit is {entries - 1} numbers"):
        load(tmp_path / f"model.{ending}", max_entries=entries - 1)


def test_rows_by_pairs_of_states_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    save(previous_state_model(0), file)
    contents = json.loads(file.read_text())
    contents["observation"][1][0][1] = [0.5, 0.6]
    file.write_text(json.dumps(contents))
    with pytest.raises(ParseError, match=r"observation\[a=1, s=0, s′=1\] sums to 1.1"):
        load(file)
    contents["observation"] = [[[[1.0]]]]
    file.write_text(json.dumps(contents))
    with pytest.raises(ParseError, match=r"observation has shape \(1, 1, 1, 1\), expected \(2, 2, 2, 1\)"):
        load(file)


def test_pomdp_files_refuse_observations_that_depend_on_the_state_before(tmp_path: Path) -> None:
    with pytest.raises(InvalidModelError, match=r"the state before the action.*save as \.json or \.npz"):
        save(previous_state_model(0), tmp_path / "model.pomdp")
    assert not (tmp_path / "model.pomdp").exists()
