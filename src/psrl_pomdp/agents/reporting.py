"""What an agent reports: the record of its current episode, `Info`, and the distance to a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._utils.arrays import Array
from ..errors import OutOfOrderError
from ..models import Setting
from ..protocols import GivesProbabilities, Posterior, ReportsTables, Summarizable
from . import compiled_steps as steps
from .current_episode import CurrentEpisode
from .episode_planning import scaled_bounds
from .episode_records import REASONS, EpisodeRecord, Info

if TYPE_CHECKING:
    from .learner import Learner
    from .psrl import PSRLAgent


def record_of(agent: Learner) -> EpisodeRecord:
    """Return the record of the current episode, as long as it is now."""
    now, reason = agent.current_episode, int(agent.episode_clock.clock[steps.END_REASON])
    return EpisodeRecord(
        now.number,
        now.start,
        agent.time - now.start + int(reason == steps.GOES_ON),
        REASONS[reason],
        now.index,
        *scaled_bounds(now.plan, agent.setting),
        now.tolerance,
        now.plan.status,
        now.work,
        now.span,
    )


def info_of(agent: PSRLAgent) -> Info:
    """Return the state of an agent at the action that it chose last."""
    if agent.action is None or not agent.current_episode.number:
        raise OutOfOrderError("info: no action was chosen so far")
    return info_at(agent, agent.current_episode, agent.action, agent.posterior.expected_counts)


def info_at(agent: Learner, now: CurrentEpisode, action: int, expected_counts: Array) -> Info:
    """Return the state of an agent when it chose `action` in the episode `now`, for one of its units."""
    clock, posterior = agent.episode_clock.clock, agent.posterior
    belief, own = now.belief, now.setting or agent.setting
    tables = posterior if isinstance(posterior, ReportsTables) else None
    return Info(
        time=int(clock[steps.T]),
        episode=now.number,
        episode_start=now.start,
        previous_length=now.previous_length,
        last_step=int(clock[steps.LAST_T]),
        last_ended=agent.episodes[-1].ended if agent.episodes else None,
        kernel=now.kernel.copy(),
        kernel_number=now.index,
        belief=belief,
        plan=now.plan,
        tolerance=now.tolerance,
        pseudo_counts=agent.episode_clock.pseudo.copy(),
        expected_counts=expected_counts,
        effective_size=posterior.effective_size if isinstance(posterior, Summarizable) else np.nan,
        action=action,
        costs=np.asarray(own.units.from_scaled(own.cost @ belief)),
        advantages=advantages_at(now, own),
        sensor=None if tables is None else tables.learned_sensor(),
        cost_table=None if tables is None else tables.learned_costs(),
    )


def advantages_at(now: CurrentEpisode, setting: Setting) -> Array:
    """Return c(b, a) + E[v(b′)] minus its value at the chosen action, shape [A]; v is that of the plan."""
    if not now.is_compiled or now.policy.node[0] >= 0:
        return np.full(setting.n_actions, np.nan)
    chosen = int(steps.best_action(now.policy, now.sampled_filter))
    values = now.policy.action_values
    excess = np.maximum(values - values[chosen], 0.0)  # `best_action` ignores differences by rounding errors
    return np.asarray(setting.units.difference(excess))


def closeness(posterior: Posterior, kernel: Array) -> float:
    """Return P(θ = kernel | data) if the prior gives the kernel a probability, else E‖θ − kernel‖₁ or NaN."""
    if isinstance(posterior, GivesProbabilities):
        found = posterior.probability(kernel)
        if found is not None:
            return found
    return posterior.distance(kernel) if isinstance(posterior, Summarizable) else np.nan
