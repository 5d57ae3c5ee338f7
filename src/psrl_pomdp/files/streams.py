"""Random streams as words: where a generator stands, so that another can go on from there."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InvalidModelError


def stream_out(rng: np.random.Generator) -> dict[str, Any]:
    """A generator's state, with numbers too long for JSON as text."""
    state = rng.bit_generator.state
    return {
        "kind": state["bit_generator"],
        "state": {name: str(value) for name, value in state["state"].items()},
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }


def stream_in(words: dict[str, Any]) -> np.random.Generator:
    rng = np.random.default_rng(0)
    if rng.bit_generator.state["bit_generator"] != words["kind"]:
        raise InvalidModelError(f"random numbers of kind {words['kind']} cannot be gone on with")
    rng.bit_generator.state = {
        "bit_generator": words["kind"],
        "state": {name: int(value) for name, value in words["state"].items()},
        "has_uint32": words["has_uint32"],
        "uinteger": words["uinteger"],
    }
    return rng
