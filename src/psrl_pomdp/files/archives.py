"""Archives of arrays (`.npz`): packed to the same bytes every time, unpacked without pickles or bombs."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..errors import InvalidModelError, ParseError

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can have


def pack(arrays: Mapping[str, npt.NDArray[Any] | None]) -> bytes:
    """An archive of the arrays that are there, without the time of day."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            if array is not None:
                member = io.BytesIO()
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
                info = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, member.getvalue())
    return buffer.getvalue()


def unpack(data: bytes, path: str, max_bytes: int) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an archive by name; a member over `max_bytes` is not unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist():
                if member.file_size > max_bytes:
                    raise ParseError(f"{member.filename} is too large to unpack", path=path)
            if (damaged := archive.testzip()) is not None:
                raise zipfile.BadZipFile(f"{damaged} is damaged")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: np.asarray(arrays[name]) for name in arrays.files}
    except ParseError:
        raise
    # A damaged archive fails in zipfile, zlib, struct and numpy in their own ways, and none of them says
    # more than that the file is no archive of arrays.
    except (OSError, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError) as error:
        raise ParseError(f"not an archive of arrays: {error}", path=path) from None
    except (zipfile.BadZipFile, zlib.error, MemoryError, SyntaxError, TypeError) as error:
        raise ParseError(f"not an archive of arrays: {error}", path=path) from None


@contextmanager
def as_saved_agent(path: str) -> Iterator[None]:
    """Around the making of an agent from what was saved: anything else than one is refused as such."""
    try:
        yield
    except (ParseError, InvalidModelError):
        raise
    except (ValueError, TypeError, LookupError, AttributeError, msgspec.DecodeError) as error:
        raise ParseError(f"not a saved agent of this kind: {error!r}", path=path) from None
