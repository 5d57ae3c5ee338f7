"""Periodic maintenance: one action at every step and another at every N-th, whatever the observations are.

With the usual action a and the service b, N steps of such a rule have the transition matrix P_a^(N−1) P_b and
the expected cost g = Σ_{k<N−1} P_a^k c_a + P_a^(N−1) c_b. If d = d P_a^(N−1) P_b is the stationary
distribution of the state at the start of a round of N steps, the average cost of the rule is exactly d·g / N.

`best_calendar` tries every pair of actions with every N up to a maximum, and every action alone. It uses the
true model, so that it stands for a rule that was tuned by long experience, as in many plants today. It is a
reference for comparisons: it learns nothing and ignores the observations.

If a model has several recurrent classes, d belongs to its initial distribution, as in `memoryless.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import msgspec
import numpy as np

from ..._serialization.archives import as_saved_agent
from ..._utils.arrays import Array
from ...errors import InvalidModelError
from ...inference.encoding import action_number
from ...models import POMDP
from .options import whole_number

_RESTART = 1e-9  # probability of a restart: too small to change costs noticeably, much above rounding errors
_LONGEST = 200  # the largest N that is tried
_WORK = 2e9  # limit of counted operations, which makes the largest N smaller for large models
_SAME = 1e-8  # if average costs differ by less, the rule with the smaller N is returned


@dataclass(frozen=True)
class Calendar:
    """`service` at every step whose number `every` divides, `usual` at all others.

    >>> [Calendar(every=3, usual=0, service=1, average_cost=0.5).action(t) for t in (1, 2, 3, 4, 5, 6)]
    [0, 0, 1, 0, 0, 1]
    """

    every: int  # N
    usual: int
    service: int
    average_cost: float  # in [0, 1], in the model that it was computed for

    def action(self, step: int) -> int:
        """Return the action of this step; steps count from 1."""
        return self.usual if step % self.every else self.service


@lru_cache(maxsize=8)
def best_calendar(
    model: POMDP, every: int = 0, usual: int | str = "", service: int | str = "", longest: int = _LONGEST
) -> Calendar:
    """Return the calendar rule of least average cost in `model`; `every` and the actions may be fixed.

    >>> from psrl_pomdp import problem
    >>> rule = best_calendar(problem("railway"))
    >>> rule.every, rule.usual, rule.service
    (4, 0, 1)
    """
    setting = model.setting
    every = whole_number("every", every, 0, 10**6)
    usuals = range(setting.n_actions) if usual == "" else [action_number(setting, usual)]
    services = range(setting.n_actions) if service == "" else [action_number(setting, service)]
    affordable = int(_WORK / (len(usuals) * len(services) * setting.n_states**3))
    longest = every or max(1, min(whole_number("longest", longest, 1, 10**6), affordable))
    rules = [
        rule
        for a in usuals
        for b in services
        for rule in _rules(model, a, b, longest)
        if not every or rule.every == every
    ]
    least = min(rule.average_cost for rule in rules)
    return min(
        (rule for rule in rules if rule.average_cost <= least + _SAME),
        key=lambda rule: (rule.every, rule.service, rule.usual),
    )


def _rules(model: POMDP, usual: int, service: int, longest: int) -> Iterator[Calendar]:
    """Yield the rules with these two actions; only N = 1 if the actions are the same."""
    if usual == service:
        longest = 1
    moves, cost, start = model.transition, model.setting.cost, model.setting.initial
    before, spent = np.eye(model.n_states), np.zeros(model.n_states)  # P_a^(N−1), Σ_{k<N−1} P_a^k c_a
    for every in range(1, longest + 1):
        round_cost = spent + before @ cost[service]
        shares = _shares(before @ moves[service], start)
        yield Calendar(every, usual, service, float(shares @ round_cost) / every)
        spent = spent + before @ cost[usual]
        before = before @ moves[usual]


def _shares(chain: Array, start: Array) -> Array:
    """Return the stationary distribution d = d P of the state at the start of a round."""
    chain = (1.0 - _RESTART) * chain + _RESTART * start
    # d (1 − P + J) = j for any matrix J of equal rows j; this system has exactly one solution.
    shares = np.maximum(np.linalg.solve((np.eye(len(start)) - chain + start).T, start), 0.0)
    return np.asarray(shares / shares.sum())


class CalendarAgent:
    """An agent that follows the best calendar rule, or the best with a given N or with given actions.

    >>> from psrl_pomdp import problem
    >>> agent = CalendarAgent(problem("railway"), every=3)
    >>> [agent.act(None) for _ in range(6)]
    [0, 0, 1, 0, 0, 1]
    """

    information: ClassVar[str] = "everything"

    def __init__(
        self, model: POMDP, *, every: int = 0, usual: int | str = "", service: int | str = ""
    ) -> None:
        if not isinstance(model, POMDP):
            raise InvalidModelError(f"a {type(model).__name__} is not a POMDP")
        self.rule = best_calendar(model, every, usual, service)
        self.time = 0  # actions chosen so far

    def act(self, observation: object) -> int:
        """Return the action of the next step, whatever the observation is."""
        self.time += 1
        return self.rule.action(self.time)

    def to_bytes(self) -> bytes:
        """Return everything that determines the agent's next actions."""
        return msgspec.json.encode({"rule": vars(self.rule), "time": self.time})

    @classmethod
    @as_saved_agent("agent")
    def from_bytes(cls, data: bytes) -> CalendarAgent:
        """Return an agent that continues exactly as the saved one would have."""
        metadata = msgspec.json.decode(data)
        rule = msgspec.convert(metadata["rule"], Calendar)
        if rule.every < 1 or rule.usual < 0 or rule.service < 0:
            raise ValueError(f"{rule} is not a calendar rule")
        agent = cls.__new__(cls)
        agent.rule = rule
        agent.time = msgspec.convert(metadata["time"], int)
        return agent
