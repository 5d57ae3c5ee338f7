"""File formats by the ending of the file name: those of this package and those of plug-ins.

A format reads the bytes of a file, and may write them. Another package registers a format in the group
`psrl_pomdp.formats` under the ending without its dot.
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
    """The functions that read and write the models of one file format.

    Attributes
    ----------
    read
        `read(data, path, *, max_entries, rows)` takes the bytes of a file, and its name for error messages.
        It returns a model or raises `ParseError`, whatever the bytes are, and refuses arrays of more than
        `max_entries` numbers. It may pass rows of probabilities to `rows.distributions`, which rescales them
        if the user accepts that.
    write
        `write(model)` returns the bytes of a file; None if the format can only be read.
    """

    read: Callable[..., POMDP]
    write: Callable[[POMDP], bytes] | None = None


def _pomdp_bytes(model: POMDP) -> bytes:
    return write_pomdp(model).encode()


POMDP_TEXT = FileFormat(read_pomdp, _pomdp_bytes)
POMDPX = FileFormat(read_pomdpx)
JSON = FileFormat(read_json, write_json)
NPZ = FileFormat(read_npz, write_npz)
_BUILT_IN = {".pomdp": POMDP_TEXT, ".pomdpx": POMDPX, ".json": JSON, ".npz": NPZ}

READABLE = tuple(_BUILT_IN)
WRITABLE = tuple(ending for ending, each in _BUILT_IN.items() if each.write)


def format_of(ending: str) -> FileFormat | None:
    """Return the format of files with this ending, dot included, or None if it is unknown."""
    if ending in _BUILT_IN:
        return _BUILT_IN[ending]
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
