"""One server for one database. The lock ends with the process, also where it is killed."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path

from .events import LiveError


def holder_text(name: str) -> str:
    """Return who holds a lock, for the error that the second server gets."""
    return f"the server {name!r}, process {os.getpid()} on {platform.node() or 'this machine'}"


def in_use(database: str, holder: str) -> LiveError:
    """Return the error for a database that another server uses."""
    return LiveError(
        f"{database} is in use by {holder or 'another server'}: one database has one server at a time"
    )


class FileLock:
    """A lock on a file beside a SQLite database; the file says who holds it."""

    def __init__(self, database: Path, name: str) -> None:
        self.path = database.with_name(f"{database.name}.lock")
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        if not _locked(self._descriptor):
            with suppress(OSError):
                holder = self.path.read_text("utf-8", errors="replace").strip()
            os.close(self._descriptor)
            raise in_use(database.name, holder)
        with suppress(OSError):  # a full disk does not keep the lock from holding
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, holder_text(name).encode())

    def release(self) -> None:
        """Give the lock back."""
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        with suppress(OSError):
            os.close(self._descriptor)


def _locked(descriptor: int) -> bool:
    """Lock the file; return False if another process holds the lock."""
    try:
        if os.name == "nt":
            import msvcrt

            os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # behind the text, which stays readable
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
