"""Compile in a second process while this process runs interpreted code.

`start` starts such a process and does not wait for it. The process runs `psrl_pomdp.simulation.warmup`, which
calls every compiled function once. Processes that compile the same functions wait for one another, so that
each function is compiled once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, Popen

_SOURCE = Path(__file__).parents[2]  # the folder that contains the package
_RUN = "import sys; from psrl_pomdp.simulation.warmup import main; main(int(sys.argv[1]), sys.argv[2:])"


def start(what: Sequence[str]) -> Popen[bytes] | None:
    """Start a process that compiles these groups and then ends; return None if no process can be started.

    The process also ends when this process ends.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        return None
    path = os.pathsep.join([str(_SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    with suppress(OSError):
        return Popen(
            [sys.executable, "-c", _RUN, str(os.getpid()), *what],
            env=os.environ | {"PYTHONPATH": path},
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,  # Ctrl-C must not interrupt it
        )
    return None
