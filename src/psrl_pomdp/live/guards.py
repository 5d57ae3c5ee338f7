"""Rules of a plant that forbid actions: `never run when P(failing) > .3`, `at most one repair a day`.

A rule is a sentence of one of three forms:

    never ACTION when CONDITION
    always ACTION when CONDITION
    at most NUMBER ACTION a day           (or hour, week, minute; `for the plant` at the end: for all units)
    at most NUMBER ACTION in NUMBER steps

A condition consists of one or more terms joined by `and`, or by `or`:

    P(STATE) > NUMBER        the posterior's probability of a state now (also >=, <, <=)
    reading is NAME          (also `reading is not NAME`, `reading is lost`)
    reading > NUMBER         for readings that are numbers

The policy's action is replaced where a rule forbids it, by the permitted action with the smallest expected
cost. The log has the rules that applied.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidModelError, did_you_mean
from ..models import Setting

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_WORDS = {word: i for i, word in enumerate("no one two three four five six seven eight nine ten".split())}
_SECONDS = {"minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0}
_NUMBER = r"[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?"
_NEVER = re.compile(r"(never|always) (.+?) when (.+)")
_AT_MOST = re.compile(
    r"at most (\w+) (.+?) (?:(?:a|an|per|each|every) (minute|hour|day|week)|in (\d+) steps?)"
    r"(?: (for the plant|for each unit))?"
)
_CHANCE = re.compile(rf"P\((.+?)\) ?(>=|<=|>|<) ?({_NUMBER})")
_COMPARED = re.compile(rf"reading (>=|<=|>|<) ?(-?{_NUMBER})")
_IS = re.compile(r"reading (is not|is) (.+)")


@dataclass(frozen=True)
class Moment:
    """What a rule looks at."""

    belief: Sequence[float]  # the posterior's, over states
    reading: Any  # the number of an observation, a number, or None where it is lost
    step: int
    time: float  # seconds
    done: Sequence[tuple[int, float, int]]  # (step, time, action) of this unit before now
    done_in_plant: Sequence[tuple[int, float, int]]  # of all units


@dataclass(frozen=True)
class Guard:
    """A rule: the actions that it forbids at a moment."""

    text: str
    forbids: Callable[[Moment], frozenset[int]]
    memory: float = 0.0  # seconds of the past that it looks at
    steps: int = 0  # and steps
    whole_plant: bool = False


def read_guard(text: str, setting: Setting) -> Guard:
    """Return the rule that a sentence states. Raises `InvalidModelError`, which says what is wrong."""
    sentence = " ".join(text.split()).rstrip(".")
    if found := _NEVER.fullmatch(sentence):
        action = _number(found[2], setting.actions, "action")
        condition = _condition(found[3], setting)
        others = frozenset(range(setting.n_actions)) - {action}
        forbidden = frozenset({action}) if found[1] == "never" else others
        return Guard(sentence, lambda moment: forbidden if condition(moment) else frozenset())
    if found := _AT_MOST.fullmatch(sentence):
        return _at_most(sentence, found, setting)
    raise InvalidModelError(
        f"{text!r} is no rule that is understood: 'never ACTION when CONDITION', "
        "'always ACTION when CONDITION' and 'at most NUMBER ACTION a day' are"
    )


def _at_most(sentence: str, found: re.Match[str], setting: Setting) -> Guard:
    word = found[1].lower()
    if word not in _WORDS and not word.isdecimal():
        raise InvalidModelError(f"{sentence!r}: {found[1]!r} is no number{did_you_mean(word, _WORDS)}")
    limit = _WORDS[word] if word in _WORDS else int(word)
    name = found[2]
    if name not in setting.actions and name.endswith("s") and name[:-1] in setting.actions:
        name = name[:-1]  # two repairs
    action = _number(name, setting.actions, "action")
    forbidden, whole = frozenset({action}), found[5] == "for the plant"
    if found[4]:
        last = int(found[4])
        if whole:
            raise InvalidModelError(f"{sentence!r}: units of a plant have no common steps; give a time")

        def in_steps(moment: Moment) -> frozenset[int]:
            times = sum(1 for step, _, a in moment.done if a == action and step > moment.step - last)
            return forbidden if times >= limit else frozenset()

        return Guard(sentence, in_steps, steps=last)
    period = _SECONDS[found[3]]

    def in_time(moment: Moment) -> frozenset[int]:
        done = moment.done_in_plant if whole else moment.done
        times = sum(1 for _, time, a in done if a == action and time > moment.time - period)
        return forbidden if times >= limit else frozenset()

    return Guard(sentence, in_time, memory=period, whole_plant=whole)


def _condition(text: str, setting: Setting) -> Callable[[Moment], bool]:
    for word, combine in ((" or ", any), (" and ", all)):
        if word in text:
            parts = [_condition(part.strip(), setting) for part in text.split(word)]
            return lambda moment, combine=combine: combine(part(moment) for part in parts)  # type: ignore[misc]
    return _term(text, setting)


def _term(text: str, setting: Setting) -> Callable[[Moment], bool]:
    if found := _CHANCE.fullmatch(text):
        state, compare = _number(found[1], setting.states, "state"), _COMPARE[found[2]]
        limit = float(found[3])
        return lambda moment: compare(float(moment.belief[state]), limit)
    if found := _COMPARED.fullmatch(text):
        if setting.is_finite:
            raise InvalidModelError(f"{text!r}: readings have names here; write 'reading is NAME'")
        beside, bound = _COMPARE[found[1]], float(found[2])
        return lambda moment: isinstance(moment.reading, int | float) and beside(moment.reading, bound)
    if found := _IS.fullmatch(text):
        if found[2] == "lost":
            wanted: int | None = None
        elif not setting.is_finite:
            raise InvalidModelError(f"{text!r}: readings are numbers here; write 'reading > NUMBER'")
        else:
            wanted = _number(found[2], setting.observations, "observation")
        same = found[1] == "is"
        return lambda moment: (moment.reading == wanted) == same
    raise InvalidModelError(
        f"{text!r} is no condition that is understood: 'P(STATE) > NUMBER', 'reading is NAME' and "
        "'reading > NUMBER' are"
    )


def _number(name: str, known: Sequence[str], kind: str) -> int:
    if name in known:
        return list(known).index(name)
    if name.isdecimal() and int(name) < len(known):
        return int(name)
    raise InvalidModelError(
        f"{name!r} is no {kind} of the plant{did_you_mean(name, known)}; known are {', '.join(known)}"
    )


def permitted(
    guards: Sequence[Guard], moment: Moment, n_actions: int
) -> tuple[frozenset[int], tuple[str, ...], Mapping[str, frozenset[int]]]:
    """Return the permitted actions, the rules that forbid something now, and what each forbids."""
    applied = {guard.text: found for guard in guards if (found := guard.forbids(moment))}
    forbidden = frozenset().union(*applied.values())
    return frozenset(range(n_actions)) - forbidden, tuple(applied), applied
