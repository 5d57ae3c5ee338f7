"""An agent that ignores what it reads: every action is as likely as every other.

It is told nothing and learns nothing. Its regret grows in proportion to time: what any learner has to beat.
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
    """Uniform actions.

    >>> agent = RandomAgent(3, seed=0)
    >>> [agent.act(None) for _ in range(5)]
    [2, 1, 1, 0, 0]
    """

    def __init__(self, n_actions: int, seed: int | Sequence[int] = 0) -> None:
        self.n_actions = n_actions
        self.rng = np.random.default_rng(seed)

    def act(self, observation: int | None) -> int:
        return int(self.rng.integers(self.n_actions))

    def to_bytes(self) -> bytes:
        return msgspec.json.encode({"n_actions": self.n_actions, "stream": stream_out(self.rng)})

    @classmethod
    @as_saved_agent("agent")
    def from_bytes(cls, data: bytes) -> RandomAgent:
        words = decoded(data, _Words, "agent", "a saved agent of this kind")
        if not 1 <= words.n_actions < 1 << 31:
            raise ParseError(f"n_actions is {words.n_actions}", path="agent")
        agent = cls(words.n_actions)
        agent.rng = stream_in(words.stream)
        return agent


class _Words(msgspec.Struct):
    n_actions: int
    stream: StreamState
