"""An agent that ignores the observations and draws every action uniformly.

It has no information and learns nothing. Its regret grows linearly, which every learning agent should improve
on.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from ..._serialization.archives import as_saved_agent
from ..._serialization.contents import decoded
from ..._serialization.random_streams import StreamState, stream_in, stream_out
from ...errors import ParseError


class RandomAgent:
    """An agent whose actions are uniformly distributed.

    Parameters
    ----------
    n_actions
        The number of actions.
    seed
        The seed of the agent's random numbers.

    >>> agent = RandomAgent(3, seed=0)
    >>> [agent.act(None) for _ in range(5)]
    [2, 1, 1, 0, 0]
    """

    def __init__(self, n_actions: int, seed: int | Sequence[int] = 0) -> None:
        self.n_actions = n_actions
        self.rng = np.random.default_rng(seed)

    def act(self, observation: int | None) -> int:
        """Return a random action."""
        return int(self.rng.integers(self.n_actions))

    def to_bytes(self) -> bytes:
        """Return everything that determines the agent's next actions."""
        return msgspec.json.encode({"n_actions": self.n_actions, "stream": stream_out(self.rng)})

    @classmethod
    @as_saved_agent("agent")
    def from_bytes(cls, data: bytes) -> RandomAgent:
        """Return an agent that continues exactly as the saved one would have."""
        metadata = decoded(data, _Metadata, "agent", "a saved agent of this kind")
        if not 1 <= metadata.n_actions < 1 << 31:
            raise ParseError(f"n_actions is {metadata.n_actions}", path="agent")
        agent = cls(metadata.n_actions)
        agent.rng = stream_in(metadata.stream)
        return agent


class _Metadata(msgspec.Struct):
    n_actions: int
    stream: StreamState
