"""Simulated fleets: units with their own hidden states, the regret a unit, and runs in parallel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fleets import COARSE, FAMILY, PRIORS, RAILWAY, SEPARATED
from psrl_pomdp import Fleet, InvalidModelError, PSRLAgent, plan, simulate
from psrl_pomdp.inference.encoding import model_of
from psrl_pomdp.simulation import FleetTrace, simulate_fleet, simulate_fleets

pytestmark = pytest.mark.filterwarnings("ignore::psrl_pomdp.CoarsePlanWarning")


@pytest.mark.parametrize("name", ["separated", "railway", "density"])
def test_one_unit_is_a_run_of_an_agent(name: str) -> None:
    """The same actions, observations, sums and regret; the environment has the seed of the unit."""
    if name == "density":
        prior, budget, horizon = PRIORS[name], COARSE, 25
        world: Any = model_of(prior, np.random.default_rng(7))
    else:
        world, budget, horizon = {"separated": SEPARATED, "railway": RAILWAY}[name], None, 300
        prior = world.family or world.prior
    agent = PSRLAgent(prior, seed=2, budget=budget)
    one = simulate(world, agent, horizon, [5, 0], driver="streaming", every_step=True)
    fleet = Fleet(prior, seed=2, budget=budget)
    found = simulate_fleet(world, fleet, ["pump"], horizon, 5, every_step=True)
    trace = found.units["pump"]
    for field in ("actions", "observations", "states"):
        assert np.array_equal(getattr(one, field), getattr(trace, field)), field
    assert np.array_equal(one.times, found.times)
    assert np.array_equal(one.checkpoints.sums[:, :2], trace.checkpoints.sums[:, :2])
    assert np.array_equal(one.checkpoints.visits, trace.checkpoints.visits)
    assert one.episodes == found.episodes
    assert one.average_cost == found.average_cost
    if name != "density":
        best = plan(world, 1e-6)
        assert found.regret(best) == one.regret(best)


def test_the_regret_a_unit_is_the_mean_over_units() -> None:
    """By the sum over all steps, written out; and the mean of the plain regret."""
    fleet = Fleet(FAMILY, seed=1)
    found = simulate_fleet(SEPARATED, fleet, 3, 120, 4, checkpoints=[50, 120])
    assert list(found.units) == ["unit 1", "unit 2", "unit 3"]
    assert len({trace.observations.tobytes() for trace in found.units.values()}) == 3
    best = plan(SEPARATED, 1e-6)
    lower, upper = found.regret_curve(best)
    each = np.array([trace.regret_curve(best)[0] for trace in found.units.values()])
    assert lower == pytest.approx(each.mean(axis=0), abs=1e-12)
    assert (upper >= lower).all()
    assert float(found.regret(best)) == pytest.approx(0.5 * (lower[-1] + upper[-1]))
    assert [trace.horizon for trace in found.units.values()] == [120] * 3
    gaps = []
    for seed in range(25):
        run = simulate_fleet(SEPARATED, Fleet(FAMILY, seed=seed), 4, 100, seed, checkpoints=[100])
        plain = 100 * (run.average_cost - 0.5 * (best.lower + best.upper))
        gaps.append(float(run.regret(best)) - plain)
    # The same mean as without the control variate; a false alarm at 5 errors has chance 6e-7.
    assert abs(np.mean(gaps)) < 5 * np.std(gaps, ddof=1) / np.sqrt(len(gaps))


def test_runs_in_parallel_are_the_runs_one_after_the_other() -> None:
    """And independent of the other seeds."""
    one = simulate_fleets(SEPARATED, FAMILY, 2, 40, [1, 2, 3], checkpoints=[40])
    two = simulate_fleets(SEPARATED, FAMILY, 2, 40, [3, 1], workers=2, checkpoints=[40])
    for a, b in ((one[2], two[0]), (one[0], two[1])):
        for name, trace in a.units.items():
            assert np.array_equal(trace.actions, b.units[name].actions)
            assert np.array_equal(trace.observations, b.units[name].observations)
        assert a.episodes == b.episodes
    assert not np.array_equal(one[0].units["unit 1"].observations, one[1].units["unit 1"].observations)


def test_late_work_is_counted() -> None:
    def late(delay: int) -> FleetTrace:
        return simulate_fleet(RAILWAY, Fleet(RAILWAY.prior, seed=1, wait=False), 3, 60, 1, delay=delay)

    soon, later = late(0), late(6)
    assert soon.late_steps < later.late_steps
    assert soon.late_steps >= 3  # the first step of each unit has no plan
    assert later.late_steps <= 3 * 60
    assert len(later.episodes) > 2
    assert "3 units, T=60" in repr(later)


def test_mistakes_are_named() -> None:
    fleet = Fleet(FAMILY, seed=1)
    for units in (0, [], ["a", "a"]):
        with pytest.raises(InvalidModelError, match="units"):
            simulate_fleet(SEPARATED, fleet, units, 10)
    with pytest.raises(InvalidModelError, match="horizon"):
        simulate_fleet(SEPARATED, fleet, 1, 0)
    fleet.act("a", 0)
    with pytest.raises(InvalidModelError, match="used before"):
        simulate_fleet(SEPARATED, fleet, 1, 10)
