"""Model files, in and out: `.pomdp`, `.json` and `.npz`; `.pomdpx` in only; and formats of other packages.

`load` returns a model or raises `ParseError` with the file, the line and a reason; `save` writes the whole
file or leaves the old one as it was.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from .._serialization.atomic_files import write_atomically
from .._serialization.reading import read_bytes
from ..errors import InvalidModelError, ParseError
from ..models import POMDP
from .formats import READABLE, WRITABLE, FileFormat, endings, format_of
from .rows import RowRule

__all__ = ["MAX_BYTES", "MAX_ENTRIES", "READABLE", "WRITABLE", "FileFormat", "endings", "load", "save"]

MAX_BYTES = 32 * 2**20  # of a file
MAX_ENTRIES = 5_000_000  # of an array: 40 MB


def load(
    path: str | PathLike[str],
    *,
    normalize: bool = False,
    max_bytes: int = MAX_BYTES,
    max_entries: int = MAX_ENTRIES,
) -> POMDP:
    """The model in a file, by its ending: `.pomdp`, `.pomdpx`, `.json` or `.npz`.

    Rows of probabilities that are off one by more than 1e-5 are refused. With `normalize=True` rows that are
    off by at most .01 are rescaled, and `model.remarks` says by how much.

    A file over `max_bytes`, or one with an array of over `max_entries` numbers, is refused before it is
    read or allocated: raise the limits for a large model that you trust.
    """
    file = Path(path)
    known = format_of(file.suffix.lower())
    if known is None:
        raise ParseError(f"unknown ending {file.suffix!r}; known are {', '.join(endings())}", path=file.name)
    data = read_bytes(file, max_bytes)
    return known.read(data, file.name, max_entries=max_entries, rows=RowRule(normalize))


def save(model: POMDP, path: str | PathLike[str]) -> None:
    """Write a model to a `.pomdp`, `.json` or `.npz` file, by the ending of `path`."""
    if not isinstance(model, POMDP):
        raise InvalidModelError(f"a {type(model).__name__} is not a POMDP")
    file = Path(path)
    known = format_of(file.suffix.lower())
    if known is None or known.write is None:
        raise InvalidModelError(
            f"{file.name}: unknown ending {file.suffix!r}; known are {', '.join(WRITABLE)}"
        )
    write_atomically(file, known.write(model))
