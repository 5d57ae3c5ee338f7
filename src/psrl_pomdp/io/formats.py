"""File formats by the ending of the file: this package's own, and those of other packages.

A format reads a file's bytes, and may write them. The name under which another package registers one, in the
group `psrl_pomdp.formats`, is the ending without its dot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .. import registry
from ..errors import UnknownNameError
from ..models import POMDP
from .array_files import read_json, read_npz, write_json, write_npz
from .pomdp.reader import read_pomdp
from .pomdp.writer import write_pomdp
from .pomdpx import read_pomdpx


@dataclass(frozen=True)
class FileFormat:
    """How models are read from files of a kind, and written where that is possible.

    `read(data, path, *, max_entries, rows)` takes the bytes of a file and its name for errors, and returns a
    model or raises `ParseError`, whatever the bytes are. It refuses arrays of over `max_entries` numbers.
    Rows of probabilities may be handed to `rows.distributions`, which rescales them where the user asked for
    that. `write(model)` returns bytes.
    """

    read: Callable[..., POMDP]
    write: Callable[[POMDP], bytes] | None = None


def _pomdp_bytes(model: POMDP) -> bytes:
    return write_pomdp(model).encode()


POMDP_TEXT = FileFormat(read_pomdp, _pomdp_bytes)
POMDPX = FileFormat(read_pomdpx)
JSON = FileFormat(read_json, write_json)
NPZ = FileFormat(read_npz, write_npz)
_OWN = {".pomdp": POMDP_TEXT, ".pomdpx": POMDPX, ".json": JSON, ".npz": NPZ}

READABLE = tuple(_OWN)
WRITABLE = tuple(ending for ending, own in _OWN.items() if own.write)


def format_of(ending: str) -> FileFormat | None:
    """Return the format of files with this ending, dot included; None where nobody knows it."""
    if ending in _OWN:
        return _OWN[ending]
    try:
        plugin = registry.find("formats", ending[1:])
    except UnknownNameError:
        return None
    found = plugin.load()
    if not callable(getattr(found, "read", None)) or not callable(getattr(found, "write", None) or len):
        raise plugin.error(f"a {type(found).__name__} is no `FileFormat`: it has no function `read`")
    return FileFormat(found.read, getattr(found, "write", None))


def endings() -> tuple[str, ...]:
    """Return the endings of all files that can be read, dots included."""
    return (*READABLE, *(f".{name}" for name in registry.names("formats") if f".{name}" not in READABLE))
