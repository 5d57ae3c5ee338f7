"""A posterior against importance sampling from the prior, for the same history.

Kernels drawn from the prior, weighted by the exact likelihood of a history, estimate the posterior mean of
every function, and of the expected counts. This needs nothing of the posterior under test. As the history is
the same, the comparison does not have the noise of the true kernel, which simulation-based calibration has:
it detects that a single observation is ignored or counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from .._utils.arrays import Array
from ..inference.encoding import model_of
from ..models import Setting
from ..protocols import Posterior, Prior
from .calibration import (
    History,
    drawn_models,
    first_likelihood,
    functionals,
    log_likelihood,
    replay,
    simulate_from_prior,
    step_likelihood,
    tables_are_unknown,
    tables_of,
    without_last,
)

Factory = Callable[[np.random.Generator], Posterior]

_HISTORIES = 4
_FUNCTIONALS = (8, 14, 20)  # that samples are compared by: with unknown tables, and if costs are seen too
_LEVEL = 5e-6  # the false alarm rate
_DRAWS = 32  # of each posterior
_LEAST_SIZE = 200.0  # of the weighted sample; with less, there is no comparison
_MOST_ENTRIES = 1e7  # of all kernels together
_MATTERS = 0.1  # of a posterior standard deviation: an ensemble of N kernels has a bias of order 1/N


def importance_violations(
    prior: Prior, factory: Factory, replicates: int, length: int, seed: int
) -> Iterator[str]:
    """Yield one sentence for what the posterior deviates in: samples, or expected counts.

    Each of `_HISTORIES` histories is given to a part of `replicates` posteriors. A history that is too
    improbable for the sample from the prior is not used. The false alarm rate of all comparisons together is
    `_LEVEL`, by Student's distribution and Bonferroni's inequality.
    """
    from scipy import stats  # imported here because the import is slow

    rng = np.random.default_rng((seed, 2))
    own, each = prior.setting, replicates // _HISTORIES
    if each < 8:  # too few for a standard error
        return
    unknown = tables_are_unknown(prior)
    number = _FUNCTIONALS[int(unknown) + int(unknown and own.seen_cost is not None)]
    comparisons = _HISTORIES * (number + own.cost.size)
    threshold = float(stats.t.isf(0.5 * _LEVEL / comparisons, each - 1))
    size = min(20 * replicates, int(_MOST_ENTRIES / (own.n_actions * own.n_states**2)))
    models = [model_of(prior, rng) for _ in range(size)]
    kernels = np.stack([model.transition for model in models])
    starts = np.stack([model.setting.initial for model in models])
    setting = [model.setting for model in models] if unknown else own
    for _ in range(_HISTORIES):
        history = simulate_from_prior(prior, length, rng).history
        logs = log_likelihood(setting, kernels, starts, history)
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        if 1.0 / np.square(weights).sum() < _LEAST_SIZE:
            continue
        values, counts = [], []
        for _ in range(each):
            posterior = replay(factory(rng), history)
            drawn, begin, settings = drawn_models(prior, posterior, _DRAWS, rng)
            values.append(functionals(settings, drawn, begin, history).mean(axis=0))
            counts.append(np.ravel(posterior.expected_counts))
        score = _deviation(functionals(setting, kernels, starts, history), weights, np.array(values))
        if not score < threshold:
            yield (
                f"samples given a history of {length} steps have other means than the prior's kernels "
                f"weighted by the exact likelihood: they deviate by {score:.1f} standard errors"
            )
            return
        earlier = without_last(history)
        logs = log_likelihood(setting, kernels, starts, earlier)
        weights = np.exp(logs - logs.max())
        visits = expected_visits(setting, kernels, starts, earlier).reshape(size, -1)
        score = _deviation(visits, weights / weights.sum(), np.array(counts))
        if not score < threshold:
            yield (
                f"expected_counts after {length} steps are not those of the prior's kernels weighted by the "
                f"exact likelihood: they deviate by {score:.1f} standard errors"
            )
            return


def expected_visits(
    setting: Setting | Sequence[Setting], kernels: Array, starts: Array, history: History
) -> Array:
    """Return E[number of visits of each (action, state) | history, θ] of several models, shape [D, A, S].

    By the forward-backward recursion for all models at once.
    """
    tables = tables_of(setting)
    steps = [kernels[:, a] * step_likelihood(tables, history, i) for i, a in enumerate(history.actions)]
    belief = starts * first_likelihood(tables, history)
    forward = []
    for step in steps:
        forward.append(belief / np.maximum(belief.sum(axis=1, keepdims=True), 1e-300))
        belief = np.einsum("ds,dst->dt", forward[-1], step)
    found, after = np.zeros(kernels.shape[:3]), np.ones_like(starts)
    for a, step, now in zip(history.actions[::-1], steps[::-1], forward[::-1], strict=True):
        after = np.einsum("dst,dt->ds", step, after)
        after /= np.maximum(after.max(axis=1, keepdims=True), 1e-300)
        both = now * after
        found[:, a] += both / np.maximum(both.sum(axis=1, keepdims=True), 1e-300)
    return found


def _deviation(values: Array, weights: Array, found: Array) -> float:
    """Return the largest z-score of the columns of `found` [R, C] against weighted `values` [D, C].

    Differences below a tenth of a posterior standard deviation are not counted.
    """
    mean = weights @ values
    spread = np.sqrt(weights @ (values - mean) ** 2)
    error = np.hypot(
        found.std(axis=0, ddof=1) / np.sqrt(len(found)),
        np.sqrt(weights**2 @ (values - mean) ** 2),
    )
    gap = np.abs(found.mean(axis=0) - mean)
    counted = gap > np.maximum(_MATTERS * spread, 1e-9)
    return min(float(np.where(counted, gap / np.maximum(error, 1e-300), 0.0).max()), 999.0)
