"""Many steps of an agent in a simulated environment, in one compiled loop.

Within an episode the policy is fixed, so that compiled code can run environment and agent together until the
episode ends. `PSRLAgent.act` gives the same run one observation at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from ..inference.filter_bank import FilterBank
from ..inference.sampled_filter import PossibleStates, RefreshRule
from . import compiled_steps as steps
from .episode_planning import warn_of_coarse_plan

if TYPE_CHECKING:
    from .psrl import PSRLAgent

Codes = npt.NDArray[np.uint16]


def run_compiled(
    agent: PSRLAgent,
    environment: steps.EnvironmentState,
    uniforms: Array,
    actions: Codes,
    observations: Codes,
    begin: int,
) -> int:
    """Run up to the end of the episode, or one step per row of `uniforms`.

    The steps are written to `actions` and `observations` from `begin` on. Returns how many actions were
    taken.
    """
    assert agent.action is not None
    bank: tuple[FilterBank, PossibleStates, RefreshRule] = agent.posterior.filter_bank()
    now = agent.current_episode
    flags = np.array([agent.action, agent.observation_processed, 0])
    done, why = steps.run_episode(
        environment, uniforms, *bank, now.sampled_filter, now.policy, agent.episode_clock,
        flags, actions, observations, begin,
    )  # fmt: skip
    first = begin - 1 + agent.observation_processed
    processed = slice(first, first + int(flags[steps.N_PROCESSED]))
    agent.action = int(flags[steps.LAST_ACTION])
    agent.observation_processed = int(flags[steps.OBSERVATION_PROCESSED])
    agent.posterior.commit(actions[processed], observations[processed], refresh=why == steps.REFRESH)
    if why in (steps.IMPOSSIBLE, steps.TOO_UNLIKELY):
        # This raises the error, which names the observation.
        agent.posterior.update(agent.action, int(environment.present[steps.OBSERVATION]))
    agent.end_episode_if_over()
    warn_of_coarse_plan(agent)
    return int(done)
