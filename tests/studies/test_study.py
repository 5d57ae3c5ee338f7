"""Studies: mistakes in them, results that repeat, and what a crash may not take."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from psrl_pomdp import ParseError, PSRLError, plan, problem, save
from psrl_pomdp import verify as plan_verify
from psrl_pomdp._serialization.archives import pack, unpack
from psrl_pomdp.studies import experiment, jobs, read_study, runner
from psrl_pomdp.studies.executors import engine
from psrl_pomdp.studies.experiment import Experiment
from psrl_pomdp.studies.jobs import perform
from psrl_pomdp.studies.results import Job, decode, encode, jobs_of
from psrl_pomdp.studies.runner import run, verify
from psrl_pomdp.studies.store import Store, StudyError
from psrl_pomdp.studies.study import Study, study_from, with_file
from psrl_pomdp.studies.study_results import StudyResults
from psrl_pomdp.studies.summary import summarize
from psrl_pomdp.studies.tables import EPISODES, FITS, RUNS, write_tables


class Inline(Executor):
    """Runs a job where it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def small(**changes: Any) -> Study:
    words: dict[str, Any] = {
        "problem": "separated",
        "horizon": 300,
        "seeds": 2,
        "tolerance": 1e-4,
        "agents": [{"kind": "psrl", "floor": 1e-2}, {"kind": "oracle"}, {"kind": "random"}],
    }
    return study_from(words | changes)


def contents(folder: Path) -> dict[str, bytes]:
    """What must not depend on how a study was run."""
    skipped = ("manifest", "log", "lock")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(skipped)
    }


# -- the file -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizn": 5}, r"horizn is no key of a study \(did you mean 'horizon'\?\)"),
        ({"agents": [{"kind": "psrl", "schedul": "tsde"}]}, r"agents\[0\]\.schedul.*did you mean 'schedule'"),
        ({"agents": [{"kind": "prsl"}]}, r"agents\[0\]\.kind is 'prsl'.*did you mean 'psrl'"),
        ({"agents": [{"name": "x"}]}, r"agents\[0\]\.kind is missing"),
        ({"agents": []}, "agents is empty"),
        ({"agents": [{"kind": "psrl"}, {"kind": "psrl"}]}, "names tell results apart"),
        ({"agents": [{"kind": "psrl", "name": "../up"}]}, "letters, digits"),
        ({"agents": [{"kind": "psrl", "schedule": "dubling"}]}, r"schedule.*did you mean 'doubling'"),
        ({"agents": [{"kind": "psrl", "prior": "beta"}]}, r"agents\[0\]\.prior is 'beta'"),
        ({"horizon": 0}, "horizon is 0"),
        ({"horizon": "long"}, "Expected `int`"),
        ({"truth": "priors"}, r"truth is 'priors'.*did you mean 'prior'"),
        ({"tolerance": 0.0}, "tolerance is 0"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParseError, match=message):
        small(**changes)


def test_a_study_survives_its_file(tmp_path: Path) -> None:
    study = small(title='with "quotes"', parameters={"n_kernels": 3}, truth="prior")
    (tmp_path / "study.toml").write_text(study.to_toml())
    assert read_study(tmp_path / "study.toml") == study
    assert read_study(tmp_path / "study.toml").fingerprint == study.fingerprint
    (tmp_path / "bad.toml").write_text("horizon = = 3")
    with pytest.raises(ParseError, match=r"bad\.toml: not a study"):
        read_study(tmp_path / "bad.toml")


def test_a_model_file_beside_the_study(tmp_path: Path) -> None:
    save(problem("tiger"), tmp_path / "mine.json")
    (tmp_path / "study.toml").write_text('problem = "mine.json"\nhorizon = 50\nseeds = 1\ntolerance = 1e-3\n')
    study = read_study(tmp_path / "study.toml")
    result = decode(perform(study, jobs_of(study)[0]), "x")
    assert result.horizon == 50
    words = {"problem": "x", "horizon": 5, "seeds": 1, "agents": [{"kind": "psrl", "prior": "finite"}]}
    finite = with_file(study_from(words), tmp_path / "mine.json")
    with pytest.raises(PSRLError, match="no finite prior"):
        perform(finite, Job("psrl", 0))
    save(problem("machine-repair"), tmp_path / "mine.json")
    with pytest.raises(PSRLError, match=r"mine\.json was changed"):
        perform(study, jobs_of(study)[0])


# -- results ------------------------------------------------------------------------------------------


def test_the_same_bytes_in_any_order_and_on_any_engine(tmp_path: Path) -> None:
    study = small()
    inline, threads, processes = (Store.create(tmp_path / name, study) for name in "abc")
    assert run(inline, executor=Inline()).done == 6
    with ThreadPoolExecutor(3) as pool:
        run(threads, executor=pool, workers=3)
    run(processes, workers=2)
    assert contents(tmp_path / "a") == contents(tmp_path / "b") == contents(tmp_path / "c")
    assert verify(inline, 2) == (2, [])
    path = inline.path(Job("psrl", 0))
    path.write_bytes(encode(msgspec.structs.replace(inline.read(Job("psrl", 0)), cost=[0.0])))
    assert verify(inline, 6) == (6, ["psrl-00000"])


def test_all_agents_meet_the_same_world_and_chance() -> None:
    study = small(truth="prior", agents=[{"kind": "random"}, {"kind": "random", "name": "other"}])
    one, other = (decode(perform(study, Job(name, 1)), "x") for name in ("random", "other"))
    assert one.truth == other.truth
    assert one.cost != other.cost
    again = decode(perform(study, Job("random", 0)), "x")
    assert again.truth != one.truth


def test_summary_and_tables(tmp_path: Path) -> None:
    pandas_like = tmp_path / "s"
    store = Store.create(pandas_like, small(seeds=3))
    run(store, executor=Inline())
    document = summarize(store)
    regrets = {row["agent"]: row for row in document["agents"]}
    assert regrets["oracle"]["interval"][0] - 2 < 0 < regrets["oracle"]["interval"][1] + 2
    assert regrets["random"]["regret"] > 5 * regrets["psrl"]["regret"]
    assert regrets["psrl"]["posterior"] > 0.99
    runs, episodes, _ = write_tables(store)
    lines = runs.read_text().splitlines()
    assert tuple(lines[0].split(",")) == RUNS
    assert tuple(episodes.read_text().splitlines()[0].split(",")) == EPISODES
    last = dict(
        zip(RUNS, next(row for row in reversed(lines) if row.startswith("psrl,2,")).split(","), strict=True)
    )
    result = store.read(Job("psrl", 2))
    assert float(last["control"]) == result.control[-1]
    assert float(last["regret_lower"]) <= float(last["regret_upper"])
    assert int(last["episodes"]) == len(result.episodes.start)


# -- crashes ------------------------------------------------------------------------------------------


def test_a_job_is_taken_up_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, job = small(horizon=500), Job("psrl", 0)
    whole = perform(study, job)
    monkeypatch.setattr(jobs, "_BETWEEN", -1.0)
    partial = tmp_path / "half.run"
    kept = []

    class CutError(Exception):
        pass

    def cut(path: Path, data: bytes) -> None:
        path.write_bytes(data)
        kept.append(data)
        if len(kept) == 12:
            raise CutError

    monkeypatch.setattr(jobs, "write_atomically", cut)
    with pytest.raises(CutError):
        perform(study, job, partial)
    assert partial.exists()
    monkeypatch.undo()
    assert perform(study, job, partial) == whole
    partial.write_bytes(b"nonsense")
    assert perform(study, job, partial) == whole
    arrays = unpack(kept[-1], "x")
    agent = unpack(arrays["agent"].tobytes(), "x")
    agent["words"] = np.frombuffer(agent["words"].tobytes().replace(b'"version":2', b'"version":9'), np.uint8)
    arrays["agent"] = np.frombuffer(pack(agent), np.uint8)
    partial.write_bytes(pack(arrays))  # a run whose agent cannot be read: all of it is run again
    assert perform(study, job, partial) == whole


def _work_until_killed(folder: str) -> None:
    jobs._BETWEEN = -1.0  # keep every chance, so that every kind of moment is met
    store = Store.open(Path(folder))
    runner._AT_ONCE = 1  # results are written as they come
    run(store, executor=Keeping(store))
    os._exit(0)


class Keeping(Inline):
    """Inline, with half-done jobs kept as the pool of processes keeps them."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        study, job, _ = args
        return super().submit(fn, study, job, self.store.partial_path(job), **kwargs)


def test_a_hundred_kills_change_nothing(tmp_path: Path) -> None:
    """kill -9 at random moments, 100 times; what comes out is what an undisturbed run gives."""
    study = small(horizon=3000, seeds=12)
    whole = Store.create(tmp_path / "whole", study)
    begun = time.monotonic()
    run(whole, executor=Inline())
    expected = time.monotonic() - begun
    Store.create(tmp_path / "cut", study)
    rng = np.random.default_rng(0)
    fork = multiprocessing.get_context("fork")
    kills = 0
    while kills < 100:
        worker = fork.Process(target=_work_until_killed, args=(str(tmp_path / "cut"),))
        worker.start()
        worker.join(float(rng.exponential(expected / 40)))
        if worker.is_alive():
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
            kills += 1
        else:  # finished early: some results go, and it goes on
            assert worker.exitcode == 0
            for path in sorted((tmp_path / "cut" / "results").iterdir())[:: int(rng.integers(2, 4))]:
                path.unlink()
        worker.join()
    last = Store.open(tmp_path / "cut")
    run(last, executor=Keeping(last))
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_what_is_wrong_with_a_folder_is_named(tmp_path: Path) -> None:
    study = small()
    store = Store.create(tmp_path / "s", study)
    run(store, executor=Inline())
    assert Store.create(tmp_path / "s", study).missing() == ([], [])
    with pytest.raises(StudyError, match="another study"):
        Store.create(tmp_path / "s", small(horizon=301))
    with pytest.raises(StudyError, match="no study"):
        Store.open(tmp_path)
    begun = tmp_path / "begun"  # killed while it was made
    begun.mkdir()
    (begun / "results").mkdir()
    (begun / "manifest.json").write_text("{")
    Store.create(begun, study)
    kept = tmp_path / "s" / ".gitignore"
    kept.write_text("*")
    (tmp_path / "s" / "results" / ".psrl-00000.json.abc").write_text("half")
    run(store, executor=Inline())
    assert kept.exists()
    assert not list((tmp_path / "s" / "results").glob(".*"))
    kept.unlink()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("dear")
    with pytest.raises(StudyError, match="not empty"):
        Store.create(tmp_path / "full", study)
    path = store.path(Job("oracle", 1))
    good = path.read_bytes()
    for damaged in (
        good[:-20],
        good.replace(b'"run":1', b'"run":0'),
        b"",
        store.path(Job("oracle", 0)).read_bytes(),
    ):
        path.write_bytes(damaged)
        todo, complaints = store.missing()
        assert todo == [Job("oracle", 1)]
        assert "results/oracle-00001.json" in complaints[0]
    run(store, executor=Inline())
    assert path.read_bytes() == good
    (tmp_path / "s" / "study.toml").write_text(small(seeds=3).to_toml())
    with pytest.raises(StudyError, match="was changed"):
        Store.open(tmp_path / "s")


def test_two_runs_do_not_trample_each_other(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "s", small())
    with store.locked(), pytest.raises(StudyError, match="another process"):
        run(Store.open(tmp_path / "s"), executor=Inline())


def test_a_failing_job_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "s", small())

    class Unlucky(Inline):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            if args[1] == Job("oracle", 0):
                failed: Future[Any] = Future()
                failed.set_exception(OSError(28, "No space left on device"))
                return failed
            return super().submit(fn, *args, **kwargs)

    progress = run(store, executor=Unlucky())
    assert progress.done == 5
    assert progress.failures == ["oracle-00000: [Errno 28] No space left on device"]
    events = [json.loads(line)["event"] for line in (tmp_path / "s" / "log.jsonl").read_text().splitlines()]
    assert events.count("done") == 5
    assert "failed" in events


def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    study = small(seeds=4, horizon=20_000)
    store = Store.create(tmp_path / "s", study)
    killed: list[int] = []

    def kill_one(progress: Any) -> None:
        children = multiprocessing.active_children()
        if progress.done >= 1 and not killed and children:
            pid = children[0].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    progress = run(store, workers=2, report=kill_one)
    assert killed
    assert progress.failures == []
    assert store.missing() == ([], [])


def test_engines_by_name() -> None:
    with pytest.raises(LookupError, match="did you mean 'local'"), engine("locl", 1):
        pass


def test_two_local_clusters_do_not_want_the_same_port() -> None:
    """A warning about a port that is taken would be an error here."""
    pytest.importorskip("distributed")
    with engine("dask", 1) as one, engine("dask", 1) as another:
        assert one.submit(abs, -3).result() == another.submit(abs, 3).result()


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_clusters_give_the_same_bytes_though_a_worker_is_killed(name: str, tmp_path: Path) -> None:
    """A local cluster of each kind; the worker that runs the first job is killed under it."""
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[name])
    study = small(seeds=3)
    run(Store.create(tmp_path / "here", study), executor=Inline())
    mark = tmp_path / "died"

    def die_once() -> str:
        if not mark.exists():
            mark.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return "alive"

    with engine(name, 2) as pool:
        killed = pool.submit(die_once)
        store = Store.create(tmp_path / "there", study)
        progress = run(store, executor=pool, workers=2, engine_name=name)
        assert killed.result(timeout=120) == "alive"
    assert progress.failures == []
    assert mark.exists()
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_parquet_holds_the_same_as_csv(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    store = Store.create(tmp_path / "s", small(seeds=1))
    run(store, executor=Inline())
    tables = [parquet.read_table(path) for path in write_tables(store, parquet=True)]
    assert [tuple(table.column_names) for table in tables] == [RUNS, EPISODES, FITS]
    plain, *_ = write_tables(store)
    assert tables[0].num_rows == len(plain.read_text().splitlines()) - 1
    assert tables[0].column("control").to_pylist()[-1] == store.read(Job("random", 0)).control[-1]


# -- the plan of the truth ----------------------------------------------------------------------------


def test_the_plan_that_regrets_are_measured_against_is_stored(tmp_path: Path) -> None:
    study, model = small(agents=[{"kind": "random"}]), problem("separated")
    store = Store.create(tmp_path / "s", study)
    run(store, executor=Inline())
    stored = StudyResults(store).plan_of_truth
    assert stored is not None
    for result in store.done():
        assert (result.truth.lower, result.truth.upper) == (stored.lower_cost, stored.upper_cost)
    low, high = plan_verify(stored, model)
    assert low <= stored.lower + 1e-9
    assert stored.upper <= high + 1e-9
    whole = store.plan_path.read_bytes()
    store.path(Job("random", 1)).unlink()
    store.plan_path.unlink()
    experiment._last = None  # which holds the plan
    run(store, executor=Inline())
    assert store.plan_path.read_bytes() == whole
    store.plan_path.write_bytes(whole[:-9])
    assert StudyResults(store).plan_of_truth is None
    plan(problem("tiger"), 1e-2).save(store.plan_path)
    assert StudyResults(store).plan_of_truth is None  # of another model


def test_a_plan_is_stored_though_the_first_job_fails_and_not_where_every_run_has_its_own(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    class FirstFails(Inline):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            if kwargs["with_plan"]:
                asked.append(args[1].name)
            if args[1] == Job("random", 0):
                failed: Future[Any] = Future()
                failed.set_exception(OSError(28, "No space left on device"))
                return failed
            return super().submit(fn, *args, **kwargs)

    store = Store.create(tmp_path / "fixed", small(agents=[{"kind": "random"}], seeds=9))
    run(store, executor=FirstFails())
    assert asked[0] == "random-00000"
    assert len(asked) == 2
    assert store.plan_path.exists()
    drawn = Store.create(tmp_path / "drawn", small(agents=[{"kind": "random"}], truth="prior"))
    run(drawn, executor=Inline())
    assert not drawn.plan_path.exists()


# -- reading a study ----------------------------------------------------------------------------------


def test_results_of_a_study_are_read_once_and_what_is_missing_is_named(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "s", small(agents=[{"kind": "random"}, {"kind": "oracle"}]))
    empty = StudyResults.open(tmp_path / "s")
    assert set(empty.missing.values()) == {"not run so far"}
    with pytest.raises(StudyError, match=r"no finished run .*psrl-pomdp resume"):
        empty.require_some()
    run(store, executor=Inline())
    store.path(Job("oracle", 0)).unlink()
    damaged = store.path(Job("random", 1))
    damaged.write_bytes(damaged.read_bytes().replace(b'"cost"', b'"most"', 1))
    with pytest.raises(ParseError, match="checksum"):
        StudyResults.open(tmp_path / "s")
    found = StudyResults.open(tmp_path / "s", skip_damaged=True)
    assert found.missing.keys() == {"oracle-00000", "random-00001"}
    assert {agent: [r.run for r in runs] for agent, runs in found.by_agent.items()} == {
        "random": [0],
        "oracle": [1],
    }
    assert found.effects["random-00000"]["steps"] == 300


def test_the_regret_of_a_result_is_that_of_its_run() -> None:
    """Against Trace.regret_curve, for rewards too."""
    for name in ("separated", "tiger"):
        study = small(problem=name, agents=[{"kind": "random"}], horizon=50)
        result = decode(perform(study, Job("random", 0)), "x")
        again = Experiment(study)
        trace = again.simulation(study.agents[0], 0).until(50)
        lower, upper = trace.regret_curve(again.plan_of_truth(0))
        found = result.regret_interval()
        np.testing.assert_allclose(found[0], lower, rtol=1e-12)
        np.testing.assert_allclose(found[1], upper, rtol=1e-12)
        assert result.final_regret == pytest.approx(0.5 * (lower[-1] + upper[-1]))
