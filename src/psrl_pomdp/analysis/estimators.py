"""Three estimators of regret over several runs, with confidence intervals.

The paper defines R_T = E[Σ_t (C(s_t, a_t) − J(θ*)) | θ*]. Each estimator has this expectation for any agent:

- `plain`:            Σ_t (C(s_t, a_t) − J), from the costs;
- `expected`:         Σ_t (c(b_t, a_t) − J) with b_t = h_t(·; θ*), because E[C(s_t, a_t) | F_t+, θ*] =
                      c(b_t, a_t) (the first line of the proof of the paper's Lemma A.1);
- `control_variate`:  Σ_t [c(b_t, a_t) + E[v(b_{t+1}) | b_t, a_t] − J − v(b_t)] + v(b_1) − v(b_{T+1}) with v
                      from a plan for θ*, which subtracts one more martingale. This is the default: under a
                      good policy its variance is small, while the standard deviation of the other two is of
                      order √T.

J(θ*) lies between the two bounds of a plan. So each estimate is an interval: its lower end uses the upper
bound on J, its upper end the lower bound. The planning error, T times the gap, then neither hides regret nor
appears as regret. Over independent runs, the mean of each end has a Student confidence interval; `interval`
reaches from the lower limit of the one to the upper limit of the other.

For a fixed θ*, all runs share one model and its plan. For the Bayesian regret E[R_T], every run has its own
model, sampled from the prior, and its own plan (`bayesian_runs`); the same functions take both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy import stats

from .._utils.arrays import Array, Index
from .._utils.deprecation import warn_renamed
from ..agents import compiled_steps as steps
from ..errors import InvalidModelError, UnknownNameError, did_you_mean
from ..models import Units
from ..planning import Plan
from ..planning.discounted import require_average
from ..simulation.trace import Trace

Estimator = Literal["control_variate", "expected", "plain"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
_OLD_CONTROL_VARIATE = "controlled"  # the name in version 0.1


@dataclass(frozen=True)
class RegretCurve:
    """The regret of R runs over time, in the user's units; positive values are worse than optimal.

    Attributes
    ----------
    estimator
        The estimator.
    times
        The checkpoints, shape [K].
    lower, upper
        The regret of each run for the upper and for the lower bound on J, shape [R, K].
    level
        The confidence level of `interval`.
    """

    estimator: str
    times: Index
    lower: Array
    upper: Array
    level: float = 0.95

    @property
    def n_runs(self) -> int:
        """The number of runs R."""
        return len(self.lower)

    @property
    def mean(self) -> tuple[Array, Array]:
        """[K] each: the means over runs of `lower` and `upper`."""
        return self.lower.mean(axis=0), self.upper.mean(axis=0)

    @property
    def middle(self) -> Array:
        """[K]: the midpoint of the two means."""
        lower, upper = self.mean
        return np.asarray(0.5 * (lower + upper))

    @property
    def errors(self) -> tuple[Array, Array]:
        """[K] each: the standard errors of the two means; infinite for a single run."""
        return standard_error(self.lower), standard_error(self.upper)

    @property
    def interval(self) -> tuple[Array, Array]:
        """[K] each: Student's interval with R − 1 degrees of freedom, widened by the uncertainty about J.

        At each checkpoint, it misses the expectation with probability at most 1 − `level`, if the mean of R
        runs is normal.
        """
        width = student(self.level, self.n_runs)
        low, high = self.errors
        lower, upper = self.mean
        return lower - width * low, upper + width * high

    def __repr__(self) -> str:
        low, high = (float(end[-1]) for end in self.interval)
        return (
            f"RegretCurve({self.estimator}, {self.n_runs} runs, at T={int(self.times[-1])}: "
            f"{float(self.middle[-1]):.4g}, {self.level:.0%} in [{low:.4g}, {high:.4g}])"
        )


def regret_curve(
    traces: Sequence[Trace],
    plans: Plan | Sequence[Plan],
    estimator: Estimator = "control_variate",
    *,
    level: float = 0.95,
) -> RegretCurve:
    """Estimate the regret of runs with the same checkpoints.

    Parameters
    ----------
    traces
        The runs.
    plans
        A plan for the true model of all runs, or one plan for each run.
    estimator
        "control_variate", "expected" or "plain".
    level
        The confidence level of the interval.

    Returns
    -------
    RegretCurve
        The regret of each run at the checkpoints, with the interval for the mean.

    Raises
    ------
    InvalidModelError
        If the runs have different checkpoints or units, or a plan is for another model.

    >>> from psrl_pomdp import PSRLAgent, plan, problem, simulate
    >>> world = problem("separated")
    >>> runs = [simulate(world, PSRLAgent(world.family, seed=i), 300, seed=i) for i in range(8)]
    >>> curve = regret_curve(runs, plan(world, 1e-6))
    >>> low, high = curve.interval
    >>> bool(low[-1] < curve.middle[-1] < high[-1])
    True
    """
    each, times = plans_for(traces, plans), common_times(traces)
    sums = np.array([run_sums(trace, own, estimator) for trace, own in zip(traces, each, strict=True)])
    return curve_from_sums(
        times,
        sums,
        [own.lower_cost for own in each],
        [own.upper_cost for own in each],
        units=common_units(traces),
        estimator=estimator,
        level=level,
    )


def curve_from_sums(
    times: npt.ArrayLike,
    sums: npt.ArrayLike,
    lower_cost: npt.ArrayLike,
    upper_cost: npt.ArrayLike,
    *,
    units: Units = Units(),
    estimator: str = "control_variate",
    level: float = 0.95,
) -> RegretCurve:
    """Compute a regret curve from arrays, such as stored results.

    Parameters
    ----------
    times
        The checkpoints, shape [K].
    sums
        The scaled sums of an estimator without the term −J, shape [R, K].
    lower_cost, upper_cost
        Scaled bounds on J of each run's model: one number, or shape [R].
    units
        The units of the result.
    estimator
        The name of the estimator.
    level
        The confidence level of the interval.

    Raises
    ------
    InvalidModelError
        If shapes do not fit, the level is not in (0, 1), or a lower bound is above its upper bound.

    >>> curve = curve_from_sums([1, 2], [[0.5, 1.5], [0.7, 1.3]], 0.4, 0.5)
    >>> [end.round(9).tolist() for end in curve.mean]
    [[0.1, 0.4], [0.2, 0.6]]
    """
    at, totals = np.asarray(times, np.int64), np.atleast_2d(np.asarray(sums, np.float64))
    if not 0.0 < level < 1.0:
        raise InvalidModelError(f"level is {level}, not a confidence level between 0 and 1")
    if at.ndim != 1 or totals.ndim != 2 or totals.shape[1] != len(at):
        raise InvalidModelError(f"sums have shape {totals.shape}, not [R, {at.size}] for {at.size} times")
    low, high = (
        np.broadcast_to(np.asarray(end, np.float64), len(totals))[:, None] for end in (lower_cost, upper_cost)
    )
    if (low > high).any():
        raise InvalidModelError("lower_cost is above upper_cost")
    return RegretCurve(
        estimator, at, units.difference(totals - at * high), units.difference(totals - at * low), level
    )


def run_sums(trace: Trace, plan: Plan, estimator: Estimator = "control_variate") -> Array:
    """Return the scaled sums of an estimator for one run, without the term −J, at each checkpoint.

    Parameters
    ----------
    trace
        The run.
    plan
        A plan for its model.
    estimator
        "control_variate", "expected" or "plain".

    Returns
    -------
    array
        Shape [K].
    """
    if plan.fingerprint != trace.model.fingerprint:
        raise InvalidModelError("the plan is for another model than that of the run")
    if str(estimator) == _OLD_CONTROL_VARIATE:
        warn_renamed('estimator "controlled"', '"control_variate"')
        estimator = "control_variate"
    if estimator == "control_variate":
        return trace.control_variate_sums(plan)
    if estimator == "expected":
        return np.asarray(trace.checkpoints.sums[:, steps.EXPECTED_COST])
    if estimator == "plain":
        return np.asarray(trace.checkpoints.sums[:, steps.COST])
    hint = did_you_mean(str(estimator), ESTIMATORS)  # type: ignore[unreachable]
    raise UnknownNameError(f"estimator {estimator!r} is none of {', '.join(ESTIMATORS)}{hint}")


def standard_error(values: Array) -> Array:
    """[K]: the standard error of the mean over the runs of `[R, K]`."""
    if len(values) < 2:
        return np.full(values.shape[1:], np.inf)
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(len(values)))


def student(level: float, n_runs: int) -> float:
    """Return the half-width of a two-sided Student interval of this level, in standard errors."""
    return float(stats.t.ppf(0.5 + 0.5 * level, n_runs - 1)) if n_runs > 1 else 1.0


def plans_for(traces: Sequence[Trace], plans: Plan | Sequence[Plan]) -> list[Plan]:
    """Return one plan for each run."""
    if not traces:
        raise InvalidModelError("there are no runs")
    # The argument is one plan or several, and the class of a single one tells which.
    each = [plans] * len(traces) if isinstance(plans, Plan) else list(plans)
    if len(each) != len(traces):
        raise InvalidModelError(f"{len(each)} plans for {len(traces)} runs: pass one, or one for each run")
    for own in each:
        require_average(own, "regret")
    return each


def common_times(traces: Sequence[Trace]) -> Index:
    """[K]: the checkpoints, which must be the same in all runs."""
    times = traces[0].times
    for number, trace in enumerate(traces):
        if not np.array_equal(trace.times, times):
            raise InvalidModelError(f"run {number} and run 0 have different checkpoints")
    return times


def common_units(traces: Sequence[Trace]) -> Units:
    """Return the units, which must be the same in all runs."""
    units = traces[0].model.setting.units
    for number, trace in enumerate(traces):
        if trace.model.setting.units != units:
            raise InvalidModelError(f"run {number} and run 0 have different units")
    return units
