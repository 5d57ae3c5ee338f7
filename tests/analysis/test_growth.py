"""Growth: curves whose law is known, with noise and without, and verdicts that may not be given."""

from __future__ import annotations

import numpy as np
import pytest

from psrl_pomdp import InvalidModelError, RegretCurve, fit_growth
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.analysis.growth import fit_arrays, logarithm, power
from psrl_pomdp.simulation.runs import log_spaced

TIMES = log_spaced(10_000)


def noisy(mean: Array, noise: float, n_runs: int = 40, seed: int = 0) -> Array:
    """[R, K]: a walk in log T around a mean, so that errors along a run go together as in real ones."""
    rng = np.random.default_rng(seed)
    return np.asarray(mean + noise * rng.standard_normal((n_runs, len(mean))).cumsum(axis=1))


def curve(lower: Array, upper: Array | None = None) -> RegretCurve:
    return RegretCurve("control_variate", TIMES, lower, lower if upper is None else upper)


def test_fits_are_exact_without_noise() -> None:
    a, b = logarithm(TIMES, (5.0 + 3.0 * np.log(TIMES))[None])
    np.testing.assert_allclose((a[0], b[0]), (5.0, 3.0))
    for c, p in ((2.0, 0.61), (0.3, 2.0 / 3.0), (7.0, 1.0), (4.0, 0.0)):
        found = power(TIMES, (c * TIMES.astype(float) ** p)[None])
        np.testing.assert_allclose((found[0][0], found[1][0]), (c, p), rtol=2e-4, atol=2e-5)


def test_least_squares_and_nothing_else() -> None:
    """Against numpy's own line, and against every exponent around the one found."""
    rng = np.random.default_rng(1)
    y = 5.0 + 3.0 * np.log(TIMES) + rng.standard_normal(len(TIMES))
    a, b = logarithm(TIMES, y[None])
    np.testing.assert_allclose((b[0], a[0]), np.polyfit(np.log(TIMES), y, 1))
    c, p = power(TIMES, y[None])

    def error(q: float) -> float:
        basis = TIMES.astype(float) ** q
        return float(((y - basis * (y @ basis) / (basis @ basis)) ** 2).sum())

    own = float(((y - c[0] * TIMES.astype(float) ** p[0]) ** 2).sum())
    assert own <= min(error(q) for q in np.linspace(0.0, 1.5, 1501)) + 1e-4


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_logarithm_is_found(seed: int) -> None:
    found = fit_growth(curve(noisy(2.0 + 3.0 * np.log(TIMES), 0.3, seed=seed)), level=0.999, draws=5000)
    assert found.verdict == "logarithmic"
    assert found.slope.low < 3.0 < found.slope.high  # false alarm .003, if the interval is exact
    assert found.slope.high - found.slope.low < 1.0
    assert found.text.startswith("logarithmic")


@pytest.mark.parametrize("p", [0.5, 2.0 / 3.0, 1.0])
def test_a_power_is_found(p: float) -> None:
    found = fit_growth(curve(noisy(2.0 * TIMES.astype(float) ** p, 0.5)))
    assert found.verdict == "power"
    assert found.exponent.low < p < found.exponent.high
    assert ("linear growth is not excluded" in found.text) == (p == 1.0)


def test_undecided_where_noise_hides_it() -> None:
    found = fit_growth(curve(noisy(2.0 + 3.0 * np.log(TIMES), 6.0, n_runs=12)))
    assert found.verdict in ("undecided", "no growth")
    few = fit_growth(curve(noisy(2.0 + 3.0 * np.log(TIMES), 0.1, n_runs=4)))
    assert few.verdict == "undecided"
    assert "4 runs are too few" in few.text


def test_what_flattens_is_said_to() -> None:
    """Growth that ends at T = 300."""
    found = fit_growth(curve(noisy(3.0 * np.log(np.minimum(TIMES, 300)), 0.1)))
    assert found.verdict == "logarithmic"
    assert "below the logarithm" in found.text
    assert "below the logarithm" not in fit_growth(curve(noisy(3.0 * np.log(TIMES), 0.1))).text


def test_no_growth() -> None:
    assert fit_growth(curve(noisy(np.zeros(len(TIMES)), 1.0))).verdict == "no growth"


def test_planning_error_that_could_be_growth() -> None:
    """A logarithm if J is at its upper bound, a line if it is at its lower one."""
    lower = noisy(2.0 + 3.0 * np.log(TIMES), 0.1)
    found = fit_growth(curve(lower, lower + 0.1 * TIMES))
    assert found.verdict == "undecided"
    assert "use a smaller tolerance" in found.text


def test_the_bootstrap_repeats() -> None:
    runs = noisy(2.0 + 3.0 * np.log(TIMES), 0.3)
    assert fit_arrays(TIMES, runs) == fit_arrays(TIMES, runs)
    assert fit_arrays(TIMES, runs, seed=1).slope.low != fit_arrays(TIMES, runs).slope.low


def test_intervals_cover() -> None:
    """90% intervals of 60 samples hold the slope in 41 at least: fewer with probability 1e-5 if exact."""
    hits = 0
    for seed in range(60):
        found = fit_arrays(TIMES, noisy(1.0 + 2.0 * np.log(TIMES), 0.5, 30, seed), level=0.9, draws=200)
        hits += found.slope.low < 2.0 < found.slope.high
    assert hits >= 41


def test_too_few_times() -> None:
    with pytest.raises(InvalidModelError, match="at least 6"):
        fit_arrays([1, 2, 3], np.zeros((9, 3)))


def test_the_verdict_has_its_old_name() -> None:
    found = fit_growth(curve(noisy(3.0 * np.log(TIMES), 0.1)))
    with pytest.warns(DeprecationWarning, match=r"Growth\.words is now Growth\.text"):
        assert found.words == found.text
