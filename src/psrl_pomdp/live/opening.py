"""Open the database of a plant: begin its log, or check that the plant file still belongs to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from .._version import __version__
from .config import FIXED, PlantFile
from .events import CONFIGURATION, Event, Outcome, json_text, rows_of, time_text

if TYPE_CHECKING:
    from ..models import POMDP
    from .store import Store

NewFleet = Callable[[PlantFile, "POMDP"], Any]


def new_fleet(plant: PlantFile, model: POMDP) -> Any:
    """Return the fleet of a plant before its first reading."""
    return plant.make_fleet(model)


def open_log(store: Store, plant: PlantFile, make: NewFleet = new_fleet) -> bool:
    """Begin the log of a plant, or compare the plant file with the log's configuration.

    What may change, such as the rules, becomes an event. Returns whether the log is new. Raises `LiveError`,
    which names the key, if the plant file describes another plant than the log.
    """
    model = plant.make_model()
    plant.fallback_action(model.setting)
    plant.make_guards(model.setting)
    now = time_text(time.time())
    words: dict[str, Any] = {
        "plant": plant.to_document(),
        "model": model.setting.fingerprint,
        "version": __version__,
    }
    last = store.configuration()
    if last is None:
        fleet = make(plant, model)
        event = Event(1, CONFIGURATION, json_text(words), now, data=fleet.to_bytes())
        store.append(rows_of("0" * 64, event, Outcome()))
        return True
    before = msgspec.json.decode(last.body)
    for key in FIXED:
        was, new = before["plant"].get(key), words["plant"].get(key)
        if json_text(was) != json_text(new):
            raise plant.error(
                key,
                f"it is {new!r}, but {store.name} was begun with {was!r}; what was learned depends on it, so "
                "that a new plant needs a new database",
            )
    if before["model"] != words["model"]:
        raise plant.error("model", f"{plant.model} is not the model that {store.name} was begun with")
    if json_text(before["plant"]) != json_text(words["plant"]):
        seq, digest, at = store.head_hash()
        event = Event(seq + 1, CONFIGURATION, json_text(words), max(now, at))
        store.append(rows_of(digest, event, Outcome()))
    return False
