"""The records of the report page: agents, posterior curves, episodes, the bound and the true model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from .._utils.arrays import Array, Index
from ..analysis.bounds import FiniteBound
from ..analysis.growth import Growth
from ..inference.choosing import DIRICHLET, FINITE
from ..models import POMDP
from ..planning import Plan

Measure = Literal["weight", "distance"]

TRUTH = "truth"  # in place of the kind of a prior, for agents that know the true kernel
_PRIORS = {
    FINITE: "a finite set of kernels",
    DIRICHLET: "all kernels (Dirichlet rows)",
    TRUTH: "the true kernel",
    "": "–",
}


@dataclass(frozen=True)
class AgentFacts:
    """A description of one agent, and its regret at the horizon.

    Attributes
    ----------
    label, kind, about
        The name of the agent in the study, its kind, and a description of the kind.
    information
        The prior information that its kind has.
    prior
        The kind of its prior; "truth" if it knows the true kernel, empty if it has no prior.
    schedule
        The schedule that the study names; empty for the default.
    place
        The position in the study, which determines the color.
    runs
        The number of runs.
    regret, interval
        The mean regret at the horizon and its 95 % interval, which is None for a single run.
    growth
        The fit of the growth of regret; None if there are too few data.
    """

    label: str
    kind: str
    about: str
    information: str
    prior: str
    schedule: str
    place: int
    runs: int
    regret: float
    interval: tuple[float, float] | None
    growth: Growth | None

    @property
    def knows_the_truth(self) -> bool:
        """True if the agent knows the true kernel."""
        return self.information.startswith("everything")  # also in cells of a density

    @property
    def prior_text(self) -> str:
        """A description of the prior; for a prior of the user, the name of its class."""
        return _PRIORS.get(self.prior, self.prior)

    @property
    def schedule_text(self) -> str:
        """The schedule of the study, or the default schedule for the prior."""
        default = "doubling" if self.prior in (FINITE, TRUTH) else "tsde"
        return self.schedule or (default if self.prior else "–")


@dataclass(frozen=True)
class PosteriorCurve:
    """The posterior weight of the truth, or the distance to it, at `times[K]`: mean and range of the runs."""

    times: Index  # [K]
    mean: Array  # [K]
    low: Array  # [K]
    high: Array  # [K]
    runs: int


class Episode(NamedTuple):
    """A row of the table of episodes; `lower` and `upper` bound J(θ_k) in the user's units."""

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
        """The part of the gap above the tolerance, scaled."""
        return max(0.0, self.gap - self.tolerance)


@dataclass(frozen=True)
class EpisodeCounts:
    """Counts over all episodes of all runs of one agent."""

    agent: str
    runs: int
    episodes: int
    reasons: dict[str, int]
    statuses: dict[str, int]
    work: float
    within: int  # episodes whose plan reached the tolerance ε_k
    worst: float  # the largest shortfall, scaled


@dataclass(frozen=True)
class Bound:
    """The bound of Theorem 1 for agents with a finite prior and the doubling schedule."""

    agents: tuple[str, ...]
    constants: FiniteBound
    values: Array  # [K], in the user's units


@dataclass(frozen=True)
class Truth:
    """The true model of one run, and a plan for it that is small enough for a figure."""

    run: int
    world: POMDP
    plan: Plan
