"""Jobs by name, and their results as sealed files.

Nothing here computes, so that the folder of a study is there before anything large is imported.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from ..errors import ParseError
from .study import Study


@dataclass(frozen=True)
class Job:
    """The agent `agent` of a study in its run `run`."""

    agent: str
    run: int

    @property
    def name(self) -> str:
        return f"{self.agent}-{self.run:05d}"


def jobs_of(study: Study) -> list[Job]:
    """All jobs; runs outer, so that all agents have some results early."""
    return [Job(agent.label, run) for run in range(study.seeds) for agent in study.agents]


def encode(result: dict[str, Any]) -> bytes:
    """A result as the bytes of a file, with a checksum of the rest."""
    body = msgspec.json.encode(result)
    total = hashlib.sha256(body).hexdigest()
    return msgspec.json.encode({"sha256": total, "result": msgspec.Raw(body)}) + b"\n"


def decode(data: bytes, name: str) -> dict[str, Any]:
    """The result in a file; one that was damaged is refused."""
    try:
        whole = msgspec.json.decode(data, type=_Sealed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ParseError("the result is damaged: no JSON", path=name) from None
    if hashlib.sha256(bytes(whole.result)).hexdigest() != whole.sha256:
        raise ParseError("the result is damaged: its checksum is not that of its contents", path=name)
    found: dict[str, Any] = msgspec.json.decode(whole.result)
    return found


class _Sealed(msgspec.Struct):
    sha256: str
    result: msgspec.Raw
