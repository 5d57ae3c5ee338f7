"""Make the model of a document: its variables, their tables, and the products of the tables.

`_Section` says for which variables a section contains tables, and which parents they may have.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from ..._utils.arrays import Array
from ...errors import InvalidModelError, ParseError, did_you_mean
from ...models import POMDP, Setting
from ..rows import RowRule, unused_discount
from .document import Node, fail, finite_number, only, parse, quoted
from .tables import Function, Table, Work, filled
from .variables import Group, Kind, Variable, capped_product, counted, declared

_MOST_AXES = 30  # variables of one table: numpy 1 has arrays of up to 32 dimensions
_EXPECTED = (
    "the reward depends on the next state or observation: its expectation under the file's own dynamics"
    " was formed"
)


def read_pomdpx(data: bytes, path: str = "", *, max_entries: int, rows: RowRule | None = None) -> POMDP:
    """Return the model in the bytes of a .pomdpx file; `path` names the model if the file does not.

    Arrays of more than `max_entries` numbers are refused. Raises only `ParseError`.
    """
    try:
        # Overflow is detected in the result.
        with np.errstate(all="ignore"):
            return _Reader(parse(data), max_entries, rows or RowRule()).model(PurePath(path).stem)
    except ParseError as error:
        raise ParseError(error.reason, path=path, line=error.line) from None
    except MemoryError:
        raise ParseError("the model needs more memory than is available", path=path) from None


class _Section(NamedTuple):
    """One of the four sections with functions: the variables that have one, and their possible parents."""

    tag: str
    function: str
    kind: Kind
    parents: tuple[Kind, ...]


_INITIAL = _Section("InitialStateBelief", "CondProb", "previous state", ("previous state",))
_DYNAMICS = _Section(
    "StateTransitionFunction",
    "CondProb",
    "current state",
    ("action", "previous state", "current state"),
)
_SENSOR = _Section("ObsFunction", "CondProb", "observation", ("action", "current state"))
_REWARD = _Section(
    "RewardFunction", "Func", "reward", ("action", "previous state", "current state", "observation")
)


class _Reader:
    """The variables of a document, and the products of its tables as arrays."""

    def __init__(self, root: Node, max_entries: int, rows: RowRule) -> None:
        self.root = root
        self.rows = rows
        self.limit = max_entries
        self.work = Work(max_entries)
        self.variables: dict[str, Variable] = {}
        section = only(root, "Variable")
        self.declare(section)
        seen = [variable for variable in self.variables.values() if variable.is_observed]
        shown = [Variable(x.name, "observation", x.values, x.line) for x in seen]
        self.actions = Group(self.of_kind("action"))
        self.previous = Group(self.of_kind("previous state"))
        self.current = Group(self.of_kind("current state"))
        self.observations = Group((*self.of_kind("observation"), *shown))
        self.check_sizes(section)
        # the indicator [o shows x′] of each fully observed state variable
        self.sight = [Table(pair, np.eye(pair[0].size)) for pair in zip(seen, shown, strict=True)]

    def declare(self, section: Node) -> None:
        """Record every declared variable."""
        for node in section.children:
            for variable in declared(node):
                first = self.variables.setdefault(variable.name, variable)
                if first is not variable:
                    fail(node, f"{quoted(variable.name)} is declared on line {first.line} already")
        for tag in ("StateVar", "ActionVar", "RewardVar"):
            if not any(node.tag == tag for node in section.children):
                fail(section, f"<Variable> has no <{tag}>")

    def of_kind(self, kind: Kind) -> tuple[Variable, ...]:
        return tuple(variable for variable in self.variables.values() if variable.kind == kind)

    def check_sizes(self, node: Node) -> None:
        a, s, o = self.actions.size, self.current.size, self.observations.size
        self.check_entries("transition[a, s, s′]", (a, s, s), node)
        self.check_entries("observation[a, s, o]", (a, s, o), node)
        # A file of one line can define millions of names, which take memory too.
        letters = sum(group.name_bytes for group in (self.actions, self.current, self.observations))
        if letters > 8 * self.limit + 10**6:
            fail(node, f"{self.counts}: their names would take more memory than {self.limit} numbers")

    @property
    def counts(self) -> str:
        a, s, o = self.actions.size, self.current.size, self.observations.size
        return f"{counted(s)} states, {counted(a)} actions and {counted(o)} observations"

    def check_entries(self, array: str, sizes: tuple[int, ...], node: Node) -> None:
        entries = capped_product(sizes)
        if entries > self.limit:
            reason = f"{array} would have {counted(entries)} entries, the limit is {self.limit}"
            fail(node, f"{self.counts}: {reason}")

    def model(self, stem: str) -> POMDP:
        """Return the model: the products of the tables of each section."""
        initial = self.multiplied(self.tables(_INITIAL), self.previous)
        transition = self.multiplied(self.tables(_DYNAMICS), self.actions, self.previous, self.current)
        sensor = itertools.chain(self.tables(_SENSOR), self.sight)
        observation = self.multiplied(sensor, self.actions, self.current, self.observations)
        reward = np.zeros((self.actions.size, self.current.size))
        ahead = False
        for table in self.tables(_REWARD):
            reward += self.expected(table, transition, observation)
            ahead |= table.depends_on("current state", "observation")
        if not np.isfinite(reward).all():
            fail(self.root, "the rewards are too large to be added up")
        try:
            setting = Setting.from_rewards(
                observation,
                reward,
                initial,
                first_observation=None,
                states=self.names(self.current),
                actions=self.names(self.actions),
                observations=self.names(self.observations),
            )
            name = self.root.attributes.get("id", "").strip() or stem
            discount = self.discount()
            unused = [] if discount is None else [unused_discount(discount)]
            remarks = [*unused, *([_EXPECTED] if ahead else []), *self.rows.remarks]
            return POMDP(setting, transition, name=name, remarks=remarks, discount=discount)
        except InvalidModelError as error:
            fail(self.root, str(error))

    def discount(self) -> float | None:
        if not any(child.tag == "Discount" for child in self.root.children):
            return None
        node = only(self.root, "Discount")
        value = finite_number(node.text.strip(), node)
        if not 0.0 <= value <= 1.0:
            fail(node, f"the discount is {value:g}, not in [0, 1]")
        return value

    def names(self, group: Group) -> tuple[str, ...]:
        names = group.names()
        if len(set(names)) < len(names):
            fail(self.root, "commas within the names of values make two names of their product equal")
        return names

    def tables(self, section: _Section) -> Iterator[Table]:
        """Yield the tables of a section one at a time; together they may be larger than the model."""
        nodes = [node for node in self.root.children if node.tag == section.tag]
        functions = [self.function(node, section) for part in nodes for node in part.children]
        written: dict[Variable, Function] = {}
        for function in functions:
            for variable in function.own:
                first = written.setdefault(variable, function)
                if first is not function:
                    again = f"a second <{section.function}> for {quoted(variable.name)}"
                    fail(function.parameter, f"{again}, after line {first.parameter.line}")
        for variable in self.of_kind(section.kind):
            if variable not in written:
                missing = f"<{section.function}> for {quoted(variable.name)}"
                fail(nodes[-1] if nodes else self.root, f"<{section.tag}> has no {missing}")
        _refuse_cycles({f: [written[p] for p in f.parents if p in written] for f in functions})
        for function in functions:
            yield filled(function, self.limit, self.work, self.rows)

    def function(self, node: Node, section: _Section) -> Function:
        own = self.listed(only(node, "Var"), (section.kind,))
        parent = only(node, "Parent")
        alone = parent.text.split() == ["null"]
        parents = () if alone else self.listed(parent, section.parents)
        if len(own) + len(parents) > _MOST_AXES:
            fail(parent, f"more than {_MOST_AXES} variables in one <{node.tag}>")
        for variable in own:
            if variable in parents:
                fail(parent, f"{quoted(variable.name)} is its own parent")
        return Function(own, parents, only(node, "Parameter"), section is _REWARD)

    def listed(self, node: Node, kinds: Sequence[Kind]) -> tuple[Variable, ...]:
        """Return the variables that <Var> or <Parent> lists."""
        names = node.text.split()
        if not names or len(set(names)) < len(names):
            fail(node, f"<{node.tag}> {'names a variable twice' if names else 'is empty'}")
        for name in names:
            if name not in self.variables:
                known = [other for other, variable in self.variables.items() if variable.kind in kinds]
                fail(node, f"unknown variable {quoted(name)}{did_you_mean(name, known)}")
            kind = self.variables[name].kind
            if kind not in kinds:
                fail(node, f"{quoted(name)} ({kind}) in a <{node.tag}> that takes: {', '.join(kinds)}")
        return tuple(self.variables[name] for name in names)

    def spread(self, table: Table, *groups: Group) -> Array:
        """Return `table.spread(*groups)` and count its work."""
        self.work.spend(len(table.axes) * sum(group.size for group in groups), self.root)
        return table.spread(*groups)

    def multiplied(self, tables: Iterable[Table], *groups: Group) -> Array:
        """Return the product of the tables, with an axis for each group."""
        product = np.ones([group.size for group in groups])
        for table in tables:
            self.work.spend(product.size, self.root)
            product *= self.spread(table, *groups)
        return product

    def expected(self, table: Table, transition: Array, observation: Array) -> Array:
        """Return E[r | a, s] = Σ_s′ transition(s′|s,a) Σ_o observation(o|s′,a) r(a, s, s′, o)."""
        a, s, o = self.actions.size, self.current.size, self.observations.size
        read = table.depends_on("observation")
        if read:
            cells = (a, s if table.depends_on("previous state") else 1, s, o)
            self.check_entries("reward[a, s, s′, o]", cells, self.root)
            self.work.spend(capped_product(cells), self.root)
        reward = self.spread(table, self.actions, self.previous, self.current, self.observations)
        reward = (reward * observation[:, None]).sum(axis=-1) if read else reward[..., 0]
        if not table.depends_on("current state", "observation"):
            return np.asarray(reward[..., 0])
        self.work.spend(transition.size, self.root)
        return np.asarray((reward * transition).sum(axis=-1))


def _refuse_cycles(ancestry: dict[Function, list[Function]]) -> None:
    try:
        TopologicalSorter(ancestry).prepare()
    except CycleError as error:
        function: Function = error.args[1][0]
        fail(function.parameter, f"the parents of {function.title} lead back to itself")
