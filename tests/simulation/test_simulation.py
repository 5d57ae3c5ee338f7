"""A run against a plain reimplementation, driver against driver, and what a trace says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from psrl_pomdp import (
    POMDP,
    DirichletPrior,
    FinitePrior,
    InvalidModelError,
    PSRLAgent,
    Setting,
    TSDESchedule,
    plan,
    problem,
    simulate,
)
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.agents import compiled_steps as steps
from psrl_pomdp.agents.psrl import PlanningBudget
from psrl_pomdp.inference import filter_bank as filtering
from psrl_pomdp.inference.step_codes import StepCodes
from psrl_pomdp.simulation import Simulation
from psrl_pomdp.simulation.runs import log_spaced
from psrl_pomdp.simulation.trace import Trace, first_belief
from random_agents import COARSE, Coin, dirichlet, family


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("sensors", [1, 2])
@pytest.mark.parametrize("kind", ["finite", "dirichlet"])
def test_both_drivers_give_the_same_run(kind: str, sensors: int, first: bool) -> None:
    finite = family(30, first=first, sensors=sensors)
    prior = finite if kind == "finite" else dirichlet(finite.setting)
    traces = [
        simulate(
            finite.model(1),
            PSRLAgent(prior, TSDESchedule(), seed=7, budget=COARSE),
            400,
            seed=8,
            driver=driver,
        )
        for driver in ("streaming", "compiled")
    ]
    one, other = traces
    assert (one.actions == other.actions).all()
    assert (one.observations == other.observations).all()
    assert one.episodes == other.episodes
    assert np.array_equal(one.episode_sums, other.episode_sums)
    for name in ("times", "sums", "episodes", "visits", "expected", "pseudo", "truth"):
        assert np.array_equal(getattr(one.checkpoints, name), getattr(other.checkpoints, name)), name


def test_a_run_is_the_same_wherever_its_arrays_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled loops may look at addresses and add up in another order where small arrays are neighbors."""
    model, filters, rng = problem("separated"), filtering.make_filter_bank, np.random.default_rng(30)
    names = ("product", "scale", "weight", "chance", "expected", "lane_sums", "log_weight")

    def neighbors(
        codes: StepCodes, kernels: Array, weights: Array, factors: Array | None = None
    ) -> filtering.FilterBank:
        own, memory, end = filters(codes, kernels, weights, factors), np.zeros(1000), rng.integers(8)
        placed: dict[str, Any] = {}
        for name in rng.permutation(names):
            array = getattr(own, name)
            placed[name] = memory[end : end + array.size].reshape(array.shape)
            placed[name][...] = array
            end += array.size + rng.integers(6)
        return own._replace(**placed)

    def counted() -> bytes:
        assert model.family is not None
        agent = PSRLAgent(model.family, seed=1, budget=COARSE)
        return simulate(model, agent, 300, seed=2).checkpoints.expected.tobytes()

    usual = counted()
    monkeypatch.setattr(filtering, "make_filter_bank", neighbors)
    assert {counted() for _ in range(30)} == {usual}


def beliefs_along(trace: Trace) -> Array:
    """h_t(·; θ*) for t = 1..T + 1, in plain numpy."""
    model = trace.model
    belief = first_belief(model, trace.first_observation)
    out = [belief]
    for action, reading in zip(trace.actions, trace.observations, strict=True):
        belief = (belief @ model.transition[action]) * model.setting.observation[action][:, reading]
        belief = belief / belief.sum()
        out.append(belief)
    return np.array(out)


def test_sums_and_visits_by_plain_loops() -> None:
    prior = family(31)
    agent = PSRLAgent(prior, seed=1, budget=COARSE)
    trace = simulate(prior.model(0), agent, 200, seed=2, every_step=True)
    assert trace.states is not None
    model, beliefs = trace.model, beliefs_along(trace)
    states, actions = trace.states[:-1].astype(int), trace.actions.astype(int)
    kernels = np.zeros(200, int)
    for episode in trace.episodes:
        assert episode.kernel is not None
        kernels[episode.start - 1 : episode.start - 1 + episode.length] = episode.kernel
    own = np.zeros((200, 3))
    for m in range(len(prior)):
        own[kernels == m] = beliefs_along(_as_if(trace, prior.model(m)))[:-1][kernels == m]
    cost = model.setting.cost
    expected = (beliefs[:-1] * cost[actions]).sum(axis=1)
    wanted = {
        steps.COST: cost[actions, states],
        steps.EXPECTED_COST: expected,
        steps.BELIEF_GAP: np.abs(beliefs[:-1] - own).sum(axis=1),
        steps.KERNEL_GAP: np.abs(
            model.transition[actions, states] - prior.kernels[kernels, actions, states]
        ).sum(axis=1),
        steps.COST_GAP: expected - (own * cost[actions]).sum(axis=1),
    }
    for which, terms in wanted.items():
        for t, found in zip(trace.times, trace.checkpoints.sums[:, which], strict=True):
            assert found == pytest.approx(terms[:t].sum(), abs=1e-9)
        for episode, found in zip(trace.episodes, trace.episode_sums[:, which], strict=True):
            assert found == pytest.approx(terms[: episode.start - 1].sum(), abs=1e-9)
    visits = np.zeros((2, 3), int)
    np.add.at(visits, (actions, states), 1)
    assert (trace.checkpoints.visits[-1] == visits).all()


def _as_if(trace: Trace, model: POMDP) -> Trace:
    return Trace(model, *(getattr(trace, name) for name in list(Trace.__dataclass_fields__)[1:]))


def test_the_control_variate_by_a_plain_loop() -> None:
    prior = family(32)
    trace = simulate(prior.model(0), PSRLAgent(prior, budget=COARSE), 60, seed=3)
    best = plan(prior.model(0), 1e-5)
    model, beliefs = trace.model, beliefs_along(trace)
    vectors = best.controller.vectors

    def value(b: Array) -> float:
        return float((vectors @ b).min())

    total = 0.0
    at = {}
    for t, action in enumerate(trace.actions):
        b = beliefs[t]
        total += float(b @ model.setting.cost[action]) - value(b)
        for o in range(model.n_observations):
            after = (b @ model.transition[action]) * model.setting.observation[action][:, o]
            total += after.sum() * value(after / after.sum())
        at[t + 1] = total + value(beliefs[0]) - value(beliefs[t + 1])
    np.testing.assert_allclose(
        trace.control_variate_sums(best), [at[int(t)] for t in trace.times], atol=1e-10
    )
    regret = trace.regret(best)
    assert regret.upper - regret.lower == pytest.approx(60 * best.gap, rel=1e-6)
    assert regret.lower <= float(regret) <= regret.upper
    with pytest.raises(InvalidModelError, match="another model"):
        trace.regret(plan(prior.model(1), 0.05))


def test_the_world_follows_its_law() -> None:
    """States and readings by their counts: 12 rows of 3, chi-square below 75 at 24 degrees: one in 3e5."""
    prior = family(33, sensors=2)
    model = prior.model(0)
    trace = simulate(model, Coin(2), 30_000, seed=4, every_step=True)
    assert trace.states is not None
    now, later, actions = trace.states[:-1], trace.states[1:], trace.actions
    statistic = 0.0
    for a in range(2):
        for s in range(3):
            for table, given, outcome in (
                (model.transition[a, s], now, later),
                (model.setting.observation[a, s], later, trace.observations),
            ):
                chosen = outcome[(actions == a) & (given == s)]
                expected = len(chosen) * table
                statistic += (((np.bincount(chosen, minlength=3) - expected) ** 2) / expected).sum()
    assert statistic < 75


def test_agents_without_a_posterior() -> None:
    trace = simulate(family(34).model(0), Coin(2), 50)
    assert trace.episodes == ()
    assert np.isnan(trace.checkpoints.truth).all()
    assert np.isnan(trace.checkpoints.sums[:, steps.BELIEF_GAP]).all()
    assert np.isfinite(trace.checkpoints.sums[:, steps.COST]).all()


def test_a_run_taken_further_is_the_same_run() -> None:
    prior = family(35)
    whole = simulate(prior.model(0), PSRLAgent(prior, budget=COARSE), 500, seed=6)
    run = Simulation(prior.model(0), PSRLAgent(prior, budget=COARSE), 6)
    for horizon in (1, 2, 77, 500):
        further = run.until(horizon)
        assert further.horizon == horizon
    assert (further.actions == whole.actions).all()
    assert np.array_equal(further.checkpoints.sums[-1], whole.checkpoints.sums[-1])
    with pytest.raises(InvalidModelError, match="at least 500"):
        run.until(3)


def test_checkpoints() -> None:
    prior = family(36)
    assert log_spaced(1000, 1).tolist() == [1, 10, 100, 1000]
    assert log_spaced(1).tolist() == [1]
    trace = simulate(prior.model(0), PSRLAgent(prior, budget=COARSE), 100, checkpoints=[50, 7, 7, 900])
    assert trace.times.tolist() == [7, 50, 100]
    seen: list[int] = []
    simulate(prior.model(0), PSRLAgent(prior, budget=COARSE), 100, progress=seen.append)
    assert seen[-1] == 100


def test_what_cannot_be_run_is_named() -> None:
    prior = family(37)
    agent = PSRLAgent(prior, budget=COARSE)
    with pytest.raises(InvalidModelError, match="checkpoint 0"):
        simulate(prior.model(0), agent, 10, checkpoints=[0, 5])
    used = PSRLAgent(prior, budget=COARSE)
    used.act(0)
    with pytest.raises(InvalidModelError, match="used for 1 steps"):
        simulate(prior.model(0), used, 10)
    with pytest.raises(InvalidModelError, match="environment has 2 states, and the agent's setting has 3"):
        simulate(problem("no-sensor"), agent, 10)
    with pytest.raises(InvalidModelError, match="horizon is 0"):
        simulate(prior.model(0), agent, 0)
    with pytest.raises(InvalidModelError, match="every_step"):
        simulate(prior.model(0), agent, 10, every_step=True, driver="compiled")
    with pytest.raises(InvalidModelError, match="none of auto"):
        simulate(prior.model(0), agent, 10, driver="fast")  # type: ignore[arg-type]

    class Confused:
        def act(self, observation: int | None) -> int:
            return 5

    with pytest.raises(InvalidModelError, match="action 5 at step 1"):
        simulate(prior.model(0), Confused(), 10)


def test_impossible_readings_are_the_same_error_in_both_drivers() -> None:
    """A world outside of the prior."""
    setting = Setting(np.eye(2), [[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0])
    prior = FinitePrior(setting, np.stack([np.eye(2), np.eye(2)])[None])
    wrong = POMDP(setting, np.stack([np.eye(2)[::-1], np.eye(2)[::-1]]))
    messages = []
    for driver in ("streaming", "compiled"):
        with pytest.raises(ValueError, match="probability 0") as error:
            simulate(wrong, PSRLAgent(prior), 10, driver=driver)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_structural_zeros_that_the_world_breaks() -> None:
    setting = Setting(np.eye(2), [[0.0, 1.0]], [1.0, 0.0])
    prior = DirichletPrior(setting, [[[1.0, 0.0], [1.0, 1.0]]])
    wrong = POMDP(setting, np.full((1, 2, 2), 0.5))
    for driver in ("streaming", "compiled"):
        with pytest.raises(ValueError, match="probability 0"):
            simulate(wrong, PSRLAgent(prior, budget=COARSE), 50, driver=driver)


def test_learning_works_on_the_separated_family() -> None:
    """The truth is found: its weight is above .999 after 200 steps in each of 20 runs."""
    model = problem("separated")
    assert model.family is not None
    for seed in range(20):
        trace = simulate(
            model,
            PSRLAgent(model.family, seed=seed, budget=PlanningBudget(min_tolerance=1e-3)),
            200,
            seed=seed,
        )
        assert trace.checkpoints.truth[-1] > 0.999
