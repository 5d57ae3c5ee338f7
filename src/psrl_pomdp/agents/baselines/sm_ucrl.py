"""SM-UCRL: optimism over memoryless policies, from spectral estimates.

A memoryless policy with a least probability for every action is played until some action has been taken
twice as often as when the episode began. Then sensor and kernel are estimated from triples of readings
(`spectral.py`; each is weighted by 1 / π(a | o), which undoes what the policy does to the middle view), and
the next episode plays the best memoryless policy of the most promising of a few models drawn from the
confidence set.

Guarantee: regret Õ(√T) against the best memoryless policy with that least probability, where sensor and
kernel have full rank; against the best policy it is linear where memory helps (Azizzadenesheli, Lazaric and
Anandkumar 2016, "Reinforcement learning of POMDPs using spectral methods").

The paper estimates from the longest episode of each action, because its moments are those of one policy.
With the weights those of all episodes may be added, since sensor and kernel are the same in all and only
the first view differs; so all data are used here. `radius` is the multiple of √(log t / N) that an L1 ball
around each row has: the constants of the paper are far too large to leave a choice.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..._utils.deprecation import renamed_keywords
from ...models import POMDP, Setting
from ..planning_budget import PlanningBudget
from .base import Learner, Seed
from .memoryless import MemorylessPolicy, best_memoryless, cumulative
from .spectral import Triples, drawn_model

_OPEN = 1 << 62  # the end of an episode that only counts can end


class SMUCRL(Learner):
    """Memoryless optimism.

    `iota` is the least probability of an action (1/A at most), `first_count` how often each action counts
    as taken before the first episode, `starts` of how many random policies the best memoryless one is
    sought from; the others are as in `SEEU`.

    >>> from psrl_pomdp import problem
    >>> agent = SMUCRL(problem("railway").setting, seed=0)
    >>> [agent.act(o) for o in (5, 4, 5)]
    [1, 0, 1]
    """

    told: ClassVar[str] = "names of states"
    numbers: ClassVar = (*Learner.numbers, "before")
    iota: float
    first_count: int
    starts: int

    @renamed_keywords(effort="budget")
    def __init__(
        self,
        setting: Setting,
        seed: Seed = 0,
        *,
        budget: PlanningBudget | None = None,
        iota: float = 0.05,
        first_count: int = 200,
        radius: float = 1.0,
        models: int = 5,
        least: float = 1e-3,
        starts: int = 2,
    ) -> None:
        super().__init__(setting, seed, budget)
        self._take_options(iota=iota, first_count=first_count, starts=starts)
        self._take_options(radius=radius, models=models, least=least)
        self.triples = Triples(setting)
        self.before = self.lost  # o_{t−1}
        self.taken = np.full(setting.n_actions, self.first_count)
        self.taken_before = self.taken.copy()  # when the episode began
        self.policy = np.full((setting.n_observations + 1, setting.n_actions), 1.0 / setting.n_actions)
        self._sums = cumulative(self.policy)

    def _learn(self, after: int) -> None:
        if self.lost not in (self.before, self.reading, after):
            self.triples.add(self.action, self.before, self.reading, after, self.probability)
        self.before = self.reading
        self.taken[self.action] += 1
        if self.taken[self.action] >= 2 * self.taken_before[self.action]:
            self.until = self.time

    def _begin_phase(self) -> None:
        if self.episode:
            self._improve()
        self.taken_before[:] = self.taken
        self.until = _OPEN
        self.episode += 1

    def _improve(self) -> None:
        """The best memoryless policy of the most promising model; the present one without an estimate."""
        estimate = self.triples.model(self.least, self.rng)
        if estimate is None:
            return
        models = [estimate]
        if self.radius > 0.0:
            radius = self.triples.radius(self.radius, self.time)
            models += [drawn_model(estimate, radius, self.rng) for _ in range(self.models)]
        best = min(map(self._best, models), key=lambda policy: policy.average_cost)
        self.policy[:] = best.probabilities
        self._sums = cumulative(self.policy)

    def _best(self, model: POMDP) -> MemorylessPolicy:
        least = min(self.iota, 1.0 / self.setting.n_actions)
        return best_memoryless(model, least=least, starts=self.starts)

    def _choose(self) -> None:
        self.action = bisect_right(self._sums[self.reading], self.rng.random())
        self.probability = float(self.policy[self.reading, self.action])

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        own = {"taken": self.taken, "taken_before": self.taken_before, "policy": self.policy}
        return own | self.triples.arrays()

    def _put_back(self, words: dict[str, Any]) -> None:
        self._sums = cumulative(self.policy)
