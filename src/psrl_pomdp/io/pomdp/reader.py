"""Read Cassandra's `.pomdp` format.

`tokens` splits the file into statements. The statements of the preamble may stand anywhere. The rules T, O
and R are applied in their order, and later rules override earlier ones.

`values: cost` is minimized and `values: reward` maximized. There is no observation before the first action. A
reward that depends on the next state or observation is replaced by its expectation under the dynamics of the
file. The discount becomes an attribute of the model and a remark, because by default this package
optimizes the average over time.

For any bytes, the result is a model or a `ParseError` with a line. Sizes are checked before arrays are
allocated, and the entries that the rules write are counted, so that a small file cannot take much memory or
time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._utils.arrays import Array, Names, distributions
from ...errors import InvalidModelError, ParseError, did_you_mean
from ...models import POMDP, Setting, Units
from ..rows import RowRule, unused_discount
from .tokens import NUMBER, RULES, SHORTHANDS, MalformedError, Source, Statement, statements

Index = int | slice
TokenNumbers = npt.NDArray[np.int64]

_EVERY = slice(None)
_LONGEST_NAME = 200
_REWRITES = 6  # times that the rules may overwrite an array of the largest allowed size
_RULE = 64  # the cost of applying a rule, in entries, beside the entries that it writes


def read_pomdp(data: bytes, path: str = "", *, max_entries: int, rows: RowRule | None = None) -> POMDP:
    """Return the model in these bytes; arrays of more than `max_entries` numbers raise `ParseError`."""
    source = None
    try:
        source = Source(data)
        return _Reader(source, max_entries, rows or RowRule()).model(PurePath(path).stem)
    except MalformedError as error:
        line = source.line(error.token) if source else 1
        raise ParseError(error.reason, path=path, line=line) from None


@dataclass(frozen=True)
class Domain:
    """A declared set of states, actions or observations: its size, and names if the file has them."""

    kind: str  # 'state', 'action' or 'observation'
    count: int
    names: tuple[str, ...] | None
    positions: dict[str, int]

    def index(self, name: str, token: int) -> Index:
        """Return the index of a name or of a number that counts from 0; for `*`, a slice of all.

        `token` is the number of the token, for error messages.
        """
        if name == "*":
            return _EVERY
        position = self.positions.get(name)
        if position is None and name.isascii() and name.isdigit() and len(name) < 10:
            position = int(name)
        if position is None:
            shown = name[:_LONGEST_NAME]
            raise MalformedError(f"unknown {self.kind} {shown!r}{did_you_mean(name, self.positions)}", token)
        if position >= self.count:
            raise MalformedError(f"{self.kind} {name} of {self.count} (they count from 0)", token)
        return position


class _Reader:
    """Collects the statements of one file and makes a model of them."""

    def __init__(self, source: Source, max_entries: int, rows: RowRule) -> None:
        self.max_entries = max_entries
        self.rows = rows
        self.written = 0
        self.extensions = source.extensions
        self.end = len(source.tokens)
        self.preamble: dict[str, Statement] = {}
        self.rules: dict[str, list[Statement]] = {keyword: [] for keyword in RULES}
        for statement in statements(source):
            if statement.keyword in RULES:
                self.rules[statement.keyword].append(statement)
            else:
                self._declare(statement)
        self.states = self._domain("states")
        self.actions = self._domain("actions")
        self.observations = self._domain("observations")
        self.names = Names(self.states.names, self.actions.names, self.observations.names)

    def model(self, name: str) -> POMDP:
        discount = self._discount()
        remarks = [] if discount is None else [unused_discount(discount)]
        kind = self._kind(remarks)
        initial = self._start()
        transition = self._probabilities("T", self.states, initial)
        observation = self._probabilities("O", self.observations, initial)
        remarks += self.rows.remarks
        values = self._values(transition, observation, remarks)
        first = self._first_sensor(observation)
        try:
            setting = self._setting(kind, observation, values, initial, first)
        except InvalidModelError as error:  # for example, the range of the values is too wide
            raise MalformedError(str(error), self.rules["R"][0].head if self.rules["R"] else 0) from None
        return POMDP(setting, transition, name=name, remarks=remarks, discount=discount)

    def _setting(
        self, kind: str, sensor: Array, values: Array, initial: Array, first: Array | None
    ) -> Setting:
        label = self.extensions.get("units", "")
        named: dict[str, Any] = {
            "states": self.names.states,
            "actions": self.names.actions,
            "observations": self.names.observations,
        }
        if "scale" in self.extensions:
            ends = self.extensions["scale"].split()
            if len(ends) != 2 or not all(map(NUMBER.fullmatch, ends)):
                raise InvalidModelError(f"scale: {self.extensions['scale']!r} is not two numbers")
            units = Units(float(ends[0]), float(ends[1]), "cost" if kind == "cost" else "reward", label)
            return Setting(sensor, units.to_scaled(values), initial, first, units=units, **named)
        make = Setting.from_rewards if kind == "reward" else Setting
        return make(sensor, values, initial, first, units=label, **named)

    # -- the preamble ---------------------------------------------------------------------------

    def _declare(self, statement: Statement) -> None:
        key = statement.keyword.split()[0]
        if key in self.preamble:
            raise MalformedError(f"{key} is given twice", statement.head)
        self.preamble[key] = statement

    def _domain(self, key: str) -> Domain:
        statement = self.preamble.get(key)
        if statement is None:
            raise MalformedError(f"no '{key}:' in the file", self.end)
        kind, tokens = key[:-1], statement.values
        if len(tokens) == 1 and NUMBER.fullmatch(tokens[0]):
            if not tokens[0].isdigit() or len(tokens[0]) > 9 or int(tokens[0]) < 1:
                raise MalformedError(f"{key}: {tokens[0][:_LONGEST_NAME]} is not a count", statement.head)
            return Domain(kind, int(tokens[0]), None, {})
        positions: dict[str, int] = {}
        for position, token in enumerate(tokens):
            at = statement.first_value + position
            if NUMBER.fullmatch(token) or token in SHORTHANDS or token in "*:":
                raise MalformedError(f"{token[:_LONGEST_NAME]!r} cannot be the name of a {kind}", at)
            if len(token) > _LONGEST_NAME or "\ufffd" in token:
                raise MalformedError(f"a name of a {kind} is too long or not UTF-8", at)
            if token in positions:
                raise MalformedError(f"two {key} are called {token!r}", at)
            positions[token] = position
        return Domain(kind, len(tokens), tuple(tokens), positions)

    def _discount(self) -> float | None:
        statement = self.preamble.get("discount")
        if statement is None:
            return None
        value = float(self._block(statement, ()))
        if not 0.0 <= value <= 1.0:
            raise MalformedError(f"discount {value:g} is not between 0 and 1", statement.head)
        return value

    def _kind(self, remarks: list[str]) -> str:
        statement = self.preamble.get("values")
        if statement is None:
            remarks.append("the file does not say 'values:'; they were taken as rewards")
            return "reward"
        word = statement.values[0]
        if len(statement.values) > 1 or word not in ("reward", "cost"):
            found = " ".join(statement.values[:3])[:_LONGEST_NAME]
            hint = did_you_mean(word, ("reward", "cost"))
            raise MalformedError(f"values: {found!r} is neither 'reward' nor 'cost'{hint}", statement.head)
        return word

    def _start(self) -> Array:
        count = self.states.count
        statement = self.preamble.get("start")
        if statement is None or statement.values == ["uniform"]:
            return np.full(count, 1.0 / count)
        if statement.keyword != "start":
            return self._start_from_list(statement)
        word = statement.values[0]
        names_a_state = count > 1 or word == "0" or not NUMBER.fullmatch(word)
        if len(statement.values) == 1 and word != "*" and names_a_state:
            vector = np.zeros(count)
            vector[self.states.index(word, statement.first_value)] = 1.0
            return vector
        vector = np.asarray(self._block(statement, (count,)))
        self._check_rows("start", vector, np.array(statement.head))
        return distributions("start", vector, "s", self.names, self.rows.tolerance)

    def _start_from_list(self, statement: Statement) -> Array:
        listed = np.zeros(self.states.count, dtype=np.bool_)
        for offset, word in enumerate(statement.values):
            listed[self.states.index(word, statement.first_value + offset)] = True
        chosen = listed if statement.keyword == "start include" else ~listed
        if not chosen.any():
            raise MalformedError(f"{statement.keyword}: leaves no state to start in", statement.head)
        return np.asarray(chosen / chosen.sum())

    def _first_sensor(self, observation: Array) -> Array | None:
        found = self.extensions.get("first-reading")
        if found is None:
            return None
        at = self.rules["O"][0].head
        if found != "sensor":
            raise MalformedError(f"first-reading: {found[:_LONGEST_NAME]!r} is not 'sensor'", at)
        if (observation != observation[0]).any():
            raise MalformedError("first-reading: sensor, and the sensor changes with the action", at)
        return np.asarray(observation[0])

    # -- T and O --------------------------------------------------------------------------------

    def _probabilities(self, keyword: str, columns: Domain, initial: Array) -> Array:
        """Return T as `[A, S, S']` or O as `[A, S', O]`; rows that do not sum to one raise an error."""
        sizes = (self.actions.count, self.states.count, columns.count)
        self._check_size(keyword, sizes)
        table = np.zeros(sizes)
        origin = np.full(sizes[:2], -1)  # the number of the token that wrote each row last
        domains = (self.actions, self.states, columns)
        for rule in self.rules[keyword]:
            index = self._indices(rule, domains, fewest=1)
            self._count_writes(rule, index, sizes)
            table[index] = self._table(rule, sizes[len(index) :], initial)
            by_row = len(index) == 1 and len(rule.values) > 1
            rows = np.arange(sizes[1]) * sizes[2] if by_row else 0
            origin[index[:2]] = rule.first_value + rows
        self._check_rows(keyword, table, origin)
        return distributions(keyword, table, "asx", self.names, self.rows.tolerance)

    def _table(self, rule: Statement, shape: tuple[int, ...], initial: Array) -> Array | float:
        """Return the values of a rule: numbers of this shape, or what a keyword such as `uniform` means."""
        word = rule.values[0] if len(rule.values) == 1 else ""
        if shape and word == "uniform":
            return 1.0 / shape[-1]
        if len(shape) == 2 and word == "identity":
            if shape[0] != shape[1]:
                raise MalformedError(f"identity does not fit {_product(shape)}", rule.first_value)
            return np.eye(shape[0])
        if shape and word == "reset":
            if rule.keyword != "T":
                raise MalformedError(f"{rule.keyword}: reset is for T", rule.first_value)
            return initial
        return self._block(rule, shape)

    def _check_rows(self, keyword: str, table: Array, origin: TokenNumbers) -> None:
        """Raise an error for rows that are not distributions, and note the corrections of the others."""
        off = np.abs(table.sum(axis=-1) - 1.0)
        negative = np.asarray((table < 0).any(axis=-1))
        wrong = (off > self.rows.tolerance) | negative
        if not wrong.any():
            self.rows.note(keyword, float(off.max()))
            return
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        row = keyword
        if where:
            row = f"{keyword}: {self.names.action(where[0])} : {self.names.state(where[1])}"
        at = int(origin[where])
        if negative[where]:
            raise MalformedError(f"{row} has the negative probability {table[where].min():g}", at)
        if at < 0:
            raise MalformedError(f"{row} is never given; every row must sum to one", self.end)
        total = round(float(table[where].sum()), 9)
        raise MalformedError(f"{row} sums to {total:g}{self.rows.hint(float(off.max()))}", at)

    # -- R --------------------------------------------------------------------------------------

    def _values(self, transition: Array, observation: Array, remarks: list[str]) -> Array:
        """Return E[R(a, s, s', o)] over the next state and observation, `[A, S]`."""
        rewards = self._rewards()
        if rewards.shape[2:] == (1, 1):
            return np.asarray(rewards[:, :, 0, 0])
        remarks.append(
            "its rewards depend on the next state or observation: their expectation under the file's own "
            "dynamics was formed"
        )
        if rewards.shape[3] == 1:
            after = rewards[:, :, :, 0]
        elif rewards.shape[2] == 1:
            after = np.einsum("ato,aso->ast", observation, rewards[:, :, 0])
        else:
            after = np.einsum("ato,asto->ast", observation, rewards)
        return np.asarray((transition * after).sum(axis=2))

    def _rewards(self) -> Array:
        """Return R as `[A, S, S' or 1, O or 1]`; an axis on which no rule depends has size 1."""
        domains = (self.actions, self.states, self.states, self.observations)
        indices = [self._indices(rule, domains, fewest=2) for rule in self.rules["R"]]
        sizes = [self.actions.count, self.states.count, 1, 1]
        for axis, domain in ((2, self.states), (3, self.observations)):
            if any(len(index) <= axis or index[axis] != _EVERY for index in indices):
                sizes[axis] = domain.count
        shape = tuple(sizes)
        self._check_size("R", shape)
        table = np.zeros(shape)
        for rule, index in zip(self.rules["R"], indices, strict=True):
            self._count_writes(rule, index, shape)
            table[index] = self._block(rule, shape[len(index) :])
        return table

    # -- parts of all rules ---------------------------------------------------------------------

    def _indices(self, rule: Statement, domains: Sequence[Domain], fewest: int) -> tuple[Index, ...]:
        if not fewest <= len(rule.fields) <= len(domains):
            found = f"{rule.keyword}: {len(rule.fields)} fields"
            raise MalformedError(f"{found}; expected {fewest} to {len(domains)}", rule.head)
        return tuple(
            domain.index(field, rule.first_field + 2 * i)
            for i, (field, domain) in enumerate(zip(rule.fields, domains, strict=False))
        )

    def _block(self, rule: Statement, shape: tuple[int, ...]) -> Array | float:
        """Return the numbers of a rule in this shape; another number of them raises an error."""
        tokens = rule.values
        count = math.prod(shape)
        if not all(map(NUMBER.fullmatch, tokens)):
            bad = next(i for i, token in enumerate(tokens) if not NUMBER.fullmatch(token))
            shown = tokens[bad][:_LONGEST_NAME]
            raise MalformedError(
                f"{rule.keyword}: expected a number, found {shown!r}", rule.first_value + bad
            )
        if len(tokens) != count:
            described = f" ({_product(shape)})" if len(shape) > 1 else ""
            found = f"{rule.keyword}: {len(tokens)} numbers, expected {count}{described}"
            raise MalformedError(found, rule.head)
        values = [float(token) for token in tokens]
        if not all(map(math.isfinite, values)):
            raise MalformedError(f"{rule.keyword}: a number is too large", rule.head)
        # A rule for a single entry, the most common one in large files, needs no array.
        return np.array(values).reshape(shape) if shape else values[0]

    def _check_size(self, what: str, shape: tuple[int, ...]) -> None:
        if math.prod(shape) > self.max_entries:
            raise MalformedError(
                f"{what} is too large: {_product(shape)} numbers, and the limit is {self.max_entries}",
                self.preamble["states"].head,
            )

    def _count_writes(self, rule: Statement, index: tuple[Index, ...], shape: tuple[int, ...]) -> None:
        entries = math.prod(shape)
        for i, size in zip(index, shape, strict=False):
            if i is not _EVERY:
                entries //= size
        # Single entries are limited by the length of the file alone.
        self.written += entries + _RULE if entries > 1 else 0
        if self.written > _REWRITES * self.max_entries:
            raise MalformedError("the rules write the same entries over and over", rule.head)


def _product(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))
