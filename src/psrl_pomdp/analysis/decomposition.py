"""The paper's decomposition of regret, along runs: H K_T + R_1 + R_2 + R_3 (its Lemma A.1).

    R_1 = Σ_k T_k (J(θ_k) − J(θ*))
    R_2 = H Σ_t ( |θ*(· | s_t, a_t) − θ_k(· | s_t, a_t)|₁ + |h_t(·; θ*) − h_t(·; θ_k)|₁ )
    R_3 = Σ_t ( c(h_t(·; θ*), a_t) − c(h_t(·; θ_k), a_t) )

The lemma is written with "=" and is an inequality: R_T ≤ E[H K_T + R_1 + R_2 + R_3 | θ*], because the
telescoping sum of an episode is bounded by H, and R_2′ by R_2.

Plans have a gap, and the lemma survives it. What an episode plays comes with V = min α·b and an upper bound
u_k that satisfy c(h, a) + E V(h′) ≤ u_k + V(h) under θ_k, so the proof goes through with u_k for J(θ_k) and
the span of V for H. J(θ*) is on both sides and cancels: what is checked is

    Σ_t c(b_t, a_t)  ≤  H K_T + Σ_k T_k u_k + R_2 + R_3.

**In the mean, not on every path.** The difference of the two sides, the slack, has a non-negative mean over
runs in one world, and so over worlds. On one path it also holds v(h_{t+1}) less its mean given F_t and θ*,
and the kernel's gap at the hidden s_t less its mean over s_t given F_t. Both have mean zero, and the second
is no martingale (s_t tells of s_{t+1} what F_{t+1} does not), so no inequality of Azuma's kind bounds it run
by run. `Decomposition.check` tests the mean. What must hold on every path is in `check_run`: among others
|R_3| ≤ ½ Σ_t |h_t(·; θ*) − h_t(·; θ_k)|₁.

H is the largest span of a relative value function. A plan's `span` brackets it in practice and not by proof,
and a run remembers no plans of its θ_k; so H here is *estimated*, from the plans that are given, unless it is
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
    """Both sides of the lemma at `times[K]` for R runs, in the user's scale; `span` is H, scaled."""

    times: Index  # [K]
    span: Constant  # H
    episodes: Array  # [R, K]: H K_T
    averages_lower: Array  # [R, K]: R_1, between these
    averages: Array  # [R, K]: and these
    gaps: Array  # [R, K]: R_2
    costs: Array  # [R, K]: R_3
    regret_lower: Array  # [R, K]: Σ c(b_t, a_t) − T J(θ*), between these
    regret: Array  # [R, K]: and these

    @property
    def bound(self) -> Array:
        """[R, K]: H K_T + R_1 + R_2 + R_3, its upper end."""
        return np.asarray(self.episodes + self.averages + self.gaps + self.costs)

    @property
    def slack(self) -> Array:
        """[R, K]: by how much the bound is above the regret; J(θ*) cancels."""
        return np.asarray(self.bound - self.regret)

    def check(self, false_alarm: float = 1e-6) -> list[Issue]:
        """What of the lemma these runs contradict; empty where nothing is wrong but with this probability."""
        return [Issue("error", text) for text in self._contradictions(false_alarm)]

    def _contradictions(self, false_alarm: float) -> Iterator[str]:
        """One-sided Student tests of E[slack] ≥ 0, one for each checkpoint."""
        n_runs, n_times = self.slack.shape
        if n_runs < 2:
            return
        most = float(stats.t.ppf(1.0 - false_alarm / n_times, n_runs - 1))
        mean, error = self.slack.mean(axis=0), standard_error(self.slack)
        rounding = 1e-9 * (1.0 + np.abs(self.bound).max(axis=0))
        for k in np.flatnonzero(mean < -most * error - rounding):
            yield (
                f"at T={self.times[k]} the mean regret is above H K_T + R_1 + R_2 + R_3 by "
                f"{-mean[k]:.4g} ± {error[k]:.2g}: H={self.span.value:.4g} is too small, or worse"
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
    """The paper's terms along runs of Algorithm 1, against plans for their worlds.

    `span` is H; by default the largest of the plans' spans. Pass the largest over the whole family where the
    prior is finite (`largest_span`).

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
            raise InvalidModelError(f"run {number} has no episodes: its agent samples no kernels")
    return decompose_sums(
        times,
        np.array([trace.checkpoints.sums for trace in traces]),
        np.array([trace.checkpoints.episodes for trace in traces]),
        np.array([promised_costs(trace) for trace in traces]),
        [own.lower_cost for own in each],
        [own.upper_cost for own in each],
        largest_span(each) if span is None else Constant(span, "given", "H as it was passed"),
        units=common_units(traces),
    )


def decompose_sums(
    times: Index,
    sums: Array,
    begun: npt.ArrayLike,
    promised: Array,
    lower_cost: npt.ArrayLike,
    upper_cost: npt.ArrayLike,
    span: Constant,
    *,
    units: Units = Units(),
) -> Decomposition:
    """The same from plain arrays, such as stored results.

    `sums[R, K, 5]` as in `Checkpoints`, `begun[R, K]` is K_T, `promised[R, K, 2]` is Σ T_k J(θ_k) by both
    bounds (`promised_costs`), and the costs, one number or `[R]`, are scaled bounds on J of each run's world.
    """
    scale, h = units.difference, span.value
    lower, upper = (
        np.broadcast_to(np.asarray(end, np.float64), len(sums))[:, None] for end in (lower_cost, upper_cost)
    )
    paid = sums[..., steps.EXPECTED_COST]
    return Decomposition(
        times=times,
        span=span,
        episodes=scale(h * np.asarray(begun)),
        averages_lower=scale(promised[..., 0] - times * upper),
        averages=scale(promised[..., 1] - times * lower),
        gaps=scale(h * (sums[..., steps.KERNEL_GAP] + sums[..., steps.BELIEF_GAP])),
        costs=scale(sums[..., steps.COST_GAP]),
        regret_lower=scale(paid - times * upper),
        regret=scale(paid - times * lower),
    )


def promised_costs(trace: Trace) -> Array:
    """[K, 2]: Σ_k T_k J(θ_k) up to each checkpoint, with J(θ_k) at its lower and at its upper bound."""
    starts = np.array([episode.start for episode in trace.episodes])
    bounds = np.array([(episode.lower_cost, episode.upper_cost) for episode in trace.episodes])
    after = np.append(starts[1:], trace.horizon + 1)
    ends = np.minimum(after, trace.times[:, None] + 1)  # [K, episodes]
    return np.asarray(np.maximum(0, ends - starts) @ bounds)
