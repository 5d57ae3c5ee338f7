"""Files that earlier versions wrote: they load, and go on as they would have."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import msgspec
import pytest

from psrl_pomdp import ParseError, Plan, PSRLAgent, problem, verify
from psrl_pomdp.studies.results import FORMAT, decode, encode
from psrl_pomdp.studies.study_results import StudyResults
from psrl_pomdp.studies.summary import summarize

DATA = Path(__file__).parents[1] / "data"
WANTED = json.loads((DATA / "version_0_1.json").read_text())


@pytest.mark.parametrize("name", ["agent_finite_0_1.npz", "agent_dirichlet_0_1.npz"])
def test_agents_of_version_0_1_play_on(name: str, tmp_path: Path) -> None:
    agent = PSRLAgent.load(DATA / name)
    agent.save(tmp_path / "new.npz")
    again = PSRLAgent.load(tmp_path / "new.npz")
    readings, actions = WANTED[name]["readings"], WANTED[name]["actions"]
    assert [agent.act(o) for o in readings] == actions
    assert [again.act(o) for o in readings] == actions


def test_a_plan_of_version_0_1_is_the_same() -> None:
    name = "plan_tiger_0_1.npz"
    found, wanted = Plan.load(DATA / name), WANTED[name]
    assert [found.action([p, 1.0 - p]) for p in wanted["right"]] == wanted["actions"]
    assert (found.lower, found.upper) == (wanted["lower"], wanted["upper"])
    assert verify(found, problem("tiger")) == pytest.approx((found.lower, found.upper), abs=1e-9)


# -- results of studies: format 1, which version 0.1 wrote ------------------------------------------

REGRETS = {  # as the version that wrote them computed them
    "psrl": (1.5458648924252958, [0.685159831946882, 2.4065699529037095], 0.9999913449887852),
    "rows": (2.4755373315553784, [-5.212389506813633, 10.163464169924389], 0.9575908916245279),
    "random": (5.6806528369183, [2.377281584374186, 8.984024089462414], None),
}


def test_results_of_format_1_say_what_they_said(tmp_path: Path) -> None:
    shutil.copytree(DATA / "study_format_1", tmp_path / "study")
    results = StudyResults.open(tmp_path / "study")
    assert not results.missing
    assert {result.format for result in results.runs} == {1}
    rows = {row["agent"]: row for row in summarize(results)["agents"]}
    assert list(rows) == list(REGRETS)
    for agent, (regret, interval, posterior) in REGRETS.items():
        assert rows[agent]["regret"] == pytest.approx(regret, rel=1e-12)
        assert rows[agent]["interval"] == pytest.approx(interval, rel=1e-12)
        assert rows[agent]["posterior"] == posterior


def test_results_of_a_later_format_are_refused_by_name() -> None:
    data = (DATA / "study_format_1" / "results" / "psrl-00000.json").read_bytes()
    old = decode(data, "old")
    assert decode(encode(msgspec.structs.replace(old, format=FORMAT)), "new").control == old.control
    body = json.dumps({"format": FORMAT + 1, "version": "9.9", "control": "another shape"}).encode()
    total = hashlib.sha256(body).hexdigest().encode()
    with pytest.raises(ParseError, match=rf"later: .* format {FORMAT + 1}, by psrl-pomdp 9.9"):
        decode(b'{"sha256":"' + total + b'","result":' + body + b"}", "later")
