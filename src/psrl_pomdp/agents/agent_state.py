"""The state of an agent: a snapshot before each call, its restoration after a failed call, random streams.

A call replaces some attributes and changes some arrays in place. A snapshot refers to the former and copies
the latter, so that it costs little at every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..protocols import Reversible

if TYPE_CHECKING:
    from .psrl import PSRLAgent

# Attributes that calls replace. The objects behind them are not changed in place, except for the arrays of
# `_changed_arrays` and the posterior.
_REPLACED = (
    "action",
    "observed",
    "posterior",
    "plans",
    "last_plan",
    "observation_processed",
    "current_episode",
)

FROM_SEED, FROM_FILE = 0, 2  # keys of the agents' random streams; the key of simulated environments is 1


class AgentSnapshot(NamedTuple):
    """Everything that a call can change."""

    replaced: dict[str, Any]
    arrays: list[npt.NDArray[Any]]
    n_episodes: int
    streams: list[Any]
    posterior: Any


def snapshot_of(agent: PSRLAgent) -> AgentSnapshot:
    """Return the present state of an agent."""
    return AgentSnapshot(
        {name: getattr(agent, name) for name in _REPLACED},
        [array.copy() for array in _changed_arrays(agent)],
        len(agent.episodes),
        [rng.bit_generator.state for rng in (agent.rng, agent.posterior_rng)],
        _posterior_snapshot(agent),
    )


def restore(agent: PSRLAgent, snapshot: AgentSnapshot) -> None:
    """Return an agent to the state of a snapshot. This may be repeated after an interrupt."""
    vars(agent).update(snapshot.replaced)
    for array, before in zip(_changed_arrays(agent), snapshot.arrays, strict=True):
        array[...] = before
    del agent.episodes[snapshot.n_episodes :]
    for rng, state in zip((agent.rng, agent.posterior_rng), snapshot.streams, strict=True):
        rng.bit_generator.state = state
    if isinstance(agent.posterior, Reversible):
        agent.posterior.go_back(snapshot.posterior)
    else:
        agent.posterior = snapshot.posterior


def _changed_arrays(agent: PSRLAgent) -> tuple[npt.NDArray[Any], ...]:
    """Return the arrays that calls change in place."""
    sampled, policy = agent.current_episode.sampled_filter, agent.current_episode.policy
    return (*agent.episode_clock, sampled.belief, sampled.chance, policy.node)


def _posterior_snapshot(agent: PSRLAgent) -> Any:
    """Return the posterior's own snapshot, or a copy that shares the prior and the random stream."""
    if isinstance(agent.posterior, Reversible):
        return agent.posterior.snapshot()
    shared = (agent.prior, agent.setting, agent.posterior_rng)
    return deepcopy(agent.posterior, {id(part): part for part in shared})


def random_streams(seed: int | Sequence[int], key: int) -> tuple[np.random.Generator, np.random.Generator]:
    """Return the random stream of the samples θ_k, and that of the posterior.

    Streams with different keys are independent, even if their seeds are equal.
    """
    for_samples, for_posterior = np.random.SeedSequence(seed, spawn_key=(key,)).spawn(2)
    return np.random.default_rng(for_samples), np.random.default_rng(for_posterior)
