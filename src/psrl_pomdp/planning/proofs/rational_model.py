"""A model in exact fractions.

A double is read as the shortest decimal number that stands for it: the double nearest to 0.85 becomes 85/100,
which is what somebody wrote. The decimals of a row of probabilities that was computed may not sum to one.
They are then rounded to 15 digits after the point; if these do not sum to one either, the largest entry takes
what is missing from the sum of all digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..._utils.arrays import Array
from ...models import POMDP, Setting
from ...models.structure import reachable
from ..certificate_checks import CertificateError

Row = dict[int, Fraction]  # the entries that are not zero

_ROUNDED_DIGITS = 15  # after the point, of probabilities such as 1 − 0.85, which is 0.15000000000000002
_ROW_ERROR = Fraction(1, 10**9)  # by which the decimals of a row may miss one


def exact(value: float) -> Fraction:
    """Return the shortest decimal number that stands for a double."""
    return Fraction(repr(float(value)))


def sparse_row(values: Array) -> Row:
    """Return the entries of an array [n] that are not zero."""
    return {int(k): exact(values[k]) for k in np.flatnonzero(values)}


def distribution(values: Array) -> Row:
    """Return probabilities that sum to exactly one."""
    row = sparse_row(values)
    missing = 1 - sum(row.values(), start=Fraction(0))
    if missing:
        rounded = {k: round(p, _ROUNDED_DIGITS) for k, p in row.items()}
        if all(rounded.values()) and sum(rounded.values(), start=Fraction(0)) == 1:
            return rounded
        if abs(missing) > _ROW_ERROR:
            raise CertificateError(f"probabilities sum to {float(1 - missing)!r}: no rounding explains that")
        row[max(row, key=lambda k: row[k])] += missing
    return row


@dataclass(frozen=True)
class RationalModel:
    """A model with a finite number of observations in exact fractions; all states, also unreachable ones."""

    setting: Setting
    initial: Row
    first: list[Row] | None  # by state
    transition: list[list[Row]]  # [A][S]
    observation: list[list[Row]] | None  # [A][S'], unless it depends on the state before the action
    observation_from: list[list[list[Row]]] | None  # [A][S][S'], empty where s′ cannot follow s
    cost: list[list[Fraction]]  # [A][S], in [0, 1]
    reached: tuple[int, ...]  # the states that the start can reach

    @classmethod
    def of(cls, model: POMDP) -> RationalModel:
        """Return a model in fractions, or raise `CertificateError`."""
        setting = model.setting
        table, first = setting.joint_observation, setting.first_observation
        observation, observation_from = None, None
        transition = [[distribution(row) for row in kernel] for kernel in model.transition]
        if table.ndim == 4:
            observation_from = [
                [[distribution(table[a, s, t]) if t in row else {} for t in range(model.n_states)]
                 for s, row in enumerate(kernel)]
                for a, kernel in enumerate(transition)
            ]  # fmt: skip
        else:
            observation = [[distribution(row) for row in of_action] for of_action in table]
        possible = np.asarray((model.transition > 0).any(axis=0))
        return cls(
            setting,
            distribution(setting.initial),
            None if first is None else [distribution(row) for row in first],
            transition,
            observation,
            observation_from,
            [[exact(value) for value in row] for row in setting.cost],
            tuple(reachable(possible, setting.initial > 0)),
        )

    @property
    def n_observations(self) -> int:
        """The number of observations, seen costs included."""
        return self.setting.n_joint_observations

    def after(self, state: int, action: int) -> dict[tuple[int, int], Fraction]:
        """Return the probability of each next state and observation, by their numbers in the model."""
        found = {}
        for t, p in self.transition[action][state].items():
            if self.observation_from is not None:
                seen = self.observation_from[action][state][t]
            else:
                assert self.observation is not None
                seen = self.observation[action][t]
            for o, q in seen.items():
                found[t, o] = p * q
        return found

    def first_beliefs(self) -> list[Row]:
        """Return the belief before the first action times its probability, for each first observation.

        The states are numbered among the reached ones.
        """
        place = {s: k for k, s in enumerate(self.reached)}
        if self.first is None:
            return [{place[s]: p for s, p in self.initial.items()}]
        found: list[Row] = [{} for _ in range(self.n_observations)]
        for s, p in self.initial.items():
            for o, q in self.first[s].items():
                found[o][place[s]] = p * q
        return found
