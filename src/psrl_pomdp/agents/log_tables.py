"""Tables of logs: one row for each step of a unit, read from a CSV file or from columns in memory.

The row of a unit at a time has the reading that came, the action that was taken after it, and, where they are
known, the cost of this action and the true state. Rows may come in any order. Every row that cannot be used
is named, with its line and column, before anything is learned.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .._serialization.reading import read_bytes
from ..errors import InvalidModelError, ParseError, did_you_mean
from ..inference.encoding import is_lost
from ..models import Setting

_Rows = tuple[str, str, list[str], list[tuple[int, list[Any]]]]

ADDED = -1  # the number of the line of a step that is not in the table
MISSING_WORDS = frozenset({"", "na", "n/a", "nan", "null", "none", "lost", "missing"})
MOST_BAD_LINES = 20  # that an error lists
_MOST_NAMES = 12


@dataclass(frozen=True)
class Columns:
    """The names of the columns; cost and state are optional, vectors have several columns of readings."""

    unit: str = "unit"
    time: str = "time"
    reading: str | Sequence[str] = "reading"
    action: str = "action"
    cost: str | None = None
    state: str | None = None

    @property
    def readings(self) -> tuple[str, ...]:
        """The columns of readings."""
        return (self.reading,) if isinstance(self.reading, str) else tuple(self.reading)

    @property
    def all(self) -> tuple[str, ...]:
        """All columns that are used."""
        more = tuple(name for name in (self.cost, self.state) if name is not None)
        return (self.unit, self.time, *self.readings, self.action, *more)


@dataclass
class UnitLog:
    """The rows of one unit in the order of time."""

    name: str
    lines: list[int] = field(default_factory=list)  # of the file, or rows; see ADDED
    times: list[float] = field(default_factory=list)
    observations: list[Any] = field(default_factory=list)
    actions: list[int | None] = field(default_factory=list)
    costs: list[float | None] = field(default_factory=list)
    states: list[int | None] = field(default_factory=list)


@dataclass(frozen=True)
class LogTable:
    """All rows by unit, in the order in which the units begin."""

    name: str  # of the file
    word: str  # "line" or "row", for messages
    units: tuple[UnitLog, ...]
    has_dates: bool
    ignored: tuple[str, ...]  # columns that are not used

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return sum(len(unit.lines) for unit in self.units)

    def when(self, time: float) -> str:
        """Return a time as it is in the table, or nearly so."""
        if not self.has_dates:
            return f"{time:g}"
        text = datetime.fromtimestamp(time, UTC).replace(tzinfo=None).isoformat(" ")
        return text.removesuffix(" 00:00:00")


class BadLinesError(ParseError):
    """Raised for a table with rows that cannot be used; `lines` has a message for each of them."""

    def __init__(
        self, reason: str, *, path: str = "", line: int | None = None, lines: Sequence[str] = ()
    ) -> None:
        self.lines = tuple(lines)
        shown = self.lines[:MOST_BAD_LINES]
        more = len(self.lines) - len(shown)
        rest = f"; and {more} more" if more else ""
        super().__init__("; ".join([reason, *shown]) + rest if shown else reason, path=path, line=line)


def read_table(table: str | PathLike[str] | Any, setting: Setting, columns: Columns) -> LogTable:
    """Return the rows of a CSV file, or of a table in memory, by unit.

    Parameters
    ----------
    table
        The path of a CSV file (with commas, semicolons or tabs), a mapping from names to columns, a list of
        mappings, or a data frame of pandas.
    setting
        The setting, whose names and numbers of observations, actions and states are allowed.
    columns
        The names of the columns.

    Raises
    ------
    ParseError
        If the file cannot be read or lacks a column.
    BadLinesError
        If some rows cannot be used.
    """
    name, word, header, rows = _rows_of(table)
    for wanted in columns.all:
        if wanted not in header:
            listed = ", ".join(header[:_MOST_NAMES])
            raise ParseError(
                f"there is no column {wanted!r}{did_you_mean(wanted, header)}; there are {listed}", path=name
            )
    return _Reader(name, word, setting, columns, header).read(rows)


def _rows_of(table: Any) -> _Rows:
    """Return name, "line" or "row", the header, and the rows with their numbers."""
    if isinstance(table, str | PathLike):
        return _csv_rows(Path(table))
    if hasattr(table, "columns") and hasattr(table, "to_dict"):  # a data frame
        table = {str(name): list(table[name]) for name in table.columns}
    if isinstance(table, Mapping):
        header = [str(name) for name in table]
        columns = [list(column) for column in table.values()]
        if len({len(column) for column in columns}) > 1:
            raise InvalidModelError("the columns of the table have different lengths")
        return "table", "row", header, list(enumerate(list(row) for row in zip(*columns, strict=True)))
    if isinstance(table, Sequence) and all(isinstance(row, Mapping) for row in table):
        header = list(dict.fromkeys(str(name) for row in table for name in row))
        return "table", "row", header, list(enumerate([row.get(n) for n in header] for row in table))
    raise InvalidModelError(
        f"the table is a {type(table).__name__}: the path of a CSV file, a mapping from names to columns, a "
        "list of mappings or a data frame is wanted"
    )


def _csv_rows(path: Path) -> _Rows:
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ParseError(f"byte {error.start} is not UTF-8", path=path.name) from None
    if not text.strip():
        raise ParseError("the file is empty", path=path.name)
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in next(reader)]
        found = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise ParseError(str(error), path=path.name, line=reader.line_num) from None
    for name in header:
        if header.count(name) > 1:
            raise ParseError(f"the column {name!r} is there twice", path=path.name, line=1)
    return path.name, "line", header, found


class _Reader:
    """Reads rows and collects what is wrong with them."""

    def __init__(self, name: str, word: str, setting: Setting, columns: Columns, header: list[str]) -> None:
        self.name, self.word, self.setting, self.columns, self.header = name, word, setting, columns, header
        self.bad: list[str] = []
        self.dates: bool | None = None
        names, own = setting.names, setting
        given = (names.states, names.actions, names.observations)
        self._names = {name for listed in given for name in listed or ()}  # even if one of them is "none"
        self._action = _chooser("action", names.actions, own.n_actions)
        self._state = _chooser("state", names.states, own.n_states)
        self._observation = (
            _chooser("observation", names.observations, own.n_observations) if own.is_finite else _number
        )

    def read(self, rows: Sequence[tuple[int, Sequence[Any]]]) -> LogTable:
        """Return the table, or raise an error that names every bad row."""
        place = {name: self.header.index(name) for name in self.columns.all}
        units: dict[str, UnitLog] = {}
        for number, row in rows:
            if not len(row) or all(_is_missing(value) for value in row):
                continue  # an empty line
            if len(row) != len(self.header):
                self._complain(number, "", f"has {len(row)} fields, the header has {len(self.header)}")
                continue
            self._take(units, number, {name: row[i] for name, i in place.items()})
        for unit in units.values():
            self._order(unit)
        if self.bad:
            raise BadLinesError(
                f"{len(self.bad)} {self.word}s cannot be used", path=self.name, lines=self.bad
            )
        if not units:
            raise ParseError("there are no rows", path=self.name)
        ordered = sorted(units.values(), key=lambda unit: (unit.times[0], unit.lines[0]))
        unused = tuple(name for name in self.header if name not in self.columns.all)
        return LogTable(self.name, self.word, tuple(ordered), bool(self.dates), unused)

    def _complain(self, number: int, column: str, text: str) -> None:
        self.bad.append(f"{self.word} {number}{', column ' + column if column else ''}: {text}")

    def _value(self, number: int, column: str, value: Any, read: Callable[[Any], Any]) -> Any:
        """Return a value as a number; None if it is missing or wrong."""
        if isinstance(value, str):
            value = value.strip()
        if _is_missing(value) and value not in self._names:
            return None
        try:
            return read(value)
        except ValueError as error:
            self._complain(number, column, str(error))
            return None

    def _take(self, units: dict[str, UnitLog], number: int, row: dict[str, Any]) -> None:
        columns, complaints = self.columns, len(self.bad)
        for column in (columns.unit, columns.time):
            if _is_missing(row[column]):
                self._complain(number, column, "is missing")
        time = self._value(number, columns.time, row[columns.time], self._time)
        readings = [self._value(number, c, row[c], self._observation) for c in columns.readings]
        action = self._value(number, columns.action, row[columns.action], self._action)
        cost = state = None
        if columns.cost is not None:
            cost = self._value(number, columns.cost, row[columns.cost], _number)
        if columns.state is not None:
            state = self._value(number, columns.state, row[columns.state], self._state)
        if len(self.bad) > complaints:
            return
        name = row[columns.unit]
        name = name.strip() if isinstance(name, str) else str(name)
        unit = units.setdefault(name, UnitLog(name))
        unit.lines.append(number)
        unit.times.append(time)
        unit.observations.append(readings[0] if len(readings) == 1 else _vector(readings))
        unit.actions.append(action)
        unit.costs.append(cost)
        unit.states.append(state)

    def _order(self, unit: UnitLog) -> None:
        """Sort the rows of a unit by time, and name those that have the same time or lack an action."""
        order = sorted(range(len(unit.times)), key=lambda i: unit.times[i])
        for column in ("lines", "times", "observations", "actions", "costs", "states"):
            values = getattr(unit, column)
            setattr(unit, column, [values[i] for i in order])
        for i in range(1, len(order)):
            if unit.times[i] == unit.times[i - 1]:
                self._complain(
                    unit.lines[i],
                    self.columns.time,
                    f"unit {unit.name} has {self.word} {unit.lines[i - 1]} at the same time",
                )
        for i, action in enumerate(unit.actions[:-1]):
            if action is None:
                self._complain(
                    unit.lines[i],
                    self.columns.action,
                    f"is missing; only the last {self.word} of a unit may have none",
                )

    def _time(self, value: Any) -> float:
        """Return a time as a number: seconds for dates."""
        date = _date(value)
        if date is None:
            try:
                number = float(value)
            except (TypeError, ValueError):
                number = math.nan
            if not math.isfinite(number):
                raise ValueError(
                    f"{value!r} is neither a number nor a date such as 2026-03-31 or 2026-03-31T14:00"
                )
        if self.dates is None:
            self.dates = date is not None
        if self.dates != (date is not None):
            raise ValueError(f"{value!r}: the times before are {'dates' if self.dates else 'numbers'}")
        return number if date is None else date


def _date(value: Any) -> float | None:
    """Return a date in seconds; None if it is none."""
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            return None
    elif hasattr(value, "timestamp") and hasattr(value, "isoformat"):  # of the library, or of pandas
        found = value
    else:
        return None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return float(found.timestamp())


def _chooser(what: str, names: tuple[str, ...] | None, count: int) -> Callable[[Any], int]:
    """Return the function that gives the number of a name or a number."""

    def choose(value: Any) -> int:
        if names is not None and str(value) in names:
            return names.index(str(value))
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if number.is_integer() and 0 <= number < count and (names is None or not isinstance(value, str)):
            return int(number)
        if names is None:
            raise ValueError(f"{value!r} is no {what}; allowed are the numbers 0 to {count - 1}")
        listed = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
        raise ValueError(f"{value!r} is no {what}{did_you_mean(str(value), names)}; allowed are {listed}")

    return choose


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        hint = " (write a decimal point, not a comma)" if isinstance(value, str) and "," in value else ""
        raise ValueError(f"{value!r} is not a number{hint}")
    return number


def _is_missing(value: Any) -> bool:
    return value.strip().lower() in MISSING_WORDS if isinstance(value, str) else is_lost(value)


def _vector(readings: list[float | None]) -> Any:
    """Return a vector, None if a part of it is missing: sensors of vectors take whole ones only."""
    return None if None in readings else np.array(readings, dtype=np.float64)
