"""The test of the model for Gaussian observations that are learned, and what is reported of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from psrl_pomdp import DirichletPrior, PlanningBudget, PSRLAgent, Setting, simulate
from psrl_pomdp.inference.gaussian_posterior import GaussianPosterior
from psrl_pomdp.inference.gaussian_steps import gaussian_mass
from psrl_pomdp.inference.predictive_test import compare_reading, counts_of, make_test
from psrl_pomdp.report.page_replay import learned_table
from psrl_pomdp.sensors import NormalInverseGammaSensor

COST = [[0.0, 2.0, 9.0], [4.0, 4.0, 6.0]]
BY_STATE = NormalInverseGammaSensor([0.0, 1.0, 2.0], [0.7, 0.5, 0.4], 5.0, [4.0, 6.0, 8.0])
BY_ACTION = NormalInverseGammaSensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]], [0.7, 0.5, 0.4], 5.0, 6.0)
TOLD = NormalInverseGammaSensor([0.0, 1.0, 2.0], [0.4, 0.4, 0.4], 100.0, 100.0)
WEAR = [[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.0]]
COARSE = PlanningBudget(min_tolerance=0.05, max_tolerance=0.2, max_work=1_000_000)


def prior_of(sensor: NormalInverseGammaSensor) -> DirichletPrior:
    setting = Setting(sensor.center, COST, [0.6, 0.3, 0.1], None)
    return DirichletPrior(setting, np.ones((2, 3, 3)), sensor=sensor)


@pytest.mark.parametrize(
    ("low", "high"), [(-np.inf, 0.3), (0.3, np.inf), (-1.0, 0.2), (5.0, 6.0), (-9.0, -8.5), (np.inf, np.inf)]
)
def test_masses_of_intervals(low: float, high: float) -> None:
    right = stats.norm(0.1, 0.8)
    wanted = right.cdf(high) - right.cdf(low) if low < 0.1 else right.sf(low) - right.sf(high)
    assert gaussian_mass(low, high, 0.1, 0.8) == pytest.approx(wanted, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("sensor", [BY_STATE, BY_ACTION], ids=["by state", "by action"])
def test_predictive_probabilities_of_cells_are_means_over_the_kernels(sensor: Any) -> None:
    """With probabilities from scipy, the numbers of the test are the same to 1e-9."""
    prior, rng = prior_of(sensor), np.random.default_rng(2)
    posterior = GaussianPosterior(prior, np.random.default_rng(0), size=6)
    posterior._rule.least[:] = 0.0  # no refresh: the kernels stay
    posterior.start(None)
    wanted = make_test(posterior._codes)
    for step in range(40):
        a, y = int(rng.integers(2)), None if step in (7, 8, 20) else float(rng.normal(1.0, 1.5))
        if y is None:
            compare_reading(wanted, a, -1, 1.0)
        else:
            now = posterior.group
            ahead = np.einsum("n,ns,nst->nt", posterior.weights, posterior.beliefs, posterior.kernels[:, a])
            cells = posterior._codes.cells
            edges = cells.edges_by_action(2)[a]
            cdf = stats.norm.cdf(edges[:, None, None], now.means[a].T, now.sds[a].T)  # [K + 1, N, S]
            shares = np.einsum("nt,knt->k", ahead, np.diff(cdf, axis=0))
            assert shares.sum() == pytest.approx(1.0)
            kind = int(cells.numbers(a, [y])[0])
            assert edges[kind] < y <= edges[kind + 1]
            compare_reading(wanted, a, kind, float(shares[kind]))
        posterior.update(a, y)
    found, test = posterior._filters.test, posterior.fit
    assert found.numbers == pytest.approx(wanted.numbers, abs=1e-9)
    assert counts_of(found).by_last == pytest.approx(counts_of(wanted).by_last)
    assert test is not None
    assert test.readings == 37
    recorded = counts_of(found).expected
    assert recorded.sum() > 1.0
    assert found.counts[-2:, -1] == pytest.approx(recorded.sum(axis=1))


def fit_after(shift: float, n: int) -> Any:
    """What is found if the means are off by `shift` from the middle on; actions are random."""
    rng, state = np.random.default_rng(4), 0
    actions = (rng.random(2 * n) < 0.2).astype(int)
    readings = []
    for i, a in enumerate(actions.tolist()):
        state = int(rng.choice(3, p=WEAR[state])) if a == 0 else 0
        readings.append(float(rng.normal(state + (shift if i >= n else 0.0), 0.4)))
    posterior = GaussianPosterior(prior_of(TOLD), np.random.default_rng(0))
    posterior.start(None)
    posterior.update_many(actions, readings)
    return posterior.fit


def test_a_sensor_that_drifts_is_found_and_a_right_one_is_not() -> None:
    """False alarms have a rate of at most 1 %, but for the error of the ensemble."""
    right, wrong = fit_after(0.0, 200), fit_after(3.0, 200)
    assert not right.alarm(0.01)
    assert wrong.alarm(0.01)
    assert 200 < (wrong.alarm_time(0.01) or 0) <= 401
    assert "a reading" in str(wrong)


@pytest.mark.filterwarnings("ignore::psrl_pomdp.CoarsePlanWarning")
@pytest.mark.parametrize("sensor", [BY_STATE, BY_ACTION], ids=["by state", "by action"])
def test_what_is_learned_of_the_sensor_is_reported(sensor: Any) -> None:
    prior = prior_of(sensor)
    world = prior.sample_model(np.random.default_rng(3))
    agent = PSRLAgent(prior, seed=1, budget=COARSE)
    simulate(world, agent, 150, seed=3)
    learned, posterior = agent.info.sensor, agent.posterior
    assert PSRLAgent.from_bytes(agent.to_bytes()).fit == agent.fit
    assert learned is not None
    assert np.array_equal(learned.told, np.stack([sensor.means, sensor.sds], axis=-1))
    weights = posterior.weights
    for i, values in enumerate((posterior.sensor_means, posterior.sensor_sds)):
        assert learned.mean[..., i] == pytest.approx(np.tensordot(weights, values, axes=1))
        assert (values.min(axis=0) <= learned.lower[..., i]).all()
        assert (learned.lower[..., i] < learned.upper[..., i]).all()
        assert (learned.upper[..., i] <= values.max(axis=0)).all()
    table = learned_table(world, learned)
    assert len(table.rows) == learned.mean.size
    assert table.columns[-6:-4] == ("parameter", "told")
    last, true = table.rows[-1], world.setting.sensor
    assert last[-6] == "standard deviation"
    assert last[-1] == pytest.approx(true.sds.reshape(-1)[-1], rel=1e-3)  # type: ignore[attr-defined]
    assert last[-4] == pytest.approx(learned.mean.reshape(-1)[-1], rel=1e-3)
