"""Files that are whole or not there, and what killed writers leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from psrl_pomdp._serialization.atomic_files import write_atomically

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and processes are asked for as on POSIX")

# A writer that stops for ever with its file half written.
_HALF = """
import os, sys, time
from pathlib import Path
from psrl_pomdp._serialization import atomic_files
def stop(handle):
    print("half", flush=True)
    time.sleep(600)
atomic_files.os.fsync = stop
atomic_files.write_atomically(Path(sys.argv[1]), b"never whole")
"""


def _half_written(path: Path) -> subprocess.Popen[str]:
    writer = subprocess.Popen([sys.executable, "-c", _HALF, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "half\n"
    return writer


def test_what_a_killed_writer_leaves_is_swept_and_a_live_one_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "agent.npz"
    mine = [tmp_path / ".agent.npz.backup12", tmp_path / ".agent.npz", tmp_path / ".other.npz.00000000-1.abc"]
    for other in mine:
        other.write_bytes(b"mine")
    writer = _half_written(path)
    leftovers = set(tmp_path.iterdir()) - set(mine)
    assert len(leftovers) == 1
    write_atomically(path, b"whole")
    assert set(tmp_path.iterdir()) == leftovers | {path, *mine}  # its writer is alive
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    write_atomically(path, b"whole again")
    assert set(tmp_path.iterdir()) == {path, *mine}
    assert path.read_bytes() == b"whole again"


def test_those_of_other_machines_are_swept_when_they_are_old(tmp_path: Path) -> None:
    path, foreign = tmp_path / "agent.npz", tmp_path / f".agent.npz.00000000-{os.getpid()}.abcdefgh"
    foreign.write_bytes(b"half")
    write_atomically(path, b"whole")
    assert foreign.exists()
    long_ago = time.time() - 2 * 3600
    os.utime(foreign, (long_ago, long_ago))
    write_atomically(path, b"whole")
    assert list(tmp_path.iterdir()) == [path]


def test_the_folder_is_written_down_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settled = []

    def fsync(handle: int) -> None:
        settled.append(Path(f"/proc/self/fd/{handle}").readlink())

    if not Path("/proc/self/fd").exists():
        pytest.skip("open files cannot be named here")
    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(tmp_path / "x", b"whole")
    assert settled[-1] == tmp_path
    assert len(settled) == 2
