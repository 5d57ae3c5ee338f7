"""What a proof proves, in exact fractions: `verify(plan, model, exact=True)`."""

from __future__ import annotations

from fractions import Fraction

from ..certificate_checks import CertificateError
from .parts import LowerProof, Proof, UpperProof, Whole, WholeModel, common_denominator, scaled
from .rational_model import Row

ZERO = Fraction(0)


def exact_costs(proof: Proof) -> tuple[Fraction, Fraction]:
    """Return the bounds on the optimal scaled cost that a proof proves: an average, or a discounted total.

    Raises `CertificateError` where gains are not proved.
    """
    whole = WholeModel(proof.model)
    cost = [[row[s] for s in proof.model.reached] for row in proof.model.cost]
    starts = proof.model.first_beliefs()
    discount = proof.discount
    lower = _Lower(proof.lower, whole, cost, discount).bound(starts)
    upper = _upper(proof.upper, whole, cost, starts, discount)
    total = Fraction(1) if discount is None else 1 / (1 - discount)
    lower = max(lower, min(map(min, cost)) * total)
    upper = min(upper, max(map(max, cost)) * total)
    if lower > upper:
        raise CertificateError(f"the certificates contradict each other: {float(lower)} > {float(upper)}")
    return lower, upper


def exact_interval(proof: Proof) -> tuple[Fraction, Fraction]:
    """Return the bounds that a proof proves in the user's units."""
    return in_units(proof, *exact_costs(proof))


def in_units(proof: Proof, lower: Fraction, upper: Fraction) -> tuple[Fraction, Fraction]:
    """Return bounds on scaled costs in the user's units."""
    units = proof.model.setting.units
    low, high = Fraction(repr(units.low)), Fraction(repr(units.high))
    total = Fraction(1) if proof.discount is None else 1 / (1 - proof.discount)
    if units.kind == "reward":
        return high * total - (high - low) * upper, high * total - (high - low) * lower
    return low * total + (high - low) * lower, low * total + (high - low) * upper


def _upper(
    proof: UpperProof,
    model: WholeModel,
    cost: list[list[Fraction]],
    starts: list[Row],
    discount: Fraction | None,
) -> Fraction:
    """Return the bound that a controller proves."""
    n_states = len(cost[0])
    gains = proof.gains or [[ZERO] * n_states] * len(proof.actions)
    factor = Fraction(1) if discount is None else discount
    follow = _after_nodes(proof, model, proof.vectors)
    gain_follow = _after_nodes(proof, model, gains) if proof.gains else gains
    error = None
    for n, a in enumerate(proof.actions):
        for s in range(n_states):
            if gain_follow[n][s] > gains[n][s]:
                raise CertificateError(f"the gain of node {n} and state {s} is below what follows it")
            here = cost[a][s] + factor * follow[n][s] - proof.vectors[n][s] - gains[n][s]
            error = here if error is None else max(error, here)
    assert error is not None
    table = gains if discount is None else proof.vectors
    at_start = sum(
        (p * table[n][s] for n, b in zip(proof.start, starts, strict=True) for s, p in b.items()), start=ZERO
    )
    return at_start + error / (1 if discount is None else 1 - discount)


def _after_nodes(proof: UpperProof, model: WholeModel, table: list[list[Fraction]]) -> list[list[Fraction]]:
    """Return the expectation of a table [N][S] after each node and state."""
    unit = common_denominator(x for row in table for x in row)
    whole = [[scaled(x, unit) for x in row] for row in table]
    found = []
    for a, successors in zip(proof.actions, proof.successors, strict=True):
        sums = [sum(p * whole[successors[o]][t] for (t, o), p in row.items()) for row in model.rows[a]]
        found.append([Fraction(x, unit * model.unit) for x in sums])
    return found


class _Lower:
    """The lower side of a proof, in whole numbers."""

    def __init__(
        self, proof: LowerProof, model: WholeModel, cost: list[list[Fraction]], discount: Fraction | None
    ) -> None:
        self.proof, self.model, self.cost, self.discount = proof, model, cost, discount
        self.n_states = len(cost[0])
        self.unit = common_denominator(x for point in proof.points for x in point.values())
        vertices = [{s: self.unit} for s in range(self.n_states)]
        self.places = vertices + [
            {s: scaled(x, self.unit) for s, x in point.items()} for point in proof.points
        ]
        gains = proof.gains or [ZERO] * len(self.places)
        # Gains and values together: the gain comes first.
        self.value_unit = common_denominator(x for row in (gains, *proof.values) for x in row)
        self.values = [
            [scaled(x, self.value_unit) for x in (gain, *row)]
            for gain, row in zip(gains, proof.values, strict=True)
        ]
        # What a point is worth beyond the states that make it up.
        self.excess = [
            [
                value * self.unit - sum(x * self.values[s][c] for s, x in place.items())
                for c, value in enumerate(self.values[i])
            ]
            for i, place in enumerate(self.places)
        ]

    def bound(self, starts: list[Row]) -> Fraction:
        """Return the proved lower bound."""
        factor = Fraction(1) if self.discount is None else self.discount
        error = None
        for i, place in enumerate(self.places):
            size = Fraction(sum(place.values()), self.unit)
            gain_here = Fraction(self.values[i][0], self.value_unit)
            for a, costs in enumerate(self.cost):
                uses, after = self.proof.weights[i][a], self.model.after(place, a)
                if not uses.keys() <= after.keys():
                    raise CertificateError(f"place {i}, action {a}: points in a belief that cannot come")
                value, gain = ZERO, ZERO
                for o, belief in after.items():
                    parts = self.read_off(belief, uses.get(o, {}), self.model.unit)
                    gain, value = gain + parts[0], value + min(parts[1:])
                if gain < gain_here:
                    by = float(gain_here - gain)
                    raise CertificateError(f"the gain of place {i} is {by!r} above what follows action {a}")
                own = self.values[i][1 + (a if len(self.values[i]) > 2 else 0)]
                spent = sum((x * costs[s] for s, x in place.items()), start=ZERO) / self.unit
                here = (Fraction(own, self.value_unit) + gain_here - spent - factor * value) / size
                error = here if error is None else max(error, here)
        assert error is not None
        at_start = ZERO
        for first, shares in zip(starts, self.proof.start, strict=True):
            unit = common_denominator(first.values())
            whole = {s: scaled(p, unit) * self.unit for s, p in first.items()}
            parts = self.read_off(whole, shares, unit)
            at_start += parts[0] if self.discount is None else min(parts[1:])
        return at_start - error / (1 if self.discount is None else 1 - self.discount)

    def read_off(self, belief: Whole, uses: Row, size: int) -> list[Fraction]:
        """Return the gain and the values of a belief in multiples of 1 / (`unit` · size)."""
        weight_unit = common_denominator(uses.values())
        left = {s: x * weight_unit for s, x in belief.items()}
        columns = range(len(self.values[0]))
        total = [sum(x * self.values[s][c] for s, x in belief.items()) * weight_unit for c in columns]
        for k, share in uses.items():
            w = scaled(share, weight_unit) * size
            place = self.n_states + k
            for s, x in self.places[place].items():
                left[s] = left.get(s, 0) - w * x
            total = [total[c] + w * self.excess[place][c] for c in columns]
        if min(left.values(), default=0) < 0:
            raise CertificateError("points weigh more than the belief that they make up")
        unit = self.unit * size * weight_unit * self.value_unit
        return [Fraction(x, unit) for x in total]
