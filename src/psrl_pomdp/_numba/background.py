"""Compiling in a second process, while this one goes on interpreting.

`start` begins such a process and does not wait for it. The process runs `psrl_pomdp.simulation.warmup`, which
calls every compiled function once. Processes that want the same wait for one another, so that each thing is
compiled once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from subprocess import DEVNULL, Popen

from . import jit as compiled

_RUN = "import sys; from psrl_pomdp.simulation.warmup import main; main(int(sys.argv[1]), sys.argv[2:])"


def start(what: Sequence[str]) -> Popen[bytes] | None:
    """A process that compiles these and then ends, or ends with this one; None where there can be none."""
    if not sys.executable or getattr(sys, "frozen", False):
        return None
    path = os.pathsep.join([str(compiled.PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    with suppress(OSError):
        return Popen(
            [sys.executable, "-c", _RUN, str(os.getpid()), *what],
            env=os.environ | {"PYTHONPATH": path},
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,  # Ctrl-C is for the one that started it
        )
    return None
