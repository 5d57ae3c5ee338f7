"""Errors in the observation model: they stay within their range, and a wider range costs more."""

import json
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from psrl_pomdp import POMDP, DirichletPrior, FinitePrior, InvalidModelError, Setting, plan, problem
from psrl_pomdp.analysis import RegretCurve
from psrl_pomdp.cli import main
from psrl_pomdp.cli.sensitivity import command
from psrl_pomdp.inference.choosing import with_setting
from psrl_pomdp.studies import sensor_sensitivity as sensor_sensitivity_module
from psrl_pomdp.studies.sensor_sensitivity import SensorSensitivity, perturbed, sensor_sensitivity


@pytest.mark.parametrize("name", ["railway", "tiger", "machine-repair"])
def test_sensors_stay_within_the_range_and_possible(name: str) -> None:
    setting = problem(name).setting
    for seed in range(20):
        changed = perturbed(setting, 0.07, np.random.default_rng(seed))
        assert np.abs(changed.observation - setting.observation).max() <= 0.07 + 1e-12
        assert (changed.observation[setting.observation > 0] > 0).all()
        assert (changed.first_observation is None) == (setting.first_observation is None)
        assert changed.names == setting.names
    same = perturbed(setting, 0.0, np.random.default_rng(0))
    np.testing.assert_allclose(same.observation, setting.observation, atol=1e-15)


def test_a_sensor_of_the_state_alone_stays_one() -> None:
    changed = perturbed(problem("railway").setting, 0.1, np.random.default_rng(1))
    assert (changed.observation == changed.observation[0]).all()
    assert changed.first_observation is not None
    np.testing.assert_array_equal(changed.first_observation, changed.observation[0])


@pytest.mark.parametrize("by_action", [False, True])
def test_a_first_reading_of_its_own_stays_one(by_action: bool) -> None:
    """What is read first comes from another sensor than later readings: neither takes the other's place."""
    later, first = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.0, 1.0], [0.5, 0.5]])
    sensor = np.stack([later, later[::-1]]) if by_action else later
    setting = Setting(sensor, [[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5], first)
    for radius in (0.0, 0.1):
        changed = perturbed(setting, radius, np.random.default_rng(1)).first_observation
        assert changed is not None
        assert np.abs(changed - first).max() <= radius


def test_the_learner_keeps_known_and_shared_rows() -> None:
    setting = Setting([[0.9, 0.1], [0.1, 0.9]], [[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5])
    prior = DirichletPrior(setting, np.ones((2, 2, 2)), known={(0, 0): [0.3, 0.7]}, ties=[[(1, 0), (1, 1)]])
    changed = with_setting(prior, perturbed(setting, 0.2, np.random.default_rng(1)))
    assert changed.setting != setting
    for name in ("concentration", "known", "row"):
        np.testing.assert_array_equal(getattr(changed, name), getattr(prior, name))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"radii": (0.0, 1.0)}, "radius is 1"),
        ({"horizon": 0}, "horizon is 0"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"worth": 0.0}, "worth is 0.0"),
    ],
)
def test_mistakes_are_told_before_anything_is_planned(
    changed: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psrl_pomdp.studies.sensor_sensitivity.plan", lambda *_: pytest.fail("planned"))
    with pytest.raises(InvalidModelError, match=words):
        sensor_sensitivity(problem("railway"), **changed)


def test_an_interrupt_while_planning_stops_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = replace(plan(problem("railway"), 0.1), status="interrupted")
    monkeypatch.setattr("psrl_pomdp.studies.sensor_sensitivity.plan", lambda *_, **__: stopped)
    with pytest.raises(KeyboardInterrupt):
        sensor_sensitivity(problem("railway"), horizon=10, seeds=2)


def test_a_wider_range_costs_more() -> None:
    """Two states that must be told apart at every step, by a sensor that is right nine times in ten.

    With errors of up to .8 in the observation model, the agent that knows the dynamics often misreads the
    observations; with the true model it loses nothing: 5 standard errors and more between the two.
    """
    setting = Setting([[0.9, 0.1], [0.1, 0.9]], [[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5])
    world = POMDP(setting, np.full((2, 2, 2), 0.5))
    found = sensor_sensitivity(world, (0.0, 0.8), horizon=500, seeds=10)
    assert abs(found[0].known_dynamics.middle[-1]) < 1e-6
    assert found[0].other_action == 0.0
    low, _ = found[1].known_dynamics.errors
    assert found[1].known_dynamics.middle[-1] > 2 * low[-1] > 0
    assert found[1].other_action > 0.05
    assert found[0].alarms[0] == 0.0
    assert found[1].alarms[0] > 0.2
    assert found[1].learned_sensor is not None


def test_only_a_dirichlet_prior_can_learn_the_sensor() -> None:
    setting = Setting([[0.9, 0.1], [0.1, 0.9]], [[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5])
    world = POMDP(setting, np.full((2, 2, 2), 0.5))
    found = sensor_sensitivity(
        world, (0.1,), prior=FinitePrior(setting, [world.transition]), horizon=5, seeds=2
    )
    assert found[0].learned_sensor is None
    assert len(found[0].alarms) == 2


def test_a_range_of_one_is_refused() -> None:
    with pytest.raises(InvalidModelError, match="radius is 1"):
        perturbed(problem("tiger").setting, 1.0, np.random.default_rng(0))


def test_the_command() -> None:
    asked = ["railway", "--horizon", "60", "--seeds", "2", "--range", "0.2", "--workers", "1"]
    document = json.loads(CliRunner().invoke(command, [*asked, "--json"], catch_exceptions=False).stdout)
    assert [row["range"] for row in document["rows"]] == [0.0, 0.05, 0.1, 0.2]
    assert all(
        set(row)
        == {"range", "other_action", "known_dynamics", "learned_dynamics", "learned_sensor", "alarms"}
        for row in document["rows"]
    )
    assert all(len(row["alarms"]) == 3 for row in document["rows"])
    assert "--seed" in CliRunner().invoke(command, [*asked, "--seed", "-1"]).output
    shown = CliRunner().invoke(command, asked, catch_exceptions=False).output
    assert "largest error" in shown


def test_ctrl_c_prints_the_rows_that_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("psrl_pomdp.studies.executors.local", lambda n: nullcontext())
    monkeypatch.setattr("psrl_pomdp.cli.sensitivity._progress", stop)
    found = CliRunner().invoke(command, ["tiger", "--horizon", "5", "--seeds", "2", "--json"])
    assert found.exit_code == 130
    assert "interrupted: 1 of 4 sizes of error are complete" in found.stderr
    [row] = json.loads(found.stdout)["rows"]
    assert row["range"] == 0.0


def test_the_old_names_work_and_warn() -> None:
    for old, new in (("Doubt", "SensorSensitivity"), ("sensor_doubt", "sensor_sensitivity")):
        with pytest.warns(DeprecationWarning, match=rf"{old} is now psrl_pomdp.*\.{new}; the old name works"):
            assert getattr(sensor_sensitivity_module, old) is getattr(sensor_sensitivity_module, new)
    with pytest.raises(AttributeError, match="doubts"):
        _ = sensor_sensitivity_module.doubts
    known, learned = (
        RegretCurve("controlled", np.array([1]), np.full((2, 1), regret), np.full((2, 1), regret))
        for regret in (1.0, 2.0)
    )
    found = SensorSensitivity(0.1, known, learned, 0.0)
    with pytest.warns(DeprecationWarning, match=r"\.learns is now SensorSensitivity\.learned_dynamics"):
        assert found.learns is found.learned_dynamics
    with pytest.warns(DeprecationWarning, match=r"\.knows is now SensorSensitivity\.known_dynamics"):
        assert found.knows is found.known_dynamics


def test_the_old_command_works_and_warns(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doubt", "railway", "--horizon", "20", "--seeds", "2", "--workers", "1", "--json"])
    out, err = capsys.readouterr()
    assert "psrl-pomdp doubt is now psrl-pomdp sensitivity; the old name works until version 0.4" in err
    document = json.loads(out)
    for old, new in zip(document["doubts"], document["rows"], strict=True):
        assert (old["knows"], old["learns"]) == (new["known_dynamics"], new["learned_dynamics"])
    main(["--help"])
    assert "doubt " not in capsys.readouterr().out
