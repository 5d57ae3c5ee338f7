"""The bytes of a file, or an error of ours that says why there are none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..errors import MissingFileError, ParseError, UnreadableFileError

_MOST = 4 << 30  # bytes of any file
_PIECE = 1 << 20


def read_bytes(path: str | os.PathLike[str], most: int = _MOST) -> bytes:
    """What is in a file of at most `most` bytes.

    Raises `MissingFileError` where there is none, `UnreadableFileError` for a folder or one that may not be
    read, and `ParseError` for a larger one.
    """
    place = Path(path)
    try:
        with place.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size  # 0 for a pipe, which is read to its end
            data = stream.read(min(size, most) + 1) if size else b"".join(_pieces(stream, most))
    except FileNotFoundError:
        raise MissingFileError(f"{os.fspath(path)}: no such file or directory") from None
    except IsADirectoryError:
        raise UnreadableFileError("a folder, not a file", path=place.name) from None
    except OSError as error:
        raise UnreadableFileError(error.strerror or str(error), path=place.name) from None
    except ValueError as error:  # a name that no file can have
        raise ParseError(str(error), path=repr(place.name)) from None
    if len(data) > most:
        raise ParseError(f"over {most} bytes", path=place.name)
    return data


def _pieces(stream: BinaryIO, most: int) -> Iterator[bytes]:
    """What comes, up to one piece past `most` bytes."""
    while most >= 0 and (piece := stream.read(_PIECE)):
        most -= len(piece)
        yield piece
