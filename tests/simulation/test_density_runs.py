"""Runs with densities: both drivers, checkpoints, files of agents and of runs, and what files are refused."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from density_settings import COST, INITIAL, SENSORS, draw_triangle, setting_of, triangle
from psrl_pomdp import (
    POMDP,
    DensitySensor,
    DirichletPrior,
    ExponentialSensor,
    FinitePrior,
    GaussianSensor,
    ImpossibleObservationError,
    InvalidModelError,
    ParseError,
    PlanningBudget,
    PSRLAgent,
    Setting,
    plan,
    simulate,
)
from psrl_pomdp._serialization.archives import pack, unpack
from psrl_pomdp.simulation import Simulation

pytestmark = pytest.mark.filterwarnings("ignore::psrl_pomdp.errors.CoarsePlanWarning")

KERNELS = np.random.default_rng(3).dirichlet(np.full(3, 0.8), size=(3, 2, 3))
COARSE = PlanningBudget(min_tolerance=0.05, max_tolerance=0.2, max_work=3_000_000)


class Fixed:
    """A plan that is no `Plan`: it plays the action that is cheapest at the belief."""

    lower, upper, status = 0.0, 1.0, "optimal"

    def action(self, belief: Any) -> int:
        return int((COST @ belief).argmin())


def fixed(model: POMDP, *args: Any, **more: Any) -> Any:
    """A planner for sensors that have no intervals."""
    return Fixed()


def agent_for(setting: Setting, kind: str = "rows", seed: int = 1) -> PSRLAgent:
    prior: Any = FinitePrior(setting, KERNELS)
    if kind == "rows":
        prior = DirichletPrior(setting, np.full((2, 3, 3), 0.7))
    scalar = hasattr(setting.sensor, "interval_masses")
    return PSRLAgent(prior, seed=seed, budget=COARSE, planner=plan if scalar else fixed)


def world_of(setting: Setting) -> POMDP:
    return POMDP(setting, KERNELS[0])


@pytest.mark.parametrize("kind", ["finite", "rows"])
@pytest.mark.parametrize("name", ["gaussian", "by action", "one silent action", "poisson"])
@pytest.mark.parametrize("first", [False, True])
def test_both_drivers_give_the_same_run(name: str, first: bool, kind: str) -> None:
    setting = setting_of(name, first=first)
    if first:  # the agent's own sensor may be a wrong one
        sensors = {"gaussian": GaussianSensor([0.0, 1.2, 2.0], [0.8, 0.7, 0.5]), "poisson": SENSORS[name]}
        own = Setting(sensors.get(name, GaussianSensor([0.0, 1.2, 2.0], [0.8, 0.7, 0.5])), COST, INITIAL,
                      setting.first_sensor)  # fmt: skip
    else:
        own = setting
    runs = []
    for driver in ("compiled", "streaming"):
        agent = agent_for(own, kind)
        trace = simulate(world_of(setting), agent, 300, seed=2, driver=driver)
        runs.append((agent, trace))
    (one, a), (other, b) = runs
    assert len(a.episodes) > 3
    assert np.array_equal(a.actions, b.actions)
    assert np.array_equal(a.observations, b.observations)
    assert a.episodes == b.episodes
    for column in ("sums", "visits", "expected", "pseudo", "truth"):
        assert np.array_equal(getattr(a.checkpoints, column), getattr(b.checkpoints, column), equal_nan=True)
    last = float(a.observations[-1])
    assert [one.act(last), one.act(None)] == [other.act(last), other.act(None)]
    if kind == "rows":
        past, again = one.posterior._past, other.posterior._past
        assert np.array_equal(past.values, again.values, equal_nan=True)
        assert np.array_equal(past.rows[: past.length], again.rows[: again.length])
        assert np.array_equal(past.values[:-2], a.observations[:-1])
    # What the posterior keeps of the last sample is not up to date after compiled loops.
    files = [unpack(agent.to_bytes(), "agent") for agent in (one, other)]
    states = [
        {k: v.tobytes() for k, v in each.items() if not k.startswith("posterior.used")} for each in files
    ]
    assert states[0] == states[1]


@pytest.mark.parametrize("name", ["vectors", "code"])
def test_sensors_without_intervals_run_with_a_planner_of_their_own(name: str) -> None:
    setting = setting_of(name, first=True)
    runs = [
        simulate(world_of(setting), agent_for(setting), 200, seed=2, checkpoints=c) for c in ([7, 150], [200])
    ]
    assert np.array_equal(runs[0].actions, runs[1].actions)
    assert np.array_equal(runs[0].observations, runs[1].observations)
    assert runs[0].observations.shape == (200, *([2] if name == "vectors" else []))


@pytest.mark.parametrize("driver", ["compiled", "streaming"])
def test_checkpoints_and_chunks_do_not_change_a_run(driver: Any) -> None:
    """Observations are drawn in blocks of 1024: runs that stop within one and across two."""
    setting = setting_of("by action", first=True)
    model, horizon = world_of(setting), 1300 if driver == "compiled" else 1100
    whole = simulate(model, agent_for(setting, "finite"), horizon, seed=4, driver=driver)
    parts = Simulation(model, agent_for(setting, "finite"), 4, checkpoints=[3, 500, 1025], driver=driver)
    for stop in (1, 17, 1023, 1024, 1026, horizon):
        trace = parts.until(stop)
    assert np.array_equal(trace.actions, whole.actions)
    assert np.array_equal(trace.observations, whole.observations)
    assert trace.episodes == whole.episodes


def test_a_run_follows_the_densities() -> None:
    """Readings in each state against the true density: Kolmogorov and Smirnov, false alarm 3 × 1e-6."""
    from scipy import stats

    setting = setting_of("gaussian", first=True)
    trace = simulate(world_of(setting), agent_for(setting, "finite"), 3000, seed=9, every_step=True)
    assert trace.states is not None
    for s, (mean, sd) in enumerate(((0.0, 0.7), (1.0, 0.7), (2.0, 0.4))):
        mine = trace.observations[trace.states[1:] == s]
        assert len(mine) > 100
        assert stats.kstest(mine, "norm", (mean, sd)).pvalue > 1e-6


def test_an_impossible_reading_in_a_run_is_named() -> None:
    """The true sensor emits negative numbers, which the agent's own excludes."""
    cost = np.zeros((2, 3))
    world = world_of(Setting(GaussianSensor([9.0, 9.0, 9.0], [4.0, 4.0, 4.0]), cost, INITIAL, None))
    own = Setting(ExponentialSensor([1.0, 5.0, 9.0]), cost, INITIAL, None)
    for driver in ("compiled", "streaming"):
        agent = agent_for(own)
        with pytest.raises(
            ImpossibleObservationError, match=r"observation -\d\S* has probability 0 after"
        ) as error:
            simulate(world, agent, 2000, seed=2, driver=driver)
        text = str(error.value)
        if driver == "compiled":
            said = text
    assert text == said


@pytest.mark.parametrize("kind", ["finite", "rows"])
@pytest.mark.parametrize("name", ["gaussian", "one silent action", "poisson", "vectors"])
def test_saved_agents_and_runs_continue_to_the_last_bit(name: str, kind: str) -> None:
    setting = setting_of(name, first=True)
    model = world_of(setting)
    whole = Simulation(model, agent_for(setting, kind), 4)
    trace = whole.until(260)
    half = Simulation(model, agent_for(setting, kind), 4)
    half.until(130)
    saved = half.to_bytes()
    rest = Simulation(model, agent_for(setting, kind), 4)
    rest.resume(saved)
    assert rest.to_bytes() == saved
    again = rest.until(260)
    assert np.array_equal(again.actions, trace.actions)
    assert np.array_equal(again.observations, trace.observations)
    assert again.episodes == trace.episodes
    assert rest.agent.to_bytes() == whole.agent.to_bytes()  # type: ignore[attr-defined]
    if name != "vectors":
        agent: Any = half.agent
        loaded = PSRLAgent.from_bytes(agent.to_bytes())
        assert loaded.to_bytes() == agent.to_bytes()
        readings = [*trace.observations[:3].tolist(), None]
        assert [loaded.act(y) for y in readings] == [agent.act(y) for y in readings]
        assert loaded.to_bytes() == agent.to_bytes()


def test_a_sensor_that_is_code_is_passed_again(tmp_path: Any) -> None:
    setting = setting_of("code", first=True)
    agent = agent_for(setting)
    simulate(world_of(setting), agent, 60, seed=1)
    path = tmp_path / "agent.npz"
    agent.save(path)
    with pytest.raises(InvalidModelError, match=r"planner of your own"):
        PSRLAgent.load(path)
    with pytest.raises(InvalidModelError, match=r"sensor that is code: pass its prior"):
        PSRLAgent.load(path, planner=fixed)
    loaded = PSRLAgent.load(path, planner=fixed, prior=agent.prior)
    assert loaded.to_bytes() == agent.to_bytes()
    assert loaded.act(1.5) == agent.act(1.5)
    other = DensitySensor(triangle, draw_triangle, 3, name="another")
    wrong = DirichletPrior(Setting(other, COST, INITIAL, other), np.full((2, 3, 3), 0.7))
    with pytest.raises(InvalidModelError, match=r"another setting"):
        PSRLAgent.load(path, planner=fixed, prior=wrong)


def changed(data: bytes, **arrays: Any) -> bytes:
    """The file with other arrays."""
    with np.load(io.BytesIO(data)) as file:
        found = {name: file[name] for name in file.files if name != "seal"}
    for keyword, change in arrays.items():
        name = keyword.replace("__", ".")
        found[name] = change(found[name].copy())
    return pack(found)  # with a seal that fits


def with_entry(place: Any, value: float) -> Any:
    def change(array: Any) -> Any:
        array[place] = value
        return array

    return change


HOSTILE = {
    "a likelihood": ("posterior.history_rows", with_entry((3, 1), 0.123)),
    "a likelihood above one": ("posterior.history_rows", with_entry((3, 1), 1.5)),
    "a negative likelihood": ("posterior.history_rows", with_entry((3, 1), -0.5)),
    "a reading": ("posterior.history_values", with_entry(3, 7.7)),
    "an infinite reading": ("posterior.history_values", with_entry(3, np.inf)),
    "a reading that is lost": ("posterior.history_values", with_entry(3, np.nan)),
    "too few readings": ("posterior.history_values", lambda array: array[:-1]),
    "too few likelihoods": ("posterior.history_rows", lambda array: array[:-1]),
    "a wrong shape": ("posterior.history_values", lambda array: array[:, None]),
    "text": ("posterior.history_values", lambda array: array.astype(str)),
    "a first reading": ("posterior.history_first", lambda array: np.asarray(np.inf)),
    "a code": ("posterior.history", lambda array: array + 4),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_changed_files_are_refused(case: str) -> None:
    setting = setting_of("gaussian", first=True)
    agent = agent_for(setting)
    simulate(world_of(setting), agent, 30, seed=1)
    name, change = HOSTILE[case]
    with pytest.raises((InvalidModelError, ParseError)):
        PSRLAgent.from_bytes(changed(agent.to_bytes(), **{name.replace(".", "__"): change}))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("values", with_entry(3, np.nan)),
        ("values", with_entry(3, np.inf)),
        ("values", lambda array: array[:-1]),
        ("value", lambda array: np.zeros(2)),
        ("readings", with_entry(3, 200)),
    ],
)
def test_changed_runs_are_refused(name: str, change: Any) -> None:
    setting = setting_of("gaussian", first=True)
    run = Simulation(world_of(setting), agent_for(setting, "finite"), 4)
    run.until(30)
    fresh = Simulation(world_of(setting), agent_for(setting, "finite"), 4)
    before = fresh.to_bytes()
    with pytest.raises((InvalidModelError, ParseError)):
        fresh.resume(changed(run.to_bytes(), **{name: change}))
    assert fresh.to_bytes() == before
