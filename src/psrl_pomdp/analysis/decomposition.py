"""The paper's decomposition of regret, along runs: H K_T + R_1 + R_2 + R_3 (its Lemma A.1).

    R_1 = Σ_k T_k (J(θ_k) − J(θ*))
    R_2 = H Σ_t ( |θ*(· | s_t, a_t) − θ_k(· | s_t, a_t)|₁ + |h_t(·; θ*) − h_t(·; θ_k)|₁ )
    R_3 = Σ_t ( c(h_t(·; θ*), a_t) − c(h_t(·; θ_k), a_t) )

The paper states the lemma with "=", but it is an inequality: R_T ≤ E[H K_T + R_1 + R_2 + R_3 | θ*], because
the telescoping sum of an episode is bounded by H, and R_2′ by R_2.

The lemma also holds for plans with a gap. The plan of an episode has a function V = min α·b and an upper
bound u_k with c(h, a) + E V(h′) ≤ u_k + V(h) under θ_k. So the proof holds with u_k in place of J(θ_k) and
the span of V in place of H. J(θ*) is on both sides and cancels; the checked inequality is

    Σ_t c(b_t, a_t)  ≤  H K_T + Σ_k T_k u_k + R_2 + R_3.

**It holds in expectation, not for every run.** The difference of the two sides, the slack, has a nonnegative
mean over runs with the same θ*, and so over all runs. In a single run, it contains two more terms of mean
zero: v(h_{t+1}) minus its mean given F_t and θ*, and the distance of the kernels at the hidden s_t minus its
mean given F_t. The second is not a martingale difference (s_t contains information about s_{t+1} that F_{t+1}
does not), so Azuma's inequality does not apply. `Decomposition.check` tests the mean. `check_run` tests the
inequalities that hold for every run, such as |R_3| ≤ ½ Σ_t |h_t(·; θ*) − h_t(·; θ_k)|₁.

It is about a known observation model and known costs: if the agent learns them, terms are missing
(`unknown_parts`), and the inequality may be wrong.

H is the largest span of a relative value function. The `span` of a plan bounds it in practice, which is not
proved, and a run does not store the plans of its θ_k. So H is *estimated* from the given plans, unless it is
passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from .._utils.arrays import Array, Index
from .._utils.issues import Issue
from ..agents import compiled_steps as steps
from ..errors import InvalidModelError
from ..models import Units
from ..planning import Plan
from ..simulation.trace import Trace
from .bounds import Constant, largest_span
from .estimators import common_times, common_units, plans_for, standard_error


@dataclass(frozen=True)
class Decomposition:
    """Both sides of the lemma at `times[K]` for R runs, in the user's units.

    Attributes
    ----------
    times
        The checkpoints, shape [K].
    span
        H, scaled.
    episodes
        H K_T, shape [R, K].
    averages_lower, averages
        Lower and upper bounds on R_1, shape [R, K].
    gaps
        R_2, shape [R, K].
    costs
        R_3, shape [R, K].
    regret_lower, regret
        Lower and upper bounds on Σ c(b_t, a_t) − T J(θ*), shape [R, K].
    """

    times: Index
    span: Constant
    episodes: Array
    averages_lower: Array
    averages: Array
    gaps: Array
    costs: Array
    regret_lower: Array
    regret: Array

    @property
    def bound(self) -> Array:
        """[R, K]: the upper bound on H K_T + R_1 + R_2 + R_3."""
        return np.asarray(self.episodes + self.averages + self.gaps + self.costs)

    @property
    def slack(self) -> Array:
        """[R, K]: the bound minus the regret; J(θ*) cancels."""
        return np.asarray(self.bound - self.regret)

    def check(self, false_alarm: float = 1e-6) -> list[Issue]:
        """Test the lemma; if it holds, the list is empty with probability at least 1 − `false_alarm`."""
        return [Issue("error", text) for text in self._contradictions(false_alarm)]

    def _contradictions(self, false_alarm: float) -> Iterator[str]:
        """Perform one-sided Student tests of E[slack] ≥ 0 at each checkpoint."""
        n_runs, n_times = self.slack.shape
        if n_runs < 2:
            return
        most = float(stats.t.ppf(1.0 - false_alarm / n_times, n_runs - 1))
        mean, error = self.slack.mean(axis=0), standard_error(self.slack)
        rounding = 1e-9 * (1.0 + np.abs(self.bound).max(axis=0))
        for k in np.flatnonzero(mean < -most * error - rounding):
            yield (
                f"at T={self.times[k]} the mean regret is above H K_T + R_1 + R_2 + R_3 by "
                f"{-mean[k]:.4g} ± {error[k]:.2g}: H={self.span.value:.4g} is too small, or a run is wrong"
            )

    def __repr__(self) -> str:
        parts = (self.episodes, self.averages, self.gaps, self.costs, self.regret)
        means = [f"{float(part[:, -1].mean()):.4g}" for part in parts]
        return (
            f"Decomposition({len(self.slack)} runs, at T={int(self.times[-1])}: H K_T {means[0]}, "
            f"R_1 {means[1]}, R_2 {means[2]}, R_3 {means[3]}; regret {means[4]})"
        )


def decompose(
    traces: Sequence[Trace], plans: Plan | Sequence[Plan], *, span: float | None = None
) -> Decomposition:
    """Compute the paper's decomposition of regret for runs of Algorithm 1.

    Parameters
    ----------
    traces
        The runs, with the same checkpoints.
    plans
        A plan for the true model of all runs, or one plan for each run.
    span
        H; by default the largest span of the plans. For a finite prior, pass the largest span over its
        kernels (`largest_span`).

    Returns
    -------
    Decomposition
        Both sides of the lemma at each checkpoint.

    Raises
    ------
    InvalidModelError
        If a run has no episodes, or the checkpoints or units differ.

    >>> from psrl_pomdp import PSRLAgent, plan, problem, simulate
    >>> world = problem("separated")
    >>> runs = [simulate(world, PSRLAgent(world.family, seed=i), 200, seed=i) for i in range(5)]
    >>> terms = decompose(runs, plan(world, 1e-5))
    >>> terms.check()
    []
    """
    each = plans_for(traces, plans)
    times = common_times(traces)
    for number, trace in enumerate(traces):
        if not trace.episodes:
            raise InvalidModelError(f"run {number} has no episodes: its agent does not sample kernels")
    return decompose_sums(
        times,
        np.array([trace.checkpoints.sums for trace in traces]),
        np.array([trace.checkpoints.episodes for trace in traces]),
        np.array([promised_costs(trace) for trace in traces]),
        [own.lower_cost for own in each],
        [own.upper_cost for own in each],
        largest_span(each) if span is None else Constant(span, "given", "H as passed by the caller"),
        units=common_units(traces),
    )


def decompose_sums(
    times: Index,
    sums: Array,
    n_episodes: npt.ArrayLike,
    episode_costs: Array,
    lower_cost: npt.ArrayLike,
    upper_cost: npt.ArrayLike,
    span: Constant,
    *,
    units: Units = Units(),
) -> Decomposition:
    """Compute the decomposition from arrays, such as stored results.

    Parameters
    ----------
    times
        The checkpoints, shape [K].
    sums
        The sums of `Checkpoints`, shape [R, K, 5].
    n_episodes
        K_T, shape [R, K].
    episode_costs
        Both bounds on Σ T_k J(θ_k), as `promised_costs` returns them, shape [R, K, 2].
    lower_cost, upper_cost
        Scaled bounds on J of each run's model: one number, or shape [R].
    span
        H, scaled.
    units
        The units of the result.
    """
    scale, h = units.difference, span.value
    lower, upper = (
        np.broadcast_to(np.asarray(end, np.float64), len(sums))[:, None] for end in (lower_cost, upper_cost)
    )
    paid = sums[..., steps.EXPECTED_COST]
    return Decomposition(
        times=times,
        span=span,
        episodes=scale(h * np.asarray(n_episodes)),
        averages_lower=scale(episode_costs[..., 0] - times * upper),
        averages=scale(episode_costs[..., 1] - times * lower),
        gaps=scale(h * (sums[..., steps.KERNEL_GAP] + sums[..., steps.BELIEF_GAP])),
        costs=scale(sums[..., steps.COST_GAP]),
        regret_lower=scale(paid - times * upper),
        regret=scale(paid - times * lower),
    )


def promised_costs(trace: Trace) -> Array:
    """[K, 2]: Σ_k T_k J(θ_k) up to each checkpoint, for the lower and for the upper bounds on J(θ_k)."""
    starts = np.array([episode.start for episode in trace.episodes])
    bounds = np.array([(episode.lower_cost, episode.upper_cost) for episode in trace.episodes])
    after = np.append(starts[1:], trace.horizon + 1)
    ends = np.minimum(after, trace.times[:, None] + 1)  # [K, episodes]
    return np.asarray(np.maximum(0, ends - starts) @ bounds)
