"""The certificates of a plan in exact fractions.

Values and vectors may be any numbers, so theirs are taken as they are. Weights of points may not: the points
must not weigh more than the belief that they make up. In floating point they do by a rounding error, and are
therefore rounded down, and cut until they fit exactly; the states make up what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import singledispatch
from itertools import pairwise

import numpy as np

from ..._utils.arrays import Array
from ...models import POMDP
from ..certificate_checks import CertificateError
from ..lower.certificate import LowerCertificate
from ..lower.informed import InformedCertificate
from ..plan_record import PlanRecord
from .exact_check import exact_costs
from .parts import LowerProof, Proof, UpperProof, Uses, Whole, WholeModel, common_denominator, scaled
from .rational_model import RationalModel, Row, exact, sparse_row

WEIGHT_UNIT = 10**17  # weights are multiples of its inverse
EQUAL_GAINS = 1e-12  # gains whose distance is below this are taken for equal ones


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
    discount = None if discount is None or discount == 1.0 else exact(discount)
    upper, proofs, reason = _upper_proof(plan, rational), [], None
    for certificate in _with_other_gains(plan.grid, len(rational.reached)):
        proof = Proof(rational, upper, _lower_proof(certificate, rational, whole), discount)
        if certificate.gains is None:
            return proof
        try:
            proofs.append((exact_costs(proof)[0], proof))
        except CertificateError as error:
            reason = reason or error
    if not proofs:
        raise CertificateError(
            f"the bounds depend on the start, and the gains that prove them are right up to rounding only, "
            f"from which no exact proof follows: {reason}"
        )
    return max(proofs, key=lambda found: found[0])[1]


def _with_other_gains(
    certificate: LowerCertificate | InformedCertificate, n_states: int
) -> Iterator[LowerCertificate | InformedCertificate]:
    """Yield a certificate, and the same one with gains that may be right where its own are a rounding off.

    Beliefs that follow one another for ever need equal gains, but the vertices that make up what rounding
    leaves of a belief may have less by a rounding error.
    """
    yield certificate
    gains = certificate.gains
    if gains is None:
        return
    order = np.argsort(gains, kind="stable")
    first = np.diff(gains[order], prepend=-np.inf) > EQUAL_GAINS
    equal = np.empty_like(gains)
    equal[order] = gains[order][first][np.cumsum(first) - 1]
    yield replace(certificate, gains=equal)
    if isinstance(certificate, LowerCertificate):
        yield replace(certificate, gains=equal[:n_states])


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
    gains = None if grid.gains is None else _gains_of_places(grid.gains, fitting.points, n_states)
    at_start = grid.values if gains is None else np.array(gains, dtype=np.float64)
    start = _start_weights(fitting, model, at_start[:, None])
    return LowerProof(fitting.points, [[exact(value)] for value in grid.values], gains, weights, start)


@_lower_proof.register
def _(informed: InformedCertificate, model: RationalModel, whole: WholeModel) -> LowerProof:
    n_states, points = len(model.reached), informed.points
    ends = points.indptr
    rows = [
        dict(zip(points.indices[i:j].tolist(), map(exact, points.data[i:j]), strict=True))
        for i, j in pairwise(ends)
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
    gains = None if informed.gains is None else _gains_of_places(informed.gains, rows, n_states)
    start = _start_weights(fitting, model, informed.values)
    return LowerProof(fitting.points, _table(informed.values), gains, weights, start)


def _gains_of_places(gains: Array, points: list[Row], n_states: int) -> list[Fraction]:
    """Return the gains of states and points. Those of states alone are linear: the others follow."""
    found = [exact(gain) for gain in gains[:n_states]]
    for k, row in enumerate(points):
        if len(gains) == n_states:
            found.append(sum((x * found[s] for s, x in row.items()), start=Fraction(0)))
        else:  # a point weighs what its coordinates sum to
            found.append(exact(gains[n_states + k]) * sum(row.values(), start=Fraction(0)))
    return found


class Fitting:
    """Fits weights of points to next beliefs exactly."""

    def __init__(self, points: list[Row], n_states: int, model: WholeModel) -> None:
        self.points = points
        self.n_states = n_states
        self.model = model
        self.unit = common_denominator(x for row in points for x in row.values())
        self.whole = [{s: scaled(x, self.unit) for s, x in row.items()} for row in points]

    def fit(self, place: int, action: int, wanted: dict[int, dict[int, float]], *, normalized: bool) -> Uses:
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
