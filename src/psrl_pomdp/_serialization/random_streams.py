"""Random streams as words: where a generator stands, so that another can go on from there."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from ..errors import InvalidModelError


class StreamWords(msgspec.Struct):
    """A generator's state, with numbers too long for JSON as text."""

    kind: str
    state: dict[str, str]
    has_uint32: int
    uinteger: int


def stream_out(rng: np.random.Generator) -> dict[str, Any]:
    """A generator's state, with numbers too long for JSON as text."""
    state = rng.bit_generator.state
    return {
        "kind": state["bit_generator"],
        "state": {name: str(value) for name, value in state["state"].items()},
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }


def stream_in(words: StreamWords) -> np.random.Generator:
    """A generator that goes on from there. Raises `InvalidModelError` for a state that none can have."""
    rng = np.random.default_rng(0)
    own = rng.bit_generator.state
    if own["bit_generator"] != words.kind:
        raise InvalidModelError(f"random numbers of kind {words.kind!r} cannot be gone on with")
    digits = list(words.state.values())
    if words.state.keys() != own["state"].keys() or not all(
        d.isascii() and d.isdigit() and len(d) < 40 for d in digits
    ):
        raise InvalidModelError("the state of a random stream is not one")
    state = {name: int(value) for name, value in words.state.items()}
    if max(state.values()) >= 1 << 128 or not (0 <= words.has_uint32 <= 1 and 0 <= words.uinteger < 1 << 32):
        raise InvalidModelError("the state of a random stream is out of range")
    rng.bit_generator.state = {
        "bit_generator": words.kind,
        "state": state,
        "has_uint32": words.has_uint32,
        "uinteger": words.uinteger,
    }
    return rng
