"""The catalogue of problems, and the decorator that adds a problem to it.

A problem is a function with keyword parameters that returns `Parts`. Its docstring describes the hidden
states, the actions, the observations and the costs. The arguments of `@register` describe the rest:

    @register("tiger", title=..., source=..., assumptions=Assumptions(...))
    def tiger(accuracy: float = 0.85) -> Parts:
        \"\"\"A tiger waits behind one of two doors ...\"\"\"
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import registry
from .._utils.arrays import Array
from .._utils.deprecation import warn_renamed
from ..errors import InvalidModelError, PSRLError, UnknownNameError, did_you_mean
from ..inference import DirichletPrior, FinitePrior
from ..models import POMDP, Setting
from ..registry import Plugin


@dataclass(frozen=True)
class Assumptions:
    """What is known about the paper's four assumptions for a problem with its default parameters.

    Each text begins with `holds`, `fails` or `open` and gives the reason.
    """

    bellman: str  # 1: J is the same for every initial belief, and a bounded v solves the optimality equation
    separation: str  # 2: every observation distinguishes the kernels of the finite prior
    belief: str  # 3: the belief under the sampled kernel approaches the belief under the true kernel
    kernel: str  # 4: some estimator of the kernel approaches the true kernel


@dataclass(frozen=True)
class Parts:
    """The result of a problem's function: the true model, and the arrays of its priors."""

    setting: Setting
    transition: npt.ArrayLike  # [A, S, S], the true kernel
    others: tuple[npt.ArrayLike, ...] = ()  # the other kernels of the finite prior
    concentration: npt.ArrayLike | None = None  # [A, S, S], of the Dirichlet prior; by default 1 everywhere
    known: npt.ArrayLike | None = None  # [A, S]: whether the Dirichlet prior knows the row; by default none
    ties: Sequence[Sequence[tuple[int, int]]] = ()  # groups of pairs (a, s) that share a row of this prior


@dataclass(frozen=True)
class Entry:
    """A problem in the catalogue."""

    name: str
    title: str
    source: str
    assumptions: Assumptions
    build: Callable[..., Parts]
    plugin: Plugin | None = None  # None for a problem of this package
    renamed: Mapping[str, str] = field(default_factory=dict)  # old names of parameters, each with the new one

    @property
    def about(self) -> str:
        """The description of the problem."""
        return inspect.getdoc(self.build) or ""

    @property
    def parameters(self) -> dict[str, Any]:
        """The names of the parameters and their defaults."""
        found = inspect.signature(self.build).parameters.items()
        return {name: p.default for name, p in found if p.default is not p.empty}


class Problem(POMDP):
    """A POMDP of the library, with priors over its transition kernel.

    `family` is a finite prior whose first kernel is the true one, or None if the problem has no finite prior.
    `prior` is a Dirichlet prior; its parameter is 0 for a transition that is known to be impossible.
    """

    entry: Entry
    family: FinitePrior | None
    prior: DirichletPrior

    def __init__(self, entry: Entry, parameters: dict[str, Any], parts: Parts) -> None:
        super().__init__(parts.setting, parts.transition, name=entry.name)
        concentration = parts.concentration
        if concentration is None:
            concentration = np.ones_like(self.transition)
        kernels = np.stack([self.transition, *(np.asarray(k, np.float64) for k in parts.others)])
        self._set(
            entry=entry,
            _parameters=tuple(parameters.items()),
            family=FinitePrior(parts.setting, kernels) if parts.others else None,
            prior=DirichletPrior(
                parts.setting, concentration, _known_rows(parts, self.transition), parts.ties
            ),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """The values of the problem's parameters."""
        return dict(self._parameters)

    def with_setting(self, setting: Setting) -> Problem:
        """Return the same problem, with the same kernel and priors over kernels, in another setting."""
        moved = Problem.__new__(Problem)
        POMDP.__init__(moved, setting, self.transition, name=self.name)
        moved._set(
            entry=self.entry,
            _parameters=self._parameters,
            family=None if self.family is None else self.family.replace(setting=setting),
            prior=self.prior.replace(setting=setting),
        )
        return moved

    _parameters: tuple[tuple[str, Any], ...]


_ENTRIES: dict[str, Entry] = {}


def register(
    name: str,
    *,
    title: str,
    source: str,
    assumptions: Assumptions,
    renamed: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Parts]], Callable[..., Parts]]:
    """Return a decorator that adds a function to the catalogue.

    Parameters
    ----------
    name
        The name of the problem: letters, digits and hyphens.
    title
        One sentence without the final period.
    source
        The publication that the problem and its numbers come from.
    assumptions
        What is known about the paper's assumptions.
    renamed
        Old names of parameters, each with its new name. An old name gives a `DeprecationWarning`.
    """

    def add(build: Callable[..., Parts]) -> Callable[..., Parts]:
        _ENTRIES[name] = Entry(name, title, source, assumptions, build, renamed=renamed or {})
        return build

    return add


def _known_rows(parts: Parts, transition: Array) -> dict[tuple[int, int], Array]:
    """Return the rows of the true kernel that the Dirichlet prior knows, by pairs (a, s)."""
    known = np.zeros(transition.shape[:2]) if parts.known is None else np.asarray(parts.known)
    return {(int(a), int(s)): transition[a, s] for a, s in np.argwhere(known)}


def as_problem(model: POMDP | None) -> Problem | None:
    """Return `model` if it is a problem of the catalogue or of a plug-in, and None if not."""
    return model if isinstance(model, Problem) else None


def catalogue() -> tuple[Entry, ...]:
    """Return all problems of this package, in the order of the manual."""
    return tuple(_ENTRIES.values())


def problem(name: str, /, **parameters: Any) -> Problem:
    """Return a problem of the library.

    Parameters
    ----------
    name
        The name of the problem, such as `tiger`; or the name or the importable path of a plug-in.
    **parameters
        Values that replace the defaults of the problem's parameters.

    Returns
    -------
    Problem
        The true model, with its priors in the attributes `prior` and `family`.

    Raises
    ------
    UnknownNameError
        If there is no problem or no parameter of this name. The message suggests a similar name.
    InvalidModelError
        If a parameter is out of its range.

    >>> problem("tiger", accuracy=0.9)
    POMDP('tiger', Setting(2 states, 3 actions, 2 observations, reward -100 to 10))
    """
    entry = _ENTRIES.get(name) or _installed(name)
    parameters = _by_new_names(entry, parameters)
    for key in parameters:
        if key not in entry.parameters:
            known = ", ".join(entry.parameters) or "none"
            hint = did_you_mean(key, entry.parameters)
            raise UnknownNameError(f"{name} has no parameter {key!r}{hint}; it has {known}")
    complete = entry.parameters | parameters
    if entry.plugin is None:
        return Problem(entry, complete, entry.build(**complete))
    return _built(entry, complete, entry.plugin)


def _by_new_names(entry: Entry, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a problem with old names replaced by new ones, each with a warning."""
    found = dict(parameters)
    for old, new in entry.renamed.items():
        if old in found:
            if new in found:
                raise UnknownNameError(f"{entry.name}: both {new} and its old name {old} were given")
            warn_renamed(
                f"the parameter {old} of {entry.name}", f"the parameter {new} of {entry.name}", stacklevel=4
            )
            found[new] = found.pop(old)
    return found


def is_problem(name: str) -> bool:
    """Whether the package or an installed plug-in calls a problem so; importable paths are no names."""
    return name in registry.names("problems")


def _installed(name: str) -> Entry:
    """Return the entry of a problem of another package, a script or an importable path."""
    try:
        plugin = registry.find("problems", name)
    except UnknownNameError:
        known = registry.names("problems")
        raise UnknownNameError(
            f"no problem is called {name!r}{did_you_mean(name, known)}; known are {', '.join(known)}"
        ) from None
    build = plugin.load()
    if isinstance(build, Entry):
        return replace(build, plugin=plugin)
    if not callable(build):
        raise plugin.error(f"an object of type {type(build).__name__} cannot be called")
    about = inspect.getdoc(build) or "a problem without a description"
    source = f"{plugin.package} {plugin.version}".strip() or plugin.path
    unknown = Assumptions(*("open: nobody has said" for _ in range(4)))
    label = name.rpartition(":")[2] if registry.is_path(name) else name
    return Entry(label, about.splitlines()[0].rstrip("."), source, unknown, build, plugin)


def _built(entry: Entry, parameters: dict[str, Any], plugin: Plugin) -> Problem:
    """Return the problem that a plug-in's function makes; an error in this function names the plug-in."""
    try:
        found: Any = entry.build(**parameters)
    except PSRLError:
        raise
    except Exception as error:
        raise plugin.error(f"raised {error!r} when the problem was made") from error
    if isinstance(found, Parts):
        return Problem(entry, parameters, found)
    if isinstance(found, Problem):
        return found
    if isinstance(found, POMDP):
        possible = (found.transition > 0).astype(np.float64)
        return Problem(entry, parameters, Parts(found.setting, found.transition, concentration=possible))
    raise plugin.error(f"it returned a {type(found).__name__}, not a POMDP or `Parts`")


def fraction(name: str, value: float) -> float:
    """Return a parameter, checked to be a probability."""
    return bounded(name, value, 0.0, 1.0)


def bounded(name: str, value: float, low: float, high: float = np.inf) -> float:
    """Return a parameter, checked to be a number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidModelError(f"parameter {name} is {value!r}, not a number")
    if not low <= value <= high:
        raise InvalidModelError(f"parameter {name} is {value:g}, not between {low:g} and {high:g}")
    return float(value)


def count(name: str, value: int, least: int = 1, most: int = 1000) -> int:
    """Return a parameter, checked to be an integer from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidModelError(f"parameter {name} is {value!r}, not a whole number")
    return int(bounded(name, int(value), least, most))


def uniform(n: int) -> Array:
    """Return the uniform distribution over n states."""
    return np.full(n, 1.0 / n)
