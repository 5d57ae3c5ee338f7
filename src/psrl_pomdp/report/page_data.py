"""The content of the report page of a study as plain data, computed from its results.

A study may be incomplete: runs that failed, are damaged or have not started are listed, and everything else
is computed from the other runs. Costs are in the user's units unless a comment says "scaled".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np

from ..agents.episode_records import REASONS
from ..analysis.bounds import finite_bound_at
from ..analysis.decomposition import Decomposition
from ..analysis.estimators import RegretCurve
from ..analysis.growth import fit_growth
from ..analysis.unknown_parts import unknown_parts
from ..errors import InvalidModelError, PSRLError
from ..inference.choosing import FINITE, default_kind
from ..models import POMDP, Units
from ..planning import plan
from ..studies.agent_kinds import kind_of
from ..studies.comparison import compare, information_of
from ..studies.results import RunResult, jobs_of
from ..studies.store import Store
from ..studies.study import AgentSpec, Study
from ..studies.study_results import StudyResults
from ..studies.summary import curves, decomposition, violations
from .page_records import (
    TRUTH,
    AgentFacts,
    Bound,
    Episode,
    EpisodeCounts,
    Measure,
    PosteriorCurve,
    Truth,
)

ProgressCallback = Callable[[str], None]  # called with the name of the part that is computed next

_MAX_EPISODES = 1500  # episodes per agent in a figure
# The policy is drawn from the stored plan of the true model. If its controller is too large for a figure, a
# new plan replaces it; its larger gap is invisible in the figure.
_FIGURE_TOLERANCE = 1e-4
_FIGURE_WORK = 2e8
_FIGURE_NODES = 100
_MIN_CHECKPOINTS = 13  # for the analysis of growth


def no_progress(part: str) -> None:
    """Progress callback that does nothing."""


class PageData:
    """The content of the page and of the figures of a study; each part is computed on first access.

    Parameters
    ----------
    source
        The results of the study, or its open folder.
    say
        Called with the name of each part before it is computed.

    Attributes
    ----------
    results
        The results.
    notes
        The parts that are missing from the page, with the reasons; complete after all parts are computed.
    no_bound
        The reason why there is no bound; empty if there is one.

    Raises
    ------
    StudyError
        If the study has no finished run.
    """

    def __init__(self, source: Store | StudyResults, say: ProgressCallback = no_progress) -> None:
        self.results, self.say = StudyResults.of(source, skip_damaged=True), say
        self.results.require_some()
        self.notes: list[str] = []
        self.no_bound = ""

    @property
    def study(self) -> Study:
        """The study."""
        return self.results.study

    @property
    def units(self) -> Units:
        """The user's units of cost or reward."""
        return self.results.units

    @property
    def expected(self) -> int:
        """The number of runs in the study, finished or not."""
        return len(jobs_of(self.study))

    @cached_property
    def name(self) -> str:
        """The problem's name, without the folders of a model file."""
        return self.study.problem.replace("\\", "/").rpartition("/")[2]

    @cached_property
    def model(self) -> POMDP | None:
        """The problem; None if its file cannot be read."""
        try:
            return self.results.experiment.problem
        except (PSRLError, OSError) as error:
            self.notes.append(f"The model cannot be read, so the page has no policy and no replay: {error}")
            return None

    @cached_property
    def curves(self) -> dict[str, RegretCurve]:
        """The regret of each agent over time."""
        return curves(self.results)

    @cached_property
    def comparison(self) -> dict[str, Any]:
        """The comparison of all pairs of agents."""
        return compare(self.results)

    @cached_property
    def violations(self) -> list[str]:
        """The inequalities of the paper's lemmas that some run violates."""
        return violations(self.results)

    @cached_property
    def agents(self) -> list[AgentFacts]:
        """The agents that have a result, in the order of the study."""
        self.say("the growth of regret")
        return [
            self._facts(place, spec, self.curves[spec.label])
            for place, spec in enumerate(self.study.agents)
            if spec.label in self.curves
        ]

    def _facts(self, place: int, spec: AgentSpec, curve: RegretCurve) -> AgentFacts:
        low, high = curve.interval
        several = curve.n_runs > 1
        return AgentFacts(
            label=spec.label,
            kind=spec.kind,
            about=kind_of(spec.kind).about,
            information=information_of(spec, self.model),
            prior=self._prior(spec),
            schedule=spec.schedule,
            place=place,
            runs=curve.n_runs,
            regret=float(curve.middle[-1]),
            interval=(float(low[-1]), float(high[-1])) if several else None,
            growth=fit_growth(curve) if several and len(curve.times) >= _MIN_CHECKPOINTS else None,
        )

    def _prior(self, spec: AgentSpec) -> str:
        if spec.kind == "oracle":
            return TRUTH
        if not kind_of(spec.kind).uses_prior:
            return ""
        if self.model is None:
            return default_kind(None, spec.prior_kind or kind_of(spec.kind).default_prior)
        return self.results.experiment.kind_of_prior(spec)

    # -- posterior ----------------------------------------------------------------------------------

    @cached_property
    def posterior_curves(self) -> dict[Measure, dict[str, PosteriorCurve]]:
        """The concentration of the posterior, by measure and by agent, for agents that have a prior.

        The measure is f(θ*) for a finite prior ("weight"), and E‖θ − θ*‖₁ per row for others ("distance").
        """
        found: dict[Measure, dict[str, PosteriorCurve]] = {}
        for agent in self.agents:
            own = self.results.by_agent[agent.label]
            runs = np.array([result.posterior for result in own if result.posterior is not None])
            if len(runs) and agent.prior not in ("", TRUTH):
                times = np.array(own[0].times)
                measure: Measure = "weight" if agent.prior == FINITE else "distance"
                found.setdefault(measure, {})[agent.label] = PosteriorCurve(
                    times, runs.mean(axis=0), runs.min(axis=0), runs.max(axis=0), len(runs)
                )
        return found

    # -- episodes -----------------------------------------------------------------------------------

    @cached_property
    def episodes(self) -> dict[str, list[Episode]]:
        """The episodes of the first runs of each agent, at most `_MAX_EPISODES` per agent."""
        found = {}
        for agent in self.agents:
            rows = chain.from_iterable(map(self._episodes, self.results.by_agent[agent.label]))
            first = list(islice(rows, _MAX_EPISODES))
            if first:
                found[agent.label] = first
        return found

    @property
    def shortened(self) -> bool:
        """True if some agent has more episodes than `episodes` contains."""
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
        """The counts of episodes of each agent over all runs."""
        return [_episode_counts(label, self.results.by_agent[label]) for label in self.episodes]

    @cached_property
    def average(self) -> tuple[float, float]:
        """Bounds on J(θ*); if the runs have different true models, bounds over all of them."""
        ends = [self.units.from_scaled([r.truth.lower, r.truth.upper]) for r in self.results.runs]
        return float(np.min(ends)), float(np.max(ends))

    # -- theory -------------------------------------------------------------------------------------

    @cached_property
    def decompositions(self) -> dict[str, Decomposition]:
        """The decomposition of the regret of each agent that runs Algorithm 1."""
        found = {}
        for agent in self.agents:
            own = self.results.by_agent[agent.label]
            spans = [span for result in own for span in result.episodes.span or ()]
            if agent.kind != "psrl" or not spans:
                continue
            unknown = self._unknown_parts(agent.label)
            if unknown:
                self.notes.append(
                    f"{agent.label} has no decomposition: the lemma is about a known observation model and "
                    f"known costs, and the agent learns the {' and the '.join(unknown)}"
                )
                continue
            if all(span is None for span in spans):
                self.notes.append(
                    f"{agent.label} has no decomposition: the optimal average of its sampled models depends "
                    "on the initial belief"
                )
                continue
            found[agent.label] = decomposition(self.results, agent.label)
        return found

    def _unknown_parts(self, agent: str) -> tuple[str, ...]:
        """Return what an agent learns beside the kernel."""
        if self.model is None:
            return ()
        spec = next(spec for spec in self.study.agents if spec.label == agent)
        return unknown_parts(self.results.experiment.prior(spec))

    @cached_property
    def bound(self) -> Bound | None:
        """The bound of Theorem 1; None if the theorem does not apply or gives no finite bound."""
        labels = tuple(
            agent.label
            for agent in self.agents
            if agent.kind == "psrl"
            and agent.prior == FINITE
            and agent.schedule in ("", "doubling")
            and "cells" not in agent.information  # the theorem is about what the agent observes
        )
        if not labels or self.model is None:
            return None
        self.say("the bound of Theorem 1")
        first = next(spec for spec in self.study.agents if spec.label == labels[0])
        try:
            prior = self.results.experiment.prior(first)
            constants, scaled = finite_bound_at(prior, self.curves[labels[0]].times)
        except InvalidModelError as error:
            self.no_bound = f"The paper’s Theorem 1 gives no bound here: {error}"
            return None
        return Bound(labels, constants, self.units.difference(scaled))

    @cached_property
    def truth(self) -> Truth | None:
        """The true model of the first finished run with a plan; None if the model cannot be read."""
        if self.model is None:
            return None
        self.say("the optimal policy for the true model")
        run = self.results.runs[0].run
        world = self.results.experiment.model(run)
        best = self.results.plan_of_truth
        if best is None or len(best.controller) > _FIGURE_NODES:
            tolerance = max(_FIGURE_TOLERANCE, self.study.tolerance)
            best = plan(world, tolerance, max_work=min(_FIGURE_WORK, self.study.max_work))
        return Truth(run, world, best)

    @cached_property
    def replayed(self) -> RunResult:
        """The run of the replay: the first run of a PSRL agent if there is one, else of any agent."""
        kinds = {spec.label: spec.kind for spec in self.study.agents}
        return min(self.results.runs, key=lambda result: (kinds[result.agent] != "psrl", result.run))


def _episode_counts(agent: str, runs: list[RunResult]) -> EpisodeCounts:
    rows = [row for result in runs for row in result.episodes.rows()]
    shortfalls = []
    for row in rows:
        lower, upper, tolerance = _numbers(row.lower, row.upper, row.tolerance)
        shortfalls.append(max(0.0, upper - lower - tolerance))
    reasons = Counter(row.ended for row in rows)
    return EpisodeCounts(
        agent=agent,
        runs=len(runs),
        episodes=len(rows),
        reasons={reason: reasons[reason] for reason in REASONS if reasons[reason]},
        statuses=dict(Counter(row.status for row in rows).most_common()),
        work=float(sum(row.work or 0.0 for row in rows)),
        within=sum(value <= 1e-12 for value in shortfalls),
        worst=max(shortfalls),
    )


def _numbers(*values: float | None) -> list[float]:
    """Return the values with NaN in place of None."""
    return [np.nan if value is None else value for value in values]
