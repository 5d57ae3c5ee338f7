"""Alarms of a fleet, with one false-alarm rate for all of its units and its whole life.

Each history k (of a unit, or of a log) has an e-process E_k: a nonnegative martingale with E_k = 1 at its
start, if readings come as the posterior predicts them (`inference.predictive_test`). The histories get the
weights w_k = 1/(k (k + 1)) in the order in which they join, and

    F = Σ_k w_k E_k,    with E_k = 1 for all histories that have not begun,

is a martingale with F = 1 at the start, however many units join, and whenever they do. By Ville's inequality
F reaches 1/α with probability at most α. There is an alarm for a unit as soon as w_k E_k ≥ 1/α, which implies
F ≥ 1/α, and an alarm for the fleet if F ≥ 1/α without one for a unit. So α bounds the probability of any
alarm, under the model and on average over the prior.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils.arrays import Array
from ..inference.model_fit import Departure, ModelFit

if TYPE_CHECKING:
    from .fleet import Fleet
    from .fleet_units import FleetUnit

LEVEL = 0.01  # α, if none is chosen
_LARGEST = 700.0  # the largest logarithm of a number that is not infinite


@dataclass(frozen=True)
class Alarm:
    """Readings have not come as the model predicts them: those of one unit, or those of the fleet."""

    unit: str | None  # None: of the fleet as a whole, without an alarm for one of its units
    history: int  # k, the number of the unit's history; of the unit whose reading raised the alarm of a fleet
    step: int  # the number of the unit's observations at the alarm; that of all of them for a log
    log_e_value: float  # log E_k, or log F for the fleet
    log_threshold: float  # log(1/(α w_k)), or log(1/α) for the fleet
    begin: int | None  # from about this step on, another prediction is better than the model's
    departures: tuple[Departure, ...]  # what was expected lately, and what came

    @property
    def e_value(self) -> float:
        """The e-value at the alarm; infinite if it is too large for a float."""
        return math.exp(self.log_e_value) if self.log_e_value < _LARGEST else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {**asdict(self), "departures": [asdict(d) for d in self.departures], "text": str(self)}

    def __str__(self) -> str:
        """Return a sentence."""
        who = "The fleet" if self.unit is None else self.unit
        text = (
            f"{who}, step {self.step}: readings do not come as the model predicts them "
            f"(e-value {_power(self.log_e_value)}, alarm at {_power(self.log_threshold)})"
        )
        if self.begin is not None:
            text += f"; another prediction is better from about step {self.begin} on"
        return text + "".join(f"; {departure}" for departure in self.departures) + "."


@dataclass(frozen=True)
class Watch:
    """The alarms of a fleet so far. Their joint false-alarm rate is at most `level`, over its whole life."""

    level: float  # α
    alarms: tuple[Alarm, ...]
    e_values: dict[str, float]  # the present E_k of each unit
    e_value: float  # F, that of the fleet
    readings: int  # that were compared with the model
    histories: int  # of units, and of logs
    tested: bool  # False if readings of this setting cannot be compared with the model

    @property
    def alarm(self) -> bool:
        """Whether there was an alarm."""
        return bool(self.alarms)

    def of(self, unit: str) -> tuple[Alarm, ...]:
        """Return the alarms of a unit.

        Parameters
        ----------
        unit
            Its name.
        """
        return tuple(alarm for alarm in self.alarms if alarm.unit == unit)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON; an infinite e-value is None."""
        return {
            "level": self.level,
            "alarms": [alarm.to_dict() for alarm in self.alarms],
            "e_values": {unit: _finite(value) for unit, value in self.e_values.items()},
            "e_value": _finite(self.e_value),
            "readings": self.readings,
            "histories": self.histories,
            "tested": self.tested,
        }

    def __str__(self) -> str:
        """Return the alarms, or that there is none."""
        if not self.tested:
            return "The readings of this setting cannot be compared with the model."
        if not self.alarms:
            units = f"{self.histories} unit{'s' * (self.histories != 1)}"
            return (
                f"No alarm in {self.readings:,} readings of {units} "
                f"(false-alarm rate {100 * self.level:g} % over the whole life)."
            )
        return "\n".join(str(alarm) for alarm in self.alarms)


def weight(history: int) -> float:
    """Return w_k of history k = 1, 2, ...; the sum of all is 1.

    >>> [weight(k) for k in (1, 2, 3)] == [1 / 2, 1 / 6, 1 / 12]
    True
    """
    return 1.0 / (history * (history + 1))


class FleetEValues:
    """w_k E_k of all histories. They follow from the posterior, so that no file and no snapshot has them."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget the values, which are then computed anew."""
        self._values: Array | None = None

    def total(self, posterior: Any) -> float:
        """Return F after a reading of a history, whose posterior is given; number 0 has no unit."""
        changed = posterior.unit_number
        if self._values is not None and len(self._values) == posterior.n_units:
            self._values[changed] = _weighted(posterior, changed)
            return float(self._values.sum()) + 1.0 / len(self._values)  # Σ w_k of those to come
        posteriors = posterior.units
        if self._values is None or len(self._values) > len(posteriors):
            self._values = np.array([0.0, *(_weighted(p, k) for k, p in enumerate(posteriors[1:], start=1))])
        elif len(self._values) < len(posteriors):
            begun = len(self._values)
            more = [_weighted(p, k) for k, p in enumerate(posteriors[begun:], start=begun)]
            self._values = np.concatenate([self._values, more])
        self._values[changed] = _weighted(posterior, changed)
        return float(self._values.sum()) + 1.0 / len(posteriors)


def alarms_after(fleet: Fleet, unit: FleetUnit, values: FleetEValues) -> tuple[Alarm, ...]:
    """Return all alarms of a fleet after a reading, or a log, of a unit."""
    posterior, before = unit.posterior, fleet.alarms
    k = int(getattr(posterior, "unit_number", 0))
    if not k:
        return before
    total = values.total(posterior)
    largest = posterior.log_e_values[1]
    threshold = -math.log(fleet.false_alarm_rate * weight(k))
    if largest >= threshold:
        if any(alarm.history == k and alarm.unit is not None for alarm in before):
            return before
        return (*before, _alarm(unit.name, unit, k, largest, threshold))
    if total * fleet.false_alarm_rate < 1.0 or before:
        return before
    return (*before, _alarm(None, unit, k, math.log(total), -math.log(fleet.false_alarm_rate)))


def watch_of(fleet: Fleet) -> Watch:
    """Return the alarms of a fleet, and its e-values."""
    posteriors = fleet.posterior.units
    logs = [getattr(posterior, "log_e_values", (0.0, 0.0))[0] for posterior in posteriors]
    numbers = {id(posterior): k for k, posterior in enumerate(posteriors)}
    fits = [fit for p in posteriors[1:] if isinstance(fit := getattr(p, "fit", None), ModelFit)]
    total = sum(weight(k) * _exp(log) for k, log in enumerate(logs) if k) + 1.0 / len(logs)
    return Watch(
        level=fleet.false_alarm_rate,
        alarms=fleet.alarms,
        e_values={u.name: _exp(logs[numbers[id(u.posterior)]]) for u in fleet.all_units("units")},
        e_value=total,
        readings=sum(fit.readings for fit in fits),
        histories=sum(posterior.time > 0 for posterior in posteriors[1:]),
        tested=bool(fits) or isinstance(getattr(posteriors[0], "fit", None), ModelFit),
    )


def _alarm(name: str | None, unit: FleetUnit, k: int, log_e_value: float, log_threshold: float) -> Alarm:
    fit = unit.posterior.fit
    begin, departures = (fit.begin, fit.departures) if isinstance(fit, ModelFit) else (None, ())
    return Alarm(name, k, unit.time, log_e_value, log_threshold, begin, departures)


def _weighted(posterior: Any, k: int) -> float:
    return weight(k) * _exp(posterior.log_e_values[0])


def _exp(logarithm: float) -> float:
    return math.exp(logarithm) if logarithm < _LARGEST else math.inf


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _power(logarithm: float) -> str:
    """Return a number, given by its natural logarithm."""
    tens = logarithm / math.log(10.0)
    return f"{math.exp(logarithm):,.3g}" if tens < 4.0 else f"10^{tens:.1f}"
