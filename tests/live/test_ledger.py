"""Exactly once: the log, its answers, restarts and failures, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from fake_fleet import EPISODE, make_fleet
from plants import plant, play, postgres_folder, refused, rows_of, running, send
from sqlalchemy import text

from psrl_pomdp.live.audit import audit
from psrl_pomdp.live.events import LiveError, RefusedError, UnavailableError
from psrl_pomdp.live.ledger import Ledger, Request
from psrl_pomdp.live.replay import restore
from psrl_pomdp.live.store import Store


def test_the_same_key_gives_the_same_answer_to_the_byte(either_database: str) -> None:
    with running(either_database) as ledger:
        first = send(ledger, "p1", 1, "good", key="k1")
        send(ledger, "p1", 2, "defective", key="k2")
        assert send(ledger, "p1", 1, "good", key="k1") == first
    with running(either_database) as ledger:  # also after a restart
        assert send(ledger, "p1", 1, "good", key="k1") == first
        assert ledger.engine is not None
        assert ledger.engine.units["p1"].step == 2
        assert [row.kind for row in rows_of(ledger) if row.kind == "reading"] == ["reading"] * 2


def test_the_pair_of_unit_and_step_is_a_key(either_database: str) -> None:
    with running(either_database) as ledger:
        first = send(ledger, "p1", 1, "good")
        assert send(ledger, "p1", 1, "good") == first
        found = refused(ledger, "p1", 1, "defective")
        assert (found.status, found.members["expected"]) == (422, 2)


def test_a_key_with_another_body_is_refused(either_database: str) -> None:
    with running(either_database) as ledger:
        send(ledger, "p1", 1, "good", key="k")
        for unit, step, reading in (("p1", 1, "defective"), ("p1", 2, "good"), ("p2", 1, "good")):
            assert refused(ledger, unit, step, reading, key="k").status == 422
        assert send(ledger, "p1", 2, "good", key="another")


@pytest.mark.parametrize("step", [0, 1, 3, 99])
def test_a_step_out_of_order_names_the_step_that_is_expected(either_database: str, step: int) -> None:
    with running(either_database) as ledger:
        send(ledger, "p1", 1, "good", key="k1")
        found = refused(ledger, "p1", step, "good", key=f"other-{step}")
        assert (found.status, found.members["expected"]) == (409, 2)
        assert refused(ledger, "new", 2, "good").members["expected"] == 1


def test_a_key_may_stand_in_for_the_step(either_database: str) -> None:
    with running(either_database) as ledger:
        answers = [send(ledger, "p1", None, "good", key=f"k{i}") for i in range(3)]
        assert [json.loads(answer)["step"] for answer in answers] == [1, 2, 3]
        assert send(ledger, "p1", None, "good", key="k1") == answers[1]
        assert refused(ledger, "p1", None, "good").status == 400


def test_readings_of_a_batch_share_a_commit_and_fail_one_by_one(either_database: str) -> None:
    with running(either_database) as ledger:
        before = ledger.metrics.text()
        assert "psrl_pomdp_commits_total 0" in before
        wanted = [
            Request("reading", "p1", {"step": 1, "reading": "good"}, "a"),
            Request("reading", "p2", {"step": 5, "reading": "good"}, "b"),
            Request("reading", "p1", {"step": 2, "reading": "good"}, "c"),
            Request("reading", "p1", {"step": 1, "reading": "good"}, "a"),  # in the same commit
            Request("reading", "p1", {"step": 2, "reading": "defective"}, "c"),
        ]
        answers = ledger.take_all(wanted).result(timeout=30)
        assert [each.status if isinstance(each, RefusedError) else 200 for each in answers] == [
            200, 409, 200, 200, 422,
        ]  # fmt: skip
        assert answers[0] == answers[3]
        assert "psrl_pomdp_commits_total 1" in ledger.metrics.text()


@pytest.mark.parametrize(
    ("reading", "part"),
    [("goood", "did you mean 'good'"), (2, "no reading"), (-1, "no reading"), (True, "no reading"),
     ([0], "no reading"), ({"a": 1}, "no reading"), (0.0, "no reading")],
)  # fmt: skip
def test_what_is_no_reading_changes_nothing(tmp_path: Path, reading: Any, part: str) -> None:
    with running(str(tmp_path / "plant.db")) as ledger:
        found = refused(ledger, "p1", 1, reading)
        assert found.status == 422
        assert part in found.detail
        assert refused(ledger, "p1", 1, "good", taken="replace").status == 422
        assert len(rows_of(ledger)) == 1
        assert send(ledger, "p1", 1, None)
        assert refused(ledger, "p1", 2, "good", taken="replase").detail.count("did you mean") == 1


def test_a_restart_goes_on_as_if_nothing_had_happened(either_database: str, tmp_path: Path) -> None:
    """The same answers to the byte, beliefs and times included; no plan is due in so few readings."""
    units, steps = ["a", "b", "c"], EPISODE // 3
    with running(str(tmp_path / "undisturbed.db"), clock=lambda: 4e9) as ledger:
        wanted = play(ledger, units, steps)
    answers: list[str] = []
    for first in range(1, steps + 1):
        with running(either_database, clock=lambda: 4e9) as ledger:
            answers += play(ledger, units, 1, first)
    numbers = [json.loads(each).pop("decision") for each in answers]
    assert len(set(numbers)) == len(numbers)
    assert answers == wanted
    with Store(either_database) as store:
        assert audit(store, make_fleet).good


def test_a_replay_from_the_first_event_reaches_the_state_of_the_server(either_database: str) -> None:
    with running(either_database) as ledger:
        play(ledger, ["a", "b"], 60)
        ledger.take(Request("override", "a", {"action": 2, "decision": last_decision(ledger, "a")})).result()
        play(ledger, ["a", "b"], 10, 61)
        engine = ledger.submit(lambda ledger, turn: ledger.engine.to_bytes()).result()  # type: ignore[union-attr]
    with Store(either_database) as store:
        with store.engine.begin() as connection:
            connection.execute(text("DELETE FROM snapshots"))
        found, findings = restore(store, make_fleet)
        assert findings == []
        assert found.to_bytes() == engine


def last_decision(ledger: Ledger, unit: str) -> str:
    assert ledger.engine is not None
    return f"d{ledger.engine.units[unit].decision}"


def test_plans_come_from_the_worker_and_are_events(either_database: str) -> None:
    with running(either_database) as ledger:
        play(ledger, ["a"], 30)
        for _ in range(300):
            if any(row.kind == "adopted" for row in rows_of(ledger)):
                break
            threading.Event().wait(0.05)
        (adopted,) = [row for row in rows_of(ledger) if row.kind == "adopted"]
        assert adopted.data is not None
        assert ledger.engine is not None
        assert ledger.engine.fleet.late_steps == 5
        play(ledger, ["a"], 5, 31)
    with Store(either_database) as store:
        assert audit(store, make_fleet).good


def test_the_second_server_is_refused_by_name(either_database: str) -> None:
    with (
        running(either_database),
        pytest.raises(LiveError, match="is in use by the server 'machines', process"),
        running(either_database),
    ):
        pass
    with running(either_database) as ledger:  # and the lock ends with the first
        assert send(ledger, "p", 1, "good")


def test_a_commit_that_fails_is_taken_back_and_answered_with_503(either_database: str) -> None:
    with running(either_database) as ledger:
        first = send(ledger, "p1", 1, "good", key="k1")
        fail = break_commits(ledger)
        with pytest.raises(UnavailableError) as error:
            send(ledger, "p1", 2, "good", key="k2")
        assert (error.value.status, error.value.retry_after) == (503, 1)
        assert not ledger.ready
        assert ledger.engine is not None
        assert ledger.engine.units["p1"].step == 1  # the memory is that of the log
        fail.clear()
        wait_until_ready(ledger)
        answer = send(ledger, "p1", 2, "good", key="k2")
        assert json.loads(answer)["step"] == 2
        assert send(ledger, "p1", 1, "good", key="k1") == first
    with Store(either_database) as store:
        assert audit(store, make_fleet).good


def break_commits(ledger: Ledger) -> threading.Event:
    """Let every commit fail until the event is cleared, after its rows were written."""
    fail = threading.Event()
    fail.set()
    append, probe = ledger.store.append, ledger.store.probe

    def failing(call: Any) -> Any:
        def run(*arguments: Any) -> None:
            if fail.is_set():
                raise OSError("the disk is gone")
            call(*arguments)

        return run

    ledger.store.append = failing(append)  # type: ignore[method-assign]
    ledger.store.probe = failing(probe)  # type: ignore[method-assign]
    return fail


def wait_until_ready(ledger: Ledger) -> None:
    for _ in range(100):
        try:
            ledger.ask(lambda engine: None).result(timeout=30)
        except UnavailableError:
            threading.Event().wait(0.1)
        else:
            return
    raise AssertionError("not ready after 10 seconds")


@pytest.mark.parametrize("pragma", ["max_page_count", "query_only"])
def test_a_full_disk_and_a_read_only_database_lose_nothing(tmp_path: Path, pragma: str) -> None:
    """SQLite's own errors: `database or disk is full`, and `attempt to write a readonly database`."""
    database = str(tmp_path / "plant.db")
    with running(database) as ledger:
        answers = play(ledger, ["a"], 20)
        on_every_connection(ledger, pragma, broken=True)
        taken = 20
        taken += fill(ledger, "a", taken)
        assert ledger.engine is not None
        assert ledger.engine.units["a"].step == taken
        with pytest.raises(UnavailableError):
            send(ledger, "a", taken + 1, "good")
        on_every_connection(ledger, pragma, broken=False)
        wait_until_ready(ledger)
        assert json.loads(send(ledger, "a", taken + 1, "good"))["step"] == taken + 1
        assert send(ledger, "a", 20, (20 * 7) % 5 // 3) == answers[19]
    with Store(database) as store:
        assert audit(store, make_fleet).good


def fill(ledger: Ledger, unit: str, first: int) -> int:
    """Send readings after a step until one is not taken; how many were."""
    for step in range(first + 1, first + 2000):
        try:
            send(ledger, unit, step, "good")
        except UnavailableError as error:
            if re.search("full|readonly", str(error)):
                return step - first - 1
            raise
    raise AssertionError("the database is not broken")


def on_every_connection(ledger: Ledger, pragma: str, *, broken: bool) -> None:
    """Break or mend SQLite: the connection that writes, and those that are opened later."""
    from sqlalchemy import event

    def mend(connection: Any, _record: Any = None) -> None:
        if pragma == "query_only":
            connection.execute(f"PRAGMA query_only={int(broken)}")
        else:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count={pages + 4 if broken else 2**30}")

    event.listen(ledger.store.engine, "connect", mend)
    ledger.store.engine.dispose()
    ledger.store.drop_writer()  # no command is running: the tests wait for every answer


def test_a_clock_that_goes_back_does_not_turn_the_log_back(either_database: str) -> None:
    now = [1_000_000.0]
    with running(either_database, clock=lambda: now[0]) as ledger:
        send(ledger, "p", 1, "good")
        now[0] -= 5000.0
        send(ledger, "p", 2, "good")
        now[0] += 5001.0
        send(ledger, "p", 3, "good")
        times = [row.at for row in rows_of(ledger)]
        assert times == sorted(times)
    with Store(either_database) as store:
        assert audit(store, make_fleet).good


def test_an_event_that_fails_spares_the_others_of_its_commit(tmp_path: Path) -> None:
    with running(str(tmp_path / "plant.db")) as ledger:
        send(ledger, "p", 1, "good")

        def poison(ledger: Ledger, turn: Any) -> None:
            assert ledger.engine is not None
            ledger.engine.units["p"].step = 77  # half done
            raise RuntimeError("a fault")

        bad, good = ledger.submit(poison), ledger.take(Request("reading", "p", {"step": 2, "reading": 0}))
        with pytest.raises(RefusedError, match="a fault") as error:
            bad.result(timeout=30)
        assert error.value.status == 500
        assert json.loads(good.result(timeout=30))["step"] == 2
        assert ledger.ready


def test_postgresql_is_tested_where_it_is_installed() -> None:
    if Path("/usr/lib/postgresql").is_dir():
        assert postgres_folder() is not None


def test_a_plant_file_that_describes_another_plant_is_refused_by_its_key(either_database: str) -> None:
    with running(either_database):
        pass
    for change in ({"seed": 4}, {"model": "tiger"}, {"prior": "dirichlet"}):
        (key,) = change
        with (
            pytest.raises(LiveError, match=rf"machines: {key}: "),
            running(either_database, plant(**{"fallback": "0", **change})),
        ):
            pass
    with running(either_database, plant(guards=["at most one replace a day"])) as ledger:
        assert ledger.engine is not None
        assert [row.kind for row in rows_of(ledger)].count("configuration") == 2
        assert len(ledger.engine.guards) == 1
    with running(either_database, plant(guards=["at most one replace a day"])) as ledger:
        assert [row.kind for row in rows_of(ledger)].count("configuration") == 2
