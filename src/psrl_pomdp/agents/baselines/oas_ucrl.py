"""OAS-UCRL and its action-wise form: optimism from moments of consecutive readings, sensor known.

Episode k has T_0 2^k steps. In it every action keeps a chance of at least ι. At its end the kernel is
estimated from that episode's pairs of readings, after a burn-in of about the logarithm of its length; the
next episode plays the plan of the most promising of a few kernels in an L1 ball around each row.

Guarantee: regret Õ(√T) against the best policy that is ι-soft, for ergodic kernels with no small entry and
a sensor of full rank; against the best policy it is linear, at the price of ι (Russo, Metelli and Restelli
2024, "Efficient learning of POMDPs with known observation model in average-reward setting").

The action-wise form estimates each action's matrix from all episodes so far, each weighted by how little
noise it has, with a radius of its own. In the authors' timing the reading comes after the action, pairs
need no weights, and the policy need not be soft; the regret is Õ(√T) against the best policy (the same
authors 2025, "Achieving Õ(√T) regret in average-reward POMDPs with known observation models"). Here the
action has seen the reading, so weights, and a least probability, stay: ι falls like T_k^(−1/2), which costs
Õ(√T) in all.

The authors' public runs set the radius to zero, as do the defaults here. Each episode's belief starts from
the uniform one and the newest reading: what was before it fades at a geometric rate. The first episode,
which has nothing to go by, explores.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..._utils.arrays import Array
from ..._utils.deprecation import renamed_keywords
from ...errors import InvalidModelError
from ...models import POMDP, Setting
from ..planning_budget import PlanningBudget
from .base import Learner, Player, Seed, drawn_near
from .moments import Moments

_MOST_EPISODES = 60  # of one step at first


class OASUCRL(Learner):
    """Optimism from the moments of one episode at a time.

    `first_length` is T_0, `iota` the least probability of an action (1/A at most), `burn_in` the multiple
    of the logarithm of an episode's length that is not counted, `radius` a factor on the theoretical
    radius, `models` how many kernels are drawn where it is not zero, and `least` the smallest entry of an
    estimate.

    >>> from psrl_pomdp import problem
    >>> agent = OASUCRL(problem("railway").setting, seed=0)
    >>> [agent.act(o) for o in (5, 4, 5)]
    [1, 0, 1]
    """

    told: ClassVar[str] = "sensor"
    numbers: ClassVar = (*Learner.numbers, "counted_from")
    first_length: int
    iota: float
    burn_in: float

    @renamed_keywords(effort="budget")
    def __init__(
        self,
        setting: Setting,
        seed: Seed = 0,
        *,
        budget: PlanningBudget | None = None,
        first_length: int = 128,
        iota: float = 0.05,
        burn_in: float = 1.0,
        radius: float = 0.0,
        models: int = 4,
        least: float = 1e-3,
    ) -> None:
        super().__init__(setting, seed, budget)
        self._take_options(first_length=first_length, iota=iota, burn_in=burn_in)
        self._take_options(radius=radius, models=models, least=least)
        self.moments = Moments(setting)  # of the present episode
        self.counted_from = 0  # the first t whose pair counts

    def _learn(self, after: int) -> None:
        if self.time >= self.counted_from and self.lost not in (self.reading, after):
            self.moments.add(self.action, self.reading, after, self.probability)

    def _begin_phase(self) -> None:
        """The estimate, the most promising kernel, and the next episode with its plan."""
        if self.episode:
            self._play(self._evidence())
            self.softness = self._least_probability()
            self.moments.clear()
        length = self.first_length << self.episode
        self.until = self.time + length - 1
        self.counted_from = self.time + math.ceil(self.burn_in * math.log(length))
        self.episode += 1

    def _put_back(self, words: dict[str, Any]) -> None:
        if self.first_length << min(self.episode, _MOST_EPISODES) > 1 << _MOST_EPISODES:
            raise InvalidModelError(
                f"episode {self.episode} of lengths that double: nobody has lived as long"
            )

    def _evidence(self) -> Moments:
        """The moments that the next estimate is made from."""
        return self.moments

    def _least_probability(self) -> float:
        """ι of the episode that begins."""
        return min(self.iota, 1.0 / self.setting.n_actions)

    def _play(self, moments: Moments) -> None:
        kernel, radius = moments.kernel(self.least), moments.radius(self.radius)

        def drawn() -> POMDP:
            return POMDP(self.setting, drawn_near(kernel, radius, self.rng))

        estimate = POMDP(self.setting, kernel)
        model, found = self._optimistic(estimate, drawn, self.models if self.radius > 0.0 else 0)
        self.player = Player(model, found, self._first_belief())

    def _first_belief(self) -> Array:
        if self.reading == self.lost:
            return np.full(self.setting.n_states, 1.0 / self.setting.n_states)
        likelihood = self.setting.observation[0, :, self.reading]
        return np.asarray(likelihood / likelihood.sum())

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return dict(self.moments.arrays())


class ActionWiseOASUCRL(OASUCRL):
    """The same with the moments of all episodes, and with a softness that falls: ι √(T_0 / T_k)."""

    @renamed_keywords(effort="budget")
    def __init__(
        self,
        setting: Setting,
        seed: Seed = 0,
        *,
        budget: PlanningBudget | None = None,
        first_length: int = 128,
        iota: float = 0.1,
        burn_in: float = 1.0,
        radius: float = 0.0,
        models: int = 4,
        least: float = 1e-3,
    ) -> None:
        super().__init__(
            setting,
            seed,
            budget=budget,
            first_length=first_length,
            iota=iota,
            burn_in=burn_in,
            radius=radius,
            models=models,
            least=least,
        )
        self.total = Moments(setting)

    def _evidence(self) -> Moments:
        self.total.absorb(self.moments)
        return self.total

    def _least_probability(self) -> float:
        return float(super()._least_probability() * 2.0 ** (-self.episode / 2.0))

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return self.moments.arrays() | self.total.arrays("total.")
