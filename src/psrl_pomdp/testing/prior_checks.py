"""Requirements on priors: samples, density, kernels and saved states."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from .._utils.issues import Issue
from ..errors import PSRLError
from ..inference.choosing import declared_support
from ..inference.encoding import check_protocol
from ..inference.parametric_prior import ParametricPrior, checked_density, checked_kernels, checked_sample
from ..models import kernel
from ..protocols import FiniteSupport, Prior, ResumablePrior
from .calibration import add_steps, replay, simulate_from_prior, z_scores
from .sampler_checks import ranks_in, sampler_violations

_THRESHOLD = 5.5  # of each z-score: false alarm rate 3.8e-8
_STEPS = 25  # of the random walk that leaves the density invariant
_BINS = 16  # intervals of each parameter, of equal probability
_FEW = 16  # samples that are checked one by one
_MOST_KERNELS = 4000  # samples of a finite set, which are drawn one by one


def check_prior(prior: Prior, *, samples: int = 20_000, seed: int = 0) -> list[Issue]:
    """Check a prior.

    Samples must be kernels, lie within the prior's support, and be the same for the same seed. A posterior
    that is saved and restored must continue like one that is not. Samples from a finite prior must follow its
    weights. For a `ParametricPrior`, the kernels and the density of a parameter vector must not depend on the
    other vectors in the call; gradients, if there are any, must agree with finite differences; the parameter
    vectors of one call must be independent and have the distribution of those of other calls; a subclass's
    own `sample` must have the distribution of `kernels(sample_parameters(rng, N))`; and `log_density` must be
    the density of `sample_parameters`. For the last check, random walks that leave the density invariant
    start from the samples: if the samples have this density, the end points have the same distribution as the
    starting points.

    Parameters
    ----------
    prior
        Any object with the names of `psrl_pomdp.protocols.Prior`.
    samples
        The number of samples in the statistical comparisons.
    seed
        The seed of all random numbers.

    Returns
    -------
    list of Issue
        One error for each violated requirement. The false alarm rate is at most (22d + 4E + 1) × 3.8e-8 for a
        prior with d parameters and kernels with E entries, and E × 3.8e-8 for a finite set of kernels.

    >>> from psrl_pomdp import problem
    >>> check_prior(problem("separated").prior)
    []
    """
    found = []
    try:
        for text in _violations(prior, samples, seed):
            found.append(Issue("error", text))
    except PSRLError as error:
        found.append(Issue("error", str(error)))
    except Exception as error:
        found.append(Issue("error", f"raised {error!r}"))
    return found


def _violations(prior: Prior, samples: int, seed: int) -> Iterator[str]:
    check_protocol(prior)
    yield from _samples(prior, seed)
    if isinstance(prior, FiniteSupport):
        yield from _frequencies(prior, min(samples, _MOST_KERNELS), seed)
    if isinstance(prior, ParametricPrior):
        yield from _independence(prior, seed)
        yield from _gradients(prior, seed)
        yield from sampler_violations(prior, samples, seed, _THRESHOLD)
        yield from _density(prior, samples, seed)
    if isinstance(prior, ResumablePrior):
        yield from _copies(prior)
        yield from _saved_posterior(prior, seed)


def _samples(prior: Prior, seed: int) -> Iterator[str]:
    rng = np.random.default_rng(seed)
    drawn = [kernel(f"sample {i}", prior.sample(rng), prior.setting) for i in range(_FEW)]
    again = prior.sample(np.random.default_rng(seed))
    if not np.allclose(drawn[0], again, rtol=0.0, atol=1e-12):
        yield "the same seed gave another sample"
    support = declared_support(prior)
    if support is not None and any((one[~support] > 0.0).any() for one in drawn):
        yield "a sample has a transition that the prior's support excludes"


def _frequencies(prior: FiniteSupport, samples: int, seed: int) -> Iterator[str]:
    rng = np.random.default_rng(seed)
    if abs(float(np.sum(prior.weights)) - 1.0) > 1e-9:
        yield f"weights sum to {float(np.sum(prior.weights)):.10g}"
        return
    mean = np.tensordot(prior.weights, prior.kernels, axes=1)
    gaps = np.array([(prior.sample(rng) - mean).ravel() for _ in range(samples)])
    worst = float(np.abs(z_scores(gaps)).max())
    if worst > _THRESHOLD:
        yield f"samples do not follow the weights: an entry's mean deviates by {worst:.1f} standard errors"


def _independence(prior: ParametricPrior, seed: int) -> Iterator[str]:
    parameters = checked_sample(prior, np.random.default_rng(seed), _FEW)
    for method, checked in (("log_density", checked_density), ("kernels", checked_kernels)):
        together = checked(prior, parameters)
        apart = np.concatenate([checked(prior, one[None]) for one in parameters])
        if not np.allclose(together, apart, rtol=1e-9, atol=1e-12):
            yield f"{method} of a parameter vector depends on the others in the same call"
        if not np.array_equal(together, checked(prior, parameters)):
            yield f"{method} returned something else when it was called again"
    if not np.isfinite(checked_density(prior, parameters)).all():
        yield "log_density is -inf at parameters that sample_parameters returned"


def _gradients(prior: Any, seed: int) -> Iterator[str]:
    parameters = checked_sample(prior, np.random.default_rng(seed), _FEW)
    density = checked_density(prior, parameters)
    checks: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
        ("log_density_gradient", checked_density),
        ("kernel_gradient", checked_kernels),
    )
    for name, function in checks:
        if not hasattr(prior, name):
            continue
        found = np.asarray(getattr(prior, name)(parameters), dtype=np.float64)
        for i in range(parameters.shape[1]):
            step = np.zeros_like(parameters)
            step[:, i] = 1e-6 * (np.abs(parameters[:, i]) + 1e-2)
            inside = np.isfinite(checked_density(prior, parameters + step))
            inside &= np.isfinite(checked_density(prior, parameters - step)) & np.isfinite(density)
            if not inside.any():
                continue
            rise = function(prior, (parameters + step)[inside]) - function(prior, (parameters - step)[inside])
            slope = rise / (2.0 * step[inside, i]).reshape(-1, *[1] * (rise.ndim - 1))
            if found.shape[:2] != parameters.shape or not np.allclose(
                found[inside, i], slope, rtol=1e-3, atol=1e-3 * (1.0 + np.abs(slope).max())
            ):
                yield f"{name} does not agree with finite differences for parameter {i}"
                break


def _density(prior: ParametricPrior, samples: int, seed: int) -> Iterator[str]:
    """Functions of the start and of the end of random walks must have the same mean."""
    rng = np.random.default_rng(seed)
    pilot = checked_sample(prior, rng, 500)  # independent of the walks, so that they stay invariant
    width = pilot.std(axis=0)
    start = checked_sample(prior, rng, samples)
    before = checked_density(prior, start)
    if not np.isfinite(before).all():
        return  # `_independence` reports it
    end, density = start.copy(), before.copy()
    for _ in range(_STEPS):
        size = np.exp(rng.uniform(np.log(0.05), np.log(2.0), (samples, 1))) / np.sqrt(start.shape[1])
        proposal = end + size * width * rng.standard_normal(end.shape)
        proposed_density = checked_density(prior, proposal)
        accepted = np.log(rng.random(samples)) < proposed_density - density
        end = np.where(accepted[:, None], proposal, end)
        density = np.where(accepted, proposed_density, density)
    d = start.shape[1]
    names = [f"parameter {i}" for i in range(d)]
    bins = [np.floor(_BINS * np.minimum(ranks_in(pilot, x), 1.0 - 1e-9)) for x in (start, end)]
    moved = [(bins[1] == k).astype(float) - (bins[0] == k) for k in range(_BINS)]
    scores = z_scores(
        np.concatenate([end - start, end**2 - start**2, *moved, (density - before)[:, None]], axis=1)
    )
    labels = [*names, *(f"{name} squared" for name in names)]
    labels += [f"the frequency of an interval of {name}" for _ in range(_BINS) for name in names]
    labels.append("the log density")
    worst = int(np.abs(scores).argmax())
    if not abs(scores[worst]) < _THRESHOLD:
        yield (
            f"log_density is not the density of sample_parameters: {labels[worst]} deviates by "
            f"{abs(scores[worst]):.1f} standard errors"
        )


def _copies(prior: ResumablePrior) -> Iterator[str]:
    """Check that a copy and a pickled prior have the same fingerprint."""
    if deepcopy(prior).fingerprint != prior.fingerprint:
        yield "a copy of the prior has another fingerprint"
    try:
        pickled = pickle.loads(pickle.dumps(prior))
    except Exception as error:
        yield f"it cannot be pickled, so studies cannot run it in other processes: {error!r}"
    else:
        if pickled.fingerprint != prior.fingerprint:
            yield "after pickling, it has another fingerprint"


def _saved_posterior(prior: ResumablePrior, seed: int) -> Iterator[str]:
    """Check that a posterior that is saved and restored continues like one that is not."""
    world = simulate_from_prior(prior, 40, np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    posterior: Any = replay(prior.posterior(rng), world.history)
    refresh = getattr(posterior, "refresh", None)
    if refresh is not None:
        refresh()
    twin = np.random.default_rng(0)
    twin.bit_generator.state = rng.bit_generator.state
    restored: Any = prior.restore(posterior.state(), twin)
    for one in (posterior, restored):
        add_steps(one, world.history)
    pairs = ((p.sample(np.random.default_rng(seed)), p.expected_counts) for p in (posterior, restored))
    for one, other in zip(*pairs, strict=True):
        if not np.array_equal(one, other):
            yield "a posterior that was saved and restored continues differently from one that was not"
            return
