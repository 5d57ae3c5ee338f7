"""Read the bytes of a file, with the package's own errors."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import MissingFileError, ParseError, UnreadableFileError

_MOST = 4 << 30  # the most bytes of a file
_PIECE = 1 << 20
_MOST_TOML = 1 << 20


def read_bytes(path: str | os.PathLike[str], most: int = _MOST) -> bytes:
    """Return the contents of a file of at most `most` bytes.

    Raises
    ------
    MissingFileError
        If there is no such file.
    UnreadableFileError
        If the path is a folder, or a file that may not be read.
    ParseError
        If the file is larger, or the path is not a valid name.
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
    except ValueError as error:  # an invalid name
        raise ParseError(str(error), path=repr(place.name)) from None
    if len(data) > most:
        raise ParseError(f"the file has more than {most} bytes, which is the limit", path=place.name)
    return data


def read_toml(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Return the contents of a TOML file; errors say that it is not `kind` in TOML.

    Raises
    ------
    ParseError
        If the file is not TOML, or as `read_bytes` does.
    """
    data = read_bytes(path, _MOST_TOML)
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # numbers of too many digits, and brackets in brackets
        raise ParseError(f"not {kind} in TOML: {error}", path=Path(path).name) from None


def _pieces(stream: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield pieces of a stream, up to one piece beyond `most` bytes."""
    while most >= 0 and (piece := stream.read(_PIECE)):
        most -= len(piece)
        yield piece
