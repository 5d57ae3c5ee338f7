"""Archives of arrays (`.npz`): reproducible bytes, a checksum, and safe reading of untrusted files.

The member `seal` is the SHA-256 of all other members, by name: a damaged file is refused as a whole. The seal
is no protection against an attacker, who can compute it; the reader of a file checks its contents
(`contents.py`).

The size of the unpacked archive, with nested archives, is bounded by the size of the file before anything is
unpacked. `pack` respects this bound: members that would be compressed too well are stored without
compression. Pickles are never read.
"""

from __future__ import annotations

import ast
import hashlib
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..errors import InvalidModelError, ParseError

Arrays = dict[str, npt.NDArray[Any]]

SEAL = "seal"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can contain
_SHRINK = 16  # the largest ratio of the size of the arrays to the size of the archive
_DEPTH = 3  # levels of nesting: a run contains an agent, which contains plans
_ALWAYS = 16 << 20  # bytes that a file of any size may unpack to
LONGEST_TEXT = (
    8 << 20
)  # bytes of JSON beyond the size of the file: reading JSON takes a multiple of its size in memory
_KINDS = "biufcSU"  # numbers and strings; no objects, records or times
_HEADER = 10_000  # the longest header of an array; usual headers have about a hundred bytes
# The exceptions by which zipfile, zlib, struct and numpy fail for a damaged archive.
_DAMAGED = (
    OSError, ValueError, LookupError, EOFError, RuntimeError, TypeError, SyntaxError, OverflowError,
    AttributeError, zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip


class SizeLimit:
    """The number of bytes that a file may still unpack to, including nested archives."""

    def __init__(self, size: int) -> None:
        self.left = size

    @classmethod
    def for_file(cls, data: bytes) -> SizeLimit:
        """Return the limit for a file of this package; every archive that `pack` writes is within it."""
        return cls(_ALWAYS + _DEPTH * _SHRINK * len(data))

    def take(self, size: int, path: str) -> None:
        """Subtract `size` from the limit; a size beyond the limit raises `ParseError`."""
        if not 0 <= size <= self.left:
            raise ParseError(f"too large to unpack: {size} bytes, and the limit is {self.left}", path=path)
        self.left -= size


def pack(arrays: Mapping[str, npt.NDArray[Any] | None]) -> bytes:
    """Return an archive with a seal of the arrays that are not None. Equal arrays give equal bytes."""
    members = {name: npy_bytes(array) for name, array in arrays.items() if array is not None}
    members[SEAL] = npy_bytes(np.frombuffer(members_digest(members), np.uint8))
    stored = {name for name, content in members.items() if _is_incompressible(content)}
    packed, sizes = _zipped(members, stored)
    total, least = sum(map(len, members.values())), len(packed)
    if total <= _SHRINK * least:
        return packed
    for name in sorted(sizes.keys() - stored, key=lambda name: (sizes[name] / len(members[name]), name)):
        stored.add(name)
        least += len(members[name]) - sizes[name]
        if total <= _SHRINK * least:
            break
    return _zipped(members, stored)[0]


def _is_incompressible(content: bytes) -> bool:
    """Return whether a member is stored without compression: an archive or a long text."""
    text = b"'|u1'" in content[:128]
    return text and (len(content) > LONGEST_TEXT or b"PK\x03\x04" in content[:256])


def unpack(data: bytes, path: str, limit: SizeLimit | None = None) -> Arrays:
    """Return the arrays of an archive by name, without the seal. A wrong seal raises `ParseError`."""
    return unpack_sealed(data, path, limit)[0]


def unpack_sealed(data: bytes, path: str, limit: SizeLimit | None = None) -> tuple[Arrays, bool]:
    """Return the arrays of an archive by name, and whether it has a seal."""
    limit = SizeLimit.for_file(data) if limit is None else limit
    members = _unzipped(data, path, limit)
    seal = members.pop(SEAL, None)
    if seal is not None and not seal.endswith(members_digest(members)):
        raise ParseError("damaged: its seal does not match its contents", path=path)
    return {name: _array(name, members.pop(name), path) for name in list(members)}, seal is not None


def npy_bytes(array: npt.NDArray[Any]) -> bytes:
    """Return an array in the format of a .npy file."""
    member = io.BytesIO()
    np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
    return member.getvalue()


def members_digest(members: Mapping[str, bytes]) -> bytes:
    """Return the SHA-256 of the names and contents of the members."""
    total = hashlib.sha256()
    for name in sorted(members):
        label = name.encode()
        total.update(struct.pack("<QQ", len(label), len(members[name])) + label + members[name])
    return total.digest()


def _zipped(members: Mapping[str, bytes], stored: set[str]) -> tuple[bytes, dict[str, int]]:
    """Return the archive, and the compressed size of each member."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            info.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
        sizes = {info.filename.removesuffix(".npy"): info.compress_size for info in archive.infolist()}
    return buffer.getvalue(), sizes


def _unzipped(data: bytes, path: str, limit: SizeLimit) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            limit.take(sum(info.file_size for info in infos), path)
            found: dict[str, bytes] = {}
            for info in infos:
                name = info.filename.removesuffix(".npy")
                if name == info.filename or name in found:
                    raise ParseError(f"{info.filename!r} is not an array, or occurs twice", path=path)
                found[name] = _member(archive, info, path)
            return found
    except ParseError:
        raise
    except _DAMAGED as error:
        raise ParseError(f"not an archive of arrays: {error}", path=path) from None


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> bytes:
    """Return the bytes of a member. At most as many bytes are unpacked as the archive declares."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ParseError(f"{info.filename} has an unsupported compression method", path=path)
    with archive.open(info) as stream:
        content = stream.read(info.file_size)
    if len(content) != info.file_size:
        raise ParseError(f"{info.filename} is truncated", path=path)
    return content


def _array(name: str, content: bytes, path: str) -> npt.NDArray[Any]:
    """Return the array of a member, whose header must match the number of bytes that follow."""
    try:
        dtype, shape, by_columns, begin = _header(content)
        size = math.prod(shape)
        if dtype.kind not in _KINDS or dtype.itemsize == 0:
            raise ValueError(f"it contains {dtype}")
        if min(shape, default=0) < 0 or len(shape) > 16 or size * dtype.itemsize != len(content) - begin:
            raise ValueError(f"{len(content) - begin} bytes are not {dtype} of shape {shape}")
        values = np.frombuffer(content, dtype, size, begin) if size else np.empty(0, dtype)
        return values.reshape(shape, order="F" if by_columns else "C").copy()
    except (*_DAMAGED, RecursionError, MemoryError) as error:
        raise ParseError(f"not an archive of arrays: {name}: {error}", path=path) from None


def _header(content: bytes) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Return type, shape and order of an array, and the position of its first number."""
    if content[:6] != b"\x93NUMPY" or content[6:8] not in (b"\x01\x00", b"\x02\x00"):
        raise ValueError("it does not start with the header of an array")
    width = "<H" if content[6] == 1 else "<I"
    begin = 8 + struct.calcsize(width)
    (length,) = struct.unpack(width, content[8:begin])
    if length > _HEADER or begin + length > len(content):
        raise ValueError("its header is truncated")
    return (*_read_header(content[begin : begin + length]), begin + length)


@lru_cache(maxsize=1024)  # an archive with many units has the same few headers many times
def _read_header(text: bytes) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Return type, shape and order of an array from the text of its header."""
    header = ast.literal_eval(text.decode("latin-1").strip())
    descr, by_columns, shape = header["descr"], header["fortran_order"], header["shape"]
    if len(header) != 3 or not isinstance(descr, str) or not isinstance(by_columns, bool):
        raise ValueError("its header has unexpected entries")
    if not isinstance(shape, tuple) or not all(type(n) is int for n in shape):
        raise ValueError(f"its shape is {shape!r}")
    return np.dtype(descr), shape, by_columns


@contextmanager
def as_saved_agent(path: str) -> Iterator[None]:
    """Convert any exception while an agent is restored from saved data to a `ParseError`."""
    try:
        yield
    except (ParseError, InvalidModelError):
        raise
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        msgspec.DecodeError,
    ) as error:
        raise ParseError(f"not a saved agent of this kind: {error!r}", path=path) from None
