"""Why an agent chose an action: numbers for programs, and a few sentences for people."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils.arrays import Array
from ..errors import OutOfOrderError
from ..inference.encoding import is_lost, reading_number
from ..inference.learned_tables import interval
from ..inference.model_fit import ModelFit
from ..models import Setting, Units
from ..protocols import WeightedKernels
from . import reporting
from .current_episode import CurrentEpisode

if TYPE_CHECKING:
    from .fleet import Fleet
    from .learner import Learner
    from .psrl import PSRLAgent

LEVEL = 0.9  # of intervals
_MOST_STATES = 3  # that sentences name
_UNLIKELY = 0.005  # states that are less probable are not named
_DIFFERENT = 0.05  # beliefs that differ less are called alike
_MISSING = "missing"
CAREFUL = "Be careful."  # before what the test of the model says
CAREFUL_LEVEL = 0.01  # its level


@dataclass(frozen=True)
class Explanation:
    """Why an action was chosen.

    Costs are in the user's units. `str()` gives a few sentences, `to_dict()` plain data with names.

    >>> from psrl_pomdp import PSRLAgent, problem
    >>> agent = PSRLAgent(problem("tiger").prior, seed=1)
    >>> action = agent.act(None)
    >>> why = agent.explain()
    >>> why.action == agent.setting.names.action(action), why.step
    (True, 1)
    """

    unit: str | None  # None for an agent of one system
    step: int  # the number of observations of the unit so far
    action: str  # what was done last
    chosen: str  # what the plan chose; it differs from `action` if someone overrode the choice
    observed: str | None  # the last observation in words, "missing", or None if it was not kept
    states: tuple[str, ...]
    actions: tuple[str, ...]
    belief: Array  # [S]: the posterior probability of each state
    belief_lower: Array  # [S]: how low this probability is under the models held possible (a 90 % interval)
    belief_upper: Array  # [S]
    sampled_belief: Array  # [S]: the probability of each state under the sampled model θ_k
    costs: Array  # [A]: the expected cost of each action now, under θ_k
    # [A]: how much more each action costs in the long run than the chosen one, under θ_k. NaN if the plan
    # does not say it, or if there is no plan yet.
    advantages: Array
    lower: float | None  # the certified interval of the smallest average cost under θ_k; None without a plan
    upper: float | None
    late: bool  # whether the plan was made for an earlier sample, because the next plan has not come yet
    units: Units
    fit: ModelFit | None = None  # whether readings came as they were predicted

    def to_dict(self) -> dict[str, Any]:
        """Return plain data with names, for JSON; a number that does not exist is None."""
        return {
            "unit": self.unit,
            "step": self.step,
            "action": self.action,
            "chosen": self.chosen,
            "observed": self.observed,
            "states": {
                name: {
                    "probability": float(self.belief[s]),
                    "interval": [float(self.belief_lower[s]), float(self.belief_upper[s])],
                    "under_the_sample": float(self.sampled_belief[s]),
                }
                for s, name in enumerate(self.states)
            },
            "actions": {
                name: {"now": _number_or_none(self.costs[a]), "long_run": _number_or_none(self.advantages[a])}
                for a, name in enumerate(self.actions)
            },
            "bounds": None if self.lower is None else [self.lower, self.upper],
            "kind": self.units.kind,
            "money": self.units.name,
            "late": self.late,
            "overridden": self.overridden,
            "fit": None if self.fit is None else str(self.fit),
            "text": str(self),
        }

    @property
    def overridden(self) -> bool:
        """Whether another action than the chosen one was taken."""
        return self.action != self.chosen

    def __str__(self) -> str:
        """Return a few sentences."""
        parts = (self._what(), self._where(), self._costs(), self._bounds(), self._sureness(), *self._notes())
        return " ".join(part for part in parts if part)

    # -- sentences ------------------------------------------------------------------------------

    def _what(self) -> str:
        who = "" if self.unit is None else f"{self.unit}, "
        seen = ""
        if self.observed == _MISSING:
            seen = ", after a missing observation"
        elif self.observed is not None:
            seen = f", after {self.observed}"
        text = f"{who}step {self.step}: {self.chosen}{seen}."
        text = text[0].upper() + text[1:]
        return text + (f" But {self.action} was done instead." if self.overridden else "")

    def _where(self) -> str:
        order = np.argsort(-self.belief, kind="stable")
        named = [int(s) for s in order[:_MOST_STATES] if self.belief[s] >= _UNLIKELY]
        listed = [f"{self.states[s]} with {_percent(self.belief[s])}" for s in named]
        rest = 1.0 - float(self.belief[named].sum())
        if rest >= _UNLIKELY:
            listed.append(f"another one with {_percent(rest)}")
        return f"The state is {_joined(listed)}."

    def _costs(self) -> str:
        units = self.units
        verb = "costs" if units.kind == "cost" else "brings"
        known = [a for a in range(len(self.actions)) if math.isfinite(self.costs[a])]
        now = [f"{self.actions[a]} {verb} {_money(self.costs[a], units.name)}" for a in known]
        text = f"In this step {_joined(now)}." if now else ""
        others = [
            a
            for a, name in enumerate(self.actions)
            if name != self.chosen and math.isfinite(self.advantages[a])
        ]
        if not others:
            return text
        worse = "costs {} more" if units.kind == "cost" else "brings {} less"
        long_run = [
            f"{self.actions[a]} {worse.format(_money(self.advantages[a], units.total_name))}"
            if self.advantages[a] > 0.0
            else f"{self.actions[a]} is as good"
            for a in others
        ]
        return f"{text} In the long run {_joined(long_run)} than {self.chosen}.".strip().replace(
            "is as good than", "is as good as"
        )

    def _bounds(self) -> str:
        if self.lower is None or self.upper is None:
            return "There is no plan yet: this action has the least expected cost in this step."
        kind, name = self.units.kind, self.units.average_name
        best = "smallest" if kind == "cost" else "largest"
        low, high = _pair(self.lower, self.upper, name)
        return f"It is proved that for the sampled model the {best} average {kind} is from {low} to {high}."

    def _sureness(self) -> str:
        s = int(np.argmax(self.belief))
        low, high = _percent(self.belief_lower[s]), _percent(self.belief_upper[s])
        name = self.states[s]
        text = f"Between the models held possible, the probability of {name} ranges from {low} to {high}"
        if low == high:
            text = f"All models held possible agree on the probability of {name}"
        difference = 0.5 * float(np.abs(self.sampled_belief - self.belief).sum())
        if difference < _DIFFERENT:
            return text + "."
        own = _percent(self.sampled_belief[s])
        return f"{text}; the sampled model, on which the action is based, gives {own}."

    def _notes(self) -> list[str]:
        notes = []
        if self.late and self.lower is not None:
            notes.append("The next plan is being made; until it comes, the present one is followed.")
        if self.fit is not None and self.fit.alarm(CAREFUL_LEVEL):
            notes.append(f"{CAREFUL} {self.fit}")
        return notes


# -- of agents and units ------------------------------------------------------------------------------


def explain_agent(agent: PSRLAgent) -> Explanation:
    """Return why an agent of one system chose its last action."""
    if agent.action is None or not agent.current_episode.number:
        raise OutOfOrderError("explain: no action was chosen so far")
    actions = agent.action, agent.action
    words = "" if agent.observed is None else observation_words(agent.setting, *agent.observed)
    return _explained(agent, agent.current_episode, agent.posterior, actions, words or None)


def explain_unit(fleet: Fleet, name: str) -> Explanation:
    """Return why a unit of a fleet has its last action."""
    unit = fleet.unit(name)
    if unit.action is None:
        raise OutOfOrderError(f"explain: no action was chosen for unit {name!r} so far")
    chosen = unit.action if unit.chosen is None else unit.chosen
    return _explained(
        fleet, unit.episode, unit.posterior, (unit.action, chosen), unit.observed or None, name, unit.late
    )


def _explained(
    agent: Learner,
    now: CurrentEpisode | None,
    posterior: Any,
    actions: tuple[int, int],
    observed: str | None,
    unit: str | None = None,
    late: bool = False,
) -> Explanation:
    """Return the explanation of `actions`, what was done and what the plan chose, in the episode `now`."""
    setting = agent.setting
    states, action_names = labels_of(setting)
    if isinstance(posterior, WeightedKernels):
        held = posterior.weights > 0.0
        weights, beliefs = posterior.weights[held], posterior.beliefs[held]
        belief = np.asarray(weights @ beliefs)
        lower, upper = interval(beliefs.T, weights / weights.sum(), LEVEL)
    else:
        assert now is not None
        belief = lower = upper = now.belief
    if now is None:
        sampled, bounds = belief, None
        costs = np.asarray(setting.units.from_scaled(setting.cost @ belief))
        advantages = np.full(setting.n_actions, np.nan)
    else:
        info = reporting.info_at(agent, now, actions[1], posterior.expected_counts)
        sampled, costs, advantages = info.belief, info.costs, info.advantages
        bounds = float(now.plan.lower), float(now.plan.upper)
    fit = getattr(posterior, "fit", None)
    return Explanation(
        unit=unit,
        step=int(getattr(posterior, "time", agent.time)),
        action=action_names[actions[0]],
        chosen=action_names[actions[1]],
        observed=observed,
        states=states,
        actions=action_names,
        belief=belief,
        belief_lower=lower,
        belief_upper=upper,
        sampled_belief=sampled,
        costs=costs,
        advantages=advantages,
        lower=None if bounds is None else bounds[0],
        upper=None if bounds is None else bounds[1],
        late=late,
        units=setting.units,
        fit=fit if isinstance(fit, ModelFit) else None,
    )


def observation_words(setting: Setting, observation: Any, first: bool = False) -> str:
    """Return an observation that has been accepted in words; an empty string if none is expected."""
    if is_lost(observation):
        return "" if first else _MISSING
    if setting.is_finite:
        name = setting.names.observation(reading_number(setting, observation))
        return name if setting.names.observations else f"observation {name}"
    values = np.asarray(observation, dtype=np.float64)
    if values.ndim and np.isnan(values).all():
        return _MISSING
    return "a reading of " + ", ".join(f"{value:.6g}" for value in values.ravel())


def labels_of(setting: Setting) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of states and actions, or for example `state 2`."""
    names = setting.names
    states = tuple(("" if names.states else "state ") + names.state(s) for s in range(setting.n_states))
    actions = tuple(("" if names.actions else "action ") + names.action(a) for a in range(setting.n_actions))
    return states, actions


def _percent(share: float) -> str:
    if 0.0 < share < 0.01 or 0.99 < share < 1.0:
        return f"{100 * share:.1f} %"
    return f"{100 * share:.0f} %"


def _money(value: float, name: str) -> str:
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{text} {name}".strip()


def _pair(lower: float, upper: float, name: str) -> tuple[str, str]:
    """Return both ends with so many digits that they can be told apart."""
    for digits in range(4, 8):
        low, high = f"{lower:,.{digits}g}", f"{upper:,.{digits}g}"
        if low != high:
            break
    return low, f"{high} {name}".strip()


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _number_or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
