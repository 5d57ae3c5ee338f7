"""How much a sensor that is only roughly known can hurt.

PSRL-POMDP is told the sensor. Where its calibration is in doubt, this tells what that doubt may cost: the
world keeps its sensor η, and the agent is told another one,

    η′(· | s) = (1 − r) η(· | s) + r q(· | s),      q drawn uniformly from the simplex, row by row,

which gives every reading a probability within r of the true one. Two agents are told it: one that knows the
dynamics, whose loss is all due to the sensor, and one that learns them from a Dirichlet prior and may learn
wrong ones to make up for the sensor. No reading can become impossible: η′ is positive wherever η is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from .._utils.arrays import Array
from .._utils.deprecation import renamed_keywords
from .._utils.integers import is_integer
from ..agents.planning_budget import PlanningBudget
from ..agents.psrl import PSRLAgent
from ..analysis.estimators import RegretCurve, curve_from_sums
from ..errors import InvalidModelError
from ..inference import FinitePrior
from ..inference.choosing import uniform_rows, with_setting
from ..models import POMDP, Setting
from ..planning import Plan, plan
from ..protocols import Prior
from ..simulation.runs import simulate
from ..simulation.trace import Trace

_NOISE, _KNOWS, _LEARNS, _WORLD = range(4)  # what a stream is for
_TOLERANCE = 1e-5
_WORK = 3e10  # counted operations for the truth; what is left open widens the intervals


@dataclass(frozen=True)
class Doubt:
    """What a doubt of `radius` costs: regret at the horizon, in the user's units, over drawn sensors."""

    radius: float
    knows: RegretCurve  # told the true dynamics and a wrong sensor
    learns: RegretCurve  # told a wrong sensor, and a prior
    other_action: float  # how often the first of them chooses another action than the optimal policy does

    def __repr__(self) -> str:
        ends = [float(curve.middle[-1]) for curve in (self.knows, self.learns)]
        return f"Doubt({self.radius:g}: knows {ends[0]:.4g}, learns {ends[1]:.4g})"


def perturbed(setting: Setting, radius: float, rng: np.random.Generator) -> Setting:
    """The setting with a sensor within `radius` of its own, entry by entry.

    >>> sharp = Setting(np.eye(2), [[0.0, 1.0]], [0.5, 0.5])
    >>> rough = perturbed(sharp, 0.1, np.random.default_rng(0))
    >>> bool(np.abs(rough.observation - sharp.observation).max() <= 0.1)
    True
    """
    _check_radius(radius)
    own = setting.observation
    shape = own.shape[:2] if setting.sensor_depends_on_action else (1, setting.n_states)
    noise = rng.dirichlet(np.ones(setting.n_observations), size=shape)
    sensor = (1.0 - radius) * own + radius * noise
    first: Array | None = setting.first_observation
    if first is not None:
        first = (1.0 - radius) * first + radius * noise[0]
    return Setting(
        sensor,
        setting.cost,
        setting.initial,
        first,
        units=setting.units,
        states=setting.names.states,
        actions=setting.names.actions,
        observations=setting.names.observations,
    )


def _check_radius(radius: float) -> None:
    if not 0.0 <= radius < 1.0:
        raise InvalidModelError(f"radius is {radius!r}: a number from 0 to below 1")


@renamed_keywords(effort="budget")
def sensor_doubt(
    model: POMDP,
    radii: Sequence[float] = (0.0, 0.02, 0.05, 0.1),
    *,
    prior: Prior | None = None,
    horizon: int = 2000,
    seeds: int = 8,
    seed: int = 0,
    budget: PlanningBudget | None = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Doubt]:
    """For each radius, `seeds` sensors drawn within it, each tried in one run; the same chance for all radii.

    `prior` is the learner's, but for its sensor; by default Dirichlet(1) over all transitions that can be.
    Raises `InvalidModelError` for a prior that cannot be moved to another sensor.
    """
    for radius in radii:
        _check_radius(radius)
    for name, value, least in (("horizon", horizon, 1), ("seeds", seeds, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not is_integer(value, least):
            raise InvalidModelError(f"{name} is {value!r}: a whole number of at least {least}")
    best = plan(model, _TOLERANCE, max_work=_WORK)
    if best.status == "interrupted":
        raise KeyboardInterrupt
    prior = uniform_rows(model) if prior is None else prior
    jobs = [(radius, run) for radius in radii for run in range(seeds)]
    rows: list[tuple[Array, Array, float]] = []
    tasks = [(model, best, prior, radius, horizon, (seed, run), budget) for radius, run in jobs]
    each = executor.map if executor else map
    for row in each(_tried, *zip(*tasks, strict=True)):
        rows.append(row)
        progress(len(rows), len(jobs))
    return [
        _gathered(radius, rows[i * seeds : (i + 1) * seeds], horizon, best, model)
        for i, radius in enumerate(radii)
    ]


def _tried(
    model: POMDP,
    best: Plan,
    prior: Prior,
    radius: float,
    horizon: int,
    seed: tuple[int, int],
    budget: PlanningBudget | None,
) -> tuple[Array, Array, float]:
    """One drawn sensor: the sums of both agents, and the share of other actions."""
    told = perturbed(model.setting, radius, np.random.default_rng((*seed, _NOISE)))
    exact = PlanningBudget(
        min_tolerance=_TOLERANCE, max_tolerance=_TOLERANCE, max_points=10_000, max_work=3e9
    )
    knows = PSRLAgent(FinitePrior(told, model.transition[None]), seed=(*seed, _KNOWS), budget=exact)
    learns = PSRLAgent(with_setting(prior, told), seed=(*seed, _LEARNS), budget=budget)
    sums, others = [], 0.0
    for agent in (knows, learns):
        trace = simulate(model, agent, horizon, (*seed, _WORLD), checkpoints=[horizon])
        sums.append(trace.control_variate_sums(best))
        if agent is knows:
            others = _other_actions(model, best, trace)
    return sums[0], sums[1], others


def _other_actions(model: POMDP, best: Plan, trace: Trace) -> float:
    """The share of steps at which the optimal policy, told everything, would have done something else."""
    posterior = FinitePrior(model.setting, model.transition[None]).posterior()
    posterior.start(trace.first_observation)
    different = 0
    for action, reading in zip(trace.actions.tolist(), trace.observations.tolist(), strict=True):
        different += best.action(posterior.beliefs[0]) != action
        posterior.update(action, reading)
    return different / len(trace.actions)


def _gathered(
    radius: float, rows: list[tuple[Array, Array, float]], horizon: int, best: Plan, model: POMDP
) -> Doubt:
    knows, learns, others = zip(*rows, strict=True)
    curves = [
        curve_from_sums([horizon], sums, best.lower_cost, best.upper_cost, units=model.setting.units)
        for sums in (knows, learns)
    ]
    return Doubt(radius, curves[0], curves[1], float(np.mean(others)))
