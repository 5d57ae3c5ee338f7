"""Fleets for tests: priors of all kinds, and true systems that the units of a fleet control."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from density_settings import setting_of
from own_priors import WearPrior
from psrl_pomdp import POMDP, DirichletPrior, DirichletSensor, Fleet, PlanningBudget, problem
from psrl_pomdp.sensors import NormalInverseGammaSensor

SEPARATED = problem("separated")
FAMILY: Any = SEPARATED.family
RAILWAY = problem("railway")
COARSE = PlanningBudget(min_tolerance=0.05, max_tolerance=0.2, max_work=1_000_000)


def unknown_sensor() -> DirichletPrior:
    """Railway with an observation model that is calibrated by ten readings a state, and with any start."""
    known = RAILWAY.setting.observation
    table = known[0] if known.ndim == 3 else known
    setting = RAILWAY.setting.replace(initial=[0.6, 0.3, 0.1])
    return DirichletPrior(setting, RAILWAY.prior.concentration, sensor=DirichletSensor(1.0 + 9.0 * table))


def learned_density() -> DirichletPrior:
    """Gaussian readings with unknown means and sds."""
    sensor = NormalInverseGammaSensor([0.0, 1.0, 2.0], [0.7, 0.5, 0.4], 20.0, 20.0)
    setting = setting_of("gaussian", first=True).replace(
        observation=sensor.center, first_observation=sensor.center
    )
    return DirichletPrior(setting, np.full((2, 3, 3), 0.7), sensor=sensor)


def known_density() -> DirichletPrior:
    """Gaussian readings with known means and sds."""
    return DirichletPrior(setting_of("gaussian", first=True), np.full((2, 3, 3), 0.7))


PRIORS: dict[str, Any] = {
    "finite": FAMILY,
    "dirichlet": RAILWAY.prior,
    "unknown sensor": unknown_sensor(),
    "parametric": WearPrior(),
    "density": known_density(),
    "learned density": learned_density(),
}


class Plant:
    """Units of one true model, each with its own hidden state."""

    def __init__(self, model: POMDP, seed: int = 0) -> None:
        self.model, self.rng = model, np.random.default_rng(seed)
        self.states: dict[str, int] = {}
        self.readings: dict[str, Any] = {}

    def reading(self, name: str) -> Any:
        """The present reading of a unit, which starts with its first one."""
        if name not in self.states:
            own = self.model.setting
            self.states[name] = int(self.rng.choice(own.n_states, p=own.initial))
            self.readings[name] = None
            if own.has_first_observation:
                table = own.first_observation if own.is_finite else None
                self.readings[name] = self._drawn(own.first_sensor, table, self.states[name])
        return self.readings[name]

    def move(self, name: str, action: int) -> None:
        """Let the unit take an action; one reading in twenty is missing."""
        own = self.model.setting
        chances = self.model.transition[action, self.states[name]]
        self.states[name] = state = int(self.rng.choice(own.n_states, p=chances))
        table = own.observation[action] if own.is_finite else None
        self.readings[name] = self._drawn(own.sensor, table, state)
        if self.rng.random() < 0.05:
            self.readings[name] = None

    def _drawn(self, sensor: Any, table: Any, state: int) -> Any:
        if table is None:
            return float(sensor.draw(self.rng, 0, np.array([state]))[0])
        return int(self.rng.choice(len(table[state]), p=table[state]))


def play(fleet: Fleet, plant: Plant, names: Iterable[str], n: int, every: int = 0) -> list[int]:
    """Let units take `n` steps each in turn; work is adopted after every `every` steps."""
    actions, names = [], list(names)
    for t in range(n):
        for name in names:
            actions.append(fleet.act(name, plant.reading(name)))
            plant.move(name, actions[-1])
        if every and t % every == every - 1:
            finish(fleet)
    return actions


def finish(fleet: Fleet) -> list[bytes]:
    """Do the work that is due, and adopt it."""
    found: list[bytes] = []
    while (work := fleet.work) is not None and len(found) < 10:
        found.append(work.run())
        assert fleet.adopt(found[-1])
    return found
