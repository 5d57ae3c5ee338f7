"""What the service tells of a plant and of its units, as plain data. Nothing here changes the state."""

from __future__ import annotations

from typing import Any

import numpy as np

from .engine import Engine, decision_id
from .events import time_text

_MOST_EPISODES = 200


def unit_document(engine: Engine, name: str) -> dict[str, Any]:
    """Return a unit's step, belief and last decision."""
    unit = engine.units[name]
    found: dict[str, Any] = {
        "unit": name,
        "step": unit.step,
        "expected": unit.step + 1,
        "present": name not in engine.left,
        "reading": unit.reading,
        "action": None if unit.action is None else engine.actions[unit.action],
        "decision": None if unit.decision is None else decision_id(unit.decision),
        "fallback": unit.fallback,
        "alarm": unit.alarm,
        "episode": engine.episode,
        "shadow": engine.plant.shadow,
        "description": unit.description,
    }
    if unit.step:
        found["at"] = time_text(unit.time)
        found["guarded"], found["overridden"] = unit.guarded, unit.overridden
        found["misfit"] = unit.misfit
    seen = engine.fleet.unit(name) if unit.step else None
    if seen is not None and seen.time:
        found["belief"] = dict(zip(engine.states, map(float, seen.belief), strict=True))
        if seen.episode is not None:
            found["sampled_belief"] = dict(zip(engine.states, map(float, seen.sampled_belief), strict=True))
    return found


def plant_document(engine: Engine) -> dict[str, Any]:
    """Return what was learned: the posterior of every row, episodes, steps that were played late."""
    fleet, plant = engine.fleet, engine.plant
    setting = fleet.setting
    found: dict[str, Any] = {
        "name": plant.name,
        "states": list(setting.states),
        "actions": list(setting.actions),
        "observations": list(setting.observations) if setting.is_finite else None,
        "cost": {
            "kind": setting.units.kind,
            "unit": setting.units.name,
            "by_action_and_state": np.asarray(setting.own_cost).tolist(),
        },
        "shadow": plant.shadow,
        "guards": list(plant.guards),
        "fallback": plant.fallback,
        "deadline": plant.deadline,
        "units": len(engine.units),
        "readings": engine.readings,
        "episode": engine.episode,
        "late_steps": int(fleet.late_steps),
        "watch": plant.watch,
        "rows": None,
        "average_cost": None,
        "episodes": [],
    }
    if fleet.current_episode.number:
        found["average_cost"] = {
            "of": "the sampled model of this episode",
            "lower": float(fleet.current_episode.plan.lower),
            "upper": float(fleet.current_episode.plan.upper),
        }
        found["episodes"] = [
            _episode(record, setting) for record in fleet.episode_records()[-_MOST_EPISODES:]
        ]
    return found


def _episode(record: Any, setting: Any) -> dict[str, Any]:
    """Return an episode, with the bounds on J(θ_k): a draw from the posterior of J at its start."""
    bounds = sorted(float(setting.units.from_scaled(c)) for c in (record.lower_cost, record.upper_cost))
    return {
        "episode": record.number,
        "start": record.start,
        "length": record.length,
        "ended": record.ended,
        "lower": bounds[0],
        "upper": bounds[1],
    }
