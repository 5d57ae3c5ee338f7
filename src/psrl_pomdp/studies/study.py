"""A study is one TOML file: which problem, which agents, how long, how often.

    problem = "separated"        # a name, or a model file beside the study
    parameters = { n_kernels = 3 }
    truth = "fixed"              # or "prior": a world drawn from the prior for every seed (Bayesian regret)
    horizon = 100_000
    seeds = 64

    [[agents]]
    name = "psrl"                # what results are called by; by default the kind
    kind = "psrl"
    prior = "finite"             # or "dirichlet", or { kind = "mypackage:MyPrior", rate = 2.0 }
    schedule = "doubling"        # or "tsde", "fixed-100"

    [[agents]]
    kind = "oracle"

Mistakes are errors that name the key and suggest what may have been meant.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from .. import registry
from ..agents.schedules import schedule_named
from ..errors import InvalidModelError, ParseError, PluginError, UnknownNameError, did_you_mean
from .agent_kinds import AGENT_KINDS, kind_of

_LARGEST_FILE = 1 << 20  # bytes
_RANGES = {"horizon": (1, 10**9), "seeds": (1, 10**6), "per_decade": (1, 1000), "seed": (0, 2**63 - 1)}
_MOST_JOBS = 10**6
_MOST_WORK = 1e18  # counted operations: years
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")


class AgentSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One learner of a study."""

    kind: str
    name: str = ""  # the kind, where it is left out
    # "finite" or "dirichlet"; where it is left out, the family if the problem has one. A prior of another
    # package by its name or importable path, or a table with `kind` and its options.
    prior: str | dict[str, Any] = ""
    schedule: str = ""  # the paper's for the prior, where it is left out
    floor: float = 1e-6  # ε_k is planned for no finer than this
    ceiling: float = 0.02
    rtol: float | None = None  # a plan's gap beside what is at stake; .02 for a finite set, .1 otherwise
    atol: float | None = None  # and in the problem's own units
    max_work: float = 3e8  # counted operations for one plan
    options: dict[str, bool | int | float | str] = {}  # what else the kind can be told, by name
    planner: str = ""  # by its name or importable path; where it is left out, the certified one

    @property
    def label(self) -> str:
        """What results are called by: the name, or the kind, of whose path only the end is taken."""
        return self.name or self.kind.rpartition(":")[2]

    @property
    def prior_kind(self) -> str:
        """The name or the path of the prior; empty where it is left out."""
        return self.prior if isinstance(self.prior, str) else str(self.prior.get("kind", ""))


class Study(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All that decides the results."""

    problem: str
    horizon: int
    seeds: int
    agents: tuple[AgentSpec, ...] = (AgentSpec("psrl"),)
    title: str = ""
    parameters: dict[str, Any] = {}
    truth: str = "fixed"
    seed: int = 0  # of all randomness
    per_decade: int = 10  # checkpoints
    tolerance: float = 1e-7  # the gap to which J of the truth is planned
    max_work: float = 3e10  # counted operations for that
    file_sha256: str = ""  # of a model file, so that a changed one is noticed; filled in

    @property
    def fingerprint(self) -> str:
        """The same for the same study."""
        everything = {name: getattr(self, name) for name in self.__struct_fields__}
        everything["agents"] = [_all_but_empty_options(agent) for agent in self.agents]
        return hashlib.sha256(msgspec.json.encode(everything, order="sorted")).hexdigest()[:16]

    def to_toml(self) -> str:
        """The study as a file."""
        return _toml(msgspec.to_builtins(self))


def _all_but_empty_options(agent: AgentSpec) -> dict[str, Any]:
    """What was asked of an agent; studies from before there were such keys keep their fingerprints."""
    later = ("options", "rtol", "atol", "planner")
    words = msgspec.structs.asdict(agent)
    return {key: value for key, value in words.items() if value or key not in later}


def read_study(path: str | Path) -> Study:
    """A study from its file, checked."""
    from .._serialization.reading import read_bytes  # numpy comes with it, for which --help must not wait

    place = Path(path)
    try:
        words = tomllib.loads(read_bytes(place, _LARGEST_FILE).decode("utf-8"))
    except ParseError:
        raise
    except (ValueError, RecursionError) as error:  # numbers of too many digits, and brackets in brackets
        raise ParseError(f"not a study in TOML: {error}", path=place.name) from None
    study = study_from(words, place.name)
    beside = place.parent / study.problem
    if beside.suffix and beside.is_file() and not study.file_sha256:
        return with_file(study, beside)
    return study


def with_file(study: Study, path: Path) -> Study:
    """The study of the model in a file."""
    total = hashlib.sha256(path.read_bytes()).hexdigest()
    return msgspec.structs.replace(study, problem=str(path.resolve()), file_sha256=total)


def study_from(words: dict[str, Any], name: str = "study") -> Study:
    """A study from plain data, checked; `name` is for errors."""
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
    """What types alone do not say."""

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
    for key in ("prior", "schedule"):
        if getattr(agent, key) and not kind.uses_prior:
            raise ParseError(f"{where}{key}: {agent.kind} has none", path=name)
    if agent.planner and kind.make is not AGENT_KINDS["psrl"].make:
        raise ParseError(f"{where}planner: {agent.kind} takes none", path=name)


def _found(group: str, key: str, value: str, name: str) -> None:
    """Refuse what is neither the name of a plug-in nor an importable path."""
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
    """Plain data as TOML: tables of agents last."""
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
