"""An agent of somebody else's that fails in a run: it is named, and no run of another agent is lost."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from commands import run as command
from psrl_pomdp import InvalidModelError, PluginError
from psrl_pomdp.studies import runner
from psrl_pomdp.studies.jobs import perform
from psrl_pomdp.studies.results import Job
from psrl_pomdp.studies.store import Store
from psrl_pomdp.studies.study import Study, study_from

HERE = "test_failing_plugins"
_SEEDS = 3


class Turns:
    """Takes its actions in turn."""

    def __init__(self, setting: Any, seed: int = 0) -> None:
        self.n_actions = setting.n_actions
        self.time = 0

    def act(self, observation: int | None) -> Any:
        self.time += 1
        return self.time % self.n_actions


class Raises(Turns):
    def act(self, observation: int | None) -> Any:
        if self.time == 20:
            raise ZeroDivisionError("in the middle\nof a run")
        return super().act(observation)


class ReasonError(Exception):
    """Cannot be unpickled: a process that receives it would break."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("text")


class RaisesItsOwn(Turns):
    def act(self, observation: int | None) -> Any:
        raise ReasonError(1, 2)


class Leaves(Turns):
    def act(self, observation: int | None) -> Any:
        raise SystemExit(0)


class LeavesAtOnce(Turns):
    def __init__(self, setting: Any, seed: int = 0) -> None:
        raise SystemExit(0)


class Wild(Turns):
    def act(self, observation: int | None) -> Any:
        return 99


class Wordy(Turns):
    def act(self, observation: int | None) -> Any:
        return "left"


class WildBeliever(Wild):
    uses_prior = True

    def __init__(self, prior: Any, seed: int = 0) -> None:
        super().__init__(prior.setting, seed)


class Dies(Turns):
    """Ends its process; a pool of processes breaks with it."""

    def act(self, observation: int | None) -> Any:
        if self.time == 20:
            os._exit(9)
        return super().act(observation)


class DirectExecutor(Executor):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # as a pool of processes does
            future.set_exception(error)
        return future


def study_of(name: str, **changes: Any) -> Study:
    agents = [{"kind": f"{HERE}:{name}"}, {"kind": "random"}]
    words = {"problem": "separated", "horizon": 60, "seeds": _SEEDS, "tolerance": 1e-2, "agents": agents}
    return study_from(words | changes)


FAILING = [
    ("Raises", r"raised ZeroDivisionError\('in the middle\\nof a run'\) in a run"),
    ("RaisesItsOwn", r"raised ReasonError\('text'\) in a run"),
    ("Leaves", r"raised SystemExit\(0\) in a run"),
    ("LeavesAtOnce", r"raised SystemExit\(0\) when an agent was made"),
    ("Wild", "the agent chose action 99 at step 1: a whole number from 0 to 1 is wanted"),
    ("Wordy", "the agent chose action 'left' at step 1: a whole number from 0 to 1 is wanted"),
]


@pytest.mark.parametrize(("name", "why"), FAILING)
def test_the_plugin_is_named_and_the_other_agent_has_its_results(name: str, why: str, tmp_path: Path) -> None:
    study = study_of(name)
    store = Store.create(tmp_path / "s", study)
    progress = runner.run(store, executor=DirectExecutor())
    place = f"plug-in {HERE}:{name} of the group psrl_pomdp.agents: "
    assert len(progress.failures) == _SEEDS
    for run, text in enumerate(sorted(progress.failures)):
        assert text.startswith(f"{name}-{run:05d}: {place}")
        assert re.search(why, text)
        assert "\n" not in text
    for run in range(_SEEDS):
        assert store.path(Job("random", run)).read_bytes() == perform(study, Job("random", run))


def test_the_prior_of_an_agent_is_named_too() -> None:
    agent = {"kind": f"{HERE}:WildBeliever", "prior": {"kind": "test_plugins:two_kernels"}}
    with pytest.raises(PluginError, match=r"WildBeliever of .*the plug-in test_plugins:two_kernels of the"):
        perform(study_of("Wild", agents=[agent]), Job("WildBeliever", 0))


def test_an_error_of_an_agent_of_this_package_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psrl_pomdp.agents.baselines.random_agent.RandomAgent.act", lambda *_: 99)
    with pytest.raises(InvalidModelError, match="chose action 99 at step 1"):
        perform(study_of("Turns"), Job("random", 0))


def test_a_plugin_that_kills_its_worker_costs_its_own_runs_only(tmp_path: Path) -> None:
    """Each pool that it breaks also holds runs of the other agents."""
    store = Store.create(tmp_path / "s", study_of("Dies", seeds=4))
    progress = runner.run(store, workers=2)
    assert progress.done == 4
    assert {text.partition("-")[0] for text in progress.failures} == {"Dies"}
    assert [job.agent for job in store.missing()[0]] == ["Dies"] * 4
    place = f"plug-in {HERE}:Dies of the group psrl_pomdp.agents: "
    assert sum(f"{place}its worker died 3 times" in text for text in progress.failures) >= 3
    log = [json.loads(line) for line in (tmp_path / "s" / "log.jsonl").read_text().splitlines()]
    assert sum(entry["event"] == "failed" for entry in log) == 4


def test_compare_prints_one_line_for_a_plugin_that_fails_in_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    agents = f"{HERE}:Raises,random,{HERE}:Turns"
    asked = ["compare", "separated", "--agents", agents, "--horizon", "40", "--seeds", "4", "--workers", "1"]
    code, out, err = command(*asked, "--json", capsys=capsys)
    assert code == 1
    document = json.loads(out)
    assert [row["agent"] for row in document["agents"]] == ["random", "Turns"]
    assert [row["runs"] for row in document["agents"]] == [4, 4]
    assert len(document["failures"]) == 4
    lines = [line for line in err.splitlines() if "Raises" in line]
    assert len(lines) == 2
    assert f"plug-in {HERE}:Raises of the group psrl_pomdp.agents: raised ZeroDivisionError" in lines[0]
    assert lines[1].startswith("4 of 12 runs failed (4 of Raises); ")
    code, out, _ = command("compare", document["folder"], capsys=capsys)
    assert code == 0
    assert "1 pair of agents differs by no significant amount" in out or "has less regret than" in out
