"""Simulation-based calibration of a posterior: exact tests for any prior that can be sampled.

Sample θ* from the prior and a history from θ*. Given the history, θ* has the posterior distribution. So a
kernel θ sampled from a correct posterior has the same distribution as θ*: for every function g of kernel and
history,

    E[g(θ, history)] = E[g(θ*, history)].

This is the sampling identity on which the paper's analysis rests. Over independent replicates, the mean
difference divided by its standard error is a z-score. One of the functions is the exact log-likelihood of the
history: it detects a sampler that ignores recent or old observations, often as the only one. Squares detect
posteriors that are too narrow or too wide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from .._utils.arrays import Array
from ..inference.encoding import initial_of, model_of
from ..models import Setting
from ..protocols import FiniteSupport, Posterior, Prior


class History(NamedTuple):
    """The history of one trajectory.

    Attributes
    ----------
    first
        The first observation o_1; None if there is none or if it is missing.
    actions
        The actions.
    observations
        The observation after each action; None if it is missing.
    """

    first: int | None
    actions: list[int]
    observations: list[int | None]


class Draw(NamedTuple):
    """A kernel from the prior, its initial distribution, and a history simulated from them."""

    kernel: Array  # [A, S, S']
    initial: Array  # [S]
    history: History


def simulate_from_prior(
    prior: Prior, length: int, rng: np.random.Generator, missing_rate: float = 0.1
) -> Draw:
    """Sample θ* from the prior and simulate `length` steps.

    The actions are partly random and depend on the observations. Each observation is missing with probability
    `missing_rate`.
    """
    setting = prior.setting
    drawn = model_of(prior, rng)
    theta, initial = drawn.transition, drawn.setting.initial
    state = int(rng.choice(setting.n_states, p=initial))
    first = None
    if setting.first_observation is not None and rng.random() >= missing_rate:
        first = int(rng.choice(setting.n_observations, p=setting.first_observation[state]))
    actions: list[int] = []
    observations: list[int | None] = []
    newest = first or 0
    for t in range(length):
        a = (
            int(rng.integers(setting.n_actions))
            if rng.random() < 0.3
            else (newest + t // 5) % setting.n_actions
        )
        state = int(rng.choice(setting.n_states, p=theta[a, state]))
        newest = int(rng.choice(setting.n_observations, p=setting.observation[a, state]))
        actions.append(a)
        observations.append(None if rng.random() < missing_rate else newest)
    return Draw(theta, initial, History(first, actions, observations))


def replay(posterior: Posterior, history: History) -> Posterior:
    """Update the posterior with the whole history, and return it."""
    posterior.start(history.first)
    for a, o in zip(history.actions, history.observations, strict=True):
        posterior.update(a, o)
    return posterior


def log_likelihood(setting: Setting, kernels: Array, initial: Array, history: History) -> Array:
    """Return log P(observations | actions, θ) of several kernels by the forward filter.

    Parameters
    ----------
    setting
        The POMDP without its transition kernel.
    kernels
        The kernels, shape [D, A, S, S′].
    initial
        The initial distributions, shape [S] or [D, S].
    history
        The observations and actions.

    Returns
    -------
    array
        Shape [D].
    """
    belief = np.broadcast_to(initial, (len(kernels), setting.n_states))
    if history.first is not None and setting.first_observation is not None:
        belief = belief * setting.first_observation[:, history.first]
    factors = [belief.sum(axis=1)]
    for a, o in zip(history.actions, history.observations, strict=True):
        belief = np.einsum("ds,dst->dt", belief / np.maximum(factors[-1], 1e-300)[:, None], kernels[:, a])
        if o is not None:
            belief = belief * setting.observation[a, :, o]
        factors.append(belief.sum(axis=1))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(factors).sum(axis=0))


def functionals(setting: Setting, kernels: Array, initial: Array, history: History) -> Array:
    """Return the eight functions g(θ, history) of the sampling identity for several kernels.

    They are the scaled log-likelihood and its square, the mean logarithm of the entries, two entries, the
    square of one, the sum of squares in the most frequent action, and a product with the log-likelihood.

    Parameters
    ----------
    setting, kernels, initial, history
        As for `log_likelihood`.

    Returns
    -------
    array
        Shape [D, 8].
    """
    evidence = log_likelihood(setting, kernels, initial, history) / np.sqrt(len(history.actions) + 1.0)
    used = int(np.bincount(history.actions, minlength=setting.n_actions).argmax())
    first, last = kernels[:, used, 0, 0], kernels[:, -1, -1, 0]
    logs = np.log(kernels + 1e-6).mean(axis=(1, 2, 3))  # detects a concentration that is wrong by a tenth
    squares = np.square(kernels[:, used]).sum(axis=(1, 2))
    columns = (evidence, evidence**2, logs, first, last, first**2, squares, first * evidence)
    return np.stack(columns, axis=1)


def sampling_identity(
    prior: Prior,
    posterior: Callable[[np.random.Generator], Posterior],
    replicates: int,
    length: int,
    rng: np.random.Generator,
    draws: int = 8,
) -> Array:
    """Return the z-score of the sampling identity for each of the `functionals`.

    Parameters
    ----------
    prior
        The prior from which the true kernels are sampled.
    posterior
        Called with a random generator to create a posterior.
    replicates
        The number of histories.
    length
        The number of steps of each history.
    rng
        The source of all random numbers.
    draws
        The number of samples from each posterior.

    Returns
    -------
    array
        Shape [8]; standard normal, approximately, if the posterior is correct.
    """
    setting = prior.setting
    gaps = []
    for _ in range(replicates):
        world = simulate_from_prior(prior, length, rng)
        after = replay(posterior(rng), world.history)
        kernels = np.stack([world.kernel, *(after.sample(rng) for _ in range(draws))])
        starts = np.stack([world.initial, *(initial_of(prior, k) for k in kernels[1:])])
        found = functionals(setting, kernels, starts, world.history)
        gaps.append(found[1:].mean(axis=0) - found[0])
    return z_scores(np.array(gaps))


def z_scores(gaps: Array) -> Array:
    """Return the mean of each column over its standard error, and 0 for columns of zeros."""
    error = gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
    negligible = np.abs(gaps).max(axis=0) < 1e-9  # a function that is constant under the prior
    return np.where(negligible, 0.0, gaps.mean(axis=0) / np.where(error > 0, error, 1e-300))


def _paths(
    setting: Setting, theta: Array, initial: Array, history: History
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield every hidden path with its joint probability with the observations."""
    for path in product(range(setting.n_states), repeat=len(history.actions) + 1):
        probability = float(initial[path[0]])
        if history.first is not None and setting.first_observation is not None:
            probability *= setting.first_observation[path[0], history.first]
        for i, (a, o) in enumerate(zip(history.actions, history.observations, strict=True)):
            probability *= theta[a, path[i], path[i + 1]]
            probability *= 1.0 if o is None else setting.observation[a, path[i + 1], o]
        if probability > 0:
            yield path, probability


def belief_by_paths(setting: Setting, theta: Array, initial: Array, history: History) -> Array:
    """Return h_t(·; θ) as the sum over all hidden paths; feasible for short histories only."""
    total = np.zeros(setting.n_states)
    for path, probability in _paths(setting, theta, initial, history):
        total[path[-1]] += probability
    return np.asarray(total / total.sum())


def exact_finite(prior: FiniteSupport, history: History) -> tuple[Array, Array]:
    """Return f_t `[M]` and ñ_t `[A, S]` of a finite prior as sums over all hidden paths."""
    setting, kernels, weights = prior.setting, prior.kernels, prior.weights
    starts = [prior.model(m).setting.initial for m in range(len(prior))]
    shorter = History(history.first, history.actions[:-1], history.observations[:-1])
    before, after = np.zeros(len(kernels)), np.zeros(len(kernels))
    counts = np.zeros(setting.cost.shape)
    for m, (theta, initial) in enumerate(zip(kernels, starts, strict=True)):
        after[m] = weights[m] * sum(p for _, p in _paths(setting, theta, initial, history))
        for path, probability in _paths(setting, theta, initial, shorter):
            before[m] += weights[m] * probability
            for a, s in zip(history.actions, path, strict=True):
                counts[a, s] += weights[m] * probability
    return after / after.sum(), counts / before.sum()
