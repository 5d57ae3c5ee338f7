"""The variables that a file declares, and their products: states, actions and observations of the model."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ...errors import did_you_mean
from .document import Node, fail, only, quoted

_HUGE = 10**15  # products are capped, so that no message contains a number of a thousand digits

Kind = Literal["action", "previous state", "current state", "observation", "reward"]


@dataclass(frozen=True, eq=False)
class _Values:
    """The values of a variable: listed, or numbered with names s0, s1, ... that are made on first use."""

    size: int
    prefix: str = ""
    listed: tuple[str, ...] | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        return self.listed or tuple(f"{self.prefix}{i}" for i in range(self.size))

    @cached_property
    def position(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}


@dataclass(frozen=True, eq=False)
class Variable:
    """A variable of the network, at one of its two time steps if it is a state."""

    name: str
    kind: Kind
    values: _Values
    line: int
    before: Variable | None = None  # for a current state: the same variable one step earlier
    is_observed: bool = False  # for a current state: whether it is fully observed

    @property
    def size(self) -> int:
        """The number of values."""
        return self.values.size

    def index(self, value: str, node: Node) -> int:
        """Return the position of a value that `node` names."""
        if value not in self.values.position:
            suggestion = did_you_mean(value, self.values.names)
            fail(node, f"unknown value {quoted(value)} of {quoted(self.name)}{suggestion}")
        return self.values.position[value]


_PREFIXES = {
    "StateVar": "s",
    "ObsVar": "o",
    "ActionVar": "a",
}  # names of the values of NumValues: s0, s1, ...


def _values(node: Node) -> _Values:
    """Return the values that a declaration lists or counts."""
    given = only(node, "ValueEnum", "NumValues")
    words = given.text.split()
    if given.tag == "NumValues":
        if len(words) != 1 or not re.fullmatch("0*[1-9][0-9]{0,8}", words[0]):
            fail(given, f"NumValues is {quoted(given.text.strip())}, not a number from 1 to 999999999")
        # int() accepts at most 4300 digits, including leading zeros
        return _Values(int(words[0].lstrip("0")), prefix=_PREFIXES[node.tag])
    if not words:
        fail(given, "ValueEnum is empty")
    seen: set[str] = set()
    for word in words:
        if word in seen or word in ("*", "-"):
            fail(given, f"the value {quoted(word)} is {'listed twice' if word in seen else 'no name'}")
        seen.add(word)
    return _Values(len(words), listed=tuple(words))


def declared(node: Node) -> Iterator[Variable]:
    """Yield the variables of one declaration."""

    def name(attribute: str) -> str:
        words = node.attributes[attribute].split()
        if len(words) != 1 or words[0] == "null":
            fail(node, f"{attribute} {quoted(node.attributes[attribute])} is not a name")
        return words[0]

    if node.tag == "StateVar":
        values = _values(node)
        seen = node.attributes.get("fullyObs", "false").strip()
        if seen not in ("true", "false", "1", "0"):
            fail(node, f"fullyObs is {quoted(seen)}, not 'true' or 'false'")
        before = Variable(name("vnamePrev"), "previous state", values, node.line)
        yield before
        is_observed = seen in ("true", "1")
        yield Variable(name("vnameCurr"), "current state", values, node.line, before, is_observed)
    elif node.tag == "RewardVar":
        yield Variable(name("vname"), "reward", _Values(1), node.line)
    else:
        kind: Kind = "action" if node.tag == "ActionVar" else "observation"
        yield Variable(name("vname"), kind, _values(node), node.line)


@dataclass(frozen=True, eq=False)
class Group:
    """The product of some variables; the first varies slowest.

    In member i of the group, a variable has the value (i // step) mod size, with its step in `steps`.
    """

    variables: tuple[Variable, ...]

    @cached_property
    def size(self) -> int:
        """The number of combinations of values."""
        return capped_product(variable.size for variable in self.variables)

    @cached_property
    def steps(self) -> dict[Variable, int]:
        """The step of each variable."""
        steps, step = {}, 1
        for variable in reversed(self.variables):
            steps[variable] = step
            step *= variable.size
        return steps

    @property
    def name_bytes(self) -> int:
        """An estimate of the memory for the names of all members, with 64 bytes per string."""
        letters = 0
        for variable in self.variables:
            listed = variable.values.listed
            own = 10 * variable.size if listed is None else sum(map(len, listed))
            letters += self.size // variable.size * (own + variable.size)
        return 64 * self.size + 4 * letters

    def names(self) -> tuple[str, ...]:
        """Return the names of all members: the values of their variables, joined by commas."""
        combinations = itertools.product(*(variable.values.names for variable in self.variables))
        return tuple(",".join(words) or "nothing" for words in combinations)


def capped_product(sizes: Iterable[int]) -> int:
    """Return the product of these numbers, or `_HUGE` if it is larger."""
    product = 1
    for size in sizes:
        product = min(product * size, _HUGE)
    return product


def counted(number: int) -> str:
    """Return a capped product as text."""
    return str(number) if number < _HUGE else "more than 10^15"
