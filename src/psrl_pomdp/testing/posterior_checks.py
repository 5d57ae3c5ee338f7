"""Requirements on posteriors, which `check_posterior` tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from .._utils.arrays import Array
from ..agents.schedules import TSDESchedule
from ..errors import CoarsePlanWarning, ImpossibleObservationError
from ..inference.choosing import learns_sensor
from ..inference.encoding import model_of
from ..inference.step_codes import step_codes_of
from ..models import Setting
from ..protocols import Compilable, FiniteSupport, Posterior, Prior, SamplesWithBelief, WeightedKernels
from .calibration import (
    Draw,
    belief_by_paths,
    drawn_models,
    exact_finite,
    replay,
    sampling_identity,
    simulate_from_prior,
)
from .importance_checks import importance_violations
from .observations import impossible_observation

Factory = Callable[[np.random.Generator], Posterior]

_MAX_PATHS = 20_000  # hidden paths that are enumerated
_DRIVERS: tuple[Literal["compiled"], Literal["streaming"]] = ("compiled", "streaming")
_THRESHOLD = 5.0  # of 8 to 20 z-scores: false alarm rate 8 × 5.7e-7 to 20 × 5.7e-7
_FUNCTIONALS = (
    "the log-likelihood",
    "the log-likelihood squared",
    "the mean logarithm of the entries",
    "an entry of the most frequent action",
    "an entry",
    "the square of an entry of the most frequent action",
    "the sum of squares of the most frequent action",
    "an entry of the most frequent action times the log-likelihood",
    *(
        text.format(table)
        for table in ("the observation model", "the distribution of seen costs")
        for text in (
            "an entry of {}",
            "another entry of {}",
            "the square of an entry of {}",
            "the mean logarithm of {}",
            "the sum of squares of {}",
            "an entry of {} times the log-likelihood",
        )
    ),
)


def posterior_violations(
    prior: Prior, factory: Factory, replicates: int, length: int, seed: int
) -> Iterator[str]:
    """Yield one sentence for each requirement that the posterior violates."""
    rng = np.random.default_rng(seed)
    setting = prior.setting
    short = max(1, min(length, int(np.log(_MAX_PATHS) / np.log(max(setting.n_states, 2))) - 1))
    world = simulate_from_prior(prior, short, rng)
    posterior = replay(factory(np.random.default_rng(seed)), world.history)
    yield from _shapes(prior, posterior, world, rng)
    yield from _reproducibility(factory, world, seed)
    yield from _consistency(posterior, seed)
    yield from _sums_over_paths(prior, posterior, world, rng)
    yield from _impossible_observation(prior, factory, rng)
    z = sampling_identity(prior, factory, replicates, length, rng)
    for name, score in zip(_FUNCTIONALS, z, strict=False):  # some only with unknown tables
        if not abs(score) < _THRESHOLD:
            yield (
                f"samples after {length} steps are not distributed as the truth: {name} deviates by "
                f"{score:+.1f} standard errors over {replicates} trajectories"
            )
    yield from importance_violations(prior, factory, replicates, length, seed)
    yield from _same_actions_compiled(prior, factory, length, seed)


def _shapes(prior: Prior, posterior: Posterior, world: Draw, rng: np.random.Generator) -> Iterator[str]:
    setting = prior.setting
    drawn, counts = posterior.sample(rng), posterior.expected_counts
    wanted = (setting.n_actions, setting.n_states, setting.n_states)
    if drawn.shape != wanted or (drawn < 0).any() or np.abs(drawn.sum(axis=-1) - 1).max() > 1e-9:
        yield f"a sample is not a kernel of shape {wanted} whose rows are distributions"
    if counts.shape != wanted[:2] or (counts < -1e-9).any():
        yield f"expected_counts are not nonnegative numbers of shape {wanted[:2]}"
    elif abs(counts.sum() - len(world.history.actions)) > 1e-6:
        steps = len(world.history.actions)
        yield f"expected_counts add up to {counts.sum():.6g} after {steps} steps"


def _reproducibility(factory: Factory, world: Draw, seed: int) -> Iterator[str]:
    twice = [replay(factory(np.random.default_rng(seed)), world.history) for _ in range(2)]
    one, other = (posterior.sample(np.random.default_rng(seed)) for posterior in twice)
    if not np.array_equal(one, other):
        yield "the same seed gave another sample"


def _consistency(posterior: Posterior, seed: int) -> Iterator[str]:
    """`sample_model`, `sample`, `belief`, `kernels` and `weights` must agree with each other."""
    if isinstance(posterior, SamplesWithBelief):
        drawn = posterior.sample_model(np.random.default_rng(seed))
        if not np.array_equal(drawn.kernel, posterior.sample(np.random.default_rng(seed))):
            yield "sample_model and sample return different kernels for the same random numbers"
        elif (
            drawn.setting is None  # else the belief belongs to a sampled observation model too
            and np.abs(drawn.belief - posterior.belief(drawn.kernel)).max() > 1e-9
        ):
            yield "sample_model returns another belief than belief(kernel)"
    if isinstance(posterior, WeightedKernels):
        if abs(posterior.weights.sum() - 1.0) > 1e-9 or (posterior.weights < 0).any():
            yield "weights are not a probability distribution"
        matches = (posterior.kernels == posterior.sample(np.random.default_rng(seed))).all(axis=(1, 2, 3))
        if not matches.any():
            yield "a sample is not one of the posterior's kernels"


class _WithPosterior:
    """A prior with another posterior."""

    def __init__(self, prior: Prior, factory: Factory) -> None:
        self.setting, self.sample, self.posterior = prior.setting, prior.sample, factory
        self.step_codes = step_codes_of(prior)


def _same_actions_compiled(prior: Prior, factory: Factory, length: int, seed: int) -> Iterator[str]:
    """Check that an agent chooses the same actions step by step and in the compiled loop."""
    own = factory(np.random.default_rng(seed))
    if not isinstance(own, Compilable) or (learns_sensor(prior) and not prior.setting.is_finite):
        return
    from ..agents.planning_budget import PlanningBudget
    from ..agents.psrl import PSRLAgent
    from ..simulation.runs import simulate

    world = model_of(prior, np.random.default_rng(seed))
    budget = PlanningBudget(min_tolerance=0.01, max_tolerance=0.1, rtol=np.inf, max_work=1e6, max_points=200)
    runs = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoarsePlanWarning)
        for driver in _DRIVERS:
            agent = PSRLAgent(_WithPosterior(prior, factory), TSDESchedule(), seed, budget=budget)
            runs.append(simulate(world, agent, 4 * length, seed, driver=driver))
    one, other = runs
    for what, same in (
        ("actions", np.array_equal(one.actions, other.actions)),
        ("episodes", one.episodes == other.episodes),
        ("expected counts", np.array_equal(one.checkpoints.expected, other.checkpoints.expected)),
    ):
        if not same:
            yield f"the compiled loop gives other {what} than one observation at a time"
            return


def _sums_over_paths(
    prior: Prior, posterior: Posterior, world: Draw, rng: np.random.Generator
) -> Iterator[str]:
    """Beliefs, and for a finite prior weights and counts, must equal the sums over all hidden paths."""
    for _ in range(5):
        state = rng.bit_generator.state
        kernels, starts, setting = drawn_models(prior, posterior, 1, rng)
        if isinstance(setting, Setting):
            found = posterior.belief(kernels[0])
        else:
            rng.bit_generator.state, setting = state, setting[0]
            found = posterior.sample_model(rng).belief  # type: ignore[attr-defined]
        exact = belief_by_paths(setting, kernels[0], starts[0], world.history)
        worst = np.abs(found - exact).max()
        if not worst < 1e-9:
            yield f"the belief of a sampled kernel differs by {worst:.2g} from the sum over all hidden paths"
            break
    if not isinstance(prior, FiniteSupport):
        return
    weights, counts = exact_finite(prior, world.history)
    own: Array | None = getattr(posterior, "weights", None)
    if own is not None and not np.abs(own - weights).max() < 1e-9:
        yield "weights are not those of the sum over all hidden paths"
    if not np.abs(posterior.expected_counts - counts).max() < 1e-8:
        yield "expected_counts are not those of the sum over all hidden paths"


def _impossible_observation(prior: Prior, factory: Factory, rng: np.random.Generator) -> Iterator[str]:
    """Check that the posterior refuses an observation of probability 0 and does not change."""
    setting = prior.setting
    if not setting.is_finite:
        found = impossible_observation(setting)
    else:
        settings = []
        if isinstance(prior, FiniteSupport):
            settings = [prior.model(m).setting for m in range(len(prior))]
        possible = np.any([each.observation > 0 for each in settings or [setting]], axis=0)
        impossible = np.argwhere(~possible.any(axis=tuple(range(1, possible.ndim - 1))))
        found = (int(impossible[0, 0]), int(impossible[0, 1])) if len(impossible) else None
    if found is None:
        return
    action, observation = found
    posterior = replay(factory(rng), simulate_from_prior(prior, 3, rng).history)
    drawn = posterior.sample(rng)
    before = posterior.belief(drawn), posterior.expected_counts
    try:
        posterior.update(action, observation)
        yield f"observation {observation} after action {action} has probability 0, but was accepted"
    except ImpossibleObservationError:
        if not all(map(np.array_equal, before, (posterior.belief(drawn), posterior.expected_counts))):
            yield "an impossible observation was refused, but it changed the posterior"
