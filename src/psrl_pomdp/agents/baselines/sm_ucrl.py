"""SM-UCRL: optimism over memoryless policies, from spectral estimates.

A memoryless policy with a least probability for every action is followed until some action has been taken
twice as often as when the episode started. Then sensor and kernel are estimated from triples of observations
(`spectral.py`; each triple is weighted by 1 / π(a | o), which corrects for the policy's choice). The next
episode follows the memoryless policy with the least average cost among those of a few models that are drawn
from the confidence set.

Guarantee: regret Õ(√T) against the best memoryless policy with that least probability, if sensor and
kernel have full rank; against the best policy it is linear if memory helps (Azizzadenesheli, Lazaric and
Anandkumar 2016, "Reinforcement learning of POMDPs using spectral methods").

The paper estimates from the longest episode of each action, because its moments are those of one policy.
With the weights the moments of all episodes may be added, because sensor and kernel are the same in all of
them and only the first view differs; therefore all data are used here. `radius` is the multiple of √(log t /
N) that an L1 ball around each row has: with the constants of the paper the ball would contain all models.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..._utils.deprecation import renamed_keywords
from ...models import POMDP, Setting
from ..planning_budget import PlanningBudget
from .base import EstimateAndPlanAgent, Seed
from .memoryless import MemorylessPolicy, best_memoryless, cumulative
from .spectral import Triples, drawn_model

_OPEN = 1 << 62  # the end of an episode that only counts can end


class SMUCRL(EstimateAndPlanAgent):
    """Optimism over memoryless policies.

    `iota` is the least probability of an action (1/A at most), `first_count` the count of each action
    before the first episode, and `starts` the number of random policies from which the search for the best
    memoryless policy starts; the other options are those of `SEEU`.

    >>> from psrl_pomdp import problem
    >>> agent = SMUCRL(problem("railway").setting, seed=0)
    >>> [agent.act(o) for o in (5, 4, 5)]
    [1, 0, 1]
    """

    information: ClassVar[str] = "names of states"
    numbers: ClassVar = (*EstimateAndPlanAgent.numbers, "before")
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
        self.before = self.missing  # o_{t−1}
        self.taken = np.full(setting.n_actions, self.first_count)
        self.taken_before = self.taken.copy()  # at the start of the episode
        self.policy = np.full((setting.n_observations + 1, setting.n_actions), 1.0 / setting.n_actions)
        self._sums = cumulative(self.policy)

    def _count_transition(self, after: int) -> None:
        if self.missing not in (self.before, self.observation, after):
            self.triples.add(self.action, self.before, self.observation, after, self.probability)
        self.before = self.observation
        self.taken[self.action] += 1
        if self.taken[self.action] >= 2 * self.taken_before[self.action]:
            self.phase_end = self.time

    def _begin_phase(self) -> None:
        if self.episode:
            self._improve()
        self.taken_before[:] = self.taken
        self.phase_end = _OPEN
        self.episode += 1

    def _improve(self) -> None:
        """Change to the best memoryless policy of the drawn models, if there is an estimate."""
        estimate = self.triples.model(self.least, self.rng)
        if estimate is None:
            return
        models = [estimate]
        if self.radius > 0.0:
            radius = self.triples.radius(self.radius, self.time)
            models += [drawn_model(estimate, radius, self.rng) for _ in range(self.models)]
        best = min(map(self._best_policy, models), key=lambda policy: policy.average_cost)
        self.policy[:] = best.probabilities
        self._sums = cumulative(self.policy)

    def _best_policy(self, model: POMDP) -> MemorylessPolicy:
        least = min(self.iota, 1.0 / self.setting.n_actions)
        return best_memoryless(model, least=least, starts=self.starts)

    def _choose_action(self) -> None:
        self.action = bisect_right(self._sums[self.observation], self.rng.random())
        self.probability = float(self.policy[self.observation, self.action])

    def own_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays that a file stores beside the numbers."""
        own = {"taken": self.taken, "taken_before": self.taken_before, "policy": self.policy}
        return own | self.triples.arrays()

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Check what the file says of the agent, and compute what the file does not store."""
        self._sums = cumulative(self.policy)
