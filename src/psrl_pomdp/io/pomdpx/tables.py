"""The table of a function, filled from its <Parameter> and expanded over products of variables.

A <Parameter> of either type is a sequence of writes `table[region] = block`: an entry of a `TBL` is one
write, a leaf of a `DD` is one write for each path to it. The rows of a distribution must sum to one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from ..._utils.arrays import Array
from ...errors import ParseError, did_you_mean
from ..rows import LARGEST_CORRECTION, RowRule
from .document import DEEPEST, Node, fail, finite_number, only, quoted
from .variables import Group, Kind, Variable, capped_product, counted

_ROUNDING = 1e-13  # rows whose sums are this close to one are not changed

# Work is counted in cells written. A step of Python (an entry, a branch) counts as a thousand cells. The
# limit corresponds to at most about a minute.
_WORK = 2 * 10**9
_WORK_PER_ENTRY = 64
_STEP = 1000


class Work:
    """The work that filling the tables of one file may still take."""

    def __init__(self, max_entries: int) -> None:
        self.left = _WORK + _WORK_PER_ENTRY * max_entries

    def spend(self, amount: int, node: Node) -> None:
        """Subtract `amount` from the remaining work; raise an error at `node` if none is left."""
        self.left -= amount
        if self.left < 0:
            fail(node, "filling the tables of this file takes too much work")


@dataclass(frozen=True, eq=False)
class Function:
    """A CondProb or a Func: a function of the variables `own`, given `parents`."""

    own: tuple[Variable, ...]
    parents: tuple[Variable, ...]
    parameter: Node
    is_reward: bool

    @cached_property
    def axes(self) -> tuple[Variable, ...]:
        """The variables that the array of the function has as axes."""
        return self.parents if self.is_reward else self.parents + self.own

    @cached_property
    def axis(self) -> dict[str, int]:
        """The number of each axis, by the name of its variable."""
        return {variable.name: i for i, variable in enumerate(self.axes)}

    def value(self, word: str, node: Node) -> float:
        """Return the number that a word stands for; raise an error if it is not a probability."""
        number = finite_number(word, node)
        if not self.is_reward and not 0.0 <= number <= 1.0 + LARGEST_CORRECTION:
            fail(node, f"<{node.tag}> for {self.title}: {number:g} is not a probability")
        return number

    @property
    def title(self) -> str:
        """The names of the variables, for error messages."""
        return ", ".join(quoted(variable.name) for variable in self.own[:4])

    def axis_of(self, node: Node) -> int:
        """Return the axis of the variable that an element of a diagram names."""
        name = node.attributes.get("var", "").strip()
        if name not in self.axis:
            suggestion = did_you_mean(name, self.axis)
            fail(node, f"{quoted(name)} is no variable of this <Parameter>{suggestion}")
        return self.axis[name]


@dataclass(frozen=True, eq=False)
class Table:
    """An array with an axis for each of these variables."""

    axes: tuple[Variable, ...]
    values: Array

    def depends_on(self, *kinds: Kind) -> bool:
        """Return whether the function depends on a variable of one of these kinds."""
        return any(variable.kind in kinds for variable in self.axes)

    def spread(self, *groups: Group) -> Array:
        """Return the values with an axis for each group, of size 1 if they do not depend on the group."""
        offsets = np.ix_(*(self._offsets(group) for group in groups))
        return np.asarray(self.values.ravel()[sum(offsets)])

    def _offsets(self, group: Group) -> npt.NDArray[np.intp]:
        """Return what each member of a group adds to an index of the flat array; [0] if nothing."""
        offsets = np.zeros(1, dtype=np.intp)
        for variable, stride in Group(self.axes).steps.items():
            if variable in group.steps:
                value = np.arange(group.size) // group.steps[variable] % variable.size
                offsets = offsets + stride * value
        return offsets


_Region = tuple[int | slice, ...]  # one value of a variable, or all of them
_ALL = slice(None)


class _Write(NamedTuple):
    """The assignment `table[region] = block` that the element on `line` demands."""

    region: _Region
    block: Array
    line: int


def _writes(function: Function, work: Work) -> Iterator[_Write]:
    """Yield the writes that fill the table of a function; later ones override earlier ones."""
    parameter = function.parameter
    kind = parameter.attributes.get("type", "TBL").strip()
    if kind not in ("TBL", "DD"):
        fail(parameter, f"Parameter type {quoted(kind)} is not 'TBL' or 'DD'")
    diagram = kind == "DD"
    for child in parameter.children:
        if (child.tag != "Entry") != diagram:
            fail(child, f"<{child.tag}> has no place in a Parameter of type {kind}")
    for write in _diagram(function, work) if diagram else _entries(function):
        free = (v.size for v, i in zip(function.axes, write.region, strict=True) if i == _ALL)
        work.spend(_STEP + math.prod(free), parameter)
        yield write


def _entries(function: Function) -> Iterator[_Write]:
    """Yield the writes of a TBL; for each variable, an Instance names a value, all (*) or each (-)."""
    for entry in function.parameter.children:
        instance = only(entry, "Instance")
        words = instance.text.split()
        if not function.axes and words in (["*"], ["-"]):
            words = []  # the one cell of a function without parents
        if len(words) != len(function.axes):
            expected = f"{len(function.axes)}, one for each of its variables"
            fail(instance, f"Instance for {function.title} has {len(words)} values, not {expected}")
        picked = list(zip(function.axes, words, strict=True))
        region = tuple(_ALL if word in ("*", "-") else v.index(word, instance) for v, word in picked)
        given = only(entry, "ProbTable", "ValueTable")
        expected = "ValueTable" if function.is_reward else "ProbTable"
        if given.tag != expected:
            fail(given, f"<{given.tag}> for {function.title}: expected a <{expected}>")
        yield _Write(region, _block(function, given, picked), instance.line)


def _block(function: Function, given: Node, picked: list[tuple[Variable, str]]) -> Array:
    """Return the numbers of an entry, or those that its keyword means, with an axis for each * and -."""
    shape = [v.size if word == "-" else 1 for v, word in picked if word in ("*", "-")]
    count = math.prod(shape)
    words = given.text.split(maxsplit=count)
    keyword = words[0].lower() if len(words) == 1 and not function.is_reward else ""
    if keyword == "uniform":
        own = picked[len(function.parents) :]
        cells = math.prod(v.size for v, word in own if word in ("*", "-"))
        return np.full([1] * len(shape), 1.0 / cells)
    if keyword == "identity":
        sizes = [v.size for v, word in picked if word == "-"]
        if len(sizes) != 2 or sizes[0] != sizes[1]:
            fail(given, "identity needs two '-' in its Instance, of equally many values")
        return np.eye(sizes[0]).reshape(shape)
    if len(words) != count:
        found = f"more than {count}" if len(words) > count else len(words)
        fail(given, f"<{given.tag}> for {function.title} has {found} numbers, not {count}")
    numbers = (function.value(word, given) for word in words)
    return np.fromiter(numbers, np.float64, count).reshape(shape)


def _diagram(function: Function, work: Work) -> Iterator[_Write]:
    """Yield the writes of a DD: a Node restricts a region to a value of its variable, a leaf fills it."""
    templates: dict[str, Node] = {}
    for child in function.parameter.children:
        name = child.attributes.get("id", "")
        if child.tag == "SubDAGTemplate" and templates.setdefault(name, child) is not child:
            fail(child, f"a second SubDAGTemplate is called {quoted(name)}")
    start = only(only(function.parameter, "DAG"))
    everything: _Region = (_ALL,) * len(function.axes)
    todo: list[tuple[Node, _Region, tuple[str, ...]]] = [(start, everything, ())]
    while todo:  # no recursion: nested templates may be deeper than Python's stack
        node, region, inside = todo.pop()
        work.spend(_STEP * (1 + len(node.children)), node)
        if node.tag == "Node":
            todo += [(child, part, inside) for child, part in _branches(function, node, region)]
        elif node.attributes.get("type", "") == "template":
            name = node.attributes.get("idref", "")
            if name not in templates:
                fail(node, f"unknown SubDAGTemplate {quoted(name)}{did_you_mean(name, templates)}")
            if name in inside or len(inside) >= DEEPEST:
                how = "refers to itself" if name in inside else "is nested too deep"
                fail(node, f"the SubDAGTemplate {quoted(name)} {how}")
            todo.append((only(templates[name]), region, (*inside, name)))
        else:
            yield _Write(region, _leaf(function, node, region), node.line)


def _branches(function: Function, node: Node, region: _Region) -> Iterator[tuple[Node, _Region]]:
    """Yield the child of each edge with its part of the region; edges outside of the region are skipped."""
    axis = function.axis_of(node)
    seen: set[int] = set()
    for edge in node.children:
        value = function.axes[axis].index(edge.attributes["val"].strip(), edge)
        if value in seen:
            fail(edge, f"a second Edge for the value {quoted(edge.attributes['val'])}")
        seen.add(value)
        child = only(edge)
        if region[axis] in (_ALL, value):
            yield child, (*region[:axis], value, *region[axis + 1 :])


def _leaf(function: Function, node: Node, region: _Region) -> Array:
    """Return the values that a Terminal or a SubDAG writes to the region."""
    if node.tag == "Terminal":
        return np.asarray(function.value(node.text.strip(), node))
    kind = node.attributes["type"]
    if function.is_reward or kind not in ("uniform", "deterministic", "persistent"):
        fail(node, f"SubDAG type {quoted(kind)} is unknown, or has no meaning for {function.title}")
    axis = function.axis_of(node)
    variable = function.axes[axis]
    if kind == "uniform":
        return np.asarray(1.0 / variable.size)
    if kind == "deterministic":
        value = variable.index(node.attributes.get("val", "").strip(), node)
        return np.asarray(_coordinate(function, region, axis) == value, np.float64)
    if variable.before is None or variable.before.name not in function.axis:
        why = "its previous value is not among the parents"
        fail(node, f"{quoted(variable.name)} cannot persist: {why}")
    before = _coordinate(function, region, function.axis[variable.before.name])
    return np.asarray(_coordinate(function, region, axis) == before, np.float64)


def _coordinate(function: Function, region: _Region, axis: int) -> npt.NDArray[np.intp]:
    """Return the value of one variable at each cell of a region, in a shape that broadcasts over it."""
    value = region[axis]
    if not isinstance(value, slice):
        return np.asarray(value)
    later = sum(place == _ALL for place in region[axis + 1 :])
    return np.arange(function.axes[axis].size).reshape(-1, *(1,) * later)


def filled(function: Function, limit: int, work: Work, rule: RowRule) -> Table:
    """Return the table of a function; the rows of a CondProb sum to one."""
    parameter = function.parameter
    sizes = [variable.size for variable in function.axes]
    if capped_product(sizes) > limit:
        entries = counted(capped_product(sizes))
        fail(parameter, f"the table of {function.title} would have {entries} entries, the limit is {limit}")
    values = np.zeros(sizes)
    work.spend(values.size, parameter)
    for write in _writes(function, work):
        values[write.region] = write.block
    if function.is_reward:
        return Table(function.axes, values)
    rows = values.reshape(*sizes[: len(function.parents)], -1)
    sums = rows.sum(axis=-1, keepdims=True)
    off = np.abs(sums - 1.0)
    if (off > rule.tolerance).any():
        row = tuple(int(i) for i in np.argwhere(off[..., 0] > rule.tolerance)[0])
        _refuse_row(function, row, float(sums[row][0]), work, rule.hint(float(off.max())))
    rule.note(function.title, float(off.max()))
    rows = np.where(off > _ROUNDING, rows / sums, rows)
    return Table(function.axes, rows.reshape(sizes))


def _refuse_row(function: Function, row: tuple[int, ...], total: float, work: Work, hint: str) -> NoReturn:
    """Raise an error with the row, and with the line of the last element that wrote into it."""
    line = function.parameter.line
    for write in _writes(function, work):
        pairs = zip(write.region, row, strict=False)  # only the axes of the parents
        if all(place in (_ALL, value) for place, value in pairs):
            line = write.line
    given = ", ".join(
        f"{quoted(parent.name)} = {quoted(parent.values.names[value])}"
        for parent, value in zip(function.parents, row, strict=True)
    )
    condition = f" given {given}" if given else ""
    raise ParseError(f"the probabilities of {function.title}{condition} sum to {total:.10g}{hint}", line=line)
