"""Regret over many runs: three estimators of one expectation, and how sure they are.

The paper's R_T = E[Σ_t (C(s_t, a_t) − J(θ*)) | θ*]. Each of these has that expectation, for any learner:

- `plain`:       Σ_t (C(s_t, a_t) − J), what was paid;
- `expected`:    Σ_t (c(b_t, a_t) − J) with b_t = h_t(·; θ*), because E[C(s_t, a_t) | F_t+, θ*] = c(b_t, a_t)
                 (the first line of the proof of the paper's Lemma A.1);
- `controlled`:  Σ_t [c(b_t, a_t) + E[v(b_{t+1}) | b_t, a_t] − J − v(b_t)] + v(b_1) − v(b_{T+1}) with v from a
                 plan for θ*: one more martingale is taken off. The default: under a good policy hardly any
                 noise is left, where the first two have a standard deviation of order √T.

J(θ*) is known to lie between a plan's two bounds, so what is reported is an interval: its lower end takes J
at its upper bound, its upper end at its lower one. Planning error, T times the gap, can then never pass for
regret or hide it. Over independent runs the mean of either end has a Student confidence interval; `interval`
goes from the low end of the one to the high end of the other.

Given θ*, all runs are in one world and share its plan. For the Bayesian regret E[R_T] every run has a world
of its own, drawn from the prior, with a plan of its own (`bayesian_runs`): the same functions take both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy import stats

from .._utils.arrays import Array, Index
from ..agents import compiled_steps as steps
from ..errors import InvalidModelError, UnknownNameError, did_you_mean
from ..models import Units
from ..planning import Plan
from ..simulation.trace import Trace

Estimator = Literal["controlled", "expected", "plain"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)


@dataclass(frozen=True)
class RegretCurve:
    """Regret at `times[K]` of R runs, in the user's scale, worse positive.

    `lower[R, K]` has J at its upper bound and `upper[R, K]` at its lower one, run by run.
    """

    estimator: str
    times: Index  # [K]
    lower: Array  # [R, K]
    upper: Array  # [R, K]
    level: float = 0.95  # of `interval`

    @property
    def n_runs(self) -> int:
        return len(self.lower)

    @property
    def mean(self) -> tuple[Array, Array]:
        """[K] each: the mean over runs of either end."""
        return self.lower.mean(axis=0), self.upper.mean(axis=0)

    @property
    def middle(self) -> Array:
        """[K]: half way between the two means."""
        lower, upper = self.mean
        return np.asarray(0.5 * (lower + upper))

    @property
    def errors(self) -> tuple[Array, Array]:
        """[K] each: the standard error of either mean; infinite for a single run."""
        return standard_error(self.lower), standard_error(self.upper)

    @property
    def interval(self) -> tuple[Array, Array]:
        """[K] each: Student's, with R − 1 degrees of freedom, widened by what is not known of J.

        It misses the expectation at one checkpoint with probability 1 − `level` at most, as far as the mean
        of R runs is normal.
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
    estimator: Estimator = "controlled",
    *,
    level: float = 0.95,
) -> RegretCurve:
    """The regret of runs with the same checkpoints, against a plan for their world, or one plan for each.

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
    estimator: str = "controlled",
    level: float = 0.95,
) -> RegretCurve:
    """The same from plain arrays, such as stored results: nothing of the runs is needed.

    `sums[R, K]` are an estimator's scaled sums without −J at `times[K]`; `lower_cost` and `upper_cost`, one
    number or `[R]`, are scaled bounds on J of each run's world.

    >>> curve = curve_from_sums([1, 2], [[0.5, 1.5], [0.7, 1.3]], 0.4, 0.5)
    >>> [end.round(9).tolist() for end in curve.mean]
    [[0.1, 0.4], [0.2, 0.6]]
    """
    at, totals = np.asarray(times, np.int64), np.atleast_2d(np.asarray(sums, np.float64))
    if not 0.0 < level < 1.0:
        raise InvalidModelError(f"level is {level}: a confidence between 0 and 1")
    if at.ndim != 1 or totals.ndim != 2 or totals.shape[1] != len(at):
        raise InvalidModelError(f"sums have shape {totals.shape}; {at.size} times make it [R, {at.size}]")
    low, high = (
        np.broadcast_to(np.asarray(end, np.float64), len(totals))[:, None] for end in (lower_cost, upper_cost)
    )
    if (low > high).any():
        raise InvalidModelError("lower_cost is above upper_cost: no J is between")
    return RegretCurve(
        estimator, at, units.difference(totals - at * high), units.difference(totals - at * low), level
    )


def run_sums(trace: Trace, plan: Plan, estimator: Estimator = "controlled") -> Array:
    """[K]: one run's sums of an estimator without −J, scaled."""
    if plan.fingerprint != trace.model.fingerprint:
        raise InvalidModelError("the plan is for another model than the one that was run")
    if estimator == "controlled":
        return trace.control_variate_sums(plan)
    if estimator == "expected":
        return np.asarray(trace.checkpoints.sums[:, steps.EXPECTED_COST])
    if estimator == "plain":
        return np.asarray(trace.checkpoints.sums[:, steps.COST])
    hint = did_you_mean(str(estimator), ESTIMATORS)  # type: ignore[unreachable]
    raise UnknownNameError(f"estimator {estimator!r} is none of {', '.join(ESTIMATORS)}{hint}")


def standard_error(values: Array) -> Array:
    """[K]: of the mean over the runs of `[R, K]`."""
    if len(values) < 2:
        return np.full(values.shape[1:], np.inf)
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(len(values)))


def student(level: float, n_runs: int) -> float:
    """How many standard errors a two-sided interval of this level goes to either side."""
    return float(stats.t.ppf(0.5 + 0.5 * level, n_runs - 1)) if n_runs > 1 else 1.0


def plans_for(traces: Sequence[Trace], plans: Plan | Sequence[Plan]) -> list[Plan]:
    """One plan for each run."""
    if not traces:
        raise InvalidModelError("no runs were given")
    each = [plans] * len(traces) if isinstance(plans, Plan) else list(plans)
    if len(each) != len(traces):
        raise InvalidModelError(f"{len(each)} plans for {len(traces)} runs: one for all, or one for each")
    return each


def common_times(traces: Sequence[Trace]) -> Index:
    """[K]: the checkpoints, which all runs must share."""
    times = traces[0].times
    for number, trace in enumerate(traces):
        if not np.array_equal(trace.times, times):
            raise InvalidModelError(f"run {number} has other checkpoints than run 0")
    return times


def common_units(traces: Sequence[Trace]) -> Units:
    """What all runs count in."""
    units = traces[0].model.setting.units
    for number, trace in enumerate(traces):
        if trace.model.setting.units != units:
            raise InvalidModelError(f"run {number} is in other units than run 0")
    return units
