"""Estimators of regret and the paper's decomposition: closed forms, and many runs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from psrl_pomdp import (
    FinitePrior,
    InvalidModelError,
    Plan,
    PSRLAgent,
    Trace,
    TSDESchedule,
    Units,
    UnknownNameError,
    bayesian_runs,
    decompose,
    plan,
    problem,
    regret_curve,
    simulate,
)
from psrl_pomdp.agents import compiled_steps as steps
from psrl_pomdp.agents.psrl import PlanningBudget
from psrl_pomdp.analysis.bounds import Constant, largest_span
from psrl_pomdp.analysis.decomposition import decompose_sums, promised_costs
from psrl_pomdp.analysis.estimators import ESTIMATORS, curve_from_sums, run_sums
from random_agents import COARSE, Coin, dirichlet, family

QUICK = PlanningBudget(min_tolerance=1e-3)


def separated() -> FinitePrior:
    found = problem("separated").family
    assert found is not None
    return found


@cache
def runs() -> tuple[list[Trace], Plan]:
    """Algorithm 1 in the first world of the separated family, 200 times 300 steps."""
    prior = separated()
    world = prior.model(0)
    agents = [PSRLAgent(prior, seed=seed, budget=QUICK) for seed in range(200)]
    return [simulate(world, agent, 300, seed) for seed, agent in enumerate(agents)], plan(world, 1e-7)


# -- estimators ---------------------------------------------------------------------------------


def test_curves_from_plain_arrays_by_hand() -> None:
    """Two runs in worlds of their own, costs from 10 to 30: one scaled cost is 20."""
    curve = curve_from_sums(
        [1, 10], [[0.5, 6.0], [1.0, 8.0]], [0.4, 0.6], [0.5, 0.6], units=Units(10.0, 30.0), level=0.9
    )
    np.testing.assert_allclose(curve.lower, 20 * np.array([[0.0, 1.0], [0.4, 2.0]]))
    np.testing.assert_allclose(curve.upper, 20 * np.array([[0.1, 2.0], [0.4, 2.0]]))
    np.testing.assert_allclose(curve.mean[0], [4.0, 30.0])
    np.testing.assert_allclose(curve.mean[1], [5.0, 40.0])
    np.testing.assert_allclose(curve.middle, [4.5, 35.0])
    np.testing.assert_allclose(curve.errors[0], [4.0, 10.0])  # half the difference of two numbers
    low, high = curve.interval
    wide = 6.313751514675043  # Student, 90% in the middle, one degree of freedom
    np.testing.assert_allclose(low, [4.0 - 4.0 * wide, 30.0 - 10.0 * wide])
    np.testing.assert_allclose(high, [5.0 + 3.0 * wide, 40.0])
    assert "2 runs, at T=10: 35, 90% in" in repr(curve)


def test_one_run_knows_nothing_of_its_error() -> None:
    curve = curve_from_sums([5], [[2.0]], 0.3, 0.3)
    low, high = curve.interval
    assert low[0] == -np.inf
    assert high[0] == np.inf
    assert curve.middle[0] == pytest.approx(0.5)


def test_rewards_have_worse_positive() -> None:
    reward = Units(-100.0, 10.0, "reward")
    curve = curve_from_sums([1], [[0.5]], 0.25, 0.25, units=reward)
    assert curve.middle[0] == pytest.approx(0.25 * 110.0)


def test_the_interval_holds_both_ends_of_j() -> None:
    traces = runs()[0][:5]
    loose = plan(traces[0].model, 0.02)
    assert loose.gap > 1e-6
    curve = regret_curve(traces, loose)
    width = curve.upper - curve.lower
    np.testing.assert_allclose(width, np.broadcast_to(curve.times * loose.gap, width.shape), rtol=1e-9)
    for trace, low, high in zip(traces, curve.lower, curve.upper, strict=True):
        np.testing.assert_allclose((low, high), trace.regret_curve(loose))


def test_three_estimators_of_one_expectation() -> None:
    """Paired z-scores at 3 horizons of 2 differences, each below 4.5: a false alarm in 25,000."""
    traces, best = runs()
    sums = {name: np.array([run_sums(t, best, name) for t in traces]) for name in ESTIMATORS}
    at = np.searchsorted(traces[0].times, [30, 100, 300])
    for name in ("plain", "expected"):
        difference = (sums[name] - sums["control_variate"])[:, at]
        error = difference.std(axis=0, ddof=1) / np.sqrt(len(traces))
        assert (np.abs(difference.mean(axis=0)) < 4.5 * error).all(), name
        # The test has teeth: a tenth of a step's cost a step would be seen.
        assert (error < 0.01 * traces[0].times[at] + 0.2).all()


def test_the_control_variate_has_the_least_noise() -> None:
    traces, best = runs()
    spread = {name: regret_curve(traces, best, name).lower[:, -1].var() for name in ESTIMATORS}
    assert spread["plain"] > 3.0 * spread["control_variate"]
    assert spread["expected"] > 3.0 * spread["control_variate"]


def test_each_estimator_is_its_sum() -> None:
    traces, best = runs()
    points = traces[0].checkpoints
    assert np.array_equal(run_sums(traces[0], best, "plain"), points.sums[:, steps.COST])
    assert np.array_equal(run_sums(traces[0], best, "expected"), points.sums[:, steps.EXPECTED_COST])
    assert np.array_equal(run_sums(traces[0], best), traces[0].control_variate_sums(best))


def test_bayesian_runs_draw_a_world_each_and_plan_for_it() -> None:
    own = separated()
    prior = FinitePrior(own.setting, own.kernels, [0.7, 0.1, 0.1, 0.1])
    traces, plans = bayesian_runs(prior, 30, 60, budget=QUICK, tolerance=1e-3)
    worlds = [trace.model.fingerprint for trace in traces]
    assert worlds == [each.fingerprint for each in plans]
    assert len(set(map(id, plans))) == len(set(worlds)) > 1
    first = worlds.count(prior.model(0).fingerprint)
    assert 24 <= first <= 57  # binomial(60, .7): outside of this with probability 1e-5
    curve = regret_curve(traces, plans)
    assert curve.n_runs == 60
    np.testing.assert_allclose(curve.lower[3], traces[3].regret_curve(plans[3])[0])
    again, _ = bayesian_runs(prior, 30, [3], budget=QUICK, tolerance=1e-3)
    assert (again[0].actions == traces[3].actions).all()


def test_bayesian_runs_of_dirichlet_rows_and_of_any_agent() -> None:
    prior = dirichlet(family(40).setting)
    traces, plans = bayesian_runs(prior, 20, 2, agent=lambda seed: Coin(2, seed), tolerance=0.05)
    assert traces[0].model.fingerprint != traces[1].model.fingerprint
    assert plans[1].fingerprint == traces[1].model.fingerprint
    assert traces[0].episodes == ()


def test_what_cannot_be_estimated_is_named() -> None:
    traces, best = runs()
    with pytest.warns(DeprecationWarning, match='estimator "controlled" is now "control_variate"'):
        old = regret_curve(traces, best, "controlled")  # type: ignore[arg-type]
    assert (old.upper == regret_curve(traces, best).upper).all()
    with pytest.raises(UnknownNameError, match=r"'control_variat'.*did you mean 'control_variate'"):
        regret_curve(traces, best, "control_variat")  # type: ignore[arg-type]
    with pytest.raises(InvalidModelError, match="another model"):
        regret_curve(traces, plan(separated().model(1), 0.05), "plain")
    with pytest.raises(InvalidModelError, match="2 plans for 200 runs"):
        regret_curve(traces, [best, best])
    with pytest.raises(InvalidModelError, match="no runs"):
        regret_curve([], best)
    other = simulate(traces[0].model, Coin(2), 300, checkpoints=[7])
    with pytest.raises(InvalidModelError, match="run 1 and run 0 have different checkpoints"):
        regret_curve([traces[0], other], best)
    with pytest.raises(InvalidModelError, match="lower_cost is above upper_cost"):
        curve_from_sums([1], [[0.5]], 0.5, 0.4)
    with pytest.raises(InvalidModelError, match="for 2 times"):
        curve_from_sums([1, 2], [[0.5]], 0.5, 0.5)
    with pytest.raises(InvalidModelError, match="level is 95"):
        curve_from_sums([1], [[0.5]], 0.5, 0.5, level=95)


# -- decomposition ------------------------------------------------------------------------------


def by_hand() -> tuple[Trace, Plan]:
    """Five steps, two episodes from 1 and 3, and sums that are easy to add."""
    traces, best = runs()
    trace = traces[0]
    first = replace(trace.episodes[0], start=1, length=2, lower_cost=0.2, upper_cost=0.3)
    second = replace(trace.episodes[0], start=3, length=3, lower_cost=0.4, upper_cost=0.5)
    points = replace(
        trace.checkpoints,
        times=np.array([2, 5]),
        episodes=np.array([1, 2]),
        sums=np.array([[1.0, 1.5, 0.5, 0.25, 0.1], [3.0, 3.5, 1.0, 0.75, -0.2]]),
    )
    bounds = replace(best, lower_cost=0.25, upper_cost=0.5)
    return replace(trace, horizon=5, episodes=(first, second), checkpoints=points), bounds


def test_the_terms_by_hand() -> None:
    trace, bounds = by_hand()
    np.testing.assert_allclose(promised_costs(trace), [[0.4, 0.6], [0.4 + 1.2, 0.6 + 1.5]])
    terms = decompose([trace], bounds, span=2.0)
    np.testing.assert_allclose(terms.episodes, [[2.0, 4.0]])  # H K_T
    np.testing.assert_allclose(terms.averages, [[0.6 - 0.5, 2.1 - 1.25]])  # R_1, J(θ*) at its least
    np.testing.assert_allclose(terms.averages_lower, [[0.4 - 1.0, 1.6 - 2.5]])
    np.testing.assert_allclose(terms.gaps, [[2.0 * 0.75, 2.0 * 1.75]])  # R_2
    np.testing.assert_allclose(terms.costs, [[0.1, -0.2]])  # R_3
    np.testing.assert_allclose(terms.regret, [[1.5 - 0.5, 3.5 - 1.25]])
    np.testing.assert_allclose(terms.regret_lower, [[1.5 - 1.0, 3.5 - 2.5]])
    np.testing.assert_allclose(terms.slack, [[2.0 + 0.1 + 1.5 + 0.1 - 1.0, 4.0 + 0.85 + 3.5 - 0.2 - 2.25]])
    assert "R_2 3.5" in repr(terms)


def test_stored_sums_give_the_same_terms() -> None:
    trace, bounds = by_hand()
    points = trace.checkpoints
    stored = decompose_sums(
        points.times, points.sums[None], points.episodes[None], promised_costs(trace)[None], 0.25, 0.5,
        Constant(2.0, "given", ""), units=Units(0.0, 10.0),
    )  # fmt: skip
    np.testing.assert_allclose(stored.slack, 10.0 * decompose([trace], bounds, span=2.0).slack)


def test_j_of_the_truth_cancels_in_the_slack() -> None:
    trace, bounds = by_hand()
    wider = replace(bounds, lower_cost=0.0)
    np.testing.assert_allclose(
        decompose([trace], bounds, span=1.0).slack, decompose([trace], wider, span=1.0).slack
    )


def test_the_lemma_holds_in_the_mean() -> None:
    prior = separated()
    high = largest_span([plan(prior.model(m), 1e-4) for m in range(len(prior))])
    traces, best = runs()
    terms = decompose(traces, best, span=high.value)
    assert terms.check() == []
    assert (terms.slack.mean(axis=0) > 0.0).all()
    assert terms.span.basis == "given"
    assert decompose(traces, best).span.basis == "estimated"


def test_the_lemma_holds_in_general() -> None:
    """Dirichlet rows, TSDE episodes, coarse plans: the planning error is in R_1."""
    prior = dirichlet(family(41).setting)
    traces, plans = bayesian_runs(prior, 60, 6, budget=COARSE, tolerance=1e-3)
    assert decompose(traces, plans).check() == []


def test_a_broken_lemma_is_seen() -> None:
    traces, best = runs()
    terms = decompose(traces, best)
    nothing = np.zeros_like(terms.gaps)
    found = replace(terms, episodes=nothing, averages=nothing, gaps=nothing, costs=nothing).check()
    assert found
    assert "the mean regret is above" in found[0].text


def test_what_has_no_decomposition() -> None:
    traces, best = runs()
    with pytest.raises(InvalidModelError, match="run 0 has no episodes"):
        decompose([simulate(traces[0].model, Coin(2), 300)], best)
    rooms = problem("two-rooms")
    agent = PSRLAgent(rooms.prior, TSDESchedule(), budget=COARSE)
    with pytest.raises(InvalidModelError, match="depends on the start"):
        decompose([simulate(rooms, agent, 20)], plan(rooms, 0.01))
