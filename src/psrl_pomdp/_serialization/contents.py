"""Read the contents of a file with checks of the type, shape and range of every array.

Compiled code does not check bounds, so no number of a file may reach it without a check in this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from ..errors import ParseError
from .archives import LONGEST_TEXT, Arrays, SizeLimit, unpack_sealed

Metadata = TypeVar("Metadata")
Shape = Sequence[int | None]  # None stands for any length

METADATA = "words"  # name of the array that contains the other fields of a file as JSON
VERSION = 2  # version of saved agents and plans; files of version 1 have no seal
LARGEST_TIME = 1 << 53  # the largest number of steps that floating point represents exactly


class Contents:
    """The arrays of a file by name; error messages contain `path`."""

    def __init__(self, arrays: Arrays, path: str, file_size: int = 0) -> None:
        self._arrays, self.path = arrays, path
        self._longest = LONGEST_TEXT + file_size

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def refuse(self, reason: str) -> ParseError:
        """Return the error that says what is wrong with the file."""
        return ParseError(reason, path=self.path)

    def floats(
        self, name: str, shape: Shape, low: float = -np.inf, high: float = np.inf, *, allow_nan: bool = False
    ) -> Array:
        """Return an array of finite numbers (or NaN, with `allow_nan`) from `low` to `high` as float64."""
        array = self._shaped(name, shape, "f")
        if not (np.isfinite(array) | (allow_nan & np.isnan(array))).all():
            raise self.refuse(f"{name} contains a number that is not finite")
        converted = np.ascontiguousarray(array, dtype=np.float64)
        if ((converted < low) | (converted > high)).any():  # False for NaN
            raise self.refuse(f"{name} contains a number outside [{low:g}, {high:g}]")
        return converted

    def whole(self, name: str, shape: Shape, low: int, high: int) -> npt.NDArray[np.int64]:
        """Return an array of integers from `low` to `high` as int64."""
        array = self._shaped(name, shape, "iu")
        if array.size and not (int(array.min()) >= low and int(array.max()) <= high):
            raise self.refuse(f"{name} contains a number outside [{low}, {high}]")
        return np.ascontiguousarray(array, dtype=np.int64)

    def flags(self, name: str, shape: Shape) -> npt.NDArray[np.bool_]:
        """Return an array of Booleans."""
        return np.asarray(self._shaped(name, shape, "b"), dtype=np.bool_)

    def distributions(self, name: str, shape: Shape, tolerance: float = 1e-6) -> Array:
        """Return an array of rows of probabilities that sum to one."""
        array = self.floats(name, shape, 0.0)
        if (np.abs(array.sum(axis=-1) - 1.0) > tolerance).any():
            raise self.refuse(f"{name} has a row that does not sum to 1")
        return array

    def raw(self, name: str) -> npt.NDArray[Any]:
        """Return an array without a check, for callers that check it themselves."""
        if name not in self._arrays:
            raise self.refuse(f"{name} is missing")
        return self._arrays[name]

    def packed(self, name: str) -> bytes:
        """Return the bytes of an archive that this archive contains."""
        return self._shaped(name, (None,), "u").tobytes()

    def text(self, name: str) -> bytes:
        """Return JSON; a text that would take too much memory to parse raises an error."""
        array = self._shaped(name, (None,), "u")
        if array.nbytes > self._longest:
            raise self.refuse(f"{name} is too long: {array.nbytes} bytes, and the limit is {self._longest}")
        return array.tobytes()

    def metadata(self, kind: type[Metadata], what: str) -> Metadata:
        """Return the metadata decoded as `kind`; errors say that the file is not `what`."""
        return decoded(self.text(METADATA), kind, self.path, what)

    def _shaped(self, name: str, shape: Shape, kinds: str) -> npt.NDArray[Any]:
        array = self.raw(name)
        fits = len(array.shape) == len(shape) and all(
            expected is None or found == expected for found, expected in zip(array.shape, shape, strict=True)
        )
        if not fits or array.dtype.kind not in kinds:
            expected = ", ".join("any" if n is None else str(n) for n in shape)
            raise self.refuse(f"{name} is {array.dtype} of shape {array.shape}, not ({expected})")
        return array


class _Versioned(msgspec.Struct):
    version: int = 1


def opened(
    data: bytes, path: str, kind: type[Metadata], what: str, limit: SizeLimit | None = None
) -> tuple[Contents, Metadata]:
    """Return the arrays of a file and its metadata decoded as `kind`; errors say that the file is not `what`.

    Raises `ParseError` if the file is damaged, has a later version, or its metadata does not fit `kind`.
    """
    arrays, sealed = unpack_sealed(data, path, limit)
    contents = Contents(arrays, path, len(data))
    version = contents.metadata(_Versioned, what).version
    if version not in (1, VERSION):
        raise ParseError(
            f"{what} of version {version}, and this package reads up to version {VERSION}", path=path
        )
    if version > 1 and not sealed:
        raise ParseError("damaged: its seal is missing", path=path)
    return contents, contents.metadata(kind, what)


def decoded(text: bytes, kind: type[Metadata], path: str, what: str) -> Metadata:
    """Return JSON decoded as `kind`, or raise a `ParseError` that says that the file is not `what`."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ParseError(f"not {what}: {error}", path=path) from None
