"""Plug-ins: priors, agents, planners, problems, executors and file formats, found by name.

A name is looked up in

1. the plug-ins of this package, in the table `BUILT_IN`. The entry points in `pyproject.toml` repeat the
table;
   with the table, a source checkout works although its metadata are missing or old;
2. the plug-ins that a script has registered with `register`;
3. the entry points of all installed packages, in the groups `psrl_pomdp.priors`, `psrl_pomdp.agents` and so
   on.

Wherever a name is accepted, so is an importable path such as `mypackage.agent:MyAgent`. Nothing is imported
before it is used. The page "Extending" of the manual says what a factory of each group takes and returns.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from .errors import PluginError, UnknownNameError, did_you_mean

Registration = tuple[str, str, str]  # group, name, importable path
T = TypeVar("T")

PACKAGE = "psrl-pomdp"
_AGENTS = "psrl_pomdp.studies.agent_kinds:"
_PROBLEMS = "psrl_pomdp.problems."

# group -> name -> importable path; `pyproject.toml` lists the same as entry points, and a test compares them.
BUILT_IN: dict[str, dict[str, str]] = {
    "priors": {
        "finite": "psrl_pomdp.studies.priors:finite_of",
        "dirichlet": "psrl_pomdp.studies.priors:dirichlet_of",
    },
    "agents": {
        kind: f"{_AGENTS}{kind.upper().replace('-', '_')}"
        for kind in (
            "psrl", "mean", "map", "ba-pomcp", "oas-ucrl", "oas-ucrl-actions", "seeu-known", "seeu",
            "sm-ucrl", "tsde", "memoryless", "calendar", "oracle", "random",
        )
    },
    "planners": {"certified": "psrl_pomdp.planning:plan"},
    "problems": {
        "tiger": f"{_PROBLEMS}tiger:tiger",
        "machine-repair": f"{_PROBLEMS}maintenance:machine_repair",
        "railway": f"{_PROBLEMS}maintenance:railway",
        "bridge-repair": f"{_PROBLEMS}maintenance:bridge_repair",
        "bridge-ratings": f"{_PROBLEMS}inspections:bridge_ratings",
        "fatigue-crack": f"{_PROBLEMS}inspections:fatigue_crack",
        "railway-gaussian": f"{_PROBLEMS}measurements:railway_gaussian",
        "pump": f"{_PROBLEMS}measurements:pump",
        "spectrum-access": f"{_PROBLEMS}spectrum:spectrum_access",
        "spectrum-access-acks": f"{_PROBLEMS}spectrum:spectrum_access_acks",
        "river-swim": f"{_PROBLEMS}navigation:river_swim",
        "river-swim-observed": f"{_PROBLEMS}navigation:river_swim_observed",
        "fishery": f"{_PROBLEMS}fishery:fishery",
        "noisy-grid": f"{_PROBLEMS}navigation:noisy_grid",
        "rock-sample": f"{_PROBLEMS}searches:rock_sample",
        "tag": f"{_PROBLEMS}searches:tag",
        "random": f"{_PROBLEMS}random_families:random",
        "random-readout": f"{_PROBLEMS}random_families:random_readout",
        "separated": f"{_PROBLEMS}theory:separated",
        "two-rooms": f"{_PROBLEMS}theory:two_rooms",
        "blind-cycle": f"{_PROBLEMS}theory:blind_cycle",
        "lookalikes": f"{_PROBLEMS}theory:lookalikes",
        "no-sensor": f"{_PROBLEMS}theory:no_sensor",
    },
    "executors": {
        "local": "psrl_pomdp.studies.executors:LOCAL",
        "dask": "psrl_pomdp.studies.executors:DASK",
        "ray": "psrl_pomdp.studies.executors:RAY",
    },
    "formats": {
        "pomdp": "psrl_pomdp.io.formats:POMDP_TEXT",
        "pomdpx": "psrl_pomdp.io.formats:POMDPX",
        "json": "psrl_pomdp.io.formats:JSON",
        "npz": "psrl_pomdp.io.formats:NPZ",
    },
}  # fmt: skip
GROUPS = tuple(BUILT_IN)

_MAIN_PROCESS_ONLY = ("executors",)  # worker processes import the plug-ins of all other groups
_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")
_search_cwd = False


@dataclass(frozen=True)
class Plugin:
    """A plug-in: its name, its importable path `module:attribute`, and the package that provides it."""

    group: str
    name: str
    path: str
    package: str = ""  # the name of an installed distribution; empty where there is none
    version: str = ""

    @property
    def built_in(self) -> bool:
        """Whether it is part of this package."""
        return self.package == PACKAGE

    def __str__(self) -> str:
        origin = f"{self.package} {self.version}, " if self.package else ""
        where = self.path if self.path == self.name else f"{self.name!r} ({origin}{self.path})"
        return f"plug-in {where} of the group psrl_pomdp.{self.group}"

    def load(self) -> Any:
        """Import and return the object. Raises `PluginError`, which names the plug-in, where that fails."""
        if (self.group, self.name) in _objects:
            return _objects[self.group, self.name]
        return _imported(self)

    def error(self, why: str) -> PluginError:
        """Return an error that names this plug-in."""
        return PluginError(f"{self}: {why}")


_registered: dict[tuple[str, str], Plugin] = {}
_objects: dict[tuple[str, str], Any] = {}  # of registered executors, which need not be importable


def _imported(plugin: Plugin) -> Any:
    module, _, attributes = plugin.path.partition(":")
    if not attributes:
        raise plugin.error(f"{plugin.path!r} is not an importable path such as package.module:name")
    _add_current_directory()
    try:
        found: Any = import_module(module)
    except (Exception, SystemExit) as error:
        missing = isinstance(error, ModuleNotFoundError) and module.startswith(error.name or "?")
        here = f" (the current directory, {Path.cwd()}, was searched too)" if missing and _search_cwd else ""
        raise plugin.error(f"cannot be imported: {type(error).__name__}: {error}{here}") from error
    for name in attributes.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            known = [each for each in dir(found) if not each.startswith("_")]
            hint = did_you_mean(name, known)
            raise plugin.error(
                f"there is no {name!r} in {plugin.path.rpartition(name)[0][:-1]}{hint}"
            ) from None
    return found


def is_path(text: str) -> bool:
    """Return whether a text is an importable path.

    >>> [is_path(text) for text in ("mypackage.agent:MyAgent", "psrl", "ray://host:10001", "C:/model.json")]
    [True, False, False, False]
    """
    return _PATH.fullmatch(text) is not None


def search_current_directory() -> None:
    """Let importable paths also name modules in the current directory, after all installed ones."""
    global _search_cwd  # noqa: PLW0603 - one switch of the process
    _search_cwd = True


def _add_current_directory() -> None:
    if _search_cwd and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))


# -- look up --------------------------------------------------------------------------------------------


def find(group: str, name: str) -> Plugin:
    """Return the plug-in of this name, or of this importable path, without importing it.

    Raises `UnknownNameError` where there is none, and `PluginError` where two packages claim the name.
    """
    if name in BUILT_IN[_checked(group)]:
        return _own(group, name)
    if (group, name) in _registered:
        return _registered[group, name]
    if is_path(name):
        return Plugin(group, name, name)
    claims = [plugin for plugin in _installed(group) if plugin.name == name]
    if len(claims) > 1:
        raise _claimed(claims)
    if claims:
        return claims[0]
    raise unknown(group, name)


def load(group: str, name: str) -> Any:
    """Return the object of this name, or at this importable path."""
    return find(group, name).load()


def unknown(group: str, name: str) -> UnknownNameError:
    """Return the error for a name that no plug-in has."""
    known = names(group)
    return UnknownNameError(
        f"{name!r} is not among the {group}{did_you_mean(name, known)}; known are {', '.join(known)}; "
        f"other packages add to them by entry points of the group psrl_pomdp.{group}, "
        "and an importable path such as package.module:name will do as well"
    )


def names(group: str) -> list[str]:
    """Return every name that `find` knows: this package's first, then the others in alphabetical order."""
    own = list(BUILT_IN[_checked(group)])
    others = {name for kind, name in _registered if kind == group}
    others |= {plugin.name for plugin in _installed(group)}
    return own + sorted(others - set(own))


def plugins(group: str) -> list[Plugin]:
    """Return every plug-in of a group; a name that two packages claim comes twice."""
    own = [_own(group, name) for name in BUILT_IN[_checked(group)]]
    registered = [plugin for (kind, _), plugin in _registered.items() if kind == group]
    others = sorted(_installed(group), key=lambda plugin: (plugin.name, plugin.package))
    return own + registered + others


def shadowed(plugin: Plugin) -> PluginError | None:
    """Return why a plug-in cannot be found by its name, or None where it can."""
    try:
        found = find(plugin.group, plugin.name)
    except PluginError as error:
        return error
    return None if found == plugin else _claimed([found, plugin])


def _claimed(claims: list[Plugin]) -> PluginError:
    by = " and ".join(
        sorted(f"{plugin.package} {plugin.version}".strip() or plugin.path for plugin in claims)
    )
    one = claims[-1]
    return PluginError(
        f"the name {one.name!r} of the group psrl_pomdp.{one.group} is claimed by {by}: "
        f"give an importable path instead, such as {one.path}"
    )


def _own(group: str, name: str) -> Plugin:
    from ._version import __version__

    return Plugin(group, name, BUILT_IN[group][name], PACKAGE, __version__)


def _installed(group: str) -> tuple[Plugin, ...]:
    """Return the entry points of other packages; those of this package repeat `BUILT_IN`."""
    return tuple(plugin for plugin in from_metadata(group) if not plugin.built_in)


def from_metadata(group: str) -> tuple[Plugin, ...]:
    """Return the entry points of all installed packages, this one's included."""
    return _entry_points(_checked(group), tuple(sys.path))


@lru_cache(maxsize=64)
def _entry_points(group: str, path: tuple[str, ...]) -> tuple[Plugin, ...]:
    from importlib.metadata import entry_points

    found = []
    for point in entry_points(group=f"psrl_pomdp.{group}"):
        package = "" if point.dist is None else re.sub(r"[-_.]+", "-", point.dist.name).lower()
        version = "" if point.dist is None else point.dist.version
        where = point.value.partition("[")[0].replace(" ", "")
        found.append(Plugin(group, point.name, where, package, version))
    return tuple(found)


def _checked(group: str) -> str:
    if group not in BUILT_IN:
        raise UnknownNameError(
            f"{group!r} is no group of plug-ins{did_you_mean(group, GROUPS)}; there are {', '.join(GROUPS)}"
        )
    return group


# -- registered by a script -----------------------------------------------------------------------------


def register(group: str, name: str, factory: Any) -> None:
    """Make `factory` known under `name` for the rest of this program.

    `factory` is a class, a function or an importable path such as "mymodule:MyAgent". Worker processes import
    it again by its path, so that a lambda or a function inside another function is refused with
    `PluginError`; executors, which no worker needs, may be any object. A name that is taken is refused.

    >>> register("problems", "my-tiger", "psrl_pomdp.problems.tiger:tiger")
    >>> find("problems", "my-tiger").path
    'psrl_pomdp.problems.tiger:tiger'
    >>> unregister("problems", "my-tiger")
    """
    if not _NAME.fullmatch(str(name)):
        raise PluginError(f"{name!r} is no name of a plug-in: letters, digits, dots and hyphens only")
    if name in names(group):
        owner = next(plugin for plugin in plugins(group) if plugin.name == name)
        raise PluginError(f"the name {name!r} is taken, by the {owner}")
    if isinstance(factory, str):
        plugin = Plugin(group, name, factory)
        _imported(plugin)
    else:
        plugin = Plugin(group, name, _path_of(group, name, factory))
    if group in _MAIN_PROCESS_ONLY and not isinstance(factory, str):
        _objects[group, name] = factory
    _registered[group, name] = plugin


def unregister(group: str, name: str) -> None:
    """Remove the plug-in that `register` added under this name."""
    if (_checked(group), name) not in _registered:
        raise UnknownNameError(f"nothing was registered as {name!r} of the group psrl_pomdp.{group}")
    del _registered[group, name]
    _objects.pop((group, name), None)


def _path_of(group: str, name: str, factory: Any) -> str:
    """Return the importable path of an object.

    Raises `PluginError` where worker processes could not import it.
    """
    module, attribute = getattr(factory, "__module__", None), getattr(factory, "__qualname__", None)
    path = f"{module or '?'}:{attribute or type(factory).__qualname__}"
    if group in _MAIN_PROCESS_ONLY:
        return path
    why = ""
    if not isinstance(module, str) or not isinstance(attribute, str):
        why = f'a {type(factory).__name__} has no name of its own; give its path as a text, "module:name"'
    elif "<lambda>" in attribute:
        why = "a lambda has no name; write a function with def at the top of a module"
    elif "<locals>" in attribute:
        why = f"{attribute} is defined inside a function; move it to the top of a module"
    elif module == "__main__" and not getattr(sys.modules["__main__"], "__file__", None):
        why = "it was typed in and is in no file; save it in a module"
    elif _imported(Plugin(group, name, path)) != factory:
        why = f"{path} is another object"
    if why:
        raise PluginError(
            f"{name!r} cannot be registered in the group psrl_pomdp.{group}, because worker processes import "
            f"it by its path: {why}"
        )
    return path


def registrations() -> tuple[Registration, ...]:
    """Return the registrations that worker processes need, as strings."""
    return tuple((group, name, plugin.path) for (group, name), plugin in _registered.items()
                 if group not in _MAIN_PROCESS_ONLY)  # fmt: skip


def call_with(known: Iterable[Registration], function: Callable[..., T], *args: Any, **options: Any) -> T:
    """Call a function in a worker process to which the main process has sent its registrations."""
    for group, name, path in known:
        _registered.setdefault((group, name), Plugin(group, name, path))
    return function(*args, **options)


# -- provenance ----------------------------------------------------------------------------------------


def provenance(plugin: Plugin) -> dict[str, str]:
    """Return group, name, path, package and version of a plug-in, for the records of a study.

    Code that belongs to no installed package has no version; the SHA-256 of its file is recorded instead.
    """
    record = {"group": f"psrl_pomdp.{plugin.group}", "name": plugin.name, "path": plugin.path}
    package, version = plugin.package, plugin.version
    if not package:
        package, version = _distribution_of(plugin.path.partition(":")[0])
    if package:
        return record | {"package": package, "version": version}
    return record | {"sha256": _digest_of(plugin)}


def _distribution_of(module: str) -> tuple[str, str]:
    from importlib.metadata import packages_distributions, version

    found = packages_distributions().get(module.partition(".")[0], [])
    return (found[0], version(found[0])) if found else ("", "")


def _digest_of(plugin: Plugin) -> str:
    import hashlib

    plugin.load()
    file = getattr(sys.modules.get(plugin.path.partition(":")[0]), "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
