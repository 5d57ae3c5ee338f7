"""The units of a fleet, and the logs of units that a fleet or an agent learns from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.arrays import Array
from ..errors import InvalidModelError, OutOfOrderError, PSRLError
from ..inference.encoding import action_numbers, reading_numbers
from ..inference.sampled_filter import SampledFilter
from ..models import Setting
from .current_episode import CurrentEpisode


@dataclass(frozen=True)
class Log:
    """The history of one unit, for `learn`.

    Parameters
    ----------
    observations
        `observations[i]` came before `actions[i]`. None (or NaN) is missing. There may be one more than there
        are actions: the observation after the last action.
    actions
        The actions, by number or by name.
    costs
        `costs[i]` is the cost of `actions[i]` that was seen, or None.
    name
        The name of the unit, for error messages.
    """

    observations: Sequence[Any]
    actions: Sequence[Any]
    costs: Sequence[float | None] | None = None
    name: str | None = None


@dataclass
class FleetUnit:
    """One unit of a fleet: its history in the posterior, its belief under θ_k, and its last action."""

    name: str
    posterior: Any  # of θ, with the history and the beliefs of this unit
    action: int | None = None  # the last one; None before the first
    episode: CurrentEpisode | None = None  # θ_k, h_t(·; θ_k) and π_k, with the node of this unit
    upcoming: SampledFilter | None = None  # the belief under the kernel that is being planned for
    present: bool = True  # whether the unit has not left
    chosen: int | None = None  # what the plan chose last; `action` differs if it was overridden
    late: bool = False  # whether the last action was chosen while a plan was due
    observed: str = ""  # the last observation in words, for `Fleet.explain`

    @property
    def time(self) -> int:
        """The number of observations processed so far, with the first one."""
        return int(self.posterior.time)

    @property
    def belief(self) -> Array:
        """The posterior mean of the belief, Σ_n w_n h_t(·; θ_n), shape [S]."""
        return np.asarray(self.posterior.weights @ self.posterior.beliefs)

    @property
    def sampled_belief(self) -> Array:
        """The belief h_t(·; θ_k) on which the action was chosen, shape [S]."""
        if self.episode is None:
            raise OutOfOrderError(f"unit {self.name!r} has had no observation")
        return self.episode.belief

    @property
    def expected_counts(self) -> Array:
        """The expected counts ñ_t of this unit, shape [A, S]."""
        return np.asarray(self.posterior.expected_counts)


def log_place(number: int, log: Log) -> str:
    """Return how error messages call a log."""
    return f"log {number}" if log.name is None else f"log {number} ({log.name})"


def condition_on_log(posterior: Any, setting: Setting, log: Log, place: str) -> None:
    """Condition the posterior of a new unit on its log; an error names the log by `place`.

    The actions after the last observation of a log are not used.
    """
    n_actions, n_observations = len(log.actions), len(log.observations)
    if not n_actions or n_observations not in (n_actions, n_actions + 1):
        raise InvalidModelError(
            f"{place} has {n_observations} observations and {n_actions} actions: there must be an "
            "observation before each action, and there may be one after the last"
        )
    used = n_observations - 1  # actions with an observation after them
    if log.costs is not None and len(log.costs) not in (n_actions, used):
        raise InvalidModelError(f"{place} has {n_actions} actions and {len(log.costs)} costs")
    try:
        taken = action_numbers(setting, log.actions)[:used]
        if setting.is_finite and log.costs is None:
            observed = reading_numbers(setting, log.observations)
            missing = observed == setting.n_observations
            posterior.start(None if missing[0] else int(observed[0]))
            posterior.update_many(taken, np.where(missing, -1, observed)[1:])
        else:
            posterior.start(log.observations[0])
            paid = [] if log.costs is None else [list(log.costs)[:used]]
            posterior.update_many(taken, list(log.observations)[1:], *paid)
    except PSRLError as error:
        raise type(error)(f"{place}: {error}") from None
