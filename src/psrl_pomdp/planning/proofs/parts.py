"""The parts of a proof in exact fractions, and probabilities in whole numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from .rational_model import RationalModel, Row

Whole = dict[int, int]  # a row in whole numbers
Uses = dict[int, Row]  # for each observation the weights of points in the next belief


@dataclass(frozen=True)
class UpperProof:
    """A controller with vectors, and gains where the bound depends on the start."""

    actions: list[int]  # [N]
    successors: list[list[int]]  # [N][O]
    vectors: list[list[Fraction]]  # [N][S]
    gains: list[list[Fraction]] | None  # [N][S]
    start: list[int]  # a node for each first observation


@dataclass(frozen=True)
class LowerProof:
    """Values at places (the states, and then the points), and how points make up the next beliefs.

    Doubles of a point do not sum to exactly one. Its value and its gain are for the point as it is.
    """

    points: list[Row]
    values: list[list[Fraction]]  # [places][1, or A]
    gains: list[Fraction] | None  # [places]
    weights: list[list[Uses]]  # [places][A]
    start: list[Row]  # the weights of points in each first belief


@dataclass(frozen=True)
class Proof:
    """A model and both sides of the proof; states are numbered among those that the start can reach."""

    model: RationalModel
    upper: UpperProof
    lower: LowerProof
    discount: Fraction | None


class WholeModel:
    """The probabilities of a model in whole numbers, on the states that its start can reach."""

    def __init__(self, model: RationalModel) -> None:
        place = {s: k for k, s in enumerate(model.reached)}
        rows = [
            [{(place[t], o): p for (t, o), p in model.after(s, a).items()} for s in model.reached]
            for a in range(len(model.cost))
        ]
        self.unit = common_denominator(p for kernel in rows for row in kernel for p in row.values())
        self.rows = [
            [{key: scaled(p, self.unit) for key, p in row.items()} for row in kernel] for kernel in rows
        ]

    def after(self, belief: Whole, action: int) -> dict[int, Whole]:
        """Return `unit` times the unnormalized next belief for each observation that can come."""
        found: dict[int, Whole] = {}
        rows = self.rows[action]
        for s, mass in belief.items():
            for (t, o), p in rows[s].items():
                there = found.setdefault(o, {})
                there[t] = there.get(t, 0) + mass * p
        return found


def scaled(value: Fraction, unit: int) -> int:
    """Return a fraction in whole multiples of 1 / unit."""
    return value.numerator * (unit // value.denominator)


def common_denominator(values: Iterable[Fraction]) -> int:
    """Return a number that all denominators divide."""
    unit = 1
    for value in values:
        if unit % value.denominator:
            unit = lcm(unit, value.denominator)
    return unit
