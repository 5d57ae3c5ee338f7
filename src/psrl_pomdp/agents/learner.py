"""What `PSRLAgent` and `Fleet` have in common: a posterior, and episodes with a clock and a plan."""

from __future__ import annotations

from typing import Any, Protocol

from ..models import Setting
from ..protocols import Planner, Prior, Solution
from .compiled_steps import EpisodeClock
from .current_episode import CurrentEpisode
from .episode_records import EpisodeRecord
from .planning_budget import PlanningBudget


class Learner(Protocol):
    """An object that learns in the episodes of Algorithm 1."""

    prior: Prior
    posterior: Any  # f_t
    budget: PlanningBudget
    planner: Planner
    episode_clock: EpisodeClock
    current_episode: CurrentEpisode
    episodes: list[EpisodeRecord]
    plans: dict[int, Solution]  # for a finite set of kernels, by the number of the kernel
    last_plan: Solution | None
    warned_of_coarse_plan: bool

    @property
    def setting(self) -> Setting:
        """What is known: the POMDP without its transition kernel."""

    @property
    def time(self) -> int:
        """T."""
