"""Many steps of an agent in a simulated environment, in one compiled loop.

Within an episode the policy is fixed, so that compiled code can run environment and agent together until the
episode ends. `PSRLAgent.act` gives the same run one observation at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Index
from ..inference.filter_bank import FilterBank
from ..inference.sampled_filter import PossibleStates, RefreshRule
from ..inference.step_codes import CAME, MISSING, Steps, are_missing, likelihood_rows
from ..sensors.base import ContinuousSensor
from . import compiled_steps as steps
from .episode_planning import warn_of_coarse_plan

if TYPE_CHECKING:
    from .psrl import PSRLAgent

Codes = npt.NDArray[np.uint16]


class ObservationsAhead(NamedTuple):
    """Observations without numbers that the environment would emit in the next n steps.

    Each step has one observation for each state, or for each action and state if the true sensor or the
    agent's one depends on the action (E is 1 or A). The environment's action and state select one of them.
    """

    sensor: ContinuousSensor | None  # the true sensor; None if observations are numbered
    values: Array  # [n, E·S] or [n, E·S, d]
    rows: Array  # [n, E·S, S']: their likelihoods under the true sensor
    present: Array  # the observation before these steps, shape [] or [d]


NUMBERED = ObservationsAhead(None, np.zeros(0), np.zeros((0, 0, 0)), np.zeros(0))


def rows_ahead(sensor: ContinuousSensor, values: Array, n_states: int) -> Array:
    """Return the likelihoods of observations that are drawn ahead, shape [n, E·S, S′]."""
    n_steps, n_places = values.shape[:2]
    rows = np.empty((n_steps, n_places, n_states))
    for first in range(0, n_places, n_states):
        part = values[:, first : first + n_states]
        flat = part.reshape(-1, *part.shape[2:])
        action = 0 if sensor.n_actions is None else first // n_states
        rows[:, first : first + n_states] = likelihood_rows(sensor, action, flat).reshape(
            n_steps, -1, n_states
        )
    return rows


def run_compiled(
    agent: PSRLAgent,
    environment: steps.EnvironmentState,
    uniforms: Array,
    actions: Codes,
    observations: Codes,
    begin: int,
    ahead: ObservationsAhead = NUMBERED,
) -> int:
    """Run up to the end of the episode, or one step per row of `uniforms`.

    The steps are written to `actions` and `observations` from `begin` on. Returns how many actions were
    taken.
    """
    assert agent.action is not None
    bank: tuple[FilterBank, PossibleStates, RefreshRule] = agent.posterior.filter_bank()
    now = agent.current_episode
    before = agent.action
    flags = np.array([agent.action, agent.observation_processed, 0, -1])
    own = _own_rows(agent, ahead)
    pending = np.ones(agent.setting.n_states)
    if ahead.sensor is not None and not agent.observation_processed:
        row = agent.step_codes.reading(agent.action, ahead.present[()]).row
        assert row is not None
        pending = row
        flags[steps.CELL] = agent.step_codes.cells.numbers(agent.action, ahead.present[None])[0]
    done, why = steps.run_episode(
        environment, uniforms, ahead.rows, own, _own_cells(agent, ahead), pending, *bank,
        now.sampled_filter, now.policy, agent.episode_clock, flags, actions, observations, begin,
    )  # fmt: skip
    first = begin - 1 + agent.observation_processed
    processed = slice(first, first + int(flags[steps.N_PROCESSED]))
    taken = _processed(agent, before, processed, begin, actions, observations, own, pending, ahead)
    agent.action = int(flags[steps.LAST_ACTION])
    agent.observation_processed = int(flags[steps.OBSERVATION_PROCESSED])
    agent.posterior.commit(taken, refresh=why == steps.REFRESH)
    if why in (steps.IMPOSSIBLE, steps.TOO_UNLIKELY):
        _raise_impossible(agent, environment, begin + done - 1, begin, ahead)
    agent.end_episode_if_over()
    warn_of_coarse_plan(agent)
    return int(done)


def _own_rows(agent: PSRLAgent, ahead: ObservationsAhead) -> Array:
    """Return the likelihoods of the observations ahead under the agent's sensor, shape [n, E·S, S′]."""
    sensor = agent.setting.sensor
    if ahead.sensor is None:
        return ahead.rows
    assert isinstance(sensor, ContinuousSensor)
    if sensor is ahead.sensor or sensor == ahead.sensor:
        return ahead.rows
    return rows_ahead(sensor, ahead.values, agent.setting.n_states)


def _own_cells(agent: PSRLAgent, ahead: ObservationsAhead) -> Index:
    """Return the cells of the observations ahead in the test of the model, shape [n, E·S]."""
    if ahead.sensor is None:
        return np.zeros((0, 0), np.int64)
    n_states, sensor = agent.setting.n_states, agent.setting.sensor
    n_steps, n_places = len(ahead.values), ahead.values.shape[1]
    found: Index = np.full((n_steps, n_places), -1)
    for first in range(0, n_places, n_states):
        part = ahead.values[:, first : first + n_states]
        action = 0 if sensor.n_actions is None else first // n_states
        flat = part.reshape(-1, *part.shape[2:])
        found[:, first : first + n_states] = agent.step_codes.cells.numbers(action, flat).reshape(
            -1, n_states
        )
    return found


def _processed(
    agent: PSRLAgent,
    action: int,
    processed: slice,
    begin: int,
    actions: Codes,
    observations: Codes,
    own: Array,
    pending: Array,
    ahead: ObservationsAhead,
) -> Steps:
    """Return the steps whose observations have updated the filters."""
    n_states = agent.setting.n_states
    taken, codes = actions[processed].astype(np.int64), observations[processed].astype(np.int64)
    if ahead.sensor is None:
        return Steps(taken, codes, np.zeros((0, n_states)), np.zeros(0))
    places = np.arange(processed.start - begin, processed.stop - begin)
    rows, values = own[places, codes], ahead.values[places, codes]
    if len(places) and places[0] < 0:  # the observation before these steps
        rows[0], values[0] = pending, ahead.present
    return Steps(taken, np.where(are_missing(values), MISSING, CAME), rows, values)


def _raise_impossible(
    agent: PSRLAgent, environment: steps.EnvironmentState, last: int, begin: int, ahead: ObservationsAhead
) -> None:
    """Raise the error of the posterior, which names the observation."""
    assert agent.action is not None
    number = int(environment.present[steps.OBSERVATION])
    if ahead.sensor is None:
        codes = agent.step_codes
        observation, cost = divmod(number, codes.n_costs + 1)
        seen = agent.setting.seen_cost
        paid = [] if seen is None else [None if cost == codes.n_costs else float(seen.values[cost])]
        given = None if observation == codes.n_observations else observation
        agent.posterior.update(agent.action, given, *paid)
        return
    present = ahead.present if last < begin else ahead.values[last - begin, number]
    agent.posterior.update(agent.action, present[()])
