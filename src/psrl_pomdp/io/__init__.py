"""Read and write model files: `.pomdp`, `.json` and `.npz`, read `.pomdpx`, and formats of other packages.

`load` returns a model or raises `ParseError` with the file, the line and a reason; `save` writes the whole
file or leaves the old one unchanged.
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

MAX_BYTES = 32 * 2**20  # default limit of the size of a file
MAX_ENTRIES = 5_000_000  # default limit of the numbers in an array: 40 MB


def load(
    path: str | PathLike[str],
    *,
    normalize: bool = False,
    max_bytes: int = MAX_BYTES,
    max_entries: int = MAX_ENTRIES,
) -> POMDP:
    """Read a model from a file, in the format that its ending names.

    Parameters
    ----------
    path
        A file whose name ends in `.pomdp`, `.pomdpx`, `.json`, `.npz`, or the ending of a plug-in.
    normalize
        Also accept rows of probabilities whose sums differ from one by more than 1e-5 and at most .01. Such
        rows are rescaled, and `model.remarks` says by how much.
    max_bytes
        Largest size of the file. Raise this limit and the next for a large model that you trust.
    max_entries
        Most numbers in an array of the model. Larger arrays are refused before they are allocated.

    Returns
    -------
    POMDP
        The model.

    Raises
    ------
    MissingFileError
        There is no such file.
    ParseError
        The file cannot be read, its ending is unknown, or its contents are not a model within the limits.
    """
    file = Path(path)
    known = format_of(file.suffix.lower())
    if known is None:
        raise ParseError(f"unknown ending {file.suffix!r}; known are {', '.join(endings())}", path=file.name)
    data = read_bytes(file, max_bytes)
    return known.read(data, file.name, max_entries=max_entries, rows=RowRule(normalize))


def save(model: POMDP, path: str | PathLike[str]) -> None:
    """Write a model to a file, in the format that the ending of its name chooses.

    Parameters
    ----------
    model
        The model.
    path
        A file whose name ends in `.pomdp`, `.json` or `.npz`. If it exists, it is replaced.

    Raises
    ------
    InvalidModelError
        The ending is unknown, or the format cannot represent this model.
    """
    if not isinstance(model, POMDP):
        raise InvalidModelError(f"a {type(model).__name__} is not a POMDP")
    file = Path(path)
    known = format_of(file.suffix.lower())
    if known is None or known.write is None:
        raise InvalidModelError(
            f"{file.name}: unknown ending {file.suffix!r}; known are {', '.join(WRITABLE)}"
        )
    write_atomically(file, known.write(model))
