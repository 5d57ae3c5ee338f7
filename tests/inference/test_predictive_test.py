"""The test of the model: a martingale under it, equal to its definition, and loud about a wrong sensor."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oracles import every_path, random_kernel
from psrl_pomdp import (
    POMDP,
    DirichletPrior,
    DirichletSensor,
    FinitePrior,
    GaussianSensor,
    ImpossibleObservationError,
    InvalidModelError,
    MultivariateGaussianSensor,
    PlanningBudget,
    PSRLAgent,
    Setting,
    problem,
    simulate,
)
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.inference.model_fit import ModelFit, resume_test, saved_test
from psrl_pomdp.inference.predictive_test import LEVELS

COST = [[0.0, 50.0], [20.0, 20.0]]
KERNEL = np.array([[[0.9, 0.1], [0.0, 1.0]], [[1.0, 0.0], [0.9, 0.1]]])


def random_prior(kind: str, rng: np.random.Generator) -> FinitePrior:
    """A finite prior of each kind of steps: by action, by code, by code under each kernel, with costs."""
    shape = {"action": (2, 2), "previous": (2, 2, 2)}.get(kind, (2,))
    setting = Setting(rng.dirichlet(np.ones(2), shape), COST, [0.4, 0.6], first_observation=None)
    if kind == "costs":
        setting = setting.replace(seen_cost="exact")
    kernels = [random_kernel(rng, 2, 2, 1.0) for _ in range(3)]
    sensors = rng.dirichlet(np.ones(2), (3, 2)) if kind == "unknown" else None
    return FinitePrior(setting, kernels, [0.5, 0.3, 0.2], sensors=sensors)


def log_e_of(probabilities: list[float], kinds: list[int], actions: list[int], n_kinds: int) -> float:
    """Log E by its definition: every start of every alternative is followed on its own."""
    by_action: dict[Any, Array] = {}
    ratios = np.ones((4, len(kinds)))
    last = n_kinds
    for i, (p, x, a) in enumerate(zip(probabilities, kinds, actions, strict=True)):
        for k, (place, window) in enumerate(
            [((a, last), 200.0), ((a,), 200.0), ((a, last), np.inf), ((a,), np.inf)]
        ):
            counts = by_action.setdefault((k, place), np.zeros(n_kinds))
            q = (counts[x] + 0.5) / (counts.sum() + 0.5 * n_kinds)
            ratios[k, i] = (0.5 * p + 0.5 * q if k < 2 else q) / p
            counts *= 1.0 - 1.0 / window
            counts[x] += 1.0
        last = x
    n = len(kinds)
    total = 0.2
    for k in range(4):
        starts = [math.prod(ratios[k, j:]) / ((j + 1) * (j + 2)) for j in range(n)]
        total += (sum(starts) + 1.0 / (n + 1)) / ((k + 1) * (k + 2))
    return math.log(total)


# -- the definition, and the martingale ------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["state", "action", "unknown"])
def test_the_e_value_is_that_of_the_definition(kind: str) -> None:
    """Predictive probabilities are ratios of the probabilities of all paths; a lost reading is not tested."""
    rng = np.random.default_rng(5)
    prior = random_prior(kind, rng)
    posterior = prior.posterior()
    posterior.start(None)
    actions: list[int] = []
    readings: list[int | None] = []
    probabilities: list[float] = []
    before = prior.weights
    for step in range(5):
        actions.append(int(rng.integers(2)))
        readings.append(int(rng.integers(2)) if step != 2 else None)
        likelihood = (
            [
                every_path(
                    prior.setting_of(m),
                    prior.kernels[m][None],
                    prior.initial[m][None],
                    None,
                    actions,
                    readings,
                ).likelihood[0]
                for m in range(3)
            ]
            if kind == "unknown"
            else every_path(prior.setting, prior.kernels, prior.initial, None, actions, readings).likelihood
        )
        after = prior.weights * likelihood
        probabilities.append(float(after.sum() / before.sum()))
        before = after
        posterior.update(actions[-1], readings[-1])
    assert posterior.fit is not None
    # After the lost reading there is no last reading, so that the definition is asked in two parts.
    assert posterior.fit.readings == 4
    assert probabilities[2] == pytest.approx(1.0)
    short = prior.posterior()
    short.start(None)
    for a, o in zip(actions[:2], readings[:2], strict=True):
        short.update(a, o)
    assert short.fit is not None
    wanted = log_e_of(probabilities[:2], [int(o or 0) for o in readings[:2]], actions[:2], 2)
    assert short.fit.log_e_value == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("kind", ["state", "previous", "unknown", "costs"])
def test_the_e_value_has_mean_one_under_the_model(kind: str) -> None:
    """The mean over all readings of four steps, of which the actions depend on the past readings."""
    rng = np.random.default_rng(3)
    prior = random_prior(kind, rng)
    codes = prior.step_codes
    posterior = prior.posterior()
    posterior.start(None)
    start = {m: prior.initial[m] for m in range(3)}
    matrices = [
        codes.matrices(
            prior.kernels[m][..., None], None if prior.factors is None else prior.factors[..., m : m + 1]
        )[..., 0]
        for m in range(3)
    ]

    def mean_of(depth: int, forward: dict[int, Array], past: int) -> tuple[float, float]:
        """The mean of E after `depth` more steps times the probability of the past, and this probability."""
        chance = sum(prior.weights[m] * forward[m].sum() for m in range(3))
        if depth == 0:
            assert posterior.fit is not None
            return chance * posterior.fit.e_value, chance
        action, total, mass = past % 2, 0.0, 0.0
        for number, code in enumerate(codes.full_codes.tolist()):
            after = {
                m: (forward[m] @ matrices[m][codes.matrix_number(action, code)])
                * codes.likelihood[action, code]
                for m in range(3)
            }
            if not sum(vector.sum() for vector in after.values()) > 0.0:
                continue
            before = posterior.snapshot()
            observation, cost = divmod(code, codes.n_costs + 1)
            paid = [] if prior.setting.seen_cost is None else [float(prior.setting.seen_cost.values[cost])]
            posterior.update(action, observation, *paid)
            more, share = mean_of(depth - 1, after, 3 * past + number + 1)
            posterior.go_back(before)
            total, mass = total + more, mass + share
        return total, mass

    for depth in (1, 2, 4):
        mean, mass = mean_of(depth, start, 0)
        assert mass == pytest.approx(1.0, abs=1e-12)
        assert mean == pytest.approx(1.0, abs=1e-12)


def test_it_equals_the_definition_over_many_readings() -> None:
    """A wrong sensor, whose e-value becomes astronomically large; the probabilities are those of a chain."""
    told, true = np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[0.5, 0.5], [0.4, 0.6]])
    posterior = FinitePrior(Setting(told, COST, [1.0, 0.0]), [KERNEL]).posterior()
    posterior.start(0)
    rng, belief = np.random.default_rng(1), np.array([1.0, 0.0]) * told[:, 0]
    belief /= belief.sum()
    state, probabilities, kinds, actions = 0, [], [], []
    for _ in range(300):
        action = int(rng.random() < 0.1)
        state = int(rng.random() < KERNEL[action, state, 1])
        kinds.append(int(rng.random() < true[state, 1]))
        actions.append(action)
        joint = (belief @ KERNEL[action]) * told[:, kinds[-1]]
        probabilities.append(float(joint.sum()))
        belief = joint / joint.sum()
        posterior.update(action, kinds[-1])
    assert posterior.fit is not None
    wanted = log_e_of(probabilities, kinds, actions, 2)
    assert posterior.fit.log_e_value == pytest.approx(wanted, rel=1e-9)
    assert wanted > math.log(1e6)
    assert posterior.fit.alarm(1e-6)
    assert [level for level, _ in posterior.fit.alarms] == list(LEVELS)


def test_a_reading_without_a_number_is_tested_by_its_cell() -> None:
    """The e-values after each cell, weighted with the predictive probabilities, have the mean E before it."""
    sensor = GaussianSensor([0.0, 1.0], [1.0, 0.5])
    setting = Setting(sensor, COST, [0.6, 0.4], first_observation=None)
    prior = FinitePrior(setting, [KERNEL, KERNEL * 0.5 + 0.25])
    posterior = prior.posterior()
    posterior.start(None)
    cells, rng = prior.step_codes.cells, np.random.default_rng(2)
    n_cells = cells.table.shape[1]
    assert n_cells > 8
    grid = np.linspace(-6.0, 6.0, 4001)
    places = cells.numbers(0, grid)
    inside = {cell: float(np.median(grid[places == cell])) for cell in range(n_cells)}
    for action in (0, 1, 0):
        assert posterior.fit is not None
        before, now = posterior.snapshot(), posterior.fit.e_value
        forward = np.einsum("n,ns,nst->t", posterior.weights, posterior.beliefs, prior.kernels[:, action])
        chances = cells.table[action] @ forward
        assert chances.sum() == pytest.approx(1.0, abs=1e-9)
        mean = 0.0
        for cell, reading in inside.items():
            posterior.update(action, reading)
            assert posterior.fit is not None
            mean += float(chances[cell]) * posterior.fit.e_value
            posterior.go_back(before)
        assert mean == pytest.approx(now, abs=1e-9)
        posterior.update(action, float(rng.normal()))


# -- false alarms and power ------------------------------------------------------------------------------


def life(setting: Setting, kernel: Array, n: int, rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Actions at random and the readings that follow, from the state 0."""
    state, actions, readings = 0, [], []
    for _ in range(n):
        actions.append(int(rng.random() < 0.2))
        state = int(rng.choice(len(kernel[0]), p=kernel[actions[-1], state]))
        readings.append(int(rng.choice(setting.n_observations, p=setting.observation[actions[-1], state])))
    return actions, readings


def test_false_alarms_are_as_rare_as_promised() -> None:
    """At the level .1, 150 worlds give more than 30 alarms with probability at most 1e-4."""
    setting = Setting([[0.8, 0.2], [0.3, 0.7]], COST, [1.0, 0.0])
    prior = FinitePrior(setting, [KERNEL, KERNEL * 0.5 + 0.25, KERNEL * 0.9 + 0.05])
    alarms = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        actions, readings = life(setting, prior.sample(rng), 120, rng)
        posterior = prior.posterior()
        posterior.start(None)
        posterior.update_many(actions, readings)
        assert posterior.fit is not None
        alarms += posterior.fit.alarm(0.1)
    assert alarms <= 30


def test_a_sensor_that_is_wrong_by_a_fifth_is_found() -> None:
    model = problem("railway")
    assert model.family is not None
    right = model.setting.observation[0]
    wrong = model.setting.replace(
        observation=0.8 * right + 0.2 * np.roll(right, 1, axis=1), first_observation=None
    )
    prior = FinitePrior(wrong, model.family.kernels)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        posterior = prior.posterior()
        posterior.start(None)
        posterior.update_many(*life(model.setting, model.transition, 1500, rng))
        assert posterior.fit is not None
        assert posterior.fit.alarm(0.01)
        assert "The model does not fit" in str(posterior.fit)


def test_a_sensor_that_is_glued_on_anew_is_found_within_300_steps() -> None:
    model = problem("railway")
    assert model.family is not None
    setting = model.setting.replace(first_observation=None)
    glued = setting.replace(observation=np.roll(setting.observation[0], 2, axis=1))
    posterior = FinitePrior(setting, model.family.kernels).posterior()
    posterior.start(None)
    rng = np.random.default_rng(4)
    posterior.update_many(*life(setting, model.transition, 1000, rng))
    assert posterior.fit is not None
    assert not posterior.fit.alarm(0.01)
    assert posterior.fit.departures == ()
    assert "Nothing speaks against the model" in str(posterior.fit)
    posterior.update_many(*life(glued, model.transition, 300, rng))
    found = posterior.fit
    assert found is not None
    when = found.alarm_time(0.01)
    assert when is not None
    assert 1001 < when <= 1301
    assert found.begin is not None
    assert 950 < found.begin <= when
    assert found.departures
    worst = found.departures[0]
    assert abs(worst.came - worst.expected) > 0.05
    assert worst.action in setting.actions


# -- agents and files ------------------------------------------------------------------------------------


def agents(prior: Any) -> tuple[PSRLAgent, PSRLAgent]:
    budget = PlanningBudget(min_tolerance=0.3, max_tolerance=0.3)
    return PSRLAgent(prior, seed=1, budget=budget), PSRLAgent(prior, seed=1, budget=budget)


def priors() -> dict[str, tuple[Any, Setting]]:
    flat = Setting([[0.8, 0.2], [0.3, 0.7]], COST, [1.0, 0.0])
    normal = Setting(GaussianSensor([0.0, 1.0], [1.0, 1.0]), COST, [1.0, 0.0])
    return {
        "finite": (FinitePrior(flat, [KERNEL, KERNEL * 0.5 + 0.25]), flat),
        "rows": (DirichletPrior(flat, np.ones((2, 2, 2))), flat),
        "sensor": (
            DirichletPrior(flat, np.ones((2, 2, 2)), sensor=DirichletSensor([[8.0, 2.0], [3.0, 7.0]])),
            flat,
        ),
        "density": (FinitePrior(normal, [KERNEL, KERNEL * 0.5 + 0.25]), normal),
        "density rows": (DirichletPrior(normal, np.ones((2, 2, 2))), normal),
    }


@pytest.mark.parametrize("kind", list(priors()))
def test_both_drivers_and_files_give_the_same_bits(kind: str) -> None:
    prior, setting = priors()[kind]
    one, other = agents(prior)
    simulate(POMDP(setting, KERNEL), one, 60, seed=2, driver="compiled")
    trace = simulate(POMDP(setting, KERNEL), other, 60, seed=2, driver="streaming")
    assert one.fit == other.fit
    assert one.fit is not None
    assert 0 < one.fit.readings <= 60
    saved, again = (saved_test(each.posterior._filters.test)["fit"] for each in (one, other))
    np.testing.assert_array_equal(saved, again)
    state, last = other.posterior.state(), trace.observations[-1]
    restored = prior.restore(state, np.random.default_rng(0))
    assert restored.fit == other.fit
    for posterior in (restored, other.posterior):
        posterior.update(0, last if not setting.is_finite else int(last))
    assert restored.fit == other.posterior.fit
    assert restored.fit.readings == one.fit.readings + 1


def test_an_agent_keeps_the_test_in_its_file(tmp_path: Path) -> None:
    prior, setting = priors()["finite"]
    agent = agents(prior)[0]
    simulate(POMDP(setting, KERNEL), agent, 30, seed=2)
    agent.save(tmp_path / "agent.npz")
    loaded = PSRLAgent.load(tmp_path / "agent.npz")
    assert loaded.fit == agent.fit
    assert loaded.fit is not None
    assert loaded.fit.readings > 20
    for each in (agent, loaded):
        each.act(0)
    assert loaded.to_bytes() == agent.to_bytes()


def test_the_test_goes_on_after_a_refresh() -> None:
    prior, setting = priors()["rows"]
    posterior = prior.posterior(np.random.default_rng(0))
    posterior.start(0)
    posterior.update_many(*life(setting, KERNEL, 20, np.random.default_rng(1)))
    before = posterior.fit
    posterior.refresh()
    assert posterior.fit == before
    assert before.readings == 20


def test_a_call_that_fails_changes_nothing() -> None:
    never = Setting([[0.8, 0.2, 0.0], [0.3, 0.7, 0.0]], COST, [1.0, 0.0])
    for prior in (FinitePrior(never, [KERNEL]), DirichletPrior(never, np.ones((2, 2, 2)))):
        agent = agents(prior)[0]
        for reading in (0, 1, 1, 0):
            agent.act(reading)
        before = agent.fit
        with pytest.raises(ImpossibleObservationError):
            agent.act(2)
        assert agent.fit == before

        def fails(*_: object) -> int:
            raise RuntimeError("stopped")

        agent.choose_action = fails  # type: ignore[method-assign]
        with pytest.raises(RuntimeError):
            agent.act(1)
        assert agent.fit == before


def test_old_files_start_the_test_when_they_are_loaded() -> None:
    folder = Path(__file__).parent.parent / "data"
    for name in ("agent_finite_0_1", "agent_dirichlet_0_1"):
        agent = PSRLAgent.load(folder / f"{name}.npz")
        assert agent.fit is not None
        assert (agent.fit.readings, agent.fit.since) == (0, agent.time)
        assert agent.fit.log_e_value == 0.0
        assert str(agent.fit) == "No reading has been compared with the model."


def test_damaged_numbers_are_rejected() -> None:
    prior, setting = priors()["finite"]
    posterior = prior.posterior()
    posterior.start(0)
    posterior.update_many(*life(setting, KERNEL, 20, np.random.default_rng(1)))
    state = posterior.state()
    for place, value in (
        (0, 3.0),
        (1, 50.0),
        (2, 7.0),
        (2, 0.5),
        (4, np.nan),
        (6, -1.0),
        (14, 0.5),
        (30, 100.0),
    ):
        memory = posterior._filters.test.memory.copy()
        memory[place] = value
        with pytest.raises(InvalidModelError, match="fit"):
            prior.restore(
                {**state, "fit": np.frombuffer(memory.tobytes(), np.uint8)}, np.random.default_rng(0)
            )
    with pytest.raises(InvalidModelError, match="fit"):
        prior.restore({**state, "fit": np.zeros(8)}, np.random.default_rng(0))
    test = posterior._filters.test
    before = test.memory.copy()
    resume_test(test, state, posterior.time)
    np.testing.assert_array_equal(test.memory, before)


def test_what_cannot_be_tested_has_no_fit() -> None:
    sensor = MultivariateGaussianSensor([[0.0, 0.0], [1.0, 1.0]], [np.eye(2), np.eye(2)])
    setting = Setting(sensor, COST, [1.0, 0.0], first_observation=None)
    posterior = FinitePrior(setting, [KERNEL]).posterior()
    posterior.start(None)
    posterior.update(0, [0.1, 0.2])
    assert posterior.fit is None
    many = Setting(np.full((2, 5000), 1 / 5000), COST, [1.0, 0.0])
    posterior = FinitePrior(many, [KERNEL]).posterior()
    posterior.start(0)
    posterior.update(0, 4000)
    assert posterior.fit is None


def test_levels_are_checked() -> None:
    fit = ModelFit(3, 1, 2.0, 5.0, ((0.1, 2), (0.05, 2), (0.01, 3)), 2, ())
    assert fit.alarm()
    assert not fit.alarm(1e-4)
    assert (fit.alarm_time(), fit.alarm_time(0.001)) == (3, None)
    assert fit.e_value == pytest.approx(math.exp(2.0))
    assert ModelFit(3, 1, 2.0, 5000.0, (), 2, ()).largest_e_value == math.inf
    for level in (0.0, 2.0, "high"):
        with pytest.raises(InvalidModelError, match="level"):
            fit.alarm(level)  # type: ignore[arg-type]
    with pytest.raises(InvalidModelError, match="times are recorded"):
        fit.alarm_time(0.02)
