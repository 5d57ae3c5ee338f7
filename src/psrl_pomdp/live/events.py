"""What happens to a plant: events, what the engine answers, refusals, and the chain of hashes.

An event is a row of the log, which only grows. Input events change the state: `configuration`, `reading`,
`override`, `describe` (a unit is created or described), `leave`, `adopted` (a plan or a refresh) and
`rollback`. Derived events follow from them, and a replay computes them again: `episode` and `alarm`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..errors import PSRLError

CONFIGURATION, READING, OVERRIDE, DESCRIBE = "configuration", "reading", "override", "describe"
LEAVE, ADOPTED, ROLLBACK = "leave", "adopted", "rollback"
EPISODE, ALARM = "episode", "alarm"
DERIVED = (EPISODE, ALARM)
FIRST_HASH = "0" * 64  # the hash before the first event


class RefusedError(PSRLError):
    """A request that is not carried out, as an RFC 9457 problem: nothing changes, and nothing is logged."""

    def __init__(self, status: int, kind: str, detail: str, **members: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind  # the last part of the type of the problem
        self.detail = detail
        self.members = members

    def problem(self) -> dict[str, Any]:
        """Return the members of the problem document."""
        return {
            "type": f"urn:psrl-pomdp:{self.kind}",
            "title": self.kind.replace("-", " "),
            "status": self.status,
            "detail": self.detail,
            **self.members,
        }


class UnavailableError(RefusedError):
    """The database does not take writes now; the same request can be sent again."""

    def __init__(self, detail: str, retry_after: int = 1) -> None:
        super().__init__(503, "unavailable", detail, retry_after=retry_after)
        self.retry_after = retry_after


class LiveError(PSRLError, RuntimeError):
    """Raised if a server cannot start or a log cannot be read; the message names the reason."""


class Event(msgspec.Struct, frozen=True):
    """What came in, before the engine has answered it."""

    seq: int  # the number of the row, from 1
    kind: str
    body: str  # JSON
    at: str  # the server's time, which never decreases along the log
    unit: str | None = None
    step: int | None = None
    key: str | None = None  # the idempotency key
    who: str | None = None  # the name of the token
    data: bytes | None = None  # what a worker brought, or the state at the start


class Row(msgspec.Struct, frozen=True):
    """A row of the log."""

    seq: int
    kind: str
    unit: str | None
    step: int | None
    key: str | None
    who: str | None
    at: str
    body: str
    answer: str | None  # the answer to the byte
    why: str | None  # the belief and the values behind a decision
    data: bytes | None
    previous_hash: str
    hash: str

    @property
    def event(self) -> Event:
        """The row as it came in."""
        return Event(
            self.seq, self.kind, self.body, self.at, self.unit, self.step, self.key, self.who, self.data
        )


class Outcome(msgspec.Struct, frozen=True):
    """What the engine says to an event."""

    answer: str | None = None
    why: str | None = None
    derived: tuple[tuple[str, str | None, int | None, str], ...] = ()  # (kind, unit, step, body)


def json_text(value: Any) -> str:
    """Return a value as JSON, with sorted keys: equal values have equal texts."""
    return msgspec.json.encode(value, order="sorted").decode()


def ordered_json(value: Mapping[str, Any]) -> str:
    """Return a document as JSON in the order of its keys."""
    return msgspec.json.encode(value).decode()


def hash_of(previous: str, event: Event, answer: str | None, why: str | None) -> str:
    """Return the hash of a row, which depends on all of its columns and on the rows before it."""
    data = "" if event.data is None else hashlib.sha256(event.data).hexdigest()
    words = [
        previous, event.seq, event.kind, event.unit, event.step, event.key, event.who, event.at,
        event.body, answer, why, data,
    ]  # fmt: skip
    return hashlib.sha256(msgspec.json.encode(words)).hexdigest()


def row_of(previous: str, event: Event, answer: str | None = None, why: str | None = None) -> Row:
    """Return an event as a row that follows the row with the hash `previous`."""
    found = hash_of(previous, event, answer, why)
    return Row(
        event.seq, event.kind, event.unit, event.step, event.key, event.who, event.at,
        event.body, answer, why, event.data, previous, found,
    )  # fmt: skip


def rows_of(previous: str, event: Event, outcome: Outcome) -> list[Row]:
    """Return the row of an event, and those of the events that follow from it."""
    rows = [row_of(previous, event, outcome.answer, outcome.why)]
    for i, (kind, unit, step, body) in enumerate(outcome.derived, 1):
        rows.append(row_of(rows[-1].hash, Event(event.seq + i, kind, body, event.at, unit, step)))
    return rows


def time_text(seconds: float) -> str:
    """Return a time in seconds since 1970 as a text in UTC, whose order as a text is the order of time.

    >>> time_text(0.25)
    '1970-01-01T00:00:00.250000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(text: str) -> float:
    """Return the seconds since 1970 of a time in ISO 8601; one without a zone is in UTC.

    Raises `ValueError` if it is none.

    >>> seconds_of("1970-01-01T01:00:00+01:00")
    0.0
    """
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
