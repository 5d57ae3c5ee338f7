"""What the test of the model (`predictive_test`) finds, in numbers and in words; and the test in files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, shaped
from ..errors import InvalidModelError
from . import predictive_test as testing
from .predictive_test import LEVELS, PredictiveTest
from .saved_states import near
from .step_codes import StepCodes

_MOST_DEPARTURES = 3
_FEW = 10.0  # readings of an action, fewer of which are not compared with what was expected
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Departure:
    """A reading that lately comes more often, or less often, than the model predicts."""

    action: str
    reading: str  # the name or the number of the observation, or the interval of a real number
    came: float  # its share of the recent readings after this action
    expected: float  # the mean of its predictive probability at the same time
    deviations: float  # the difference in standard deviations of independent readings

    def __str__(self) -> str:
        return (
            f"after {self.action}, {self.reading} came in {self.came:.0%} of the recent readings, "
            f"and the model expected {self.expected:.0%}"
        )


@dataclass(frozen=True)
class ModelFit:
    """Whether the readings of an agent have come as its posterior predicted them.

    Under the model, the largest e-value exceeds 1/α with probability at most α, over the whole life and on
    average over the prior. So an e-value of 100 is an alarm with a false-alarm rate of at most 1 %. The
    opposite is not true: a small e-value does not show that the model is right.
    """

    readings: int  # that were tested
    since: int  # the time t from which readings were tested
    log_e_value: float  # the logarithm of the present e-value
    largest_log_e_value: float  # the logarithm of the largest e-value so far
    alarms: tuple[tuple[float, int], ...]  # each level α that was reached, and the time t of it
    begin: int | None  # t from which the best alternative predicts better; None without an alarm at level .1
    departures: tuple[Departure, ...]  # the most unlikely ones of the recent readings; none without an alarm

    @property
    def e_value(self) -> float:
        """The present e-value; infinite if it is too large for a float."""
        return _exp(self.log_e_value)

    @property
    def largest_e_value(self) -> float:
        """The largest e-value so far; infinite if it is too large for a float."""
        return _exp(self.largest_log_e_value)

    def alarm(self, level: float = 0.01) -> bool:
        """Return whether the largest e-value has reached 1/`level`.

        Parameters
        ----------
        level
            The false-alarm rate α over the whole life.

        Raises
        ------
        InvalidModelError
            If `level` is not between 0 and 1.
        """
        number: object = level  # which a caller may have mistaken
        if not isinstance(number, int | float) or not 0.0 < number <= 1.0:
            raise InvalidModelError(f"level is {level!r}: a number above 0, up to 1")
        return self.largest_log_e_value >= -math.log(level)

    def alarm_time(self, level: float = 0.01) -> int | None:
        """Return the time t of the first alarm at a level, or None without an alarm.

        Parameters
        ----------
        level
            One of .1, .05, .01, .001, 1e-4 and 1e-6, whose times are recorded.

        Raises
        ------
        InvalidModelError
            If `level` is another one.
        """
        if level not in LEVELS:
            raise InvalidModelError(
                f"level is {level!r}: times are recorded for {', '.join(map(str, LEVELS))}"
            )
        return dict(self.alarms).get(level)

    def __str__(self) -> str:
        """Return one or two sentences."""
        if not self.readings:
            return "No reading has been compared with the model."
        n, value = self.readings, _number(self.largest_log_e_value)
        if not self.alarm():
            return f"Nothing speaks against the model: the largest e-value in {n} readings is {value}."
        when = self.alarm_time()
        text = (
            f"The model does not fit: the largest e-value in {n} readings is {value}, and there is an alarm "
            f"at the level of 1 % since t = {when}. Another prediction is better from about t = {self.begin} "
            "on"
        )
        return text + "".join(f"; {departure}" for departure in self.departures) + "."


def model_fit(test: PredictiveTest, codes: StepCodes) -> ModelFit | None:
    """Return what a test has found; None if readings of this setting cannot be tested."""
    numbers = test.numbers
    if test.counts.shape[1] == 1:
        return None
    reached = numbers[testing.REACHED :]
    alarms = tuple((level, int(t)) for level, t in zip(LEVELS, reached, strict=True) if t > 0.0)
    with np.errstate(divide="ignore"):
        capital = np.log(_part(test, testing.MASS)) + _part(test, testing.LOG_SCALE)
    return ModelFit(
        readings=int(numbers[testing.TESTED]),
        since=int(numbers[testing.SINCE]),
        log_e_value=float(testing.log_total(numbers)),
        largest_log_e_value=float(numbers[testing.LARGEST]),
        alarms=alarms,
        begin=int(_part(test, testing.BEGIN)[int(capital.argmax())]) if alarms else None,
        departures=_departures(test, codes) if alarms else (),
    )


def present_and_largest(test: PredictiveTest) -> tuple[float, float]:
    """Return the logarithms of the present and of the largest e-value."""
    return float(testing.log_total(test.numbers)), float(test.numbers[testing.LARGEST])


def _part(test: PredictiveTest, first: int) -> Array:
    """Return the numbers of the four alternatives from a place on."""
    return test.numbers[first : first + 4]


def _departures(test: PredictiveTest, codes: StepCodes) -> tuple[Departure, ...]:
    """Return the readings whose recent shares differ most from what was expected, the most unlikely first."""
    found = sorted(compared_readings(test, codes), key=lambda each: -abs(each.deviations))
    return tuple(each for each in found[:_MOST_DEPARTURES] if abs(each.deviations) > 2.0)


def compared_readings(test: PredictiveTest, codes: StepCodes) -> tuple[Departure, ...]:
    """Return the recent share of each reading after each action, beside the share that was expected."""
    if test.counts.shape[1] == 1:
        return ()
    found, counts = [], testing.counts_of(test)
    for a, (came, wanted) in enumerate(zip(counts.by_action[testing.RECENT], counts.expected, strict=True)):
        n = came.sum()
        if n < _FEW or not wanted.sum() > 0.0:
            continue
        share, expected = came / n, wanted / wanted.sum()
        spread = np.sqrt(np.maximum(expected * (1.0 - expected), 1e-6) / n)
        for x, deviations in enumerate((share - expected) / spread):
            words = codes.setting.names.action(a), _reading(codes, a, x)
            found.append(Departure(*words, float(share[x]), float(expected[x]), float(deviations)))
    return tuple(found)


def _reading(codes: StepCodes, action: int, kind: int) -> str:
    """Return the kind of a reading in words."""
    if codes.has_rows:
        return f"a reading {codes.cells.described(action, kind)}"
    observation, cost = divmod(kind, max(codes.n_costs, 1))
    name = codes.setting.names.observation(observation)
    text = name if codes.setting.names.observations is not None else f"observation {name}"
    if not codes.n_costs:
        return text
    assert codes.setting.seen_cost is not None
    return f"{text} with {codes.setting.units.kind} {codes.setting.seen_cost.values[cost]:g}"


def _exp(logarithm: float) -> float:
    return math.exp(logarithm) if logarithm < 709.0 else math.inf


def _number(logarithm: float) -> str:
    """Return a number, given by its natural logarithm, in words."""
    tens = logarithm / math.log(10.0)
    return f"{math.exp(logarithm):.3g}" if tens < 6.0 else f"10^{math.floor(tens)}"


# -- files --------------------------------------------------------------------------------------------


def saved_test(test: PredictiveTest) -> dict[str, npt.NDArray[np.uint8]]:
    """Return the numbers of a test as the bytes that a file stores."""
    return {"fit": np.frombuffer(test.memory.astype("<f8").tobytes(), np.uint8)}


def resume_test(test: PredictiveTest, state: Mapping[str, object], time: int) -> None:
    """Restore a test at t = `time`; it starts at this time if the file has none.

    Raises `InvalidModelError` if the test of this posterior cannot have these numbers.
    """
    now = max(1, time)
    testing.begin_test(test, now)
    if "fit" not in state:
        return
    stored = shaped("fit", np.asarray(state["fit"]), (8 * len(test.memory),), "this prior")
    if stored.dtype != np.uint8:
        raise InvalidModelError(f"fit contains {stored.dtype.name}, not bytes")
    test.memory[...] = np.frombuffer(np.ascontiguousarray(stored).tobytes(), "<f8")
    reason = _inconsistency(test, now)
    if reason:
        testing.begin_test(test, now)
        raise InvalidModelError(f"fit {reason}")


def _inconsistency(test: PredictiveTest, now: int) -> str:
    """Return what is wrong with restored numbers, or an empty string."""
    numbers, memory = test.numbers, test.memory.copy()
    memory[testing.PEAK] = 1.0  # it may be infinite; the numbers come first in the memory
    if not np.isfinite(memory).all() or (memory < 0.0).any() or not numbers[testing.PEAK] >= 1.0:
        return "contains a number that is negative or not finite"
    time, tested, last, _, _, since = numbers[: testing.MASS]
    times = np.concatenate([numbers[testing.BEGIN :], [time, tested, since]])
    if time != now or (times != np.floor(times)).any() or (times > now).any() or since < 1:
        return f"is not of the time {now}"
    counts = testing.counts_of(test)
    if tested > now - since or last != int(last) or last > counts.expected.shape[1]:
        return "counts more readings than there were"
    sums = np.concatenate([counts.by_last.sum(axis=3), counts.by_action.sum(axis=2)[..., None]], axis=2)
    everything = counts.totals[testing.ALL]
    right = near(sums, counts.totals, _TOLERANCE, _TOLERANCE) and near(
        test.counts[-len(counts.expected) :, -1], counts.expected.sum(axis=1), _TOLERANCE, _TOLERANCE
    )
    if not right or everything[:, -1].sum() != tested or everything[:, :-1].sum() != tested:
        return "has counts that do not sum to the number of readings"
    scale = np.exp(-_part(test, testing.LOG_SCALE))
    if (np.abs(_part(test, testing.UNIT) - scale) > _TOLERANCE).any() or _part(
        test, testing.MASS
    ).max() > 1e101:
        return "has scales that contradict each other"
    return ""
