"""Studies: the settings of an experiment, which one TOML file contains.

    problem = "separated"        # a name, or the path of a model file relative to the study file
    parameters = { n_kernels = 3 }
    truth = "fixed"              # or "prior": a true model sampled from the prior for every run
    horizon = 100_000
    seeds = 64

    [[agents]]
    name = "psrl"                # name of the agent in the results; by default its kind
    kind = "psrl"
    prior = "finite"             # or "dirichlet", or { kind = "mypackage:MyPrior", rate = 2.0 }
    schedule = "doubling"        # or "tsde", "fixed-100"

    [[agents]]
    kind = "oracle"

An error names the wrong key and suggests a similar one.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec

from .. import registry
from ..agents.schedules import schedule_named
from ..errors import InvalidModelError, ParseError, PluginError, UnknownNameError, did_you_mean
from .agent_kinds import AGENT_KINDS, kind_of

_RANGES = {"horizon": (1, 10**9), "seeds": (1, 10**6), "per_decade": (1, 1000), "seed": (0, 2**63 - 1)}
_MOST_JOBS = 10**6
MOST_CELLS = 4096
_MOST_WORK = 1e18  # counted operations: years
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")


class AgentSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One agent of a study."""

    kind: str
    name: str = ""  # by default the kind
    # "finite", "dirichlet", or the name or path of a prior of another package; or a table with `kind` and the
    # options of the prior, such as `sensor` of "dirichlet" (`learned_tables`). By default "finite" if the
    # problem has a finite prior, else "dirichlet"; for ba-pomcp always "dirichlet".
    prior: str | dict[str, Any] = ""
    schedule: str = ""  # by default the schedule of the paper for the prior
    floor: float = 1e-6  # the smallest requested gap ε_k of a plan, as a fraction of the cost range
    ceiling: float = 0.02  # the largest requested gap
    rtol: float | None = None  # the largest gap, as a fraction of the reference value; default .02 or .1
    atol: float | None = None  # the largest gap in the units of the problem
    max_work: float = 3e8  # the computation budget of one plan, in counted operations
    options: dict[str, bool | int | float | str] = {}  # keyword arguments of the agent's class
    planner: str = ""  # the name or path of a planner; by default `plan`
    cells: int = 0  # the agent is given K cells in place of the readings of a density; 0 for the readings

    @property
    def label(self) -> str:
        """The name of the agent in the results: `name`, or the last part of `kind`."""
        return self.name or self.kind.rpartition(":")[2]

    @property
    def prior_kind(self) -> str:
        """The name or the path of the prior; empty if there is none."""
        return self.prior if isinstance(self.prior, str) else str(self.prior.get("kind", ""))


class Study(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The settings that determine the results of an experiment."""

    problem: str
    horizon: int
    seeds: int
    agents: tuple[AgentSpec, ...] = (AgentSpec("psrl"),)
    title: str = ""
    parameters: dict[str, Any] = {}
    truth: str = "fixed"
    seed: int = 0  # the seed of all random numbers
    per_decade: int = 10  # the number of checkpoints in each factor of 10 of time
    # The gap of the plan for the true model, as a fraction of the cost range. For a density of observations,
    # the default is 1e-5 (`experiment`).
    tolerance: float = 1e-7
    max_work: float = 3e10  # the computation budget of that plan, in counted operations
    seen_cost: str = ""  # "exact" if agents see the cost of every step
    file_sha256: str = ""  # the hash of the model file, by which a changed file is detected

    @property
    def fingerprint(self) -> str:
        """A hash of all settings."""
        everything = {name: getattr(self, name) for name in self.__struct_fields__}
        everything["agents"] = [_all_but_empty_options(agent) for agent in self.agents]
        if not self.seen_cost:  # a new key, as in `_all_but_empty_options`
            del everything["seen_cost"]
        return hashlib.sha256(msgspec.json.encode(everything, order="sorted")).hexdigest()[:16]

    def to_toml(self) -> str:
        """Return the text of the study file."""
        return _toml(msgspec.to_builtins(self))


def _all_but_empty_options(agent: AgentSpec) -> dict[str, Any]:
    """Return the settings of an agent without empty new keys, so that old studies keep their fingerprints."""
    later = ("options", "rtol", "atol", "planner", "cells")
    words = msgspec.structs.asdict(agent)
    return {key: value for key, value in words.items() if value or key not in later}


def read_study(path: str | Path) -> Study:
    """Read and check a study file.

    Parameters
    ----------
    path
        The path of the TOML file.

    Returns
    -------
    Study
        The study.

    Raises
    ------
    ParseError
        If the file cannot be read, or a key is unknown or has an invalid value. The message names the key.
    """
    from .._serialization.reading import read_toml  # numpy comes with it, for which --help must not wait

    place = Path(path)
    study = study_from(read_toml(place, "a study"), place.name)
    beside = place.parent / study.problem
    if beside.suffix and beside.is_file() and not study.file_sha256:
        return with_file(study, beside)
    return study


def with_file(study: Study, path: Path) -> Study:
    """Return the study with a model file as its problem."""
    total = hashlib.sha256(path.read_bytes()).hexdigest()
    return msgspec.structs.replace(study, problem=str(path.resolve()), file_sha256=total)


def study_from(words: dict[str, Any], name: str = "study") -> Study:
    """Return the study that a dictionary describes; errors begin with `name`.

    Raises `ParseError`, which names the key, if the study is invalid.
    """
    _known_keys(words, Study, "", name)
    for i, agent in enumerate(words.get("agents", [])):
        if isinstance(agent, dict):
            _known_keys(agent, AgentSpec, f"agents[{i}].", name)
    try:
        study = msgspec.convert(words, Study)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ParseError(str(error).replace("$.", ""), path=name) from None
    _check(study, name)
    return study


def _known_keys(words: dict[str, Any], kind: type[msgspec.Struct], where: str, name: str) -> None:
    known = kind.__struct_fields__
    for key in words:
        if key not in known:
            raise ParseError(f"{where}{key} is no key of a study{did_you_mean(key, known)}", path=name)
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in words:
            raise ParseError(f"{where}{field.name} is missing", path=name)


def _check(study: Study, name: str) -> None:
    """Check what the types of the fields do not determine."""

    def refuse(text: str) -> None:
        raise ParseError(text, path=name)

    for key, (least, most) in _RANGES.items():
        if not least <= getattr(study, key) <= most:
            refuse(f"{key} is {getattr(study, key)}: wanted from {least} to {most}")
    if study.seeds * len(study.agents) > _MOST_JOBS:
        refuse(f"{study.seeds} seeds of {len(study.agents)} agents: at most {_MOST_JOBS} runs are one study")
    if not 0.0 < study.tolerance <= 1.0:
        refuse(f"tolerance is {study.tolerance}: wanted above 0 and up to 1")
    if not 0.0 < study.max_work <= _MOST_WORK:
        refuse(f"max_work is {study.max_work}: wanted above 0 and up to {_MOST_WORK:g}")
    _one_of("truth", study.truth, ("fixed", "prior"), name)
    _one_of("seen_cost", study.seen_cost, ("", "exact"), name)
    if not study.agents:
        refuse("agents is empty: at least one is wanted")
    labels = [agent.label for agent in study.agents]
    for i, agent in enumerate(study.agents):
        _check_names(f"agents[{i}].", agent, name)
        if not 0.0 <= agent.floor <= agent.ceiling <= 1.0 or not agent.ceiling > 0.0:
            refuse(
                f"agents[{i}].floor is {agent.floor} and ceiling {agent.ceiling}: "
                "wanted from 0 to 1, the ceiling above 0 and not below the floor"
            )
        for key in ("rtol", "atol"):
            value = getattr(agent, key)
            if value is not None and not value > 0.0:
                refuse(f"agents[{i}].{key} is {value}: wanted above 0")
        if not 0 <= agent.cells <= MOST_CELLS:
            refuse(f"agents[{i}].cells is {agent.cells}: wanted from 1 to {MOST_CELLS}, or 0 for readings")
        if not 0.0 < agent.max_work <= _MOST_WORK:
            refuse(f"agents[{i}].max_work is {agent.max_work}: wanted above 0 and up to {_MOST_WORK:g}")
        if not _NAME.fullmatch(agent.label):
            refuse(f"agents[{i}].name is {agent.label!r}: letters, digits, dots and hyphens only")
        if labels.count(agent.label) > 1:
            refuse(f"agents[{i}].name is {agent.label!r}, and so is another's: names tell results apart")
        if agent.schedule:
            try:
                schedule_named(agent.schedule)
            except (LookupError, InvalidModelError) as error:
                refuse(f"agents[{i}].schedule: {error}")


def _check_names(where: str, agent: AgentSpec, name: str) -> None:
    """Refuse a kind, a prior or a planner that nothing is called, and what the kind does not have."""
    _found("agents", f"{where}kind", agent.kind, name)
    if isinstance(agent.prior, dict) and not isinstance(agent.prior.get("kind"), str):
        raise ParseError(f'{where}prior has no kind, such as {{ kind = "dirichlet" }}', path=name)
    if agent.prior:
        _found("priors", f"{where}prior", agent.prior_kind, name)
    if agent.planner:
        _found("planners", f"{where}planner", agent.planner, name)
    try:
        kind = kind_of(agent.kind)
    except PluginError as error:
        raise ParseError(f"{where}kind: {error}", path=name) from error
    for key, used in (("prior", kind.uses_prior), ("schedule", kind.uses_schedule)):
        if getattr(agent, key) and not used:
            raise ParseError(f"{where}{key}: {agent.kind} has none", path=name)
    if agent.planner and kind.make is not AGENT_KINDS["psrl"].make:
        raise ParseError(f"{where}planner: {agent.kind} takes none", path=name)


def _found(group: str, key: str, value: str, name: str) -> None:
    """Raise a `ParseError` if a value is neither the name of a plug-in nor an importable path."""
    try:
        registry.find(group, value)
    except UnknownNameError:
        known = registry.names(group)
        text = f"{key} is {value!r}, not one of {', '.join(known)}{did_you_mean(value, known)}"
        raise ParseError(f"{text}, nor an importable path (group psrl_pomdp.{group})", path=name) from None
    except PluginError as error:
        raise ParseError(f"{key}: {error}", path=name) from error


def _one_of(key: str, value: str, known: tuple[str, ...], name: str) -> None:
    if value not in known:
        hint = did_you_mean(value, known)
        raise ParseError(f"{key} is {value!r}, not one of {', '.join(known)}{hint}", path=name)


def _toml(words: dict[str, Any]) -> str:
    """Return a dictionary as TOML, with the tables of agents at the end."""
    lines = [f"{key} = {_value(value)}" for key, value in words.items() if key != "agents"]
    for agent in words.get("agents", []):
        lines += ["", "[[agents]]", *(f"{key} = {_value(value)}" for key, value in agent.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if isinstance(value, int | float):
        return repr(value)
    raise InvalidModelError(f"{value!r} cannot be written to a study")
