"""Costs that are seen, in model files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import POMDP, InvalidModelError, ParseError, Setting, load, save
from psrl_pomdp.sensors.costs import SeenCosts

SENSOR, COST = [[0.9, 0.1], [0.2, 0.8]], [[0.0, 50.0], [20.0, 20.0]]
KERNEL = [[[0.95, 0.05], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]]


def model(seen: Any, **changes: Any) -> POMDP:
    return POMDP(Setting(SENSOR, COST, [1.0, 0.0], seen_cost=seen, **changes), KERNEL)


@pytest.mark.parametrize("ending", [".json", ".npz"])
@pytest.mark.parametrize(
    "seen",
    ["exact", SeenCosts.gaussian(COST, 5.0, 6), SeenCosts([0.0, 1.0], np.full((2, 2, 2), 0.5))],
    ids=["exact", "noisy", "other"],
)
def test_they_are_read_back_to_the_last_bit(seen: Any, ending: str, tmp_path: Path) -> None:
    saved = model(seen)
    save(saved, tmp_path / f"model{ending}")
    found = load(tmp_path / f"model{ending}")
    assert found == saved
    assert found.setting.seen_cost == saved.setting.seen_cost
    assert found != POMDP(saved.setting.replace(seen_cost=None), KERNEL)


def test_a_hand_written_file_says_that_costs_are_seen_exactly(tmp_path: Path) -> None:
    fields = {
        "transition": KERNEL,
        "observation": SENSOR,
        "initial": [1, 0],
        "cost": COST,
        "seen_cost": "exact",
    }
    (tmp_path / "pump.json").write_text(json.dumps(fields))
    found = load(tmp_path / "pump.json").setting.seen_cost
    assert found is not None
    assert found.values.tolist() == [0.0, 20.0, 50.0]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("always", "seen_cost"),
        ({"values": [0, 1]}, "probabilities"),
        ({"values": [1, 0], "probabilities": [[[1, 0]] * 2] * 2}, "increasing"),
        ({"values": [0, 1], "probabilities": [[[1, 1]] * 2] * 2}, "sums to 2"),
        ({"values": [0, 1], "probabilities": [[[1, 0]] * 3] * 2}, "seen_cost is for 2 actions and 3 states"),
    ],
)
def test_mistakes_are_named(given: Any, says: str, tmp_path: Path) -> None:
    fields = {
        "transition": KERNEL,
        "observation": SENSOR,
        "initial": [1, 0],
        "cost": COST,
        "seen_cost": given,
    }
    (tmp_path / "pump.json").write_text(json.dumps(fields))
    with pytest.raises(ParseError, match=says):
        load(tmp_path / "pump.json")


def test_pomdp_files_cannot_represent_them(tmp_path: Path) -> None:
    with pytest.raises(InvalidModelError, match=r"costs are seen, which \.pomdp files cannot represent"):
        save(model("exact"), tmp_path / "pump.pomdp")
