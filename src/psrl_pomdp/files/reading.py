"""The bytes of a file, or an error of ours that says why there are none."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import MissingFileError, ParseError, UnreadableFileError

_MOST = 4 << 30  # bytes of any file


def read_bytes(path: str | os.PathLike[str], most: int = _MOST) -> bytes:
    """What is in a file of at most `most` bytes.

    Raises `MissingFileError` where there is none, `UnreadableFileError` for a folder or one that may not be
    read, and `ParseError` for a larger one.
    """
    place = Path(path)
    try:
        with place.open("rb") as stream:
            data = stream.read(most + 1)
    except FileNotFoundError:
        raise MissingFileError(f"No such file: {os.fspath(path)}") from None
    except IsADirectoryError:
        raise UnreadableFileError("a folder, not a file", path=place.name) from None
    except OSError as error:
        raise UnreadableFileError(error.strerror or str(error), path=place.name) from None
    except ValueError as error:  # a name that no file can have
        raise ParseError(str(error), path=repr(place.name)) from None
    if len(data) > most:
        raise ParseError(f"over {most} bytes", path=place.name)
    return data
