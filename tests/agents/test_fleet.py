"""Fleets: one unit is an agent, many units share what they learn, and a call that fails changes nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleets import COARSE, FAMILY, PRIORS, RAILWAY, SEPARATED, Plant, finish, play
from psrl_pomdp import (
    POMDP,
    CoarsePlanWarning,
    FinitePrior,
    FixedSchedule,
    Fleet,
    ImpossibleObservationError,
    InvalidModelError,
    Log,
    OutOfOrderError,
    ParseError,
    PlanningBudget,
    PSRLAgent,
    Setting,
    UnknownNameError,
    plan,
)
from psrl_pomdp.agents import compiled_steps as steps
from psrl_pomdp.agents.agent_state import FROM_SEED, random_streams
from psrl_pomdp.inference.encoding import model_of

pytestmark = pytest.mark.filterwarnings(
    "ignore::psrl_pomdp.CoarsePlanWarning", "ignore::psrl_pomdp.LabelWarning"
)
LENGTHS = {"finite": 600, "dirichlet": 600, "unknown sensor": 150, "density": 30, "learned density": 12}


LENGTHY = FixedSchedule(1000)


def world_of(name: str) -> Any:
    """The true model of a prior."""
    known = {"finite": SEPARATED, "dirichlet": RAILWAY, "unknown sensor": RAILWAY}
    return known.get(name) or model_of(PRIORS[name], np.random.default_rng(7))


def budget_of(name: str) -> PlanningBudget | None:
    return COARSE if "density" in name else None


@pytest.mark.parametrize("name", PRIORS)
def test_a_fleet_of_one_unit_is_an_agent(name: str) -> None:
    """The same actions, and the same bytes of the clock, θ_k, its belief and ñ."""
    prior, length = PRIORS[name], LENGTHS.get(name, 100)
    agent = PSRLAgent(prior, seed=3, budget=budget_of(name))
    fleet = Fleet(prior, seed=3, budget=budget_of(name))
    plant = Plant(world_of(name), 5)
    for t in range(length):
        reading = plant.reading("u")
        action = agent.act(reading)
        assert fleet.act("u", reading) == action, t
        plant.move("u", action)
    unit = fleet.unit("u")
    for one, other in zip(agent.episode_clock, fleet.episode_clock, strict=True):
        assert one.tobytes() == other.tobytes()
    assert agent.episode_records() == fleet.episode_records()
    assert agent.current_episode.kernel.tobytes() == fleet.current_episode.kernel.tobytes()
    assert agent.current_episode.belief.tobytes() == unit.sampled_belief.tobytes()
    assert agent.posterior.weights.tobytes() == fleet.posterior.weights.tobytes()
    assert agent.expected_counts == pytest.approx(fleet.expected_counts, abs=1e-9)
    assert agent.expected_counts.tobytes() == unit.expected_counts.tobytes()
    assert len(agent.episodes) > (5 if length >= 100 else 0)
    for field in ("action", "time", "last_step", "tolerance"):
        assert getattr(agent.info, field) == getattr(fleet.info("u"), field)
    assert np.array_equal(agent.info.advantages, fleet.info("u").advantages, equal_nan=True)


def test_units_have_their_own_beliefs_and_share_weights() -> None:
    """Each unit alone, filtered from the start by the posterior of one unit; weights are products."""
    prior = FAMILY
    fleet, plant = Fleet(prior, seed=1), Plant(SEPARATED, 2)
    alone = {name: prior.posterior() for name in "abc"}
    for t in range(80):
        for name in "abc"[: 1 + t // 10]:
            reading = plant.reading(name)
            if fleet.units.count(name):
                alone[name].update(fleet.unit(name).action or 0, reading)
            else:
                alone[name].start(reading)
            plant.move(name, fleet.act(name, reading))
    weights = np.prod([posterior.weights / prior.weights for posterior in alone.values()], axis=0)
    weights *= prior.weights
    assert fleet.posterior.weights == pytest.approx(weights / weights.sum(), abs=1e-10)
    assert fleet.time == 80
    assert [fleet.unit(name).time for name in "abc"] == [80, 70, 60]
    index = fleet.current_episode.index
    for name, posterior in alone.items():
        unit = fleet.unit(name)
        assert unit.belief == pytest.approx(fleet.posterior.weights @ posterior.beliefs, abs=1e-12)
        assert unit.sampled_belief == pytest.approx(posterior.beliefs[index], abs=1e-12)
    total = np.sum([fleet.unit(name).expected_counts for name in "abc"], axis=0)
    assert fleet.expected_counts == pytest.approx(total, abs=1e-9)
    assert total.sum() == pytest.approx(79 + 69 + 59)


def test_pseudo_counts_are_those_of_all_units_and_end_episodes() -> None:
    """m̃ = max over steps of ⌈Σ_u ñ_u⌉; the rule of TSDE with the fleet's counts, followed by hand."""
    fleet, plant = Fleet(RAILWAY.prior, seed=1), Plant(RAILWAY, 2)
    pseudo, begun = np.zeros((2, 3)), np.zeros((2, 3))
    last = number = doubled = 0
    for t in range(60):
        for name in "abcd":
            action = fleet.act(name, plant.reading(name))
            plant.move(name, action)
            total = np.sum([fleet.unit(each).expected_counts for each in fleet.units], axis=0)
            pseudo = np.maximum(pseudo, np.ceil(total - 1e-9))
            assert np.array_equal(fleet.pseudo_counts, pseudo)
            over = t + 1 > last or (pseudo > 2 * begun).any()
            doubled += int(t + 1 <= last and over)
            assert (fleet.current_episode.number > number) == over, (t, name)
            if over:
                assert fleet.current_episode.start == t + 1
                assert fleet.episode_clock.clock[steps.LAST_T] == fleet.schedule.last(
                    t + 1, fleet.current_episode.previous_length
                )
                last, begun = int(fleet.episode_clock.clock[steps.LAST_T]), pseudo
            number = fleet.current_episode.number
    assert doubled > 2


def test_the_order_of_units_matters_only_by_rounding() -> None:
    """The same histories, with actions that were taken by somebody else, in turn and one after the other."""
    rng = np.random.default_rng(3)
    taken = {name: rng.integers(2, size=9) for name in "abc"}
    readings = {name: rng.integers(4, size=9) for name in "abc"}
    fleets = Fleet(FAMILY, seed=1), Fleet(FAMILY, seed=1)
    order = [(name, t) for t in range(9) for name in "abc"], [(name, t) for name in "cab" for t in range(9)]
    for fleet, each in zip(fleets, order, strict=True):
        for name, t in each:
            fleet.act(name, int(readings[name][t]), taken=int(taken[name][t]) if t else None)
    one, other = fleets
    assert one.posterior.weights == pytest.approx(other.posterior.weights, abs=1e-10)
    assert (one.posterior.weights > 1e-3).sum() > 1
    for name in "abc":
        assert np.array_equal(one.unit(name).posterior.beliefs, other.unit(name).posterior.beliefs)


@pytest.mark.parametrize("samples", ["shared", "own"])
def test_act_all_takes_the_steps_of_act(samples: Any) -> None:
    one, other = (Fleet(FAMILY, seed=1, samples=samples) for _ in range(2))
    plant = Plant(SEPARATED, 2)
    for t in range(40):
        readings = {name: plant.reading(name) for name in "cab"}
        taken = {"a": t % 2} if t else {}
        actions = one.act_all(readings, taken)
        assert actions == {name: other.act(name, o, taken=taken.get(name)) for name, o in readings.items()}
        for name, action in actions.items():
            plant.move(name, action)
    assert one.to_bytes() == other.to_bytes()


def test_own_samples_differ_between_units_and_plans_are_shared() -> None:
    calls = []

    def planner(model: POMDP, tolerance: float = 1e-2, time_limit: float | None = None) -> Any:
        calls.append(model)
        return plan(model, 0.1)

    fleet = Fleet(RAILWAY.prior, seed=1, samples="own", planner=planner)
    plant = Plant(RAILWAY, 2)
    names = [f"u{i}" for i in range(12)]
    play(fleet, plant, names, 30)
    kernels = {fleet.unit(name).episode.kernel.tobytes() for name in names}  # type: ignore[union-attr]
    assert 1 < len(kernels) <= 12
    for name in names:
        unit = fleet.unit(name)
        assert unit.episode is not None
        wanted = unit.posterior.belief_of(fleet.posterior.member(0)._replace(kernel=unit.episode.kernel))
        assert unit.sampled_belief == pytest.approx(wanted, abs=1e-9)
    assert len(calls) < 12 * len(fleet.episode_records())


def test_actions_of_others() -> None:
    """`taken` is `override`, by number or by name, and learning is from what was taken."""
    fleets = [Fleet(FAMILY, seed=1) for _ in range(3)]
    for fleet in fleets:
        fleet.act("a", 0)
    prior = FAMILY
    other = 1 - (fleets[0].unit("a").action or 0)
    fleets[0].act("a", 2, taken=other)
    fleets[1].override("a", other)
    fleets[1].act("a", 2)
    fleets[2].act("a", 2, taken=prior.setting.actions[other])
    assert fleets[0].to_bytes() == fleets[1].to_bytes() == fleets[2].to_bytes()
    posterior = prior.posterior()
    posterior.start(0)
    posterior.update(other, 2)
    assert np.array_equal(fleets[0].posterior.weights, posterior.weights)


def test_units_that_leave_and_come_back() -> None:
    """What was learned stays; the unit starts anew with h_1, as a new one would."""
    fleet, plant = Fleet(RAILWAY.prior, seed=1), Plant(RAILWAY, 2)
    play(fleet, plant, "ab", 30)
    counts, weights = fleet.expected_counts.copy(), fleet.posterior.weights
    fleet.leave("a")
    assert not fleet.unit("a").present
    assert fleet.units == ("a", "b")
    with pytest.raises(OutOfOrderError, match="has left already"):
        fleet.leave("a")
    with pytest.raises(OutOfOrderError, match="in the fleet already"):
        fleet.join("b")
    assert np.array_equal(fleet.posterior.weights, weights)
    fleet.act("a", None)
    assert fleet.unit("a").time == 1
    assert fleet.unit("a").sampled_belief == pytest.approx(RAILWAY.setting.initial)
    assert fleet.expected_counts == pytest.approx(counts, abs=1e-9)
    assert len(fleet.posterior.histories) == 3
    play(fleet, Plant(RAILWAY, 3), "b", 5)
    fleet.join("c")
    assert fleet.unit("c").time == 0
    assert fleet.unit("c").action is None
    assert not fleet.unit("c").belief.any()
    with pytest.raises(OutOfOrderError, match="no observation"):
        fleet.unit("c").sampled_belief  # noqa: B018
    with pytest.raises(UnknownNameError, match="did you mean"):
        fleet.unit("bb")


def test_a_unit_that_joins_in_an_episode_has_the_belief_under_its_kernel() -> None:
    """Also with an unknown sensor, which the first observation is read with."""
    for name in ("finite", "dirichlet", "unknown sensor", "density"):
        fleet, plant = Fleet(PRIORS[name], seed=1, budget=budget_of(name)), Plant(world_of(name), 2)
        play(fleet, plant, "a", 3)
        number = fleet.current_episode.number
        for i in range(20):
            reading = plant.reading(f"n{i}")
            fleet.act(f"n{i}", reading)
            now = fleet.current_episode
            own: Any = now.setting or fleet.setting
            chance = np.ones(own.n_states)
            if reading is not None and own.is_finite:
                chance = own.first_observation[:, reading]
            elif reading is not None:
                chance = np.exp(own.first_sensor.log_likelihood(0, [reading])[0])
            wanted = own.initial * chance
            assert fleet.unit(f"n{i}").sampled_belief == pytest.approx(wanted / wanted.sum(), abs=1e-9)
            assert now.number >= number


# -- logs -------------------------------------------------------------------------------------------


def log_of(length: int, seed: int, name: str | None = None, last: bool = True) -> Log:
    rng = np.random.default_rng(seed)
    observations = [None, *rng.integers(6, size=length).tolist()]
    observations[3] = None
    return Log(observations if last else observations[:-1], rng.integers(2, size=length).tolist(), name=name)


@pytest.mark.parametrize("wait", [True, False])
def test_logs_are_histories_of_other_units(wait: bool) -> None:
    """Before the first unit, and between its steps; the same posterior as that of a posterior with units."""
    fleet, plant = Fleet(RAILWAY.prior, seed=1, wait=wait), Plant(RAILWAY, 2)
    logs = [log_of(300, 1, "old"), log_of(200, 2, last=False)]
    fleet.learn(logs)
    other = RAILWAY.prior.posterior(random_streams(1, FROM_SEED)[1])
    for log in logs:
        unit = other.new_unit()
        unit.start(None)
        n = len(log.observations) - 1
        unit.update_many(log.actions[:n], [-1 if o is None else o for o in log.observations[1:]])
    assert other.tuning.refreshes > 2
    assert np.array_equal(fleet.posterior.kernels, other.kernels)
    assert np.array_equal(fleet.posterior.weights, other.weights)
    assert fleet.time == 0
    assert not fleet.units
    assert fleet.n_observations == 301 + 200
    assert fleet.expected_counts.sum() == pytest.approx(300 + 199)
    play(fleet, plant, "a", 4, every=1)
    fleet.learn([log_of(50, 3)])
    play(fleet, plant, "a", 4, every=1)
    assert fleet.pseudo_counts.sum() >= 300 + 199 + 50
    assert Fleet.from_bytes(fleet.to_bytes()).to_bytes() == fleet.to_bytes()
    assert fleet.posterior.refresh_due is False


def test_a_bad_log_is_named_and_nothing_is_learned() -> None:
    fleet = Fleet(RAILWAY.prior, seed=1)
    play(fleet, Plant(RAILWAY, 2), "ab", 10)
    before = fleet.to_bytes()
    good = log_of(40, 1)
    for bad, message in (
        (Log([None, 1, 99], [0, 1], name="track 9"), r"log 1 \(track 9\): .*99"),
        (Log([None, 1, 2, 3], [0]), "log 1 has 4 observations and 1 actions"),
        (Log([], []), "log 1 has 0 observations"),
        (Log([None, 1], [7]), "log 1: .*7"),
        (Log([None, 1], [0], costs=[1.0, 2.0, 3.0]), "log 1 has 1 actions and 3 costs"),
    ):
        with pytest.raises((InvalidModelError, UnknownNameError), match=message):
            fleet.learn([good, bad])
        assert fleet.to_bytes() == before
    with pytest.raises(InvalidModelError, match=r"list of psrl_pomdp\.Log"):
        fleet.learn([([0], [1])])  # type: ignore[list-item]


# -- files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("way", ["wait", "own", "work"])
def test_a_saved_fleet_continues_with_the_same_bits(name: str, way: str, tmp_path: Path) -> None:
    """With units that have left, come back or have had no reading, with logs, and with work that is due."""
    prior = PRIORS[name]
    fleet = Fleet(
        prior, seed=4, budget=budget_of(name), samples="own" if way == "own" else "shared", wait=way != "work"
    )
    plant, every = Plant(world_of(name), 2), 3 if way == "work" else 0
    few = 8 if "density" in name else 40
    if fleet.setting.is_finite:
        first = 0 if fleet.setting.has_first_observation else None
        fleet.learn([Log([first, 1, None, 2], [0, 1, 0, 0], name="old")])
    play(fleet, plant, "abc", few, every)
    fleet.leave("b")
    play(fleet, plant, "ac", 3)
    plant.states.pop("b")
    play(fleet, plant, "ab", 4)
    fleet.leave("c")
    fleet.join("d")
    if way == "work":
        for _ in range(200):
            if fleet.work is not None:
                break
            play(fleet, plant, "ab", 1)
        assert fleet.work is not None or name == "finite"  # whose plans are all known
    fleet.save(tmp_path / "fleet.npz")
    own = None if name != "parametric" else prior
    again = Fleet.load(tmp_path / "fleet.npz", prior=own)
    assert again.to_bytes() == fleet.to_bytes()
    assert again.units == ("a", "b", "c", "d")
    assert again.episode_records() == fleet.episode_records()
    twin = deepcopy(plant)
    assert play(fleet, plant, "dabc", few, every) == play(again, twin, "dabc", few, every)
    assert again.to_bytes() == fleet.to_bytes()
    assert again.late_steps == fleet.late_steps
    copied = deepcopy(fleet)
    twin = deepcopy(plant)
    assert play(fleet, plant, "abc", 3) == play(copied, twin, "abc", 3)
    assert copied.to_bytes() == fleet.to_bytes()


def test_what_cannot_be_saved_or_loaded_is_named(tmp_path: Path) -> None:
    fleet = Fleet(FAMILY, seed=1)
    with pytest.raises(InvalidModelError, match="does not end in"):
        fleet.save(tmp_path / "fleet.zip")
    with pytest.raises(InvalidModelError, match="planner of your own"):
        Fleet(FAMILY, planner=lambda *a: plan(a[0], 0.1)).to_bytes()
    with pytest.raises(InvalidModelError, match="is code"):
        Fleet.from_bytes(Fleet(PRIORS["parametric"], seed=1).to_bytes())
    with pytest.raises(ParseError, match="not a saved fleet"):
        Fleet.from_bytes(PSRLAgent(FAMILY).to_bytes())
    with pytest.raises(InvalidModelError, match="samples"):
        Fleet(FAMILY, samples="none")  # type: ignore[arg-type]
    with pytest.raises(InvalidModelError, match="schedule"):
        Fleet(FAMILY, schedule=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidModelError, match="needs wait=True"):
        Fleet(FAMILY, samples="own", wait=False)
    with pytest.raises(InvalidModelError, match="planner of your own"):
        Fleet(FAMILY, wait=False, planner=lambda *a: plan(a[0], 0.1))


# -- calls that fail --------------------------------------------------------------------------------


class BrokenError(RuntimeError):
    """What a planner of these tests raises."""


REFUSALS = (InvalidModelError, ParseError, UnknownNameError, OutOfOrderError, ImpossibleObservationError)


def failing_calls(fleet: Fleet, reading: Any) -> dict[str, Callable[[], object]]:
    """Calls that raise, by a name for messages."""
    return {
        "unknown reading": lambda: fleet.act("a", 10**6),
        "unknown name": lambda: fleet.act("a", "no such reading"),
        "a new unit": lambda: fleet.act("new", 10**6),
        "unknown action": lambda: fleet.act("a", reading, taken=17),
        "unknown action name": lambda: fleet.act("a", reading, taken="none"),
        "a cost that is not seen": lambda: fleet.act("a", reading, cost=3.0),
        "taken at first": lambda: fleet.act("new", reading, taken=0),
        "no name": lambda: fleet.act("", reading),
        "no string": lambda: fleet.act(3, reading),  # type: ignore[arg-type]
        "one of many": lambda: fleet.act_all({"a": reading, "new": reading, "b": 10**6}),
        "taken of another": lambda: fleet.act_all({"a": reading}, {"b": 0}),
        "cost of another": lambda: fleet.act_all({"a": reading}, None, {"b": 0.0}),
        "override": lambda: fleet.override("a", 99),
        "override of nobody": lambda: fleet.override("nobody", 0),
        "leave": lambda: fleet.leave("nobody"),
        "join": lambda: fleet.join("a"),
        "adopt": lambda: fleet.adopt(b"nothing"),
    }


@pytest.mark.parametrize("name", ["finite", "dirichlet", "unknown sensor"])
@pytest.mark.parametrize("wait", [True, False])
def test_a_call_that_raises_changes_nothing(name: str, wait: bool) -> None:
    fleet, plant = Fleet(PRIORS[name], seed=1, wait=wait), Plant(world_of(name), 2)
    play(fleet, plant, "ab", 25, every=0 if wait else 4)
    for what, call in failing_calls(fleet, plant.reading("a") or 0).items():
        before = fleet.to_bytes()
        with pytest.raises(REFUSALS):
            call()
        assert fleet.to_bytes() == before, what
    assert fleet.units == ("a", "b")


@pytest.mark.parametrize("error", [BrokenError("no plan"), KeyboardInterrupt()])
@pytest.mark.parametrize("samples", ["shared", "own"])
def test_a_planner_that_raises_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, samples: Any
) -> None:
    """At every place where an episode begins: a step, a unit that joins, and one of many in `act_all`."""
    fleet, plant = Fleet(RAILWAY.prior, seed=1, samples=samples), Plant(RAILWAY, 2)
    twin = Fleet(RAILWAY.prior, seed=1, samples=samples)
    solve, broken, failed = PlanningBudget.solve, [False], 0

    def solve_or_fail(*arguments: Any, **more: Any) -> Any:
        if broken[0]:
            raise error
        return solve(*arguments, **more)

    monkeypatch.setattr(PlanningBudget, "solve", solve_or_fail)
    for t in range(40):
        readings = {name: plant.reading(name) for name in "abc"[: 1 + t // 5]}
        before, broken[0] = fleet.to_bytes(), True
        try:
            actions = fleet.act_all(readings)
        except (BrokenError, KeyboardInterrupt):
            assert fleet.to_bytes() == before
            failed += 1
            broken[0] = False
            actions = fleet.act_all(readings)
        broken[0] = False
        assert twin.act_all(readings) == actions
        for name, action in actions.items():
            plant.move(name, action)
    assert failed > 5
    assert fleet.to_bytes() == twin.to_bytes()


def test_an_interrupt_in_a_refresh_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, plant = Fleet(RAILWAY.prior, seed=1), Plant(RAILWAY, 2)
    play(fleet, plant, "abc", 30)
    groups, refreshed, broken, failed = type(fleet.posterior._group), None, [True], 0
    refreshed = groups.refreshed

    def refresh_or_fail(*arguments: Any) -> Any:
        found = refreshed(*arguments)
        if broken[0]:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(groups, "refreshed", refresh_or_fail)
    for _ in range(60):
        for name in "abc":
            before, broken[0] = fleet.to_bytes(), True
            try:
                action = fleet.act(name, plant.reading(name))
            except KeyboardInterrupt:
                assert fleet.to_bytes() == before
                failed += 1
                broken[0] = False
                action = fleet.act(name, plant.reading(name))
            plant.move(name, action)
    assert failed > 2


def test_an_impossible_reading_is_refused_for_all() -> None:
    """Under every kernel of a set: it is no reason to forget the other units' readings."""
    sure = FinitePrior(
        SEPARATED.setting.replace(observation=np.eye(4), first_observation=np.eye(4)),
        np.stack([np.stack([np.eye(4), np.eye(4)])] * 2) * np.array([1.0, 1.0])[:, None, None, None],
        [0.5, 0.5],
    )
    fleet = Fleet(sure, seed=1)
    fleet.act_all({"a": 0, "b": 1})
    before = fleet.to_bytes()
    with pytest.raises(ImpossibleObservationError):
        fleet.act_all({"a": 0, "b": 2})
    assert fleet.to_bytes() == before
    fleet.act_all({"a": 0, "b": 1})


def test_a_kernel_that_one_unit_rules_out_is_not_played_on() -> None:
    """Two kernels: one stays, one moves on. A reading of unit b rules out the one that is played."""
    stays, moves = np.eye(4)[None].repeat(2, axis=0), np.roll(np.eye(4), 1, axis=1)[None].repeat(2, axis=0)
    setting = SEPARATED.setting.replace(observation=np.eye(4), first_observation=np.eye(4))
    for seed in range(6):
        fleet = Fleet(FinitePrior(setting, [stays, moves], [0.5, 0.5]), LENGTHY, seed=seed)
        fleet.act_all({"a": 0, "b": 0})
        ruled_out = fleet.current_episode.index
        fleet.act("b", 0 if ruled_out == 1 else 1)
        assert fleet.current_episode.index == 1 - (ruled_out or 0)
        assert fleet.episodes[-1].ended == "kernel ruled out"
        for name in "ab":
            assert fleet.unit(name).sampled_belief.sum() == pytest.approx(1.0)


def rare_breakdowns() -> POMDP:
    """A machine that breaks down rarely, for which a coarse plan is found without work."""
    sensor, cost = (
        [[0.8, 0.2, 0.0], [0.25, 0.75, 0.0], [0.0, 0.0, 1.0]],
        [[0.0, 20.0, 9e3], [2500.0, 2500.0, 9e3]],
    )
    kernel = [[[0.9899, 0.01, 0.0001], [0.0, 0.97, 0.03], [1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0]] * 3]
    return POMDP(Setting(sensor, cost, [1.0, 0.0, 0.0]), kernel)


def test_a_coarse_plan_is_warned_of_once() -> None:
    """It names the line that called the fleet, also if a plan was adopted."""
    model = rare_breakdowns()
    prior, budget = FinitePrior(model.setting, model.transition[None]), PlanningBudget(max_work=1.0)
    calls: list[Callable[[Fleet], object]] = [
        lambda fleet: [fleet.act("a", 0) for _ in range(40)],
        lambda fleet: [fleet.act_all({"a": 0, "b": 0}) for _ in range(40)],
        lambda fleet: (fleet.act("a", 0), finish(fleet)),
    ]
    for i, call in enumerate(calls):
        fleet = Fleet(prior, budget=budget, wait=i < 2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(fleet)
        assert [each.category for each in caught] == [CoarsePlanWarning]
        assert Path(caught[0].filename).name == ("test_fleet.py" if i < 2 else "fleets.py")
