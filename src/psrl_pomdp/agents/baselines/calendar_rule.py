"""Maintenance by the calendar: one action again and again, and every N-th time another, whatever is read.

With the usual action a and the service b, N steps of such a rule move the state by P_a^(N−1) P_b and cost
g = Σ_{k<N−1} P_a^k c_a + P_a^(N−1) c_b in expectation. With d the long-run shares of the states in which a
round of N steps begins, d = d P_a^(N−1) P_b, the average cost of the rule is d·g / N, exactly.

`best_calendar` tries every pair of actions and every N up to a longest one, and every action alone. It is
computed from the true model, so that it is a rule which long experience has tuned: what many plants do today,
at its best. It is a yardstick, not a learner; what it does not do is look at the readings.

Where a model has several recurrent classes, d is about its own start, as in `memoryless.py`.
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

_RESTART = 1e-9  # chance that a round starts over: far below what matters, far above rounding
_LONGEST = 200  # steps of a round that are tried
_WORK = 2e9  # counted operations that trying may cost: large models get shorter rounds
_SAME = 1e-8  # average costs that differ by less are the same, and the shorter round is taken


@dataclass(frozen=True)
class Calendar:
    """`service` at every step whose number `every` divides, `usual` at all others.

    >>> [Calendar(every=3, usual=0, service=1, average_cost=0.5).action(t) for t in (1, 2, 3, 4, 5, 6)]
    [0, 0, 1, 0, 0, 1]
    """

    every: int  # N
    usual: int
    service: int
    average_cost: float  # scaled, in the model that it was made for

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
    found = [
        rule
        for a in usuals
        for b in services
        for rule in _rules(model, a, b, longest)
        if not every or rule.every == every
    ]
    least = min(rule.average_cost for rule in found)
    return min(
        (rule for rule in found if rule.average_cost <= least + _SAME),
        key=lambda rule: (rule.every, rule.service, rule.usual),
    )


def _rules(model: POMDP, usual: int, service: int, longest: int) -> Iterator[Calendar]:
    """Every rule of these two actions, with its average cost; of one action alone, only N = 1."""
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
    """Return how often a round begins in each state, in the long run: d = d P."""
    chain = (1.0 - _RESTART) * chain + _RESTART * start
    # d (1 − P + J) = j for any matrix J of equal rows j: with it the system has one solution.
    shares = np.maximum(np.linalg.solve((np.eye(len(start)) - chain + start).T, start), 0.0)
    return np.asarray(shares / shares.sum())


class CalendarAgent:
    """Plays the best calendar rule, or the best with a given N or with given actions; it reads nothing.

    >>> from psrl_pomdp import problem
    >>> agent = CalendarAgent(problem("railway"), every=3)
    >>> [agent.act(None) for _ in range(6)]
    [0, 0, 1, 0, 0, 1]
    """

    told: ClassVar[str] = "everything"

    def __init__(
        self, model: POMDP, *, every: int = 0, usual: int | str = "", service: int | str = ""
    ) -> None:
        if not isinstance(model, POMDP):
            raise InvalidModelError(f"a {type(model).__name__} is not a POMDP")
        self.rule = best_calendar(model, every, usual, service)
        self.time = 0  # actions chosen so far

    def act(self, observation: object) -> int:
        """Return the action of the next step; what was read does not matter."""
        self.time += 1
        return self.rule.action(self.time)

    def to_bytes(self) -> bytes:
        """Return everything that decides how it goes on."""
        return msgspec.json.encode({"rule": vars(self.rule), "time": self.time})

    @classmethod
    @as_saved_agent("agent")
    def from_bytes(cls, data: bytes) -> CalendarAgent:
        """Return an agent that goes on exactly as the saved one would have."""
        words = msgspec.json.decode(data)
        rule = msgspec.convert(words["rule"], Calendar)
        if rule.every < 1 or rule.usual < 0 or rule.service < 0:
            raise ValueError(f"{rule} is no calendar")
        agent = cls.__new__(cls)
        agent.rule = rule
        agent.time = msgspec.convert(words["time"], int)
        return agent
