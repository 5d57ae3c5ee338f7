"""Whether a posterior is one: tests with an exact null, for any prior that can be sampled.

Draw θ* from the prior and a history from θ*. Given the history, θ* is distributed as the posterior says, so a
kernel θ sampled from a correct posterior and θ* are alike: for every function g of (kernel, history),

    E[g(θ, history)] = E[g(θ*, history)],

the sampling identity on which the paper's analysis rests. Over independent replicates the mean difference,
over its standard error, is a z-score. Among the functions is the exact log-likelihood of the history: a
sampler that lags behind its data, or has forgotten some of them, shows there first (and often nowhere
else). Squares show posteriors that are too narrow or too wide.
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
    """One life: o_1 (or None), then pairs of an action and a reading (or None where it was lost)."""

    first: int | None
    actions: list[int]
    readings: list[int | None]


class Draw(NamedTuple):
    """A kernel from the prior, the start that goes with it, and what happened in it."""

    kernel: Array  # [A, S, S']
    initial: Array  # [S]
    history: History


def simulate(prior: Prior, length: int, rng: np.random.Generator, lost: float = 0.1) -> Draw:
    """θ* ~ f, then `length` steps; actions depend on readings, and a share `lost` of readings is lost."""
    setting = prior.setting
    drawn = model_of(prior, rng)
    theta, initial = drawn.transition, drawn.setting.initial
    state = int(rng.choice(setting.n_states, p=initial))
    first = None
    if setting.first_observation is not None and rng.random() >= lost:
        first = int(rng.choice(setting.n_observations, p=setting.first_observation[state]))
    actions: list[int] = []
    readings: list[int | None] = []
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
        readings.append(None if rng.random() < lost else newest)
    return Draw(theta, initial, History(first, actions, readings))


def replay(posterior: Posterior, history: History) -> Posterior:
    """The posterior after the whole history."""
    posterior.start(history.first)
    for a, o in zip(history.actions, history.readings, strict=True):
        posterior.update(a, o)
    return posterior


def log_likelihood(setting: Setting, kernels: Array, initial: Array, history: History) -> Array:
    """[D]: log P(readings | actions, θ) for `kernels[D, A, S, S′]`, by the filter, a line a step."""
    belief = np.broadcast_to(initial, (len(kernels), setting.n_states))
    if history.first is not None and setting.first_observation is not None:
        belief = belief * setting.first_observation[:, history.first]
    chances = [belief.sum(axis=1)]
    for a, o in zip(history.actions, history.readings, strict=True):
        belief = np.einsum("ds,dst->dt", belief / np.maximum(chances[-1], 1e-300)[:, None], kernels[:, a])
        if o is not None:
            belief = belief * setting.observation[a, :, o]
        chances.append(belief.sum(axis=1))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(chances).sum(axis=0))


def functionals(setting: Setting, kernels: Array, initial: Array, history: History) -> Array:
    """[D, 8]: g(θ, history) for each kernel: the log-likelihood first; then what θ is, on the whole and in
    two of its corners."""
    evidence = log_likelihood(setting, kernels, initial, history) / np.sqrt(len(history.actions) + 1.0)
    used = int(np.bincount(history.actions, minlength=setting.n_actions).argmax())
    first, last = kernels[:, used, 0, 0], kernels[:, -1, -1, 0]
    logs = np.log(kernels + 1e-6).mean(axis=(1, 2, 3))  # shows a concentration that is off by a tenth
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
    """z-scores, one for each functional: how far samples are from the truths behind the histories."""
    setting = prior.setting
    gaps = []
    for _ in range(replicates):
        world = simulate(prior, length, rng)
        after = replay(posterior(rng), world.history)
        kernels = np.stack([world.kernel, *(after.sample(rng) for _ in range(draws))])
        starts = np.stack([world.initial, *(initial_of(prior, k) for k in kernels[1:])])
        found = functionals(setting, kernels, starts, world.history)
        gaps.append(found[1:].mean(axis=0) - found[0])
    return z_scores(np.array(gaps))


def z_scores(gaps: Array) -> Array:
    """Mean over standard error of each column; 0 where a column is zero throughout."""
    error = gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
    negligible = np.abs(gaps).max(axis=0) < 1e-9  # a functional that the prior fixes
    return np.where(negligible, 0.0, gaps.mean(axis=0) / np.where(error > 0, error, 1e-300))


def _paths(
    setting: Setting, theta: Array, initial: Array, history: History
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every hidden path, with its joint probability with the readings."""
    for path in product(range(setting.n_states), repeat=len(history.actions) + 1):
        chance = float(initial[path[0]])
        if history.first is not None and setting.first_observation is not None:
            chance *= setting.first_observation[path[0], history.first]
        for i, (a, o) in enumerate(zip(history.actions, history.readings, strict=True)):
            chance *= theta[a, path[i], path[i + 1]]
            chance *= 1.0 if o is None else setting.observation[a, path[i + 1], o]
        if chance > 0:
            yield path, chance


def belief_by_paths(setting: Setting, theta: Array, initial: Array, history: History) -> Array:
    """h_t(·; θ) by adding up every hidden path: for short histories only."""
    total = np.zeros(setting.n_states)
    for path, chance in _paths(setting, theta, initial, history):
        total[path[-1]] += chance
    return np.asarray(total / total.sum())


def exact_finite(prior: Prior, history: History) -> tuple[Array, Array]:
    """f_t `[M]` and ñ_t `[A, S]` of a prior over finitely many kernels, by every hidden path."""
    assert isinstance(prior, FiniteSupport)
    kernels, weights = prior.kernels, prior.weights
    starts = [prior.model(m).setting.initial for m in range(len(prior))]
    shorter = History(history.first, history.actions[:-1], history.readings[:-1])
    before, after = np.zeros(len(kernels)), np.zeros(len(kernels))
    counts = np.zeros(prior.setting.cost.shape)
    for m, (theta, initial) in enumerate(zip(kernels, starts, strict=True)):
        after[m] = weights[m] * sum(chance for _, chance in _paths(prior.setting, theta, initial, history))
        for path, chance in _paths(prior.setting, theta, initial, shorter):
            before[m] += weights[m] * chance
            for a, s in zip(history.actions, path, strict=True):
                counts[a, s] += weights[m] * chance
    return after / after.sum(), counts / before.sum()
