"""Learning from logs: the posterior after observations and actions that other policies produced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidModelError, OutOfOrderError
from ..inference.encoding import action_numbers, reading_numbers, update_many
from ..protocols import SharesParameters
from . import compiled_steps as steps
from .fleet_units import Log, condition_on_log, log_place

if TYPE_CHECKING:
    from .psrl import PSRLAgent


def learn_from_log(
    agent: PSRLAgent,
    observations: Sequence[Any] | None,
    actions: Sequence[Any] | None,
    costs: Sequence[float | None] | None = None,
    logs: Sequence[Log] = (),
) -> None:
    """Condition an agent's posterior on its own past, on finished logs of other units, or on both."""
    if observations is None and actions is None and costs is None:
        if not len(logs):
            raise InvalidModelError("learn: neither observations and actions nor logs are given")
        _learn_from_others(agent, logs)
        return
    if observations is None or actions is None:
        missing = "observations" if observations is None else "actions"
        raise InvalidModelError(f"learn: {missing} are missing")
    _learn_own_past(agent, observations, actions, costs, logs)


def _learn_from_others(agent: PSRLAgent, logs: Sequence[Log]) -> None:
    """Condition on finished histories of other units, which share θ with the agent's own."""
    if not all(isinstance(log, Log) for log in logs):
        raise InvalidModelError("logs must be a list of psrl_pomdp.Log")
    if not isinstance(agent.posterior, SharesParameters):
        raise InvalidModelError(
            f"the posterior of a {type(agent.prior).__name__} has no method new_unit(): it cannot take the "
            "histories of several units"
        )
    for i, log in enumerate(logs):
        condition_on_log(agent.posterior.new_unit(), agent.setting, log, log_place(i, log))


def _learn_own_past(
    agent: PSRLAgent,
    observations: Sequence[Any],
    actions: Sequence[Any],
    costs: Sequence[float | None] | None,
    logs: Sequence[Log],
) -> None:
    """Condition a new agent's posterior on a log; its next `act` takes the observation after the log.

    The time before the first episode counts as an episode that has ended.
    """
    clock = agent.episode_clock.clock
    if clock[steps.T]:
        raise OutOfOrderError(
            "learn: a log comes before the first action; only `logs` of other units may come later"
        )
    if costs is not None and len(costs) not in (len(actions), len(actions) - 1):
        raise InvalidModelError(f"a log of {len(actions)} actions and {len(costs)} costs")
    if len(observations) != len(actions) or not len(actions):
        raise InvalidModelError(f"a log of {len(observations)} observations and {len(actions)} actions")
    taken = action_numbers(agent.setting, actions)
    if len(getattr(agent.posterior, "units", ())) < 2:  # else it has learned from other units already
        agent.posterior = agent.prior.posterior(agent.posterior_rng)
    if len(logs):
        _learn_from_others(agent, logs)
    posterior = agent.posterior
    if agent.setting.is_finite and costs is None:
        observed = reading_numbers(agent.setting, observations)
        missing = observed == agent.setting.n_observations
        posterior.start(None if missing[0] else int(observed[0]))
        update_many(posterior, taken[:-1], np.where(missing, -1, observed)[1:])
    else:
        posterior.start(observations[0])
        paid = [] if costs is None else [list(costs)[: len(taken) - 1]]
        posterior.update_many(taken[:-1], list(observations)[1:], *paid)
    agent.action = int(taken[-1])
    clock[steps.T] = clock[steps.LAST_T] = len(taken)
