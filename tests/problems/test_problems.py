"""The library: every problem is what its words say, with priors that hold the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from model_strategies import PUBLIC_FILES
from psrl_pomdp import InvalidModelError, Problem, Units, UnknownNameError, analyze_structure, load, problem
from psrl_pomdp.analysis.separation import separation
from psrl_pomdp.problems import catalogue
from psrl_pomdp.sensors import GaussianSensor, LogNormalSensor

NAMES = [entry.name for entry in catalogue()]


@pytest.mark.parametrize("name", NAMES)
def test_every_problem_is_told_and_has_priors_with_the_truth_in_them(name: str) -> None:
    model = problem(name)
    entry = model.entry
    assert isinstance(model, Problem)
    assert model.name == name
    assert entry.title
    assert entry.source
    assert len(entry.about.split()) > 20
    assert model.parameters == entry.parameters
    assert (model.prior.concentration[model.transition > 0] > 0).all()
    if model.family is not None:
        assert (model.family.kernels[0] == model.transition).all()
        apart = np.abs(model.family.kernels[:, None] - model.family.kernels).max(axis=(2, 3, 4))
        assert (apart[~np.eye(len(model.family), dtype=bool)] > 1e-3).all()
    assert problem(name) == model


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_of_the_assumptions_agrees_with_what_can_be_computed(name: str) -> None:
    model = problem(name)
    facts, said = analyze_structure(model), model.entry.assumptions
    for text in (said.bellman, said.separation, said.belief, said.kernel):
        assert text.split(":")[0] in ("holds", "fails", "open")
    if not facts.weakly_communicating_from_start:
        assert said.bellman.startswith("fails")
    if "every transition has positive probability" in said.bellman or "joint state follows" in said.bellman:
        assert (model.transition > 0).all()
    if "perfectly observed" in said.bellman:
        assert facts.perfect_observation
        assert facts.weakly_communicating
    if model.family is not None:
        assert said.separation.startswith("holds" if separation(model.family).epsilon > 0 else "fails")
    else:
        assert not said.separation.startswith("holds")
    if facts.perfect_observation:
        assert said.belief.startswith("holds")


def test_each_assumption_is_violated_somewhere() -> None:
    for number, key in enumerate(("bellman", "separation", "belief", "kernel"), 1):
        against = [e for e in catalogue() if "Violates" in e.title and str(number) in e.title]
        assert any(getattr(e.assumptions, key).startswith("fails") for e in against)


def test_machine_repair_has_the_published_figures() -> None:
    model = problem("machine-repair")
    assert model.setting.actions == ("manufacture", "examine", "inspect", "replace")
    rows = [[0.81, 0.18, 0.01], [0.0, 0.9, 0.1], [0.0, 0.0, 1.0]]
    assert model.transition[:2].tolist() == [rows, rows]
    assert (model.transition[2:] == [1.0, 0.0, 0.0]).all()
    assert model.setting.observation[1, :, 1].tolist() == [0.0, 0.5, 0.75]
    assert model.setting.own_cost[2:].round(12).tolist() == [[-0.5, -1.5, -2.5], [-2.0, -2.0, -2.0]]
    assert model.setting.own_cost[0] == pytest.approx([0.81 + 0.09 + 0.0025, 0.45 + 0.025, 0.25])
    assert model.setting.own_cost[1] == pytest.approx(model.setting.own_cost[0] - 0.25)


def test_railway_bins_a_gaussian() -> None:
    model = problem("railway")
    assert model.setting.own_cost == pytest.approx(np.array([[10, 100, 800], [210, 300, 1000.0]]))
    idle = np.array([[0.90, 0.09, 0.01], [0.01, 0.90, 0.09], [0.01, 0.05, 0.94]])
    assert model.transition[0] == pytest.approx(idle, abs=1e-15)
    assert model.transition[1].tolist() == [[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.49, 0.5, 0.01]]
    rng = np.random.default_rng(0)
    for s, (mean, deviation) in enumerate(((1, 1), (0, 0.5), (-1, 0.2))):
        drawn = rng.normal(mean, deviation, 200_000)
        counted = np.bincount(np.searchsorted([-1.0, -0.75, -0.5, -0.25, 0.25], drawn), minlength=6) / 200_000
        # Six binomial shares at six standard errors: false alarm under 1e-7.
        assert np.abs(counted - model.setting.observation[0, s]).max() < 6 * 0.5 / np.sqrt(200_000)
    wide = problem("railway", edges=[-1.0, 1.0]).setting.observation[0]
    assert wide[2, 2] == pytest.approx(norm.sf(10.0), rel=1e-9)  # a tail of 1e-23 is not lost
    coarse = problem("railway", edges=[0.25]).setting.observation[0]
    assert coarse[:, 1] == pytest.approx([norm.sf(0.25, 1, 1), norm.sf(0.25, 0, 0.5), norm.sf(0.25, -1, 0.2)])


def test_river_swim_rows() -> None:
    model = problem("river-swim")
    assert model.transition[1, 2].tolist() == pytest.approx([0, 0.05, 0.6, 0.35, 0, 0])
    assert model.transition[0, 2].tolist() == [0, 1, 0, 0, 0, 0]
    assert model.setting.observation[0, 3].tolist() == pytest.approx([0, 0, 0.2, 0.6, 0.2, 0])
    assert model.setting.own_cost[0, 0] == pytest.approx(0.005)
    assert model.setting.own_cost[1, 5] == 1.0
    assert analyze_structure(problem("river-swim-observed")).perfect_observation
    assert (problem("river-swim-observed").transition == model.transition).all()


def test_spectrum_channels_are_independent() -> None:
    """Against the product written out for three channels."""
    idle, busy = (0.9, 0.6, 0.7), (0.8, 0.5, 0.55)
    model = problem("spectrum-access", stay_idle=idle, stay_busy=busy, collision=0.25)
    assert model.n_states == 8
    assert model.setting.states[0] == "busy-busy-busy"
    for s, before in enumerate(model.setting.states):
        for t, after in enumerate(model.setting.states):
            chance = 1.0
            for i, (was, now) in enumerate(zip(before.split("-"), after.split("-"), strict=True)):
                stay = idle[i] if was == "idle" else busy[i]
                chance *= stay if was == now else 1 - stay
            assert model.transition[:, s, t] == pytest.approx(np.full(3, chance))
        for i, was in enumerate(before.split("-")):
            assert model.setting.own_cost[i, s] == pytest.approx(1.0 if was == "idle" else -0.25)
            looks_idle = 0.9 if was == "idle" else 0.15
            assert model.setting.observation[i, s] == pytest.approx([looks_idle, 1 - looks_idle])


def test_acknowledgments_depend_on_the_state_before_and_sensing_on_the_state_after() -> None:
    """Against the product written out."""
    model = problem("spectrum-access-acks", delivered=0.9, captured=0.3, missed=0.2, collision=0.5)
    plain = problem("spectrum-access", missed=0.2, collision=0.5)
    assert (model.transition == plain.transition).all()
    assert (model.setting.own_cost == plain.setting.own_cost).all()
    assert not model.setting.has_first_observation
    setting = model.setting
    for a in range(2):
        for s, before in enumerate(setting.states):
            for t, after in enumerate(setting.states):
                ack = 0.9 if before.split("-")[a] == "idle" else 0.3
                looks = 0.9 if after.split("-")[a] == "idle" else 0.2
                wanted = [ack * looks, ack * (1 - looks), (1 - ack) * looks, (1 - ack) * (1 - looks)]
                assert setting.observation[a, s, t] == pytest.approx(wanted)


def test_the_railway_with_its_indicator_is_the_railway_without_bins() -> None:
    one, other = (
        problem("railway-gaussian", repair=150.0, speed=2.0),
        problem("railway", repair=150.0, speed=2.0),
    )
    assert (one.transition == other.transition).all()
    assert (one.setting.cost == other.setting.cost).all()
    assert one.family is not None
    assert other.family is not None
    assert (one.family.kernels == other.family.kernels).all()
    sensor = one.setting.sensor
    assert isinstance(sensor, GaussianSensor)
    cuts = np.array([-np.inf, -1.0, -0.75, -0.5, -0.25, 0.25, np.inf])
    assert sensor.interval_masses(0, cuts)[0] == pytest.approx(other.setting.observation[0], rel=1e-12)


def test_the_pump_wears_and_is_overhauled() -> None:
    model = problem("pump", wear=0.1, spread=0.3, service=500.0)
    assert model.transition[0].round(12).tolist() == [
        [0.89, 0.1, 0.0, 0.01], [0.0, 0.89, 0.1, 0.01], [0.0, 0.0, 0.89, 0.11], [0.0, 0.0, 0.0, 1.0],
    ]  # fmt: skip
    assert (model.transition[2] == [1.0, 0.0, 0.0, 0.0]).all()
    # From everywhere, the worst state is reached unless there is an overhaul.
    assert (model.transition[:2, :, 3] > 0).all()
    assert model.transition[:2, 3, 3].tolist() == [1.0, 1.0]
    assert model.setting.own_cost[1] == pytest.approx([500.0, 600.0, 900.0, 3000.0])
    assert model.setting.own_cost[2] == pytest.approx([6000.0] * 4)
    sensor = model.setting.sensor
    assert isinstance(sensor, LogNormalSensor)
    assert np.exp(sensor.log_means) == pytest.approx([2.0, 3.6, 5.6, 9.0])
    assert problem("pump").transition[0, 0, 1] == 0.06
    zones = problem("pump").setting.sensor.interval_masses(0, np.array([-np.inf, 2.8, 4.5, 7.1, np.inf]))[0]  # type: ignore[attr-defined]
    assert zones.argmax(axis=1).tolist() == [0, 1, 2, 3]  # each condition is usually in its own zone


def test_noisy_grid_moves_and_walls() -> None:
    model = problem("noisy-grid", rows=2, columns=3, slip=0.3, noise=0.1)
    state = model.setting.states.index
    north, _, east, _ = model.transition
    assert east[state("r1c1"), state("r1c2")] == pytest.approx(0.7)
    assert east[state("r1c1"), state("r2c1")] == pytest.approx(0.1)
    assert north[state("r1c1"), state("r1c1")] == pytest.approx(0.8)  # the wall, and the slip to the west
    assert model.transition[:, state("r2c3")].tolist() == [pytest.approx([0.2] * 5 + [0.0])] * 4
    readings = model.setting.observations
    assert model.setting.observation[0, state("r1c2"), readings.index("walls-n")] == pytest.approx(0.9)
    assert model.setting.observation[0, state("r2c3"), readings.index("goal")] == pytest.approx(0.9)


def test_random_problems_keep_their_smallest_entry_and_seed() -> None:
    for seed in range(20):
        model = problem("random", n_states=4, smallest=0.05, seed=seed)
        assert model.transition.min() >= 0.05 - 1e-12
        assert problem("random", n_states=4, smallest=0.05, seed=seed) == model
    assert problem("random", seed=1) != problem("random", seed=2)
    assert problem("random", sensor_by_action=True).setting.sensor_depends_on_action


def test_random_readout_is_the_published_family() -> None:
    for seed in range(30):
        model = problem("random-readout", seed=seed)
        setting = model.setting
        assert (model.n_states, model.n_actions, model.n_observations) == (3, 3, 4)
        assert not setting.sensor_depends_on_action
        assert setting.units == Units(kind="reward")
        # Ten on one entry and uniform numbers on the others, normalized.
        sensor = setting.observation[0]
        peaks = sensor.argmax(axis=1)
        assert len(set(peaks.tolist())) == 3
        assert (sensor.max(axis=1) > 10 / 14).all()
        # The reward of a state is the expectation of a permutation of 0, 1/3, 2/3, 1 over its readings.
        reward = 1 - setting.cost[0]
        worth = np.linalg.lstsq(sensor, reward, rcond=None)[0]
        assert (setting.cost == setting.cost[0]).all()
        assert sensor @ worth == pytest.approx(reward)
        # Clipped at 1 / (10 S), then normalized: a row can have grown by two clipped entries at most.
        assert model.transition.min() >= (1 / 30) / (1 + 2 / 30) - 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_checked_at_the_door(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"{name} has no parameter 'colour'"):
        problem(name, colour="red")
    for key, default in problem(name).parameters.items():
        if isinstance(default, bool):
            continue
        with pytest.raises(InvalidModelError):
            problem(name, **{key: float("nan") if not isinstance(default, tuple) else (float("nan"),)})
        with pytest.raises(InvalidModelError):
            problem(name, **{key: "red"})


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("tigre", {}, r"no problem is called 'tigre' \(did you mean 'tiger'\?\)"),
        ("tiger", {"acuracy": 0.9}, r"no parameter 'acuracy' \(did you mean 'accuracy'\?\)"),
        ("tiger", {"accuracy": 1.5}, "parameter accuracy is 1.5, not between 0 and 1"),
        ("river-swim", {"n_states": 2.5}, "parameter n_states is 2.5, not a whole number"),
        ("river-swim", {"neighbor": 0.6}, "down and up together is 1.2"),
        ("railway", {"edges": (1.0, 0.0)}, "edges: wanted increasing numbers"),
        ("spectrum-access", {"stay_idle": [0.5]}, "stay_idle and stay_busy"),
        ("pump", {"velocity": (1.0, 2.0, 3.0)}, "velocity: wanted four positive increasing numbers"),
        ("pump", {"velocity": (1.0, 3.0, 2.0, 4.0)}, "velocity: wanted four positive increasing numbers"),
        ("pump", {"wear": 0.95}, "wear is 0.95, not between 0 and 0.9"),
        ("pump", {"spread": 0.0}, "spread is 0, not between 0.01 and 2"),
        ("spectrum-access-acks", {"delivered": 1.5}, "delivered is 1.5, not between 0 and 1"),
        ("random-readout", {"n_observations": 2}, "n_observations is 2, not between 3"),
    ],
)
def test_refusals(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidModelError, UnknownNameError), match=message):
        problem(name, **parameters)


@pytest.mark.skipif(not PUBLIC_FILES.is_dir(), reason="no folder of public model files")
@pytest.mark.parametrize(("name", "file"), [("machine-repair", "ejs1"), ("bridge-repair", "bridge-repair")])
def test_problems_taken_from_public_files_agree_with_them(name: str, file: str) -> None:
    ours, theirs = problem(name), load(PUBLIC_FILES / f"{file}.POMDP")
    assert ours.transition == pytest.approx(theirs.transition, abs=1e-15)
    assert ours.setting.own_cost == pytest.approx(theirs.setting.own_cost, abs=1e-12)
    assert ours.setting.observation == pytest.approx(theirs.setting.observation, abs=1e-15)
    assert ours.setting.initial == pytest.approx(theirs.setting.initial, abs=1e-15)


def test_the_fishery_grows_and_is_surveyed_as_described() -> None:
    """Without noise to speak of, what is left after the catch grows by the formula; the survey is exact."""
    for model, grown in (("logistic", 0.25 + 0.5 * 0.25 * 0.75), ("beverton-holt", 1.5 * 0.25 / 1.125)):
        fishery = problem(
            "fishery", levels=61, quotas=5, model=model, growth=0.5, noise=1e-3, survey=1e-3, immigration=0.0
        )
        half = fishery.transition[1, 20]  # a stock of .5 and a quota of .25
        assert abs(int(half.argmax()) * 1.5 / 60 - grown) <= 0.0125 + 1e-9
        assert fishery.setting.own_cost[1, 20] == 0.25
        assert fishery.setting.own_cost[4, 20] == 0.5  # no more than there is
        assert fishery.transition[4, 20, 0] == 1.0
        assert fishery.setting.observation[0] == pytest.approx(np.eye(61))
    with pytest.raises(InvalidModelError, match="model"):
        problem("fishery", model="linear")
