"""Densities together with costs that are seen: against sums over all hidden paths, and calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from density_settings import COST, INITIAL, Sums, density, over_paths, readings_of, setting_of
from psrl_pomdp import (
    DirichletCosts,
    DirichletPosterior,
    DirichletPrior,
    FinitePrior,
    GaussianSensor,
    ImpossibleObservationError,
    InvalidModelError,
    NormalInverseGammaSensor,
    PSRLAgent,
    Setting,
    UnknownNameError,
)
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.inference import filter_bank as filtering
from psrl_pomdp.inference import hmc
from psrl_pomdp.inference.refresh import beliefs_and_visits
from psrl_pomdp.sensors.costs import SeenCosts
from psrl_pomdp.testing.calibration import History, belief_by_paths, replay, sampling_identity

KERNELS = np.random.default_rng(0).dirichlet(np.full(3, 0.7), size=(3, 2, 3))
WEIGHTS = np.array([0.5, 0.3, 0.2])
ACTIONS = [0, 1, 1, 0, 1]
NOISY = SeenCosts([0.0, 1.0], np.stack([1.0 - COST, COST], axis=2))
SAME = np.array([[0.2, 0.2, 0.7], [0.5, 0.5, 0.5]])  # exact costs that states share
CASES = [("gaussian", "noisy"), ("vectors", "noisy"), ("one silent action", "noisy"), ("poisson", "exact")]


def seen(name: str, law: str) -> Setting:
    if law == "noisy":
        return setting_of(name).replace(seen_cost=NOISY)
    return setting_of(name).replace(cost=SAME, seen_cost="exact")


def costs_of(law: str) -> list[float | None]:
    """Costs that some path explains; the third is missing, as is the second reading."""
    return [1.0, 0.0, None, 1.0, 0.0] if law == "noisy" else [0.2, 0.5, None, 0.7, 0.5]


def laws(setting: Setting, actions: list[int], costs: list[float | None]) -> list[Array]:
    """κ(c | a, s) of each step, [S, 1], written anew; ones if the cost is missing."""
    found = []
    for a, c in zip(actions, costs, strict=True):
        if c is None:
            found.append(np.ones((3, 1)))
        elif setting.seen_cost == NOISY:
            found.append((COST[a] if c == 1.0 else 1.0 - COST[a])[:, None])
        else:
            found.append((np.abs(SAME[a] - c) < 1e-12).astype(float)[:, None])
    return found


def enumerated(kernel: Array, name: str, readings: list[Any], factors: list[Array], n: int) -> Sums:
    rows = []
    for a, y, factor in zip(ACTIONS[:n], readings[:n], factors[:n], strict=True):
        own = density(name, a, y)
        rows.append(factor * own / own.max())
    return over_paths(kernel, INITIAL, np.ones(3), ACTIONS[:n], rows)


@pytest.mark.parametrize(("name", "law"), CASES)
def test_a_finite_prior_sums_over_paths(name: str, law: str) -> None:
    setting, costs = seen(name, law), costs_of(law)
    readings = readings_of(setting, ACTIONS, 1, missing=[1])
    prior = FinitePrior(setting, KERNELS, WEIGHTS)
    one, many = prior.posterior(), prior.posterior()
    one.start(None)
    many.start(None)
    for a, y, c in zip(ACTIONS, readings, costs, strict=True):
        one.update(a, y, c)
    many.update_many(ACTIONS, readings, costs)
    factors = laws(setting, ACTIONS, costs)
    exact = [enumerated(k, name, readings, factors, 5) for k in KERNELS]
    before = [enumerated(k, name, readings, factors, 4) for k in KERNELS]
    weights = WEIGHTS * [each.likelihood for each in exact]
    assert one.weights == pytest.approx(weights / weights.sum(), abs=1e-12)
    assert one.beliefs == pytest.approx(np.array([each.belief for each in exact]), abs=1e-12)
    phi = filtering.counts(one._filters)
    assert phi == pytest.approx(np.stack([each.visits for each in exact], axis=-1), abs=1e-12)
    earlier = WEIGHTS * [each.likelihood for each in before]
    counts = np.einsum("m,mas->as", earlier / earlier.sum(), [each.visits.sum(axis=0) for each in before])
    counts[ACTIONS[-1]] += earlier / earlier.sum() @ [each.belief for each in before]
    assert one.expected_counts == pytest.approx(counts, abs=1e-12)
    for field in ("belief", "log_weight", "product", "scale", "expected"):
        assert np.array_equal(getattr(one._filters, field), getattr(many._filters, field))
    numbers = [None if c is None else int(np.argmin(np.abs(setting.seen_cost.values - c))) for c in costs]  # type: ignore[union-attr]
    history = History(None, ACTIONS, readings, numbers)
    by_paths = belief_by_paths(setting, KERNELS[1], INITIAL, history)
    assert by_paths == pytest.approx(exact[1].belief, abs=1e-12)


@pytest.mark.parametrize(("name", "law"), CASES)
def test_an_ensemble_sums_over_paths(name: str, law: str) -> None:
    """Filters, and passes over the history: likelihoods, transitions, beliefs and φ."""
    setting, costs = seen(name, law), costs_of(law)
    readings = readings_of(setting, ACTIONS, 3, missing=[1])
    prior = DirichletPrior(setting, np.full((2, 3, 3), 0.6))
    posterior, many = (DirichletPosterior(prior, np.random.default_rng(0), size=5) for _ in range(2))
    posterior._rule.least[:] = many._rule.least[:] = 0.0  # no refresh: the kernels stay
    posterior.start(None)
    many.start(None)
    for a, y, c in zip(ACTIONS, readings, costs, strict=True):
        posterior.update(a, y, c)
    many.update_many(ACTIONS, readings, costs)
    factors = laws(setting, ACTIONS, costs)
    exact = [enumerated(k, name, readings, factors, 5) for k in posterior.kernels]
    weights = np.array([each.likelihood for each in exact])
    assert posterior.weights == pytest.approx(weights / weights.sum(), abs=1e-12)
    assert posterior.beliefs == pytest.approx(np.array([each.belief for each in exact]), abs=1e-12)
    assert filtering.counts(posterior._filters) == pytest.approx(
        np.stack([each.visits for each in exact], axis=-1), abs=1e-12
    )
    past, space, free = posterior._past, posterior._space, posterior._rows
    space.fit(past.length)
    logs, moves = hmc.log_likelihood_and_expected_transitions(free, posterior._log_rows, [past], space)
    assert np.exp(logs) == pytest.approx(weights, rel=1e-12)
    wanted = np.stack([each.transitions for each in exact], axis=-1).reshape(6, 3, -1)
    assert moves[free.where.reshape(-1)] == pytest.approx(wanted, abs=1e-12)
    belief, phi = beliefs_and_visits(posterior._groups[0].kernels, past, space)
    assert belief == pytest.approx(np.stack([each.belief for each in exact], axis=-1), abs=1e-12)
    assert phi == pytest.approx(
        np.stack([each.visits.transpose(1, 2, 0) for each in exact], axis=-1), abs=1e-12
    )
    own = posterior.belief(KERNELS[0])  # filters the whole history again
    assert own == pytest.approx(enumerated(KERNELS[0], name, readings, factors, 5).belief, abs=1e-12)
    for field in ("belief", "log_weight", "product", "scale", "expected"):
        assert np.array_equal(getattr(posterior._filters, field), getattr(many._filters, field))


@pytest.mark.parametrize("law", ["noisy", "exact"])
def test_calibration(law: str) -> None:
    """Eight z-scores, the log-likelihood among them; false alarm 8 × 7e-6 = 5e-5 at 4.5."""
    prior = DirichletPrior(seen("gaussian", law), np.full((2, 3, 3), 0.7))
    rng = np.random.default_rng(7)
    scores = sampling_identity(prior, lambda r: DirichletPosterior(prior, r, size=32), 120, 40, rng)
    assert np.abs(scores).max() < 4.5, scores
    assert (scores != 0.0).all()


def test_a_posterior_that_is_told_no_costs_is_not_calibrated() -> None:
    """The costs say much here, so that the same test finds a posterior that ignores them."""
    sharp = SeenCosts([0.0, 1.0], np.array([[[0.95, 0.05], [0.5, 0.5], [0.05, 0.95]]] * 2))
    blurred = GaussianSensor([0.0, 0.3, 0.6], [1.0, 1.0, 1.0])
    setting = Setting(blurred, np.zeros((2, 3)), INITIAL, None, seen_cost=sharp)
    prior = DirichletPrior(setting, np.full((2, 3, 3), 0.7))
    rng = np.random.default_rng(7)
    scores = sampling_identity(prior, lambda r: Deaf(prior, r), 120, 40, rng)  # type: ignore[arg-type, return-value]
    assert np.abs(scores).max() > 4.5


class Deaf:
    """A posterior that ignores all costs."""

    def __init__(self, prior: DirichletPrior, rng: np.random.Generator) -> None:
        self._own = DirichletPosterior(prior, rng, size=32)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def update(self, action: int, observation: Any, cost: float | None = None) -> None:
        self._own.update(action, observation)


def test_files_hold_the_costs_of_the_past() -> None:
    setting = seen("gaussian", "noisy")
    prior = DirichletPrior(setting, np.full((2, 3, 3), 0.6))
    posterior = prior.posterior(np.random.default_rng(0))
    history = History(
        None, ACTIONS * 20, readings_of(setting, ACTIONS * 20, 1, missing=[3]), [0, 1, None, 1, 0] * 20
    )
    replay(posterior, history)
    again = prior.restore(posterior.state(), np.random.default_rng(0))
    posterior._rng = np.random.default_rng(5)
    again._rng = np.random.default_rng(5)
    for one in (posterior, again):
        one.update_many(ACTIONS * 30, readings_of(setting, ACTIONS * 30, 2), [1.0, 0.0, None, 0.0, 1.0] * 30)
    assert np.array_equal(posterior.beliefs, again.beliefs)
    assert np.array_equal(posterior.kernels, again.kernels)
    assert np.array_equal(posterior.expected_counts, again.expected_counts)


def test_an_impossible_cost_is_named_and_changes_nothing() -> None:
    setting = seen("gaussian", "exact")
    for prior in (FinitePrior(setting, KERNELS), DirichletPrior(setting, np.ones((2, 3, 3)))):
        posterior: Any = prior.posterior(np.random.default_rng(0))
        posterior.start(None)
        before = posterior.beliefs, posterior.weights
        with pytest.raises(
            ImpossibleObservationError, match=r"cost 0.7 with observation 1.5 .* after action 1"
        ):
            posterior.update(1, 1.5, 0.7)  # action 1 always costs 0.5
        with pytest.raises(UnknownNameError, match=r"0\.3"):
            posterior.update(1, 1.5, 0.3)
        assert all(map(np.array_equal, before, (posterior.beliefs, posterior.weights)))


def test_what_cannot_be_combined_is_refused_by_name() -> None:
    setting = setting_of("gaussian")
    unknown = DirichletPrior(
        setting, np.ones((2, 3, 3)), costs=DirichletCosts([0.0, 1.0], np.ones((2, 3, 2)))
    )
    with pytest.raises(InvalidModelError, match=r"cannot be combined with an unknown table"):
        PSRLAgent(unknown)
    sensor = NormalInverseGammaSensor([0.0, 1.0, 2.0], [1.0] * 3, 5.0, 5.0)
    with pytest.raises(
        InvalidModelError, match=r"costs that are seen cannot be combined with unknown Gaussian"
    ):
        DirichletPrior(setting.replace(seen_cost=NOISY), np.ones((2, 3, 3)), sensor=sensor)
