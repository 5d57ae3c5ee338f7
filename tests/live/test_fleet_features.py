"""The service shows what the fleet has: its sentences, its alarms, and what logs have taught it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from test_real_fleet import PLANT, Running

from psrl_pomdp import DirichletPrior, Fleet, Setting, fit_logs, save
from psrl_pomdp.live.audit import audit
from psrl_pomdp.live.config import plant_from
from psrl_pomdp.live.engine import Engine
from psrl_pomdp.live.events import Event, LiveError, json_text
from psrl_pomdp.live.ledger import Ledger
from psrl_pomdp.live.metrics import Metrics
from psrl_pomdp.live.opening import open_log
from psrl_pomdp.live.reasons import sentences
from psrl_pomdp.live.store import Store
from psrl_pomdp.models import POMDP

SETTING = Setting(
    [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], [[0, 100], [40, 40]], [1, 0], units="euro",
    states=["new", "worn"], actions=["run", "repair"], observations=["low", "middle", "high"],
)  # fmt: skip


def rows_of_a_log() -> list[dict[str, Any]]:
    rng, rows, sensor = np.random.default_rng(1), [], SETTING.observation[0]
    for pump in range(4):
        worn = 0
        for day in range(40):
            action = "repair" if day % 10 == 9 else "run"
            reading = SETTING.observations[int(rng.choice(3, p=sensor[worn]))]
            rows.append({"unit": f"P{pump}", "time": day, "reading": reading, "action": action})
            worn = 0 if action == "repair" else int(worn or rng.random() < 0.1)
    return rows


def folder_of_pumps(folder: Path) -> dict[str, Any]:
    """Write the model, and return the words of a plant beside it."""
    kernel = [[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]]
    save(POMDP(SETTING, np.array(kernel), name="pump"), folder / "pump.json")
    return {"name": "pumps", "model": "pump.json", "fallback": "repair", "prior": "dirichlet"}


def plant_in(folder: Path, **words: Any) -> Any:
    return msgspec.structs.replace(plant_from(folder_of_pumps(folder) | words), folder=str(folder))


def text_of(running: Running, answer: dict[str, Any]) -> str | None:
    row = running.store.row(int(answer["decision"][1:]))
    assert row is not None
    assert row.why is not None
    why = json.loads(row.why)
    engine = running.ledger.engine
    assert engine is not None
    step, done = answer["step"], answer["action_number"]
    return sentences(engine.fleet.setting, answer["unit"], step, why["chosen"], done, why)


def test_stored_reasons_give_the_sentences_of_the_fleet() -> None:
    plant = plant_from(PLANT)
    engine = Engine(plant, plant.make_fleet(plant.make_model()))
    rng, setting = np.random.default_rng(3), engine.fleet.setting
    for step in range(1, 25):
        reading = None if step in (1, 20) else int(rng.integers(setting.n_observations))
        body = json_text({"step": step, "reading": reading})
        found = engine.apply(Event(step, "reading", body, "2026-01-01T00:00:00Z", "a", step))
        assert found.why is not None
        assert found.answer is not None
        why, done = json.loads(found.why), json.loads(found.answer)["action_number"]
        text = sentences(setting, "a", step, why["chosen"], done, why)
        assert text == str(engine.fleet.explain("a"))
        assert text is not None
        assert ("In the long run" in text) == (step > 3)
        assert ("after a missing observation" in text) == (step == 20)
        if 3 <= step < 24 and engine.fleet.work is not None:
            engine.fleet.adopt(engine.fleet.work.run())
    engine.fleet.override("a", 1 - done)
    assert sentences(setting, "a", step, why["chosen"], 1 - done, why) == str(engine.fleet.explain("a"))


def test_alarms_are_those_of_the_fleet_at_the_rate_of_the_plant(tmp_path: Path) -> None:
    database = str(tmp_path / "plant.db")
    running = Running(database, plant_in(tmp_path, watch=0.05))
    try:
        engine = running.ledger.engine
        assert engine is not None
        assert engine.fleet.watch.level == 0.05
        for _ in range(80):  # the meter is stuck
            last = running.send("P1", "middle")
        alarms = engine.fleet.watch.alarms
        assert [alarm.unit for alarm in alarms] == ["P1"]
        assert engine.units["P1"].misfit
        rows = [row for row in running.store.rows() if row.kind == "alarm"]
        assert [(row.unit, row.step) for row in rows] == [("P1", alarms[0].step)]
        body = json.loads(rows[0].body)
        assert body["detail"] == str(alarms[0])
        assert (body["rate"], body["begin"]) == (0.05, alarms[0].begin)
        assert body["e_value"] == alarms[0].e_value >= 1.0 / (0.05 * 0.5)
        text = text_of(running, last)
        assert text == str(engine.fleet.explain("P1"))
        assert text is not None
        assert "Be careful." in text
        # Its history after it has left has a new test.
        running.ledger.take(_leave("P1")).result(timeout=30)
        running.send("P1", "low")
        assert [unit.misfit for unit in engine.units.values()] == [False]
    finally:
        running.close()
    with Store(database) as store:
        assert audit(store).findings == ()


def _leave(unit: str) -> Any:
    from psrl_pomdp.live.ledger import Request

    return Request("leave", unit, {})


def test_watch_of_zero_raises_no_alarm(tmp_path: Path) -> None:
    running = Running(str(tmp_path / "plant.db"), plant_in(tmp_path, watch=0.0))
    try:
        for _ in range(80):
            running.send("P1", "middle")
        assert not [row for row in running.store.rows() if row.kind == "alarm"]
    finally:
        running.close()


def test_a_plant_starts_from_a_fleet_that_has_learned_from_logs(tmp_path: Path) -> None:
    plant = plant_in(tmp_path, start="fleet.npz")
    prior = plant.make_prior(plant.make_model())
    fitted = fit_logs(rows_of_a_log(), prior, seed=1).fleet
    fitted.save(tmp_path / "fleet.npz")
    database = str(tmp_path / "plant.db")
    running = Running(database, plant)
    try:
        engine = running.ledger.engine
        assert engine is not None
        np.testing.assert_array_equal(engine.fleet.posterior.mean(), fitted.posterior.mean())
        assert not engine.fleet.wait
        assert running.send("P1", "low")["step"] == 1
        running.wait_for("adopted")
        running.send("P1", "high")
    finally:
        running.close()
    (tmp_path / "fleet.npz").unlink()  # the database has it
    with Store(database) as store:
        assert audit(store).findings == ()
        with pytest.raises(LiveError, match="start: it is ''"):
            open_log(store, plant_in(tmp_path))
        again = Ledger(store, Metrics())
        again.start()
        assert again.engine is not None
        assert again.engine.expected_step("P1") == 3
        again.close()


def test_a_start_that_does_not_belong_to_the_plant_is_refused(tmp_path: Path) -> None:
    plant = plant_in(tmp_path, start="fleet.npz")
    model = plant.make_model()
    with pytest.raises(LiveError, match=r"start: .*fleet\.npz"):
        plant.make_fleet(model)
    other = Setting(SETTING.observation[0], SETTING.own_cost + 1.0, [1, 0], units="euro")
    fleet = Fleet(DirichletPrior(other, np.ones((2, 2, 2))))
    fleet.save(tmp_path / "fleet.npz")
    with pytest.raises(LiveError, match=r"start: .*another model than pump\.json"):
        plant.make_fleet(model)
    fleet = Fleet(plant.make_prior(model))
    fleet.act("P1", "low")
    fleet.save(tmp_path / "fleet.npz")
    with pytest.raises(LiveError, match=r"start: .*units that have not left"):
        plant.make_fleet(model)
