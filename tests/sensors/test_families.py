"""The families of distributions, against scipy's densities and exact tails."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from decimal import Decimal, localcontext
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from exact_tails import (
    DIGITS,
    lower_gamma,
    negative_binomial_above,
    normal_above,
    poisson_above,
    student_above,
)
from scipy import stats

from psrl_pomdp.errors import InvalidModelError, UnknownNameError
from psrl_pomdp.sensors import (
    ExponentialSensor,
    GammaSensor,
    GaussianSensor,
    LogNormalSensor,
    MixtureSensor,
    NegativeBinomialSensor,
    PoissonSensor,
    ScalarSensor,
    StudentSensor,
    by_action,
    with_outliers,
)

GAUSSIAN = GaussianSensor([1.0, 0.0, -1.0], [1.0, 0.5, 0.2])
STUDENT = StudentSensor([1.0, 0.0, -1.0], [1.0, 0.5, 0.2], [1.0, 4.5, 300.0])
LOG_NORMAL = LogNormalSensor([0.0, 1.0, -3.0], [1.0, 0.25, 2.0])
GAMMA = GammaSensor([0.4, 1.0, 30.0], [1.0, 5.0, 0.01])
POISSON = PoissonSensor([0.3, 4.0, 250.0])
NEGATIVE_BINOMIAL = NegativeBinomialSensor([0.3, 4.0, 250.0], [0.5, 2.0, 40.0])
FROZEN: dict[str, tuple[ScalarSensor, list[Any]]] = {
    "gaussian": (GAUSSIAN, [stats.norm(m, s) for m, s in ((1, 1), (0, 0.5), (-1, 0.2))]),
    "student": (STUDENT, [stats.t(v, m, s) for v, m, s in ((1, 1, 1), (4.5, 0, 0.5), (300, -1, 0.2))]),
    "log-normal": (
        LOG_NORMAL, [stats.lognorm(s, scale=np.exp(m)) for m, s in ((0, 1), (1, 0.25), (-3, 2))],
    ),
    "gamma": (GAMMA, [stats.gamma(a, scale=s) for a, s in ((0.4, 1), (1, 5), (30, 0.01))]),
    "poisson": (POISSON, [stats.poisson(m) for m in (0.3, 4.0, 250.0)]),
    "negative-binomial": (
        NEGATIVE_BINOMIAL, [stats.nbinom(r, r / (r + m)) for m, r in ((0.3, 0.5), (4, 2), (250, 40))],
    ),
}  # fmt: skip
CONTINUOUS = ["gaussian", "student", "log-normal", "gamma"]
COMPOSED: dict[str, ScalarSensor] = {
    **{name: sensor for name, (sensor, _) in FROZEN.items()},
    "mixture": MixtureSensor([GAUSSIAN, STUDENT], [[0.9, 0.1], [0.5, 0.5], [1.0, 0.0]]),
    "count mixture": MixtureSensor([POISSON, NEGATIVE_BINOMIAL], [0.3, 0.7]),
    "outliers": with_outliers(GAMMA, share=1e-3),
    "silent": by_action([GAUSSIAN, None]),  # type: ignore[dict-item]
}


def points(sensor: ScalarSensor, rng: np.random.Generator, size: int) -> np.ndarray:
    """Points where the distributions are, between them and far from them."""
    states = rng.integers(0, 3, size)
    drawn = sensor.draw(rng, 0, states)
    far = drawn * rng.choice([1.0, 1.0, 0.1, 3.0, 20.0], size)
    return np.asarray(np.round(far) if sensor.is_discrete else far)


@pytest.mark.parametrize("name", FROZEN)
def test_log_likelihoods_are_scipys_densities(name: str) -> None:
    sensor, laws = FROZEN[name]
    values = points(sensor, np.random.default_rng(0), 400)
    found = sensor.log_likelihood(0, values)
    assert found.shape == (400, 3)
    for s, law in enumerate(laws):
        wanted = law.logpmf(values) if sensor.is_discrete else law.logpdf(values)
        close = np.abs(found[:, s] - wanted) <= 1e-12 * (
            1 + np.abs(wanted) + np.abs(values) * sensor.is_discrete
        )
        assert (close | (found[:, s] == wanted)).all()


def test_rates_differ_by_action() -> None:
    both = PoissonSensor([[1.0, 2.0], [3.0, 4.0]])
    assert both.n_actions == 2
    values = np.array([0.0, 5.0])
    assert (both.log_likelihood(1, values) == PoissonSensor([3.0, 4.0]).log_likelihood(0, values)).all()
    means = GaussianSensor([[0.0, 1.0], [2.0, 3.0]], [0.1, 0.2])
    assert means.sds.tolist() == [[0.1, 0.2], [0.1, 0.2]]
    edges = np.array([-np.inf, 0.5, 2.5, np.inf])
    alone = GaussianSensor([2.0, 3.0], [0.1, 0.2])
    assert (means.interval_masses(1, edges)[0] == alone.interval_masses(0, edges)[0]).all()
    assert (means.quantiles(1, np.array([0.3])) == alone.quantiles(0, np.array([0.3]))).all()


Above = Callable[[float], Decimal]
EXACT: list[Any] = [
    (
        "gaussian", GaussianSensor([0.75], [0.25]),
        lambda y: normal_above((Decimal(y) - Decimal("0.75")) / Decimal("0.25")),
        [0.75 + 0.25 * z for z in (-30, -29.9, -12, -5, -1, 0.001, 0.5, 3, 8, 8.001, 20, 30)],
    ),
    *(
        (
            f"student {v}", StudentSensor([0.75], [0.25], float(v)),
            lambda y, v=v: student_above((Decimal(y) - Decimal("0.75")) / Decimal("0.25"), v),
            [0.75 + 0.25 * z for z in (-1e6, -30, -29.9, -5, -1, -1e-4, 0.5, 0.9, 3, 30, 1e10)],
        )
        for v in (1, 3, 40, 2001)
    ),
    (
        "log-normal", LogNormalSensor([2.0], [0.125]),
        lambda y: normal_above((Decimal(y).ln() - 2) * 8),
        [float(np.exp(2.0 + 0.125 * z)) for z in (-30, -10, -1, 0.2, 4, 4.001, 12, 30)],
    ),
    *(
        (
            f"gamma {twice / 2}", GammaSensor([twice / 2], [0.25]),
            lambda y, twice=twice: 1 - lower_gamma(twice, 4 * Decimal(y)),
            sorted(
                0.25 * max(twice / 2 + z * (twice / 2) ** 0.5, 10.0 ** min(z, 1))
                for z in (-9, -3, -1, 0, 1, 5, 30)
            ),
        )
        for twice in (1, 2, 9, 900)
    ),
    *(
        (
            f"poisson {rate}", PoissonSensor([rate]),
            lambda y, rate=rate: poisson_above(int(y), rate),
            sorted({max(0, int(rate + z * rate**0.5)) for z in (-20, -8, -1, 0, 1, 9, 30)}),
        )
        for rate in (0.01, 3.5, 1000.0)
    ),
    *(
        (
            f"negative binomial {mean} {twice / 2}", NegativeBinomialSensor([mean], [twice / 2]),
            lambda y, mean=mean, twice=twice: negative_binomial_above(int(y), mean, twice),
            sorted(
                {
                    max(0, int(mean + z * (mean + 2 * mean**2 / twice) ** 0.5))
                    for z in (-20, -3, -1, 0, 1, 9, 30)
                }
            ),
        )
        for mean, twice in ((0.01, 1), (20.0, 1), (20.0, 7), (300.0, 400))
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "sensor", "above", "inner"), EXACT, ids=[case[0] for case in EXACT])
def test_masses_and_their_error_bounds_against_exact_tails(
    name: str, sensor: ScalarSensor, above: Above, inner: list[float]
) -> None:
    """Out to 30 standard deviations: every error is inside its bound, and every bound is small."""
    masses, errors = sensor.interval_masses(0, np.array([-np.inf, *inner, np.inf]))
    largest = 0.0
    with localcontext() as context:
        context.prec = DIGITS
        exact = [Decimal(1), *map(above, inner), Decimal(0)]
        for k, (left, right) in enumerate(pairwise(exact)):
            error = abs(Decimal(float(masses[0, k])) - (left - right))
            assert error <= Decimal(float(errors[0, k])), (name, k)
            tail = min(left, 1 - right)  # the smaller of the tails that contain the interval
            assert errors[0, k] <= 1e-10 * float(tail) + 1e-299
            largest = max(largest, float(error / (tail + Decimal(10) ** -280)))
    assert largest < 2e-12
    assert abs(masses.sum() - 1) < 1e-12


@pytest.mark.parametrize("name", FROZEN)
def test_masses_against_scipys_tails(name: str) -> None:
    sensor, laws = FROZEN[name]
    values = np.unique(points(sensor, np.random.default_rng(3), 60))
    masses, errors = sensor.interval_masses(0, np.r_[-np.inf, values, np.inf])
    assert masses.shape == errors.shape == (3, len(values) + 1)
    assert np.abs(masses.sum(axis=1) - 1).max() < 1e-12
    for s, law in enumerate(laws):
        below = np.cumsum(masses[s])[:-1]
        above = np.cumsum(masses[s][::-1])[::-1][1:]
        assert below == pytest.approx(law.cdf(values), rel=1e-9, abs=1e-280)
        assert above == pytest.approx(law.sf(values), rel=1e-9, abs=1e-280)


@pytest.mark.parametrize("name", COMPOSED)
def test_density_bounds_hold_at_random_points_of_random_cells(name: str) -> None:
    sensor, rng = COMPOSED[name], np.random.default_rng(4)
    for _ in range(20):
        inner = np.unique(points(sensor, rng, 12))
        edges = np.r_[-np.inf, inner, np.inf]
        low, high = sensor.log_density_bounds(0, edges)
        assert low.shape == high.shape == (3, len(edges) - 1)
        assert not np.isnan(low).any()
        assert not np.isnan(high).any()
        values = np.r_[points(sensor, rng, 300), inner]
        if not sensor.is_discrete:
            values = np.r_[values, inner + 1e-9, rng.uniform(inner.min(), inner.max(), 300)]
        cells = np.searchsorted(edges, values, side="left") - 1
        logs = sensor.log_likelihood(0, values).T
        assert (low[:, cells] <= logs).all()
        assert (logs <= high[:, cells]).all()


@pytest.mark.parametrize("name", CONTINUOUS)
def test_density_bounds_are_attained(name: str) -> None:
    """In a cell of many points, the bounds are the extremes of the density."""
    sensor, _ = FROZEN[name]
    for a, b in ((0.02, 0.9), (0.3, 0.31), (1.5, 40.0)):
        low, high = sensor.log_density_bounds(0, np.array([-np.inf, a, b, np.inf]))
        logs = sensor.log_likelihood(0, np.linspace(a, b, 20001))
        assert low[:, 1] == pytest.approx(logs.min(axis=0), abs=1e-6)
        assert high[:, 1] == pytest.approx(logs.max(axis=0), abs=1e-4)


@pytest.mark.parametrize("name", COMPOSED)
def test_quantiles(name: str) -> None:
    sensor = COMPOSED[name]
    wanted = np.array([1e-9, 0.01, 0.2, 0.5, 0.77, 0.99, 1 - 1e-9])
    found = sensor.quantiles(0, wanted)
    assert (np.diff(found) >= 0).all()

    def below(values: np.ndarray) -> np.ndarray:
        edges, where = np.unique(values, return_inverse=True)
        masses = sensor.interval_masses(0, np.r_[-np.inf, edges, np.inf])[0]
        return np.cumsum(masses.mean(axis=0))[where]

    if sensor.is_discrete:
        assert (found == np.floor(found)).all()
        assert (below(found) >= wanted - 1e-12).all()
        assert (below(found - 1) < wanted).all()
    else:
        assert below(found) == pytest.approx(wanted, rel=1e-6)
    assert sensor.quantiles(0, np.array([0.0, 1.0])).tolist() == [-np.inf, np.inf]


@pytest.mark.parametrize("name", FROZEN)
def test_draws_have_the_distribution(name: str) -> None:
    """Kolmogorov-Smirnov, or χ² for counts, of 2,000 draws in each of 3 states: threshold p > 1e-7, so that
    the false-alarm rate is 3e-7 for each family."""
    sensor, laws = FROZEN[name]
    rng = np.random.default_rng(5)
    for s, law in enumerate(laws):
        drawn = sensor.draw(rng, 0, np.full(2000, s))
        if sensor.is_discrete:
            inner = np.unique(law.ppf(np.linspace(0.05, 0.95, 12)))
            chances = np.diff(np.r_[0.0, law.cdf(inner), 1.0])
            counts = np.bincount(np.searchsorted(inner, drawn, side="left"), minlength=len(chances))
            p = stats.chisquare(counts, 2000 * chances).pvalue
        else:
            p = stats.kstest(drawn, law.cdf).pvalue
        assert p > 1e-7


def test_a_log_normal_is_a_gaussian_of_the_logarithm() -> None:
    logs = np.array([-2.0, -0.3, 0.0, 1.1, 4.0])
    gaussian = GaussianSensor(LOG_NORMAL.log_means, LOG_NORMAL.log_sds)
    found, wanted = LOG_NORMAL.log_likelihood(0, np.exp(logs)), gaussian.log_likelihood(0, logs)
    assert found + logs[:, None] == pytest.approx(wanted, rel=1e-13)  # the density of y has the factor 1 / y
    edges = np.r_[-np.inf, logs, np.inf]
    masses = LOG_NORMAL.interval_masses(0, np.r_[-np.inf, np.exp(logs), np.inf])[0]
    assert masses == pytest.approx(gaussian.interval_masses(0, edges)[0], rel=1e-11, abs=1e-300)


def test_shift_and_scale() -> None:
    """Powers of two and dyadic shifts change no bit of the masses."""
    edges = np.array([-np.inf, -1.0, 0.25, 0.5, 3.0, np.inf])
    one = GaussianSensor([0.0, 1.0], [0.5, 2.0]).interval_masses(0, edges)[0]
    other = GaussianSensor([8.0, 12.0], [2.0, 8.0]).interval_masses(0, 4.0 * edges + 8.0)[0]
    assert (one == other).all()
    one = StudentSensor([0.0, 1.0], [0.5, 2.0], 3.0).interval_masses(0, edges)[0]
    other = StudentSensor([8.0, 12.0], [2.0, 8.0], 3.0).interval_masses(0, 4.0 * edges + 8.0)[0]
    assert (one == other).all()
    one = GammaSensor([0.7, 3.0], [1.0, 2.0]).interval_masses(0, edges)[0]
    other = GammaSensor([0.7, 3.0], [4.0, 8.0]).interval_masses(0, 4.0 * edges)[0]
    assert (one == other).all()


def test_special_cases_of_families() -> None:
    values = np.array([0.1, 2.0, 30.0])
    exponential = ExponentialSensor([2.0, 5.0])
    assert exponential == GammaSensor([1.0, 1.0], [2.0, 5.0])
    assert exponential.log_likelihood(0, values) == pytest.approx(
        np.stack([-values / m - np.log(m) for m in (2.0, 5.0)], axis=1), rel=1e-14
    )
    many = StudentSensor([0.0, 1.0], [1.0, 1.0], 1e6).log_likelihood(0, values[:2])
    assert many == pytest.approx(
        GaussianSensor([0.0, 1.0], [1.0, 1.0]).log_likelihood(0, values[:2]), abs=1e-5
    )
    counts = np.arange(9.0)
    poisson = PoissonSensor([2.0, 3.0]).log_likelihood(0, counts)
    assert NegativeBinomialSensor([2.0, 3.0], [1e6, 1e6]).log_likelihood(0, counts) == pytest.approx(
        poisson, abs=3e-5
    )


def test_structural_zeros() -> None:
    values = np.array([-1.0, 0.0, 1.0, 2.5])
    for sensor in (GAMMA, LOG_NORMAL):
        assert (sensor.log_likelihood(0, values[:1]) == -np.inf).all()
        assert np.isfinite(sensor.log_likelihood(0, values[2:])).all()
        masses, errors = sensor.interval_masses(0, np.array([-np.inf, -1.0, 0.0, np.inf]))
        assert (masses[:, :2] == 0.0).all()
        assert (errors[:, :2] == 0.0).all()
        low, high = sensor.log_density_bounds(0, np.array([-np.inf, -2.0, -1.0, 1.0, np.inf]))
        assert (high[:, :2] == -np.inf).all()
        assert (low[:, 2] == -np.inf).all()
    assert (LOG_NORMAL.log_likelihood(0, values[1:2]) == -np.inf).all()
    assert GAMMA.log_likelihood(0, values[1:2])[0] == pytest.approx([np.inf, -np.log(5.0), -np.inf])
    for counts in (POISSON, NEGATIVE_BINOMIAL):
        assert (counts.log_likelihood(0, values) > -np.inf).all(axis=1).tolist() == [False, True, True, False]
        low, high = counts.log_density_bounds(0, np.array([-np.inf, -1.0, 0.2, 0.8, 1.0, np.inf]))
        assert (high[:, [0, 2]] == -np.inf).all()  # cells without a count
        assert np.isfinite(low[:, [1, 3]]).all()
    never = PoissonSensor([0.0, 1.0])
    assert never.log_likelihood(0, np.array([0.0, 1.0])).tolist() == [[0.0, -1.0], [-np.inf, -1.0]]
    assert never.interval_masses(0, np.array([-np.inf, -1.0, 0.0, np.inf]))[0][0].tolist() == [0.0, 1.0, 0.0]
    assert (never.draw(np.random.default_rng(0), 0, np.zeros(5, dtype=int)) == 0).all()


@pytest.mark.parametrize("name", COMPOSED)
def test_lost_and_huge_observations(name: str) -> None:
    sensor = COMPOSED[name]
    values = np.array([np.nan, 1e150, np.inf, -np.inf])
    logs = sensor.log_likelihood(0, values)
    assert (logs[0] == 0.0).all()
    assert not np.isnan(logs).any()
    if name in ("gaussian", "student", "mixture", "outliers", "silent"):
        assert np.isfinite(logs[1]).all()  # no state is ruled out
    assert (logs[2:] == -np.inf).all()
    assert sensor.log_likelihood(0, np.zeros(0)).shape == (0, 3)
    assert sensor.checked(1) == 1.0
    wrong: Any
    for wrong in (None, "1", [1.0], True, np.nan, np.inf, 1e200, 1j, {}):
        with pytest.raises(UnknownNameError, match="is not a number"):
            sensor.checked(wrong)
    if sensor.is_discrete:
        for wrong in (-1, 0.5):
            with pytest.raises(UnknownNameError, match=f"observation {wrong} is not a count"):
                sensor.checked(wrong)
        assert not sensor.is_possible(2.5)
    assert sensor.is_possible(3.0)


def test_gaussians_with_extreme_parameters() -> None:
    sensor = GaussianSensor([0.0, 1e150], [1e-150, 1e150])
    logs = sensor.log_likelihood(0, np.array([0.0, 1e150, -1e150]))
    assert np.isfinite(logs).all()
    masses, errors = sensor.interval_masses(0, np.array([-np.inf, -1e150, 0.0, 1e150, np.inf]))
    assert masses.sum(axis=1) == pytest.approx([1.0, 1.0], abs=1e-14)
    assert np.isfinite(errors).all()


@pytest.mark.parametrize("name", COMPOSED)
def test_sensors_are_frozen_compared_by_contents_and_pickled(name: str) -> None:
    sensor = COMPOSED[name]
    copy = pickle.loads(pickle.dumps(sensor))
    assert copy == sensor
    assert hash(copy) == hash(sensor)
    assert type(sensor)(**sensor.parameters()) == sensor
    assert "observations" in sensor.described()
    with pytest.raises(AttributeError, match="frozen"):
        sensor.n_states = 3
    others = [other for other in COMPOSED.values() if other is not sensor]
    assert all(other != sensor for other in others)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GaussianSensor([0.0, np.nan], [1.0, 1.0]), r"means\[1\] is nan: it must be finite"),
        (lambda: GaussianSensor([0.0, 1.0], [1.0, 0.0]), r"sds\[1\] is 0: it must be positive"),
        (lambda: GaussianSensor([[0.0, 1.0]], [[1.0, -1.0]]), r"sds\[0, 1\] is -1: it must be positive"),
        (lambda: GaussianSensor([0.0, 1.0], [1.0]), r"sds has shape \(1,\), but means has shape \(2,\)"),
        (lambda: GaussianSensor([0.0, 1.0], 1.0), r"sds has shape \(\), not \[S\] or \[A, S\]"),
        (lambda: GaussianSensor(["a", "b"], [1.0, 1.0]), "means is not an array of numbers"),
        (lambda: GaussianSensor([True, False], [1.0, 1.0]), "means is not an array of numbers"),
        (lambda: GaussianSensor([[0.0], [1.0, 2.0]], [1.0, 1.0]), "means is not an array of numbers"),
        (lambda: GaussianSensor([], []), "means is not an array of numbers"),
        (lambda: GaussianSensor([1e200], [1.0]), r"means\[0\] is 1e\+200: it must be finite and at most"),
        (lambda: GaussianSensor([10**400], [1.0]), "means is not an array of numbers"),
        (lambda: GaussianSensor([0.0, None], [1.0, 1.0]), "means is not an array"),  # type: ignore[arg-type]
        (lambda: StudentSensor([0.0], [1.0], 0.01), r"degrees\[0\] is 0.01: it must be between 0.1"),
        (lambda: StudentSensor([0.0], [1.0], [1.0, 2.0]), "degrees has shape"),
        (lambda: StudentSensor([0.0], [1.0], "many"), "degrees is not an array of numbers"),
        (lambda: LogNormalSensor([0.0], [1e9]), r"log_sds\[0\] is 1e\+09: it must be at most 100"),
        (lambda: LogNormalSensor([1000.0], [1.0]), r"log_means\[0\] is 1000: it must be between -300"),
        (lambda: GammaSensor([0.0], [1.0]), r"shapes\[0\] is 0: it must be between 0.001"),
        (lambda: GammaSensor([1.0], [-1.0]), r"scales\[0\] is -1: it must be between"),
        (lambda: ExponentialSensor([1.0, 0.0]), r"means\[1\] is 0: it must be between"),
        (lambda: PoissonSensor([1.0, -1.0]), r"rates\[1\] is -1: it must be between 0 and 1e\+06"),
        (lambda: PoissonSensor([[1.0, 1e9]]), r"rates\[0, 1\] is 1e\+09: it must be between 0"),
        (lambda: NegativeBinomialSensor([0.0], [1.0]), r"means\[0\] is 0: it must be between 1e-06"),
        (lambda: NegativeBinomialSensor([1.0], [0.0]), r"sizes\[0\] is 0: it must be between 0.001"),
    ],
)
def test_wrong_parameters_are_named(build: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        build()
