"""Reading Cassandra's `.pomdp` format.

`pomdp_words` has split the file into statements. The preamble is read wherever it stands; then T, O and R
are applied in their order, later rules over earlier ones.

What is read is a model of the format's world: `values: cost` is minimised and `values: reward`
maximised; nothing is read before the first action; a reward that depends on the next state or reading
becomes its expectation under the file's own dynamics; the discount is a remark, because the average
over time is what this package optimises.

Whatever the bytes, the outcome is a model or a `ParseError` with a line. Sizes are checked before
anything is allocated, and the entries that rules write are counted, so that a small file cannot ask for
much memory or time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from ..arrays import FILE_TOLERANCE, PYTHON_TOLERANCE, Array, Names, distributions
from ..errors import InvalidModelError, ParseError, did_you_mean
from ..model import POMDP, Setting
from .pomdp_words import NUMBER, RULES, SHORTHANDS, Source, Statement, statements

Index = int | slice
Lines = npt.NDArray[np.int64]

_EVERY = slice(None)
_LONGEST_NAME = 200
_REWRITES = 25  # how often rules may write the largest allowed array anew


def read_pomdp(data: bytes, path: str = "", *, max_entries: int) -> POMDP:
    """The model in these bytes; `path` is for messages, `max_entries` bounds every array."""
    try:
        return _Reader(Source(data), max_entries).model(PurePath(path).stem)
    except ParseError as error:
        raise ParseError(error.reason, path=path, line=error.line) from None
    except InvalidModelError as error:  # what only the model's own door can see: a cost range too wide
        raise ParseError(str(error), path=path) from None


@dataclass(frozen=True)
class Domain:
    """A declared set: how many members, and their names where they have any."""

    kind: str  # 'state', 'action' or 'observation'
    count: int
    names: tuple[str, ...] | None
    positions: dict[str, int]

    def index(self, word: str, line: int) -> Index:
        """A name, a number that counts from 0, or `*` for all."""
        if word == "*":
            return _EVERY
        position = self.positions.get(word)
        if position is None and word.isascii() and word.isdigit() and len(word) < 10:
            position = int(word)
        if position is None:
            raise ParseError(f"unknown {self.kind} {word!r}{did_you_mean(word, self.positions)}", line=line)
        if position >= self.count:
            raise ParseError(
                f"{self.kind} {word} of {self.count} (they count from 0)",
                line=line,
            )
        return position


class _Reader:
    """One file on its way to a model."""

    def __init__(self, source: Source, max_entries: int) -> None:
        self.source = source
        self.max_entries = max_entries
        self.written = 0
        self.preamble: dict[str, Statement] = {}
        self.rules: list[Statement] = []
        for statement in statements(source):
            if statement.keyword in RULES:
                self.rules.append(statement)
            else:
                self._declare(statement)
        self.states = self._domain("states")
        self.actions = self._domain("actions")
        self.observations = self._domain("observations")
        self.names = Names(self.states.names, self.actions.names, self.observations.names)

    def model(self, name: str) -> POMDP:
        remarks = self._discount()
        kind = self._kind(remarks)
        initial = self._start()
        transition = self._probabilities("T", self.states, initial, remarks)
        observation = self._probabilities("O", self.observations, initial, remarks)
        make = Setting.from_rewards if kind == "reward" else Setting
        setting = make(
            observation,
            self._values(transition, observation, remarks),
            initial,
            self._first_sensor(observation),
            units=self.source.extensions.get("units", ""),
            states=self.names.states,
            actions=self.names.actions,
            observations=self.names.observations,
        )
        return POMDP(setting, transition, name=name, remarks=remarks)

    # -- the preamble ---------------------------------------------------------------------------

    def _declare(self, statement: Statement) -> None:
        key = statement.keyword.split()[0]
        if key in self.preamble:
            earlier = self.preamble[key].line
            raise ParseError(f"{key} is given twice, first on line {earlier}", line=statement.line)
        self.preamble[key] = statement

    def _domain(self, key: str) -> Domain:
        statement = self.preamble.get(key)
        if statement is None:
            raise ParseError(f"no '{key}:' in the file", line=self._last_line)
        kind, words = key[:-1], statement.values
        if len(words) == 1 and NUMBER.fullmatch(words[0]):
            if not words[0].isdigit() or len(words[0]) > 9 or int(words[0]) < 1:
                raise ParseError(f"{key}: {words[0]} is not a count", line=statement.line)
            return Domain(kind, int(words[0]), None, {})
        positions: dict[str, int] = {}
        for position, word in enumerate(words):
            line = self.source.line(statement.start + position)
            if NUMBER.fullmatch(word) or word in SHORTHANDS or word in "*:":
                raise ParseError(f"{word!r} cannot be the name of a {kind}", line=line)
            if len(word) > _LONGEST_NAME or "\ufffd" in word:
                raise ParseError(f"a name of a {kind} is too long or not UTF-8", line=line)
            if word in positions:
                raise ParseError(f"two {key} are called {word!r}", line=line)
            positions[word] = position
        return Domain(kind, len(words), tuple(words), positions)

    def _discount(self) -> list[str]:
        statement = self.preamble.get("discount")
        if statement is None:
            return []
        value = float(self._block(statement, ()))
        if not 0.0 <= value <= 1.0:
            raise ParseError(f"discount {value:g} is not between 0 and 1", line=statement.line)
        return [f"discount {value:g} was read and is not used: the average over time is optimised"]

    def _kind(self, remarks: list[str]) -> str:
        statement = self.preamble.get("values")
        if statement is None:
            remarks.append("the file does not say 'values:'; they were taken as rewards")
            return "reward"
        word = statement.values[0]
        if len(statement.values) > 1 or word not in ("reward", "cost"):
            said = " ".join(statement.values[:3])[:_LONGEST_NAME]
            raise ParseError(
                f"values: {said!r} is neither 'reward' nor 'cost'{did_you_mean(word, ('reward', 'cost'))}",
                line=statement.line,
            )
        return word

    def _start(self) -> Array:
        count = self.states.count
        statement = self.preamble.get("start")
        if statement is None or statement.values == ["uniform"]:
            return np.full(count, 1.0 / count)
        if statement.keyword != "start":
            return self._start_from_list(statement)
        word = statement.values[0]
        vector = np.zeros(count)
        names_a_state = count > 1 or word == "0" or not NUMBER.fullmatch(word)
        if len(statement.values) == 1 and word != "*" and names_a_state:
            vector[self.states.index(word, statement.line)] = 1.0
            return vector
        vector = np.asarray(self._block(statement, (count,)))
        self._check_rows("start", vector, np.array(statement.line))
        return distributions("start", vector, "s", self.names, FILE_TOLERANCE)

    def _start_from_list(self, statement: Statement) -> Array:
        listed = np.zeros(self.states.count, dtype=np.bool_)
        for offset, word in enumerate(statement.values):
            listed[self.states.index(word, self.source.line(statement.start + offset))] = True
        chosen = listed if statement.keyword == "start include" else ~listed
        if not chosen.any():
            raise ParseError(f"{statement.keyword}: leaves no state to start in", line=statement.line)
        return np.asarray(chosen / chosen.sum())

    def _first_sensor(self, observation: Array) -> Array | None:
        said = self.source.extensions.get("first-reading")
        if said is None:
            return None
        if said != "sensor" or (observation != observation[0]).any():
            raise ParseError(
                f"first-reading: {said[:_LONGEST_NAME]!r}; only 'sensor' can be, one for all actions"
            )
        return np.asarray(observation[0])

    # -- T and O --------------------------------------------------------------------------------

    def _probabilities(self, keyword: str, columns: Domain, initial: Array, remarks: list[str]) -> Array:
        """T as `[A, S, S']` or O as `[A, S', O]`; rows that do not sum to one are refused here."""
        sizes = (self.actions.count, self.states.count, columns.count)
        self._room(keyword, sizes)
        table = np.zeros(sizes)
        lines = np.zeros(sizes[:2], dtype=np.int64)  # of the last rule that touched each row
        domains = (self.actions, self.states, columns)
        for rule in (rule for rule in self.rules if rule.keyword == keyword):
            index = self._indices(rule, domains, fewest=1)
            self._count_writes(index, sizes, rule.line)
            table[index] = self._table(rule, sizes[len(index) :], initial)
            lines[index[:2]] = rule.line
        off = self._check_rows(keyword, table, lines)
        if off > PYTHON_TOLERANCE:
            remarks.append(f"rows of {keyword} were off one by up to {off:.1g} and were renormalised")
        return distributions(keyword, table, "asx", self.names, FILE_TOLERANCE)

    def _table(self, rule: Statement, shape: tuple[int, ...], initial: Array) -> Array | float:
        """The values of a rule: numbers of this shape, or a word that stands for them."""
        word = rule.values[0] if len(rule.values) == 1 else ""
        if shape and word == "uniform":
            return 1.0 / shape[-1]
        if len(shape) == 2 and word == "identity":
            if shape[0] != shape[1]:
                raise ParseError(f"identity does not fit {_product(shape)}", line=rule.line)
            return np.eye(shape[0])
        if shape and word == "reset":
            if rule.keyword != "T":
                raise ParseError(f"{rule.keyword}: reset is for T", line=rule.line)
            return initial
        return self._block(rule, shape)

    def _check_rows(self, keyword: str, table: Array, lines: Lines) -> float:
        """Refuses rows that are no distributions; how far the others are from summing to one."""
        off = np.abs(table.sum(axis=-1) - 1.0)
        negative = np.asarray((table < 0).any(axis=-1))
        wrong = (off > FILE_TOLERANCE) | negative
        if not wrong.any():
            return float(off.max())
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        labels = [label(i) for label, i in zip((self.names.action, self.names.state), where, strict=False)]
        row = " : ".join([f"{keyword}:", *labels]).replace(": : ", ": ") if labels else keyword
        line = int(lines[where])
        if negative[where]:
            reason = f"{row} has the negative probability {table[where].min():g}"
        elif line == 0:
            reason = f"{row} is never given; every row must sum to one"
        else:
            reason = f"{row} sums to {round(float(table[where].sum()), 9):g}"
        raise ParseError(reason, line=line or self._last_line)

    # -- R --------------------------------------------------------------------------------------

    def _values(self, transition: Array, observation: Array, remarks: list[str]) -> Array:
        """E[R(a, s, s', o)] over the next state and reading, `[A, S]`."""
        rewards = self._rewards()
        if rewards.shape[2:] == (1, 1):
            return np.asarray(rewards[:, :, 0, 0])
        remarks.append(
            "its rewards depend on the next state or reading: their expectation under the file's own "
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
        """R as `[A, S, S' or 1, O or 1]`: an axis that no rule tells apart is kept once."""
        domains = (self.actions, self.states, self.states, self.observations)
        rules = [rule for rule in self.rules if rule.keyword == "R"]
        indices = [self._indices(rule, domains, fewest=2) for rule in rules]
        sizes = [self.actions.count, self.states.count, 1, 1]
        for axis, domain in ((2, self.states), (3, self.observations)):
            if any(len(index) <= axis or index[axis] != _EVERY for index in indices):
                sizes[axis] = domain.count
        shape = tuple(sizes)
        self._room("R", shape)
        table = np.zeros(shape)
        for rule, index in zip(rules, indices, strict=True):
            self._count_writes(index, shape, rule.line)
            table[index] = self._block(rule, shape[len(index) :])
        return table

    # -- what all rules share -------------------------------------------------------------------

    def _indices(self, rule: Statement, domains: Sequence[Domain], fewest: int) -> tuple[Index, ...]:
        if not fewest <= len(rule.fields) <= len(domains):
            raise ParseError(
                f"{rule.keyword}: {len(rule.fields)} fields; wanted {fewest} to {len(domains)}",
                line=rule.line,
            )
        return tuple(
            domain.index(word, rule.line) for word, domain in zip(rule.fields, domains, strict=False)
        )

    def _block(self, rule: Statement, shape: tuple[int, ...]) -> Array | float:
        """Exactly as many numbers as this shape holds."""
        words = rule.values
        wanted = math.prod(shape)
        if not all(map(NUMBER.fullmatch, words)):
            bad = next(i for i, word in enumerate(words) if not NUMBER.fullmatch(word))
            raise ParseError(
                f"{rule.keyword}: expected a number, found {words[bad][:_LONGEST_NAME]!r}",
                line=self.source.line(rule.start + bad),
            )
        if len(words) != wanted:
            described = f" ({_product(shape)})" if len(shape) > 1 else ""
            raise ParseError(
                f"{rule.keyword}: {len(words)} numbers where {wanted}{described} belong", line=rule.line
            )
        values = [float(word) for word in words]
        if not all(map(math.isfinite, values)):
            raise ParseError(f"{rule.keyword}: a number is too large", line=rule.line)
        # A single entry, the commonest rule in large files, needs no array of its own.
        return np.array(values).reshape(shape) if shape else values[0]

    def _room(self, what: str, shape: tuple[int, ...]) -> None:
        if math.prod(shape) > self.max_entries:
            raise ParseError(
                f"{what} is too large: {_product(shape)} numbers, and the limit is {self.max_entries}",
                line=self._last_line,
            )

    def _count_writes(self, index: tuple[Index, ...], shape: tuple[int, ...], line: int) -> None:
        entries = math.prod(shape)
        for i, size in zip(index, shape, strict=False):
            if i is not _EVERY:
                entries //= size
        self.written += entries
        if self.written > _REWRITES * self.max_entries:
            raise ParseError("the rules write the same entries over and over", line=line)

    @property
    def _last_line(self) -> int:
        return self.source.line(len(self.source.words))


def _product(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))
