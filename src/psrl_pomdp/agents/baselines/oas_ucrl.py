"""OAS-UCRL and its action-wise form: optimism from moments of consecutive observations, with a known sensor.

Episode k has T_0 2^k steps. In it every action has a probability of at least ι. At its end the kernel is
estimated from the episode's pairs of observations, after a burn-in of about the logarithm of its length. The
next episode follows the plan with the least promised cost among a few kernels in an L1 ball around each row.

Guarantee: regret Õ(√T) against the best policy that is ι-soft, for ergodic kernels with no small entry and
a sensor of full rank; against the best policy it is linear, at the price of ι (Russo, Metelli and Restelli
2024, "Efficient learning of POMDPs with known observation model in average-reward setting").

The action-wise form estimates each action's matrix from all episodes so far, each weighted by the inverse of
its noise, with a radius of its own. In the authors' timing the observation comes after the action, pairs need
no weights, and the policy need not be ι-soft; the regret is Õ(√T) against the best policy (the same authors
2025, "Achieving Õ(√T) regret in average-reward POMDPs with known observation models"). Here the action
depends on the observation, so that weights and a least probability remain necessary: ι falls like T_k^(−1/2),
which costs Õ(√T) in total.

The authors' public runs set the radius to zero, as do the defaults here. Each episode's belief starts from
the uniform one and the newest observation, because the influence of earlier ones decays geometrically. The
first episode explores, because there is no estimate yet.
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
from .base import EstimateAndPlanAgent, ModelPolicy, Seed, drawn_near
from .moments import Moments

_MOST_EPISODES = 60  # if the first one has one step


class OASUCRL(EstimateAndPlanAgent):
    """Optimism from the moments of one episode at a time.

    `first_length` is T_0, `iota` the least probability of an action (1/A at most), `burn_in` the multiple
    of the logarithm of an episode's length that is not counted, `radius` a factor on the theoretical
    radius, `models` the number of kernels that are drawn if the radius is not zero, and `least` the smallest
    entry of an estimate.

    >>> from psrl_pomdp import problem
    >>> agent = OASUCRL(problem("railway").setting, seed=0)
    >>> [agent.act(o) for o in (5, 4, 5)]
    [1, 0, 1]
    """

    information: ClassVar[str] = "sensor"
    numbers: ClassVar = (*EstimateAndPlanAgent.numbers, "counted_from")
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

    def _count_transition(self, after: int) -> None:
        if self.time >= self.counted_from and self.missing not in (self.observation, after):
            self.moments.add(self.action, self.observation, after, self.probability)

    def _begin_phase(self) -> None:
        """Estimate the kernel from the last episode, and start the next one."""
        if self.episode:
            self._estimate_and_plan(self._evidence())
            self.min_action_probability = self._least_probability()
            self.moments.clear()
        length = self.first_length << self.episode
        self.phase_end = self.time + length - 1
        self.counted_from = self.time + math.ceil(self.burn_in * math.log(length))
        self.episode += 1

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Check what the file says of the agent, and compute what the file does not store."""
        if self.first_length << min(self.episode, _MOST_EPISODES) > 1 << _MOST_EPISODES:
            raise InvalidModelError(
                f"episode {self.episode} of lengths that double is too long to be reached"
            )

    def _evidence(self) -> Moments:
        """Return the moments for the next estimate."""
        return self.moments

    def _least_probability(self) -> float:
        """Return ι of the episode that starts."""
        return min(self.iota, 1.0 / self.setting.n_actions)

    def _estimate_and_plan(self, moments: Moments) -> None:
        """Follow the plan with the least promised cost near the estimate."""
        kernel, radius = moments.kernel(self.least), moments.radius(self.radius)

        def draw() -> POMDP:
            return POMDP(self.setting, drawn_near(kernel, radius, self.rng))

        estimate = POMDP(self.setting, kernel)
        model, found = self._optimistic(estimate, draw, self.models if self.radius > 0.0 else 0)
        self.model_policy = ModelPolicy(model, found, self._first_belief())

    def _first_belief(self) -> Array:
        """Return the belief after the newest observation alone."""
        if self.observation == self.missing:
            return np.full(self.setting.n_states, 1.0 / self.setting.n_states)
        likelihood = self.setting.observation[0, :, self.observation]
        return np.asarray(likelihood / likelihood.sum())

    def own_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays that a file stores beside the numbers."""
        return dict(self.moments.arrays())


class ActionWiseOASUCRL(OASUCRL):
    """OAS-UCRL with the moments of all episodes, and with the least probability ι √(T_0 / T_k)."""

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

    def own_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays that a file stores beside the numbers."""
        return self.moments.arrays() | self.total.arrays("total.")
