"""Comparisons: verdicts that are right as often as they say, and a command that tells what it did."""

import json
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from psrl_pomdp import FinitePrior, plan, problem
from psrl_pomdp._serialization.archives import pack
from psrl_pomdp.agents.baselines.certainty import MAPAgent
from psrl_pomdp.agents.baselines.random_agent import RandomAgent
from psrl_pomdp.agents.baselines.tsde import TSDEAgent
from psrl_pomdp.cli.compare import command
from psrl_pomdp.errors import InvalidModelError, ParseError, PSRLError
from psrl_pomdp.studies.agent_kinds import AGENT_KINDS, KINDS
from psrl_pomdp.studies.comparison import decades, default_agents, information_of, verdicts
from psrl_pomdp.studies.experiment import Experiment
from psrl_pomdp.studies.jobs import perform_and_measure
from psrl_pomdp.studies.results import Job
from psrl_pomdp.studies.runner import run
from psrl_pomdp.studies.store import Store
from psrl_pomdp.studies.study import AgentSpec, study_from


def runs(values: np.ndarray) -> dict[int, float]:
    return dict(enumerate(values.tolist()))


# -- verdicts ---------------------------------------------------------------------------------------


def test_where_all_are_alike_hardly_any_table_has_a_verdict() -> None:
    """400 tables of 6 learners and 8 runs, at 95 %: 20 wrong tables expected at most, 42 pass (5 s.d.)."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(400):
        shared = rng.standard_normal(8)
        table = {name: runs(shared + rng.standard_normal(8)) for name in "abcdef"}
        wrong += any(pair["sure"] for pair in verdicts(table, 0.95))
    assert 0 < wrong <= 42


def test_pairs_are_compared_run_by_run() -> None:
    """Chance that both share, fifty times the difference, does not hide it."""
    rng = np.random.default_rng(2)
    shared = 50.0 * rng.standard_normal(12)
    [pair] = verdicts({"a": runs(shared + 1.0 + 0.1 * rng.standard_normal(12)), "b": runs(shared)})
    assert (pair["better"], pair["worse"], pair["sure"]) == ("b", "a", True)
    low, high = pair["interval"]
    assert low < 1.0 < high
    assert high - low < 0.5


def test_runs_that_one_of_them_lacks_are_left_out() -> None:
    first = {0: 1.0, 1: 2.0, 2: 3.0, 5: 100.0}
    second = {1: 2.5, 2: 3.5, 0: 1.5, 7: -100.0}
    [pair] = verdicts({"a": first, "b": second})
    assert (pair["better"], pair["difference"]) == ("a", pytest.approx(0.5))
    assert verdicts({"a": {0: 1.0}, "b": {0: 2.0}}) == []


def test_holm_shares_the_level_among_pairs() -> None:
    """p of .004 is enough for one pair at 99 %, and not for the smallest of three."""
    rng = np.random.default_rng(3)
    base = rng.standard_normal(10)
    table = {"a": runs(0 * base), "b": runs(1.2 * base.std() + base - base.mean())}
    [one] = verdicts(table)
    assert 0.01 / 3 < one["p"] < 0.01
    assert one["sure"]
    three = verdicts(table | {"c": runs(rng.permutation(base - base.mean()))})
    assert not any(pair["sure"] for pair in three)


def with_p(p: float, n: int = 10) -> dict[int, float]:
    """Values whose mean Student's test finds different from zero with this p."""
    base = np.random.default_rng(4).standard_normal(n)
    base = (base - base.mean()) / base.std(ddof=1)
    return runs(base + stats.t.isf(p / 2, n - 1) / np.sqrt(n))


def test_a_verdict_says_a_direction_and_is_one_of_two_hypotheses() -> None:
    """Of two pairs the second is sure up to p = .01 / 1.5; up to .01 if a difference were all it said."""
    first = {"a": with_p(1e-6), "b": runs(np.zeros(10))}
    for p, sure in ((0.0066, True), (0.0068, False)):
        second = {"c": with_p(p), "d": runs(np.zeros(10))}
        apart = {name: {run + 100: value for run, value in own.items()} for name, own in second.items()}
        pairs = verdicts(first | apart)
        assert [pair["better"] for pair in pairs] == ["b", "d"]
        assert pairs[1]["p"] == pytest.approx(p)
        assert [pair["sure"] for pair in pairs] == [True, sure]


@pytest.mark.parametrize(("n", "sure"), [(2, False), (7, False), (8, True)])
def test_the_same_difference_in_a_few_runs_may_be_chance(n: int, sure: bool) -> None:
    """A difference of ±0.1, like a coin: the same n times with probability 2^(1 − n)."""
    [pair] = verdicts({"a": {run: run + 0.1 for run in range(n)}, "b": {run: float(run) for run in range(n)}})
    assert pair["p"] == 2.0 ** (1 - n)
    assert pair["sure"] is sure


def test_the_same_in_every_run_is_no_difference() -> None:
    [pair] = verdicts({"a": {0: 1.0, 1: 2.0}, "b": {0: 1.0, 1: 2.0}})
    assert pair["p"] == 1.0
    assert not pair["sure"]


def test_the_times_of_a_table() -> None:
    assert decades([1, 10, 100, 316, 1000, 3000]) == [100, 1000, 3000]
    assert decades([1, 7]) == [7]


# -- who takes part -----------------------------------------------------------------------------------


def test_everybody_takes_part_unless_asked() -> None:
    with_family = default_agents(problem("separated"))
    assert {words["kind"] for words in with_family.values()} == set(KINDS)
    assert with_family["psrl"]["prior"] == "dirichlet"
    assert with_family["psrl-family"]["prior"] == "finite"
    assert "psrl-family" not in default_agents(problem("random-readout"))
    assert default_agents(problem("separated"), "finite")["psrl-tsde"]["schedule"] == "tsde"


@pytest.mark.parametrize("name", ["random-readout", "machine-repair"])
def test_those_who_do_not_fit_say_why(name: str) -> None:
    known = default_agents(problem(name))
    study = study_from({"problem": name, "horizon": 10, "seeds": 2, "agents": list(known.values())})
    refused = Experiment(study).refusals()
    if name == "random-readout":
        assert refused == {}
    else:
        assert set(refused) == {"oas-ucrl", "oas-ucrl-actions", "seeu-known", "seeu", "sm-ucrl"}
        assert all("observation model" in why for why in refused.values())


def test_an_option_that_is_none_is_named() -> None:
    agents = [{"kind": "mean", "options": {"exploraton": 1.0}}]
    study = study_from({"problem": "separated", "horizon": 10, "seeds": 2, "agents": agents})
    assert "no option 'exploraton' (did you mean 'exploration'?)" in Experiment(study).refusals()["mean"]


def test_a_kind_without_a_prior_has_no_schedule() -> None:
    agents = [{"kind": "random", "schedule": "tsde"}]
    with pytest.raises(PSRLError, match=r"agents\[0\].schedule: random has none"):
        study_from({"problem": "separated", "horizon": 10, "seeds": 2, "agents": agents})


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"floor": -1.0}, r"agents\[0\].floor is -1.0"),
        ({"floor": float("nan")}, r"agents\[0\].floor is nan"),
        ({"floor": 0.1}, r"floor is 0.1 and ceiling 0.02"),
        ({"ceiling": 2.0}, r"ceiling 2.0"),
        ({"floor": 0.0, "ceiling": 0.0}, r"ceiling 0.0"),
        ({"max_work": 0.0}, r"agents\[0\].max_work is 0.0"),
    ],
)
def test_effort_that_is_none_is_refused_before_anything_runs(told: dict[str, float], words: str) -> None:
    study = {"problem": "separated", "horizon": 10, "seeds": 2}
    with pytest.raises(PSRLError, match=words):
        study_from(study | {"agents": [{"kind": "psrl"} | told]})
    with pytest.raises(PSRLError, match="study: max_work is nan"):
        study_from(study | {"max_work": float("nan")})


def test_jobs_that_a_broken_executor_left_are_named(tmp_path: Path) -> None:
    class Broken(Executor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            raise BrokenExecutor

    study = study_from({"problem": "tiger", "horizon": 10, "seeds": 2, "agents": [{"kind": "random"}]})
    progress = run(Store.create(tmp_path / "out", study), executor=Broken())
    assert progress.failures == ["random-00000: the executor broke", "random-00001: the executor broke"]


def test_an_interrupt_while_the_truth_is_planned_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = replace(plan(problem("railway"), 0.1), status="interrupted")
    monkeypatch.setattr("psrl_pomdp.studies.experiment.plan", lambda *_, **__: stopped)
    study = study_from({"problem": "railway", "horizon": 9, "seeds": 1, "agents": [{"kind": "random"}]})
    with pytest.raises(KeyboardInterrupt):
        perform_and_measure(study, Job("random", 0))


def test_options_are_part_of_a_study_and_no_options_are_none() -> None:
    plain = {"problem": "separated", "horizon": 10, "seeds": 2, "agents": [{"kind": "mean"}]}
    empty = plain | {"agents": [{"kind": "mean", "options": {}}]}
    exploring = plain | {"agents": [{"kind": "mean", "options": {"exploration": 1.0}}]}
    assert study_from(plain).fingerprint == study_from(empty).fingerprint
    assert study_from(plain).fingerprint != study_from(exploring).fingerprint


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_runs_and_can_be_kept(kind: str) -> None:
    """On the problem that all of them fit, in a study; what it took is measured beside the result."""
    study = study_from(
        {
            "problem": "random-readout",
            "horizon": 150,
            "seeds": 1,
            "agents": [{"kind": kind}],
            "tolerance": 1e-3,
        }
    )
    data, effects, _ = perform_and_measure(study, Job(kind, 0))
    assert effects.steps == 150
    assert effects.seconds >= effects.planning >= 0.0
    assert effects.memory
    assert perform_and_measure(study, Job(kind, 0)).data == data


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_saved_agent_of_the_kind_is_refused(kind: str) -> None:
    study = study_from({"problem": "random-readout", "horizon": 1, "seeds": 1, "agents": [{"kind": kind}]})
    experiment = Experiment(study)
    agent: Any = experiment.agent(study.agents[0], 0)
    agent.act(0)
    words = {"words": np.frombuffer(b"{}", np.uint8)}
    foreign = {type(one): one.to_bytes() for one in (RandomAgent(2), TSDEAgent(experiment.dirichlet_prior))}
    foreign.pop(type(agent), None)
    for data in (b"", b"no archive", pack({}), pack(words), *foreign.values()):
        with pytest.raises(ParseError):
            type(agent).from_bytes(data)
    assert type(type(agent).from_bytes(agent.to_bytes())) is type(agent)


def test_worlds_do_not_depend_on_who_is_compared() -> None:
    first = study_from({"problem": "separated", "horizon": 10, "seeds": 2, "truth": "prior"})
    agents = [{"kind": "oracle"}, {"kind": "tsde"}, {"kind": "psrl"}]
    second = study_from(
        {"problem": "separated", "horizon": 10, "seeds": 2, "truth": "prior", "agents": agents}
    )
    assert Experiment(first).model(1) == Experiment(second).model(1)


def test_a_prior_that_is_left_open_is_the_family_where_there_is_one() -> None:
    """What a learner was told is what it was made from."""
    for name, told in (("separated", "sensor, family"), ("random-readout", "sensor, prior")):
        study = study_from({"problem": name, "horizon": 10, "seeds": 2, "agents": [{"kind": "map"}]})
        spec, experiment = study.agents[0], Experiment(study)
        agent = experiment.agent(spec, 0)
        assert isinstance(agent, MAPAgent)
        assert isinstance(agent.prior, FinitePrior) == (told == "sensor, family")
        assert information_of(spec, experiment.problem) == told
    assert information_of(AgentSpec("psrl", prior="dirichlet"), problem("separated")) == "sensor, prior"
    assert information_of(AgentSpec("tsde"), problem("separated")) == "sensor, prior"
    own = AgentSpec("psrl", prior={"kind": "mine:Wear", "k": 3})
    assert information_of(own) == "sensor, mine:Wear"


def test_the_tree_search_has_the_prior_that_a_study_names() -> None:
    """Without one it has Dirichlet rows, also on a problem with a finite prior."""
    words = {"problem": "separated", "horizon": 10, "seeds": 2}
    agents = [{"kind": "ba-pomcp"}, {"kind": "ba-pomcp", "name": "four", "prior": "finite"}]
    study = study_from(words | {"agents": agents})
    world, found = problem("separated"), Experiment(study)
    made: list[Any] = [found.agent(spec, 0) for spec in study.agents]
    assert [agent.prior for agent in made] == [world.prior, world.family]
    told = [information_of(spec, world) for spec in study.agents]
    assert told == ["sensor, prior", "sensor, family"]
    with pytest.raises(ParseError, match="schedule: ba-pomcp has none"):
        study_from(words | {"agents": [{"kind": "ba-pomcp", "schedule": "tsde"}]})
    assert default_agents(world, "mine:prior")["ba-pomcp"]["prior"] == "mine:prior"


def test_every_kind_says_what_it_is_told() -> None:
    assert all(learner.about and learner.information for learner in AGENT_KINDS.values())


# -- the command --------------------------------------------------------------------------------------


def compared(*arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(command, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    document: dict[str, object] = json.loads(result.stdout)
    return document


def test_the_command_compares_and_opens_again(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    asked = ["random-readout", "--horizon", "400", "--seeds", "3", "--agents", "oracle,random,tsde"]
    first = compared(*asked, "--out", str(folder))
    rows = {row["agent"]: row for row in first["agents"]}  # type: ignore[attr-defined]
    assert list(rows) == ["oracle", "random", "tsde"]
    assert first["times"] == [100, 400]
    assert rows["oracle"]["interval"][-1][0] <= 0 <= rows["oracle"]["interval"][-1][1]
    assert rows["tsde"]["microseconds_a_step"] > 0
    assert rows["random"]["planning_seconds"] == 0
    assert {(pair["better"], pair["worse"]) for pair in first["pairs"]} >= {("oracle", "random")}  # type: ignore[attr-defined]
    assert (folder / "comparison.svg").exists()
    again = compared(str(folder))
    assert again["agents"] == first["agents"]
    shown = CliRunner().invoke(command, [str(folder)]).output
    assert "information, regret at" in shown
    assert "\ufffd" not in shown
    assert "oracle" in shown


def test_misfits_are_listed_and_the_others_compared(tmp_path: Path) -> None:
    asked = ["machine-repair", "--horizon", "20", "--seeds", "2", "--agents", "random,oas-ucrl"]
    document = compared(*asked, "--out", str(tmp_path / "out"))
    assert [row["agent"] for row in document["agents"]] == ["random"]  # type: ignore[attr-defined]
    assert "observation model" in document["refused"]["oas-ucrl"]  # type: ignore[index]
    with pytest.raises(InvalidModelError, match="oas-ucrl"):
        compared("machine-repair", "--agents", "oas-ucrl", "--out", str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_a_mistyped_contestant_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        PSRLError, match=r"no agent of the group psrl_pomdp.agents is called 'tdse' .did you mean"
    ):
        compared("tiger", "--agents", "tdse", "--out", str(tmp_path / "out"))


def told_off(*arguments: str) -> str:
    result = CliRunner().invoke(command, list(arguments))
    assert result.exit_code != 0
    return result.output


def test_what_would_be_ignored_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags beside a study file or beside the folder of a study, `--seed 0` among them."""
    monkeypatch.chdir(tmp_path)
    agents = [{"kind": "random"}]
    study = {"problem": "tiger", "horizon": 10, "seeds": 2, "seed": 5, "tolerance": 1e-2, "agents": agents}
    Path("STUDY.TOML").write_text(study_from(study).to_toml())
    assert "--seed: a study file says everything" in told_off("STUDY.TOML", "--seed", "0")
    assert "--agents: a study file says everything" in told_off("STUDY.TOML", "--agents", "tsde")
    compared("STUDY.TOML", "--out", "done", "--workers", "1")
    assert "--agents cannot change a study that was run" in told_off("done", "--agents", "tsde")
    assert "names no agent" in told_off("tiger", "--agents", ",")
    for file in Path("done", "results").iterdir():
        file.unlink()
    assert "done holds no result to compare" in told_off("done")


def test_a_problem_comes_before_a_folder_of_its_name_and_nobody_takes_part_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("random-readout").mkdir()
    asked = ["--horizon", "10", "--seeds", "2", "--agents", "random,random", "--workers", "1"]
    document = compared("random-readout", *asked)
    assert [row["agent"] for row in document["agents"]] == ["random"]  # type: ignore[attr-defined]
    assert compared("random-readout-comparison")["agents"] == document["agents"]
