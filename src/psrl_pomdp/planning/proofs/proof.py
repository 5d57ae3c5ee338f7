"""The certificates of a plan in exact fractions.

Values and vectors may be any numbers, so theirs are taken as they are. Weights of points may not: the points
must not weigh more than the belief that they make up. In floating point they do by a rounding error, and are
therefore rounded down, and cut until they fit exactly; the states make up what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from math import lcm

import numpy as np

from ..._utils.arrays import Array
from ...models import POMDP
from ..certificate_checks import CertificateError
from ..lower.certificate import LowerCertificate
from ..lower.informed import InformedCertificate
from ..plan_record import PlanRecord
from .rational_model import RationalModel, Row, exact, sparse_row

WEIGHT_UNIT = 10**17  # weights are multiples of its inverse

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


def proof_of(plan: PlanRecord, model: POMDP) -> Proof:
    """Return the certificates of a plan in exact fractions, for the model in exact fractions.

    Raises `CertificateError` where the plan has none that can be written down.
    """
    if plan.fingerprint != model.fingerprint:
        raise CertificateError("the plan was made for another model")
    if plan.estimate is not None:
        raise CertificateError("the bounds of this plan are estimates, which nothing certifies")
    if plan.bracket is not None or not model.setting.is_finite:
        raise CertificateError(
            "the plan is for a density of observations: its proof needs integrals of the density, which no "
            "fractions express. Plan for a finite model, such as setting.quantized(16), and prove that"
        )
    rational = RationalModel.of(model)
    if plan.states != rational.reached:
        raise CertificateError("the plan's states are not those of the model")
    whole = WholeModel(rational)
    discount = getattr(plan, "discount", None)
    return Proof(
        rational,
        _upper_proof(plan, rational),
        _lower_proof(plan.grid, rational, whole),
        None if discount is None or discount == 1.0 else exact(discount),
    )


def _table(rows: Array) -> list[list[Fraction]]:
    return [[exact(value) for value in row] for row in rows]


def _upper_proof(plan: PlanRecord, model: RationalModel) -> UpperProof:
    controller = plan.controller
    at_start = controller.vectors if controller.gains is None else controller.gains
    starts = dense(model.first_beliefs(), controller.vectors.shape[1])
    return UpperProof(
        controller.actions.tolist(),
        controller.successors.tolist(),
        _table(controller.vectors),
        None if controller.gains is None else _table(controller.gains),
        (starts @ at_start.T).argmin(axis=1).tolist(),
    )


def dense(rows: Sequence[Row], n_states: int) -> Array:
    """Return rows as an array of doubles."""
    found = np.zeros((len(rows), n_states))
    for k, row in enumerate(rows):
        for s, value in row.items():
            found[k, s] = float(value)
    return found


@singledispatch
def _lower_proof(certificate: object, model: RationalModel, whole: WholeModel) -> LowerProof:
    raise CertificateError(f"a {type(certificate).__name__} has no exact proof")


@_lower_proof.register
def _(grid: LowerCertificate, model: RationalModel, whole: WholeModel) -> LowerProof:
    n_states = len(model.reached)
    fitting = Fitting([sparse_row(point) for point in grid.points[n_states:]], n_states, whole)
    weights: list[list[Uses]] = []
    for i in range(len(grid)):
        of_place: list[Uses] = []
        for a in range(len(model.cost)):
            basis, shares = grid.basis[i, a], grid.weights[i, a]
            wanted: dict[int, dict[int, float]] = {}
            for o, k in zip(*np.nonzero((basis >= n_states) & (shares > 0.0)), strict=True):
                of_observation = wanted.setdefault(int(o), {})
                point = int(basis[o, k]) - n_states
                of_observation[point] = of_observation.get(point, 0.0) + float(shares[o, k])
            of_place.append(fitting.fit(i, a, wanted, normalized=True))
        weights.append(of_place)
    gains = None
    if grid.gains is not None:  # a point weighs what its coordinates sum to
        gains = [exact(gain) for gain in grid.gains]
        for k, row in enumerate(fitting.points):
            gains[n_states + k] *= sum(row.values(), start=Fraction(0))
    at_start = grid.values if grid.gains is None else grid.gains
    start = _start_weights(fitting, model, at_start[:, None])
    return LowerProof(fitting.points, [[exact(value)] for value in grid.values], gains, weights, start)


@_lower_proof.register
def _(informed: InformedCertificate, model: RationalModel, whole: WholeModel) -> LowerProof:
    n_states, points = len(model.reached), informed.points
    ends = points.indptr
    rows = [
        dict(zip(points.indices[i:j].tolist(), map(exact, points.data[i:j]), strict=True))
        for i, j in zip(ends[:-1], ends[1:], strict=True)
    ]
    rows = [dict(sorted((s, x) for s, x in row.items() if x)) for row in rows]
    fitting = Fitting(rows, n_states, whole)
    wanted: dict[tuple[int, int], dict[int, dict[int, float]]] = {}
    for (a, i, o, k), share in zip(informed.uses.tolist(), informed.shares.tolist(), strict=True):
        of_observation = wanted.setdefault((i, a), {}).setdefault(o, {})
        of_observation[k] = of_observation.get(k, 0.0) + share
    weights = [
        [fitting.fit(i, a, wanted.get((i, a), {}), normalized=False) for a in range(len(model.cost))]
        for i in range(len(informed))
    ]
    gains = None
    if informed.gains is not None:  # linear, and so those of the points follow
        gains = [exact(gain) for gain in informed.gains]
        for row in rows:
            gains.append(sum((x * gains[s] for s, x in row.items()), start=Fraction(0)))
    start = _start_weights(fitting, model, informed.values)
    return LowerProof(fitting.points, _table(informed.values), gains, weights, start)


class Fitting:
    """Fits weights of points to next beliefs exactly."""

    def __init__(self, points: list[Row], n_states: int, model: WholeModel) -> None:
        self.points = points
        self.n_states = n_states
        self.model = model
        self.unit = common_denominator(x for row in points for x in row.values())
        self.whole = [{s: scaled(x, self.unit) for s, x in row.items()} for row in points]

    def fit(
        self, place: int, action: int, wanted: dict[int, dict[int, float]], *, normalized: bool
    ) -> Uses:
        """Return weights of points in the next beliefs of a place, near the wanted ones.

        Parameters
        ----------
        place
            The number of a state, or that of a point after the states.
        action
            The action.
        wanted
            For each observation the weights of points.
        normalized
            Whether `wanted` is about beliefs that sum to one, and not to the probability of the observation.
        """
        if not wanted:
            return {}
        here = {place: self.unit} if place < self.n_states else self.whole[place - self.n_states]
        found: Uses = {}
        after = self.model.after(here, action)
        for o, shares in wanted.items():
            if o not in after:
                continue
            size = sum(after[o].values()) / (self.unit * self.model.unit) if normalized else 1.0
            fitted = self.cut({k: w * size for k, w in shares.items()}, after[o], self.model.unit)
            if fitted:
                found[o] = fitted
        return found

    def cut(self, shares: dict[int, float], belief: Whole, size: int) -> Row:
        """Return weights of points, cut until their sum is nowhere above the belief.

        The belief is in multiples of 1 / (`unit` · size).
        """
        weights = {k: int(w * WEIGHT_UNIT) for k, w in shares.items() if w > 0.0}
        total: Whole = {}
        for k, w in weights.items():
            for s, x in self.whole[k].items():
                total[s] = total.get(s, 0) + w * x
        for s in total:
            # The point with the most in this state gives way first, as in the planner.
            most = belief.get(s, 0) * WEIGHT_UNIT // size
            while total[s] > most:
                k = max((k for k in weights if weights[k] and s in self.whole[k]),
                        key=lambda k: weights[k] * self.whole[k][s])  # fmt: skip
                less = min(weights[k], -((most - total[s]) // self.whole[k][s]))
                weights[k] -= less
                for t, x in self.whole[k].items():
                    total[t] -= less * x
        return {k: Fraction(w, WEIGHT_UNIT) for k, w in sorted(weights.items()) if w}


def _start_weights(fitting: Fitting, model: RationalModel, at_places: Array) -> list[Row]:
    """Return for each first belief the weight of one point, where that is better than the states alone."""
    found: list[Row] = []
    n_states, beliefs = fitting.n_states, model.first_beliefs()
    points = dense(fitting.points, n_states)
    base = points @ at_places[:n_states]
    for row, belief in zip(beliefs, dense(beliefs, n_states), strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(points > 0.0, belief / points, np.inf)
        most = ratios.min(axis=1, initial=np.inf)
        usable = most > 0.0
        worth = np.where(usable, most, 0.0)[:, None] * (at_places[n_states:] - base)
        values = (worth + belief @ at_places[:n_states]).min(axis=1)
        if not len(values) or not usable[values.argmax()]:
            found.append({})
            continue
        best = int(values.argmax())
        size = common_denominator(row.values())
        whole = {s: scaled(p, size) * fitting.unit for s, p in row.items()}
        found.append(fitting.cut({best: float(most[best])}, whole, size))
    return found
