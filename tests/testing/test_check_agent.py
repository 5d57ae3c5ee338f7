"""`check_agent` finds what is wrong with an agent; `tests/contracts` runs it on the agents of the package."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from psrl_pomdp import check_agent
from psrl_pomdp.agents.baselines import RandomAgent
from random_agents import family


class Wild(RandomAgent):
    def act(self, observation: int | None) -> int:
        return 9


class Forgetful(RandomAgent):
    def __init__(self, n_actions: int, seed: Any = 0) -> None:
        super().__init__(n_actions, 7)
        self.rng = np.random.default_rng()


class Lossy(RandomAgent):
    @classmethod
    def from_bytes(cls, data: bytes) -> RandomAgent:
        return cls(2, 1)


class Picky(RandomAgent):
    def act(self, observation: int | None) -> int:
        if observation is None:
            raise ValueError("what?")
        return super().act(observation)


class Bare:
    def act(self, observation: int | None) -> int:
        return 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda seed: Wild(2, seed), "its action 9 at step 1"),
        (lambda seed: Forgetful(2, seed), "gave other actions"),
        (lambda seed: Lossy(2, seed), "saved half way"),
        (lambda seed: Picky(2, seed), "raised ValueError"),
        (lambda seed: Bare(), "to_bytes"),
    ],
)
def test_broken_agents_are_found_out(make: Any, words: str) -> None:
    found = check_agent(make, family(41).model(0))
    assert any(words in finding.text for finding in found), found
