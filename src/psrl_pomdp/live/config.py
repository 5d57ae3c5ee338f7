"""The file `plant.toml`, which describes a plant. Every error names the key.

name = "pumps"
model = "pump.json"      # a model file, relative to this one, or the name of a problem
prior = "dirichlet"      # or "finite", "module:attr", or a table with `kind` and options
fallback = "run"         # the action where the state of a unit cannot be known
deadline = 0.2           # seconds; later answers are counted
seed = 1
shadow = false           # true: another controller acts, and every reading says what was `taken`
guards = ["never run when P(failing) > .3", "at most one repair a day"]
units = "any"            # or the list of the units that there are
watch = 0.01             # the false-alarm rate of the test of the model; 0 for no alarms
start = "fleet.npz"      # a fleet that `psrl-pomdp fit` wrote, to go on from what the logs have taught

[limits]
body = 1_048_576         # bytes of a request
rate = 1000              # requests a second of one client; 0 for no limit
units = 10_000
batch = 10_000           # readings of one request
ahead = 0                # seconds by which `at` may be ahead of the server's clock; 0 for any
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import InvalidModelError, ParseError, PSRLError, did_you_mean
from ..registry import is_path
from .events import LiveError

if TYPE_CHECKING:
    from ..agents.fleet import Fleet
    from ..agents.planning_budget import PlanningBudget
    from ..models import POMDP, Setting
    from .guards import Guard

_BUDGET = ("min_tolerance", "max_tolerance", "max_work", "max_points", "rtol", "atol")
# What the state of a database depends on from its first event on.
FIXED = ("model", "parameters", "normalize", "prior", "schedule", "budget", "seed", "start")


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one client may ask for."""

    body: int = 1 << 20
    rate: float = 1000.0
    units: int = 10_000
    batch: int = 10_000
    ahead: float = 0.0


class PlantFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plant: the contents of `plant.toml`."""

    model: str
    fallback: str
    name: str = ""  # by default that of the file
    prior: str | dict[str, Any] = ""  # by default "finite" if the problem has such a prior, else "dirichlet"
    parameters: dict[str, Any] = {}  # of a problem of the library
    normalize: bool = False  # as --normalize
    schedule: str = ""
    budget: dict[str, float] = {}  # arguments of PlanningBudget
    seed: int = 0
    deadline: float = 0.2
    shadow: bool = False
    guards: tuple[str, ...] = ()
    units: str | tuple[str, ...] = "any"
    watch: float = 0.01
    start: str = ""  # the file of a fleet; by default nothing was learned yet
    limits: Limits = Limits()
    folder: str = "."  # of the file; not a key

    def to_document(self) -> dict[str, Any]:
        """Return the keys and values as plain data."""
        words: dict[str, Any] = msgspec.to_builtins(self)
        del words["folder"]
        return words

    def make_model(self) -> POMDP:
        """Return the model: that of a file beside the plant file, or a problem of the library."""
        from ..io import endings, load
        from ..problems import is_problem, problem

        path = Path(self.folder) / self.model
        try:
            if not is_problem(self.model) and (path.suffix.lower() in endings() or path.is_file()):
                if self.parameters:
                    raise ParseError("a file has no parameters", path=self.model)
                return load(path, normalize=self.normalize)
            return problem(self.model, **self.parameters)
        except (PSRLError, TypeError) as error:
            raise self.error("model", str(error)) from error

    def make_prior(self, model: POMDP) -> Any:
        """Return the prior of a new plant."""
        from ..studies.priors import prior_of

        if isinstance(self.prior, dict) and not isinstance(self.prior.get("kind"), str):
            raise self.error("prior", 'the table has no kind, such as kind = "dirichlet"')
        try:
            return prior_of(model, self.prior, (self.seed,))
        except (PSRLError, TypeError) as error:
            raise self.error("prior", str(error)) from error

    def make_fleet(self, model: POMDP) -> Fleet:
        """Return the fleet of a new plant: without readings, or the one that `start` names."""
        from ..agents.fleet import Fleet
        from ..agents.schedules import schedule_named

        schedule = schedule_named(self.schedule) if self.schedule else None
        if not self.start:
            return Fleet(self.make_prior(model), schedule, self.seed, budget=self.make_budget(), wait=False)
        own = self.make_prior(model) if self.prior_is_own else None
        try:
            found = Fleet.load(Path(self.folder) / self.start, prior=own, wait=False)
        except (PSRLError, OSError) as error:
            raise self.error("start", str(error)) from error
        if found.setting.fingerprint != model.setting.fingerprint:
            raise self.error("start", f"{self.start} is a fleet of another model than {self.model}")
        if schedule is not None and schedule != found.schedule:
            raise self.error("schedule", f"{self.start} has another one")
        if any(found.unit(name).present for name in found.units):
            raise self.error("start", f"{self.start} has units that have not left; only logs are taken over")
        found.budget = self.make_budget() or found.budget
        return found

    @property
    def prior_is_own(self) -> bool:
        """Whether the prior may be code, which no file contains."""
        return isinstance(self.prior, dict) or is_path(self.prior)

    def make_budget(self) -> PlanningBudget | None:
        """Return the planning budget; None for the default."""
        from ..agents.planning_budget import PlanningBudget

        if not self.budget:
            return None
        try:
            return PlanningBudget(**{**self.budget, **_whole(self.budget)})  # type: ignore[arg-type]
        except PSRLError as error:
            raise self.error("budget", str(error)) from error

    def make_guards(self, setting: Setting) -> tuple[Guard, ...]:
        """Return the rules for actions."""
        from .guards import read_guard

        found = []
        for i, text in enumerate(self.guards):
            try:
                found.append(read_guard(text, setting))
            except InvalidModelError as error:
                raise self.error(f"guards[{i}]", str(error)) from None
        return tuple(found)

    def fallback_action(self, setting: Setting) -> int:
        """Return the number of the fallback action."""
        known = setting.actions
        if self.fallback in known:
            return known.index(self.fallback)
        if self.fallback.isdecimal() and int(self.fallback) < len(known):
            return int(self.fallback)
        hint = did_you_mean(self.fallback, known)
        raise self.error("fallback", f"{self.fallback!r} is no action{hint}; known are {', '.join(known)}")

    def error(self, key: str, text: str) -> LiveError:
        """Return an error that names a key."""
        return LiveError(f"{self.name or 'plant.toml'}: {key}: {text}")


def _whole(budget: dict[str, float]) -> dict[str, int]:
    return {"max_points": int(budget["max_points"])} if "max_points" in budget else {}


def read_plant(path: str | PathLike[str]) -> PlantFile:
    """Read and check a plant file.

    Parameters
    ----------
    path
        The path of the TOML file.

    Returns
    -------
    PlantFile
        The plant. Its model and its prior are not made yet.

    Raises
    ------
    ParseError
        If the file cannot be read, or a key is unknown or has an invalid value. The message names the key.
    """
    from .._serialization.reading import read_toml

    place = Path(path)
    found = plant_from(read_toml(place, "a plant"), place.name)
    return msgspec.structs.replace(found, folder=str(place.parent.resolve()), name=found.name or place.stem)


def plant_from(words: dict[str, Any], name: str = "plant.toml") -> PlantFile:
    """Return the plant that a dictionary describes. Raises `ParseError`, which names the key."""
    _known_keys(words, PlantFile, "", name)
    if isinstance(words.get("limits"), dict):
        _known_keys(words["limits"], Limits, "limits.", name)
    if isinstance(words.get("fallback"), int) and not isinstance(words["fallback"], bool):
        words = {**words, "fallback": str(words["fallback"])}
    try:
        plant = msgspec.convert(words, PlantFile)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ParseError(_in_words(str(error)), path=name) from None
    _check(plant, name)
    return plant


def _known_keys(words: dict[str, Any], kind: type[msgspec.Struct], where: str, name: str) -> None:
    known = tuple(field for field in kind.__struct_fields__ if field != "folder")
    for key in words:
        if key not in known:
            raise ParseError(f"{where}{key} is no key of a plant{did_you_mean(key, known)}", path=name)
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in words:
            raise ParseError(f"{where}{field.name} is missing", path=name)


def _in_words(error: str) -> str:
    """Return a message of msgspec with the key in front."""
    text, at, where = error.rpartition(" - at `$.")
    return f"{where.rstrip('`')}: {text}" if at else error


def _check(plant: PlantFile, name: str) -> None:
    """Check what the types of the fields do not determine."""
    limits = plant.limits
    ranges: list[tuple[str, float, float, float]] = [
        ("deadline", plant.deadline, 1e-3, 3600.0),
        ("seed", plant.seed, 0, 2**63 - 1),
        ("watch", plant.watch, 0.0, 0.999),
        ("limits.body", limits.body, 1024, 1 << 30),
        ("limits.rate", limits.rate, 0.0, 1e6),
        ("limits.units", limits.units, 1, 10**6),
        ("limits.batch", limits.batch, 1, 10**6),
        ("limits.ahead", limits.ahead, 0.0, 1e9),
    ]
    for key, value, least, most in ranges:
        if not least <= value <= most:
            raise ParseError(f"{key} is {value:g}: wanted from {least:g} to {most:g}", path=name)
    for key, text in (("model", plant.model), ("fallback", plant.fallback)):
        if not text:
            raise ParseError(f"{key} is empty", path=name)
    if isinstance(plant.units, str) and plant.units != "any":
        raise ParseError(f'units is {plant.units!r}: "any" or a list of names is wanted', path=name)
    for unit in plant.units if isinstance(plant.units, tuple) else ():
        if not is_unit_name(unit):
            raise ParseError(f"units: {unit!r} is no name of a unit; {UNIT_NAMES}", path=name)
    for key in plant.budget:
        if key not in _BUDGET:
            raise ParseError(f"budget.{key} is no key of a plant{did_you_mean(key, _BUDGET)}", path=name)
    if plant.schedule:
        from ..agents.schedules import schedule_named

        try:
            schedule_named(plant.schedule)
        except (LookupError, InvalidModelError) as error:
            raise ParseError(f"schedule: {error}", path=name) from None


UNIT_NAMES = "letters, digits, dots, hyphens and underscores, at most 64, are wanted"


def is_unit_name(text: str) -> bool:
    """Return whether a text can name a unit.

    >>> [is_unit_name(text) for text in ("pump-7", "", "a/b", "..")]
    [True, False, False, False]
    """
    allowed = text.isascii() and text.replace("-", "").replace("_", "").replace(".", "").isalnum()
    return allowed and len(text) <= 64 and text[0].isalnum()
