"""Inference with densities: against sums over all hidden paths, with likelihood vectors from scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from density_settings import INITIAL, SENSORS, density, over_paths, readings_of, setting_of
from psrl_pomdp import (
    DirichletPosterior,
    DirichletPrior,
    ExponentialSensor,
    FinitePrior,
    GammaSensor,
    GaussianSensor,
    ImpossibleObservationError,
    LogNormalSensor,
    MultivariateGaussianSensor,
    NegativeBinomialSensor,
    OutOfOrderError,
    Setting,
    StudentSensor,
    UnknownNameError,
    with_outliers,
)
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.inference import filter_bank as filtering
from psrl_pomdp.inference import hmc
from psrl_pomdp.inference.refresh import beliefs_and_visits, gibbs
from psrl_pomdp.inference.step_codes import likelihood_rows
from psrl_pomdp.testing.calibration import (
    History,
    belief_by_paths,
    replay,
    sampling_identity,
    simulate_from_prior,
)
from psrl_pomdp.testing.importance_checks import expected_visits, importance_violations

KERNELS = np.random.default_rng(0).dirichlet(np.full(3, 0.7), size=(3, 2, 3))
ACTIONS = [0, 1, 1, 0, 1]
CASES = [(name, first) for name in SENSORS for first in (False, True)]


def rows_of(name: str, actions: list[int], readings: list[Any]) -> list[Array]:
    """Likelihood vectors divided by their maximum, from scipy."""
    found = [density(name, a, y) for a, y in zip(actions, readings, strict=True)]
    return [row / row.max() for row in found]


def first_row(name: str, first: Any) -> Array:
    if first is None:
        return np.ones(3)
    found = density("gaussian" if name in ("by action", "one silent action") else name, 0, first)
    return np.asarray(found / found.max())


def first_of(setting: Setting, seed: int) -> Any:
    sensor: Any = setting.first_sensor
    return None if sensor is None else sensor.draw(np.random.default_rng(seed), 0, np.array([1]))[0]


@pytest.mark.parametrize(("name", "first"), CASES)
def test_weights_beliefs_and_counts_are_sums_over_paths(name: str, first: bool) -> None:
    """Finite prior: single steps, and the batch, to 1e-12; the two to the last bit."""
    setting = setting_of(name, first=first)
    readings, y1 = readings_of(setting, ACTIONS, 1, missing=[2]), first_of(setting, 2)
    prior = FinitePrior(setting, KERNELS, [0.5, 0.3, 0.2])
    one, many = prior.posterior(), prior.posterior()
    one.start(y1)
    many.start(y1)
    for a, y in zip(ACTIONS, readings, strict=True):
        one.update(a, y)
    many.update_many(ACTIONS, readings)
    rows, begin = rows_of(name, ACTIONS, readings), first_row(name, y1)
    exact = [over_paths(k, INITIAL, begin, ACTIONS, rows) for k in KERNELS]
    before = [over_paths(k, INITIAL, begin, ACTIONS[:-1], rows[:-1]) for k in KERNELS]
    weights = np.array([0.5, 0.3, 0.2]) * [e.likelihood for e in exact]
    assert one.weights == pytest.approx(weights / weights.sum(), abs=1e-12)
    assert one.beliefs == pytest.approx(np.array([e.belief for e in exact]), abs=1e-12)
    phi = filtering.counts(one._filters)
    assert phi == pytest.approx(np.stack([e.visits for e in exact], axis=-1), abs=1e-12)
    earlier = np.array([0.5, 0.3, 0.2]) * [e.likelihood for e in before]
    counts = np.einsum("m,mas->as", earlier / earlier.sum(), [e.visits.sum(axis=0) for e in before])
    counts[ACTIONS[-1]] += earlier / earlier.sum() @ [e.belief for e in before]
    assert one.expected_counts == pytest.approx(counts, abs=1e-12)
    for field in ("belief", "log_weight", "product", "scale", "expected"):
        assert np.array_equal(getattr(one._filters, field), getattr(many._filters, field))


@pytest.mark.parametrize(("name", "first"), CASES)
def test_an_ensemble_sums_over_paths(name: str, first: bool) -> None:
    """Likelihoods, transitions, s_1, beliefs and φ of new kernels, and single steps against the batch."""
    setting = setting_of(name, first=first)
    readings, y1 = readings_of(setting, ACTIONS, 3, missing=[3]), first_of(setting, 4)
    prior = DirichletPrior(setting, np.full((2, 3, 3), 0.6))
    posterior, many = (DirichletPosterior(prior, np.random.default_rng(0), size=5) for _ in range(2))
    posterior._rule.least[:] = many._rule.least[:] = 0.0  # no refresh: the kernels stay
    posterior.start(y1)
    many.start(y1)
    for a, y in zip(ACTIONS, readings, strict=True):
        posterior.update(a, y)
    many.update_many(ACTIONS, readings)
    rows, begin = rows_of(name, ACTIONS, readings), first_row(name, y1)
    exact = [over_paths(k, INITIAL, begin, ACTIONS, rows) for k in posterior.kernels]
    weights = np.array([e.likelihood for e in exact])
    assert posterior.weights == pytest.approx(weights / weights.sum(), abs=1e-12)
    assert posterior.beliefs == pytest.approx(np.array([e.belief for e in exact]), abs=1e-12)
    assert filtering.counts(posterior._filters) == pytest.approx(
        np.stack([e.visits for e in exact], axis=-1), abs=1e-12
    )
    past, space, free = posterior._past, posterior._space, posterior._rows
    space.fit(past.length)
    logs, moves = hmc.log_likelihood_and_expected_transitions(free, posterior._log_rows, [past], space)
    start = float(INITIAL @ begin)  # the history's h_1 is normalized
    assert np.exp(logs) * start == pytest.approx(weights, rel=1e-12)
    wanted = np.stack([e.transitions for e in exact], axis=-1).reshape(6, 3, -1)
    assert moves[free.where.reshape(-1)] == pytest.approx(wanted, abs=1e-12)
    belief, phi = beliefs_and_visits(posterior._groups[0].kernels, past, space)
    assert belief == pytest.approx(np.stack([e.belief for e in exact], axis=-1), abs=1e-12)
    wanted = np.stack([e.visits.transpose(1, 2, 0) for e in exact], axis=-1)
    assert phi == pytest.approx(wanted, abs=1e-12)
    own = posterior.belief(KERNELS[0])  # filters the whole history again
    assert own == pytest.approx(over_paths(KERNELS[0], INITIAL, begin, ACTIONS, rows).belief, abs=1e-12)
    history = History(y1, ACTIONS, readings)
    assert belief_by_paths(setting, KERNELS[0], INITIAL, history) == pytest.approx(own, abs=1e-12)
    counted = expected_visits(setting, posterior.kernels, np.tile(INITIAL, (5, 1)), history)
    assert counted == pytest.approx(np.array([e.visits.sum(axis=0) for e in exact]), abs=1e-12)
    for field in ("belief", "log_weight", "product", "scale", "expected"):
        assert np.array_equal(getattr(posterior._filters, field), getattr(many._filters, field))


def lived(name: str, length: int, *, size: int = 8, seed: int = 1, alpha: float = 0.8) -> DirichletPosterior:
    setting, rng = setting_of(name, first=True), np.random.default_rng(seed)
    prior = DirichletPrior(setting, np.full((2, 3, 3), alpha))
    posterior = DirichletPosterior(prior, rng, size=size)
    replay(posterior, simulate_from_prior(prior, length, rng).history)
    posterior._space.fit(length)
    return posterior


def test_paths_are_drawn_as_often_as_expected() -> None:
    """Mean counts of 32 × 300 paths against ξ: 18 z-scores; false alarm 18 × 7e-6 = 1.2e-4 at 4.5."""
    posterior = lived("gaussian", 20, size=32, seed=4)
    free, past, space = posterior._rows, posterior._past, posterior._space
    same = np.repeat(posterior._log_rows[:, :, :1], 32, axis=-1)
    _, expected = hmc.log_likelihood_and_expected_transitions(free, same, [past], space)
    rng = np.random.default_rng(0)
    drawn = np.concatenate([gibbs(free, same, [past], space, rng)[1] for _ in range(300)], axis=-1)
    error = drawn.std(axis=-1) / np.sqrt(drawn.shape[-1]) + 1e-12
    assert np.abs((drawn.mean(axis=-1) - expected[..., 0]) / error).max() < 4.5


def test_the_gradient_is_that_of_the_log_density() -> None:
    posterior = lived("vectors", 40)
    free, past, space = posterior._rows, posterior._past, posterior._space
    z = np.random.default_rng(0).standard_normal(posterior._log_rows.shape)
    _, gradient = hmc.log_density(free, z, [past], space)
    for r, t in np.ndindex(*free.concentration.shape):
        up, down = z.copy(), z.copy()
        up[r, t] += 1e-5
        down[r, t] -= 1e-5
        rise = hmc.log_density(free, up, [past], space)[0] - hmc.log_density(free, down, [past], space)[0]
        assert gradient[r, t] == pytest.approx(rise / 2e-5, abs=1e-5)


@pytest.mark.parametrize("name", ["gaussian", "by action"])
def test_a_refresh_finds_beliefs_and_visits_over_many_segments(name: str) -> None:
    """900 steps: against the forward recursion over the whole history."""
    posterior = lived(name, 900)
    posterior.refresh()
    past = posterior._past
    codes = posterior._codes
    again = filtering.make_filter_bank(codes, posterior.kernels, np.ones(posterior.size))
    start = np.repeat(past.start[:, None], posterior.size, axis=1)
    assert filtering.start_filters(again, start, np.ones_like(start))
    steps = past.past.astype(np.int64)
    untested = np.full(900, -1)
    assert filtering.update_many(again, steps // 2, steps % 2, past.rows, untested) == 900
    assert posterior._filters.belief == pytest.approx(again.belief, abs=1e-9)
    assert filtering.counts(posterior._filters) == pytest.approx(filtering.counts(again), abs=1e-7)


POSITIVE = Setting(ExponentialSensor([1.0, 3.0, 9.0]), np.zeros((2, 3)), INITIAL)


@pytest.mark.parametrize("kind", ["finite", "rows"])
def test_an_impossible_reading_is_named_and_changes_nothing(kind: str) -> None:
    prior: Any = FinitePrior(POSITIVE, KERNELS)
    if kind == "rows":
        prior = DirichletPrior(POSITIVE, np.ones((2, 3, 3)))
    posterior = prior.posterior(np.random.default_rng(0))
    with pytest.raises(ImpossibleObservationError, match=r"observation -2\.5 .* as the first observation"):
        posterior.start(-2.5)
    posterior.start(0.5)
    posterior.update(0, 1.5)
    before = posterior.beliefs, posterior.weights, posterior.expected_counts
    with pytest.raises(ImpossibleObservationError, match=r"observation -2\.5 .* after action 1"):
        posterior.update(1, -2.5)
    assert all(map(np.array_equal, before, (posterior.beliefs, posterior.weights, posterior.expected_counts)))
    with pytest.raises(ImpossibleObservationError, match=r"observation -3\.5 .* after action 0"):
        posterior.update_many([1, 0, 1], [0.25, -3.5, 2.0])
    assert posterior.time == 3  # the first of the three was possible


def test_what_is_no_reading_is_refused() -> None:
    posterior = FinitePrior(setting_of("gaussian"), KERNELS).posterior()
    with pytest.raises(OutOfOrderError, match=r"no observation before the first action"):
        posterior.start(0.5)
    posterior.start(None)
    for wrong in ("high", np.inf, 1e200, [1.0, 2.0], True):
        with pytest.raises(UnknownNameError):
            posterior.update(0, wrong)
    vectors = FinitePrior(setting_of("vectors"), KERNELS).posterior()
    vectors.start(None)
    for wrong in (1.0, [1.0], [np.nan, 1.0], [1.0, 2.0, 3.0]):
        with pytest.raises(UnknownNameError):
            vectors.update(0, wrong)
    with pytest.raises(UnknownNameError, match=r"at position 1"):
        vectors.update_many([0, 0], [[1.0, 2.0], [1.0]])
    counts = FinitePrior(setting_of("poisson"), KERNELS).posterior()
    counts.start(None)
    for wrong in (-1, 1.5):
        with pytest.raises(UnknownNameError, match="not a count"):
            counts.update(0, wrong)


@pytest.mark.parametrize("outlier", [1e6, -1e6])
def test_outliers(outlier: float) -> None:
    """Likelihoods of 1e6 underflow, but not after division by the maximum: the widest Gaussian wins, or the
    nearest.
    """
    readings = [0.3, outlier, 1.2, outlier, 0.5]
    for sds in (np.array([0.7, 0.7, 0.7]), np.array([0.5, 0.7, 0.6])):
        setting = Setting(GaussianSensor([0.0, 1.0, 2.0], sds), np.zeros((2, 3)), INITIAL, None)
        winner = np.eye(3)[1 if sds[0] < sds[1] else 2 if outlier > 0 else 0]
        for prior in (FinitePrior(setting, KERNELS), DirichletPrior(setting, np.ones((2, 3, 3)))):
            posterior: Any = prior.posterior(np.random.default_rng(0))
            posterior.start(None)
            posterior.update_many(ACTIONS[:4], readings[:4])
            assert posterior.beliefs == pytest.approx(np.tile(winner, (len(posterior.kernels), 1)), abs=1e-12)
            posterior.update(ACTIONS[4], readings[4])
            assert posterior.weights.sum() == pytest.approx(1.0, abs=1e-12)
            assert posterior.beliefs.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
            assert posterior.expected_counts.sum() == pytest.approx(5.0, abs=1e-9)


@pytest.mark.parametrize("name", ["gaussian", "one silent action", "vectors"])
def test_calibration(name: str) -> None:
    """Eight z-scores, the log-likelihood among them; false alarm 8 × 7e-6 = 5e-5 at 4.5."""
    prior = DirichletPrior(setting_of(name, first=True), np.full((2, 3, 3), 0.7))
    rng = np.random.default_rng(7)
    scores = sampling_identity(prior, lambda r: DirichletPosterior(prior, r, size=32), 120, 40, rng)
    assert np.abs(scores).max() < 4.5, scores
    assert (scores != 0.0).all()


def test_against_weighted_kernels_of_the_prior() -> None:
    """`check_posterior`'s comparison for one history each; false alarm 5e-6."""
    prior = DirichletPrior(setting_of("gaussian", first=True), np.ones((2, 3, 3)))
    assert list(importance_violations(prior, prior.posterior, 60, 15, 3)) == []


class Deaf:
    """A posterior that ignores one reading."""

    def __init__(self, prior: DirichletPrior, rng: np.random.Generator) -> None:
        self._own, self._steps = prior.posterior(rng), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def update(self, action: int, observation: Any) -> None:
        self._steps += 1
        self._own.update(action, None if self._steps == 12 else observation)


def test_a_posterior_that_ignores_one_reading_is_found() -> None:
    prior = DirichletPrior(setting_of("gaussian", first=True), np.ones((2, 3, 3)))
    assert list(importance_violations(prior, lambda rng: Deaf(prior, rng), 120, 15, 3))  # type: ignore[arg-type, return-value]


def test_sixty_four_classes_give_nearly_the_same_posterior() -> None:
    """Weights and beliefs after 300 readings, and the kernels of two ensembles with the same seed."""
    setting = setting_of("gaussian", first=True)
    classes = setting.quantized(64)
    edges = np.asarray(quantized_edges(setting))
    history = simulate_from_prior(FinitePrior(setting, KERNELS), 300, np.random.default_rng(5)).history

    def number(y: Any) -> Any:
        return None if y is None else int(np.searchsorted(edges, y))

    cells = History(number(history.first), history.actions, [number(y) for y in history.observations])
    # Kernels so similar that the readings do not tell them apart at once.
    near = 0.9 * KERNELS[:1] + 0.1 * KERNELS
    fine, coarse = FinitePrior(setting, near).posterior(), FinitePrior(classes, near).posterior()
    replay(fine, history)
    replay(coarse, cells)
    assert 0.02 < fine.weights.max() < 0.98
    assert fine.weights == pytest.approx(coarse.weights, abs=0.02)
    assert fine.beliefs == pytest.approx(coarse.beliefs, abs=0.05)
    means = []
    for which, lived_through in ((setting, history), (classes, cells)):
        posterior = DirichletPrior(which, np.ones((2, 3, 3))).posterior(np.random.default_rng(0))
        replay(posterior, lived_through)
        draws = []
        for _ in range(40):
            posterior.refresh()
            draws.append(posterior.mean())
        means.append(np.mean(draws, axis=0))
    assert np.abs(means[0] - means[1]).max() < 0.05


def quantized_edges(setting: Setting) -> Array:
    """The inner edges of the classes of `quantized(64)`."""
    from psrl_pomdp.sensors.bracket import quantized

    return np.asarray(quantized(setting.sensor, setting.first_sensor, 64).of(0).edges[1:-1])


FAMILIES = [
    *SENSORS.values(),
    ExponentialSensor([1.0, 3.0, 9.0]),
    GammaSensor([1.5, 3.0, 9.0], [2.0, 0.5, 1.0]),
    LogNormalSensor([0.0, 1.0, 2.0], [0.5, 0.7, 1.0]),
    NegativeBinomialSensor([1.0, 3.0, 9.0], [2.0, 0.5, 1.0]),
    StudentSensor([0.0, 1.0, 2.0], [0.5, 0.7, 1.0], [3.0, 4.0, 30.0]),
    with_outliers(GaussianSensor([0.0, 1.0, 2.0], [0.5, 0.7, 1.0])),
    MultivariateGaussianSensor(np.random.default_rng(0).random((3, 12)), np.eye(12) + 0.3),
]


@pytest.mark.parametrize("sensor", FAMILIES, ids=repr)
def test_the_likelihood_of_a_reading_does_not_depend_on_its_neighbors(sensor: Any) -> None:
    """Otherwise runs of the two drivers would differ in the last bit."""
    action = 0 if sensor.n_actions is None else 1
    values = sensor.draw(np.random.default_rng(0), action, np.arange(700) % 3)
    together = likelihood_rows(sensor, action, values)
    assert (together.max(axis=1) == 1.0).all()
    for size in (1, 3, 8):
        parts = [likelihood_rows(sensor, action, values[i : i + size]) for i in range(0, 696, size)]
        assert np.array_equal(np.concatenate(parts), together[: len(np.concatenate(parts))])
