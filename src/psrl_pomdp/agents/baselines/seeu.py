"""SEEU: spectral estimation from exploration, and exploitation under optimism, alternately.

Episode k explores for τ_1 steps with uniform actions. The model is estimated from the observations of *all*
exploration so far. A few models are drawn from the confidence set, and the one with the least promised cost
is selected. For τ_2 √k steps the agent follows its plan, with the belief after the whole history under this
model.

Guarantee: regret O(T^(2/3) √log T) against the best policy, for kernels with no small entry, if sensor and
kernel have full rank (Xiong, Chen, Gao and Zhou 2021, "Sublinear regret for learning POMDPs").

There are two forms. `SEEU` is that of the paper: the sensor is unknown too, both are estimated from triples
(`spectral.py`), and the agent is given the names of the states. `SEEUKnownSensor` knows the sensor and
estimates the kernel from pairs (`moments.py`).

The paper's τ_1 = 10^4 and τ_2 = 3·10^4 are meant for 10^6 steps and more: in the first 10^4 steps the agent
would only explore. The defaults have the same ratio and are smaller: a tenth for the spectral form, which
needs that much data, and a hundredth for the known sensor. Of 10^5 steps, 13 and 6 percent are then
exploration, in 13 and 60 episodes.

The theoretical radius is so large that the ball contains all models (public runs multiply it by about 10^-15,
and so use the estimate). For triples `radius` is the multiple of √(log t / N) that an L1 ball around each row
has, by default 1. For pairs it multiplies the radius of `moments.py`, by default 0, which was no worse on our
problems and plans once per episode.

`planner` is "ours", the certified planner, or "coarse", the belief grid of the public runs
(`coarse_planner.py`).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from ..._utils.deprecation import renamed_keywords
from ...errors import InvalidModelError
from ...models import POMDP, Setting
from ...protocols import CostPromise, Solution
from ..planning_budget import PlanningBudget
from .base import EstimateAndPlanAgent, ModelPolicy, Seed, belief_after, drawn_near
from .coarse_planner import CoarsePlanner
from .moments import Moments
from .spectral import Triples, drawn_model


class _AlternatingAgent(EstimateAndPlanAgent):
    """Alternates exploration and exploitation; the two forms define how to count and to estimate."""

    numbers: ClassVar = (*EstimateAndPlanAgent.numbers, "exploring", "first_observation")
    tau1: int
    tau2: int
    planner: str

    def __init__(self, setting: Setting, seed: Seed, budget: PlanningBudget | None, planner: str) -> None:
        super().__init__(setting, seed, budget)
        if planner not in ("ours", "coarse"):
            raise InvalidModelError(f"planner is {planner!r}, not 'ours' or 'coarse'")
        if planner == "coarse":
            CoarsePlanner().grid(setting.n_states)  # raises if the grid would be too large
        self.planner = planner
        self.exploring = False
        self.first_observation: int | None = None
        self.history: list[int] = []  # a (O + 1) + o for each action and the observation after it
        self.min_action_probability = 0.0  # exploitation follows the plan alone

    def _count_transition(self, after: int) -> None:
        self.history.append(self.action * (self.missing + 1) + after)
        if self.exploring:
            self._count(after)

    def _count(self, after: int) -> None:
        raise NotImplementedError

    def _estimate(self) -> tuple[POMDP, Solution] | None:
        """Return the model with the least promised cost and its plan, or None if there is no estimate."""
        raise NotImplementedError

    def _begin_phase(self) -> None:
        if self.time == 1 and self.observation != self.missing:
            self.first_observation = self.observation
        estimate = self._estimate() if self.exploring else None
        if estimate is None:
            self.episode += 1
            self.exploring, self.model_policy = True, None
            self.phase_end = self.time + self.tau1 - 1
            return
        self.exploring = False
        actions, observations = np.divmod(np.array(self.history, np.int64), self.missing + 1)
        belief = belief_after(estimate[0], self.first_observation, actions, observations)
        self.model_policy = ModelPolicy(*estimate, belief)
        self.phase_end = self.time + math.ceil(self.tau2 * math.sqrt(self.episode)) - 1

    def _plan_for(self, model: POMDP) -> CostPromise:
        return CoarsePlanner()(model) if self.planner == "coarse" else super()._plan_for(model)

    def own_metadata(self) -> dict[str, Any]:
        return {"history": self.history}

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Check what the file says of the agent, and compute what the file does not store."""
        try:
            self.history = msgspec.convert(metadata.get("history"), list[int])
        except msgspec.ValidationError as error:
            raise InvalidModelError(f"history: {error}") from None
        codes = self.n_actions * (self.missing + 1)
        if len(self.history) != max(0, self.time - 1) or not all(0 <= code < codes for code in self.history):
            raise InvalidModelError("history has steps that cannot have been taken")


class SEEU(_AlternatingAgent):
    """The form of the paper: sensor and kernel are estimated from triples of observations.

    >>> from psrl_pomdp import problem
    >>> agent = SEEU(problem("railway").setting, seed=0)
    >>> [agent.act(o) for o in (5, 4, 5)]
    [1, 0, 1]
    """

    information: ClassVar[str] = "names of states"
    numbers: ClassVar = (*_AlternatingAgent.numbers, "before")

    @renamed_keywords(effort="budget")
    def __init__(
        self,
        setting: Setting,
        seed: Seed = 0,
        *,
        budget: PlanningBudget | None = None,
        tau1: int = 1000,
        tau2: int = 3000,
        radius: float = 1.0,
        models: int = 5,
        least: float = 1e-3,
        planner: str = "ours",
    ) -> None:
        super().__init__(setting, seed, budget, planner)
        self._take_options(tau1=tau1, tau2=tau2, radius=radius, models=models, least=least)
        self.triples = Triples(setting)
        self.before = self.missing  # o_{t−1}

    def _count_transition(self, after: int) -> None:
        super()._count_transition(after)
        self.before = self.observation

    def _count(self, after: int) -> None:
        if self.missing not in (self.before, self.observation, after):
            self.triples.add(self.action, self.before, self.observation, after, self.probability)

    def _estimate(self) -> tuple[POMDP, Solution] | None:
        estimate = self.triples.model(self.least, self.rng)
        if estimate is None:
            return None

        def draw() -> POMDP:
            return drawn_model(estimate, self.triples.radius(self.radius, self.time), self.rng)

        return self._optimistic(estimate, draw, self.models if self.radius > 0.0 else 0)

    def own_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays that a file stores beside the numbers."""
        return dict(self.triples.arrays())


class SEEUKnownSensor(_AlternatingAgent):
    """The form for a known sensor: the kernel is estimated from pairs of observations."""

    information: ClassVar[str] = "sensor"

    @renamed_keywords(effort="budget")
    def __init__(
        self,
        setting: Setting,
        seed: Seed = 0,
        *,
        budget: PlanningBudget | None = None,
        tau1: int = 100,
        tau2: int = 300,
        radius: float = 0.0,
        models: int = 5,
        least: float = 1e-3,
        planner: str = "ours",
    ) -> None:
        super().__init__(setting, seed, budget, planner)
        self._take_options(tau1=tau1, tau2=tau2, radius=radius, models=models, least=least)
        self.moments = Moments(setting)

    def _count(self, after: int) -> None:
        if self.missing not in (self.observation, after):
            self.moments.add(self.action, self.observation, after, self.probability)

    def _estimate(self) -> tuple[POMDP, Solution]:
        kernel, radius = self.moments.kernel(self.least), self.moments.radius(self.radius)

        def draw() -> POMDP:
            return POMDP(self.setting, drawn_near(kernel, radius, self.rng))

        estimate = POMDP(self.setting, kernel)
        return self._optimistic(estimate, draw, self.models if self.radius > 0.0 else 0)

    def own_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays that a file stores beside the numbers."""
        return dict(self.moments.arrays())
