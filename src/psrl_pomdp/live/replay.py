"""The state that a log leads to: a snapshot and the events after it, or all events from the first on.

A rollback makes the rows between its aim and itself void. They stay in the log, and a later rollback can
make them valid again: the rows that count are found by going back from the end of the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from .engine import Engine, FleetMaker, fleet_from_bytes
from .events import DERIVED, FIRST_HASH, LiveError, Row, hash_of

if TYPE_CHECKING:
    from .store import Store


class Segments:
    """The numbers of the rows that count, as intervals."""

    def __init__(self, rollbacks: Sequence[Row], head: int) -> None:
        aims = {row.seq: int(msgspec.json.decode(row.body)["to"]) for row in rollbacks}
        found: list[tuple[int, int]] = []
        last = head
        while last > 0:
            before = [seq for seq in aims if seq <= last]
            if not before:
                found.append((1, last))
                break
            start = max(before)
            found.append((start, last))
            last = aims[start]
        self.intervals = found[::-1]

    def __contains__(self, seq: int) -> bool:
        end = len(self.intervals) - 1
        return any(
            first <= seq and (i == end or seq <= last) for i, (first, last) in enumerate(self.intervals)
        )


def check_row(row: Row, previous: str) -> None:
    """Raise `LiveError`, which names the row, if a row does not follow from the one before it."""
    if row.previous_hash != previous:
        raise LiveError(f"{place(row)}: it does not follow the row before it; rows are missing or changed")
    if row.hash != hash_of(previous, row.event, row.answer, row.why):
        raise LiveError(f"{place(row)}: its hash is not that of its contents; the row was changed")


def place(row: Row) -> str:
    """Return the name of a row in errors."""
    where = f", unit {row.unit}" if row.unit else ""
    where += f", step {row.step}" if row.step else ""
    return f"event {row.seq} ({row.kind}{where})"


def counted(store: Store, segments: Segments, after: int, until: int | None = None) -> Iterator[Row]:
    """Yield the rows after a number, and up to another one, that count.

    All rows are checked against the chain of hashes.
    """
    if after == 0:
        previous = FIRST_HASH
    else:
        begin = store.row(after)
        if begin is None:
            raise LiveError(f"event {after} is missing")
        previous = begin.hash
    for expected, row in enumerate(store.rows(after, until), after + 1):
        if row.seq != expected:
            raise LiveError(f"event {expected} is missing")
        check_row(row, previous)
        previous = row.hash
        if row.seq in segments:
            yield row


def restore(store: Store, make_fleet: FleetMaker = fleet_from_bytes) -> tuple[Engine, list[str]]:
    """Return the state at the end of a log, and the decisions that came out otherwise than in the log.

    Raises `LiveError` if the log is damaged.
    """
    head, _, _ = store.head_hash()
    segments = Segments(store.rollbacks(), head)
    for seq, digest in store.snapshots():
        row = store.row(seq)
        data = store.snapshot_data(seq)
        if row is None or row.hash != digest or seq not in segments or data is None:
            continue
        try:
            engine = Engine.from_bytes(data, make_fleet)
        except LiveError:
            continue
        return engine, follow(engine, counted(store, segments, seq))
    return from_the_start(store, segments, make_fleet)


def from_the_start(
    store: Store,
    segments: Segments,
    make_fleet: FleetMaker = fleet_from_bytes,
    until: int | None = None,
) -> tuple[Engine, list[str]]:
    """Return the state that follows from all events up to one, and the decisions that came out otherwise."""
    rows = counted(store, segments, 0, until)
    first = next(rows, None)
    if first is None:
        raise LiveError("the log is empty")
    engine = Engine.begin(first.event, make_fleet)
    return engine, follow(engine, rows)


def follow(engine: Engine, rows: Iterator[Row], most: int = 20) -> list[str]:
    """Apply rows to an engine; return what came out otherwise than in the log, up to `most` findings."""
    findings: list[str] = []
    derived: list[tuple[str, str | None, int | None, str]] = []
    for row in rows:
        if row.kind in DERIVED:
            wanted = derived.pop(0) if derived else None
            if wanted != (row.kind, row.unit, row.step, row.body):
                findings.append(f"{place(row)}: the replay has {wanted or 'no such event'}")
        else:
            findings += [f"before {place(row)}: the replay has the event {each}" for each in derived]
            outcome = engine.apply(row.event)
            derived = list(outcome.derived)
            if outcome.answer != row.answer:
                findings.append(f"{place(row)}: the replay answers {outcome.answer}, the log {row.answer}")
            elif outcome.why != row.why:
                findings.append(f"{place(row)}: the replay explains {outcome.why}, the log {row.why}")
        del findings[most:]
    return findings
