"""The executor: every job is a program of its own, as on a cluster with a batch queue.

A job is pickled into a file; `python -m pump_plugin.executor FILE` runs it and writes the result beside it.
With the command of a queue in front, such as `srun`, jobs run on a cluster whose machines share the folder.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any


class BatchExecutor(Executor):
    """Runs at most `workers` programs at a time; an address is the folder for their files."""

    shares_filesystem = True  # workers see the folder of a study, so that half-done runs can be kept there

    def __init__(self, address: str, workers: int) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=address or None)
        self._waiting = ThreadPoolExecutor(workers)
        self._submitted = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue a call of a function that can be imported, with arguments that can be pickled."""
        self._submitted += 1
        file = Path(self._folder.name) / f"job-{self._submitted}"
        file.write_bytes(pickle.dumps((fn, args, kwargs)))
        return self._waiting.submit(_run, file)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the jobs that run, and remove their files."""
        self._waiting.shutdown(wait=True, cancel_futures=cancel_futures or not wait)
        self._folder.cleanup()


def _run(file: Path) -> Any:
    command = [sys.executable, "-m", "pump_plugin.executor", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{file.name} failed: {done.stderr.strip()[-500:]}")
    result, error = pickle.loads(file.with_suffix(".result").read_bytes())
    if error is not None:
        raise error
    return result


def main() -> None:
    """Run the job in a file; what it returns or raises goes into another file."""
    file = Path(sys.argv[1])
    function, args, kwargs = pickle.loads(file.read_bytes())
    try:
        outcome = function(*args, **kwargs), None
    except Exception as error:
        outcome = None, error
    file.with_suffix(".result").write_bytes(pickle.dumps(outcome))


if __name__ == "__main__":
    main()
