"""The jobs of a study, and the files of their results.

A file contains `{"sha256": ..., "result": ...}`, where the result is a `RunResult` in JSON and the checksum
is that of its bytes. Format 2 is written; format 1, which version 0.1 wrote, has the same fields without
`format`, and is read too. A later format is an error that names the version of the package that wrote it.

This module imports no large modules, so that the folder of a study exists before anything is computed.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from .._utils.log_spaced import log_spaced
from ..errors import ParseError
from .study import Study

if TYPE_CHECKING:
    from .._utils.arrays import Array
    from ..models import Units

FORMAT = 2

Numbers: TypeAlias = list[float]
NumbersOrNone: TypeAlias = list[float | None] | None  # nothing to compare with, or no number
CountsAtTimes: TypeAlias = list[list[list[int]]]  # [K, A, S]


# -- jobs -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """Run number `run` of the agent `agent` of a study."""

    agent: str
    run: int

    @property
    def name(self) -> str:
        """The name of the files of this job."""
        return f"{self.agent}-{self.run:05d}"


def jobs_of(study: Study) -> list[Job]:
    """Return all jobs of a study: run 0 of every agent, then run 1 of every agent, and so on."""
    return [Job(agent.label, run) for run in range(study.seeds) for agent in study.agents]


# -- results ----------------------------------------------------------------------------------------


class TrueAverage(msgspec.Struct, frozen=True):
    """The bounds on the scaled optimal average cost J(θ*) of the true model."""

    lower: float
    upper: float
    status: str  # the status of the plan
    span: tuple[float, float] | None  # bounds on the scaled span; None for a multichain model


class EpisodeColumns(msgspec.Struct, frozen=True):
    """The episodes of a run, by columns; the sums are those at the start of the episode."""

    start: list[int]
    length: list[int]
    ended: list[str]
    kernel: list[int | None]  # the number of the sampled kernel in a finite prior
    lower: NumbersOrNone  # lower bounds on the scaled J(θ_k)
    upper: NumbersOrNone  # upper bounds
    tolerance: NumbersOrNone
    status: list[str]
    work: NumbersOrNone
    span: NumbersOrNone
    cost: NumbersOrNone
    expected_cost: NumbersOrNone
    belief_gap: NumbersOrNone
    kernel_gap: NumbersOrNone
    cost_gap: NumbersOrNone

    def rows(self) -> list[EpisodeRow]:
        """Return one row for each episode."""
        names = EpisodeRow.__struct_fields__[1:]
        columns = [getattr(self, name) or [None] * len(self.start) for name in names]
        return [EpisodeRow(k, *row) for k, row in enumerate(zip(*columns, strict=True), start=1)]


class FitResult(msgspec.Struct, frozen=True):
    """What the test of the model found in a run (`inference.model_fit.ModelFit`)."""

    readings: int  # that were tested
    alarms: list[tuple[float, int]]  # each false-alarm rate that was reached, and the time t of it
    begin: int | None  # t from which another prediction was better; None without an alarm
    departures: list[str]  # the readings that departed most from what was expected, in words

    def alarm_time(self, level: float) -> int | None:
        """Return the time of the first alarm at a level that is recorded, or None without an alarm."""
        return dict(self.alarms).get(level)


class EpisodeRow(msgspec.Struct, frozen=True):
    """One episode; costs are scaled."""

    number: int  # k, from 1 on
    start: int
    length: int
    ended: str
    kernel: int | None
    lower: float | None  # lower bound on J(θ_k); None if it is not finite
    upper: float | None  # upper bound
    tolerance: float | None
    status: str
    work: float | None


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run of one agent. Costs are scaled to [0, 1]; lists over time are at `times[K]`."""

    format: int = 1  # the format of the file; files of format 1 do not contain it
    version: str  # the version of the package that wrote the file
    plugins: list[dict[str, str]] = []  # the plug-ins of the study
    platform: str
    study: str  # the fingerprint of the study
    agent: str
    run: int
    problem: str
    horizon: int
    unit_values: tuple[float, float, Literal["cost", "reward"], str] = msgspec.field(name="units")
    truth: TrueAverage
    times: list[int]
    cost: Numbers  # Σ C(s, a)
    expected_cost: Numbers  # Σ c(b, a), with b the belief under the true model
    belief_gap: Numbers | None  # Σ |h(θ*) − h(θ_k)|₁, for an agent that samples kernels
    kernel_gap: Numbers | None  # Σ |θ* − θ_k|₁
    cost_gap: Numbers | None  # Σ (c(h(θ*), a) − c(h(θ_k), a))
    control: Numbers  # the sums of the estimator `control_variate`, without −J
    promised: list[tuple[float, float]] | None  # lower and upper bound on Σ_k T_k J(θ_k)
    violations: list[str]  # violated inequalities of the paper's lemmas
    posterior: Numbers | None  # f(θ*) if this is positive, else E‖θ − θ*‖₁ per row
    visits: CountsAtTimes
    expected_counts: list[list[list[float | None] | None] | None] | None = None
    pseudo_counts: CountsAtTimes
    episodes: EpisodeColumns
    log_e_value: Numbers | None = None  # the largest so far in the test of the model; None without a test
    fit: FitResult | None = None  # the same test at the end of the run

    @property
    def job(self) -> Job:
        """The job that this is the result of."""
        return Job(self.agent, self.run)

    @property
    def units(self) -> Units:
        """The map between scaled costs and the user's costs."""
        from ..models import Units

        return Units(*self.unit_values)

    def regret_interval(self) -> tuple[Array, Array]:
        """Return the lower and upper ends of the regret at `times`, shape [K] each, in the user's units.

        The estimator is `control_variate`. The lower end uses the upper bound on J(θ*), and the upper end
        uses the lower bound.
        """
        import numpy as np

        times, sums = np.array(self.times), np.array(self.control, np.float64)
        difference = self.units.difference
        return difference(sums - times * self.truth.upper), difference(sums - times * self.truth.lower)

    @property
    def final_regret(self) -> float:
        """The middle of the interval of the regret at the horizon, in the user's units."""
        lower, upper = self.regret_interval()
        return float(0.5 * (lower[-1] + upper[-1]))


def encode(result: RunResult) -> bytes:
    """Return a result as the bytes of a file, with a checksum of the rest."""
    body = msgspec.json.encode(result)
    total = hashlib.sha256(body).hexdigest()
    return msgspec.json.encode({"sha256": total, "result": msgspec.Raw(body)}) + b"\n"


def decode(data: bytes, name: str) -> RunResult:
    """Return the result in the bytes of a file; errors begin with `name`.

    Raises `ParseError` if the bytes are damaged, contain no result, or have a later format.
    """
    try:
        whole = msgspec.json.decode(data, type=_Sealed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ParseError("the result is damaged: no JSON", path=name) from None
    if hashlib.sha256(bytes(whole.result)).hexdigest() != whole.sha256:
        raise ParseError("the result is damaged: its checksum is not that of its contents", path=name)
    try:
        written = msgspec.json.decode(whole.result, type=_Format)
        if not 1 <= written.format <= FORMAT:
            by = f"format {written.format}, by psrl-pomdp {written.version or 'of another version'}"
            raise ParseError(f"the result is in {by}; formats up to {FORMAT} are read", path=name)
        return msgspec.json.decode(whole.result, type=RunResult)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"the result is not one: {error}", path=name) from None


def check_result(found: RunResult, study: Study, name: str) -> None:
    """Raise `ParseError` if a result does not have the form of a result of this study."""
    low, high, _, _ = found.unit_values
    n, n_episodes = len(found.times), len(found.episodes.start)
    by_time = (*(getattr(found, column) for column in _COLUMNS), found.posterior, found.log_e_value)
    by_episode = (getattr(found.episodes, column) for column in EpisodeColumns.__struct_fields__)
    truth = found.truth
    for wrong, why in (
        (not 0.0 < high - low < math.inf, "units"),
        (found.times != log_spaced(study.horizon, study.per_decade).tolist(), "times"),
        (any(column is not None and len(column) != n for column in by_time), "columns by time"),
        (any(column is not None and len(column) != n_episodes for column in by_episode), "episodes"),
        (found.promised is not None and len(found.promised) != n, "promised"),
        ((found.log_e_value is None) != (found.fit is None), "the test of the model and its e-values"),
        (min(found.log_e_value or [0.0]) < 0.0, "the e-values"),
        (any(not 0.0 < level <= 1.0 for level, _ in found.fit.alarms) if found.fit else False, "alarms"),
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


class _Format(msgspec.Struct):
    format: int = 1
    version: str = ""


_COLUMNS = ("cost", "expected_cost", "belief_gap", "kernel_gap", "cost_gap", "control")
_COMPARED = ("belief_gap", "kernel_gap", "cost_gap", "promised")  # with the kernel that a learner plays
_LATEST = 1 << 53
_LARGEST = 1e30  # of sums of scaled costs: products and squares are finite
