"""Warnings and notes about the structure of a model, which `check_model` reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..models import POMDP
from ..models.stand_in import same_observations
from ..models.structure import ModelStructure

# Positive entries below this are more likely rounding errors of a zero than measured probabilities.
_SUSPICIOUSLY_SMALL = 1e-12


def model_warnings(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    """Yield one sentence for each property that is legal and rarely meant."""
    for rule in _RULES:
        yield from rule(model, facts)


def model_notes(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    """Yield one sentence for each property that is worth knowing."""
    if facts.transient_states:
        yield f"transient under every policy: {_named_states(model, facts.transient_states)}"
    blind = facts.blind_actions
    if model.n_states > 1 and 0 < len(blind) < model.n_actions:
        names = _listed([model.setting.names.action(a) for a in blind])
        yield f"the observation after {names} contains no information about the state"
    if facts.sensor_margin == 0.0 and not facts.indistinguishable_states:
        yield (
            "the observation matrix does not have full rank: single observations do not identify the "
            "distribution of the state"
        )


def _listed(names: Sequence[str], max_names: int = 4) -> str:
    shown = ", ".join(names[:max_names])
    return shown if len(names) <= max_names else f"{shown} and {len(names) - max_names} more"


def _named_states(model: POMDP, states: Sequence[int]) -> str:
    return _listed([model.setting.names.state(s) for s in states])


def _several_classes(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    classes = facts.reachable_classes
    if len(classes) > 1:
        shown = " | ".join(_named_states(model, c.states) for c in classes[:4])
        yield (
            f"the start can lead to {len(classes)} recurrent classes ({shown}): the optimal average may "
            "depend on the class, and the paper's Assumption 1 then fails"
        )


def _periodic(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    for c in facts.reachable_classes:
        if c.period > 1 and facts.sensor_margin == 0.0:
            yield (
                f"the class of {_named_states(model, c.states)} has period {c.period}, and the observations "
                "do not distinguish all states: the phase may stay hidden, and Assumption 1 then fails"
            )


def _unreachable(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    reachable = set(facts.reachable_states)
    unreachable = [s for s in range(model.n_states) if s not in reachable]
    if unreachable:
        yield f"no policy reaches {_named_states(model, unreachable)} from the start"


def _indistinguishable(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    if len(facts.blind_actions) == model.n_actions and model.n_states > 1:
        yield "no observation contains information about the state: the transition kernel cannot be learned"
        return
    for group in facts.indistinguishable_states:
        yield (
            f"no observation distinguishes {_named_states(model, group)}: their transitions can be learned "
            "only from later observations, if at all"
        )


def _duplicate_actions(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    seen: dict[bytes, list[int]] = {}
    setting = model.setting
    for a in range(model.n_actions):
        alike = seen.setdefault(model.transition[a].tobytes() + setting.cost[a].tobytes(), [])
        first = next((other for other in alike if same_observations(setting, other, a)), None)
        if first is None:
            alike.append(a)
        else:
            one, other = setting.names.action(first), setting.names.action(a)
            yield f"actions {one} and {other} have identical transitions, observations and costs"


def _impossible_observations(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    setting = model.setting
    if not setting.is_finite:
        return
    possible = (setting.observation > 0).reshape(-1, setting.n_observations).any(axis=0)
    if setting.first_observation is not None:
        possible |= (setting.first_observation > 0).any(axis=0)
    impossible = [setting.names.observation(int(o)) for o in np.flatnonzero(~possible)]
    if impossible:
        yield f"observations with probability 0 in every state: {_listed(impossible)}"


def _no_choice(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    cost = model.setting.cost
    if (cost == cost.flat[0]).all():
        yield f"the {model.setting.units.kind} is the same everywhere: there is nothing to optimize"
    elif model.n_actions == 1:
        yield "there is only one action: there is nothing to decide"


def _tiny_probabilities(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    setting = model.setting
    arrays = [("transition", "ast", model.transition), ("initial", "s", setting.initial)]
    if setting.is_finite:
        axes = "asto" if setting.sensor_depends_on_previous else "aso"
        arrays.insert(1, ("observation", axes, setting.observation))
    for name, axes, array in arrays:
        tiny = (array > 0) & (array < _SUSPICIOUSLY_SMALL)
        if tiny.any():
            where = tuple(int(i) for i in np.argwhere(tiny)[0])
            entry = setting.names.entry(name, axes, where)
            others = int(tiny.sum()) - 1
            more = f", and {others} similar entries" if others else ""
            yield f"{entry} is {array[where]:.3g}{more}: was zero meant?"


_RULES: tuple[Callable[[POMDP, ModelStructure], Iterator[str]], ...] = (
    _several_classes,
    _periodic,
    _unreachable,
    _indistinguishable,
    _duplicate_actions,
    _impossible_observations,
    _no_choice,
    _tiny_probabilities,
)
