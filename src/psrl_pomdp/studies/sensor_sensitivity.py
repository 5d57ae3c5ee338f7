"""Sensitivity of regret to errors in the observation model.

PSRL-POMDP takes the observation model η as known. This module estimates what an error in η costs. The true
model keeps η. The agents use another observation model,

    η′(· | s) = (1 − r) η(· | s) + r q(· | s),      q drawn uniformly from the simplex, row by row,

so that no probability of an observation is wrong by more than r. Two agents are told η′. The first knows the
transition kernel: all of its regret is due to the error in η. The second learns the kernel from a Dirichlet
prior; it may learn a wrong kernel that compensates for the error. A third agent learns both the kernel and
the observation model: η′ is only an estimate for it, worth some readings in each state. Every observation
that η allows stays possible, because η′ is positive wherever η is. For a density of observations, the classes
of `setting.quantized(K)` take its place.

Each agent's posterior tests whether its readings come as they were predicted (`ModelFit`): the shares of runs
with an alarm show whether the agent finds out that η′ is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._utils.arrays import Array
from .._utils.deprecation import renamed_keywords, warn_renamed
from .._utils.integers import is_integer
from ..agents.planning_budget import PlanningBudget
from ..agents.psrl import PSRLAgent
from ..analysis.estimators import RegretCurve, curve_from_sums
from ..errors import InvalidModelError
from ..inference import FinitePrior
from ..inference.choosing import learns_sensor, uniform_rows, with_setting
from ..models import POMDP, Setting
from ..planning import Plan, plan
from ..protocols import Prior, TakesUnknownSensor
from ..sensors.dirichlet import DirichletSensor
from ..simulation.runs import simulate
from ..simulation.trace import Trace

_NOISE, _INFORMED, _LEARNING, _TRUE_MODEL = range(4)  # purposes of the random streams
_TOLERANCE = 1e-5
_LEVEL = 0.01  # of an alarm
_WORK = 3e10  # counted operations for the plan of the true model; its gap widens the intervals


@dataclass(frozen=True)
class SensorSensitivity:
    """The effect of errors of at most `radius` in the observation model, over random observation models.

    Parameters
    ----------
    radius
        The largest error of a probability.
    known_dynamics
        Regret, in the user's units, of the agent that knows the transition kernel.
    learned_dynamics
        Regret of the agent that learns the transition kernel.
    other_action
        The share of steps at which the first agent and the optimal policy choose different actions.
    learned_sensor
        Regret of the agent that learns the observation model, too; None if the prior cannot have an unknown
        observation model.
    alarms
        The shares of runs in which the agents of the three regrets have an alarm at the level of 1 %; NaN if
        an agent does not test its readings.
    """

    radius: float
    known_dynamics: RegretCurve
    learned_dynamics: RegretCurve
    other_action: float
    learned_sensor: RegretCurve | None = None
    alarms: tuple[float, ...] = ()

    def __repr__(self) -> str:
        known, learned = (float(c.middle[-1]) for c in (self.known_dynamics, self.learned_dynamics))
        return f"SensorSensitivity({self.radius:g}: known dynamics {known:.4g}, learned {learned:.4g})"

    @property
    def knows(self) -> RegretCurve:
        """The old name of `known_dynamics`."""
        warn_renamed("SensorSensitivity.knows", "SensorSensitivity.known_dynamics")
        return self.known_dynamics

    @property
    def learns(self) -> RegretCurve:
        """The old name of `learned_dynamics`."""
        warn_renamed("SensorSensitivity.learns", "SensorSensitivity.learned_dynamics")
        return self.learned_dynamics


def perturbed(setting: Setting, radius: float, rng: np.random.Generator) -> Setting:
    """Return the setting with a random observation model, each entry within `radius` of the given one.

    >>> sharp = Setting(np.eye(2), [[0.0, 1.0]], [0.5, 0.5])
    >>> rough = perturbed(sharp, 0.1, np.random.default_rng(0))
    >>> bool(np.abs(rough.observation - sharp.observation).max() <= 0.1)
    True
    """
    _check_radius(radius)
    if not setting.is_finite:
        raise InvalidModelError(
            f"{setting.sensor.described()} have no table whose entries could be wrong; "
            "`setting.quantized(K)` puts them into K classes"
        )
    own = setting.observation
    by_action = setting.sensor_depends_on_action or setting.sensor_depends_on_previous
    shape = own.shape[:-1] if by_action else (1, setting.n_states)
    noise = rng.dirichlet(np.ones(setting.n_observations), size=shape)
    sensor = (1.0 - radius) * own + radius * noise
    first: Array | None = setting.first_observation
    if first is not None:
        first = (1.0 - radius) * first + radius * noise.reshape(-1, *first.shape)[0]
    return setting.replace(observation=sensor, first_observation=first)


def _check_radius(radius: float) -> None:
    if not 0.0 <= radius < 1.0:
        raise InvalidModelError(f"radius is {radius!r}: a number from 0 to below 1")


@renamed_keywords(effort="budget")
def sensor_sensitivity(
    model: POMDP,
    radii: Sequence[float] = (0.0, 0.02, 0.05, 0.1),
    *,
    prior: Prior | None = None,
    horizon: int = 2000,
    seeds: int = 8,
    seed: int = 0,
    budget: PlanningBudget | None = None,
    worth: float = 50.0,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[SensorSensitivity]:
    """Estimate the regret that errors in the observation model cause.

    Parameters
    ----------
    model
        The true model.
    radii
        The largest errors of a probability; each is from 0 to below 1.
    prior
        The prior of the agent that learns. None is Dirichlet(1) on all transitions that are possible.
    horizon
        Steps of a run.
    seeds
        Random observation models for each radius. All radii use the same random numbers.
    seed
        The seed of all random numbers.
    budget
        The planning budget of the agents that learn.
    worth
        How many readings in each state the estimate of the observation model is worth to the agent that
        learns it (`DirichletSensor.around`).
    executor
        Runs the simulations; None runs them in this process.
    progress
        Called after every run with the number of finished runs and of all runs.

    Returns
    -------
    list of SensorSensitivity
        One for each radius.

    Raises
    ------
    InvalidModelError
        For a number out of its range, a prior that cannot take another observation model, or a density of
        observations.
    """
    found = sensitivity_by_radius(
        model, radii, prior, horizon, seeds, seed, budget=budget, worth=worth, executor=executor,
        progress=progress,
    )  # fmt: skip
    return list(found)


def sensitivity_by_radius(
    model: POMDP,
    radii: Sequence[float],
    prior: Prior | None,
    horizon: int,
    seeds: int,
    seed: int,
    *,
    budget: PlanningBudget | None = None,
    worth: float = 50.0,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[SensorSensitivity]:
    """Yield what `sensor_sensitivity` returns for each radius, as soon as its runs are done."""
    for radius in radii:
        _check_radius(radius)
    for name, value, least in (("horizon", horizon, 1), ("seeds", seeds, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not is_integer(value, least):
            raise InvalidModelError(f"{name} is {value!r}: a whole number of at least {least}")
    if not 0.0 < worth < np.inf:
        raise InvalidModelError(f"worth is {worth!r}: a positive number of readings is wanted")
    perturbed(model.setting, 0.0, np.random.default_rng(0))  # raises an error for a density
    best = plan(model, _TOLERANCE, max_work=_WORK)
    if best.status == "interrupted":
        raise KeyboardInterrupt
    prior = uniform_rows(model) if prior is None else prior
    jobs = [(radius, run) for radius in radii for run in range(seeds)]
    rows: list[_Runs] = []
    tasks = [(model, best, prior, radius, horizon, (seed, run), budget, worth) for radius, run in jobs]
    mapped = executor.map if executor else map
    for row in mapped(_run_agents, *zip(*tasks, strict=True)):
        rows.append(row)
        progress(len(rows), len(jobs))
        if len(rows) % seeds == 0:
            yield _sensitivity(radii[len(rows) // seeds - 1], rows[-seeds:], horizon, best, model)


class _Runs(NamedTuple):
    """The runs of the agents with one random observation model."""

    sums: list[Array]  # of each agent
    alarms: list[float]  # 1 or 0, or NaN
    other_action: float


def _with_unknown_sensor(prior: Prior, setting: Setting, worth: float) -> Prior | None:
    """Return the prior with an unknown observation model around the told one; None if this is impossible."""
    if not isinstance(prior, TakesUnknownSensor) or learns_sensor(prior):
        return None
    if not setting.is_finite or setting.sensor_depends_on_previous:
        return None
    told = setting.observation if setting.sensor_depends_on_action else setting.observation[0]
    return prior.with_unknown_sensor(setting, DirichletSensor.around(told, worth=worth))


def _run_agents(
    model: POMDP,
    best: Plan,
    prior: Prior,
    radius: float,
    horizon: int,
    seed: tuple[int, int],
    budget: PlanningBudget | None,
    worth: float,
) -> _Runs:
    """Run all agents with one random observation model."""
    setting = perturbed(model.setting, radius, np.random.default_rng((*seed, _NOISE)))
    exact = PlanningBudget(
        min_tolerance=_TOLERANCE, max_tolerance=_TOLERANCE, max_points=10_000, max_work=3e9
    )
    informed = PSRLAgent(FinitePrior(setting, model.transition[None]), seed=(*seed, _INFORMED), budget=exact)
    learning = PSRLAgent(with_setting(prior, setting), seed=(*seed, _LEARNING), budget=budget)
    agents = [informed, learning]
    unknown = _with_unknown_sensor(prior, setting, worth)
    if unknown is not None:
        agents.append(PSRLAgent(unknown, seed=(*seed, _LEARNING), budget=budget))
    sums, alarms, others = [], [], 0.0
    for agent in agents:
        trace = simulate(model, agent, horizon, (*seed, _TRUE_MODEL), checkpoints=[horizon])
        sums.append(trace.control_variate_sums(best))
        if agent is informed:
            others = _other_actions(model, best, trace)
        alarms.append(float(agent.fit.alarm(_LEVEL)) if agent.fit is not None else np.nan)
    return _Runs(sums, alarms, others)


def _other_actions(model: POMDP, best: Plan, trace: Trace) -> float:
    """Return the share of steps at which the optimal policy of the true model chooses another action."""
    posterior = FinitePrior(model.setting, model.transition[None]).posterior()
    posterior.start(trace.first_observation)
    different = 0
    seen, observations, costs = model.setting.seen_cost, trace.observations, trace.seen_costs
    if seen is not None:
        observations = observations // (seen.n_values + 1)
    for i, (action, observation) in enumerate(
        zip(trace.actions.tolist(), observations.tolist(), strict=True)
    ):
        different += best.action(posterior.beliefs[0]) != action
        if costs is None:
            posterior.update(action, observation)
        else:
            posterior.update(action, observation, float(costs[i]))
    return different / len(trace.actions)


def _sensitivity(
    radius: float, rows: list[_Runs], horizon: int, best: Plan, model: POMDP
) -> SensorSensitivity:
    curves = [
        curve_from_sums([horizon], sums, best.lower_cost, best.upper_cost, units=model.setting.units)
        for sums in zip(*(row.sums for row in rows), strict=True)
    ]
    others = float(np.mean([row.other_action for row in rows]))
    alarms = tuple(np.mean([row.alarms for row in rows], axis=0).tolist())
    third = curves[2] if len(curves) > 2 else None
    return SensorSensitivity(radius, curves[0], curves[1], others, third, alarms)


_RENAMED = {"Doubt": "SensorSensitivity", "sensor_doubt": "sensor_sensitivity"}


def __getattr__(name: str) -> Any:
    """Return an object by its old name, with a warning."""
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_renamed(f"{__name__}.{name}", f"{__name__}.{_RENAMED[name]}")
    return globals()[_RENAMED[name]]
