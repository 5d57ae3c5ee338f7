"""The promises of a posterior, each tested where it can be: what `check_posterior` runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from .._utils.arrays import Array
from ..agents.schedules import TSDESchedule
from ..errors import CoarsePlanWarning, ImpossibleObservationError
from ..inference.encoding import initial_of, model_of
from ..protocols import Compilable, FiniteSupport, Posterior, Prior, SamplesWithBelief, WeightedKernels
from .calibration import Draw, belief_by_paths, exact_finite, replay, sampling_identity, simulate

Factory = Callable[[np.random.Generator], Posterior]

_PATHS = 20_000  # as many hidden paths as are enumerated
DRIVERS: tuple[Literal["compiled"], Literal["streaming"]] = ("compiled", "streaming")
_THRESHOLD = 5.0  # of a z-score; eight of them: false alarm 8 × 5.7e-7
_NAMES = (
    "the log-likelihood",
    "the log-likelihood squared",
    "the mean logarithm of the entries",
    "a used entry",
    "an entry",
    "a used entry squared",
    "the squares of used rows",
    "a used entry times the log-likelihood",
)


def broken_promises(prior: Prior, factory: Factory, replicates: int, length: int, seed: int) -> Iterator[str]:
    """In plain words, all that is found wrong."""
    rng = np.random.default_rng(seed)
    setting = prior.setting
    short = max(1, min(length, int(np.log(_PATHS) / np.log(max(setting.n_states, 2))) - 1))
    world = simulate(prior, short, rng)
    posterior = replay(factory(np.random.default_rng(seed)), world.history)
    yield from _shapes(prior, posterior, world, rng)
    yield from _repeated(factory, world, seed)
    yield from _with_beliefs(posterior, seed)
    yield from _enumerated(prior, posterior, world, rng)
    yield from _impossible(prior, factory, rng)
    z = sampling_identity(prior, factory, replicates, length, rng)
    for name, score in zip(_NAMES, z, strict=True):
        if not abs(score) < _THRESHOLD:
            yield (
                f"samples after {length} steps are not distributed as the truth: {name} is off by "
                f"{score:+.1f} standard errors over {replicates} lives"
            )

    yield from _both_ways(prior, factory, length, seed)


def _shapes(prior: Prior, posterior: Posterior, world: Draw, rng: np.random.Generator) -> Iterator[str]:
    setting = prior.setting
    drawn, counts = posterior.sample(rng), posterior.expected_counts
    wanted = (setting.n_actions, setting.n_states, setting.n_states)
    if drawn.shape != wanted or (drawn < 0).any() or np.abs(drawn.sum(axis=-1) - 1).max() > 1e-9:
        yield f"a sample is not a kernel of shape {wanted} whose rows are distributions"
    if counts.shape != wanted[:2] or (counts < -1e-9).any():
        yield f"expected_counts are not {wanted[:2]} numbers that are not negative"
    elif abs(counts.sum() - len(world.history.actions)) > 1e-6:
        steps = len(world.history.actions)
        yield f"expected_counts add up to {counts.sum():.6g} after {steps} steps"


def _repeated(factory: Factory, world: Draw, seed: int) -> Iterator[str]:
    twice = [replay(factory(np.random.default_rng(seed)), world.history) for _ in range(2)]
    one, other = (posterior.sample(np.random.default_rng(seed)) for posterior in twice)
    if not np.array_equal(one, other):
        yield "the same seed gave another sample"


def _with_beliefs(posterior: Posterior, seed: int) -> Iterator[str]:
    """What is asked for at once has to agree with what is asked for piece by piece."""
    if isinstance(posterior, SamplesWithBelief):
        drawn = posterior.sample_model(np.random.default_rng(seed))
        if not np.array_equal(drawn.kernel, posterior.sample(np.random.default_rng(seed))):
            yield "sample_model and sample draw different kernels from the same random numbers"
        elif np.abs(drawn.belief - posterior.belief(drawn.kernel)).max() > 1e-9:
            yield "sample_model returns another belief than belief(kernel)"
    if isinstance(posterior, WeightedKernels):
        if abs(posterior.weights.sum() - 1.0) > 1e-9 or (posterior.weights < 0).any():
            yield "weights are not a distribution"
        listed = (posterior.kernels == posterior.sample(np.random.default_rng(seed))).all(axis=(1, 2, 3))
        if not listed.any():
            yield "a sample is none of the posterior's kernels"


class _With:
    """A prior with another posterior."""

    def __init__(self, prior: Prior, factory: Factory) -> None:
        self.setting, self.sample, self.posterior = prior.setting, prior.sample, factory


def _both_ways(prior: Prior, factory: Factory, length: int, seed: int) -> Iterator[str]:
    """An agent has to choose the same actions one observation at a time and in the compiled loop."""
    if not isinstance(factory(np.random.default_rng(seed)), Compilable):
        return
    from ..agents.planning_budget import PlanningBudget
    from ..agents.psrl import PSRLAgent
    from ..simulation.runs import simulate as simulated

    world = model_of(prior, np.random.default_rng(seed))
    budget = PlanningBudget(min_tolerance=0.01, max_tolerance=0.1, rtol=np.inf, max_work=1e6, max_points=200)
    runs = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoarsePlanWarning)
        for driver in DRIVERS:
            agent = PSRLAgent(_With(prior, factory), TSDESchedule(), seed, budget=budget)
            runs.append(simulated(world, agent, 4 * length, seed, driver=driver))
    one, other = runs
    for what, same in (
        ("actions", np.array_equal(one.actions, other.actions)),
        ("episodes", one.episodes == other.episodes),
        ("expected counts", np.array_equal(one.checkpoints.expected, other.checkpoints.expected)),
    ):
        if not same:
            yield f"the compiled loop gives other {what} than one observation at a time"
            return


def _enumerated(prior: Prior, posterior: Posterior, world: Draw, rng: np.random.Generator) -> Iterator[str]:
    """Beliefs by every hidden path, and where the prior is a finite set, all there is."""
    for _ in range(5):
        drawn = posterior.sample(rng)
        exact = belief_by_paths(prior.setting, drawn, initial_of(prior, drawn), world.history)
        worst = np.abs(posterior.belief(drawn) - exact).max()
        if not worst < 1e-9:
            yield f"the belief of a sampled kernel is {worst:.2g} away from the sum over every hidden path"
            break
    if not isinstance(prior, FiniteSupport):
        return
    weights, counts = exact_finite(prior, world.history)
    own: Array | None = getattr(posterior, "weights", None)
    if own is not None and not np.abs(own - weights).max() < 1e-9:
        yield "weights are not those of the sum over every hidden path"
    if not np.abs(posterior.expected_counts - counts).max() < 1e-8:
        yield "expected_counts are not those of the sum over every hidden path"


def _impossible(prior: Prior, factory: Factory, rng: np.random.Generator) -> Iterator[str]:
    """A reading that no state gives after an action must be refused, and change nothing."""
    setting = prior.setting
    never = np.argwhere(~(setting.observation > 0).any(axis=1))
    if not len(never):
        return
    action, reading = (int(i) for i in never[0])
    posterior = replay(factory(rng), simulate(prior, 3, rng).history)
    drawn = posterior.sample(rng)
    before = posterior.belief(drawn), posterior.expected_counts
    try:
        posterior.update(action, reading)
        yield f"observation {reading} after action {action}, which no state gives, was taken in"
    except ImpossibleObservationError:
        if not all(map(np.array_equal, before, (posterior.belief(drawn), posterior.expected_counts))):
            yield "an impossible reading was refused and has changed the posterior"
