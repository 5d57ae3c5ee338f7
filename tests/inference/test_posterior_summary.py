"""`summary`, `to_arviz` and `predictive_check` of posteriors, and the figure of a summary."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from own_priors import WearPrior
from psrl_pomdp import DirichletPrior, DirichletSensor, InvalidModelError, MixturePrior, Setting, problem
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.inference.posterior_summary import PosteriorSummary, SummaryRow
from psrl_pomdp.report import posterior_figure
from random_agents import dirichlet, family


def weighted_quantile(values: Array, weights: Array, share: float) -> float:
    """By hand: each value stands in the middle of its weight."""
    order = np.argsort(values)
    middle = np.cumsum(weights[order]) - 0.5 * weights[order]
    return float(np.interp(share, middle, values[order]))


def test_a_finite_posterior_against_its_definition() -> None:
    prior = family(3)
    posterior = prior.posterior()
    posterior.start(0)
    for action, reading in [(0, 1), (1, 2), (0, 0), (1, 1)]:
        posterior.update(action, reading)
    found = posterior.summary(0.8)
    assert (found.readings, found.units, found.level) == (5, 1, 0.8)
    assert len(found.rows) == 2 * 3 * 3
    row = next(row for row in found.rows if row.name == "1: 2 → 0")
    entries = prior.kernels[:, 1, 2, 0]
    assert row.part == "dynamics"
    assert row.mean == pytest.approx(posterior.weights @ entries)
    assert row.lower == pytest.approx(weighted_quantile(entries, posterior.weights, 0.1))
    assert row.upper == pytest.approx(weighted_quantile(entries, posterior.weights, 0.9))
    assert row.prior_mean == pytest.approx(prior.weights @ entries)
    assert row.prior_lower == pytest.approx(weighted_quantile(entries, prior.weights, 0.1))


def test_the_prior_of_dirichlet_rows_is_a_beta_distribution() -> None:
    """Means of 300 draws and quantiles, within five standard errors: false alarms below 1e-5 a figure.

    The random numbers are fixed.
    """
    counts = np.array([[[3.0, 1.0], [2.0, 6.0]]])
    setting = Setting([[0.8, 0.2], [0.3, 0.7]], [[0.0, 1.0]], [1.0, 0.0], states=["new", "worn"])
    sensor = DirichletSensor([[8.0, 2.0], [3.0, 7.0]])
    posterior = DirichletPrior(setting, counts, sensor=sensor).posterior(np.random.default_rng(0))
    rows = {row.name: row for row in posterior.summary().rows}
    for name, a, b in (
        ("0: new → new", 3.0, 1.0),
        ("0: worn → new", 2.0, 6.0),
        ("0 in new", 8.0, 2.0),
        ("1 in worn", 7.0, 3.0),
    ):
        law, row = stats.beta(a, b), rows[name]
        assert row.prior_mean == pytest.approx(law.mean(), abs=5 * law.std() / np.sqrt(300)), name
        for share, end in ((0.05, row.prior_lower), (0.95, row.prior_upper)):
            spread = np.sqrt(share * (1 - share) / 300) / law.pdf(law.ppf(share))
            assert end == pytest.approx(law.ppf(share), abs=5 * spread), name
    assert {row.part for row in posterior.summary().rows} == {"dynamics", "observation model"}


def test_readings_narrow_the_intervals_and_units_count() -> None:
    posterior = dirichlet(family(3).setting).posterior(np.random.default_rng(0))
    before = posterior.summary()
    rng = np.random.default_rng(1)
    for unit in (posterior.new_unit(), posterior.new_unit()):
        unit.start(0)
        unit.update_many(np.zeros(400, int), rng.integers(0, 3, 400))
    after = posterior.summary()
    assert (after.units, after.readings) == (2, 802)
    learned = [row.learned for row in after.rows if row.name.startswith("0: ")]
    assert np.mean(learned) > np.mean([row.learned for row in before.rows]) + 0.2
    assert json.loads(json.dumps(after.to_dict()))["rows"][0]["mean"] == after.rows[0].mean
    text = str(after)
    assert text.splitlines()[0] == "Posterior after 802 readings of 2 units: mean (90% interval)"
    assert f"{after.rows[0].mean:.3f} ({after.rows[0].lower:.3f} to {after.rows[0].upper:.3f})" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("name", ["own", "mixture", "finite", "gaussian"])
def test_every_prior_has_a_summary(name: str) -> None:
    makers: dict[str, Any] = {
        "own": WearPrior,
        "mixture": lambda: MixturePrior([(0.5, dirichlet(family(3).setting)), (0.5, family(3))]),
        "finite": lambda: problem("railway").family,
        "gaussian": lambda: problem("railway-gaussian").prior,
    }
    prior = makers[name]()
    posterior = prior.posterior(np.random.default_rng(0))
    rows = posterior.summary().rows
    assert rows
    assert all(row.lower <= row.upper and row.prior_lower <= row.prior_upper for row in rows)
    if name == "own":  # known transitions are left out
        assert {row.name for row in rows} == {"0: 0 → 0", "0: 0 → 1", "0: 1 → 1", "0: 1 → 2"}


def test_what_is_refused() -> None:
    posterior = family(3).posterior()
    with pytest.raises(InvalidModelError, match=r"level is 1\.5"):
        posterior.summary(1.5)


def test_arviz_gets_draws_by_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    """With both signatures of `arviz.from_dict`; ArviZ itself is not needed."""

    def old(posterior: Any = None, prior: Any = None, coords: Any = None, dims: Any = None) -> Any:
        return SimpleNamespace(posterior=posterior, prior=prior, coords=coords, dims=dims)

    def new(data: Any, *, coords: Any = None, dims: Any = None) -> Any:
        return SimpleNamespace(**data, coords=coords, dims=dims)

    prior = family(3)
    posterior = prior.posterior()
    posterior.start(0)
    posterior.update(0, 1)
    for from_dict in (old, new):
        monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(from_dict=from_dict))
        found = posterior.to_arviz(draws=2000)
        kernels = found.posterior["transition"]
        assert kernels.shape == (1, 2000, 2, 3, 3)
        assert found.dims == {"transition": ["action", "state", "next_state"]}
        assert found.coords["action"] == ["0", "1"]
        # Systematic resampling takes each kernel as often as its weight says, up to one draw.
        np.testing.assert_allclose(kernels[0].mean(axis=0), posterior.mean(), atol=len(prior) / 2000)
        np.testing.assert_allclose(
            found.prior["transition"][0].mean(axis=0),
            np.tensordot(prior.weights, prior.kernels, 1),
            atol=len(prior) / 2000,
        )
    with pytest.raises(InvalidModelError, match="draws is 0"):
        posterior.to_arviz(0)
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"psrl-pomdp\[arviz\]"):
        posterior.to_arviz()


def test_predictive_check_counts_readings_by_action() -> None:
    """Readings alternate, and the shares are those of the recent ones with their weights of forgetting."""
    setting = family(3).setting.replace(actions=["run", "repair"])
    posterior = dirichlet(setting).posterior(np.random.default_rng(0))
    assert posterior.predictive_check() == ()
    posterior.start(0)
    given = [0, 2] * 60
    posterior.update_many(np.zeros(120, int), given)
    found = posterior.predictive_check()
    assert {each.action for each in found} == {"run"}  # the other has too few readings
    forgetting = (1 - 1 / 200) ** np.arange(119, -1, -1)
    for o, each in enumerate(found):
        expected = forgetting[np.array(given) == o].sum() / forgetting.sum()
        assert each.came == pytest.approx(expected, abs=1e-9)
    assert sum(each.expected for each in found) == pytest.approx(1.0)


def test_the_figure_has_a_label_for_each_row_and_says_what_is_left_out() -> None:
    rows = [SummaryRow("dynamics", f"run: {i} → $x", 0.2, 0.1, 0.3, 0.5, 0.1, 0.9) for i in range(30)]
    rows += [SummaryRow("cost", f"run: {i}", 20.0, 10.0, 30.0, 50.0, 10.0, 90.0) for i in range(30)]
    figure = posterior_figure(PosteriorSummary(tuple(rows), 0.9, 1, 5, 3.0))
    labels = [[text.get_text() for text in axes.get_yticklabels()] for axes in figure.axes]
    assert [len(each) for each in labels] == [30, 10]
    assert labels[0][3] == r"run: 3 → \$x"
    assert "first 40 of 60 rows" in figure.get_suptitle()
    posterior_figure(PosteriorSummary((), 0.9, 1, 5, 3.0))
