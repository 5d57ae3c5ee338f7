"""What the page of a study shows, as plain data: made from its results, and nothing drawn.

A folder may be incomplete: runs that failed, are damaged or were never begun are named, and all else is about
the others. Costs are in the user's own numbers, unless a name says `scaled`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any, Literal, NamedTuple

import numpy as np

from .._utils.arrays import Array, Index
from ..agents.episode_records import REASONS
from ..analysis.bounds import FiniteBound, finite_bound_at
from ..analysis.decomposition import Decomposition
from ..analysis.estimators import RegretCurve
from ..analysis.growth import Growth, fit_growth
from ..errors import InvalidModelError, PSRLError
from ..inference.choosing import DIRICHLET, FINITE, default_kind
from ..models import POMDP, Units
from ..planning import Plan, plan
from ..studies.agent_kinds import kind_of
from ..studies.comparison import compare, information_of
from ..studies.results import RunResult, jobs_of
from ..studies.store import Store
from ..studies.study import AgentSpec, Study
from ..studies.study_results import StudyResults
from ..studies.summary import curves, decomposition, violations

Measure = Literal["weight", "distance"]
Say = Callable[[str], None]  # told what is being worked at

_POINTS = 1500  # episodes of an agent that a figure shows
_PICTURE = 1e-4  # a gap that no picture of a policy can show
_PICTURE_WORK = 2e8
_PICTURE_NODES = 100  # a larger controller is planned anew, less closely
_FEWEST_TIMES = 13  # checkpoints before growth is asked for


_TRUTH = "truth"  # in place of the kind of a prior, for agents that know it
_PRIORS = {
    FINITE: "one of a few known dynamics",
    DIRICHLET: "any dynamics (Dirichlet rows)",
    _TRUTH: "the truth",
    "": "–",
}


def silent(what: str) -> None:
    """Nobody to tell."""


# -- what is said of agents -------------------------------------------------------------------------


@dataclass(frozen=True)
class AgentFacts:
    """One agent in words, and its regret at the horizon."""

    label: str
    kind: str
    about: str
    told: str
    prior: str  # its kind, "truth", or nothing
    schedule: str
    place: int  # in the study: its colour
    runs: int
    regret: float
    interval: tuple[float, float] | None  # 95 %; None for a single run
    growth: Growth | None

    @property
    def knows_the_truth(self) -> bool:
        return self.told == "everything"

    @property
    def believes(self) -> str:
        """The prior in words; one of the user's own goes by the name of its class."""
        return _PRIORS.get(self.prior, self.prior)

    @property
    def episodes_by(self) -> str:
        """The schedule: the study's, or the default for the prior."""
        default = "doubling" if self.prior in (FINITE, _TRUTH) else "tsde"
        return self.schedule or (default if self.prior else "–")


@dataclass(frozen=True)
class Concentration:
    """How near the posterior is to the truth at `times[K]`: the mean of the runs, and their range."""

    times: Index
    mean: Array
    low: Array
    high: Array
    runs: int


class Episode(NamedTuple):
    """A row of the table of episodes, with J(θ_k) in the user's numbers and low before high."""

    agent: str
    run: int
    number: int
    start: int
    length: int
    ended: str
    kernel: int | None
    lower: float
    upper: float
    tolerance: float  # ε_k, scaled
    gap: float  # scaled
    status: str
    work: float

    @property
    def shortfall(self) -> float:
        return max(0.0, self.gap - self.tolerance)


@dataclass(frozen=True)
class EpisodeCounts:
    """All episodes of an agent, counted over all of its runs."""

    agent: str
    runs: int
    episodes: int
    reasons: dict[str, int]
    statuses: dict[str, int]
    work: float
    within: int  # planned to ε_k
    worst: float  # the largest shortfall, scaled


@dataclass(frozen=True)
class Bound:
    """Theorem 1 for agents with a finite prior and the doubling schedule."""

    agents: tuple[str, ...]
    constants: FiniteBound
    values: Array  # [K], in the user's scale


@dataclass(frozen=True)
class Truth:
    """The world of one run with its best plan, made anew for pictures."""

    run: int
    world: POMDP
    plan: Plan


# -- the study --------------------------------------------------------------------------------------


class PageData:
    """Everything that a page or a figure says of a study; each part is computed when it is asked for."""

    def __init__(self, source: Store | StudyResults, say: Say = silent) -> None:
        self.results, self.say = StudyResults.of(source, skip_damaged=True), say
        self.results.require_some()
        self.notes: list[str] = []  # what is missing from the page, and why
        self.no_bound = ""  # why the theory says nothing of the regret

    @property
    def study(self) -> Study:
        return self.results.study

    @property
    def units(self) -> Units:
        return self.results.units

    @property
    def expected(self) -> int:
        return len(jobs_of(self.study))

    @cached_property
    def name(self) -> str:
        """The problem's name, without the folders of a model file."""
        return self.study.problem.replace("\\", "/").rpartition("/")[2]

    @cached_property
    def model(self) -> POMDP | None:
        """The problem; None where its file is gone."""
        try:
            return self.results.experiment.problem
        except (PSRLError, OSError) as error:
            self.notes.append(
                f"The model cannot be read, so that its policy and a replay are missing: {error}"
            )
            return None

    @cached_property
    def curves(self) -> dict[str, RegretCurve]:
        return curves(self.results)

    @cached_property
    def comparison(self) -> dict[str, Any]:
        return compare(self.results)

    @cached_property
    def violations(self) -> list[str]:
        return violations(self.results)

    @cached_property
    def agents(self) -> list[AgentFacts]:
        """Those with a result, in the order of the study."""
        self.say("how regret grows")
        return [
            self._facts(place, spec, self.curves[spec.label])
            for place, spec in enumerate(self.study.agents)
            if spec.label in self.curves
        ]

    def _facts(self, place: int, spec: AgentSpec, curve: RegretCurve) -> AgentFacts:
        low, high = curve.interval
        several = curve.n_runs > 1
        learner = kind_of(spec.kind)
        return AgentFacts(
            label=spec.label,
            kind=spec.kind,
            about=learner.about,
            told=information_of(spec, self.model),
            prior=self._prior(spec),
            schedule=spec.schedule,
            place=place,
            runs=curve.n_runs,
            regret=float(curve.middle[-1]),
            interval=(float(low[-1]), float(high[-1])) if several else None,
            growth=fit_growth(curve) if several and len(curve.times) >= _FEWEST_TIMES else None,
        )

    def _prior(self, spec: AgentSpec) -> str:
        if spec.kind == "oracle":
            return _TRUTH
        if not kind_of(spec.kind).uses_prior:
            return ""
        if self.model is None:
            return default_kind(None, spec.prior_kind)
        return self.results.experiment.kind_of_prior(spec)

    # -- posterior ----------------------------------------------------------------------------------

    @cached_property
    def concentrations(self) -> dict[Measure, dict[str, Concentration]]:
        """By measure, then by agent: f(θ*) of a finite set, or E‖θ − θ*‖₁ a row. Not for who knows θ*."""
        found: dict[Measure, dict[str, Concentration]] = {}
        for agent in self.agents:
            own = self.results.by_agent[agent.label]
            runs = np.array([result.posterior for result in own if result.posterior is not None])
            if len(runs) and agent.prior not in ("", _TRUTH):
                times = np.array(own[0].times)
                measure: Measure = "weight" if agent.prior == FINITE else "distance"
                found.setdefault(measure, {})[agent.label] = Concentration(
                    times, runs.mean(axis=0), runs.min(axis=0), runs.max(axis=0), len(runs)
                )
        return found

    # -- episodes -----------------------------------------------------------------------------------

    @cached_property
    def episodes(self) -> dict[str, list[Episode]]:
        """By agent: the episodes of its first runs, as many as a figure can show."""
        found = {}
        for agent in self.agents:
            rows = chain.from_iterable(map(self._episodes, self.results.by_agent[agent.label]))
            some = list(islice(rows, _POINTS))
            if some:
                found[agent.label] = some
        return found

    @property
    def shortened(self) -> bool:
        """Whether there are more than that."""
        return any(len(self.episodes[count.agent]) < count.episodes for count in self.counts)

    def _episodes(self, result: RunResult) -> Iterator[Episode]:
        for row in result.episodes.rows():
            lower, upper, tolerance, work = _numbers(row.lower, row.upper, row.tolerance, row.work)
            low, high = sorted(self.units.from_scaled([lower, upper]).tolist())
            yield Episode(
                result.agent, result.run, row.number, row.start, row.length, row.ended, row.kernel,
                low, high, tolerance, upper - lower, row.status, work,
            )  # fmt: skip

    @cached_property
    def counts(self) -> list[EpisodeCounts]:
        """Over all runs."""
        return [_counted(label, self.results.by_agent[label]) for label in self.episodes]

    @cached_property
    def average(self) -> tuple[float, float]:
        """J of the truth between two bounds; over all worlds, where every run has its own."""
        ends = [self.units.from_scaled([r.truth.lower, r.truth.upper]) for r in self.results.runs]
        return float(np.min(ends)), float(np.max(ends))

    # -- theory -------------------------------------------------------------------------------------

    @cached_property
    def decompositions(self) -> dict[str, Decomposition]:
        """Of those who sample kernels as the paper does."""
        found = {}
        for agent in self.agents:
            own = self.results.by_agent[agent.label]
            spans = [span for result in own for span in result.episodes.span or ()]
            if agent.kind != "psrl" or not spans:
                continue
            if all(span is None for span in spans):
                self.notes.append(
                    f"{agent.label} has no decomposition: what its plans promise depends on the start"
                )
                continue
            found[agent.label] = decomposition(self.results, agent.label)
        return found

    @cached_property
    def bound(self) -> Bound | None:
        """Theorem 1's bound, where it has something to say."""
        fits = tuple(
            agent.label
            for agent in self.agents
            if agent.kind == "psrl" and agent.prior == FINITE and agent.schedule in ("", "doubling")
        )
        if not fits or self.model is None:
            return None
        self.say("the theory's bound")
        first = next(spec for spec in self.study.agents if spec.label == fits[0])
        try:
            prior = self.results.experiment.prior(first)
            constants, scaled = finite_bound_at(prior, self.curves[fits[0]].times)
        except InvalidModelError as error:
            self.no_bound = f"The paper’s Theorem 1 gives no bound here: {error}"
            return None
        return Bound(fits, constants, self.units.difference(scaled))

    @cached_property
    def truth(self) -> Truth | None:
        """The world of the first finished run, planned for well enough to be looked at."""
        if self.model is None:
            return None
        self.say("the best policy for the true model")
        run = self.results.runs[0].run
        world = self.results.experiment.model(run)
        best = self.results.plan_of_truth
        if best is None or len(best.controller) > _PICTURE_NODES:
            tolerance = max(_PICTURE, self.study.tolerance)
            best = plan(world, tolerance, max_work=min(_PICTURE_WORK, self.study.max_work))
        return Truth(run, world, best)

    @cached_property
    def replayed(self) -> RunResult:
        """The run that is played again: the first of whoever samples kernels, else of the first agent."""
        kinds = {spec.label: spec.kind for spec in self.study.agents}
        return min(self.results.runs, key=lambda result: (kinds[result.agent] != "psrl", result.run))


def _counted(agent: str, runs: list[RunResult]) -> EpisodeCounts:
    rows = [row for result in runs for row in result.episodes.rows()]
    short = []
    for row in rows:
        lower, upper, tolerance = _numbers(row.lower, row.upper, row.tolerance)
        short.append(max(0.0, upper - lower - tolerance))
    reasons = Counter(row.ended for row in rows)
    return EpisodeCounts(
        agent=agent,
        runs=len(runs),
        episodes=len(rows),
        reasons={reason: reasons[reason] for reason in REASONS if reasons[reason]},
        statuses=dict(Counter(row.status for row in rows).most_common()),
        work=float(sum(row.work or 0.0 for row in rows)),
        within=sum(value <= 1e-12 for value in short),
        worst=max(short),
    )


def _numbers(*values: float | None) -> list[float]:
    """Numbers, with NaN for what is not known."""
    return [np.nan if value is None else value for value in values]
