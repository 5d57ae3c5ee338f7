"""Jobs by name, and their results as sealed files.

Nothing here computes, so that the folder of a study is there before anything large is imported.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from .._utils.log_spaced import log_spaced
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
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ParseError("the result is damaged: no JSON", path=name) from None
    if hashlib.sha256(bytes(whole.result)).hexdigest() != whole.sha256:
        raise ParseError("the result is damaged: its checksum is not that of its contents", path=name)
    try:
        return msgspec.json.decode(whole.result, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ParseError("the result is damaged: no JSON", path=name) from None


def check_result(result: dict[str, Any], study: Study, name: str) -> None:
    """Raise `ParseError` where a result is not what a job of the study leaves: tables are made of it."""
    try:
        found = msgspec.convert(result, _Result)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ParseError(f"the result is not one: {error}", path=name) from None
    low, high, _, _ = found.units
    n, n_episodes = len(found.times), len(found.episodes.start)
    by_time = (*(getattr(found, column) for column in _COLUMNS), found.posterior)
    by_episode = (getattr(found.episodes, column) for column in _Episodes.__struct_fields__)
    truth = found.truth
    for wrong, why in (
        (not 0.0 < high - low < math.inf, "units"),
        (found.times != log_spaced(study.horizon, study.per_decade).tolist(), "times"),
        (any(column is not None and len(column) != n for column in by_time), "columns by time"),
        (any(column is not None and len(column) != n_episodes for column in by_episode), "episodes"),
        (found.promised is not None and len(found.promised) != n, "promised"),
        (len({getattr(found, name) is None for name in _COMPARED}) > 1, "columns that are there together"),
        (any(abs(x) > _LARGEST for column in by_time for x in column or ()), "numbers"),
        (max(abs(low), abs(high)) > _LARGEST, "units"),
        (found.episodes.start != sorted(found.episodes.start), "the starts of episodes"),
        (any(not 0 <= start <= _LATEST for start in found.episodes.start), "the starts of episodes"),
        (not 0.0 <= truth.lower <= truth.upper <= 1.0, "the interval of the truth"),
    ):
        if wrong:
            raise ParseError(f"the result is not one: {why} do not fit", path=name)


class _Sealed(msgspec.Struct):
    sha256: str
    result: msgspec.Raw


_COLUMNS = ("cost", "expected_cost", "belief_gap", "kernel_gap", "cost_gap", "control")
_COMPARED = ("belief_gap", "kernel_gap", "cost_gap", "promised")  # with the kernel that a learner plays
_LATEST = 1 << 53
_LARGEST = 1e30  # of sums of scaled costs: products and squares are finite
Numbers = list[float]
NumbersOrNone = list[float | None] | None  # a column where there was nothing to compare with, or no number


class _Truth(msgspec.Struct):
    lower: float
    upper: float
    status: str
    span: tuple[float, float] | None


class _Episodes(msgspec.Struct):
    start: list[int]
    length: list[int]
    ended: list[str]
    kernel: list[int | None]
    lower: NumbersOrNone
    upper: NumbersOrNone
    tolerance: NumbersOrNone
    status: list[str]
    work: NumbersOrNone
    span: NumbersOrNone
    cost: NumbersOrNone
    expected_cost: NumbersOrNone
    belief_gap: NumbersOrNone
    kernel_gap: NumbersOrNone
    cost_gap: NumbersOrNone


class _Result(msgspec.Struct):
    """What a job leaves, by the names of `result_of`."""

    version: str
    platform: str
    study: str
    agent: str
    run: int
    problem: str
    horizon: int
    units: tuple[float, float, Literal["cost", "reward"], str]
    truth: _Truth
    times: list[int]
    cost: Numbers
    expected_cost: Numbers
    belief_gap: Numbers | None
    kernel_gap: Numbers | None
    cost_gap: Numbers | None
    control: Numbers
    promised: list[tuple[float, float]] | None
    violations: list[str]
    posterior: Numbers | None
    visits: list[list[list[int]]]
    pseudo_counts: list[list[list[int]]]
    episodes: _Episodes
