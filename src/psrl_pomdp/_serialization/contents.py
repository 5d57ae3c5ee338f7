"""What a file says, checked where it is taken: every array by its type, shape and range.

Nothing that a file says may reach compiled code, which looks at no bounds, before it went through here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from ..errors import ParseError
from .archives import LONGEST_TEXT, Arrays, Room, unpack_sealed

Words = TypeVar("Words")
Shape = Sequence[int | None]  # None stands for any number

VERSION = 2  # of saved agents and plans; those of version 1 had no seal
LARGEST_TIME = 1 << 53  # steps; beyond, counts in floating point would not be whole


class Contents:
    """The arrays of a file by name; `path` is for errors."""

    def __init__(self, arrays: Arrays, path: str, file_size: int = 0) -> None:
        self._arrays, self.path = arrays, path
        self._longest = LONGEST_TEXT + file_size

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def refuse(self, reason: str) -> ParseError:
        """The error that says what is wrong with the file."""
        return ParseError(reason, path=self.path)

    def floats(
        self, name: str, shape: Shape, low: float = -np.inf, high: float = np.inf, *, nothing: bool = False
    ) -> Array:
        """Finite numbers from `low` to `high`, as float64; NaN among them where that stands for `nothing`."""
        array = self._shaped(name, shape, "f")
        if not (np.isfinite(array) | (nothing & np.isnan(array))).all():
            raise self.refuse(f"{name} holds a number that is not finite")
        converted = np.ascontiguousarray(array, dtype=np.float64)
        if ((converted < low) | (converted > high)).any():  # NaN, where it may be, is neither
            raise self.refuse(f"{name} holds a number outside of {low:g} to {high:g}")
        return converted

    def whole(self, name: str, shape: Shape, low: int, high: int) -> npt.NDArray[np.int64]:
        """Whole numbers from `low` to `high`, as int64."""
        array = self._shaped(name, shape, "iu")
        if array.size and not (int(array.min()) >= low and int(array.max()) <= high):
            raise self.refuse(f"{name} holds a number outside of {low} to {high}")
        return np.ascontiguousarray(array, dtype=np.int64)

    def flags(self, name: str, shape: Shape) -> npt.NDArray[np.bool_]:
        """Truth values."""
        return np.asarray(self._shaped(name, shape, "b"), dtype=np.bool_)

    def distributions(self, name: str, shape: Shape, tolerance: float = 1e-6) -> Array:
        """Rows of chances that sum to one."""
        array = self.floats(name, shape, 0.0)
        if (np.abs(array.sum(axis=-1) - 1.0) > tolerance).any():
            raise self.refuse(f"{name} does not sum to 1")
        return array

    def raw(self, name: str) -> npt.NDArray[Any]:
        """An array as it is, for who checks it elsewhere."""
        if name not in self._arrays:
            raise self.refuse(f"{name} is missing")
        return self._arrays[name]

    def packed(self, name: str) -> bytes:
        """The bytes of an archive inside this one."""
        return self._shaped(name, (None,), "u").tobytes()

    def text(self, name: str) -> bytes:
        """JSON; so much of it that reading takes a great deal of memory is refused."""
        array = self._shaped(name, (None,), "u")
        if array.nbytes > self._longest:
            raise self.refuse(f"{name} is too long: {array.nbytes} bytes")
        return array.tobytes()

    def words(self, name: str, kind: type[Words], what: str) -> Words:
        """JSON as plain data of this kind; `what` the file should be, for errors."""
        return decoded(self.text(name), kind, self.path, what)

    def _shaped(self, name: str, shape: Shape, kinds: str) -> npt.NDArray[Any]:
        array = self.raw(name)
        fits = len(array.shape) == len(shape) and all(
            wanted is None or found == wanted for found, wanted in zip(array.shape, shape, strict=True)
        )
        if not fits or array.dtype.kind not in kinds:
            wanted = ", ".join("any" if n is None else str(n) for n in shape)
            raise self.refuse(f"{name} is {array.dtype} of shape {array.shape}, not ({wanted})")
        return array


class _Versioned(msgspec.Struct):
    version: int = 1


def opened(
    data: bytes, path: str, kind: type[Words], what: str, room: Room | None = None
) -> tuple[Contents, Words]:
    """The arrays of a file of ours, and its words as data of this kind; `what` it is, for errors.

    Raises `ParseError` where it is damaged, of a later version, or its words are not such data.
    """
    arrays, sealed = unpack_sealed(data, path, room)
    contents = Contents(arrays, path, len(data))
    version = contents.words("words", _Versioned, what).version
    if version not in (1, VERSION):
        raise ParseError(f"{what} of version {version}, not {VERSION}", path=path)
    if version > 1 and not sealed:
        raise ParseError("damaged: its seal is missing", path=path)
    return contents, contents.words("words", kind, what)


def decoded(text: bytes, kind: type[Words], path: str, what: str) -> Words:
    """JSON as plain data of this kind, or `ParseError`: not `what` the file should be."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ParseError(f"not {what}: {error}", path=path) from None
