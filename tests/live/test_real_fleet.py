"""The service on the fleet of the package: its log replays, and it says what the fleet says."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import problem
from psrl_pomdp.live.audit import audit
from psrl_pomdp.live.config import PlantFile, plant_from
from psrl_pomdp.live.learned_rows import learned_of, learned_rows
from psrl_pomdp.live.ledger import Ledger, Request
from psrl_pomdp.live.metrics import Metrics
from psrl_pomdp.live.opening import open_log
from psrl_pomdp.live.plant_view import plant_document
from psrl_pomdp.live.store import Store
from psrl_pomdp.live.warming import rehearse

MODEL = problem("railway")
PLANT = {"name": "tracks", "model": "railway", "prior": "dirichlet", "fallback": "0", "seed": 2}


class Running:
    """A ledger, and units of the true model."""

    def __init__(self, database: str, plant: PlantFile, seed: int = 1) -> None:
        self.store = Store(database, create=True)
        open_log(self.store, plant)
        self.ledger = Ledger(self.store, Metrics())
        self.ledger.start()
        self.rng = np.random.default_rng(seed)
        self.states: dict[str, int] = {}
        self.actions: dict[str, int] = {}

    def send(self, unit: str, reading: Any, **more: Any) -> dict[str, Any]:
        assert self.ledger.engine is not None
        step = self.ledger.engine.expected_step(unit)
        request = Request("reading", unit, {"step": step, "reading": reading, **more})
        found: dict[str, Any] = json.loads(self.ledger.take(request).result(timeout=60))
        return found

    def play(self, units: list[str], steps: int) -> list[dict[str, Any]]:
        answers = []
        setting = MODEL.setting
        for _ in range(steps):
            for unit in units:
                if unit in self.states:
                    action = self.actions[unit]
                    row = MODEL.transition[action, self.states[unit]]
                    self.states[unit] = state = int(self.rng.choice(len(row), p=row))
                    sensor = setting.observation[action, state]
                    reading: int | None = int(self.rng.choice(len(sensor), p=sensor))
                else:
                    self.states[unit] = state = int(self.rng.choice(setting.n_states, p=setting.initial))
                    sensor = setting.observation[0, state]
                    reading = int(self.rng.choice(len(sensor), p=sensor))
                    reading = None if setting.first_sensor is None else reading
                answers.append(self.send(unit, reading))
                self.actions[unit] = answers[-1]["action_number"]
        return answers

    def wait_for(self, kind: str) -> None:
        for _ in range(600):
            if any(row.kind == kind for row in self.store.rows()):
                return
            threading.Event().wait(0.1)
        raise AssertionError(f"no event {kind} after a minute")

    def close(self) -> None:
        self.ledger.close()
        self.store.close()


def test_a_log_of_the_real_fleet_replays_to_the_last_bit(tmp_path: Path) -> None:
    database = str(tmp_path / "plant.db")
    running = Running(database, plant_from(PLANT))
    try:
        first = running.play(["a", "b"], 4)
        running.wait_for("adopted")
        running.play(["a", "b"], 6)
        engine = running.ledger.engine
        assert engine is not None
        assert first[0]["late"]  # before the first plan
        last = running.send("a", None)
        # What is told is what the fleet says.
        info = engine.fleet.info("a")
        row = running.store.row(int(last["decision"][1:]))
        assert row is not None
        why = json.loads(row.why or "")
        np.testing.assert_array_equal(why["costs"], info.costs)
        np.testing.assert_array_equal(why["advantages"], info.advantages)
        np.testing.assert_array_equal(why["sampled_belief"], info.belief)
        assert list(last["belief"].values()) == engine.fleet.unit("a").belief.tolist()
        assert plant_document(engine)["readings"] == engine.readings
        learned, mean = learned_of(engine.fleet), engine.fleet.posterior.mean()
        assert learned is not None
        setting = engine.fleet.setting
        for each in learned_rows(learned)["rows"]:
            a, s = setting.actions.index(each["action"]), setting.states.index(each["state"])
            to = [setting.states.index(name) for name in each["next"]]
            np.testing.assert_allclose(each["posterior"]["mean"], mean[a, s, to])
            for found in (each["posterior"], each["prior"]):
                assert (np.array(found["lower"]) <= found["upper"]).all()
        state = engine.to_bytes()
        rehearse(engine, running.ledger.make_fleet)
        assert engine.to_bytes() == state
    finally:
        running.close()
    running = Running(database, plant_from(PLANT), seed=9)
    try:
        assert running.ledger.engine is not None
        assert running.ledger.engine.to_bytes() == state
        running.send("a", 0, taken=1)
        running.ledger.take(Request("leave", "b", {})).result(timeout=60)
        begun = running.send("b", None if MODEL.setting.first_sensor is None else 0)
        np.testing.assert_allclose(sum(begun["belief"].values()), 1.0)
    finally:
        running.close()
    with Store(database) as store:
        report = audit(store)
    assert report.findings == ()
    assert report.snapshots >= 2


def test_a_rule_takes_the_permitted_action_with_the_smallest_advantage(tmp_path: Path) -> None:
    action = MODEL.setting.actions[0]
    plant = plant_from({**PLANT, "guards": [f"never {action} when P({MODEL.setting.states[0]}) >= 0"]})
    running = Running(str(tmp_path / "plant.db"), plant)
    try:
        running.play(["a"], 2)
        running.wait_for("adopted")
        for _ in range(40):
            answer = running.play(["a"], 1)[0]
            if answer["guards"]:
                break
        row = running.store.row(int(answer["decision"][1:]))
        assert row is not None
        advantages = json.loads(row.why or "")["advantages"]
        assert answer["guards"]
        assert answer["policy_action"] == action
        assert answer["action_number"] == 1 + int(np.argmin(advantages[1:]))
    finally:
        running.close()


def test_a_unit_of_a_model_with_a_first_observation_says_what_is_wrong(tmp_path: Path) -> None:
    from psrl_pomdp.live.events import RefusedError

    running = Running(str(tmp_path / "plant.db"), plant_from({**PLANT, "model": "machine-repair"}))
    try:
        with pytest.raises(RefusedError, match=r"reading: observation 0.* pass None"):
            running.send("a", "good")
        assert running.send("a", None)["step"] == 1
    finally:
        running.close()
