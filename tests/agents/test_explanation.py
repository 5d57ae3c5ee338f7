"""`explain()`: the numbers are those of the posterior and of the plan, and the sentences say them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from density_settings import setting_of
from own_priors import WearPrior
from psrl_pomdp import (
    DirichletPrior,
    FinitePrior,
    Fleet,
    OutOfOrderError,
    PSRLAgent,
    Units,
    UnknownNameError,
    simulate,
)
from random_agents import COARSE, family


def named(seed: int = 3) -> FinitePrior:
    prior = family(seed)
    own = prior.setting.replace(
        states=["new", "worn", "broken"],
        actions=["run", "repair"],
        observations=["low", "middle", "high"],
        units=Units(10.0, 5010.0, name="euro a day"),
    )
    return FinitePrior(own, prior.kernels, prior.weights)


def test_the_numbers_are_those_of_posterior_and_plan() -> None:
    agent = PSRLAgent(named(), seed=1, budget=COARSE)
    for reading in ("low", "high", None, "middle"):
        agent.act(reading)
    why, info, posterior = agent.explain(), agent.info, agent.posterior
    np.testing.assert_allclose(why.belief, posterior.weights @ posterior.beliefs, atol=1e-12)
    assert (why.belief_lower <= why.belief + 1e-12).all()
    assert (why.belief <= why.belief_upper + 1e-12).all()
    np.testing.assert_array_equal(why.sampled_belief, info.belief)
    np.testing.assert_allclose(why.costs, 10.0 + 5000.0 * (agent.setting.cost @ info.belief), rtol=1e-12)
    np.testing.assert_array_equal(why.advantages, info.advantages)
    assert (why.lower, why.upper) == (info.plan.lower, info.plan.upper)
    assert (why.unit, why.step, why.observed, why.late, why.overridden) == (None, 4, "middle", False, False)


def test_the_sentences_say_the_numbers() -> None:
    agent = PSRLAgent(named(), seed=1, budget=COARSE)
    agent.act("low")
    agent.act("high")
    why, text = agent.explain(), str(agent.explain())
    chosen = agent.setting.actions[agent.action or 0]
    other = "repair" if chosen == "run" else "run"
    assert text.startswith(f"Step 2: {chosen}, after high. The state is ")
    assert f"{why.belief.max():.0%}".replace("%", " %") in text
    dearer = why.advantages[why.actions.index(other)]
    shown = f"{dearer:,.0f}" if dearer >= 1000 else f"{dearer:.3g}"
    assert f"In the long run {other} costs {shown} euro more than {chosen}." in text
    assert f"{why.lower:,.4g} to {why.upper:,.4g} euro a day" in text
    given = json.loads(json.dumps(why.to_dict()))
    assert given["text"] == text
    assert given["actions"][other]["long_run"] == pytest.approx(dearer)
    assert sum(state["probability"] for state in given["states"].values()) == pytest.approx(1.0)


def test_rewards_are_called_so() -> None:
    prior = named()
    own = prior.setting.replace(units=Units(-50.0, 10.0, kind="reward", name="points"))
    agent = PSRLAgent(FinitePrior(own, prior.kernels), budget=COARSE)
    agent.act("low")
    assert "brings" in str(agent.explain())
    assert "largest average reward" in str(agent.explain())
    assert "points less than" in str(agent.explain())


def test_a_fleet_explains_its_units_and_overrides() -> None:
    fleet = Fleet(named(), seed=1, budget=COARSE)
    with pytest.raises(UnknownNameError, match="no unit is named 'pump 1'"):
        fleet.explain("pump 1")
    fleet.join("pump 1")
    with pytest.raises(OutOfOrderError, match="no action was chosen for unit 'pump 1'"):
        fleet.explain("pump 1")
    fleet.act_all({"pump 1": "low", "pump 2": "high"})
    fleet.act("pump 2", None)
    assert str(fleet.explain("pump 1")).startswith("Pump 1, step 1: ")
    assert "after a missing observation" in str(fleet.explain("pump 2"))
    np.testing.assert_allclose(fleet.explain("pump 2").belief, fleet.unit("pump 2").belief)
    chosen = fleet.explain("pump 1").chosen
    other = "run" if chosen == "repair" else "repair"
    fleet.override("pump 1", other)
    why = fleet.explain("pump 1")
    assert (why.chosen, why.action, why.overridden) == (chosen, other, True)
    assert f"But {other} was done instead." in str(why)
    again = Fleet.from_bytes(fleet.to_bytes())
    assert [str(again.explain(unit)) for unit in fleet.units] == [str(fleet.explain(u)) for u in fleet.units]
    fleet.act("pump 1", "low")
    assert not fleet.explain("pump 1").overridden


def test_a_fleet_that_does_not_wait_says_when_a_plan_is_due() -> None:
    fleet = Fleet(named(), seed=1, budget=COARSE, wait=False)
    fleet.act("p", "low")
    why = fleet.explain("p")
    assert why.lower is None
    assert "There is no plan yet" in str(why)
    work = fleet.work
    assert work is not None
    fleet.adopt(work.run())
    while not fleet.explain("p").late or fleet.explain("p").lower is None:
        fleet.act("p", "middle")
    assert "The next plan is being made" in str(fleet.explain("p"))


def test_an_alarm_is_passed_on() -> None:
    """The sensor of the model never gives the same reading for hundreds of steps."""
    agent = PSRLAgent(named(), seed=1, budget=COARSE)
    agent.act("low")
    for i in range(300):
        agent.act(["low", "high"][i % 2])
    assert agent.fit is not None
    assert agent.fit.alarm()
    assert "Be careful. The model does not fit" in str(agent.explain())


def test_without_names_and_with_real_numbers() -> None:
    setting = setting_of("gaussian", first=True)
    agent = PSRLAgent(
        DirichletPrior(setting, np.ones((setting.n_actions, *[setting.n_states] * 2))), budget=COARSE
    )
    with pytest.raises(OutOfOrderError, match="explain: no action was chosen"):
        agent.explain()
    agent.act(0.25)
    assert "after a reading of 0.25" in str(agent.explain())
    assert "state 0" in str(agent.explain())
    other = PSRLAgent(WearPrior(), budget=COARSE)
    other.act(1)
    assert "after observation 1" in str(other.explain())


def test_after_a_simulated_run() -> None:
    """Compiled loops keep no observation; the next `act` does."""
    prior = named()
    agent = PSRLAgent(prior, seed=3, budget=COARSE)
    simulate(prior.model(0), agent, 20, seed=3)
    why = agent.explain()
    assert why.advantages[why.actions.index(why.action)] == 0.0
    assert why.observed is None
    agent.act("low")
    assert agent.explain().observed == "low"
