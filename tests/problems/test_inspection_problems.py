"""Bridge ratings and fatigue cracks: what their descriptions say, against the products written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from problem_runs import averages_of
from psrl_pomdp import InvalidModelError, PlanningBudget, PSRLAgent, plan, problem, simulate, verify


def test_a_bridge_falls_by_two_ratings_at_most_and_is_mended_as_told() -> None:
    model = problem("bridge-ratings", ratings=6, decay=0.2)
    idle, inspect, repair, rehabilitate, replace = model.transition
    assert idle[0].tolist() == pytest.approx([0.78, 0.2, 0.02, 0, 0, 0])
    assert idle[4].tolist() == pytest.approx([0, 0, 0, 0, 0.78, 0.22])
    assert idle[5].tolist() == [0, 0, 0, 0, 0, 1]
    assert (inspect == idle).all()
    assert repair[3].tolist() == pytest.approx([0, 0, 0.7, 0.3, 0, 0])
    assert rehabilitate[4].tolist() == pytest.approx([0, 0.8, 0.2, 0, 0, 0])
    assert rehabilitate[1].tolist() == pytest.approx([1, 0, 0, 0, 0, 0])
    assert (replace[:, 0] == 1).all()
    assert model.setting.states == tuple(f"rating-{9 - s}" for s in range(6))
    assert problem("bridge-ratings", ratings=12).setting.states[::11] == ("rating-11", "rating-0")
    costs = model.setting.own_cost
    assert costs[:, 0] == pytest.approx([0, 1, 6, 35, 100])
    assert costs[0] == pytest.approx([80 * (s / 5) ** 3 for s in range(6)])


def test_inspectors_err_as_the_federal_study_found() -> None:
    """68 % of the ratings within one point, 95 % within two, as far as whole ratings can say."""
    model = problem("bridge-ratings", ratings=10)
    for a, spread in ((0, 1.0), (1, 0.4)):
        for s in (0, 4, 9):
            for r in range(10):
                below = norm.cdf((r - 0.5 - s) / spread) if r > 0 else 0.0
                above = norm.sf((r + 0.5 - s) / spread) if r < 9 else 0.0
                assert model.setting.observation[a, s, r] == pytest.approx(1 - below - above, abs=1e-12)
    seen = model.setting.observation[0, 4]
    within = norm.cdf(0.5) - norm.cdf(-0.5)
    assert seen[4] == pytest.approx(within, abs=1e-12)
    assert within < 0.68 < seen[3:6].sum()
    assert 0.95 < seen[2:7].sum() < 1.0


def test_the_prior_of_the_bridge_knows_maintenance_and_shares_decay() -> None:
    prior = problem("bridge-ratings").prior
    assert prior.known.tolist() == [[False] * 6] * 2 + [[True] * 6] * 3
    assert (prior.row[0] == prior.row[1]).all()
    assert len(np.unique(prior.row[0])) == 6
    rng = np.random.default_rng(0)
    drawn = prior.sample(rng)
    assert (drawn[0] == drawn[1]).all()
    assert (np.tril(drawn[0], -1) == 0).all()  # a bridge does not mend itself
    assert (np.triu(drawn[0], 3) == 0).all()
    assert (drawn[2:] == problem("bridge-ratings").transition[2:]).all()


def test_cracks_grow_by_the_law_of_paris_and_erdogan() -> None:
    """Against simulated cracks: uniform depths in a class, and a material and a stress for each."""
    rng = np.random.default_rng(1)
    size = 400_000
    edges = np.append(0.0, np.geomspace(0.5, 20.0, 5))
    row = problem("fatigue-crack", levels=6, severity=3.0).transition[0]
    constant = rng.lognormal(-35.2, 0.5, size)
    stress = rng.normal(70.0, 10.0, size)
    for i in (0, 2, 4):
        depth = rng.uniform(edges[i], edges[i + 1], size)
        left = depth**-0.75 - 0.75 * 3.0 * constant * (math.sqrt(math.pi) * stress) ** 3.5 * 1e6
        later = np.where(left > 0, np.maximum(left, 1e-12) ** (-1 / 0.75), np.inf)
        share = np.bincount(np.searchsorted(edges, later, side="right") - 1, minlength=6)[:6] / size
        # Six standard errors: a false alarm in 1e8; quadrature is allowed 2e-4.
        error = 6 * np.sqrt(share * (1 - share) / size) + 2e-4
        assert (np.abs(share - row[i]) < error).all()
    assert row[0, 1] > 0.01


def test_a_crack_keeps_its_rate_until_it_is_mended() -> None:
    model = problem("fatigue-crack", levels=5, rates=2)
    n = model.n_states
    assert n == 9
    idle, inspect, repair = model.transition
    assert (inspect == idle).all()
    assert (idle[:4, 4:8] == 0).all()
    assert (idle[4:8, :4] == 0).all()
    assert (np.tril(idle[:8, :8], -1) == 0).all()  # no crack shrinks
    faster = [idle[4 + i, 4 + i] < idle[i, i] for i in range(4)]
    assert all(faster)
    new = model.setting.initial
    assert (repair == new).all()
    assert (idle[8] == new).all()
    edges = np.append(0.0, np.geomspace(0.5, 20.0, 4))
    wanted = [math.exp(-edges[i]) - math.exp(-edges[i + 1]) for i in range(4)]
    assert new[:4] == pytest.approx(np.array(wanted) / sum(wanted) / 2)
    mean = problem("fatigue-crack", levels=5).transition[0, :4, :4]
    assert 0.5 * (idle[:4, :4] + idle[4:8, 4:8]) == pytest.approx(mean, abs=1e-12)


def test_an_inspection_finds_what_its_curve_says_and_a_failure_is_seen() -> None:
    model = problem("fatigue-crack", levels=4)
    table = model.setting.observation
    depths = np.linspace(0, 1, 20_001)[1:] - 0.5 / 20_000
    edges = np.append(0.0, np.geomspace(0.5, 20.0, 3))
    for i in range(3):
        curve = 1 - np.exp(-(edges[i] + (edges[i + 1] - edges[i]) * depths) / 8.0)
        assert table[1, i, 1] == pytest.approx(curve.mean(), abs=1e-6)
    assert (table[[0, 2], :3, 0] == 1).all()
    assert (table[:, 3, 2] == 1).all()
    assert (table[:, :3, 2] == 0).all()
    costs = model.setting.own_cost
    assert costs[:, 0] == pytest.approx([0, 1, 20])
    assert costs[:, 3] == pytest.approx([500, 500, 500])


def test_the_prior_of_the_crack_knows_repairs_and_that_cracks_grow() -> None:
    model = problem("fatigue-crack", levels=5, rates=2)
    prior = model.prior
    assert prior.known.tolist() == [[False] * 8 + [True]] * 2 + [[True] * 9]
    assert (prior.row[0, :8] == prior.row[1, :8]).all()
    drawn = prior.sample(np.random.default_rng(2))
    assert (drawn[0] == drawn[1]).all()
    assert (np.tril(drawn[0, :8, :8], -1) == 0).all()
    assert (drawn[0, :4, 4:8] == 0).all()
    assert (drawn[2] == model.transition[2]).all()


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("bridge-ratings", {"ratings": 2}, "ratings is 2, not between 3 and 100"),
        ("bridge-ratings", {"decay": 0.95}, "decay is 0.95, not between 0 and 0.9"),
        ("bridge-ratings", {"error": 0.0}, "error is 0, not between 0.01 and 100"),
        ("fatigue-crack", {"levels": 2}, "levels is 2, not between 3 and 100"),
        ("fatigue-crack", {"rates": 0}, "rates is 0, not between 1 and 20"),
        ("fatigue-crack", {"failure": -1.0}, "failure is -1"),
    ],
)
def test_refusals(name: str, parameters: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        problem(name, **parameters)


@pytest.mark.parametrize(
    ("name", "parameters", "gap"),
    [("bridge-ratings", {"ratings": 4}, 1e-4), ("fatigue-crack", {"levels": 4, "severity": 5.0}, 1e-3)],
)
def test_a_small_instance_is_planned_for_and_simulated_inside_of_its_interval(
    name: str, parameters: dict[str, float], gap: float
) -> None:
    model = problem(name, **parameters)
    best = plan(model, gap)
    assert best.status == "closed"
    assert verify(best, model) == pytest.approx((best.lower, best.upper))
    costs = averages_of(best, model, 16, 2500, seed=5)
    # The mean of 16 runs within seven standard errors: t with 15 degrees of freedom, false alarm under 1e-5.
    error = 7 * costs.std(ddof=1) / 4
    assert best.lower - error < costs.mean() < best.upper + error
    assert error < 0.5 * abs(best.upper)


@pytest.mark.parametrize("name", ["bridge-ratings", "fatigue-crack"])
def test_an_agent_learns_from_the_prior_of_the_story(name: str) -> None:
    model = problem(name, **({"ratings": 4} if name == "bridge-ratings" else {"levels": 4}))
    agent = PSRLAgent(model.prior, seed=3, budget=PlanningBudget(tolerance=lambda start: 0.05))
    trace = simulate(model, agent, 25, seed=4, driver="streaming")
    assert trace.horizon == 25
    kernel = agent.posterior.mean()
    assert (kernel[model.prior.concentration == 0] == 0).all()
    assert kernel[0] == pytest.approx(kernel[1])
