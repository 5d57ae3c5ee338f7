"""States of random generators as JSON, so that a generator can continue where another stopped."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from ..errors import InvalidModelError


class StreamState(msgspec.Struct):
    """The state of a generator; integers that are too long for JSON are strings."""

    kind: str
    state: dict[str, str]
    has_uint32: int
    uinteger: int


def stream_out(rng: np.random.Generator) -> dict[str, Any]:
    """Return the state of a generator; integers that are too long for JSON are strings."""
    state = rng.bit_generator.state
    return {
        "kind": state["bit_generator"],
        "state": {name: str(value) for name, value in state["state"].items()},
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }


def stream_in(saved: StreamState) -> np.random.Generator:
    """Return a generator with this state. A state that no generator can have raises `InvalidModelError`."""
    rng = np.random.default_rng(0)
    default = rng.bit_generator.state
    if default["bit_generator"] != saved.kind:
        raise InvalidModelError(f"the random generator {saved.kind!r} is not supported")
    digits = list(saved.state.values())
    if saved.state.keys() != default["state"].keys() or not all(
        d.isascii() and d.isdigit() and len(d) < 40 for d in digits
    ):
        raise InvalidModelError("the state of a random generator has unexpected entries")
    state = {name: int(value) for name, value in saved.state.items()}
    if max(state.values()) >= 1 << 128 or not (0 <= saved.has_uint32 <= 1 and 0 <= saved.uinteger < 1 << 32):
        raise InvalidModelError("the state of a random generator is out of range")
    rng.bit_generator.state = {
        "bit_generator": saved.kind,
        "state": state,
        "has_uint32": saved.has_uint32,
        "uinteger": saved.uinteger,
    }
    return rng
