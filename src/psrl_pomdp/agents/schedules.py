"""When an episode ends: SCHED and the pseudo-count of Algorithm 1.

Episode k continues while

    t ≤ SCHED(t_k, T_{k−1})   and   m̃_t(s, a) ≤ 2 m̃_{t_k}(s, a) for all (s, a).

A pseudo-count m̃_t is a non-decreasing sequence of integers with ⌈ñ_t⌉ ≤ m̃_t ≤ t, known before o_t. The
paper uses two pairs: SCHED = 2 t_k with m̃_t = t in the finite case (episodes start at 1, 3, 7, 15, ...), and
SCHED = t_k + T_{k−1} with m̃_t = max(m̃_{t−1}, ⌈ñ_t⌉) in general (so that T_k ≤ T_{k−1} + 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from .._utils.integers import is_integer
from ..errors import InvalidModelError, UnknownNameError, did_you_mean

Sched = Callable[[int, int], int]  # (t_k, T_{k−1}) -> the last t of the episode
_LONGEST = 1 << 53  # the longest episode, which floating point still represents exactly
PseudoCount = Literal["time", "expected", "none"]


@dataclass(frozen=True)
class Schedule:
    """SCHED and a pseudo-count rule, which together determine when episodes end.

    Parameters
    ----------
    name
        The name of the schedule in files and messages.
    sched
        SCHED: a function of t_k and T_{k−1} that returns the last step of the episode.
    pseudo_count
        The rule: `time` (m̃_t = t), `expected` (the running maximum of ⌈ñ_t⌉), or `none`, with which SCHED
        alone ends episodes.

    >>> tripling = Schedule("tripling", lambda start, length: 3 * start, "none")
    >>> tripling.last(4, 2)
    12
    """

    name: str
    sched: Sched
    pseudo_count: PseudoCount

    def __post_init__(self) -> None:
        if self.pseudo_count not in get_args(PseudoCount):
            hint = did_you_mean(str(self.pseudo_count), get_args(PseudoCount))
            raise UnknownNameError(f"pseudo_count is {self.pseudo_count!r}, not one of "
                                   f"{', '.join(get_args(PseudoCount))}{hint}")  # fmt: skip

    def last(self, start: int, previous_length: int) -> int:
        """Return SCHED(t_k, T_{k−1}), the last step of the episode that starts at t_k; at least t_k."""
        return max(start, int(self.sched(start, previous_length)))


class DoublingSchedule(Schedule):
    """SCHED = 2 t_k and m̃_t = t, for a finite set of kernels; there are O(log T) episodes."""

    def __init__(self) -> None:
        super().__init__("doubling", lambda start, previous_length: 2 * start, "time")


class TSDESchedule(Schedule):
    """The paper's schedule for other priors, as in TSDE (Ouyang et al. 2017).

    SCHED = t_k + T_{k−1} and m̃_t = max(m̃_{t−1}, ⌈ñ_t⌉).
    """

    def __init__(self) -> None:
        super().__init__("tsde", lambda start, previous_length: start + previous_length, "expected")


class FixedSchedule(Schedule):
    """Episodes of a fixed length.

    Parameters
    ----------
    length
        The number of steps of each episode.
    """

    def __init__(self, length: int) -> None:
        if not is_integer(length, 1, _LONGEST):
            raise InvalidModelError(f"length is {length!r}, not a whole number of steps from 1 to {_LONGEST}")
        super().__init__(f"fixed-{length}", lambda start, previous_length: start + length - 1, "none")


_NAMED: dict[str, Callable[[], Schedule]] = {"doubling": DoublingSchedule, "tsde": TSDESchedule}


def schedule_named(name: str) -> Schedule:
    """Return one of the schedules above by its name.

    >>> schedule_named("fixed-10").last(11, 10)
    20
    """
    if name in _NAMED:
        return _NAMED[name]()
    kind, _, length = name.partition("-")
    if kind == "fixed" and length.isascii() and length.isdigit() and 0 < int(length[:20]) <= _LONGEST:
        return FixedSchedule(int(length))
    hint = did_you_mean(name, [*_NAMED, "fixed-100"])
    raise UnknownNameError(f"schedule {name!r} is none of {', '.join(_NAMED)}, fixed-N{hint}")
