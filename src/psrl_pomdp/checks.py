"""Checkers for users too: say in plain words what is wrong, or doubtful, before a long run finds out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Literal

import numpy as np

from .errors import ParseError, PSRLError
from .model import POMDP, Setting
from .structure import Structure, analyse

Level = Literal["wrong", "doubtful", "note"]

# Positive entries below this are more often rounding of a zero than a rate that somebody measured.
_SUSPICIOUSLY_SMALL = 1e-12


@dataclass(frozen=True)
class Finding:
    """One thing that a check found. `wrong` cannot be used; `doubtful` is legal and rarely meant."""

    level: Level
    text: str


def check_model(model: POMDP | str | PathLike[str]) -> list[Finding]:
    """What is wrong or doubtful about a model, or about the file that should hold one.

    >>> from psrl_pomdp import problem
    >>> for finding in check_model(problem("two-rooms")):
    ...     print(f"{finding.level}: {finding.text}")
    doubtful: the start can end up in 2 recurrent classes (good-room | bad-room): the best average may \
depend on which, and the paper's Assumption 1 then fails
    """
    if isinstance(model, str | PathLike):
        from .files import load

        try:
            model = load(model)
        except (ParseError, OSError) as error:
            return [Finding("wrong", str(error))]
    if not isinstance(model, POMDP):
        return [Finding("wrong", f"a {type(model).__name__} is not a POMDP")]
    try:
        _rebuilt(model)
    except PSRLError as error:  # somebody unlocked an array and wrote into it
        return [Finding("wrong", str(error))]
    facts = analyse(model)
    found = [Finding("doubtful", text) for rule in _DOUBTS for text in rule(model, facts)]
    found += [Finding("note", text) for text in (*model.remarks, *_notes(model, facts))]
    return found


def _rebuilt(model: POMDP) -> POMDP:
    own = model.setting
    setting = Setting(own.observation, own.cost, own.initial, own.first_observation, units=own.units)
    return POMDP(setting, model.transition)


def _listed(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _named_states(model: POMDP, states: Sequence[int]) -> str:
    return _listed([model.setting.names.state(s) for s in states])


def _several_classes(model: POMDP, facts: Structure) -> Iterator[str]:
    classes = facts.reachable_classes
    if len(classes) > 1:
        shown = " | ".join(_named_states(model, c.states) for c in classes[:4])
        yield (
            f"the start can end up in {len(classes)} recurrent classes ({shown}): the best average may "
            "depend on which, and the paper's Assumption 1 then fails"
        )


def _periodic(model: POMDP, facts: Structure) -> Iterator[str]:
    for c in facts.reachable_classes:
        if c.period > 1 and facts.sensor_margin == 0.0:
            yield (
                f"the class of {_named_states(model, c.states)} has period {c.period} and its sensor does "
                "not tell all states apart: the phase may stay hidden, and Assumption 1 then fails"
            )


def _unreachable(model: POMDP, facts: Structure) -> Iterator[str]:
    lost = [s for s in range(model.n_states) if s not in set(facts.reachable_states)]
    if lost:
        yield f"no policy reaches {_named_states(model, lost)} from the start"


def _hidden_for_good(model: POMDP, facts: Structure) -> Iterator[str]:
    if len(facts.blind_actions) == model.n_actions and model.n_states > 1:
        yield "no reading after an action says anything about the state: its dynamics cannot be learned"
        return
    for group in facts.indistinguishable_states:
        yield (
            f"no reading tells {_named_states(model, group)} apart: how they move can be learned only "
            "through what follows, if at all"
        )


def _duplicate_actions(model: POMDP, facts: Structure) -> Iterator[str]:
    seen: dict[bytes, int] = {}
    setting = model.setting
    for a in range(model.n_actions):
        parts = (model.transition[a], setting.observation[a], setting.cost[a])
        first = seen.setdefault(b"".join(part.tobytes() for part in parts), a)
        if first != a:
            one, other = setting.names.action(first), setting.names.action(a)
            yield f"actions {one} and {other} are the same in every number"


def _readings_that_never_come(model: POMDP, facts: Structure) -> Iterator[str]:
    setting = model.setting
    comes = (setting.observation > 0).any(axis=(0, 1))
    if setting.first_observation is not None:
        comes |= (setting.first_observation > 0).any(axis=0)
    never = [setting.names.observation(int(o)) for o in np.flatnonzero(~comes)]
    if never:
        yield f"no state ever gives the reading {_listed(never)}"


def _nothing_to_choose(model: POMDP, facts: Structure) -> Iterator[str]:
    cost = model.setting.cost
    if (cost == cost.flat[0]).all():
        yield f"the {model.setting.units.kind} is the same everywhere: there is nothing to optimise"
    elif model.n_actions == 1:
        yield "there is only one action: there is nothing to decide"


def _tiny_probabilities(model: POMDP, facts: Structure) -> Iterator[str]:
    setting = model.setting
    for name, axes, array in (
        ("transition", "ast", model.transition),
        ("observation", "aso", setting.observation),
        ("initial", "s", setting.initial),
    ):
        tiny = (array > 0) & (array < _SUSPICIOUSLY_SMALL)
        if tiny.any():
            where = tuple(int(i) for i in np.argwhere(tiny)[0])
            entry = setting.names.entry(name, axes, where)
            others = int(tiny.sum()) - 1
            more = f", and {others} like it" if others else ""
            yield f"{entry} is {array[where]:.3g}{more}: was zero meant?"


_DOUBTS: tuple[Callable[[POMDP, Structure], Iterator[str]], ...] = (
    _several_classes,
    _periodic,
    _unreachable,
    _hidden_for_good,
    _duplicate_actions,
    _readings_that_never_come,
    _nothing_to_choose,
    _tiny_probabilities,
)


def _notes(model: POMDP, facts: Structure) -> Iterator[str]:
    if facts.transient_states:
        yield f"transient under every policy: {_named_states(model, facts.transient_states)}"
    blind = facts.blind_actions
    if model.n_states > 1 and 0 < len(blind) < model.n_actions:
        names = _listed([model.setting.names.action(a) for a in blind])
        yield f"nothing is read about the state after {names}"
    if facts.sensor_margin == 0.0 and not facts.indistinguishable_states:
        yield "the sensor has not full rank: single readings do not settle how often each state occurs"
