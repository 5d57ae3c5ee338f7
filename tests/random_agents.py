"""Priors, agents and explorations that several tests share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from psrl_pomdp import POMDP, DirichletPrior, FinitePrior, PlanningBudget, Setting

Codes = npt.NDArray[np.int64]

COARSE = PlanningBudget(min_tolerance=0.02, max_tolerance=0.05)


def family(seed: int, n_kernels: int = 3, first: bool = True, sensors: int = 1) -> FinitePrior:
    """Random kernels; with `sensors` 2 the sensor depends on the action."""
    rng = np.random.default_rng(seed)
    sensor = rng.dirichlet(np.ones(3), size=(2, 3) if sensors == 2 else 3)
    first_sensor = rng.dirichlet(np.ones(3), size=3) if first else None
    setting = Setting(sensor, rng.random((2, 3)), rng.dirichlet(np.ones(3)), first_sensor)
    return FinitePrior(setting, rng.dirichlet(np.ones(3), size=(n_kernels, 2, 3)))


def dirichlet(setting: Setting, alpha: float = 1.0) -> DirichletPrior:
    n_actions, n_states = setting.cost.shape
    return DirichletPrior(setting, np.full((n_actions, n_states, n_states), alpha))


class Coin:
    """An agent that plays at random."""

    def __init__(self, n_actions: int, seed: int = 0) -> None:
        self.n_actions, self.rng = n_actions, np.random.default_rng(seed)

    def act(self, observation: int | None) -> int:
        return int(self.rng.integers(self.n_actions))


def explored(model: POMDP, length: int, seed: int, n_chains: int = 200) -> tuple[Codes, Codes]:
    """Uniform actions `[L, C]` and the readings before each, in chains side by side, `length` steps in all.

    They start from the model's start, which moments do not mind.
    """
    rng = np.random.default_rng(seed)
    kernels, sensors = model.transition.cumsum(axis=2), model.setting.observation[0].cumsum(axis=1)
    states = rng.choice(model.n_states, n_chains, p=model.setting.initial)
    actions = rng.integers(model.n_actions, size=(length // n_chains, n_chains))
    readings = np.empty_like(actions)
    for t in range(len(actions)):
        readings[t] = (rng.random((n_chains, 1)) > sensors[states, :-1]).sum(axis=1)
        states = (rng.random((n_chains, 1)) > kernels[actions[t], states, :-1]).sum(axis=1)
    return actions, readings
