"""Atomic writes: a file is written to a temporary file, which then replaces the old one.

The next write of the same file deletes temporary files that a killed process has left. The name of a
temporary file contains the process and the machine, so that files of running processes are not deleted.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_STALE = 3600.0  # age in seconds after which a temporary file is abandoned
_OWNER = re.compile(r"([0-9a-f]{8})-([0-9]+)\..+")  # machine, process and a random suffix


def write_atomically(path: Path, data: bytes, *, sweep: bool = True) -> None:
    """Write `data` to `path`; after an error or a crash the old file is unchanged.

    If `sweep` is True, also delete the temporary files of earlier writes that were killed.
    """
    if sweep:
        _sweep(path)
    prefix = f".{path.name}.{_machine()}-{os.getpid()}."
    handle, temporary = tempfile.mkstemp(prefix=prefix, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Write the folder to disk, so that a power failure does not bring back the old file."""
    if os.name == "nt":
        return
    with suppress(OSError):  # file systems that do not support this
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sweep(path: Path) -> None:
    """Delete the temporary files of this file whose processes have ended."""
    start = f".{path.name}."
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if entry.name.startswith(start) and _abandoned(entry, entry.name.removeprefix(start)):
                with suppress(OSError):
                    Path(entry.path).unlink()


def _abandoned(entry: os.DirEntry[str], rest: str) -> bool:
    """Return whether no process writes this file any more; for other machines this is decided by its age."""
    owner = _OWNER.fullmatch(rest)
    if owner is None:  # not a temporary file of this package
        return False
    if owner[1] == _machine() and not _alive(int(owner[2])):
        return True
    with suppress(OSError):
        return time.time() - entry.stat().st_mtime > _STALE
    return False


def _alive(process: int) -> bool:
    if os.name == "nt":  # there, os.kill would end the process
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # a process of another user
        return True
    return True


def _machine() -> str:
    """Return eight hexadecimal digits that identify this machine."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _umask() -> int:
    """Return the file mode mask of the process, which can only be read by setting it.

    It is needed because the files of `mkstemp` are private.
    """
    mask = os.umask(0)
    os.umask(mask)
    return mask
