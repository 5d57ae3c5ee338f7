"""Posteriors with unknown observation models and costs: calibration, stationarity of moves, renamings."""

from __future__ import annotations

import numpy as np
import pytest

from psrl_pomdp import DirichletCosts, DirichletPrior, DirichletSensor, FinitePrior, Setting
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.testing import check_posterior, check_prior
from psrl_pomdp.testing.calibration import sampling_identity


def sensor(n_states: int, sharpness: float) -> Array:
    """Tells the state with this much above chance."""
    return np.full((n_states, n_states), (1 - sharpness) / n_states) + sharpness * np.eye(n_states)


def learned(
    n_states: int, sharpness: float, worth: float, *, by_action: bool = False, costs: bool = False
) -> DirichletPrior:
    """An opinion on the observation model that is worth so many readings in each state."""
    table = sensor(n_states, sharpness)
    own = Setting(table, np.zeros((2, n_states)), np.full(n_states, 1 / n_states))
    if by_action:
        table = np.stack([table, table[:, np.roll(np.arange(n_states), 1)]])
    unknown = DirichletCosts([0.0, 1.0], np.ones((2, n_states, 2))) if costs else None
    return DirichletPrior(
        own, np.ones((2, n_states, n_states)), sensor=DirichletSensor.around(table, worth), costs=unknown
    )


CALIBRATED = {
    "sharp, weakly calibrated": learned(2, 0.9, 3),
    "sharp, well calibrated": learned(3, 0.9, 100),
    "in between, weakly calibrated": learned(3, 0.4, 3),
    "blurred, well calibrated": learned(2, 0.1, 100),
    "by action": learned(2, 0.6, 5, by_action=True),
    "unknown costs": learned(2, 0.6, 5, costs=True),
}


@pytest.mark.parametrize("prior", CALIBRATED.values(), ids=CALIBRATED)
def test_samples_have_the_distribution_of_the_truth(prior: DirichletPrior) -> None:
    """A tenth of the observations and costs is missing.

    5 × 14 + 20 z-scores, the log-likelihood among the functions; threshold 5 for a t law with 99 degrees of
    freedom: false alarm 90 × 2.5e-6 = 2e-4 in all.
    """
    z = sampling_identity(prior, prior.posterior, 100, 20, np.random.default_rng(11))
    assert np.abs(z).max() < 5.0


CHECKED = {
    "sensor": learned(2, 0.8, 5),
    "sensor and costs": learned(2, 0.8, 5, by_action=True, costs=True),
    "seen costs": DirichletPrior(
        Setting(sensor(2, 0.5), [[0.0, 1.0], [2.0, 2.0]], [0.5, 0.5], seen_cost="exact"), np.ones((2, 2, 2))
    ),
    "table by the state before": DirichletPrior(
        Setting(np.full((2, 2, 2, 2), 0.5) + 0.3 * np.array([1, -1]), np.zeros((2, 2)), [0.5, 0.5]),
        np.ones((2, 2, 2)),
    ),
    "finite set": FinitePrior(
        Setting(sensor(2, 0.5), [[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5]),
        [sensor(2, 0.8)[None][[0, 0]], sensor(2, 0.8)[None][[0, 0]]],
        sensors=[sensor(2, 0.9), sensor(2, 0.3)],
    ),
}


@pytest.mark.parametrize("prior", CHECKED.values(), ids=CHECKED)
def test_priors_and_posteriors_pass_their_checks(prior: DirichletPrior | FinitePrior) -> None:
    """False alarm 1.7e-5 for each posterior, and at most 1e-6 for each prior."""
    assert check_prior(prior) == []
    assert check_posterior(prior, replicates=40, length=10) == []
