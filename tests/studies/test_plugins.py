"""Names from other packages: what is found, what is refused and why, and what results record of it."""

from __future__ import annotations

import json
import multiprocessing
import re
import subprocess
import sys
import textwrap
import tomllib
import zipfile
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from commands import run as command
from psrl_pomdp import POMDP, FinitePrior, ParseError, load, plan, problem, registry, save
from psrl_pomdp.cli.common import folder_for
from psrl_pomdp.errors import PluginError, UnknownNameError
from psrl_pomdp.io import READABLE, FileFormat
from psrl_pomdp.io.array_files import read_json, write_json
from psrl_pomdp.problems import Entry, catalogue
from psrl_pomdp.studies import jobs, runner
from psrl_pomdp.studies.agent_kinds import AGENT_KINDS, KINDS, kind_of
from psrl_pomdp.studies.executors import engine
from psrl_pomdp.studies.experiment import Experiment
from psrl_pomdp.studies.jobs import perform, prior_of
from psrl_pomdp.studies.plugin_checks import check_plugin
from psrl_pomdp.studies.results import Job, decode
from psrl_pomdp.studies.store import Store
from psrl_pomdp.studies.study import Study, study_from

ROOT = Path(__file__).parents[2]
HERE = "test_plugins"  # this module, as a package of somebody else's would be named

# -- what somebody else might bring -------------------------------------------------------------------


class Still:
    """Takes the first action for ever. A second sentence."""

    def __init__(self, setting: Any, seed: int = 0, *, action: int = 0) -> None:
        assert isinstance(seed, int)
        self.action = action

    def act(self, observation: int | None) -> int:
        return self.action


class Believer(Still):
    uses_prior = True

    def __init__(self, prior: Any, seed: int = 0) -> None:
        super().__init__(prior.setting, seed)
        self.prior = prior


class Wild(Still):
    def act(self, observation: int | None) -> int:
        return 99


class Mute:
    def __init__(self, setting: Any, seed: int = 0) -> None: ...


class Greedy:
    def __init__(self, setting: Any, seed: int, more: int) -> None: ...
    def act(self, observation: int | None) -> int:
        return 0


class Failing(Still):
    def __init__(self, setting: Any, seed: int = 0) -> None:
        raise KeyError("oops")


NUMBER = 7


def two_kernels(model: POMDP, *, weight: float = 0.5) -> FinitePrior:
    """The true kernel and a uniform one."""
    kernels = [model.transition, np.full_like(model.transition, 1 / model.n_states)]
    return FinitePrior(model.setting, kernels, [weight, 1 - weight])


def no_prior(model: POMDP) -> dict[str, int]:
    return {}


def other_prior(model: POMDP) -> FinitePrior:
    found = problem("tiger").family
    assert found is not None
    return found


class SettingPrior(FinitePrior):
    """A class is made with the setting."""

    def __init__(self, setting: Any, *, stays: float = 0.9) -> None:
        n = setting.n_states
        kernel = stays * np.eye(n) + (1 - stays) / n
        super().__init__(setting, np.repeat(kernel[None, None], setting.n_actions, axis=1))


def small_tiger(accuracy: float = 0.8) -> POMDP:
    """A tiger of somebody else's. It bites."""
    model = problem("tiger", accuracy=accuracy)
    return POMDP(model.setting, model.transition)


def no_problem() -> int:
    return 3


def shaky_problem(counter: list[int] = [0]) -> POMDP:  # noqa: B006 - it is the mistake that is looked for
    counter[0] += 1
    return small_tiger(0.8 + 0.01 * (counter[0] % 5))


def coarse_planner(model: POMDP, tolerance: float = 0.1, time_limit: float | None = None) -> Any:
    return plan(model, max(tolerance, 0.02))


def wrong_planner(model: POMDP, tolerance: float = 0.1, time_limit: float | None = None) -> Any:
    found = plan(model, tolerance)
    return SimpleNamespace(
        lower=found.lower - 1.0, upper=found.lower - 0.9, status="closed", action=found.action
    )


class InlineEngine(Executor):
    def __init__(self, address: str, workers: int) -> None:
        assert address in ("", "there")

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class LossyEngine(InlineEngine):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = super().submit(fn, *args, **kwargs)
        if future.exception():
            return super().submit(RuntimeError, "something went wrong")
        return future


class TimidEngine:
    def __init__(self, address: str, workers: int) -> None:
        raise OSError("the queue is closed")


def no_executor(address: str, workers: int) -> Any:
    return Path.cwd().joinpath("x").parent.open if workers < 0 else __import__("contextlib").nullcontext(3)


JSON_AGAIN = FileFormat(read_json, write_json)
CARELESS = FileFormat(lambda data, path, **limits: json.loads(data), lambda model: b"[]")


@pytest.fixture
def registered() -> Iterator[None]:
    """Whatever a test registers is forgotten afterwards."""
    yield
    registry._registered.clear()
    registry._objects.clear()


def install(folder: Path, package: str, version: str, points: dict[str, dict[str, str]]) -> None:
    """The metadata of an installed package, as an installer writes them."""
    info = folder / f"{package.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    lines = []
    for group, names in points.items():
        lines += [f"[psrl_pomdp.{group}]", *(f"{name} = {path}" for name, path in names.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


# -- what the package registers of its own ------------------------------------------------------------


def test_entry_points_and_the_built_in_table_are_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = project["entry-points"]
    assert points == {f"psrl_pomdp.{group}": table for group, table in registry.BUILT_IN.items()}


def test_every_built_in_name_leads_to_what_it_names() -> None:
    for group in registry.GROUPS:
        for plugin in registry.plugins(group):
            if plugin.built_in:
                plugin.load()
    assert tuple(registry.BUILT_IN["agents"]) == KINDS
    assert [registry.load("agents", kind) for kind in KINDS] == [AGENT_KINDS[kind] for kind in KINDS]
    assert set(registry.BUILT_IN["problems"]) == {entry.name for entry in catalogue()}
    assert {entry.name: entry.build for entry in catalogue()} == {
        name: registry.load("problems", name) for name in registry.BUILT_IN["problems"]
    }
    assert tuple(f".{name}" for name in registry.BUILT_IN["formats"]) == READABLE
    assert registry.load("planners", "certified") is plan


def test_metadata_alone_lead_to_the_same(tmp_path: Path) -> None:
    """What an installer makes of pyproject.toml is read back as any other package's."""
    build = "import sys, hatchling.build as b; b.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if ".dist-info/" in name])
    script = """
        import json
        from psrl_pomdp import registry
        found = {group: {p.name: (p.path, p.built_in) for p in registry.from_metadata(group)}
                 for group in registry.GROUPS}
        for group in registry.GROUPS:
            for plugin in registry.from_metadata(group):
                plugin.load()
        print(json.dumps(found))
    """
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wanted = {
        group: {n: [path, True] for n, path in table.items()} for group, table in registry.BUILT_IN.items()
    }
    assert json.loads(done.stdout) == wanted


def test_old_metadata_of_this_package_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "psrl-pomdp", "0.0.1", {"agents": {"psrl": "psrl_pomdp.gone:PSRL", "past": "x:y"}})
    monkeypatch.syspath_prepend(tmp_path)
    assert registry.find("agents", "psrl").path == registry.BUILT_IN["agents"]["psrl"]
    assert "past" not in registry.names("agents")


# -- found and refused ----------------------------------------------------------------------------------


def test_installed_packages_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "other-package", "2.5", {"agents": {"still": f"{HERE}:Still"}})
    monkeypatch.syspath_prepend(tmp_path)
    found = registry.find("agents", "still")
    assert (found.package, found.version, found.load()) == ("other-package", "2.5", Still)
    assert registry.names("agents") == [*KINDS, "still"]
    assert registry.provenance(found)["version"] == "2.5"
    with pytest.raises(UnknownNameError, match=r"'stil' is not among the agents \(did you mean 'still'\?\)"):
        registry.find("agents", "stil")
    with pytest.raises(UnknownNameError, match=r"did you mean 'agents'"):
        registry.find("agent", "still")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("nowhere.at_all:x", "cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        (f"{HERE}:Stil", r"there is no 'Stil' in test_plugins \(did you mean 'Still'\?\)"),
        (f"{HERE}:Still.acts", r"there is no 'acts' in test_plugins:Still \(did you mean 'act'\?\)"),
        ("broken_module:x", "cannot be imported: ZeroDivisionError"),
        ("leaving_module:x", "cannot be imported: SystemExit"),
        (HERE, "is not an importable path"),
        (f"{HERE}:NUMBER", "an object of type int is neither a class"),
        (f"{HERE}:Mute", "the class Mute has no method `act`"),
        (f"{HERE}:Greedy", r"cannot be called with \(setting, seed=0\): missing .* 'more'"),
    ],
)
def test_a_broken_agent_is_named_with_group_name_and_package(
    path: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module.py").write_text("1 / 0")
    (tmp_path / "leaving_module.py").write_text("raise SystemExit(3)")
    install(tmp_path, "other-package", "2.5", {"agents": {"mine": path}})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match=why) as caught:
        kind_of("mine")
    assert f"plug-in 'mine' (other-package 2.5, {path}) of the group psrl_pomdp.agents" in str(caught.value)
    with pytest.raises(ParseError, match=rf"agents\[0\]\.kind: plug-in 'mine'.*{why}"):
        study_from({"problem": "tiger", "horizon": 9, "seeds": 1, "agents": [{"kind": "mine"}]})


def test_a_name_that_is_claimed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two strangers keep each other out; nobody takes a name of this package's."""
    install(tmp_path, "one", "1.0", {"agents": {"mine": f"{HERE}:Still", "psrl": f"{HERE}:Still"}})
    install(tmp_path, "two", "2.0", {"agents": {"mine": f"{HERE}:Wild"}})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match=r"'mine' .*psrl_pomdp\.agents is claimed by one 1\.0 and two 2\.0"):
        registry.find("agents", "mine")
    assert kind_of("psrl") is AGENT_KINDS["psrl"]
    [theirs] = [p for p in registry.plugins("agents") if p.name == "psrl" and not p.built_in]
    [finding] = check_plugin(theirs)
    assert finding.severity == "error"
    assert "claimed by one 1.0 and psrl-pomdp" in finding.text


def test_what_a_script_registers(registered: None) -> None:
    registry.register("agents", "still", Still)
    assert kind_of("still").about == "Takes the first action for ever. A second sentence"
    registry.register("problems", "mine", f"{HERE}:small_tiger")
    assert problem("mine").parameters == {"accuracy": 0.8}
    registry.register("executors", "here", lambda address, workers: InlineEngine(address, workers))
    with engine("here", 1) as pool:
        assert pool.submit(int, "3").result() == 3
    assert registry.registrations() == (
        ("agents", "still", f"{HERE}:Still"),
        ("problems", "mine", f"{HERE}:small_tiger"),
    )


def test_what_cannot_be_registered(registered: None) -> None:
    def local(model: POMDP) -> None: ...

    registry.register("agents", "still", Still)
    for group, name, factory, why in (
        ("agents", "psrl", Still, "'psrl' is taken, by the plug-in 'psrl' .psrl-pomdp"),
        ("agents", "still", Still, "'still' is taken, by the plug-in 'still'"),
        (
            "priors",
            "mine",
            lambda model: None,
            "import it by its path: a lambda has no name",
        ),
        ("priors", "mine", local, "local is defined inside a function; move it to the top of a module"),
        ("formats", "mine", JSON_AGAIN, "a FileFormat has no name of its own; give its path as a text"),
        ("agents", "a name", Still, "is no name of a plug-in"),
        ("agents", "mine", "no.such:thing", "No module named 'no'"),
    ):
        with pytest.raises(PluginError, match=why):
            registry.register(group, name, factory)
    with pytest.raises(UnknownNameError, match="is no group of plug-ins"):
        registry.register("agent", "mine", Still)


# -- in studies -----------------------------------------------------------------------------------------


def small(**changes: Any) -> Study:
    words: dict[str, Any] = {"problem": "separated", "horizon": 60, "seeds": 2, "tolerance": 1e-2}
    return study_from(words | changes)


def test_studies_of_before_keep_their_fingerprints() -> None:
    agents = [{"kind": "psrl", "prior": "finite"}, {"kind": "oracle"}, {"kind": "mean", "rtol": 0.1}]
    assert small(agents=agents).fingerprint == "ae8e878c83e8790f"
    assert small(agents=[AGENT], problem=f"{HERE}:small_tiger").fingerprint != small().fingerprint


AGENT = {"kind": f"{HERE}:Still", "options": {"action": 1}}


def test_paths_in_a_study(tmp_path: Path) -> None:
    prior = {"kind": f"{HERE}:two_kernels", "weight": 0.25}
    believer = {"kind": f"{HERE}:Believer", "prior": prior}
    coarse = {"kind": "psrl", "prior": prior, "planner": f"{HERE}:coarse_planner"}
    study = small(
        problem=f"{HERE}:small_tiger", parameters={"accuracy": 0.7}, agents=[AGENT, believer, coarse]
    )
    assert [spec.label for spec in study.agents] == ["Still", "Believer", "psrl"]
    (tmp_path / "study.toml").write_text(study.to_toml())
    store = Store.create(tmp_path / "out", study)
    assert Store.open(tmp_path / "out").study == study
    assert runner.run(store, executor=InlineEngine("", 1)).failures == []
    used = ["small_tiger", "Still", "Believer", "two_kernels", "coarse_planner"]
    assert [words["name"] for words in store.plugins] == [f"{HERE}:{name}" for name in used]
    assert {len(words["sha256"]) for words in store.plugins} == {64}
    result = store.read(Job("Still", 1))
    assert result.plugins == store.plugins
    assert result.problem == "small_tiger"
    assert np.array(result.visits)[-1, 1].sum() == 60  # the option was heard
    experiment = Experiment(study)
    agent: Any = experiment.agent(study.agents[1], 0)
    assert agent.prior.weights[0] == 0.25
    playing: Any = experiment.agent(study.agents[2], 0)
    assert playing.planner is coarse_planner
    bayesian = small(agents=[{"kind": "psrl", "prior": prior}, believer], truth="prior")
    assert Experiment(bayesian).model(0).name == "separated drawn for run 0"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"prior": "whear"},
            r"agents\[0\]\.prior is 'whear', not one of finite, dirichlet.*psrl_pomdp\.priors",
        ),
        ({"prior": {"rate": 2.0}}, r"agents\[0\]\.prior has no kind"),
        ({"prior": 3}, r"Expected `str \| object`"),
        ({"planner": "fast"}, r"agents\[0\]\.planner is 'fast', not one of certified"),
        ({"kind": "oracle", "planner": "certified"}, r"agents\[0\]\.planner: oracle takes none"),
        ({"kind": f"{HERE}:Still", "prior": "dirichlet"}, r"agents\[0\]\.prior: test_plugins:Still has none"),
    ],
)
def test_mistakes_in_a_study_are_named(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ParseError, match=why):
        small(agents=[{"kind": "psrl"} | changes])


def test_priors_are_made_for_the_problem() -> None:
    model = problem("separated")
    assert prior_of(model, {"kind": "dirichlet"}) == model.prior
    assert isinstance(prior_of(model, {"kind": f"{HERE}:SettingPrior", "stays": 0.5}), SettingPrior)
    for wanted, why in (
        ({"kind": f"{HERE}:two_kernels", "wait": 1}, r"no option 'wait' \(did you mean 'weight'\?\)"),
        ({"kind": "finite", "weight": 1}, "it has no option 'weight'; it has none"),
        (f"{HERE}:no_prior", "it returned a dict, which is no prior: it has no sample"),
        (f"{HERE}:other_prior", "it returned a prior for"),
        (f"{HERE}:NUMBER", "an object of type int cannot be called"),
        ({"kind": f"{HERE}:SettingPrior", "stays": "x"}, "raised .* when a prior was made"),
    ):
        with pytest.raises(PluginError, match=why):
            prior_of(model, wanted)


def test_problems_of_others() -> None:
    model = problem(f"{HERE}:small_tiger", accuracy=0.7)
    assert (model.name, model.entry.title) == ("small_tiger", "A tiger of somebody else's. It bites")
    assert isinstance(model.entry, Entry)
    assert model.prior.concentration.tolist() == (model.transition > 0).astype(float).tolist()
    with pytest.raises(UnknownNameError, match=r"no parameter 'acuracy' \(did you mean 'accuracy'\?\)"):
        problem(f"{HERE}:small_tiger", acuracy=0.7)
    with pytest.raises(PluginError, match="it returned a int, not a POMDP"):
        problem(f"{HERE}:no_problem")
    assert folder_for(f"{HERE}:small_tiger", "results") == Path("small_tiger-results")
    assert folder_for("models/mine.json", "results") == Path("mine-results")


def test_engines_of_others(tmp_path: Path) -> None:
    study = small(agents=[{"kind": "random"}])
    one, other = Store.create(tmp_path / "a", study), Store.create(tmp_path / "b", study)
    runner.run(one, engine_name=f"{HERE}:InlineEngine://there")
    runner.run(other, executor=InlineEngine("", 1))
    assert one.path(Job("random", 1)).read_bytes() == other.path(Job("random", 1)).read_bytes()
    said = json.loads((one.folder / "log.jsonl").read_text().splitlines()[0])
    assert said["engine_plugin"]["path"] == f"{HERE}:InlineEngine"
    for name, why in (
        (f"{HERE}:TimidEngine", "plug-in .*TimidEngine .*raised OSError.*queue is closed"),
        (f"{HERE}:no_executor", "it returned an object of type int, which has no method `submit`"),
        (f"{HERE}:NUMBER", "an object of type int cannot be called"),
    ):
        with pytest.raises(PluginError, match=why), engine(name, 1):
            pass
    with pytest.raises(UnknownNameError, match=r"'dusk' .*did you mean 'dask'"), engine("dusk://x:1", 1):
        pass


def test_formats_of_others(registered: None, tmp_path: Path) -> None:
    registry.register("formats", "mine", f"{HERE}:JSON_AGAIN")
    model = problem("tiger")
    save(model, tmp_path / "a.mine")
    assert load(tmp_path / "a.mine") == model
    with pytest.raises(ParseError, match=r"unknown ending '\.yours'; known are .*\.npz, \.mine"):
        load(tmp_path / "a.yours")
    registry.register("formats", "three", f"{HERE}:NUMBER")
    with pytest.raises(PluginError, match="it has no function `read`"):
        load(tmp_path / "a.three")


def test_worker_processes_know_what_a_script_has_registered(registered: None, tmp_path: Path) -> None:
    registry.register("agents", "still", Still)
    study = small(agents=[{"kind": "still", "options": {"action": 1}}])
    store = Store.create(tmp_path / "out", study)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert runner.run(store, executor=pool).failures == []
    assert store.read(Job("still", 0)).plugins[0]["path"] == f"{HERE}:Still"


def test_a_long_run_of_an_agent_that_cannot_be_saved_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_BETWEEN", -1.0)
    study = small(agents=[{"kind": f"{HERE}:Still"}])
    partial = tmp_path / "half.run"
    assert decode(perform(study, Job("Still", 0), partial), "x").horizon == 60
    assert not partial.exists()
    perform(small(agents=[{"kind": "random"}]), Job("random", 0), partial)
    assert partial.exists()  # the test would see it


def test_another_version_than_that_of_the_beginning_is_told(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "out", small(agents=[AGENT]))
    manifest = store.folder / "manifest.json"
    words = json.loads(manifest.read_text())
    words["plugins"][0] |= {"sha256": "0" * 64}
    manifest.write_text(json.dumps(words))
    progress = runner.run(store, executor=InlineEngine("", 1))
    assert progress.done == 2
    assert [note for note in progress.notes if "was test_plugins:Still (SHA-256 000000000000)" in note]


# -- checks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "name", "level", "why"),
    [
        ("agents", "Still", "warning", "no to_bytes"),
        ("agents", "Wild", "error", "its action 99 at step 1"),
        ("agents", "Failing", "error", r"raised KeyError\('oops'\) when an agent was made"),
        ("priors", "no_prior", "error", "which is no prior"),
        ("planners", "wrong_planner", "error", "does not contain the optimum"),
        ("planners", "NUMBER", "error", "cannot be called"),
        ("problems", "shaky_problem", "error", "made twice"),
        ("executors", "LossyEngine", "error", "an error that a job raises is lost"),
        ("executors", "TimidEngine", "error", "the queue is closed"),
    ],
)
def test_checks_find_what_is_broken(group: str, name: str, level: str, why: str) -> None:
    findings = check_plugin(registry.find(group, f"{HERE}:{name}"))
    assert [f for f in findings if f.severity == level and re.search(why, f.text)], findings


def test_checks_find_nothing_in_what_is_whole(registered: None) -> None:
    for group, name in (("executors", "InlineEngine"), ("problems", "small_tiger")):
        found = check_plugin(registry.find(group, f"{HERE}:{name}"))
        assert [f for f in found if f.severity == "error"] == []
    registry.register("formats", "mine", f"{HERE}:JSON_AGAIN")
    assert check_plugin(registry.find("formats", "mine")) == []
    registry.register("formats", "careless", f"{HERE}:CARELESS")
    texts = [found.text for found in check_plugin(registry.find("formats", "careless"))]
    assert any("not a ParseError" in text for text in texts)
    assert any("is another model after" in text for text in texts)


# -- on the command line --------------------------------------------------------------------------------


def test_the_command_lists_and_checks(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command("plugins", "--json", capsys=capsys)
    rows = json.loads(out)
    assert code == 0
    assert {row["group"] for row in rows} == {f"psrl_pomdp.{group}" for group in registry.GROUPS}
    code, out, _ = command("plugins", "--check", "problems", "json", capsys=capsys)
    assert (code, "none of them failed" in out) == (0, True)
    code, out, _ = command("plugins", "--check", f"{HERE}:Wild", capsys=capsys)
    assert (code, "error: its action 99" in out, "1 of them failed" in out) == (1, True, True)
    code, _, err = command("plugins", "prolems", capsys=capsys)
    assert (code, "did you mean 'problems'?" in err) == (1, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["compare", "tiger", "--agents", "psrl,nothere:MyAgent"], "the current directory, "),
        (["compare", "tiger", "--agents", "prsl"], "did you mean 'psrl'?"),
        (["run", "tiger", "--engine", "lokal"], "did you mean 'local'?"),
        (["run", "tiger", "--prior", "dirichle"], "did you mean 'dirichlet'?"),
        (["run", "nothere:pump"], "No module named 'nothere'"),
    ],
)
def test_mistakes_on_the_command_line_are_told_before_anything_is_written(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    code, _, err = command(*words, capsys=capsys)
    assert code != 0
    assert why in err
    assert list(tmp_path.iterdir()) == []


def test_refused_with_a_reason() -> None:
    with pytest.raises(PluginError, match=r"plug-in test_plugins:Still .* has no option 'actoin'"):
        perform(small(agents=[{"kind": f"{HERE}:Still", "options": {"actoin": 1}}]), Job("Still", 0))
