"""The one thread that changes a plant: it takes what has come in, writes it with one commit, then answers.

Requests of many clients share a commit. If a commit fails, the memory is ahead of the log: then it is rebuilt
from the log, and everything that the commit held is answered with 503; it can be sent again.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import msgspec

from .engine import Engine, FleetMaker, fleet_from_bytes
from .events import (
    ADOPTED,
    READING,
    Event,
    RefusedError,
    Row,
    UnavailableError,
    json_text,
    rows_of,
    time_text,
)
from .replay import Segments, restore
from .worker import Worker

if TYPE_CHECKING:
    from .metrics import Metrics
    from .store import Store

_log = logging.getLogger("psrl_pomdp.live")
_MOST_IN_A_TURN = 256
_SNAPSHOT_SECONDS = 1.0  # of replaying, after which a snapshot is worth its while
_SNAPSHOT_SHARE = 20.0  # a snapshot may take 1/20 of the time
_PAUSE_OF_WORK = 5.0  # seconds between two attempts of a worker that failed
_PAUSE = 1.0  # seconds between two attempts to write to a database that failed


class Turn:
    """What one commit will hold."""

    def __init__(self, head: tuple[int, str, str], now: float) -> None:
        self.seq, self.hash, last = head
        self.at = max(time_text(now), last)  # a clock that goes back does not turn the log's time back
        self.rows: list[Row] = []
        self.keys: dict[str, Row] = {}
        self.steps: dict[tuple[str, int], Row] = {}

    def add(self, rows: Sequence[Row]) -> None:
        """Add an event, with the events that follow from it."""
        self.rows += rows
        self.seq, self.hash = rows[-1].seq, rows[-1].hash
        first = rows[0]
        if first.key is not None:
            self.keys[first.key] = first
        if first.kind == READING and first.unit is not None and first.step is not None:
            self.steps[first.unit, first.step] = first


class Request(msgspec.Struct, frozen=True):
    """An event that a client wants."""

    kind: str
    unit: str
    body: dict[str, Any]
    key: str | None = None
    who: str | None = None


Answer = str | RefusedError
Command = Callable[["Ledger", Turn], Any]


class Ledger:
    """The engine, the store, and the thread that alone touches them.

    Parameters
    ----------
    store
        The database, locked for this process.
    make_fleet
        The function that makes a fleet of its bytes.
    publish
        Called with the rows of every commit, in the ledger's thread.
    metrics
        The counters of the service.
    clock
        The time in seconds; another one in tests.
    """

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        make_fleet: FleetMaker = fleet_from_bytes,
        publish: Callable[[Sequence[Row]], None] = lambda rows: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store, self.metrics, self.make_fleet = store, metrics, make_fleet
        self.publish, self.clock = publish, clock
        self.engine: Engine | None = None
        self.head = store.head_hash()
        self.segments = Segments(store.rollbacks(), self.head[0])
        self.worker = Worker()
        self.generation = 0  # of the memory: work that was begun before a rebuild is not adopted
        self._queue: queue.SimpleQueue[tuple[Command, Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
        self._failed_at: float | None = None
        self._why_failed = ""
        self._working = False  # whether the worker has work whose result was not adopted yet
        self._not_before = 0.0  # the time of the next work, after a failure
        self._since_snapshot = 0.0
        self._snapshot_cost = 0.0
        self._snapshot_seq = 0
        self._closed = False

    # -- from other threads ---------------------------------------------------------------------

    def start(self) -> None:
        """Load the state, and begin to take commands. Raises `LiveError` if the log is damaged."""
        self._rebuild()
        self._snapshot()
        self._thread.start()
        self.submit(lambda ledger, turn: None)  # which begins the work that is due

    def submit(self, command: Command) -> Future[Any]:
        """Run a command in the ledger's thread; the result comes after the commit."""
        future: Future[Any] = Future()
        if self._closed:
            future.set_exception(UnavailableError("the server is stopping"))
        else:
            self._queue.put((command, future))
        return future

    def take(self, request: Request) -> Future[Any]:
        """Let a request become an event; the result is the text of the answer, or a `RefusedError`."""
        return self.submit(lambda ledger, turn: ledger.process(turn, request))

    def take_all(self, requests: Sequence[Request]) -> Future[Any]:
        """Let many requests become events with one commit; the results are answers or `RefusedError`."""

        def command(ledger: Ledger, turn: Turn) -> list[Answer]:
            found: list[Answer] = []
            for request in requests:
                try:
                    found.append(ledger.process(turn, request))
                except RefusedError as refused:
                    found.append(refused)
            return found

        return self.submit(command)

    def ask(self, question: Callable[[Engine], Any]) -> Future[Any]:
        """Read from the engine between two commits."""
        return self.submit(lambda ledger, turn: question(ledger.engine))  # type: ignore[arg-type]

    def close(self) -> None:
        """Finish what has come in, write a snapshot, and end the thread and the worker."""
        self._closed = True
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join(timeout=60)
        self.worker.close()

    @property
    def ready(self) -> bool:
        """Whether the database takes writes."""
        return self._failed_at is None and self.engine is not None and self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """How many commands wait."""
        return self._queue.qsize()

    # -- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        going_on = True
        while going_on:
            first = self._queue.get()
            batch = []
            while True:
                if first is None:
                    going_on = False
                else:
                    batch.append(first)
                if not going_on or len(batch) >= _MOST_IN_A_TURN or self._queue.empty():
                    break
                first = self._queue.get()
            try:
                self._turn(batch)
                self._begin_work()
                self._snapshot_if_due()
            except BaseException as error:  # the thread must live
                _log.exception("the ledger failed")
                for _, future in batch:
                    if not future.done():
                        future.set_exception(UnavailableError(f"{type(error).__name__}: {error}"))
        self._snapshot()

    def _turn(self, batch: list[tuple[Command, Future[Any]]]) -> None:
        """Run commands, commit, and answer."""
        if not batch:
            return
        if self._failed_at is not None and not self._recovered():
            self._fail(batch, UnavailableError(f"the database takes no writes: {self._why_failed}"))
            return
        begun = time.perf_counter()
        turn, results = Turn(self.head, self.clock()), []
        for command, _ in batch:
            try:
                results.append((True, command(self, turn)))
            except RefusedError as refused:
                results.append((False, refused))
            except Exception as error:
                _log.exception("an event failed")
                self._after_a_fault(batch, error)
                return
        self._since_snapshot += time.perf_counter() - begun
        if turn.rows:
            try:
                self.store.append(turn.rows)
            except Exception as error:
                self._lost_commit(error)
                self._fail(batch, UnavailableError(f"the database takes no writes: {self._why_failed}"))
                return
            self.head = (turn.seq, turn.hash, turn.at)
            self.metrics.committed(turn.rows, time.perf_counter() - begun)
            self.publish(turn.rows)  # before the answers, so that who has an answer finds its event passed on
        for (_, future), (good, result) in zip(batch, results, strict=True):
            if future.cancelled() or not future.set_running_or_notify_cancel():
                continue
            if good:
                future.set_result(result)
            else:
                future.set_exception(result)

    def _after_a_fault(self, batch: list[tuple[Command, Future[Any]]], error: Exception) -> None:
        """Rebuild the memory after a fault in a command; the others are taken one by one."""
        self.metrics.count("faults")
        if not self._rebuilt():
            self._fail(batch, UnavailableError(f"the database takes no writes: {self._why_failed}"))
        elif len(batch) == 1:
            fault = RefusedError(500, "internal-error", f"{type(error).__name__}: {error}")
            self._fail(batch, fault)
        else:
            for one in batch:
                self._turn([one])

    def _lost_commit(self, error: Exception) -> None:
        from .store import short

        self._why_failed = short(error)
        _log.error("a commit failed: %s", self._why_failed)
        self.metrics.count("failed_commits")
        self.store.drop_writer()
        self._rebuilt()
        self._failed_at = time.monotonic()

    def _recovered(self) -> bool:
        """Return whether the database takes writes again; it is asked at most once a second."""
        assert self._failed_at is not None
        if time.monotonic() - self._failed_at < _PAUSE:
            return False
        from .store import short

        try:
            self.store.writer()
            self.store.probe()
        except Exception as error:
            self.store.drop_writer()
            self._failed_at, self._why_failed = time.monotonic(), short(error)
            return False
        if not self._rebuilt():
            return False
        self._failed_at = None
        _log.warning("the database takes writes again")
        return True

    def _rebuilt(self) -> bool:
        """Rebuild the memory from the log; return whether that worked."""
        try:
            self._rebuild()
        except Exception as error:
            from .store import short

            _log.exception("the state cannot be rebuilt from the log")
            self.engine, self._failed_at, self._why_failed = None, time.monotonic(), short(error)
            return False
        return True

    def _rebuild(self) -> None:
        begun = time.perf_counter()
        self.generation += 1
        self.head = self.store.head_hash()
        self.segments = Segments(self.store.rollbacks(), self.head[0])
        self.engine, findings = restore(self.store, self.make_fleet)
        for finding in findings:
            _log.error("the log and its replay differ: %s", finding)
            self.metrics.count("replay_differences")
        self._since_snapshot = time.perf_counter() - begun
        self.metrics.rebuilt(self.engine, time.perf_counter() - begun)

    def _fail(self, batch: list[tuple[Command, Future[Any]]], error: Exception) -> None:
        for _, future in batch:
            if not future.done():
                future.set_exception(error)

    # -- one request ----------------------------------------------------------------------------

    def process(self, turn: Turn, request: Request) -> str:
        """Return the answer to a request: the old one if it was taken before, else that of a new event."""
        assert self.engine is not None
        text = json_text(request.body)
        if request.key is not None:
            row = turn.keys.get(request.key) or self._valid(self.store.by_key(request.key))
            if row is not None:
                return _again(row, request, text)
        step: int | None = None
        if request.kind == READING:
            expected = self.engine.expected_step(request.unit)
            step = request.body.get("step")
            if step is None:
                if request.key is None:
                    wanted = "step: a step is wanted, or the header Idempotency-Key"
                    raise RefusedError(400, "invalid-request", wanted, unit=request.unit, expected=expected)
                step = expected
            if step < expected and request.key is None:
                row = turn.steps.get((request.unit, step)) or self._valid(
                    self.store.by_step(request.unit, step, READING)
                )
                if row is not None:
                    return _again(row, request, text, expected)
        elif request.key is None:
            row = self._same_without_key(turn, request, text)
            if row is not None and row.answer is not None:
                return row.answer
        event = Event(turn.seq + 1, request.kind, text, turn.at, request.unit, step, request.key, request.who)
        outcome = self.engine.apply(event)
        turn.add(rows_of(turn.hash, event, outcome))
        self.metrics.applied(event, outcome)
        return outcome.answer or "{}"

    def _same_without_key(self, turn: Turn, request: Request, text: str) -> Row | None:
        """Return the last event of a unit if it is the same override: an override needs no key."""
        if request.kind != "override":
            return None
        assert self.engine is not None
        unit = self.engine.units.get(request.unit)
        if unit is None or unit.decision is None:
            return None
        mine = [row for row in turn.rows if row.kind == "override" and row.unit == request.unit]
        rows = [*self.store.overrides(request.unit, unit.decision), *mine]
        return rows[-1] if rows and rows[-1].body == text else None

    def _valid(self, rows: Sequence[Row]) -> Row | None:
        return next((row for row in rows if row.seq in self.segments), None)

    # -- work and snapshots ---------------------------------------------------------------------

    def _begin_work(self) -> None:
        """Give the worker what is due."""
        if self.engine is None or self._working or self._closed or time.monotonic() < self._not_before:
            return
        work = self.engine.fleet.work
        if work is None:
            return
        kind, generation = str(work.kind), self.generation
        self.metrics.work_begun(kind)

        def done(result: bytes | None, error: str) -> None:
            self.metrics.work_ended(kind, failed=result is None)
            self.submit(lambda ledger, turn: ledger.adopt(turn, kind, result, generation))

        self._working = True
        self.worker.start(work, done)

    def adopt(self, turn: Turn, kind: str, data: bytes | None, generation: int) -> None:
        """Adopt what the worker brought, as an event; None after a failure, which is tried again later."""
        self._working = False
        if data is None:
            self._not_before = time.monotonic() + _PAUSE_OF_WORK
            return
        assert self.engine is not None
        if generation != self.generation:
            return
        body = json_text({"work": kind})
        event = Event(turn.seq + 1, ADOPTED, body, turn.at, data=data)
        outcome = self.engine.apply(event)
        turn.add(rows_of(turn.hash, event, outcome))
        self.metrics.applied(event, outcome)

    def _snapshot_if_due(self) -> None:
        if self._since_snapshot > max(_SNAPSHOT_SECONDS, _SNAPSHOT_SHARE * self._snapshot_cost):
            self._snapshot()

    def _snapshot(self) -> None:
        """Write the state, so that a restart begins here. A failure is no harm: the log is enough."""
        if self.engine is None or self._failed_at is not None or self._snapshot_seq == self.head[0]:
            return
        begun = time.perf_counter()
        try:
            self.store.snapshot(self.head[0], self.head[1], self.engine.to_bytes())
        except Exception:
            _log.exception("no snapshot could be written")
            self.store.drop_writer()
        self._snapshot_cost = time.perf_counter() - begun
        self._since_snapshot, self._snapshot_seq = 0.0, self.head[0]
        self.metrics.observe_snapshot(self._snapshot_cost)


def _again(row: Row, request: Request, text: str, expected: int | None = None) -> str:
    """Return the answer that a request got before; refuse another request with the same key."""
    if (row.kind, row.unit, row.body) == (request.kind, request.unit, text) and row.answer is not None:
        return row.answer
    what = f"the key {request.key!r}" if request.key is not None else f"step {row.step} of {row.unit!r}"
    members = {} if expected is None else {"expected": expected}
    raise RefusedError(
        422, "key-reused", f"{what} was used with another body; the answer to the first one stands", **members
    )
