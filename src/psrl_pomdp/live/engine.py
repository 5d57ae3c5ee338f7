"""The state of a plant: a deterministic state machine over events, which holds the `Fleet`.

`apply` changes the state by one event and returns what the service answers. The same events give the same
answers and the same state, to the last bit: the engine has no clock, no files and no random numbers but the
fleet's own. An event that raises `RefusedError` has changed nothing, and does not enter the log.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from ..errors import (
    ImpossibleObservationError,
    InvalidModelError,
    OutOfOrderError,
    PSRLError,
    UnknownNameError,
    did_you_mean,
)
from ..models import Setting
from .config import UNIT_NAMES, PlantFile, is_unit_name, plant_from
from .events import (
    ADOPTED,
    ALARM,
    CONFIGURATION,
    DESCRIBE,
    EPISODE,
    LEAVE,
    OVERRIDE,
    READING,
    ROLLBACK,
    Event,
    LiveError,
    Outcome,
    RefusedError,
    json_text,
    ordered_json,
    seconds_of,
)
from .guards import Moment, permitted
from .reasons import float_or_none, reasons_of

FleetMaker = Callable[[bytes, PlantFile], Any]
_LARGEST_KERNEL = 20_000  # entries of θ_k in the log
_FORMAT = 1


class UnitState(msgspec.Struct):
    """What the engine knows of a unit beside the fleet's beliefs."""

    step: int = 0  # the step of the last reading
    time: float = 0.0  # the largest time of a reading, in seconds
    reading: Any = None
    action: int | None = None  # the action that holds: given, or an operator's
    decision: int | None = None  # the number of the event of the last reading
    fallback: bool = False
    description: Any = None
    alarm: str | None = None
    misfit: bool = False  # whether there was an alarm that the model does not fit its readings
    done: list[tuple[int, float, int]] = []  # (step, time, action)
    guarded: bool = False  # whether rules changed the last action
    overridden: bool = False  # whether an operator replaced it


class Saved(msgspec.Struct):
    """The engine in a snapshot."""

    format: int
    config: str
    fleet: bytes
    units: dict[str, UnitState]
    episode: int
    readings: int
    late_steps: int
    left: list[str]


class ReadingBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A reading as it comes in."""

    step: int | None = None  # by default the next one, which needs an idempotency key
    reading: Any = None  # a name, a number, a list of numbers; null where it is lost
    at: str | None = None  # ISO 8601
    taken: str | int | None = None  # the action that was really done since the last reading
    cost: float | None = None  # the cost of that action, if costs are seen


def fleet_from_bytes(data: bytes, plant: PlantFile) -> Any:
    """Return the fleet that a configuration or a snapshot contains."""
    from ..agents.fleet import Fleet

    return Fleet.from_bytes(data, prior=plant.make_prior(plant.make_model()) if plant.prior_is_own else None)


class Engine:
    """The state of a plant.

    Parameters
    ----------
    plant
        The contents of the plant file.
    fleet
        The fleet.
    """

    def __init__(self, plant: PlantFile, fleet: Any) -> None:
        self.fleet = fleet
        self.units: dict[str, UnitState] = {}
        self.left: set[str] = set()
        self.episode = 0
        self.readings = 0
        self._configure(plant)

    def _configure(self, plant: PlantFile) -> None:
        setting: Setting = self.fleet.setting
        guards, fallback = plant.make_guards(setting), plant.fallback_action(setting)
        self.plant, self.guards, self.fallback = plant, guards, fallback
        self.actions = setting.actions
        self.states = setting.states
        self.observations = setting.observations if setting.is_finite else None
        if plant.watch:
            self.fleet.false_alarm_rate = plant.watch
        # How far back the rules look.
        self.memory = max((guard.memory for guard in guards), default=0.0)
        self.memory_steps = max((guard.steps for guard in guards), default=0)

    # -- the state as bytes ---------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return everything that determines what the engine does next."""
        config = json_text(self.plant.to_document())
        return msgspec.msgpack.encode(
            Saved(
                _FORMAT,
                config,
                self.fleet.to_bytes(),
                self.units,
                self.episode,
                self.readings,
                int(self.fleet.late_steps),
                sorted(self.left),
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes, make_fleet: FleetMaker = fleet_from_bytes) -> Engine:
        """Return the engine that `to_bytes` wrote. Raises `LiveError` if the bytes are damaged."""
        try:
            saved = msgspec.msgpack.decode(data, type=Saved)
        except msgspec.DecodeError as error:
            raise LiveError(f"a snapshot is damaged: {error}") from None
        if saved.format != _FORMAT:
            raise LiveError(f"a snapshot has the format {saved.format}, not {_FORMAT}")
        plant = plant_from(msgspec.json.decode(saved.config))
        engine = cls(plant, make_fleet(saved.fleet, plant))
        engine.units, engine.episode = saved.units, saved.episode
        engine.readings, engine.left = saved.readings, set(saved.left)
        return engine

    @classmethod
    def begin(cls, event: Event, make_fleet: FleetMaker = fleet_from_bytes) -> Engine:
        """Return the engine after the first event of a log: a configuration with the fleet's first bytes."""
        if event.kind != CONFIGURATION or event.data is None:
            raise LiveError(f"the log begins with an event {event.kind!r}, not with the configuration")
        plant = plant_of(event)
        return cls(plant, make_fleet(event.data, plant))

    # -- events ---------------------------------------------------------------------------------

    def apply(self, event: Event) -> Outcome:
        """Change the state by an event, and return the answer. `RefusedError` means that nothing changed."""
        if event.kind == READING:
            return self._read(event)
        if event.kind == OVERRIDE:
            return self._override(event)
        if event.kind == ADOPTED:
            return self._adopt(event)
        if event.kind == DESCRIBE:
            return self._describe(event)
        if event.kind == LEAVE:
            return self._leave(event)
        if event.kind == CONFIGURATION:
            if event.data is None:  # the first one has made the engine
                self._configure(plant_of(event))
            return Outcome()
        if event.kind == ROLLBACK:
            return Outcome()  # the rows that it makes void are not applied
        raise LiveError(f"an event of the unknown kind {event.kind!r}")

    def expected_step(self, unit: str) -> int:
        """Return the step of a unit's next reading."""
        known = self.units.get(unit)
        return 1 if known is None else known.step + 1

    def check_unit(self, unit: str) -> None:
        """Refuse a unit that cannot be created."""
        if unit in self.units:
            return
        if not is_unit_name(unit):
            raise RefusedError(422, "not-a-unit", f"{unit!r} is no name of a unit; {UNIT_NAMES}", unit=unit)
        if self.plant.units != "any" and unit not in self.plant.units:
            raise RefusedError(404, "unknown-unit", f"the plant has no unit {unit!r}", unit=unit)
        if len(self.units) >= self.plant.limits.units:
            text = f"the plant has {len(self.units)} units, which is its limit (limits.units)"
            raise RefusedError(403, "too-many-units", text, unit=unit)

    def _read(self, event: Event) -> Outcome:
        """Take a reading in and answer with a decision."""
        assert event.unit is not None
        name, step = event.unit, event.step
        self.check_unit(name)
        body = msgspec.json.decode(event.body, type=ReadingBody)
        expected = self.expected_step(name)
        if step != expected:
            text = f"unit {name!r} is at step {expected - 1}: its next reading is step {expected}, not {step}"
            raise RefusedError(409, "out-of-order", text, unit=name, expected=expected)
        reading, taken = self._number_of(body.reading), self._action_of(body.taken, "taken")
        # A unit that comes back begins anew.
        begins = step == 1 or name in self.left or self.fleet.unit(name).action is None
        if taken is not None and begins:
            raise RefusedError(
                422, "invalid-reading", "taken: no action came before the first reading", unit=name
            )
        if self.plant.shadow and not begins and taken is None:
            text = "taken: in shadow mode every reading but the first says which action was taken"
            raise RefusedError(422, "invalid-reading", text, unit=name)
        warnings, time = self._times(event, body)
        alarms_before = len(self.fleet.alarms)
        impossible = self._act(name, body, reading, taken)
        predicted = self._predicted(name, taken) if impossible is not None and not begins else None
        # From here on nothing is refused.
        unit = self.units.setdefault(name, UnitState())
        self.left.discard(name)
        unit.misfit = unit.misfit and not begins  # its new history has a new test
        if taken is not None and unit.done and unit.done[-1][0] == unit.step:
            unit.done[-1] = (unit.done[-1][0], unit.done[-1][1], taken)
        unit.step, unit.time, unit.reading = expected, max(unit.time, time), body.reading
        seen = self.fleet.unit(name)
        policy_action, belief = int(seen.action), np.asarray(seen.belief)
        why = reasons_of(self.fleet, name, belief) | {"chosen": policy_action}
        action = self.fallback
        rules: tuple[str, ...] = ()
        if impossible is None:
            action, rules, none_left = self._guarded(unit, reading, policy_action, belief, why)
            impossible = none_left
        if action != policy_action:
            self.fleet.override(name, action)
        unit.action, unit.decision, unit.fallback = action, event.seq, impossible is not None
        unit.alarm, unit.guarded, unit.overridden = impossible, bool(rules), False
        self._remember(unit, action)
        self.readings += 1
        episode = self._episode()
        derived = [*episode, *self._alarms(name, unit, impossible, predicted, alarms_before)]
        answer: dict[str, Any] = {
            "unit": name,
            "step": expected,
            "decision": decision_id(event.seq),
            "action": self.actions[action],
            "action_number": action,
            "episode": self.episode,
            "belief": dict(zip(self.states, map(float, belief), strict=True)),
            "fallback": impossible is not None,
            "shadow": self.plant.shadow,
            "guards": list(rules),
            "late": self.fleet.following is not None,
            "at": event.at,
        }
        if rules:
            answer["policy_action"] = self.actions[policy_action]
        if impossible is not None:
            answer["alarm"] = impossible
        if warnings:
            answer["warnings"] = warnings
        return Outcome(ordered_json(answer), json_text(why), tuple(derived))

    def _act(self, name: str, body: ReadingBody, reading: Any, taken: int | None) -> str | None:
        """Let the fleet take the reading in; return why it was impossible, or None."""
        try:
            self.fleet.act(name, reading, taken=taken, cost=body.cost)
        except ImpossibleObservationError as error:
            problem = str(error)
        except (InvalidModelError, UnknownNameError, OutOfOrderError, TypeError) as error:
            raise RefusedError(422, "invalid-reading", f"reading: {error}", unit=name) from error
        else:
            return None
        # Nothing is learned from it: the step counts as one whose reading was lost.
        self.fleet.act(name, None, taken=taken)
        return f"the reading {body.reading!r} is impossible: {problem}"

    def _predicted(self, name: str, taken: int | None) -> dict[str, float] | None:
        """Return the chance of each reading after the last action of a unit; its belief is that after it."""
        setting: Setting = self.fleet.setting
        action = self.units[name].action if taken is None else taken
        if self.observations is None or setting.sensor_depends_on_previous or action is None:
            return None
        chances = np.asarray(self.fleet.unit(name).belief) @ setting.observation[action]
        return {word: float(p) for word, p in zip(self.observations, chances, strict=True) if p > 0.0}

    def _number_of(self, reading: Any) -> Any:
        """Return a reading as the fleet takes it; refuse what is none."""
        if reading is None:
            return None
        known = self.observations
        if known is not None:
            if isinstance(reading, str) and reading in known:
                return known.index(reading)
            whole = isinstance(reading, int) and not isinstance(reading, bool)
            if whole and 0 <= reading < len(known):
                return reading
            hint = did_you_mean(reading, known) if isinstance(reading, str) else ""
            few = f"; known are {', '.join(known)}" if len(known) <= 20 else ""
            raise RefusedError(422, "invalid-reading", f"reading: {reading!r} is no reading{hint}{few}")
        parts = reading if isinstance(reading, list) else [reading]
        if not parts or not all(_is_number(part) for part in parts):
            raise RefusedError(422, "invalid-reading", f"reading: {reading!r} is no finite number")
        return reading

    def _action_of(self, action: str | int | None, key: str) -> int | None:
        if action is None:
            return None
        if isinstance(action, str) and action in self.actions:
            return self.actions.index(action)
        if isinstance(action, int) and not isinstance(action, bool) and 0 <= action < len(self.actions):
            return action
        hint = did_you_mean(action, self.actions) if isinstance(action, str) else ""
        text = f"{key}: {action!r} is no action{hint}; known are {', '.join(self.actions)}"
        raise RefusedError(422, "invalid-action", text)

    def _times(self, event: Event, body: ReadingBody) -> tuple[list[str], float]:
        """Return remarks on the time of a reading, and the time that rules use."""
        now = seconds_of(event.at)
        if body.at is None:
            return [], now
        try:
            at = seconds_of(body.at)
        except ValueError:
            raise RefusedError(422, "invalid-reading", f"at: {body.at!r} is no time in ISO 8601") from None
        ahead, warnings = at - now, []
        limit = self.plant.limits.ahead
        if limit and ahead > limit:
            text = f"at: {body.at} is {ahead:.0f} seconds ahead of the server's clock (limits.ahead)"
            raise RefusedError(422, "from-the-future", text)
        if ahead > 60.0:
            warnings.append(f"at is {ahead:.0f} seconds ahead of the server's clock")
        known = self.units.get(event.unit or "")
        if known is not None and at < known.time:
            warnings.append("at is earlier than that of a reading before; the step decides the order")
        return warnings, at

    def _guarded(
        self, unit: UnitState, reading: Any, chosen: int, belief: Any, why: dict[str, Any]
    ) -> tuple[int, tuple[str, ...], str | None]:
        """Return the action after the rules, the rules that changed it, and a problem if none is left."""
        if not self.guards:
            return chosen, (), None
        everywhere = [entry for each in self.units.values() for entry in each.done] if self._whole() else ()
        moment = Moment(belief, reading, unit.step, unit.time, unit.done, everywhere)
        allowed, _, applied = permitted(self.guards, moment, len(self.actions))
        why["forbidden"] = {text: sorted(found) for text, found in applied.items()}
        if chosen in allowed:
            return chosen, (), None
        rules = tuple(text for text, found in applied.items() if chosen in found)
        if not allowed:
            return self.fallback, rules, "the rules forbid every action"
        advantages = why["advantages"]
        if advantages is not None and all(advantages[a] is not None for a in allowed):
            return min(allowed, key=lambda a: (advantages[a], a)), rules, None
        return (self.fallback if self.fallback in allowed else min(allowed)), rules, None

    def _whole(self) -> bool:
        return any(guard.whole_plant for guard in self.guards)

    def _remember(self, unit: UnitState, action: int) -> None:
        """Keep what was done as far back as the rules look, and forget the rest."""
        if not self.memory and not self.memory_steps:
            return
        unit.done.append((unit.step, unit.time, action))
        while (
            len(unit.done) > 1
            and unit.done[0][1] <= unit.time - self.memory
            and unit.done[0][0] <= unit.step - self.memory_steps
        ):
            del unit.done[0]

    def _episode(self) -> list[tuple[str, str | None, int | None, str]]:
        """Return the event of a new episode, if one has begun."""
        now = self.fleet.current_episode
        if now.number == self.episode:
            return []
        self.episode = int(now.number)
        kernel = np.asarray(now.kernel)
        body = {
            "episode": self.episode,
            "start": int(now.start),
            "kernel": kernel.tolist() if kernel.size <= _LARGEST_KERNEL else None,
            "lower": float_or_none(now.plan.lower),
            "upper": float_or_none(now.plan.upper),
            "tolerance": float_or_none(now.tolerance),
        }
        return [(EPISODE, None, None, json_text(body))]

    def _alarms(
        self,
        name: str,
        unit: UnitState,
        impossible: str | None,
        predicted: dict[str, float] | None,
        before: int,
    ) -> list[tuple[str, str | None, int | None, str]]:
        """Return the alarms of a reading: a fallback, and those of `Fleet.watch` after the first `before`."""
        found: list[tuple[str, str | None, int | None, str]] = []
        if impossible is not None:
            body: dict[str, Any] = {
                "alarm": "fallback",
                "detail": impossible,
                "action": self.actions[self.fallback],
                "came": unit.reading,
                "expected": predicted,
            }
            found.append((ALARM, name, unit.step, json_text(body)))
        for alarm in self.fleet.alarms[before:] if self.plant.watch else ():
            unit.misfit = unit.misfit or alarm.unit == name
            body = {
                "alarm": "model",
                "detail": str(alarm),
                "rate": self.plant.watch,
                "e_value": float_or_none(alarm.e_value),
                "begin": alarm.begin,
                "departures": [
                    {"action": d.action, "reading": d.reading, "came": d.came, "expected": d.expected}
                    for d in alarm.departures
                ],
            }
            found.append((ALARM, alarm.unit, unit.step if alarm.unit else None, json_text(body)))
        return found

    def _override(self, event: Event) -> Outcome:
        assert event.unit is not None
        body = msgspec.json.decode(event.body)
        unit = self.units.get(event.unit)
        number = decision_number(body["decision"])
        if unit is None or unit.decision != number:
            raise RefusedError(
                409,
                "too-late",
                f"decision {body['decision']} is not the last one of unit {event.unit!r}; tell what was done "
                "as `taken` of the next reading",
                unit=event.unit,
                last=None if unit is None or unit.decision is None else decision_id(unit.decision),
            )
        action = self._action_of(body["action"], "action")
        if action is None:
            raise RefusedError(422, "invalid-action", "action: an action is wanted")
        self.fleet.override(event.unit, action)
        before, unit.action, unit.overridden = unit.action, action, True
        if unit.done and unit.done[-1][0] == unit.step:
            unit.done[-1] = (unit.done[-1][0], unit.done[-1][1], action)
        answer = {
            "unit": event.unit,
            "step": unit.step,
            "decision": body["decision"],
            "action": self.actions[action],
            "instead_of": None if before is None else self.actions[before],
            "override": event.seq,
            "by": body.get("by"),
            "at": event.at,
        }
        return Outcome(ordered_json(answer))

    def _adopt(self, event: Event) -> Outcome:
        """Adopt what a worker brought."""
        assert event.data is not None
        try:
            used = self.fleet.adopt(event.data)
        except PSRLError as error:
            raise RefusedError(409, "stale-work", f"it cannot be adopted: {error}") from error
        return Outcome(json_text({"used": bool(used)}), None, tuple(self._episode()))

    def _describe(self, event: Event) -> Outcome:
        assert event.unit is not None
        self.check_unit(event.unit)
        new = event.unit not in self.units
        unit = self.units.setdefault(event.unit, UnitState())
        unit.description = msgspec.json.decode(event.body)
        if event.unit in self.left:
            self.left.discard(event.unit)
            if unit.step:
                self.fleet.join(event.unit)
        answer = {"unit": event.unit, "step": unit.step, "created": new, "description": unit.description}
        return Outcome(ordered_json(answer))

    def _leave(self, event: Event) -> Outcome:
        assert event.unit is not None
        unit = self.units.get(event.unit)
        if unit is None:
            raise RefusedError(404, "unknown-unit", f"the plant has no unit {event.unit!r}", unit=event.unit)
        if event.unit not in self.left:
            if unit.step:
                self.fleet.leave(event.unit)
            self.left.add(event.unit)
        return Outcome(ordered_json({"unit": event.unit, "step": unit.step, "present": False}))


def plant_of(event: Event) -> PlantFile:
    """Return the plant of a configuration."""
    return plant_from(msgspec.json.decode(event.body)["plant"])


def decision_id(seq: int) -> str:
    """Return the name of the decision of an event."""
    return f"d{seq}"


def decision_number(name: str) -> int | None:
    """Return the number of the event of a decision; None if it is no name of a decision."""
    digits = name[1:] if name.startswith("d") else ""
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 19 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
