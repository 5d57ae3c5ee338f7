"""Observation models that are estimated from observations in known states."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import psi

from psrl_pomdp import CalibrationWarning, InvalidModelError, Setting, calibrate
from psrl_pomdp.sensors import (
    DirichletSensor,
    ExponentialSensor,
    GammaSensor,
    GaussianSensor,
    LogNormalSensor,
    MultivariateGaussianSensor,
    NegativeBinomialSensor,
    PoissonSensor,
)

STATES = np.repeat([0, 1, 2], 400)


@pytest.fixture(autouse=True)
def _no_warnings() -> Any:
    """A warning is a failure, unless a test expects it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_a_table_is_counted() -> None:
    sensor = calibrate([0, 0, 1, 1, 1, 0] * 9, [0, 0, 1, 1, 0, 1] * 9)
    assert isinstance(sensor, DirichletSensor)
    assert sensor.counts.tolist() == [[18.5, 9.5], [9.5, 18.5]]
    own = calibrate([0, 1, 1, 0] * 9, [0, 1, 1, 0] * 9, prior=[[1.0, 0.0], [0.0, 1.0]])
    assert own.counts.tolist() == [[19.0, 0.0], [0.0, 19.0]]  # type: ignore[union-attr]


def test_names_and_lost_entries() -> None:
    states = ["new", "worn", None, "new", "worn"] * 10
    actions = ["run", 1, "run", "stop", "run"] * 10
    seen = ["low", "high", "low", None, float("nan")] * 10
    with pytest.warns(CalibrationWarning, match="no observation was made in state worn after action run, st"):
        sensor = calibrate(
            states, seen, actions=actions, state_names=["new", "worn"], action_names=["run", "stop"],
            observation_names=["low", "high", "extreme"],
        )  # fmt: skip
    assert isinstance(sensor, DirichletSensor)
    assert (sensor.counts - 0.5).tolist() == [[[10, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 10, 0]]]
    numbers = calibrate(np.array([0.0, np.nan, 1.0, 0.0] * 9), np.array([0.0, 1.0, 1.0, np.nan] * 9))
    assert (numbers.counts - 0.5).tolist() == [[9, 0], [0, 9]]  # type: ignore[union-attr]


TRUTHS = [
    ("gaussian", GaussianSensor([0.0, 1.0, 5.0], [1.0, 1.0, 0.2])),
    ("log-normal", LogNormalSensor([0.0, 1.0, 3.0], [1.0, 0.5, 0.2])),
    ("gamma", GammaSensor([0.7, 3.0, 20.0], [1.0, 2.0, 0.1])),
    ("exponential", ExponentialSensor([0.5, 1.0, 9.0])),
    ("poisson", PoissonSensor([0.5, 1.5, 9.0])),
    ("negative-binomial", NegativeBinomialSensor([2.0, 10.0, 50.0], [1.0, 2.0, 5.0])),
]


@pytest.mark.parametrize(("family", "truth"), TRUTHS, ids=[family for family, _ in TRUTHS])
def test_the_likelihood_of_the_estimate_exceeds_that_of_the_truth_by_chance_alone(
    family: str, truth: Any
) -> None:
    """Twice the difference of the log-likelihoods is χ² with as many degrees as parameters: p > 1e-6, which
    is the false-alarm rate; and the estimate is nearly the likeliest one: the difference is positive."""
    drawn = truth.draw(np.random.default_rng(0), 0, STATES)
    drawn[::100] = np.nan
    sensor: Any = calibrate(STATES, drawn, family=family)
    assert type(sensor) is type(truth)
    rows = np.arange(1200)
    gain = (sensor.log_likelihood(0, drawn) - truth.log_likelihood(0, drawn))[rows, STATES].sum()
    n_parameters = 3 * (1 if family in ("poisson", "exponential") else 2)
    assert gain > -0.1
    assert stats.chi2.sf(2 * gain, n_parameters) > 1e-6


def test_the_gamma_estimate_is_the_likeliest() -> None:
    """It solves the likelihood equation log k − ψ(k) = log mean − mean log."""
    drawn = np.random.default_rng(5).gamma(0.7, 3.0, 200)
    sensor: Any = calibrate([0] * 200, drawn, family="gamma")
    gap = np.log(drawn.mean()) - np.log(drawn).mean()
    assert np.log(sensor.shapes[0]) - psi(sensor.shapes[0]) == pytest.approx(gap, rel=1e-12)
    assert sensor.shapes[0] * sensor.scales[0] == pytest.approx(drawn.mean(), rel=1e-14)


def test_vectors() -> None:
    truth = MultivariateGaussianSensor([[0.0, 0.0], [1.0, 3.0], [2.0, 0.0]], [[1.0, 0.6], [0.6, 2.0]])
    drawn = truth.draw(np.random.default_rng(1), 0, STATES)
    sensor: Any = calibrate(STATES, drawn, family="multivariate-gaussian")
    for s in range(3):
        assert sensor.means[s] == pytest.approx(drawn[s == STATES].mean(axis=0))
        assert sensor.covariances[s] == pytest.approx(np.cov(drawn[s == STATES].T))


def test_a_density_by_action() -> None:
    rng = np.random.default_rng(2)
    actions = rng.integers(0, 2, 1200)
    truth = GaussianSensor([[0.0, 1.0, 2.0], [5.0, 0.0, 1.0]], [0.3, 0.3, 0.3])
    drawn = np.array([truth.draw(rng, a, np.array([s]))[0] for a, s in zip(actions, STATES, strict=True)])
    sensor: Any = calibrate(STATES, drawn, actions=actions, family="gaussian")
    assert sensor.means.shape == (2, 3)
    assert np.abs(sensor.means - truth.means).max() < 6 * 0.3 / np.sqrt(150)  # six standard errors: 1e-8


def test_equal_states_are_warned_of_and_different_ones_are_not() -> None:
    rng = np.random.default_rng(3)
    drawn = rng.normal(size=1200) + (STATES == 2)
    with pytest.warns(CalibrationWarning) as caught:
        calibrate(STATES, drawn, family="gaussian", state_names=["new", "fair", "worn"])
    assert len(caught) == 1
    words = str(caught[0].message)
    assert words.startswith(
        "400 and 400 observations do not tell the states new and fair apart: the total var"
    )
    assert caught[0].filename == __file__
    equal = rng.integers(0, 3, 1200)
    with pytest.warns(CalibrationWarning, match="states 0 and 1 apart"):
        calibrate(STATES, np.where(STATES == 2, 0, equal))
    # One of two actions tells them apart.
    actions = np.arange(1200) % 2
    calibrate(STATES, drawn + 3.0 * actions * STATES, actions=actions, family="gaussian")
    # Equal means, other standard deviations.
    calibrate(STATES, rng.normal(size=1200) * (1 + STATES), family="gaussian")


def test_the_level_of_the_warning() -> None:
    """Of 400 pairs of equal states, 5 % are told apart by chance: binomial, 2 to 48 at 1e-6."""
    rng, quiet = np.random.default_rng(4), {"gaussian": 0, "table": 0}
    states = np.repeat([0, 1], 100)
    for _ in range(400):
        for family, drawn in (("gaussian", rng.normal(size=200)), ("table", rng.integers(0, 3, 200))):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                calibrate(states, drawn, family=family)
            quiet[family] += not caught
    low, high = stats.binom(400, 0.055).ppf([1e-6, 1 - 1e-6])  # the test is asymptotic
    assert all(low <= n <= high for n in quiet.values()), quiet


def test_the_total_variation_and_its_error() -> None:
    """For two coins, by hand: shares 12 / 20 and 10 / 20."""
    with pytest.warns(CalibrationWarning, match=r"20 and 20 obs.*variation is 0.1 ± 0.16"):
        calibrate([0] * 20 + [1] * 20, [0] * 12 + [1] * 8 + [0] * 10 + [1] * 10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibrate([0, 1], [0, 1], family="gausian"), r"'gausian' \(did you mean 'gaussian'\?\)"),
        (lambda: calibrate([0, 1], [0]), "observations has 1 entries, and states has 2"),
        (lambda: calibrate([0, 1], [0, 1], actions=[0]), "actions has 1 entries"),
        (lambda: calibrate([], []), "states is empty"),
        (lambda: calibrate([0, 1], "01"), "observations is '01', not a list"),
        (lambda: calibrate(["new"], [0]), r"states\[0\] is the unknown name 'new': pass state_names"),
        (lambda: calibrate(["nw"], [0], state_names=["new"]), r"'nw' \(did you mean 'new'\?\)"),
        (lambda: calibrate([0, 3], [0, 0], 2), r"states\[1\] is 3: they are numbered from 0 to 1"),
        (lambda: calibrate([0, -1], [0, 0]), r"states\[1\] is -1, not a number from 0"),
        (lambda: calibrate([0, 0.5], [0, 0]), r"states\[1\] is 0.5, not a number from 0"),
        (lambda: calibrate([0, True], [0, 0]), r"states\[1\] is True, not a number or a name"),
        (lambda: calibrate([0, 1], [0, [1]]), r"observations\[1\] is \[1\], not a number or a name"),
        (lambda: calibrate([0, 1], [0, 10**9]), r"observations\[1\] is 1000000000, not"),
        (lambda: calibrate([None], [0]), "states contains no entry that was not lost"),
        (lambda: calibrate([0, 1], [0, 1], 0), "n_states is 0, not a positive integer"),
        (lambda: calibrate([0, 1], [0, 1], 2, state_names=["a", "a"]), "state_names has the name 'a' twice"),
        (lambda: calibrate([0, 1], [0, 1], n_observations=1), r"observations\[1\] is 1: they are numbered"),
        (lambda: calibrate([0, 0, 1], [1, 2, 3], family="gaussian"), "1 has 1 observations; at least 2"),
        (lambda: calibrate([0, 0, 1, 1], [1, 2, 3, 3], family="gaussian"), "1: all 2 observations are eq"),
        (lambda: calibrate([0, 0], [1, -2], family="log-normal"), "state 0: .* -2 is not positive"),
        (lambda: calibrate([0, 0], [1, 0.5], family="poisson"), "the observation 0.5 is not a count"),
        (lambda: calibrate([0, 0], [1, "a"], family="poisson"), r"observations\[1\] is 'a', not a number"),
        (lambda: calibrate([0, 0], [1, np.inf], family="gaussian"), r"observations\[1\] is inf, not finite"),
        (
            lambda: calibrate([0, 0], [[1, 2], [1]], family="multivariate-gaussian"),
            r"observations\[1\] is \[1\], not a list of 2 numbers",
        ),
        (
            lambda: calibrate([0] * 4, [[1, 2], [2, 4], [3, 6], [0, 0]], family="multivariate-gaussian"),
            "depend on each other linearly",
        ),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        call()


def test_a_setting_from_a_log_has_the_estimate_of_calibrate() -> None:
    rng = np.random.default_rng(5)
    states = rng.integers(2, size=200)
    readings = rng.normal(3.0 * states, 1.0)
    found = Setting.from_log(states, readings, [[0.0, 5.0], [1.0, 1.0]], [1.0, 0.0], family="gaussian")
    assert found.sensor == calibrate(states, readings, family="gaussian")
    with pytest.warns(CalibrationWarning):
        Setting.from_log(
            rng.integers(2, size=40), rng.normal(size=40), [[0.0, 5.0]], [1.0, 0.0], family="gaussian"
        )
    with pytest.raises(InvalidModelError, match="observations"):
        Setting.from_log([0, 1], [0], [[0.0, 5.0]], [1.0, 0.0])
