"""The fields of a plan, which `solution.Plan` and its form in a file have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..models import Units
from .lower.certificate import LowerCertificate
from .lower.informed import InformedCertificate
from .rounds import Round
from .sensor_bracket import SensorBracket, SensorEstimate
from .upper.evaluation import Controller

Status = Literal[
    "closed",
    "coarse",
    "time limit",
    "work limit",
    "memory limit",
    "interrupted",
    "stalled",
    "sensor limit",  # the finite sensors around a density are as fine as they can be
    "estimated",  # the probabilities of observations are estimated: the interval is not certified
]


@dataclass(frozen=True)
class PlanRecord:
    """The bounds with their certificates, and what the model's numbers stand for."""

    status: Status
    lower_cost: float
    upper_cost: float
    controller: Controller
    grid: LowerCertificate | InformedCertificate
    rounds: tuple[Round, ...]
    states: tuple[int, ...]  # those that the start can reach: the columns of vectors and points
    n_states: int  # of the model, states that the start cannot reach included
    units: Units
    actions: tuple[str, ...]
    fingerprint: str  # of the model that was planned for
    blind_cost: float = 1.0  # upper bound on the scaled cost of the best constant action
    bracket: SensorBracket | None = None  # the finite sensors that the certificates are about, for densities
    estimate: SensorEstimate | None = None  # the classes with estimated probabilities, if there is no bracket
    discount: float = 1.0  # weight of a step on the one before it; 1 for the long-run average
