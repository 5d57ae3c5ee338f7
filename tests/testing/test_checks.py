"""check_model: each doubt is found where it should be, and good models pass in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import POMDP, Issue, Setting, check_model, problem


def findings(level: str, model: Any) -> list[str]:
    return [finding.text for finding in check_model(model) if finding.severity == level]


def world(**changes: Any) -> POMDP:
    transition = changes.pop("transition", [[[0.9, 0.1], [0.3, 0.7]], [[0.5, 0.5], [0.5, 0.5]]])
    given: dict[str, Any] = {
        "observation": [[0.8, 0.2], [0.3, 0.7]],
        "cost": [[0.0, 1.0], [0.5, 0.5]],
        "initial": [0.5, 0.5],
        "states": ["up", "down"],
        "actions": ["wait", "act"],
    }
    return POMDP(Setting(**(given | changes)), transition)


def test_nothing_is_found_where_nothing_is() -> None:
    assert check_model(world()) == []
    assert check_model(problem("separated")) == []
    assert check_model(problem("random-readout")) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"transition": [np.eye(2)] * 2}, "2 recurrent classes (up | down)"),
        ({"transition": [[[1, 0], [1, 0]]] * 2, "initial": [1, 0]}, "no policy reaches down from the start"),
        (
            {"transition": [[[0, 1], [1, 0]]] * 2, "observation": [[0.5, 0.5]] * 2},
            "has period 2, and the observations do not distinguish all states",
        ),
        ({"observation": [[0.5, 0.5]] * 2}, "no observation contains information about the state"),
        (
            {"transition": [[[0.5, 0.5]] * 2] * 2, "cost": [[0, 1.0]] * 2},
            "actions wait and act have identical transitions, observations and costs",
        ),
        (
            {"observation": [[0.8, 0.2, 0], [0.3, 0.7, 0]], "observations": ["lo", "hi", "off"]},
            "observations with probability 0 in every state: off",
        ),
        ({"cost": [[3.0, 3.0]] * 2}, "the cost is the same everywhere"),
        (
            {"cost": [[0.0, 1.0]], "actions": ["wait"], "transition": [[[0.5, 0.5]] * 2]},
            "there is only one action",
        ),
        (
            {"transition": [[[1 - 1e-14, 1e-14], [0.3, 0.7]], [[0.5, 0.5]] * 2]},
            "transition[a=wait, s=up, s′=down] is 1e-14: was zero meant?",
        ),
    ],
)
def test_doubts(changes: dict[str, Any], words: str) -> None:
    found = findings("warning", world(**changes))
    assert any(words in text for text in found), found


def test_states_that_no_observation_distinguishes() -> None:
    found = findings("warning", problem("lookalikes"))
    assert any("no observation distinguishes storm-east, storm-west" in text for text in found)


def test_notes() -> None:
    notes = findings("info", problem("machine-repair"))
    assert any(
        "the observation after manufacture, inspect, replace contains no information" in text
        for text in notes
    )
    assert any("does not have full rank" in text for text in notes)
    model = POMDP(world().setting, world().transition, remarks=["from a file"])
    assert findings("info", model) == ["from a file"]


def test_wrong_files_and_objects(tmp_path: Path) -> None:
    path = tmp_path / "broken.pomdp"
    path.write_text("states: 2\nactions: 1\nobservation: 2")
    unknown = "broken.pomdp:3: unknown keyword 'observation' (did you mean 'observations'?)"
    assert check_model(path) == [Issue("error", unknown)]
    assert "no such file" in findings("error", tmp_path / "absent.pomdp")[0]
    assert findings("error", 3) == ["a int is not a POMDP"]


def test_an_unlocked_array_is_noticed() -> None:
    model = world()
    model.transition.setflags(write=True)
    model.transition[0, 0, 0] = 0.8
    assert findings("error", model) == ["transition[a=wait, s=up] sums to 0.9"]
