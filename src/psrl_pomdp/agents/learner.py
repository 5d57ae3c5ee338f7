"""What `PSRLAgent` and `Fleet` have in common: a posterior, and episodes with a clock and a plan."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from .._serialization.atomic_files import write_atomically
from .._utils.atomic_calls import AtomicCalls
from ..errors import InvalidModelError
from ..inference.encoding import check_protocol
from ..inference.step_codes import step_codes_of
from ..models import Setting
from ..planning import plan
from ..planning.solve import compile_if_long
from ..protocols import FiniteSupport, Planner, Prior, Solution
from . import agent_state
from .current_episode import before_first_episode, new_clock
from .episode_records import EpisodeRecord
from .planning_budget import PlanningBudget
from .schedules import DoublingSchedule, Schedule, TSDESchedule


class Learner(AtomicCalls):
    """Base class of what learns in the episodes of Algorithm 1.

    A subclass defines `to_bytes` and `time`.

    Parameters
    ----------
    prior
        The prior over transition kernels.
    schedule
        When episodes end; by default `DoublingSchedule` for finitely many kernels, else `TSDESchedule`.
    seed
        The seed of all random numbers that are drawn.
    budget
        Tolerance and work limits of the planner.
    planner
        The function that plans for the sampled kernel.

    Raises
    ------
    InvalidModelError
        If an argument is none of these.
    """

    def __init__(
        self,
        prior: Prior,
        schedule: Schedule | None,
        seed: int | Sequence[int],
        budget: PlanningBudget | None,
        planner: Planner,
    ) -> None:
        check_protocol(prior)
        for name, given, kind in (("schedule", schedule, Schedule), ("budget", budget, PlanningBudget)):
            if given is not None and not isinstance(given, kind):
                raise InvalidModelError(f"{name} is {given!r}, not {kind.__name__}")
        super().__init__()
        self.prior = prior
        self.schedule = schedule or (
            DoublingSchedule() if isinstance(prior, FiniteSupport) else TSDESchedule()
        )
        self.budget = budget or PlanningBudget()
        self.planner = planner
        if planner is plan and self.budget.time_limit is not None:
            compile_if_long(prior.setting, wait=True)  # so that no call of `act` has to wait for the compiler
        self.rng, self.posterior_rng = agent_state.random_streams(seed, agent_state.FROM_SEED)
        self.posterior: Any = prior.posterior(self.posterior_rng)  # f_t
        self.step_codes = step_codes_of(prior)  # how actions and observations become numbers
        self.episode_clock = new_clock(prior.setting, self.schedule)  # t, m̃_t and the end of the episode
        self.current_episode = before_first_episode(prior.setting, self.step_codes)  # θ_k and π_k
        self.episodes: list[EpisodeRecord] = []  # the episodes that have ended
        self.plans: dict[int, Solution] = {}  # for a finite set of kernels, by the number of the kernel
        self.last_plan: Solution | None = None
        self.warned_of_coarse_plan = False

    @property
    def setting(self) -> Setting:
        """What is known: the POMDP without its transition kernel."""
        return self.prior.setting

    @property
    def time(self) -> int:
        """T."""
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        """Return the bytes that `save` writes."""
        raise NotImplementedError

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a `.npz` file without pickles. An interrupt leaves no partial file."""
        if Path(path).suffix.lower() != ".npz":
            raise InvalidModelError(f"{Path(path).name!r} does not end in .npz")
        write_atomically(Path(path), self.to_bytes())
