"""Archives of arrays (`.npz`): the same bytes every time, sealed, and read without pickles or bombs.

The member `seal` is the SHA-256 of all the others, by name: a file that was damaged is refused as a whole. It
keeps no enemy out, who can make it anew; what a file says is checked by whoever reads it (`contents.py`).

How much an archive unpacks to is bounded by its own size before anything is unpacked, archives inside it
included. `pack` keeps to that bound: what would shrink too well is stored as it is.
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
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..errors import InvalidModelError, ParseError

Arrays = dict[str, npt.NDArray[Any]]

SEAL = "seal"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can have
_SHRINK = 16  # an archive is no smaller than its arrays by more than this factor
_DEPTH = 3  # a run holds an agent, which holds plans
_ALWAYS = 16 << 20  # bytes that any file may unpack to
LONGEST_TEXT = (
    8 << 20
)  # bytes of JSON, where the file itself is not larger: reading them takes many times as much
_KINDS = "biufcSU"  # of numbers and of texts; no objects, records or times
_HEADER = 10_000  # the longest header of an array: they are a hundred bytes long
# A damaged archive fails in zipfile, zlib and struct in their own ways, and none of them says more than that
# the file is no archive of arrays.
_DAMAGED = (
    OSError, ValueError, LookupError, EOFError, RuntimeError, TypeError, SyntaxError, OverflowError,
    AttributeError, zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip


class Room:
    """How many bytes a file may still unpack to, archives inside it included."""

    def __init__(self, size: int) -> None:
        self.left = size

    @classmethod
    def for_file(cls, data: bytes) -> Room:
        """For a file of ours: what `pack` makes always fits."""
        return cls(_ALWAYS + _DEPTH * _SHRINK * len(data))

    def take(self, size: int, path: str) -> None:
        """Refuse what does not fit; what does takes its place."""
        if not 0 <= size <= self.left:
            raise ParseError(f"too large to unpack: {size} bytes, with room for {self.left}", path=path)
        self.left -= size


def pack(arrays: Mapping[str, npt.NDArray[Any] | None]) -> bytes:
    """A sealed archive of the arrays that are there, without the time of day."""
    members = {name: npy_bytes(array) for name, array in arrays.items() if array is not None}
    members[SEAL] = npy_bytes(np.frombuffer(members_digest(members), np.uint8))
    stored = {name for name, content in members.items() if _as_it_is(content)}
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


def _as_it_is(content: bytes) -> bool:
    """Whether a member is stored without shrinking it: archives, and texts that are long."""
    text = b"'|u1'" in content[:128]
    return text and (len(content) > LONGEST_TEXT or b"PK\x03\x04" in content[:256])


def unpack(data: bytes, path: str, room: Room | None = None) -> Arrays:
    """The arrays of an archive by name, without the seal, which has to be right where there is one."""
    return unpack_sealed(data, path, room)[0]


def unpack_sealed(data: bytes, path: str, room: Room | None = None) -> tuple[Arrays, bool]:
    """The arrays of an archive by name, and whether it was sealed."""
    room = Room.for_file(data) if room is None else room
    members = _unzipped(data, path, room)
    seal = members.pop(SEAL, None)
    if seal is not None and not seal.endswith(members_digest(members)):
        raise ParseError("damaged: its seal is not that of its contents", path=path)
    return {name: _array(name, members.pop(name), path) for name in list(members)}, seal is not None


def npy_bytes(array: npt.NDArray[Any]) -> bytes:
    """Return an array in the format of a .npy file."""
    member = io.BytesIO()
    np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
    return member.getvalue()


def members_digest(members: Mapping[str, bytes]) -> bytes:
    """Return the SHA-256 digest of the members and their names."""
    total = hashlib.sha256()
    for name in sorted(members):
        label = name.encode()
        total.update(struct.pack("<QQ", len(label), len(members[name])) + label + members[name])
    return total.digest()


def _zipped(members: Mapping[str, bytes], stored: set[str]) -> tuple[bytes, dict[str, int]]:
    """The archive, and what each member takes in it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            info.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
        sizes = {info.filename.removesuffix(".npy"): info.compress_size for info in archive.infolist()}
    return buffer.getvalue(), sizes


def _unzipped(data: bytes, path: str, room: Room) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            room.take(sum(info.file_size for info in infos), path)
            found: dict[str, bytes] = {}
            for info in infos:
                name = info.filename.removesuffix(".npy")
                if name == info.filename or name in found:
                    raise ParseError(f"{info.filename!r} is no array, or there twice", path=path)
                found[name] = _member(archive, info, path)
            return found
    except ParseError:
        raise
    except _DAMAGED as error:
        raise ParseError(f"not an archive of arrays: {error}", path=path) from None


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> bytes:
    """The bytes of a member. No more than it says of itself is ever unpacked."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ParseError(f"{info.filename} is packed in a way that is not ours", path=path)
    with archive.open(info) as stream:
        content = stream.read(info.file_size)
    if len(content) != info.file_size:
        raise ParseError(f"{info.filename} is cut off", path=path)
    return content


def _array(name: str, content: bytes, path: str) -> npt.NDArray[Any]:
    """The array of a member: its header has to promise exactly the bytes that follow."""
    try:
        dtype, shape, by_columns, begin = _header(content)
        size = math.prod(shape)
        if dtype.kind not in _KINDS or dtype.itemsize == 0:
            raise ValueError(f"it holds {dtype}")
        if min(shape, default=0) < 0 or len(shape) > 16 or size * dtype.itemsize != len(content) - begin:
            raise ValueError(f"{len(content) - begin} bytes are no {dtype} of shape {shape}")
        values = np.frombuffer(content, dtype, size, begin) if size else np.empty(0, dtype)
        return values.reshape(shape, order="F" if by_columns else "C").copy()
    except (*_DAMAGED, RecursionError, MemoryError) as error:
        raise ParseError(f"not an archive of arrays: {name}: {error}", path=path) from None


def _header(content: bytes) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Type, shape and order of an array, and where its numbers begin."""
    if content[:6] != b"\x93NUMPY" or content[6:8] not in (b"\x01\x00", b"\x02\x00"):
        raise ValueError("it does not begin as one")
    width = "<H" if content[6] == 1 else "<I"
    begin = 8 + struct.calcsize(width)
    (length,) = struct.unpack(width, content[8:begin])
    if length > _HEADER or begin + length > len(content):
        raise ValueError("its header is cut off")
    words = ast.literal_eval(content[begin : begin + length].decode("latin-1").strip())
    descr, by_columns, shape = words["descr"], words["fortran_order"], words["shape"]
    if len(words) != 3 or not isinstance(descr, str) or not isinstance(by_columns, bool):
        raise ValueError("its header says something else")
    if not isinstance(shape, tuple) or not all(type(n) is int for n in shape):
        raise ValueError(f"its shape is {shape!r}")
    return np.dtype(descr), shape, by_columns, begin + length


@contextmanager
def as_saved_agent(path: str) -> Iterator[None]:
    """Around the making of an agent from what was saved: anything else than one is refused as such."""
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
