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

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from .._utils.arrays import Array
from ..inference.choosing import learns_tables
from ..inference.encoding import initial_of, model_of
from ..inference.step_codes import step_codes_of
from ..models import POMDP, Setting
from ..protocols import FiniteSupport, Posterior, Prior
from .observations import Densities, class_of, draw_first, draw_observation


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
    costs
        The number of the cost of each action that was seen, None if it is missing; None if costs are not
        seen.
    """

    first: Any
    actions: list[int]
    observations: list[Any]
    costs: list[int | None] | None = None


class Draw(NamedTuple):
    """A model from the prior, and a history simulated from it."""

    kernel: Array  # [A, S, S']
    initial: Array  # [S]
    history: History
    setting: Setting | None = None  # that of the model; None stands for the prior's


class Tables(NamedTuple):
    """The tables of D models of one size; an axis of length 1 stands for what all of them share."""

    observation: Array  # [D, A, S, S', O], of which the axes D and S may have length 1
    first: Array | None  # [D, S, O]; None without a first observation
    costs: Array | None  # [D, A, S, C]; None if costs are not seen


def tables_of(setting: Setting | Sequence[Setting]) -> Tables | Densities:
    """Return the tables, or densities, of one setting that all models share, or of one for each model."""
    settings = [setting] if isinstance(setting, Setting) else setting
    one = settings[0]
    if not one.is_finite:
        return Densities.of(settings)
    observation = np.stack([each.observation for each in settings])
    first = [each.first_observation for each in settings if each.first_observation is not None]
    costs = [each.seen_cost.probabilities for each in settings if each.seen_cost is not None]
    return Tables(
        observation if one.sensor_depends_on_previous else observation[:, :, None],
        np.stack(first) if first else None,
        np.stack(costs) if costs else None,
    )


def tables_are_unknown(prior: Prior) -> bool:
    """Return whether the models of a prior have observation models or seen costs of their own."""
    return learns_tables(prior) or step_codes_of(prior).unknown


def simulate_from_prior(
    prior: Prior, length: int, rng: np.random.Generator, missing_rate: float = 0.1
) -> Draw:
    """Sample θ* from the prior and simulate `length` steps.

    The actions are partly random and depend on the observations. Each observation is missing with probability
    `missing_rate`.
    """
    drawn = model_of(prior, rng)
    setting, theta, initial = drawn.setting, drawn.transition, drawn.setting.initial
    tables = tables_of(setting)
    cost_rows = tables.costs
    state = int(rng.choice(setting.n_states, p=initial))
    first = None
    if setting.has_first_observation and rng.random() >= missing_rate:
        first, newest = _observed(setting, tables, None, state, state, rng)
    actions: list[int] = []
    observations: list[Any] = []
    costs: list[int | None] | None = None if cost_rows is None else []
    newest = 0 if first is None else newest
    for t in range(length):
        a = (
            int(rng.integers(setting.n_actions))
            if rng.random() < 0.3
            else (newest + t // 5) % setting.n_actions
        )
        before, state = state, int(rng.choice(setting.n_states, p=theta[a, state]))
        observed, newest = _observed(setting, tables, a, before, state, rng)
        actions.append(a)
        observations.append(None if rng.random() < missing_rate else observed)
        if cost_rows is not None and costs is not None:
            paid = int(rng.choice(cost_rows.shape[-1], p=cost_rows[0, a, before]))
            costs.append(None if rng.random() < missing_rate else paid)
    history = History(first, actions, observations, costs)
    return Draw(theta, initial, history, setting if tables_are_unknown(prior) else None)


def _observed(
    setting: Setting,
    tables: Tables | Densities,
    action: int | None,
    before: int,
    state: int,
    rng: np.random.Generator,
) -> tuple[Any, int]:
    """Draw an observation in a state, the first one if `action` is None.

    Returns it with a small number, by which the policy chooses.
    """
    if isinstance(tables, Densities):
        drawn = draw_first(setting, state, rng) if action is None else None
        drawn = draw_observation(setting, action, state, rng) if action is not None else drawn
        return drawn, class_of(setting, action or 0, drawn)
    if action is None:
        assert tables.first is not None
        chances = tables.first[0, state]
    else:
        chances = tables.observation[0, action, before if setting.sensor_depends_on_previous else 0, state]
    number = int(rng.choice(setting.n_observations, p=chances))
    return number, number


def replay(posterior: Posterior, history: History) -> Posterior:
    """Update the posterior with the whole history, and return it."""
    posterior.start(history.first)
    add_steps(posterior, history)
    return posterior


def add_steps(posterior: Any, history: History) -> None:
    """Update the posterior with all steps of the history after the first observation."""
    if history.costs is None:
        for a, o in zip(history.actions, history.observations, strict=True):
            posterior.update(a, o)
        return
    values = posterior.setting.seen_cost.values
    for a, o, c in zip(history.actions, history.observations, history.costs, strict=True):
        posterior.update(a, o, None if c is None else float(values[c]))


def drawn_models(
    prior: Prior, posterior: Any, draws: int, rng: np.random.Generator
) -> tuple[Array, Array, Setting | list[Setting]]:
    """Sample models from a posterior.

    Returns their kernels [D, A, S, S′], their initial distributions [D, S], and the setting that they share,
    or one for each of them if observation model or costs are unknown.
    """
    if not tables_are_unknown(prior):
        kernels = np.stack([posterior.sample(rng) for _ in range(draws)])
        return kernels, np.stack([initial_of(prior, kernel) for kernel in kernels]), prior.setting
    found = [posterior.sample_model(rng) for _ in range(draws)]
    models = [
        prior.model(one.kernel_index)
        if isinstance(prior, FiniteSupport) and one.kernel_index is not None
        else POMDP(one.setting or prior.setting, one.kernel)
        for one in found
    ]
    settings = [model.setting for model in models]
    return np.stack([one.kernel for one in found]), np.stack([each.initial for each in settings]), settings


def step_likelihood(tables: Tables | Densities, history: History, i: int) -> Array:
    """Return κ η of step i under each model, shape [D, S, S′] with axes of length 1 for what is shared."""
    a, o = history.actions[i], history.observations[i]
    found = np.ones((1, 1, 1))
    if isinstance(tables, Densities):
        found = tables.likelihood(a, o)[:, None]
    elif o is not None:
        found = tables.observation[:, a, :, :, o]
    c = None if history.costs is None else history.costs[i]
    return found if c is None or tables.costs is None else found * tables.costs[:, a, :, c, None]


def first_likelihood(tables: Tables | Densities, history: History) -> Array:
    """Return η(o_1 | s) under each model, shape [D, S] with an axis of length 1 if it is shared."""
    if isinstance(tables, Densities):
        return tables.first_likelihood(history.first)
    if history.first is None or tables.first is None:
        return np.ones((1, 1))
    return tables.first[:, :, history.first]


def log_likelihood(
    setting: Setting | Sequence[Setting], kernels: Array, initial: Array, history: History
) -> Array:
    """Return log P(observations | actions, θ) of several models by the forward filter.

    If observations have a density, it is up to a constant that all models share.

    Parameters
    ----------
    setting
        The POMDP without its transition kernel, or a sequence with one for each kernel.
    kernels
        The kernels, shape [D, A, S, S′].
    initial
        The initial distributions, shape [S] or [D, S].
    history
        The observations, seen costs and actions.

    Returns
    -------
    array
        Shape [D].
    """
    return _log_likelihood(tables_of(setting), kernels, initial, history)


def _log_likelihood(tables: Tables | Densities, kernels: Array, initial: Array, history: History) -> Array:
    belief = np.broadcast_to(initial, (len(kernels), kernels.shape[-1])) * first_likelihood(tables, history)
    factors = [belief.sum(axis=1)]
    for i, a in enumerate(history.actions):
        matrices = kernels[:, a] * step_likelihood(tables, history, i)
        belief = np.einsum("ds,dst->dt", belief / np.maximum(factors[-1], 1e-300)[:, None], matrices)
        factors.append(belief.sum(axis=1))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(factors).sum(axis=0))


def functionals(
    setting: Setting | Sequence[Setting], kernels: Array, initial: Array, history: History
) -> Array:
    """Return the functions g(θ, history) of the sampling identity for several models.

    They are the scaled log-likelihood and its square, the mean logarithm of the entries, two entries, the
    square of one, the sum of squares in the most frequent action, and a product with the log-likelihood. If
    the models have settings of their own, there are as many functions of their observation models, and of
    the distributions of their seen costs.

    Parameters
    ----------
    setting, kernels, initial, history
        As for `log_likelihood`.

    Returns
    -------
    array
        Shape [D, 8]; with a setting for each model [D, 14], or [D, 20] if costs are seen.
    """
    tables = tables_of(setting)
    evidence = _log_likelihood(tables, kernels, initial, history) / np.sqrt(len(history.actions) + 1.0)
    used = int(np.bincount(history.actions, minlength=kernels.shape[1]).argmax())
    first, last = kernels[:, used, 0, 0], kernels[:, -1, -1, 0]
    logs = np.log(kernels + 1e-6).mean(axis=(1, 2, 3))  # detects a concentration that is wrong by a tenth
    squares = np.square(kernels[:, used]).sum(axis=(1, 2))
    columns = [evidence, evidence**2, logs, first, last, first**2, squares, first * evidence]
    if not isinstance(setting, Setting):
        shown = tables.squashed(used) if isinstance(tables, Densities) else tables.observation[:, used, 0]
        columns += _functions_of_table(shown, evidence)
        if tables.costs is not None:
            columns += _functions_of_table(tables.costs[:, used], evidence)
    return np.stack(columns, axis=1)


def _functions_of_table(table: Array, evidence: Array) -> list[Array]:
    """Return six functions of tables [D, S, K] and of the scaled log-likelihood [D]."""
    first, last = table[:, 0, 0], table[:, -1, 0]
    logs, squares = np.log(table + 1e-6).mean(axis=(1, 2)), np.square(table).sum(axis=(1, 2))
    return [first, last, first**2, logs, squares, first * evidence]


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
        One entry for each of the `functionals`; standard normal, approximately, if the posterior is correct.
    """
    gaps = []
    for _ in range(replicates):
        world = simulate_from_prior(prior, length, rng)
        after = replay(posterior(rng), world.history)
        kernels, starts, setting = drawn_models(prior, after, draws, rng)
        kernels, starts = (
            np.concatenate([one[None], others])
            for one, others in ((world.kernel, kernels), (world.initial, starts))
        )
        if not isinstance(setting, Setting):
            setting = [world.setting or prior.setting, *setting]
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
    """Yield every hidden path with its joint probability with the observations and seen costs."""
    tables = tables_of(setting)
    begin = initial * first_likelihood(tables, history)[0]
    steps = [
        theta[a] * step_likelihood(tables, history, i)[0]
        for i, a in enumerate(history.actions)
    ]  # fmt: skip
    for path in product(range(setting.n_states), repeat=len(history.actions) + 1):
        probability = float(begin[path[0]])
        for i, step in enumerate(steps):
            probability *= step[path[i], path[i + 1]]
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
    kernels, weights = prior.kernels, prior.weights
    shorter = without_last(history)
    before, after = np.zeros(len(kernels)), np.zeros(len(kernels))
    counts = np.zeros(prior.setting.cost.shape)
    for m, theta in enumerate(kernels):
        setting = prior.model(m).setting
        after[m] = weights[m] * sum(p for _, p in _paths(setting, theta, setting.initial, history))
        for path, probability in _paths(setting, theta, setting.initial, shorter):
            before[m] += weights[m] * probability
            for a, s in zip(history.actions, path[:-1], strict=True):
                counts[a, s] += weights[m] * probability
    return after / after.sum(), counts / before.sum()


def without_last(history: History) -> History:
    """Return the history without what came after the last action."""
    costs = None if history.costs is None else [*history.costs[:-1], None]
    return history._replace(observations=[*history.observations[:-1], None], costs=costs)
