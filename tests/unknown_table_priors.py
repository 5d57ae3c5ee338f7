"""Priors over unknown tables, drawn histories, and sums over all hidden paths under each kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from joint_oracles import Step, Sums, Tables, every_joint_path
from psrl_pomdp import DirichletPosterior, DirichletPrior, Setting
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.inference.sampled_filter import NO_REFRESH
from psrl_pomdp.sensors.costs import SeenCosts
from psrl_pomdp.sensors.dirichlet import DirichletCosts, DirichletSensor

KERNELS = 7  # not a multiple of the lanes of a block


def setting(n_states: int = 2, n_observations: int = 2, first: Any = "sensor", **more: Any) -> Setting:
    rng = np.random.default_rng((3, n_states))
    table = rng.dirichlet(np.ones(n_observations), n_states)
    cost = np.array([[0.0, 50.0, 20.0][:n_states], [20.0, 20.0, 70.0][:n_states]])
    initial = np.array([0.7, 0.3, 0.0])[:n_states]
    begin = table if isinstance(first, str) else first
    return Setting(table, cost, initial, begin, **more)


def table(*shape: int) -> Array:
    return np.random.default_rng((4, *shape)).dirichlet(np.ones(shape[-1]), shape[:-1])


def flat(n_states: int = 2) -> Array:
    return np.ones((2, n_states, n_states))


def structured() -> DirichletPrior:
    """Structural zeros, known rows and ties in dynamics, sensor and costs."""
    concentration = np.ones((2, 3, 3))
    concentration[0, 2] = [0.0, 2.0, 1.0]
    sensor = DirichletSensor(
        [[2.0, 1.0, 0.0], [0.5, 1.0, 2.0], [2.0, 1.0, 0.0]], known={1: [0.2, 0.3, 0.5]}, ties=[(0, 2)]
    )
    counts = np.ones((2, 3, 2))
    counts[1, 1] = [1.0, 0.0]
    costs = DirichletCosts(
        [0.0, 9.0], counts, known={(0, 1): [0.25, 0.75]}, ties=[[(0, 0), (1, 2)], [(0, 2), (1, 0)]]
    )
    return DirichletPrior(
        setting(3, 3),
        concentration,
        {(0, 1): [0.2, 0.3, 0.5]},
        [[(1, 1), (1, 2)]],
        sensor=sensor,
        costs=costs,
    )


NOISY = SeenCosts([0.0, 10.0, 30.0], table(2, 2, 3))
PRIORS = {
    "table by the state before": DirichletPrior(
        setting().replace(observation=table(2, 2, 2, 2), first_observation=table(2, 2)), flat()
    ),
    "sensor and first observation": DirichletPrior(
        setting(3, 3), flat(3), sensor=DirichletSensor([[2.0, 1.0, 1.0], [1.0, 3.0, 1.0], [1.0, 1.0, 2.0]])
    ),
    "sensor without first observation": DirichletPrior(
        setting(first=None), flat(), sensor=DirichletSensor([[2.0, 1.0], [1.0, 3.0]])
    ),
    "sensor by action": DirichletPrior(
        setting(first=table(2, 2)), flat(), sensor=DirichletSensor(1.0 + table(2, 2, 2))
    ),
    "sensor by action, tied": DirichletPrior(
        setting(first=None),
        flat(),
        sensor=DirichletSensor(np.ones((2, 2, 2)), known={(0, 1): [0.1, 0.9]}, ties=[[(0, 0), (1, 1)]]),
    ),
    "exact costs": DirichletPrior(setting(seen_cost="exact"), flat()),
    "noisy costs": DirichletPrior(setting(seen_cost=NOISY), flat()),
    "noisy costs, table by the state before": DirichletPrior(
        setting(first=None).replace(observation=table(2, 2, 2, 2), seen_cost=NOISY), flat()
    ),
    "noisy costs and sensor": DirichletPrior(
        setting(seen_cost=NOISY), flat(), sensor=DirichletSensor(np.ones((2, 2)))
    ),
    "unknown costs": DirichletPrior(setting(), flat(), costs=DirichletCosts([0.0, 5.0], np.ones((2, 2, 2)))),
    "unknown costs, table by the state before": DirichletPrior(
        setting(first=None).replace(observation=table(2, 2, 2, 2)),
        flat(),
        costs=DirichletCosts([0.0, 5.0], np.ones((2, 2, 2))),
    ),
    "unknown costs and sensor": structured(),
}
each_prior = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)


def history(prior: DirichletPrior, length: int, first_missing: bool = False) -> tuple[int | None, list[Step]]:
    """A possible history of a drawn model, with missing observations, missing costs, and both at once."""
    rng = np.random.default_rng((5, length))
    world = prior.sample_model(rng)
    own = world.setting
    observation = by_state(own.observation)
    state = int(rng.choice(own.n_states, p=own.initial))
    first = None
    if own.first_observation is not None and not first_missing:
        first = int(rng.choice(own.n_observations, p=own.first_observation[state]))
    steps = []
    for t in range(length):
        a = int(rng.integers(own.n_actions)) if t > 1 else t
        then = int(rng.choice(own.n_states, p=world.transition[a, state]))
        o: int | None = int(rng.choice(own.n_observations, p=observation[a, state, then]))
        c = None
        if own.seen_cost is not None:
            c = int(rng.choice(own.seen_cost.n_values, p=own.seen_cost.probabilities[a, state]))
        if t % 5 == 1:
            o = None
        if t % 5 in (2, 3):
            c = None
        if t % 5 == 3:
            o = None
        steps.append(Step(a, o, c))
        state = then
    return first, steps


def by_state(observation: Array) -> Array:
    """η with an axis for the state before the action."""
    if observation.ndim == 4:
        return observation
    return np.repeat(observation[:, None], observation.shape[1], axis=1)


def tables_of(prior: Any, kernel: Array, own: Setting | None, initial: Array | None = None) -> Tables:
    one = own or prior.setting
    seen = one.seen_cost
    return Tables(
        kernel,
        by_state(one.observation),
        None if seen is None else seen.probabilities,
        one.first_observation,
        one.initial if initial is None else initial,
    )


def costs_of(prior: Any, steps: list[Step]) -> list[float | None] | None:
    seen = prior.setting.seen_cost
    return None if seen is None else [None if s.cost is None else float(seen.values[s.cost]) for s in steps]


def begun(prior: DirichletPrior, first: int | None, steps: list[Step], size: int = KERNELS) -> Any:
    """The posterior of a few kernels after a history, without any refresh."""
    posterior = DirichletPosterior(prior, np.random.default_rng(1), size=size)
    posterior._rule = NO_REFRESH
    posterior.start(first)
    costs = costs_of(prior, steps) or [None] * len(steps)
    for step, cost in zip(steps, costs, strict=True):
        posterior.update(step.action, step.observation, cost)
    posterior._space.fit(len(steps))
    return posterior


def sums_of(posterior: Any, first: int | None, steps: list[Step]) -> list[Sums]:
    return [
        every_joint_path(
            tables_of(posterior.prior, posterior.kernels[n], posterior._setting_of(n)), first, steps
        )
        for n in range(posterior.size)
    ]


def by_row(posterior: Any, sums: Sums, first: int | None) -> Array:
    """Expected counts of the free rows, [R, W], added up place by place."""
    rows = posterior._rows
    total = np.zeros(rows.concentration.shape)
    for where, counts in ((rows.kernel.where, sums.transitions),) + (
        () if rows.costs is None else ((rows.costs.where, sums.payments),)
    ):
        for place in np.ndindex(where.shape):
            if where[place] >= 0:
                total[where[place], : counts.shape[-1]] += counts[place]
    if rows.sensor is not None:
        where = rows.sensor.where
        for a, s in np.ndindex(sums.emissions.shape[:2]):
            r = where[s] if where.ndim == 1 else where[a, s]
            if r >= 0:
                total[r, : sums.emissions.shape[2]] += sums.emissions[a, s]
        if first is not None and where.ndim == 1:
            for s in np.flatnonzero(where >= 0):
                total[where[s], first] += sums.begin[s]
    return total
