"""SEEU: spectral estimation while exploring, exploitation under optimism, in turns.

Episode k: τ_1 steps in which every action is as likely as every other; the model is estimated from the
readings of *all* exploration so far; of a few models drawn from the confidence set the most promising is
taken; and τ_2 √k steps play its plan, at the belief that the whole history gives under that model.

Guarantee: regret O(T^(2/3) √log T) against the best policy, for kernels with no small entry, where sensor
and kernel have full rank (Xiong, Chen, Gao and Zhou 2021, "Sublinear regret for learning POMDPs").

Two forms. `SEEU` is that of the paper: the sensor is unknown too, and both come from triples
(`spectral.py`), with the names of the states told. `SEEUKnownSensor` knows the sensor and takes the kernel
from pairs (`moments.py`).

The paper's τ_1 = 10^4 and τ_2 = 3·10^4 suit 10^6 steps and more: before 10^4 they would only explore. The
defaults keep their ratio and are scaled down, to a tenth for the spectral form, which is of no use with
less, and to a hundredth for the known sensor; of 10^5 steps, 13 and 6 percent are then exploration, in 13
and 60 episodes.

The radius of the theory leaves no choice (public runs multiply it by about 10^-15, and so play the
estimate). For triples `radius` is the multiple of √(log t / N) that an L1 ball around each row has, by
default 1; for pairs it multiplies the radius of `moments.py`, by default 0, which was no worse on our
problems and plans once an episode.

`planner` is "ours", the certified one, or "coarse", the belief grid of the public runs
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
from ...protocols import Solution
from ..planning_budget import PlanningBudget
from .base import Learner, Player, Seed, belief_after, drawn_near
from .coarse_planner import CoarsePlan, CoarsePlanner
from .moments import Moments
from .spectral import Triples, drawn_model


class _Turns(Learner):
    """Exploration and exploitation in turns; how to count and to estimate is left to the two forms."""

    numbers: ClassVar = (*Learner.numbers, "exploring", "first_reading")
    tau1: int
    tau2: int
    planner: str

    def __init__(self, setting: Setting, seed: Seed, budget: PlanningBudget | None, planner: str) -> None:
        super().__init__(setting, seed, budget)
        if planner not in ("ours", "coarse"):
            raise InvalidModelError(f"planner is {planner!r}, not 'ours' or 'coarse'")
        if planner == "coarse":
            CoarsePlanner().grid(setting.n_states)  # refuses where it would be too large
        self.planner = planner
        self.exploring = False
        self.first_reading: int | None = None
        self.history: list[int] = []  # a (O + 1) + o for each action and the reading after it
        self.softness = 0.0  # exploitation does what the plan says

    def _learn(self, after: int) -> None:
        self.history.append(self.action * (self.lost + 1) + after)
        if self.exploring:
            self._count(after)

    def _count(self, after: int) -> None:
        raise NotImplementedError

    def _estimate(self) -> tuple[POMDP, Solution] | None:
        """The most promising model and its plan, or None where there is no estimate."""
        raise NotImplementedError

    def _begin_phase(self) -> None:
        if self.time == 1 and self.reading != self.lost:
            self.first_reading = self.reading
        estimate = self._estimate() if self.exploring else None
        if estimate is None:
            self.episode += 1
            self.exploring, self.player = True, None
            self.until = self.time + self.tau1 - 1
            return
        self.exploring = False
        actions, readings = np.divmod(np.array(self.history, np.int64), self.lost + 1)
        belief = belief_after(estimate[0], self.first_reading, actions, readings)
        self.player = Player(*estimate, belief)
        self.until = self.time + math.ceil(self.tau2 * math.sqrt(self.episode)) - 1

    def _planned(self, model: POMDP) -> Solution:
        return CoarsePlanner()(model) if self.planner == "coarse" else super()._planned(model)

    def _worth(self, found: Solution, model: POMDP) -> float:
        return found.estimate if isinstance(found, CoarsePlan) else super()._worth(found, model)

    def _words(self) -> dict[str, Any]:
        return {"history": self.history}

    def _put_back(self, words: dict[str, Any]) -> None:
        try:
            self.history = msgspec.convert(words.get("history"), list[int])
        except msgspec.ValidationError as error:
            raise InvalidModelError(f"history: {error}") from None
        codes = self.n_actions * (self.lost + 1)
        if len(self.history) != max(0, self.time - 1) or not all(0 <= code < codes for code in self.history):
            raise InvalidModelError("history is not of steps that can have been taken")


class SEEU(_Turns):
    """The form of the paper: sensor and kernel from triples of readings.

    >>> from psrl_pomdp import problem
    >>> agent = SEEU(problem("railway").setting, seed=0)
    >>> [agent.act(o) for o in (5, 4, 5)]
    [1, 0, 1]
    """

    told: ClassVar[str] = "names of states"
    numbers: ClassVar = (*_Turns.numbers, "before")

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
        self.before = self.lost  # o_{t−1}

    def _learn(self, after: int) -> None:
        super()._learn(after)
        self.before = self.reading

    def _count(self, after: int) -> None:
        if self.lost not in (self.before, self.reading, after):
            self.triples.add(self.action, self.before, self.reading, after, self.probability)

    def _estimate(self) -> tuple[POMDP, Solution] | None:
        estimate = self.triples.model(self.least, self.rng)
        if estimate is None:
            return None

        def drawn() -> POMDP:
            return drawn_model(estimate, self.triples.radius(self.radius, self.time), self.rng)

        return self._optimistic(estimate, drawn, self.models if self.radius > 0.0 else 0)

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return dict(self.triples.arrays())


class SEEUKnownSensor(_Turns):
    """The sensor is known, and the kernel comes from pairs of readings."""

    told: ClassVar[str] = "sensor"

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
        if self.lost not in (self.reading, after):
            self.moments.add(self.action, self.reading, after, self.probability)

    def _estimate(self) -> tuple[POMDP, Solution]:
        kernel, radius = self.moments.kernel(self.least), self.moments.radius(self.radius)

        def drawn() -> POMDP:
            return POMDP(self.setting, drawn_near(kernel, radius, self.rng))

        estimate = POMDP(self.setting, kernel)
        return self._optimistic(estimate, drawn, self.models if self.radius > 0.0 else 0)

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return dict(self.moments.arrays())
