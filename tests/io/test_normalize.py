"""Published files whose rows sum to .999: refused with a hint, and rescaled where that is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from commands import run
from psrl_pomdp import ParseError, check_model, load, plan, problem, save
from psrl_pomdp.io.rows import RowRule

POMDP_FILE = """discount: 0.95
values: reward
states: sound worn
actions: go
observations: quiet loud
start: 0.5 {start}
T: go
0.9 {t}
0.0 1.0
O: go
0.8 {o}
0.3 0.7
R: go : sound : * : * 1
"""
POMDPX_FILE = """<?xml version="1.0" encoding="UTF-8"?>
<pomdpx version="1.0" id="worn">
<Discount>0.95</Discount>
<Variable>
<StateVar vnamePrev="s0" vnameCurr="s1"><ValueEnum>sound worn</ValueEnum></StateVar>
<ObsVar vname="o"><ValueEnum>quiet loud</ValueEnum></ObsVar>
<ActionVar vname="a"><ValueEnum>go</ValueEnum></ActionVar>
<RewardVar vname="r"/>
</Variable>
<InitialStateBelief><CondProb><Var>s0</Var><Parent>null</Parent><Parameter type="TBL">
<Entry><Instance>-</Instance><ProbTable>0.5 {start}</ProbTable></Entry></Parameter></CondProb>
</InitialStateBelief>
<StateTransitionFunction><CondProb><Var>s1</Var><Parent>a s0</Parent><Parameter type="TBL">
<Entry><Instance>go - -</Instance><ProbTable>0.9 {t} 0.0 1.0</ProbTable></Entry></Parameter></CondProb>
</StateTransitionFunction>
<ObsFunction><CondProb><Var>o</Var><Parent>a s1</Parent><Parameter type="TBL">
<Entry><Instance>go - -</Instance><ProbTable>0.8 {o} 0.3 0.7</ProbTable></Entry></Parameter></CondProb>
</ObsFunction>
<RewardFunction><Func><Var>r</Var><Parent>a s0</Parent><Parameter type="TBL">
<Entry><Instance>go sound</Instance><ValueTable>1</ValueTable></Entry></Parameter></Func></RewardFunction>
</pomdpx>
"""


def json_text(t: float, o: float, start: float) -> str:
    return json.dumps(
        {
            "transition": [[[0.9, t], [0.0, 1.0]]],
            "observation": [[0.8, o], [0.3, 0.7]],
            "reward": [[1, 0]],
            "initial": [0.5, start],
        }
    )


def written(folder: Path, ending: str, t: float = 0.1, o: float = 0.2, start: float = 0.5) -> Path:
    path = folder / f"worn{ending}"
    if ending == ".npz":
        words = json.loads(json_text(t, o, start))
        np.savez(path, allow_pickle=False, **{name: np.array(value) for name, value in words.items()})
        return path
    texts = {
        ".pomdp": POMDP_FILE.format(t=t, o=o, start=start),
        ".pomdpx": POMDPX_FILE.format(t=t, o=o, start=start),
        ".json": json_text(t, o, start),
    }
    path.write_text(texts[ending])
    return path


ENDINGS = (".pomdp", ".pomdpx", ".json", ".npz")


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("where", ["t", "o", "start"])
@pytest.mark.parametrize("off", [-0.001, 0.001, 0.0099])
def test_rows_that_are_a_little_off_are_rescaled_where_that_is_asked_for(
    ending: str, where: str, off: float, tmp_path: Path
) -> None:
    right = {"t": 0.1, "o": 0.2, "start": 0.5}
    path = written(tmp_path, ending, **(right | {where: round(right[where] + off, 6)}))
    with pytest.raises(ParseError, match="normalize=True in Python, or --normalize, rescales such rows"):
        load(path)
    model = load(path, normalize=True)
    found = {
        "t": model.transition[0, 0],
        "o": model.setting.observation[0, 0],
        "start": model.setting.initial,
    }[where]
    raw = np.array([1.0 - right[where], right[where] + off])
    np.testing.assert_allclose(found, raw / raw.sum(), atol=1e-12)
    [remark] = [text for text in model.remarks if "off one by up to" in text]
    assert f"by up to {abs(off):.1g} and were" in remark
    assert remark in [finding.text for finding in check_model(model)]


@pytest.mark.parametrize("ending", ENDINGS)
def test_rows_that_are_far_off_are_refused_all_the_same(ending: str, tmp_path: Path) -> None:
    path = written(tmp_path, ending, t=0.089)
    with pytest.raises(ParseError, match=r"0\.989") as without:
        load(path)
    assert "normalize" not in str(without.value)
    with pytest.raises(ParseError, match=r"normalize rescales rows that are off by at most 0\.01"):
        load(path, normalize=True)


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_largest_correction_may_be_a_hundredth(ending: str, tmp_path: Path) -> None:
    model = load(written(tmp_path, ending, t=0.09), normalize=True)
    np.testing.assert_allclose(model.transition[0, 0], [0.9 / 0.99, 0.09 / 0.99], atol=1e-12)


@pytest.mark.parametrize("ending", ENDINGS)
def test_good_rows_are_left_alone(ending: str, tmp_path: Path) -> None:
    path = written(tmp_path, ending)
    one, other = load(path), load(path, normalize=True)
    assert one == other
    assert not [text for text in other.remarks if "off one" in text]


def test_a_negative_probability_gets_no_hint(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json_text(-0.1, 0.2, 0.5).replace("0.9, -0.1", "1.099, -0.1"))
    with pytest.raises(ParseError, match="negative") as told:
        load(path)
    assert "normalize" not in str(told.value)


def test_a_rescaled_model_is_saved_as_a_good_one(tmp_path: Path) -> None:
    model = load(written(tmp_path, ".pomdp", t=0.099), normalize=True)
    save(model, tmp_path / "good.json")
    assert load(tmp_path / "good.json") == model


def test_corrections_are_the_largest() -> None:
    rule = RowRule(normalize=True)
    for off in (1e-12, 1e-3, 5e-3, 2e-3):
        rule.note("T", off)
    assert rule.corrections == {"T": 5e-3}


def test_the_commands_take_the_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written(tmp_path, ".pomdp", t=0.099))
    code, _, err = run("show", path, capsys=capsys)
    assert code == 1
    assert "T: go : sound sums to 0.999 (normalize=True in Python, or --normalize" in err
    code, out, _ = run("show", path, "--normalize", capsys=capsys)
    assert code == 0
    assert "info: rows of T were off one by up to 0.001" in out
    plan_file = str(tmp_path / "plan.npz")
    code, out, _ = run("solve", path, "--normalize", "--save", plan_file, "--json", capsys=capsys)
    assert code == 0
    best = plan(load(path, normalize=True))
    assert json.loads(out)["lower"] == pytest.approx(best.lower, abs=1e-3)
    assert run("verify", plan_file, path, "--normalize", capsys=capsys)[0] == 0
    code, _, err = run("show", "tiger", "--normalize", capsys=capsys)
    assert code == 2
    assert "--normalize is for files" in err


def test_check_takes_the_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written(tmp_path, ".pomdp", t=0.099))
    words = ("check", path, "--horizon", "20", "--seeds", "1")
    assert run(*words, capsys=capsys)[0] == 1
    assert run(*words, "--normalize", capsys=capsys)[0] in (0, 3)


def test_library_problems_are_what_they_were() -> None:
    assert problem("tiger").remarks == ()
