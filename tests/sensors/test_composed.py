"""Mixtures, sensors by action, vectors, and sensors that are given by functions."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from psrl_pomdp.errors import InvalidModelError, UnknownNameError
from psrl_pomdp.models import Setting
from psrl_pomdp.sensors import (
    ActionSensor,
    DensitySensor,
    GammaSensor,
    GaussianSensor,
    MixtureSensor,
    MultivariateGaussianSensor,
    PoissonSensor,
    ScalarActionSensor,
    ScalarSensor,
    StudentSensor,
    by_action,
    with_outliers,
)

GAUSSIAN = GaussianSensor([1.0, 0.0, -1.0], [1.0, 0.5, 0.2])
STUDENT = StudentSensor([1.0, 0.0, -1.0], [1.0, 0.5, 0.2], 3.0)
EDGES = np.array([-np.inf, -1.0, 0.0, 0.3, 5.0, np.inf])
MEANS = np.array([[0.0, 0.0], [1.0, 2.0], [-3.0, 0.5]])
SPREADS = np.array([[[1.0, 0.5], [0.5, 1.0]], [[4.0, 0.0], [0.0, 0.01]], [[1e-6, -9e-4], [-9e-4, 1.0]]])
VECTORS = MultivariateGaussianSensor(MEANS, SPREADS)


# -- mixtures -------------------------------------------------------------------------------------------


def test_a_mixture_is_the_weighted_sum() -> None:
    weights = np.array([[0.9, 0.1], [0.5, 0.5], [1.0, 0.0]])
    mixture = MixtureSensor([GAUSSIAN, STUDENT], weights)
    values = np.array([-4.0, -1.0, 0.2, 30.0])
    wanted = sum(
        w * np.exp(part.log_likelihood(0, values))
        for w, part in zip(weights.T, (GAUSSIAN, STUDENT), strict=True)
    )
    assert np.exp(mixture.log_likelihood(0, values)) == pytest.approx(wanted, rel=1e-13)
    masses = sum(
        w[:, None] * part.interval_masses(0, EDGES)[0]
        for w, part in zip(weights.T, (GAUSSIAN, STUDENT), strict=True)
    )
    assert mixture.interval_masses(0, EDGES)[0] == pytest.approx(masses, rel=1e-14)
    errors = mixture.interval_masses(0, EDGES)[1]
    assert (errors[2] >= GAUSSIAN.interval_masses(0, EDGES)[1][2]).all()
    assert (mixture.weights == weights).all()


def test_draws_of_a_mixture_have_its_shares() -> None:
    """20,000 draws of two kinds that do not overlap, in two states: binomial, 6 standard errors, 4e-9."""
    mixture = MixtureSensor([GaussianSensor([0.0, 0.0], [1.0, 1.0]), GammaSensor([1.0, 1.0], [1.0, 1.0])],
                            [[0.8, 0.2], [0.3, 0.7]])  # fmt: skip
    rng = np.random.default_rng(0)
    for s, share in enumerate((0.4, 0.15)):  # negative numbers are half of the first kind
        found = (mixture.draw(rng, 0, np.full(20_000, s)) < 0).mean()
        assert abs(found - share) < 6 * np.sqrt(share * (1 - share) / 20_000)


def test_a_mixture_follows_the_action() -> None:
    both = GaussianSensor([[0.0, 1.0], [2.0, 3.0]], [0.1, 0.2])
    mixture = MixtureSensor([both, GaussianSensor([0.5, 0.5], [9.0, 9.0])], [0.5, 0.5])
    assert mixture.n_actions == 2
    value = np.array([2.0])
    one = np.exp(GaussianSensor([2.0, 3.0], [0.1, 0.2]).log_likelihood(0, value))
    other = np.exp(GaussianSensor([0.5, 0.5], [9.0, 9.0]).log_likelihood(0, value))
    assert np.exp(mixture.log_likelihood(1, value)) == pytest.approx((one + other) / 2, rel=1e-13)


def test_an_outlier_says_nothing() -> None:
    sharp = GaussianSensor([0.0, 1.0], [0.1, 0.1])
    robust = with_outliers(sharp, share=1e-6)
    usual, far = np.array([0.1, 0.5, 0.9]), np.array([40.0, -1e6, 1e150])
    likely, wanted = np.exp(robust.log_likelihood(0, usual)), np.exp(sharp.log_likelihood(0, usual))
    assert likely == pytest.approx(wanted, abs=4e-6)
    logs = robust.log_likelihood(0, far)
    assert logs[:, 0] == pytest.approx(logs[:, 1], rel=1e-12)
    counts = with_outliers(PoissonSensor([0.1, 2.0]), share=1e-4)
    logs = counts.log_likelihood(0, np.array([0.0, 500.0]))
    assert logs[0] == pytest.approx([-0.1, -2.0], abs=1e-3)
    assert logs[1, 0] == pytest.approx(logs[1, 1], rel=1e-12)
    own = with_outliers(sharp, share=0.5, center=7.0, width=2.0).components[1]
    assert own == StudentSensor([7.0, 7.0], [2.0, 2.0], 1.0)


# -- by action ------------------------------------------------------------------------------------------


def test_an_action_without_observation() -> None:
    sensor = by_action([None, GAUSSIAN, STUDENT])
    assert isinstance(sensor, ScalarActionSensor)
    assert (sensor.n_actions, sensor.n_states) == (3, 3)
    values = np.array([-1.0, 2.0, np.nan])
    assert (sensor.log_likelihood(0, values) == 0.0).all()
    assert (sensor.log_likelihood(1, values) == GAUSSIAN.log_likelihood(0, values)).all()
    assert (sensor.log_likelihood(2, values) == STUDENT.log_likelihood(0, values)).all()
    rng = np.random.default_rng(1)
    assert sensor.draw(rng, 0, np.array([0, 1, 2])).tolist() == [0.0, 0.0, 0.0]
    assert len(np.unique(sensor.draw(rng, 1, np.array([0, 1, 2])))) == 3
    masses, errors = sensor.interval_masses(0, EDGES)
    assert masses.tolist() == [[0.0, 1.0, 0.0, 0.0, 0.0]] * 3
    assert (errors == 0.0).all()
    assert (sensor.interval_masses(2, EDGES)[0] == STUDENT.interval_masses(0, EDGES)[0]).all()
    assert sensor.described() == "observations of several kinds after 2 of 3 actions"


def test_a_part_may_know_the_actions() -> None:
    both = GaussianSensor([[0.0, 1.0], [2.0, 3.0]], [0.1, 0.2])
    sensor = by_action([None, both])
    assert (sensor.log_likelihood(1, EDGES[1:3]) == both.log_likelihood(1, EDGES[1:3])).all()
    counts = by_action([PoissonSensor([1.0, 2.0]), None])
    assert isinstance(counts, ScalarSensor)
    assert counts.is_discrete
    low, high = counts.log_density_bounds(1, EDGES)
    assert (low == 0.0).all()
    assert (high == 0.0).all()


def test_settings_take_sensors_by_action() -> None:
    setting = Setting(by_action([None, GAUSSIAN]), np.ones((2, 3)) * [[0.0], [1.0]], [1.0, 0.0, 0.0])
    assert setting.sensor_depends_on_action
    assert not setting.has_first_observation
    assert "Gaussian observations after 1 of 2 actions" in repr(setting)


# -- vectors --------------------------------------------------------------------------------------------


def test_vectors_are_scipys_multivariate_normal() -> None:
    values = np.random.default_rng(2).normal(0, 2, (50, 2))
    logs = VECTORS.log_likelihood(0, values)
    for s in range(3):
        wanted = stats.multivariate_normal(MEANS[s], SPREADS[s]).logpdf(values)
        assert logs[:, s] == pytest.approx(wanted, rel=1e-9)  # a condition number of 5e6
    lost = np.array([[np.nan, 0.0], [0.0, 0.0]])
    assert (VECTORS.log_likelihood(0, lost)[0] == 0.0).all()
    assert np.isfinite(VECTORS.log_likelihood(0, np.full((1, 2), 1e150))).all()
    assert MultivariateGaussianSensor(MEANS[:, :1], [[4.0]]).log_likelihood(
        0, values[:, :1]
    ) == pytest.approx(
        GaussianSensor(MEANS[:, 0], [2.0, 2.0, 2.0]).log_likelihood(0, values[:, 0]), rel=1e-13
    )


def test_draws_of_vectors() -> None:
    """Of 2,000 whitened draws in each state, both components and their sum are normal: Kolmogorov-Smirnov at
    p > 1e-8, nine tests, false alarm 1e-7."""
    rng = np.random.default_rng(3)
    for s in range(3):
        drawn = VECTORS.draw(rng, 0, np.full(2000, s))
        white = np.linalg.solve(np.linalg.cholesky(SPREADS[s]), (drawn - MEANS[s]).T)
        for sample in (white[0], white[1], (white[0] + white[1]) / np.sqrt(2)):
            assert stats.kstest(sample, stats.norm.cdf).pvalue > 1e-8


def test_vectors_at_the_door() -> None:
    assert VECTORS.dimension == 2
    assert VECTORS.checked([1, 2.5]).tolist() == [1.0, 2.5]  # type: ignore[union-attr]
    for wrong in (1.0, [1.0], [1.0, 2.0, 3.0], [1.0, None], [1.0, np.nan], ["a", "b"], None):
        with pytest.raises(UnknownNameError, match="is not a list of 2 numbers"):
            VECTORS.checked(wrong)
    assert VECTORS.is_possible(np.array([0.0, 9.0]))
    by = MultivariateGaussianSensor(np.stack([MEANS, MEANS + 1]), np.eye(2))
    assert by.n_actions == 2
    assert by.covariances.shape == (2, 3, 2, 2)
    value = np.array([[0.3, 0.2]])
    wanted = stats.multivariate_normal(MEANS[1] + 1, np.eye(2)).logpdf(value[0])
    assert by.log_likelihood(1, value)[0, 1] == pytest.approx(wanted, rel=1e-13)
    mixed = by_action([None, VECTORS])
    assert type(mixed) is ActionSensor
    assert mixed.dimension == 2
    assert mixed.draw(np.random.default_rng(0), 0, np.array([0, 1])).tolist() == [[0.0, 0.0], [0.0, 0.0]]


# -- functions ------------------------------------------------------------------------------------------


def angles(values: np.ndarray, action: int) -> np.ndarray:
    return np.asarray(2.0 * np.cos(values[:, None] - np.array([0.0, np.pi]) + action))


def some_angles(rng: np.random.Generator, states: np.ndarray, action: int) -> np.ndarray:
    return np.asarray(rng.vonmises(np.pi * states - action, 2.0))


def steps(values: np.ndarray, action: int) -> np.ndarray:
    """The observation is Gaussian around the difference of the states."""
    gap = np.arange(2.0) - np.arange(2.0)[:, None]
    return np.asarray(-0.5 * (values[:, None, None] - gap) ** 2)


def some_steps(rng: np.random.Generator, states: np.ndarray, action: int, previous: np.ndarray) -> np.ndarray:
    return np.asarray(rng.normal(states - previous))


def test_functions_give_a_density() -> None:
    sensor = DensitySensor(angles, some_angles, n_states=2)
    values = np.array([0.0, 1.0, np.nan])
    assert (sensor.log_likelihood(1, values)[:2] == angles(values[:2], 1)).all()
    assert (sensor.log_likelihood(1, values)[2] == 0.0).all()
    assert (sensor.log_likelihood(0, values[2:]) == 0.0).all()
    assert sensor.draw(np.random.default_rng(0), 0, np.array([0, 1, 1])).shape == (3,)
    copy = pickle.loads(pickle.dumps(sensor))
    assert copy == sensor
    assert DensitySensor(angles, some_angles, n_states=2, name="other") != sensor
    with pytest.raises(InvalidModelError, match="DensitySensor contains code, which a model file cannot"):
        sensor.parameters()


def test_functions_may_depend_on_the_state_before() -> None:
    sensor = DensitySensor(steps, some_steps, 2, depends_on_previous=True)
    assert sensor.log_likelihood(0, np.array([0.0, np.nan])).shape == (2, 2, 2)
    drawn = sensor.draw(np.random.default_rng(0), 0, np.ones(4000, dtype=int), np.zeros(4000, dtype=int))
    assert abs(drawn.mean() - 1.0) < 6 / np.sqrt(4000)  # six standard errors: 2e-9
    both = by_action([sensor, GaussianSensor([0.0, 1.0], [1.0, 1.0])])
    assert type(both) is ActionSensor
    logs = both.log_likelihood(1, np.array([0.5]))
    assert logs.shape == (1, 2, 2)
    assert (logs[0, 0] == logs[0, 1]).all()
    setting = Setting(both, np.ones((2, 2)) * [[0.0], [1.0]], [1.0, 0.0])
    assert setting.sensor_depends_on_previous


def flat(values: Any, action: int) -> Any:
    return np.zeros((len(values), 2))


def zeros(rng: Any, states: Any, action: int) -> Any:
    return np.zeros(len(states))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MixtureSensor([], [1.0]), r"components is \[\], not a list of sensors"),
        (lambda: MixtureSensor([GAUSSIAN, VECTORS], [0.5, 0.5]), r"components\[1\] is Multivariate"),  # type: ignore[list-item]
        (lambda: MixtureSensor([GAUSSIAN, PoissonSensor([1.0] * 3)], [0.5, 0.5]), "cannot be mixed"),
        (lambda: MixtureSensor([GAUSSIAN, PoissonSensor([1.0] * 2)], [0.5, 0.5]), r"\[1\] has 2 states"),
        (lambda: MixtureSensor([GAUSSIAN, STUDENT], [0.5, 0.6]), "weights sums to 1.1"),
        (lambda: MixtureSensor([GAUSSIAN, STUDENT], [1.5, -0.5]), "negative"),
        (lambda: MixtureSensor([GAUSSIAN, STUDENT], [0.5]), r"has shape \(1,\), not \(2,\) or \(3, 2\)"),
        (lambda: MixtureSensor([GAUSSIAN, STUDENT], "half"), "weights is not an array of numbers: 'half'"),
        (lambda: with_outliers(GAUSSIAN, share=1.0), "share is 1.0, not between 0 and 1"),
        (lambda: with_outliers(GAUSSIAN, share=True), "share is True, not a number"),
        (lambda: with_outliers(GAUSSIAN, width=0.0), "width is 0.0, not positive"),
        (lambda: with_outliers(GAUSSIAN, center=np.nan), "center is nan, not finite"),
        (lambda: with_outliers(VECTORS), "not a sensor of single numbers"),  # type: ignore[arg-type]
        (lambda: by_action([None, None]), "parts has no sensor"),
        (lambda: by_action(GAUSSIAN), "not a list of a sensor"),  # type: ignore[arg-type]
        (lambda: by_action([GAUSSIAN, [[1.0]]]), r"parts\[1\] is \[\[1.0\]\], not a sensor"),  # type: ignore[list-item]
        (lambda: by_action([None, GAUSSIAN, PoissonSensor([1.0])]), r"\[2\] has 1 states, and parts\[1\]"),
        (lambda: by_action([GAUSSIAN, PoissonSensor([1.0] * 3)]), "same kind of observations"),
        (lambda: by_action([GAUSSIAN, VECTORS]), "same number of components"),
        (lambda: by_action([GaussianSensor([[0.0]] * 3, [1.0]), None]), r"parts\[0\] is for 3 actions"),
        (lambda: MultivariateGaussianSensor([0.0, 1.0], [[1.0]]), r"means has shape \(2,\), not \[S, d\]"),
        (lambda: MultivariateGaussianSensor(MEANS, np.eye(3)), r"covariances has shape \(3, 3\)"),
        (lambda: MultivariateGaussianSensor(MEANS, [[1.0, 0.2], [0.3, 1.0]]), "covariances is not symmetric"),
        (
            lambda: MultivariateGaussianSensor(MEANS, SPREADS * [[1, 1.9], [1.9, 1]]),
            r"covariances\[2\] is not positive definite",
        ),
        (lambda: MultivariateGaussianSensor(MEANS, np.zeros((2, 2))), "a variance that is not positive"),
        (lambda: DensitySensor("f", zeros, 2), "log_density is 'f', not a function"),  # type: ignore[arg-type]
        (lambda: DensitySensor(flat, zeros, 0), "n_states is 0, not a positive integer"),
        (lambda: DensitySensor(lambda y, a: flat(y, a), zeros, 2), "which has no name of its own"),
        (lambda: DensitySensor(flat, zeros, 3), r"returned an array of shape \(3, 2\), not \(3, 3\)"),
        (lambda: DensitySensor(flat, lambda *_: [np.nan] * 2, 2), "not finite"),
        (lambda: DensitySensor(flat, lambda *_: "x", 2), "sampler of .* returned 'x', not an array"),
        (lambda: DensitySensor(lambda *_: [[-np.inf] * 2] * 2, zeros, 2, name="n"), "log_density is -inf"),
        (lambda: DensitySensor(lambda *_: [[np.nan] * 2] * 2, zeros, 2, name="no"), "of 'no' is nan"),
        (lambda: DensitySensor(flat, zeros, 2, name=3), "name is 3, not a string"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(build: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        build()


def test_sensors_are_imported_without_scipy() -> None:
    program = (
        "import sys; from psrl_pomdp.sensors import GaussianSensor, with_outliers;"
        "GaussianSensor([0.0, 1.0], [1.0, 1.0]).log_likelihood(0, __import__('numpy').zeros(1));"
        "sys.exit('scipy.special' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
