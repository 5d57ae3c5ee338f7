"""Learning from a log: the posterior after observations and actions that another policy produced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidModelError, OutOfOrderError
from ..inference.encoding import action_numbers, reading_numbers, update_many
from . import compiled_steps as steps

if TYPE_CHECKING:
    from .psrl import PSRLAgent


def learn_from_log(
    agent: PSRLAgent,
    observations: Sequence[Any],
    actions: Sequence[Any],
    costs: Sequence[float | None] | None = None,
) -> None:
    """Condition a new agent's posterior on a log; its next `act` takes the observation after the log.

    The time before the first episode counts as an episode that has ended.
    """
    clock = agent.episode_clock.clock
    if clock[steps.T]:
        raise OutOfOrderError("learn: a log comes before the first action")
    if costs is not None and len(costs) not in (len(actions), len(actions) - 1):
        raise InvalidModelError(f"a log of {len(actions)} actions and {len(costs)} costs")
    if len(observations) != len(actions) or not len(actions):
        raise InvalidModelError(f"a log of {len(observations)} observations and {len(actions)} actions")
    taken = action_numbers(agent.setting, actions)
    posterior = agent.prior.posterior(agent.posterior_rng)
    if agent.setting.is_finite and costs is None:
        observed = reading_numbers(agent.setting, observations)
        missing = observed == agent.setting.n_observations
        posterior.start(None if missing[0] else int(observed[0]))
        update_many(posterior, taken[:-1], np.where(missing, -1, observed)[1:])
    else:
        posterior.start(observations[0])
        paid = [] if costs is None else [list(costs)[: len(taken) - 1]]
        posterior.update_many(taken[:-1], list(observations)[1:], *paid)  # type: ignore[attr-defined]
    agent.posterior, agent.action = posterior, int(taken[-1])
    clock[steps.T] = clock[steps.LAST_T] = len(taken)
