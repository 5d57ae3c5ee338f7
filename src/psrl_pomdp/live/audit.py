"""Prove a log: the chain of hashes, and every decision by a replay from the first event on.

Also a rollback, which takes an earlier point of the log as the state to go on from, and exports.
"""

from __future__ import annotations

import csv
import hashlib
import time
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

import msgspec

from .engine import Engine, FleetMaker, decision_id, fleet_from_bytes
from .events import (
    DERIVED,
    FIRST_HASH,
    ROLLBACK,
    Event,
    LiveError,
    Outcome,
    Row,
    json_text,
    rows_of,
    time_text,
)
from .replay import Segments, check_row, counted, follow, from_the_start, place
from .stream import row_document

if TYPE_CHECKING:
    from .store import Store

_MOST_FINDINGS = 20


class AuditReport(msgspec.Struct, frozen=True):
    """What an audit found."""

    events: int
    decisions: int
    snapshots: int  # that were compared with the replay
    hash: str  # of the last event: two copies of a log with the same hash are the same
    findings: tuple[str, ...]  # the first bad row first

    @property
    def good(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def audit(store: Store, make_fleet: FleetMaker = fleet_from_bytes) -> AuditReport:
    """Verify the chain of hashes, replay all events, and compare every decision and every snapshot."""
    head, digest, _ = store.head_hash()
    if not head:
        return AuditReport(0, 0, 0, FIRST_HASH, ("the log is empty",))
    findings, decisions, previous = [], 0, FIRST_HASH
    for expected, row in enumerate(store.rows(), 1):
        try:
            if row.seq != expected:
                raise LiveError(f"event {expected} is missing")
            check_row(row, previous)
        except LiveError as error:
            findings.append(str(error))
            break  # everything after it has a hash that depends on it
        previous = row.hash
        decisions += row.kind == "reading"
    compared = 0
    if not findings:
        try:
            compared, found = _replayed(store, head, make_fleet)
            findings += found
        except Exception as error:  # a row that no longer makes sense
            findings.append(f"the replay stops: {type(error).__name__}: {error}")
    return AuditReport(head, decisions, compared, digest, tuple(findings[:_MOST_FINDINGS]))


def _replayed(store: Store, head: int, make_fleet: FleetMaker) -> tuple[int, list[str]]:
    """Replay the log, and each line of it that a rollback has left; compare decisions and snapshots."""
    rollbacks = store.rollbacks()
    compared, findings = 0, []
    wanted = dict(store.snapshots())
    for end in [*(row.seq - 1 for row in rollbacks), head]:
        segments = Segments(rollbacks, end)
        rows = counted(store, segments, 0, end)
        first = next(rows)
        engine = Engine.begin(first.event, make_fleet)
        for row_or_stop in _up_to_snapshots(rows, wanted):
            findings += follow(engine, iter(row_or_stop))
            last = row_or_stop[-1] if row_or_stop else first
            digest = wanted.get(last.seq)
            if digest is not None:
                compared += 1
                saved = store.snapshot_data(last.seq)
                if digest != last.hash:
                    findings.append(f"the snapshot of {place(last)} is not of this log")
                elif saved is None or hashlib.sha256(saved).digest() != _digest(engine):
                    findings.append(f"the snapshot of {place(last)} is not the state that the replay reaches")
            if len(findings) >= _MOST_FINDINGS:
                return compared, findings
    return compared, findings


def _digest(engine: Engine) -> bytes:
    return hashlib.sha256(engine.to_bytes()).digest()


def _up_to_snapshots(rows: Iterator[Row], wanted: dict[int, str]) -> Iterator[list[Row]]:
    """Yield rows in pieces that end where there is a snapshot, or after some hundreds."""
    piece: list[Row] = []
    yield piece  # the snapshot of the first event
    for row in rows:
        if len(piece) >= 500 and row.kind not in DERIVED:
            yield piece
            piece = []
        piece.append(row)
        if row.seq in wanted:
            yield piece
            piece = []
    if piece:
        yield piece


def rollback(store: Store, to: int, who: str | None = None, make_fleet: FleetMaker = fleet_from_bytes) -> int:
    """Take the state after an event as the one to go on from; return the number of the event that says so.

    The rows in between stay in the log, and no longer count. The database must have no server.
    """
    head, digest, at = store.head_hash()
    row = store.row(to)
    if row is None:
        raise LiveError(f"there is no event {to}; the last one is {head}")
    following = store.row(to + 1)
    if following is not None and following.kind in DERIVED:
        raise LiveError(
            f"event {following.seq} ({following.kind}) belongs to the one before: roll back to it"
        )
    engine, _ = from_the_start(store, Segments(store.rollbacks(), to), make_fleet, until=to)
    event = Event(head + 1, ROLLBACK, json_text({"to": to}), max(time_text(time.time()), at), who=who)
    rows = rows_of(digest, event, Outcome())
    store.append(rows)
    store.snapshot(rows[-1].seq, rows[-1].hash, engine.to_bytes())
    return event.seq


# -- exports --------------------------------------------------------------------------------------------


def export_events(store: Store, out: IO[str]) -> int:
    """Write every row as a JSON document a line; return how many."""
    segments, n = Segments(store.rollbacks(), store.head_hash()[0]), 0
    for row in store.rows():
        words = row_document(row) | {"previous_hash": row.previous_hash, "hash": row.hash}
        if row.data is not None:
            words["data_sha256"] = hashlib.sha256(row.data).hexdigest()
        if row.seq not in segments:
            words["void"] = True
        out.write(json_text(words) + "\n")
        n += 1
    return n


CSV_COLUMNS = ("unit", "step", "at", "reading", "taken", "cost", "action", "decision", "fallback", "guards")


def export_readings(store: Store, out: IO[str]) -> int:
    """Write a line of CSV for every reading that counts; return how many.

    `action` is what holds: the decision, or the action of an operator or of the next reading's `taken`.
    """
    segments, n = Segments(store.rollbacks(), store.head_hash()[0]), 0
    writer = csv.writer(out)
    writer.writerow(CSV_COLUMNS)
    held: dict[str, dict[str, Any]] = {}  # the last line of every unit, which may still change
    for row in store.rows():
        if row.seq not in segments or row.unit is None:
            continue
        if row.kind == "override":
            last = held.get(row.unit)
            if last is not None and row.answer is not None:
                last["action"] = msgspec.json.decode(row.answer)["action"]
        elif row.kind == "reading" and row.answer is not None:
            body, answer = msgspec.json.decode(row.body), msgspec.json.decode(row.answer)
            last = held.pop(row.unit, None)
            if last is not None:
                if body.get("taken") is not None:
                    last["action"] = body["taken"]
                writer.writerow([last[name] for name in CSV_COLUMNS])
            held[row.unit] = {
                "unit": row.unit,
                "step": row.step,
                "at": body.get("at", row.at),
                "reading": body.get("reading"),
                "taken": body.get("taken"),
                "cost": body.get("cost"),
                "action": answer["action"],
                "decision": decision_id(row.seq),
                "fallback": answer["fallback"],
                "guards": "; ".join(answer["guards"]),
            }
            n += 1
    for last in held.values():
        writer.writerow([last[name] for name in CSV_COLUMNS])
    return n
