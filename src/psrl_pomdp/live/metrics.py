"""What the service counts, as Prometheus text."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .events import Event, Outcome, Row

if TYPE_CHECKING:
    from .engine import Engine

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 10.0)
_COUNTERS = {
    "readings": "Readings accepted.",
    "overrides": "Actions replaced by operators.",
    "guarded": "Actions replaced by a rule of the plant.",
    "fallbacks": "Fallback actions given.",
    "alarms": "Alarms.",
    "adopted": "Plans and refreshes adopted.",
    "work_failed": "Plans and refreshes that failed.",
    "commits": "Commits.",
    "failed_commits": "Commits that failed.",
    "faults": "Requests that ended in an unexpected error.",
    "replay_differences": "Decisions that a replay of the log did not repeat.",
    "answers_late": "Answers after the deadline of the plant.",
    "refused": "Requests that were refused.",
    "streams_dropped": "Streams of events closed because the client was too slow.",
}


class Histogram:
    """Durations in seconds."""

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self.total += seconds
        for i, most in enumerate(_BUCKETS):
            if seconds <= most:
                self.counts[i] += 1
                return
        self.counts[-1] += 1

    def lines(self, name: str, text: str) -> list[str]:
        """Return the lines of a histogram."""
        found, below = [f"# HELP {name} {text}", f"# TYPE {name} histogram"], 0
        for most, count in zip((*map(str, _BUCKETS), "+Inf"), self.counts, strict=True):
            below += count
            found.append(f'{name}_bucket{{le="{most}"}} {below}')
        return [*found, f"{name}_sum {self.total:.9g}", f"{name}_count {below}"]


class Metrics:
    """Counters, gauges and histograms; threads take turns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: Counter[str] = Counter()
        self._gauges: dict[str, tuple[str, float]] = {}
        self._answers, self._commits, self._snapshots = Histogram(), Histogram(), Histogram()

    def count(self, name: str, n: int = 1) -> None:
        """Add to a counter."""
        with self._lock:
            self._counters[name] += n

    def gauge(self, name: str, text: str, value: float) -> None:
        """Set a gauge."""
        with self._lock:
            self._gauges[name] = (text, value)

    def answered(self, seconds: float, deadline: float) -> None:
        """Count an answer to a reading."""
        with self._lock:
            self._answers.observe(seconds)
            self._counters["answers_late"] += seconds > deadline

    def committed(self, rows: Sequence[Row], seconds: float) -> None:
        """Count a commit."""
        with self._lock:
            self._commits.observe(seconds)
            self._counters["commits"] += 1

    def applied(self, event: Event, outcome: Outcome) -> None:
        """Count an event."""
        with self._lock:
            self._counters["readings"] += event.kind == "reading"
            self._counters["overrides"] += event.kind == "override"
            self._counters["adopted"] += event.kind == "adopted"
            if event.kind == "reading" and outcome.answer is not None:
                self._counters["fallbacks"] += '"fallback":true' in outcome.answer
                self._counters["guarded"] += '"policy_action"' in outcome.answer
            self._counters["alarms"] += sum(kind == "alarm" for kind, *_ in outcome.derived)

    def work_begun(self, kind: str) -> None:
        """Note that the worker is busy."""
        self.gauge("working", f"Whether the worker plans or refreshes now (the last was a {kind}).", 1.0)

    def work_ended(self, kind: str, *, failed: bool) -> None:
        """Note that the worker is free."""
        self.gauge("working", f"Whether the worker plans or refreshes now (the last was a {kind}).", 0.0)
        self.count("work_failed", int(failed))

    def observe_snapshot(self, seconds: float) -> None:
        """Count a snapshot."""
        with self._lock:
            self._snapshots.observe(seconds)

    def rebuilt(self, engine: Engine, seconds: float) -> None:
        """Note how long the state took to be read from the log."""
        self.gauge("restore_seconds", "How long the last restoration of the state took.", seconds)

    def text(self) -> str:
        """Return everything in the text format of Prometheus."""
        with self._lock:
            lines: list[str] = []
            for name, text in _COUNTERS.items():
                full = f"psrl_pomdp_{name}_total"
                lines += [f"# HELP {full} {text}", f"# TYPE {full} counter", f"{full} {self._counters[name]}"]
            for name, (text, value) in sorted(self._gauges.items()):
                full = f"psrl_pomdp_{name}"
                lines += [f"# HELP {full} {text}", f"# TYPE {full} gauge", f"{full} {value:.9g}"]
            lines += self._answers.lines("psrl_pomdp_answer_seconds", "Time from request to answer.")
            lines += self._commits.lines("psrl_pomdp_commit_seconds", "Time of a turn with its commit.")
            lines += self._snapshots.lines("psrl_pomdp_snapshot_seconds", "Time of a snapshot.")
        return "\n".join(lines) + "\n"
