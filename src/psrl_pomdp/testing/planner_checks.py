"""Requirements on planners, which `check_planner` tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from .._utils.integers import is_integer
from ..models import POMDP, Setting
from ..protocols import Planner, Solution

_TOLERANCE = 1e-4  # of the calls of the planner
_BATCHES = 20  # for the standard error of the simulated average


def _machine() -> tuple[POMDP, float]:
    setting = Setting([[1.0, 0.0], [0.0, 1.0]], [[0.0, 10.0], [4.0, 4.0]], [1.0, 0.0])
    model = POMDP(setting, [[[0.9, 0.1], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]])
    return model, 4.0 / 11.0  # on average ten steps of running and one of replacing


def _named(name: str, optimum: float) -> Callable[[], tuple[POMDP, float]]:
    def known_model() -> tuple[POMDP, float]:
        from ..problems import problem

        return problem(name), optimum

    return known_model


# Small models with their optimal averages, in closed form or certified to seven digits.
KNOWN_MODELS: dict[str, Callable[[], tuple[POMDP, float]]] = {
    "a fully observed machine": _machine,
    "tiger": _named("tiger", 1.0837887),
    "machine-repair": _named("machine-repair", 0.4220286),
    "no-sensor": _named("no-sensor", 0.2670667),
}


def planner_violations(
    planner: Planner, model: POMDP, optimum: float, steps: int, seed: int
) -> Iterator[str]:
    """Yield one sentence for each requirement that the planner violates on a model."""
    found, again = planner(model, tolerance=_TOLERANCE), planner(model, tolerance=_TOLERANCE)
    units = model.setting.units
    width = units.high - units.low
    if not found.lower <= found.upper:
        yield f"the lower bound {found.lower} is above the upper bound {found.upper}"
    if not found.lower - 1e-6 * width <= optimum <= found.upper + 1e-6 * width:
        yield f"the interval [{found.lower}, {found.upper}] does not contain the optimum {optimum}"
    if found.upper - found.lower > 1.01 * _TOLERANCE * width and "clos" in str(found.status):
        yield f"the interval is {found.upper - found.lower} wide, but the status is closed"
    if (found.lower, found.upper) != (again.lower, again.upper):
        yield "the same call gave another interval"
    for belief in (*np.eye(model.n_states), model.setting.initial):
        action = found.action(belief)
        if not is_integer(action, 0, model.n_actions - 1):
            yield f"the action {action!r} is not one of 0 to {model.n_actions - 1}"
            return
    mean, error = _simulate(found, model, np.random.default_rng(seed), steps)
    worst = found.upper if units.kind == "cost" else found.lower
    excess = (mean - worst) / width if units.kind == "cost" else (worst - mean) / width
    if excess > 6 * error + 20.0 / steps:
        yield f"the policy averages {mean} over {steps} steps, which is worse than the bound {worst}"


def _simulate(found: Solution, model: POMDP, rng: np.random.Generator, steps: int) -> tuple[float, float]:
    """Return the simulated average in the user's units, and its scaled standard error by batch means."""
    setting = model.setting
    state = int(rng.choice(model.n_states, p=setting.initial))
    belief = setting.initial.copy()
    if setting.first_observation is not None:
        observation = int(rng.choice(model.n_observations, p=setting.first_observation[state]))
        belief = belief * setting.first_observation[:, observation]
    costs = np.empty(steps)
    for t in range(steps):
        belief = belief / belief.sum()
        a = int(found.action(belief))
        costs[t] = setting.cost[a, state]
        before, state = state, int(rng.choice(model.n_states, p=model.transition[a, state]))
        if setting.sensor_depends_on_previous:
            observation = int(rng.choice(model.n_observations, p=setting.observation[a, before, state]))
            belief = belief @ (model.transition[a] * setting.observation[a, :, :, observation])
        else:
            observation = int(rng.choice(model.n_observations, p=setting.observation[a, state]))
            belief = (belief @ model.transition[a]) * setting.observation[a, :, observation]
    batches = costs[: steps // _BATCHES * _BATCHES].reshape(_BATCHES, -1).mean(axis=1)
    error = float(batches.std(ddof=1) / np.sqrt(_BATCHES))
    return float(setting.units.from_scaled(costs.mean())), error
