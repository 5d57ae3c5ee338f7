"""Priors as data: what they hold, what they refuse, and that they sample what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from psrl_pomdp import DirichletPrior, FinitePrior, InvalidModelError, Setting

SETTING = Setting(np.eye(2), np.zeros((2, 2)), [0.5, 0.5], states=["up", "down"], actions=["go", "halt"])
KERNELS = [[[[p, 1 - p], [0.5, 0.5]], [[0.1, 0.9], [p, 1 - p]]] for p in (0.2, 0.7, 0.9)]


def test_finite_prior_defaults() -> None:
    prior = FinitePrior(SETTING, KERNELS)
    assert len(prior) == 3
    assert prior.weights == pytest.approx(np.full(3, 1 / 3))
    assert prior.initial.tolist() == [[0.5, 0.5]] * 3
    assert prior.model(1).transition.tolist() == KERNELS[1]
    assert not prior.kernels.flags.writeable


def test_finite_prior_with_its_own_starts() -> None:
    prior = FinitePrior(SETTING, KERNELS, initial=[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    assert prior.model(1).setting.initial.tolist() == [0.0, 1.0]
    assert prior.model(2).setting == SETTING


def test_finite_prior_samples_by_weight() -> None:
    """Chi-square over 3 cells; false alarm 1e-6."""
    weights = np.array([0.2, 0.5, 0.3])
    prior = FinitePrior(SETTING, KERNELS, weights)
    rng = np.random.default_rng(1)
    drawn = [float(prior.sample(rng)[0, 0, 0]) for _ in range(3000)]
    seen = np.array([drawn.count(p) for p in (0.2, 0.7, 0.9)])
    statistic = ((seen - 3000 * weights) ** 2 / (3000 * weights)).sum()
    assert seen.sum() == 3000
    assert statistic < 27.6  # the 1 - 1e-6 quantile with two degrees of freedom


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: FinitePrior(SETTING, KERNELS[0]), "kernels has shape (2, 2, 2)"),
        (lambda: FinitePrior(SETTING, np.full((2, 2, 2, 2), 0.4)), "kernels[0][a=go, s=up] sums to 0.8"),
        (
            lambda: FinitePrior(SETTING, KERNELS, [0.5, 0.5]),
            "weights has shape (2,), expected (3,) for 3 kernels",
        ),
        (lambda: FinitePrior(SETTING, KERNELS, [0.5, 0.5, 0.5]), "weights sums to 1.5"),
        (lambda: FinitePrior(SETTING, KERNELS, initial=[[1, 0]]), "initial has shape (1, 2)"),
        (lambda: FinitePrior(SETTING, KERNELS).model(3), "kernel 3 is out of range"),
        (lambda: DirichletPrior(SETTING, np.ones((2, 2))), "concentration has shape (2, 2)"),
        (
            lambda: DirichletPrior(SETTING, -np.ones((2, 2, 2))),
            "concentration[a=go, s=up, s′=up] is -1: it must be 0",
        ),
        (lambda: DirichletPrior(SETTING, np.full((2, 2, 2), np.inf)), "is inf"),
        (
            lambda: DirichletPrior(SETTING, np.zeros((2, 2, 2))),
            "concentration[a=go, s=up] is zero everywhere",
        ),
    ],
)
def test_refusals(build: Any, message: str) -> None:
    with pytest.raises(InvalidModelError) as caught:
        build()
    assert message in str(caught.value)


@pytest.mark.parametrize("scale", [1.0, 0.05, 30.0])
def test_dirichlet_rows_have_beta_margins(scale: float) -> None:
    """Kolmogorov-Smirnov for two rows at each scale, on a grid that leaves out what rounds to 0 or 1;
    false alarm 1e-6 each by the Dvoretzky-Kiefer-Wolfowitz inequality."""
    concentration = scale * np.array([[[1.0, 2.0], [0.5, 0.5]], [[1.0, 0.0], [3.0, 1.0]]])
    prior = DirichletPrior(SETTING, concentration)
    rng = np.random.default_rng(7)
    drawn = np.stack([prior.sample(rng) for _ in range(4000)])
    assert np.abs(drawn.sum(axis=-1) - 1).max() < 1e-12
    assert (drawn[:, 1, 0] == [1.0, 0.0]).all()  # a structural zero stays zero
    for a, s in ((0, 0), (1, 1)):
        grid = np.linspace(0.001, 0.999, 999)
        measured = (drawn[:, a, s, 0][:, None] <= grid).mean(axis=0)
        furthest = np.abs(measured - beta(*concentration[a, s]).cdf(grid)).max()
        assert furthest < np.sqrt(np.log(2 / 1e-6) / (2 * len(drawn)))
    assert drawn.mean(axis=0) == pytest.approx(prior.mean, abs=0.05)


def test_tiny_concentrations_do_not_underflow() -> None:
    prior = DirichletPrior(SETTING, np.full((2, 2, 2), 1e-5))
    rng = np.random.default_rng(0)
    drawn = np.stack([prior.sample(rng) for _ in range(500)])
    assert np.isfinite(drawn).all()
    assert 0.4 < drawn[:, :, :, 0].mean() < 0.6
