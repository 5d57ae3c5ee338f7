"""Estimates of the constants K_1 and K_2 of Assumptions 3 and 4 from simulated runs.

Assumption 3 asks for a K_1 with E|h_t(·; θ*) − h_t(·; θ_k(t))|₁ ≤ K_1/√t_k(t), Assumption 4 for an estimator
θ̂_t and a K_2 with |θ*(· | s, a) − θ̂_t(· | s, a)|₁ ≤ K_2/√max(1, m̃_t(s, a)) for all pairs and times, with
high probability. Neither can be proved from runs. What runs can show is whether

    √t_k · E|h_t(·; θ*) − h_t(·; θ_k)|₁   and   max_{s,a} √max(1, m̃_t(s, a)) |θ*(· | s, a) − θ̂_t(· | s, a)|₁

stay bounded or grow over the simulated horizon. The true kernels are sampled from the prior. The estimator θ̂
is the kernel of the largest weight for a finite prior, as in the paper's lemma on the finite-parameter case,
and the posterior mean otherwise. K_1 is the largest mean over runs of the first quantity, K_2 the largest
value of the second in any run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._utils.arrays import Array, Index
from ..agents import compiled_steps as steps
from ..agents.planning_budget import PlanningBudget
from ..agents.psrl import PSRLAgent
from ..errors import InvalidModelError
from ..protocols import FiniteSupport, Posterior, Prior, Summarizable, WeightedKernels
from ..simulation.runs import Simulation, log_spaced
from ..simulation.trace import Trace
from .bounds import Constant
from .run_checks import starts_of
from .runs import true_model

QUICK = PlanningBudget(min_tolerance=1e-2, max_tolerance=0.05, rtol=np.inf, max_work=5e6, max_points=200)
STEADY = 0.25  # growth up to T^.25 counts as bounded; without learning, the growth is T^.5
VANISHED = -9.0  # stands for the exponent of a quantity that is zero at the end
_PER_DECADE, _BOOTSTRAP_DRAWS = 5, 200


@dataclass(frozen=True)
class Concentration:
    """The quantities that the assumptions bound, at `times[K]` of R runs.

    Attributes
    ----------
    times
        The checkpoints, shape [K].
    belief
        √t_k times the mean distance of the beliefs since the previous checkpoint, shape [R, K].
    kernel
        The maximum of √max(1, m̃) times the distance of θ̂ over states and actions, shape [R, K].
    """

    times: Index
    belief: Array
    kernel: Array

    @property
    def k1(self) -> Constant:
        """The estimate of K_1."""
        how = f"largest mean of {len(self.belief)} runs of {self.times[-1]} steps"
        return Constant(float(self.belief.mean(axis=0).max()), "estimated", how)

    @property
    def k2(self) -> Constant:
        """The estimate of K_2."""
        how = f"largest value in {len(self.kernel)} runs of {self.times[-1]} steps"
        return Constant(float(self.kernel.max()), "estimated", how)

    @property
    def belief_trend(self) -> tuple[float, float, float]:
        """The exponent p of the growth T^p of `belief` over the later checkpoints, with its 90 % interval."""
        return trend_between(self.times, self.belief)

    @property
    def kernel_trend(self) -> tuple[float, float, float]:
        """The exponent p of the growth T^p of `kernel` over the later checkpoints, with its 90 % interval."""
        return trend_between(self.times, self.kernel)


def estimate_concentration(
    prior: Prior, horizon: int = 1000, seeds: int | Sequence[int] = 8, *, budget: PlanningBudget = QUICK
) -> Concentration:
    """Simulate Algorithm 1 with true kernels sampled from the prior, and record what the assumptions bound.

    Parameters
    ----------
    prior
        The prior.
    horizon
        The number of steps of each run; there are five checkpoints per decade.
    seeds
        The number of runs, or their seeds.
    budget
        The planning budget of the agents.

    Raises
    ------
    InvalidModelError
        If the posterior has no kernels and weights.

    >>> from psrl_pomdp import problem
    >>> seen = estimate_concentration(problem("no-sensor").family, horizon=100, seeds=4)
    >>> seen.k2
    3 (estimated)
    """
    times = log_spaced(horizon, _PER_DECADE)
    numbers = range(seeds) if isinstance(seeds, int) else seeds
    runs = [_simulate(prior, times, seed, budget) for seed in numbers]
    return Concentration(
        times, np.array([belief for belief, _ in runs]), np.array([kernel for _, kernel in runs])
    )


def _simulate(prior: Prior, times: Index, seed: int, budget: PlanningBudget) -> tuple[Array, Array]:
    """[K] each: the scaled distances of beliefs and kernels in one run."""
    world = true_model(prior, seed)
    agent = PSRLAgent(prior, seed=seed, budget=budget)
    run = Simulation(world, agent, seed, checkpoints=times.tolist())
    kernel = np.empty(len(times))
    for k, t in enumerate(times.tolist()):
        trace = run.until(t)
        kernel[k] = _kernel_gap(agent, world.transition)
    return belief_gaps(trace), kernel


def belief_gaps(trace: Trace) -> Array:
    """[K]: √t_k at each checkpoint, times the mean distance of the beliefs since the previous checkpoint."""
    starts = starts_of(trace)
    newest = starts[np.searchsorted(starts, trace.times, side="right") - 1]
    rise = np.diff(trace.checkpoints.sums[:, steps.BELIEF_GAP], prepend=0.0)
    return np.asarray(np.sqrt(newest) * rise / np.diff(trace.times, prepend=0))


def _kernel_gap(agent: PSRLAgent, truth: Array) -> float:
    """Return the maximum over (s, a) of √max(1, m̃) |θ* − θ̂|₁."""
    posterior = agent.posterior
    if not isinstance(posterior, WeightedKernels):
        raise InvalidModelError(f"a {type(posterior).__name__} has no kernels and weights, which θ̂ needs")
    distance = np.abs(truth - point_estimate(agent.prior, agent.posterior)).sum(axis=2)  # [A, S]
    return float((np.sqrt(np.maximum(1, agent.pseudo_counts)) * distance).max())


def point_estimate(prior: Prior, posterior: Posterior) -> Array:
    """Return θ̂, [A, S, S']: the most probable kernel for a finite prior, else the posterior mean.

    Raises
    ------
    InvalidModelError
        If the posterior has neither weighted kernels nor a mean.
    """
    if isinstance(posterior, WeightedKernels):
        if isinstance(prior, FiniteSupport):  # the mean of the kernels has posterior probability 0
            return np.asarray(posterior.kernels[int(posterior.weights.argmax())])
        return np.asarray(np.tensordot(posterior.weights, posterior.kernels, 1))
    if isinstance(posterior, Summarizable):
        return np.asarray(posterior.mean_model().kernel)
    raise InvalidModelError(f"a {type(posterior).__name__} has no mean, which assumption 4 needs")


def trend(times: Index, values: Array) -> float:
    """Return the slope of log values on log t for t ≥ √T; `VANISHED` if the last value is zero."""
    late = times >= np.sqrt(times[-1])
    x, y = np.log(times[late]), values[late]
    if len(x) < 2 or y[-1] <= 1e-12:
        return VANISHED
    y = np.log(np.maximum(y, 1e-12))
    return float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())


def trend_between(times: Index, values: Array) -> tuple[float, float, float]:
    """Return the slope of the mean of R runs `[R, K]`, and its 5 % and 95 % quantiles by the bootstrap."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(len(values), size=(_BOOTSTRAP_DRAWS, len(values)))].mean(axis=1)
    low, high = np.quantile([trend(times, mean) for mean in means], [0.05, 0.95]).tolist()
    return trend(times, values.mean(axis=0)), low, high
