"""The progress of `psrl-pomdp solve`: a line on stderr, and what Ctrl-C does."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from ..models import Units
    from ..planning import Round


@contextmanager
def show_progress(units: Units) -> Iterator[ProgressLine]:
    """Show the progress of the planner on a line of stderr, if that is a terminal, until it ends."""
    line = ProgressLine(units)
    if not sys.stderr.isatty():
        yield line
        return
    from rich.console import Console
    from rich.live import Live

    with Live(line, console=Console(stderr=True), transient=True, refresh_per_second=4):
        yield line


@contextmanager
def interrupts_between_rounds(line: ProgressLine) -> Iterator[None]:
    """Let the first Ctrl-C take effect at the end of the round, and the second at once.

    An exception inside compiled code would lose the bounds of the rounds before.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        if line.stopping:
            signal.default_int_handler(number, frame)
        line.stopping = True

    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class ProgressLine:
    """The state of the planner as a line of text. The planner calls it after every round."""

    def __init__(self, units: Units) -> None:
        self.units = units
        self.last: Round | None = None
        self.stopping = False
        self._start = time.monotonic()

    def __call__(self, last: Round) -> None:
        """Note the round that the planner has finished, and stop the planner after Ctrl-C."""
        self.last = last
        if self.stopping:
            raise KeyboardInterrupt

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(self.text(time.monotonic() - self._start), no_wrap=True, overflow="ellipsis")

    def text(self, seconds: float) -> str:
        """Return the progress line after this number of seconds."""
        clock = f"{seconds:.0f} s"
        if self.stopping:
            return f"stopping after this round (Ctrl-C again: at once) ... {clock}"
        if self.last is None:
            return f"first round{self._compiling()} ... {clock}"
        low, high = sorted(self.units.from_scaled([self.last.lower, self.last.upper]).tolist())
        return (
            f"{self.units.kind} {low:.6g} to {high:.6g}, gap {self.last.upper - self.last.lower:.1e}, "
            f"{self.last.points} points, {self.last.nodes} nodes{self._compiling()}, {clock}"
        )

    @staticmethod
    def _compiling() -> str:
        """Say so if another process is compiling the planner."""
        from .._numba import jit as compiled

        return ", another process compiles the planner" if compiled.PLANNING.busy else ""
