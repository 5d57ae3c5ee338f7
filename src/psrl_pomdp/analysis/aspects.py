"""Verdicts on single assumptions of the paper for one model, with reasons and numbers (`assumptions`).

`holds` and `fails` are proved; `seems to hold` and `seems to fail` are not; `open` is undecided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from .._utils.deprecation import warn_renamed
from ..models import POMDP
from ..models.structure import ModelStructure, analyze_structure
from ..planning import Plan, plan
from .concentration import STEADY, VANISHED, Concentration

Verdict = Literal["holds", "seems to hold", "open", "seems to fail", "fails"]

_MAX_STARTS, _MIN_TOLERANCE, _MAX_WORK = 8, 1e-4, 3e8  # for plans from single states
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Aspect:
    """One assumption: its name, the verdict, the reason for it, and the numbers behind it."""

    name: str
    verdict: Verdict
    message: str
    numbers: dict[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The message, under its name of version 0.1. Deprecated."""
        warn_renamed("Aspect.words", "Aspect.message")
        return self.message


# -- 1 -------------------------------------------------------------------------------------------


def bellman_of(model: POMDP, own: Plan) -> Aspect:
    """Return Assumption 1 for one model, given a plan for it."""
    facts = analyze_structure(model)
    numbers = {"weakly_communicating_from_start": facts.weakly_communicating_from_start, "gap": own.gap}
    if (model.transition > 0.0).all():
        return Aspect(
            "1 Bellman", "holds", "every transition has positive probability (Platzman 1980)", numbers
        )
    if facts.perfect_observation and facts.weakly_communicating_from_start:
        return Aspect(
            "1 Bellman", "holds", "states are observed, and the MDP is weakly communicating", numbers
        )
    if own.status == "closed" and not own.depends_on_start:
        message = f"the same bounds hold for every initial belief, with a gap of {own.gap:.1e} (scaled)"
        return Aspect("1 Bellman", "seems to hold", f"{message}; more is not proved", numbers)
    return _by_start(model, own, facts, numbers)


def _by_start(model: POMDP, own: Plan, facts: ModelStructure, numbers: dict[str, Any]) -> Aspect:
    """Compare certified bounds for single states and for the start: if two are disjoint, J depends on it."""
    starts = {"from the start": (own.lower, own.upper)}
    for s in own.states[:_MAX_STARTS]:
        found = plan(_started(model, s), max(own.gap, _MIN_TOLERANCE), max_work=_MAX_WORK)
        starts[f"from {model.setting.names.state(s)}"] = (found.lower, found.upper)
    best = min(starts, key=lambda name: starts[name][1])
    worst = max(starts, key=lambda name: starts[name][0])
    numbers = numbers | {"bounds": {name: list(pair) for name, pair in starts.items()}}
    if starts[worst][0] > starts[best][1] + _ROUNDING * own.units.difference(1.0):
        message = (
            f"the optimal average depends on the start: {_interval(starts[best])} {best}, "
            f"{_interval(starts[worst])} {worst}"
        )
        if facts.weakly_communicating_from_start:
            message += "; the MDP is weakly communicating, which is not sufficient if states are hidden"
        return Aspect("1 Bellman", "fails", message, numbers)
    message = f"bounds with a gap of {own.gap:.1e} (scaled; {own.status}), "
    message += "for the start only" if own.depends_on_start else "the same for every initial belief"
    return Aspect("1 Bellman", "open", f"{message}; plans from single states do not refute one J", numbers)


def _started(model: POMDP, state: int) -> POMDP:
    """Return the same model with one initial state."""
    return POMDP(model.setting.replace(initial=np.eye(model.n_states)[state]), model.transition)


def _interval(pair: tuple[float, float]) -> str:
    low, high = (f"{end:.4g}" for end in pair)
    return low if low == high else f"{low} to {high}"


# -- 3 and 4 -------------------------------------------------------------------------------------

# Short runs cannot show this failure, because the agent still explores.
_UNOBSERVED = (
    "but some actions give no information and costs are not observed, so the agent may wrongly keep a policy "
    "of such actions for ever"
)


def concentration_aspects(facts: ModelStructure, proved: bool, seen: Concentration) -> tuple[Aspect, Aspect]:
    """Return Assumptions 3 and 4; `proved` is True if they follow from Assumption 2."""
    runs = f"{len(seen.belief)} runs of {seen.times[-1]} steps"
    lemma = "follows from 2 if the episodes do not depend on the observations, as with m̃_t = t"
    found = []
    for name, label, constant, trend in (
        ("3 belief", "K_1", seen.k1, seen.belief_trend),
        ("4 kernel", "K_2", seen.k2, seen.kernel_trend),
    ):
        p, low, high = trend
        grows = "vanishes" if p <= VANISHED else f"grows like T^{p:.2f}, at most T^{high:.2f}"
        estimate = f"{label} about {constant.value:.3g}, and the bounded term {grows} (estimated, {runs})"
        numbers = {label: constant.value, "trend": list(trend), "basis": "estimated"}
        verdict: Verdict = "seems to fail" if low > STEADY else "seems to hold" if high <= STEADY else "open"
        if name == "3 belief" and facts.perfect_observation:
            verdict, estimate = "holds", "the belief is the state, whatever the kernel"
        elif proved:
            verdict, estimate = "holds", f"{lemma}; {estimate}"
        elif verdict == "seems to hold" and facts.blind_actions:
            verdict, estimate = "open", f"{estimate}; {_UNOBSERVED}"
        found.append(Aspect(name, verdict, estimate, numbers))
    return found[0], found[1]


def sensor_aspect(model: POMDP, facts: ModelStructure) -> Aspect:
    """Return whether observations distinguish all states."""
    names = model.setting.names
    groups = [[names.state(s) for s in group] for group in facts.indistinguishable_states]
    numbers = {
        "margin": facts.sensor_margin,
        "margins": list(facts.sensor_margins),
        "indistinguishable_states": groups,
        "blind_actions": [names.action(a) for a in facts.blind_actions],
    }
    if facts.sensor_margin > 0.0:
        message = f"observations distinguish all states, smallest singular value {facts.sensor_margin:.3g}"
        return Aspect("sensor", "holds", message, numbers)
    if len(facts.blind_actions) == model.n_actions:
        message = "observations contain no information about the state: nothing can be learned"
    elif groups:
        message = f"no observation distinguishes {' | '.join(', '.join(group) for group in groups[:3])}"
    else:
        message = "no full rank: single observations do not identify the distribution of the state"
    return Aspect("sensor", "fails", message, numbers)
