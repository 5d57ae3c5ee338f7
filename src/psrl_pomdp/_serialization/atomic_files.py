"""Files that are whole or not there: written beside their place, then moved into it.

What a killed process leaves half written is swept by the next one that writes the same file. The name of a
half-written file says which process on which machine writes it, so that no file of a live one is taken.
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

_STALE = 3600.0  # seconds after which nobody is still writing
_OWNER = re.compile(r"([0-9a-f]{8})-([0-9]+)\..+")  # what follows the name: machine, process, anything


def write_atomically(path: Path, data: bytes, *, sweep: bool = True) -> None:
    """Put `data` at `path`; an error or a crash leaves what was there before.

    `sweep` also removes what dead processes have left of earlier attempts.
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
    _settle(path.parent)


def _settle(folder: Path) -> None:
    """Have the system write down the folder too, so that a power cut does not bring back the old file."""
    if os.name == "nt":
        return
    with suppress(OSError):  # file systems that know no such thing
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sweep(path: Path) -> None:
    """Remove the half-written files of this name whose writers are gone."""
    start = f".{path.name}."
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if entry.name.startswith(start) and _abandoned(entry, entry.name.removeprefix(start)):
                with suppress(OSError):
                    Path(entry.path).unlink()


def _abandoned(entry: os.DirEntry[str], rest: str) -> bool:
    """Whether nobody writes this file any more; of other machines' processes only its age tells."""
    owner = _OWNER.fullmatch(rest)
    if owner is None:  # somebody's own file
        return False
    if owner[1] == _machine() and not _alive(int(owner[2])):
        return True
    with suppress(OSError):
        return time.time() - entry.stat().st_mtime > _STALE
    return False


def _alive(process: int) -> bool:
    if os.name == "nt":  # where asking would end it
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's
        return True
    return True


def _machine() -> str:
    """Eight digits that tell this machine from others."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _umask() -> int:
    """The process's mask, which can only be read by setting it: mkstemp's files are private."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
