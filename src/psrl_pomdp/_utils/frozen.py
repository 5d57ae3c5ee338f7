"""The base class of models and priors: immutable objects that are compared by their contents."""

from __future__ import annotations

import hashlib
from functools import cached_property

import numpy as np

from .arrays import Array


class Frozen:
    """Base class of immutable objects that are compared by their contents.

    The constructor sets the attributes once. Arrays stay read-only in copies and in other processes.
    """

    def _set(self, **fields: object) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} cannot be deleted")

    def __setstate__(self, state: dict[str, object]) -> None:
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)  # pickling drops the flag
        self.__dict__.update(state)

    def _contents(self) -> tuple[str, list[Array]]:
        """Return a text and the arrays that determine whether two objects are equal."""
        raise NotImplementedError

    @cached_property
    def fingerprint(self) -> str:
        """A SHA-256 digest of every number, to the last bit, and of every name."""
        text, arrays = self._contents()
        digest = hashlib.sha256(text.encode())
        for array in arrays:
            digest.update(repr(array.shape).encode())
            digest.update(array.tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)) and not isinstance(self, type(other)):
            return NotImplemented
        assert isinstance(other, Frozen)
        return self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)
