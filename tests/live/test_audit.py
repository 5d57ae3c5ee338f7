"""The log is proved by a replay: an edited row is found, and an earlier point can be taken up again."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from fake_fleet import make_fleet
from plants import play, running, send
from sqlalchemy import text

from psrl_pomdp.live.audit import audit, export_events, export_readings, rollback
from psrl_pomdp.live.events import FIRST_HASH, LiveError, Outcome, rows_of
from psrl_pomdp.live.ledger import Request
from psrl_pomdp.live.store import Store


@pytest.fixture
def log(either_database: str) -> str:
    """A log with 60 readings of two units, an override, and perhaps a plan."""
    with running(either_database) as ledger:
        play(ledger, ["a", "b"], 30)
        assert ledger.engine is not None
        decision = f"d{ledger.engine.units['a'].decision}"
        ledger.take(Request("override", "a", {"action": "inspect", "decision": decision})).result()
        send(ledger, "a", 31, "good")
    return either_database


def change(database: str, statement: str) -> None:
    with Store(database) as store, store.engine.begin() as connection:
        connection.execute(text(statement))


def test_a_log_that_nobody_touched_is_good(log: str) -> None:
    with Store(log) as store:
        report = audit(store, make_fleet)
        head = store.head()
    assert report.good
    assert report.decisions == 61
    assert report.snapshots >= 2
    assert head is not None
    assert (report.events, report.hash) == (head.seq, head.hash)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET body = replace(body, '1', '0') WHERE seq = 20",
        "UPDATE events SET answer = replace(answer, '\"step\":', '\"stop\":') WHERE seq = 20",
        "UPDATE events SET why = NULL WHERE seq = 20",
        "UPDATE events SET at = '2001-01-01T00:00:00.000000Z' WHERE seq = 20",
        "UPDATE events SET who = 'nobody' WHERE seq = 20",
        "UPDATE events SET step = step + 1 WHERE seq = 20",
        "UPDATE events SET hash = previous_hash WHERE seq = 20",
        "DELETE FROM events WHERE seq = 20",
    ],
)
def test_one_changed_row_is_found_and_named(log: str, statement: str) -> None:
    change(log, statement)
    with Store(log) as store:
        report = audit(store, make_fleet)
    assert not report.good
    (finding,) = report.findings
    assert finding.startswith("event 20 ")
    assert "its hash is not that of its contents" in finding or finding == "event 20 is missing"


def test_a_forger_who_makes_all_hashes_anew_is_found_by_the_replay(log: str) -> None:
    with Store(log) as store:
        rows = list(store.rows())
        with store.engine.begin() as connection:
            connection.execute(text("DELETE FROM events"))
            connection.execute(text("DELETE FROM snapshots"))
        previous = FIRST_HASH
        for row in rows:
            body = json.loads(row.body)
            answer = row.answer
            if row.seq == 20:
                answer = (row.answer or "").replace('"action_number":', '"action_number":1')
            event = row.event
            del body
            (forged,) = rows_of(previous, event, Outcome(answer, row.why))
            store.append([forged])
            previous = forged.hash
        report = audit(store, make_fleet)
    assert not report.good
    assert report.findings[0].startswith("event 20 (reading")


def test_a_snapshot_that_was_changed_is_found(log: str) -> None:
    change(log, "UPDATE snapshots SET data = (SELECT data FROM snapshots ORDER BY seq LIMIT 1)")
    with Store(log) as store:
        report = audit(store, make_fleet)
    assert "is not the state that the replay reaches" in report.findings[0]


def test_a_rollback_goes_on_from_an_earlier_point(log: str) -> None:
    with Store(log) as store:
        before = [row for row in store.rows() if row.kind == "reading" and row.unit == "a"]
        aim = before[9].seq + (1 if before[9].seq == 2 else 0)  # after step 10 of unit a
        seq = rollback(store, aim, "Ada", make_fleet)
        assert audit(store, make_fleet).good
    with running(log) as ledger:
        assert ledger.engine is not None
        assert ledger.engine.expected_step("a") == 11
        assert ledger.engine.expected_step("b") == 10
        assert before[9].answer == send(ledger, "a", 10, json.loads(before[9].body)["reading"])
        answer = json.loads(send(ledger, "a", 11, "defective"))  # another reading than the first time
        assert int(answer["decision"][1:]) > seq
    with Store(log) as store:
        assert audit(store, make_fleet).good
        readings = io.StringIO()
        assert export_readings(store, readings) == 10 + 9 + 1
        events = io.StringIO()
        export_events(store, events)
        void = [json.loads(line)["seq"] for line in events.getvalue().splitlines() if '"void"' in line]
        assert void == list(range(aim + 1, seq))
        # Back to where it was before the rollback: the rows that were void count again.
        rollback(store, seq - 1, None, make_fleet)
    with running(log) as ledger:
        assert ledger.engine is not None
        assert ledger.engine.expected_step("a") == 32
    with Store(log) as store:
        assert audit(store, make_fleet).good
        with pytest.raises(LiveError, match="there is no event 9999"):
            rollback(store, 9999, None, make_fleet)


def test_the_exported_readings_say_what_was_done(log: str) -> None:
    with Store(log) as store:
        out = io.StringIO()
        assert export_readings(store, out) == 61
    lines = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert len(lines) == 61
    overridden = next(line for line in lines if (line["unit"], line["step"]) == ("a", "30"))
    assert overridden["action"] == "inspect"


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE things (name TEXT)")
    connection.close()
    for create in (False, True):
        with pytest.raises(LiveError, match=r"other\.db is (no database of a plant|a database of another)"):
            Store(str(tmp_path / "other.db"), create=create)
    with pytest.raises(LiveError, match="no such database"):
        Store(str(tmp_path / "none.db"))
    with pytest.raises(LiveError, match="lost with the server"):
        Store("sqlite://")
    with pytest.raises(LiveError, match="--db nonsense://x"):
        Store("nonsense://x")
    (tmp_path / "text.db").write_text("this is no database, but a text that is long enough" * 20, "utf-8")
    with pytest.raises(LiveError, match=r"text\.db cannot be opened: file is not a database"):
        Store(str(tmp_path / "text.db"))
