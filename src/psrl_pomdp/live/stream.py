"""Server-sent events: every row of the log to every page that watches.

A client that is too slow loses its connection. It comes back with `Last-Event-ID`, and gets from the log what
it has missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from .events import Row, ordered_json

if TYPE_CHECKING:
    from .metrics import Metrics
    from .store import Store

_MOST_WAITING = 1000  # rows for one client
_PAGE = 500
_HEARTBEAT = 15.0  # seconds


def row_document(row: Row, *, with_why: bool = True) -> dict[str, Any]:
    """Return a row as plain data, without what workers brought."""

    def parsed(text: str | None) -> Any:
        return None if text is None else msgspec.json.decode(text)

    found = {
        "seq": row.seq,
        "kind": row.kind,
        "unit": row.unit,
        "step": row.step,
        "at": row.at,
        "who": row.who,
        "key": row.key,
        "body": parsed(row.body),
        "answer": parsed(row.answer),
    }
    if with_why:
        found["why"] = parsed(row.why)
    return found


def sse(row: Row) -> bytes:
    """Return a row as a server-sent event."""
    text = ordered_json(row_document(row, with_why=False))
    return f"id: {row.seq}\nevent: {row.kind}\ndata: {text}\n\n".encode()


class Broadcast:
    """Those who watch, each with a queue."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics
        self._queues: set[asyncio.Queue[Row | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False

    def begin(self) -> None:
        """Remember the loop that serves."""
        self._loop = asyncio.get_running_loop()

    def publish(self, rows: Sequence[Row]) -> None:
        """Pass rows on, from the thread of the ledger."""
        if self._queues and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pass_on, tuple(rows))

    def _pass_on(self, rows: Sequence[Row]) -> None:
        for waiting in list(self._queues):
            for row in rows:
                try:
                    waiting.put_nowait(row)
                except asyncio.QueueFull:
                    self._drop(waiting)
                    break

    def _drop(self, waiting: asyncio.Queue[Row | None]) -> None:
        self._queues.discard(waiting)
        self._metrics.count("streams_dropped")
        while not waiting.empty():
            waiting.get_nowait()
        waiting.put_nowait(None)

    def close(self) -> None:
        """End all streams, after what they still have to send; from any thread, or a signal's handler."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        self._closing = True
        for waiting in list(self._queues):
            if waiting.full():
                waiting.get_nowait()
            waiting.put_nowait(None)

    @property
    def watching(self) -> int:
        """How many clients watch."""
        return len(self._queues)

    async def stream(self, after: int | None) -> AsyncIterator[bytes]:
        """Yield the rows after a number: those of the log, then those that come. None: only new ones."""
        waiting: asyncio.Queue[Row | None] = asyncio.Queue(_MOST_WAITING)
        self._queues.add(waiting)
        try:
            yield b"retry: 1000\n\n"
            last = 0
            while after is not None and not self._closing:
                page = await asyncio.to_thread(self._store.history, None, after, _PAGE)
                for row in page:
                    yield sse(row)
                    after = last = row.seq
                if len(page) < _PAGE:
                    break
            while not (self._closing and waiting.empty()):
                try:
                    new = await asyncio.wait_for(waiting.get(), _HEARTBEAT)
                except TimeoutError:
                    yield b": alive\n\n"
                    continue
                if new is None:
                    return
                if new.seq > last:
                    yield sse(new)
        finally:
            self._queues.discard(waiting)
