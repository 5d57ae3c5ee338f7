"""From a table of logs to a fleet that has learned from them, with warnings about what looks wrong."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from .._utils.arrays import Array, Index
from ..errors import ImpossibleObservationError, InvalidModelError, LabelWarning, PSRLError
from ..inference.choosing import declared_support, learns_sensor
from ..inference.encoding import action_number
from ..inference.labels import label_symmetries
from ..inference.model_fit import ModelFit
from ..models import Setting
from ..protocols import Prior
from ..sensors.base import ContinuousSensor
from ..sensors.table import TableSensor
from .fleet import Fleet
from .fleet_units import Log
from .log_tables import ADDED, BadLinesError, Columns, LogTable, UnitLog, read_table

_ALIKE = 0.15  # states whose readings differ less, in total variation, are called alike
_GAP = 1.5  # a difference of times that is this many usual ones is a gap
_MOST_ADDED = 100_000  # missing steps between two rows
_ODDS = math.log(1000.0)  # evidence for a warning: a false one has probability at most 1/1000
_MOST_LISTED = 5  # warnings of one kind

Progress = Callable[[int, int], None]  # is called with the number of units that are done, and of all


@dataclass(frozen=True)
class FittedLogs:
    """A fleet that has learned from logs, and what looks wrong in them.

    Attributes
    ----------
    fleet
        The fleet. The logs are finished histories in it; units join it at their first reading.
    table
        The rows, by unit.
    warnings
        What looks wrong, one sentence each.
    added
        The number of missing steps that were added.
    """

    fleet: Fleet
    table: LogTable
    warnings: tuple[str, ...]
    added: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {
            "table": self.table.name,
            "units": len(self.table.units),
            "rows": self.table.n_rows,
            "missing_readings": self._n_missing,
            "added_steps": self.added,
            "ignored_columns": list(self.table.ignored),
            "warnings": list(self.warnings),
            "watch": self.fleet.watch.to_dict(),
        }

    @property
    def _n_missing(self) -> int:
        rows = (
            o
            for unit in self.table.units
            for o, line in zip(unit.observations, unit.lines, strict=True)
            if line != ADDED
        )
        return sum(o is None for o in rows)

    def __str__(self) -> str:
        """Return what was read, the warnings, and the alarms."""
        table, units = self.table, self.table.units
        begin = table.when(min(unit.times[0] for unit in units))
        end = table.when(max(unit.times[-1] for unit in units))
        rows, units_read = (
            f"{table.n_rows - self.added:,} rows",
            f"{len(units)} unit{'s' * (len(units) != 1)}",
        )
        missing = f"{self._n_missing:,} reading{' is' if self._n_missing == 1 else 's are'} missing"
        lines = [f"{table.name}: {rows} of {units_read}, from {begin} to {end}; {missing}."]
        if self.added:
            lines.append(f"{self.added:,} missing steps were added.")
        lines += [f"Warning: {text}" for text in self.warnings]
        return "\n".join([*lines, str(self.fleet.watch)])


def fit_logs(
    table: Any,
    prior: Prior,
    *,
    unit: str = "unit",
    time: str = "time",
    reading: str | tuple[str, ...] = "reading",
    action: str = "action",
    cost: str | None = None,
    state: str | None = None,
    gap_action: int | str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> FittedLogs:
    """Learn from a table with the logs of many units, and return a fleet.

    A row has the reading of a unit at a time, and the action after it. Rows may be in any order.

    Parameters
    ----------
    table
        The path of a CSV file, a mapping from names to columns, a list of mappings, or a data frame of
        pandas.
    prior
        The prior over what all units share.
    unit, time, reading, action
        The names of these columns. Times are numbers or dates; several readings are a vector.
    cost
        The column with the cost of each action, if the setting says that costs are seen.
    state
        A column with true states, where they are known, such as the findings of inspections. They are
        compared with the readings, and are not learned from.
    gap_action
        The action that was taken at times that are missing in the table. By default, the rows before and
        after a gap are taken as one step apart, with a warning.
    progress
        A function that is called with the number of units that are done, and of all.
    **options
        Further arguments of `Fleet`.

    Returns
    -------
    FittedLogs
        The fleet and the warnings.

    Raises
    ------
    BadLinesError
        If rows cannot be used; it names each of them.

    >>> from psrl_pomdp import problem
    >>> rows = {"unit": ["p1", "p1", "p2"], "time": [1, 2, 1], "reading": [0, 3, 0], "action": [1, 0, None]}
    >>> print(fit_logs(rows, problem("separated").family).fleet.watch.readings)
    1
    """
    setting = prior.setting
    columns = Columns(unit, time, reading, action, cost, state)
    _check_columns(setting, columns)
    found = read_table(table, setting, columns)
    told, added = list(_gaps(found, None if gap_action is None else action_number(setting, gap_action))), 0
    if gap_action is not None:
        added = sum(line == ADDED for each in found.units for line in each.lines)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)  # it is among the warnings below
        fleet = Fleet(prior, **options)
    told += _about_states(prior)
    for i, each in enumerate(found.units):
        log = _log_of(each, setting, cost is not None)
        if log is not None:
            try:
                fleet.learn([log])
            except PSRLError as error:
                raise _located(error, prior, log, each, found) from None
        if progress is not None:
            progress(i + 1, len(found.units))
    told += _about_first_readings(found, setting)
    if state is not None:
        told += _about_labels(found, prior)
    told += _about_units(fleet, found)
    return FittedLogs(fleet, found, tuple(told), added)


def _check_columns(setting: Setting, columns: Columns) -> None:
    """Refuse columns that do not go with the setting."""
    dimension = getattr(setting.sensor, "dimension", None)
    if len(columns.readings) != (dimension or 1):
        raise InvalidModelError(
            f"{len(columns.readings)} columns of readings: an observation of this setting has "
            f"{dimension or 1}"
        )
    if columns.cost is not None and setting.seen_cost is None:
        raise InvalidModelError(
            f"column {columns.cost!r}: this setting does not say that costs are seen (seen_cost), so they "
            "cannot be learned from; leave out the column"
        )


def _log_of(unit: UnitLog, setting: Setting, with_costs: bool) -> Log | None:
    """Return the log of a unit; None if it has no step."""
    actions = unit.actions if unit.actions[-1] is not None else unit.actions[:-1]
    if not actions or len(unit.observations) < 2:
        return None
    observations = list(unit.observations)
    if not setting.has_first_observation:
        observations[0] = None
    costs = unit.costs[: len(actions)] if with_costs else None
    return Log(observations, actions, costs, unit.name)


def _located(error: PSRLError, prior: Prior, log: Log, unit: UnitLog, table: LogTable) -> PSRLError:
    """Return the error of a log with the line of the first step that cannot be used."""
    if not isinstance(error, ImpossibleObservationError):
        return error
    posterior: Any = prior.posterior(np.random.default_rng(0))
    number = 0
    try:
        posterior.start(log.observations[0])
        for number, observation in enumerate(log.observations[1:], start=1):
            paid = [] if log.costs is None or number > len(log.costs) else [log.costs[number - 1]]
            posterior.update(log.actions[number - 1], observation, *paid)
    except ImpossibleObservationError as found:
        text = f"{table.word} {unit.lines[number]}, unit {unit.name}: {found}"
        return BadLinesError(f"1 {table.word} cannot be used", path=table.name, lines=[text])
    return error  # impossible only together with the other units


# -- what looks wrong ---------------------------------------------------------------------------------


def _gaps(table: LogTable, fill: int | None) -> Iterator[str]:
    """Find rows that are missing; if `fill` is given, add steps with this action and without readings."""
    found: list[str] = []
    differences = [d for unit in table.units for d in np.diff(unit.times).tolist()]
    if not differences:
        return
    usual = float(np.median(differences))
    for unit in table.units:
        for i in reversed(range(1, len(unit.times))):
            missing = round((unit.times[i] - unit.times[i - 1]) / usual) - 1
            if unit.times[i] - unit.times[i - 1] < _GAP * usual or missing < 1:
                continue
            begin, end = table.when(unit.times[i - 1]), table.when(unit.times[i])
            if fill is None:
                found.append(
                    f"unit {unit.name} has no rows for {missing:,} steps between {begin} and {end} "
                    f"({table.word}s {unit.lines[i - 1]} and {unit.lines[i]}); "
                    "the row after was taken as the next step"
                )
                continue
            if missing > _MOST_ADDED:
                raise InvalidModelError(
                    f"unit {unit.name} has a gap of {missing:,} steps between {begin} and {end}: too many to "
                    "be filled"
                )
            _add_steps(unit, i, missing, usual, fill)
    yield from _shortened(found, "gaps")


def _add_steps(unit: UnitLog, place: int, missing: int, usual: float, action: int) -> None:
    """Add steps without readings before a row."""
    times = [unit.times[place - 1] + (k + 1) * usual for k in range(missing)]
    unit.times[place:place] = times
    unit.actions[place:place] = [action] * missing
    unit.lines[place:place] = [ADDED] * missing
    for column in (unit.observations, unit.costs, unit.states):
        column[place:place] = [None] * missing


def _about_first_readings(table: LogTable, setting: Setting) -> Iterator[str]:
    if not setting.has_first_observation and any(u.observations[0] is not None for u in table.units):
        yield (
            "the first reading of each unit was not used: this setting has no observation before the "
            "first action"
        )


def _about_units(fleet: Fleet, table: LogTable) -> Iterator[str]:
    """Find units whose readings do not come as predicted; a false warning has probability at most α.

    The number of units was known before their readings, so that they have equal weights.
    """
    threshold = math.log(len(table.units) / fleet.false_alarm_rate)
    for log in fleet.all_units("ended"):
        fit = getattr(log.posterior, "fit", None)
        if not isinstance(fit, ModelFit) or fit.largest_log_e_value < threshold:
            continue
        unit = next(unit for unit in table.units if unit.name == log.name)
        since = ""
        if fit.begin is not None:
            place = min(fit.begin, len(unit.times)) - 1
            since = f" from about {table.when(unit.times[place])} on"
        yield (
            f"the readings of unit {log.name} do not come as the model predicts them{since} (e-value "
            f"{math.exp(min(fit.largest_log_e_value, 700.0)):.3g})"
            + "".join(f"; {each}" for each in fit.departures)
        )


def _about_states(prior: Prior) -> Iterator[str]:
    """Find states whose readings look like another's under the model, and names that cannot be learned."""
    setting = prior.setting
    names, table = setting.names, _comparable_table(setting)
    if table is not None:
        for s, other in combinations(range(setting.n_states), 2):
            distance = 0.5 * float(np.abs(table[:, s] - table[:, other]).sum(axis=-1).max())
            if distance < _ALIKE:
                yield (
                    f"{names.state(s)} and {names.state(other)} have nearly the same readings: their "
                    f"probabilities differ by at most {distance:.2g} in total, after any action"
                )
    for symmetry in label_symmetries(prior):
        if symmetry.harmful or learns_sensor(prior):
            yield symmetry.text(setting)


def _comparable_table(setting: Setting) -> Array | None:
    """Return the probabilities of readings, or of classes of them, [A, S, K]; None if there are none."""
    if setting.sensor_depends_on_previous:
        return None
    try:
        return setting.observation if setting.is_finite else setting.quantized(16).observation
    except InvalidModelError:
        return None


def _about_labels(table: LogTable, prior: Prior) -> Iterator[str]:
    """Compare known states with the readings at the same time, and with one another."""
    setting = prior.setting
    names = setting.names
    yield from _shortened(list(_impossible_moves(table, prior)), "impossible transitions of labels")
    if setting.sensor_depends_on_previous:
        return
    labels, logs, observed, silent = _labelled(table, setting)
    if silent:
        yield from _shortened(silent, "labels whose readings are impossible")
    for s in range(setting.n_states):
        mine = logs[labels == s]
        if not len(mine):
            continue
        sums = mine.sum(axis=0)
        best = int(np.argmax(sums))
        if sums[best] - sums[s] > _ODDS:
            yield (
                f"the {len(mine)} readings that are labelled {names.state(s)} look like {names.state(best)}: "
                f"they are 10^{(sums[best] - sums[s]) / math.log(10):.0f} times as likely there; "
                "the labels or the sensor may be wrong"
            )
        elif setting.is_finite:
            yield from _unexpected(setting, s, observed[labels == s], mine[:, s])


def _unexpected(setting: Setting, state: int, observed: Index, own: Array) -> Iterator[str]:
    """Compare the readings in one state with the sensor, by the bet of Krichevsky and Trofimov."""
    n_kinds = setting.n_observations
    evidence, counts = 0.0, np.full(n_kinds, 0.5)
    for kind, log in zip(observed.tolist(), own.tolist(), strict=True):
        evidence += math.log(counts[kind] / counts.sum()) - log
        counts[kind] += 1.0
    if evidence <= _ODDS:
        return
    came = np.bincount(observed, minlength=n_kinds) / len(observed)
    expected = setting.observation[:, state].mean(axis=0)
    kind = int(np.argmax(np.abs(came - expected) / np.sqrt(np.maximum(expected, 1e-3))))
    yield (
        f"readings that are labelled {setting.names.state(state)} do not come as the sensor says: "
        f"{setting.names.observation(kind)} came in {came[kind]:.0%} of {len(observed)}, and "
        f"{expected[kind]:.0%} were expected"
    )


def _labelled(table: LogTable, setting: Setting) -> tuple[Index, Array, Index, list[str]]:
    """Return state, log-likelihoods [S] and number of each labelled reading, and those that are impossible.

    The latter are in words.
    """
    labels, logs, observed, silent = [], [], [], []
    for unit in table.units:
        for i, (state, reading) in enumerate(zip(unit.states, unit.observations, strict=True)):
            if state is None or reading is None or (i == 0 and not setting.has_first_observation):
                continue
            sensor = setting.first_sensor if i == 0 else setting.sensor
            action = unit.actions[i - 1] if i else 0
            row = _log_likelihood(sensor, 0 if action is None else action, reading)
            if row[state] == -np.inf:
                silent.append(
                    f"{table.word} {unit.lines[i]}, unit {unit.name}: the state is labelled "
                    f"{setting.names.state(state)}, where this reading is impossible"
                )
                continue
            labels.append(state)
            logs.append(np.maximum(row, -1e3))
            observed.append(int(reading) if setting.is_finite else 0)
    shape = (len(logs), setting.n_states)
    return np.array(labels, int), np.reshape(logs, shape), np.array(observed, int), silent


def _log_likelihood(sensor: Any, action: int, reading: Any) -> Array:
    """Return the log-likelihoods of a reading in all states."""
    if isinstance(sensor, TableSensor):
        with np.errstate(divide="ignore"):
            return np.log(sensor.likelihood(min(action, len(sensor.table) - 1), int(reading)))
    assert isinstance(sensor, ContinuousSensor)
    number = 0 if sensor.n_actions is None else action
    return np.asarray(sensor.log_likelihood(number, np.asarray(reading, dtype=np.float64)[None])[0])


def _impossible_moves(table: LogTable, prior: Prior) -> Iterator[str]:
    """Find labels of two steps in a row between which no transition is possible."""
    support, names = declared_support(prior), prior.setting.names
    if support is None:
        return
    for unit in table.units:
        for i in range(1, len(unit.states)):
            before, state, action = unit.states[i - 1], unit.states[i], unit.actions[i - 1]
            if before is None or state is None or action is None or support[action, before, state]:
                continue
            yield (
                f"unit {unit.name} is labelled {names.state(before)} and then {names.state(state)} "
                f"({table.word}s {unit.lines[i - 1]} and {unit.lines[i]}), which is impossible after "
                f"{names.action(action)}"
            )


def _shortened(found: list[str], kind: str) -> Iterator[str]:
    """Yield the first warnings of a kind, and how many more there are."""
    yield from found[:_MOST_LISTED]
    if len(found) > _MOST_LISTED:
        yield f"{len(found) - _MOST_LISTED} more {kind}"
