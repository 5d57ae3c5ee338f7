"""Requirements on the sampler of a `ParametricPrior`: independent draws, however many a call returns.

Parameters are compared by their ranks in a large sample, which are uniform whatever the distribution is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._utils.arrays import Array
from ..inference.parametric_prior import ParametricPrior, checked_kernels, checked_sample
from .calibration import z_scores

_CALLS = 1000


def sampler_violations(prior: ParametricPrior, samples: int, seed: int, threshold: float) -> Iterator[str]:
    """Yield one sentence for each requirement on `sample_parameters` and `sample` that is violated."""
    rng = np.random.default_rng((seed, 1))
    calls = min(_CALLS, samples)
    many = checked_sample(prior, rng, samples)
    pairs = np.stack([checked_sample(prior, rng, 2) for _ in range(calls)])  # [C, 2, d]
    alone = np.concatenate([checked_sample(prior, rng, 1) for _ in range(calls)])
    ranks = ranks_in(many, many)
    first, second = (ranks_in(many, pairs[:, i]) - ranks.mean(axis=0) for i in (0, 1))
    worst = _largest(z_scores(np.hstack([first * second, first - second])))
    if not worst < threshold:
        yield (
            "the parameter vectors of one call of sample_parameters are not independent draws: two of them "
            f"deviate by {worst:.1f} standard errors"
        )
    worst = _largest(_gaps(ranks_in(many, alone), ranks))
    if not worst < threshold:
        yield (
            f"sample_parameters(rng, 1) has another distribution than sample_parameters(rng, {samples}): the "
            f"rank of a parameter deviates by {worst:.1f} standard errors"
        )
    if all(
        getattr(type(prior), name) is getattr(ParametricPrior, name) for name in ("sample", "sample_model")
    ):
        return
    expected = checked_kernels(prior, many[: 4 * calls])
    expected = expected.reshape(len(expected), -1)
    for name in ("sample", "sample_model"):
        found = [getattr(prior, name)(rng) for _ in range(calls)]
        entries = np.stack([np.ravel(getattr(each, "transition", each)) for each in found])
        worst = _largest(_gaps(ranks_in(expected, entries), ranks_in(expected, expected)))
        if not worst < threshold:
            yield (
                f"{name}(rng) has another distribution than kernels(sample_parameters(rng, N)): an entry "
                f"deviates by {worst:.1f} standard errors"
            )


def ranks_in(sample: Array, parameters: Array) -> Array:
    """Return the ranks of parameters in a sample [M, d], from 0 to 1; equal values have the middle rank."""
    found = np.empty(parameters.shape)
    for i, column in enumerate(np.sort(sample, axis=0).T):
        below = np.searchsorted(column, parameters[:, i], "left")
        up_to = np.searchsorted(column, parameters[:, i], "right")
        found[:, i] = 0.5 * (below + up_to) / len(column)
    return found


def _gaps(one: Array, other: Array) -> Array:
    """Return Welch's statistics of each column and of its square, and 0 for columns that are equal."""
    one, other = (np.hstack([columns, columns**2]) for columns in (one, other))
    gap = one.mean(axis=0) - other.mean(axis=0)
    error = np.sqrt(one.var(axis=0) / len(one) + other.var(axis=0) / len(other))
    return np.where(np.abs(gap) < 1e-9, 0.0, gap / np.maximum(error, 1e-300))


def _largest(scores: Array) -> float:
    """Return the largest absolute value, at most 999."""
    return min(float(np.abs(scores).max()), 999.0)
