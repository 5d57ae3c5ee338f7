"""Whether a prior is one: its samples, its density, its kernels and its files."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from .._utils.issues import Issue
from ..errors import PSRLError
from ..inference.encoding import check_protocol
from ..inference.parametric_prior import ParametricPrior, checked_density, checked_kernels, checked_sample
from ..models import kernel
from ..protocols import FiniteSupport, HasSupport, Prior, ResumablePrior
from .calibration import replay, simulate, z_scores

THRESHOLD = 5.5  # of a z-score: false alarm 3.8e-8 each
_STEPS = 25  # of the random walk that must leave the density as it is
_FEW = 16  # samples that are looked at one by one


def check_prior(prior: Prior, *, samples: int = 4000, seed: int = 0) -> list[Issue]:
    """Say what is wrong with a prior.

    Samples must be kernels, lie within the prior's support, and be the same for the same seed. A posterior
    that is saved and restored must go on as if it had not been. A finite set must be drawn from by its
    weights. Of a `ParametricPrior` the kernels and the density of a parameter vector may not depend on the
    others in the call; gradients, where there are any, must be those of finite differences; and `log_density`
    must be the density of `sample_parameters`: random walks that leave the density invariant start from the
    samples, and if these have that density, where the walks end has the same distribution as where they
    start.

    Parameters
    ----------
    prior
        Any object with the names of `psrl_pomdp.protocols.Prior`.
    samples
        How many samples the statistical comparisons have.
    seed
        Of all random numbers.

    Returns
    -------
    list of Finding
        What is wrong; an empty list where nothing is. A right prior with d parameters is reported with
        probability at most (2d + 1) × 3.8e-8, and a finite set of kernels with E entries with E × 3.8e-8.

    >>> from psrl_pomdp import problem
    >>> check_prior(problem("separated").prior)
    []
    """
    found = []
    try:
        for text in _wrong(prior, samples, seed):
            found.append(Issue("error", text))
    except PSRLError as error:
        found.append(Issue("error", str(error)))
    except Exception as error:
        found.append(Issue("error", f"raised {error!r}"))
    return found


def _wrong(prior: Prior, samples: int, seed: int) -> Iterator[str]:
    check_protocol(prior)
    yield from _samples(prior, seed)
    if isinstance(prior, FiniteSupport):
        yield from _frequencies(prior, samples, seed)
    if isinstance(prior, ParametricPrior):
        yield from _one_by_one(prior, seed)
        yield from _gradients(prior, seed)
        yield from _density(prior, samples, seed)
    yield from _files(prior, seed)


def _samples(prior: Prior, seed: int) -> Iterator[str]:
    rng = np.random.default_rng(seed)
    drawn = [kernel(f"sample {i}", prior.sample(rng), prior.setting) for i in range(_FEW)]
    again = prior.sample(np.random.default_rng(seed))
    if not np.allclose(drawn[0], again, rtol=0.0, atol=1e-12):
        yield "the same seed gave another sample"
    if isinstance(prior, HasSupport) and prior.support is not None:
        support = np.asarray(prior.support)
        if any((one[~support] > 0.0).any() for one in drawn):
            yield "a sample has a transition that the prior's support rules out"


def _frequencies(prior: Any, samples: int, seed: int) -> Iterator[str]:
    rng = np.random.default_rng(seed)
    if abs(float(np.sum(prior.weights)) - 1.0) > 1e-9:
        yield f"weights sum to {float(np.sum(prior.weights)):.10g}"
        return
    mean = np.tensordot(prior.weights, prior.kernels, axes=1)
    gaps = np.array([(prior.sample(rng) - mean).ravel() for _ in range(samples)])
    worst = float(np.abs(z_scores(gaps)).max())
    if worst > THRESHOLD:
        yield f"samples are not drawn by the weights: an entry's mean is off by {worst:.1f} standard errors"


def _one_by_one(prior: ParametricPrior, seed: int) -> Iterator[str]:
    parameters = checked_sample(prior, np.random.default_rng(seed), _FEW)
    for method, checked in (("log_density", checked_density), ("kernels", checked_kernels)):
        together = checked(prior, parameters)
        apart = np.concatenate([checked(prior, one[None]) for one in parameters])
        if not np.allclose(together, apart, rtol=1e-9, atol=1e-12):
            yield f"{method} of a parameter vector depends on the others in the same call"
        if not np.array_equal(together, checked(prior, parameters)):
            yield f"{method} gave something else when it was called again"
    if not np.isfinite(checked_density(prior, parameters)).all():
        yield "log_density is -inf at parameters that sample_parameters has drawn"


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
            near = np.isfinite(checked_density(prior, parameters + step))
            near &= np.isfinite(checked_density(prior, parameters - step)) & np.isfinite(density)
            if not near.any():
                continue
            rise = function(prior, (parameters + step)[near]) - function(prior, (parameters - step)[near])
            slope = rise / (2.0 * step[near, i]).reshape(-1, *[1] * (rise.ndim - 1))
            if found.shape[:2] != parameters.shape or not np.allclose(
                found[near, i], slope, rtol=1e-3, atol=1e-3 * (1.0 + np.abs(slope).max())
            ):
                yield f"{name} is not the slope of what it should be, by parameter {i}"
                break


def _density(prior: ParametricPrior, samples: int, seed: int) -> Iterator[str]:
    """Paired differences of functions of the end and of the start of random walks, which have mean zero."""
    rng = np.random.default_rng(seed)
    width = checked_sample(prior, rng, 500).std(axis=0)  # other samples: steps are not fitted to the walks
    start = checked_sample(prior, rng, samples)
    before = checked_density(prior, start)
    if not np.isfinite(before).all():
        return  # said already
    end, now = start.copy(), before.copy()
    for _ in range(_STEPS):
        size = np.exp(rng.uniform(np.log(0.05), np.log(2.0), (samples, 1))) / np.sqrt(start.shape[1])
        proposal = end + size * width * rng.standard_normal(end.shape)
        there = checked_density(prior, proposal)
        taken = np.log(rng.random(samples)) < there - now
        end, now = np.where(taken[:, None], proposal, end), np.where(taken, there, now)
    names = [f"parameter {i}" for i in range(start.shape[1])]
    columns = [end - start, end**2 - start**2, (now - before)[:, None]]
    scores = z_scores(np.concatenate(columns, axis=1))
    labels = [*names, *(f"{name} squared" for name in names), "the log density"]
    worst = int(np.abs(scores).argmax())
    if not abs(scores[worst]) < THRESHOLD:
        yield (
            f"log_density is not the density of sample_parameters: {labels[worst]} is off by "
            f"{abs(scores[worst]):.1f} standard errors"
        )


def _files(prior: Prior, seed: int) -> Iterator[str]:
    """Fingerprints, copies, and a posterior that is saved and restored."""
    if not isinstance(prior, ResumablePrior):
        return
    if deepcopy(prior).fingerprint != prior.fingerprint:
        yield "a copy of the prior has another fingerprint"
    try:
        pickled = pickle.loads(pickle.dumps(prior))
    except Exception as error:
        yield f"it cannot be pickled, so that no study can run it in other processes: {error!r}"
    else:
        if pickled.fingerprint != prior.fingerprint:
            yield "pickled and unpickled, it has another fingerprint"
    world = simulate(prior, 40, np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    posterior: Any = replay(prior.posterior(rng), world.history)
    refresh = getattr(posterior, "refresh", None)
    if refresh is not None:
        refresh()
    twin = np.random.default_rng(0)
    twin.bit_generator.state = rng.bit_generator.state
    restored: Any = prior.restore(posterior.state(), twin)
    for a, o in zip(world.history.actions, world.history.readings, strict=True):
        posterior.update(a, o)
        restored.update(a, o)
    pairs = ((p.sample(np.random.default_rng(seed)), p.expected_counts) for p in (posterior, restored))
    for one, other in zip(*pairs, strict=True):
        if not np.array_equal(one, other):
            yield "a posterior that was saved and restored goes on otherwise than the one that was not"
            return
