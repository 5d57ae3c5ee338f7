"""Check a proof of bounds on the optimal cost of a POMDP: `python check_proof.py proof.json`.

It needs Python 3.9 or later and nothing else, and shares no code with the program that writes proofs. The
proof is about the model in the file, so compare that with your own; nothing else is taken on trust. All
arithmetic is exact, with fractions and whole numbers of any size. The manual (docs/certificates.md) describes
the format and says why the inequalities below prove the interval.

If the proof is correct, the interval is printed, and the exit code is 0. Otherwise the first statement that
fails is printed, and the exit code is 1.
"""

import json
import math
import sys
from fractions import Fraction

FORMAT, VERSION = "pomdp-bounds", 1
LONGEST, FINEST = 1000, 10**1000  # characters and exponent of a number; the largest common denominator


class Refused(Exception):
    """The proof is wrong; the message says where."""


def demand(true, message):
    if not true:
        raise Refused(message)


def fields(value, names, what):
    names = names.split()
    demand(type(value) is dict, f"{what} is no object")
    for name in names:
        demand(name in value, f"{what} has no part {name!r}")
    for name in value:
        demand(name in names or name == "about", f"{what} has an unknown part {name[:40]!r}")
    return [value[name] for name in names]


def listed(value, length, what):
    demand(type(value) is list, f"{what} is no list")
    demand(length is None or len(value) == length, f"{what} has {len(value)} entries, not {length}")
    return value


def index(value, below, what):
    demand(type(value) is int and 0 <= value < below, f"{what} is no whole number from 0 to {below - 1}")
    return value


def number(text, what):
    """A decimal number or a fraction of whole numbers in quotes, read exactly as it is written."""
    demand(type(text) is str and 0 < len(text) <= LONGEST, f"{what} is no number in quotes, or too long")
    demand(set(text) <= set("0123456789+-./eE"), f"{what} is no number: {text[:40]!r}")
    try:
        demand(abs(int(text.lower().partition("e")[2] or "0")) <= LONGEST, f"{what} has a huge exponent")
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise Refused(f"{what} is no number: {text[:40]!r}") from None


def numbers(value, length, what):
    return [number(text, f"{what}, entry {k}") for k, text in enumerate(listed(value, length, what))]


def tables(value, rows, columns, what):
    return [numbers(v, columns, f"{what} {k}") for k, v in enumerate(listed(value, rows, what))]


def row(value, below, what):
    """The positive entries of a list of pairs [index, number] with increasing indices: {index: number}."""
    found, last = {}, -1
    for pair in listed(value, None, what):
        k, text = listed(pair, 2, f"an entry of {what}")
        demand(index(k, below, f"an index of {what}") > last, f"the indices of {what} do not increase")
        last, entry = k, number(text, f"{what}, entry {k}")
        demand(entry >= 0, f"{what}, entry {k} is negative")
        if entry:
            found[k] = entry
    return found


def distribution(value, below, what):
    found = row(value, below, what)
    demand(sum(found.values()) == 1, f"{what} does not sum to 1")
    return found


def whole(rows, what):
    """The same rows as dicts of whole numbers, and the denominator that all entries share."""
    unit = 1
    for each in rows:
        for x in each.values() if type(each) is dict else each:
            unit = math.lcm(unit, x.denominator)
            demand(unit < FINEST, f"{what}: there is no common denominator of {LONGEST} digits")
    dicts = [dict(r.items() if type(r) is dict else enumerate(r)) for r in rows]
    return [{k: x.numerator * (unit // x.denominator) for k, x in r.items()} for r in dicts], unit


class Model:
    """The model, on the states that its start can reach: state k is the k-th of them."""

    def __init__(self, value):
        names = "states actions observations initial first transition previous observation cost units"
        *labels, initial, first, theta, previous, eta, cost, units = fields(value, names, "model")
        many, self.A, self.O = [len(listed(v, None, "a list of names")) for v in labels]
        demand(all(type(label) is str for v in labels for label in v), "a name is no text")
        demand(self.A > 0, "there are no actions")
        demand(min(many, self.A, self.O) > 0, "there are no states, actions or observations")
        initial = distribution(initial, many, "initial")
        theta = self.rows(theta, many, many, "transition")
        demand(type(previous) is bool, "previous is neither true nor false")
        if not previous:
            eta = self.rows(eta, many, self.O, "observation")
        order = list(initial)  # of the reached states
        for s in order:
            order += {t for a in range(self.A) for t in theta[a][s]} - set(order)
        order.sort()
        place, self.S = {s: k for k, s in enumerate(order)}, len(order)
        # M[a][s] = {(s', o): probability times unit}
        flat = []
        for a in range(self.A):
            for s in order:
                flat.append({})
                for t, p in theta[a][s].items():
                    seen = self.from_both(eta, a, s, t, many) if previous else eta[a][t]
                    flat[-1].update({(place[t], o): p * q for o, q in seen.items()})
        flat, self.unit = whole(flat, "transition and observation")
        self.M = [flat[a * self.S : (a + 1) * self.S] for a in range(self.A)]
        self.cost = [[costs[s] for s in order] for costs in tables(cost, self.A, many, "cost")]
        # For each first observation the belief before the first action; its sum is the probability.
        b = {place[s]: p for s, p in initial.items()}
        self.starts = [b]
        if first is not None:
            first = [distribution(r, self.O, "first") for r in listed(first, many, "first")]
            self.starts = [{k: b[k] * first[order[k]].get(o, 0) for k in b} for o in range(self.O)]
        self.kind, low, high, name = fields(units, "kind low high name", "units")
        demand(self.kind in ("cost", "reward") and type(name) is str, "units: kind is no cost and no reward")
        self.low, self.high = number(low, "units, low"), number(high, "units, high")
        demand(self.low < self.high, "units: low is not below high")

    def rows(self, value, many, below, what):
        return [
            [distribution(r, below, f"{what} {a}, {s}") for s, r in enumerate(listed(v, many, what))]
            for a, v in enumerate(listed(value, self.A, what))
        ]

    def from_both(self, eta, a, s, t, many):
        """The observations after action a where they depend on the state s before it and on t after it."""
        what = f"observation, action {a}, state {s} to {t}"
        rows = listed(listed(listed(eta, self.A, what)[a], many, what)[s], many, what)
        return distribution(rows[t], self.O, what)

    def after(self, x, a):
        """For each observation that can come, x M[a, o]; `unit` times as large."""
        found = {}
        for s, mass in x.items():
            for (t, o), p in self.M[a][s].items():
                there = found.setdefault(o, {})
                there[t] = there.get(t, 0) + mass * p
        return found


def upper_bound(model, value, discount):
    """Lemma 1: a controller with any vectors."""
    names = "actions successors vectors gains start"
    actions, successors, vectors, gains, start = fields(value, names, "upper")
    count, error = len(listed(actions, None, "upper, actions")), []
    demand(count > 0, "upper has no nodes")
    listed(successors, count, "upper, successors")
    start = [index(n, count, "upper, start") for n in listed(start, len(model.starts), "upper, start")]
    values = tables(vectors, count, model.S, "upper, vector")
    demand(gains is None or discount == 1, "upper: gains are for averages only")
    r = [[Fraction(0)] * model.S] * count if gains is None else tables(gains, count, model.S, "upper, gain")
    (alpha, unit), (rises, _) = whole(values, "upper, vectors"), whole(r, "upper, gains")
    for n in range(count):
        a = index(actions[n], model.A, f"upper, action of node {n}")
        what = f"upper, successor of node {n}"
        sigma = [index(k, count, what) for k in listed(successors[n], model.O, what)]
        for s, after in enumerate(model.M[a]):
            rise = sum(p * rises[sigma[o]][t] for (t, o), p in after.items()) if gains is not None else 0
            demand(rise <= rises[n][s] * model.unit, f"upper: the gain of node {n}, state {s} is too small")
            follow = Fraction(sum(p * alpha[sigma[o]][t] for (t, o), p in after.items()), unit * model.unit)
            error.append(model.cost[a][s] + discount * follow - values[n][s] - r[n][s])
    table = r if discount == 1 else values
    at_start = sum(p * table[n][s] for n, b in zip(start, model.starts) for s, p in b.items())
    return at_start + max(error) / (1 - discount or 1)


def lower_bound(model, value, discount):
    """Lemma 2: values at the states and at points, of which all next beliefs are made up."""
    points, q, gains, weights, start = fields(value, "points values gains weights start", "lower")
    points = [row(p, model.S, "lower, a point") for p in listed(points, None, "lower, points")]
    demand(all(points), "lower: a point is zero")
    count, error = model.S + len(points), []  # "places" are the states, and then the points
    columns = 1 if type(q) is list and q and type(q[0]) is list and len(q[0]) == 1 else model.A
    q = tables(q, count, columns, "lower, values of place")
    demand(gains is None or discount == 1, "lower: gains are for averages only")
    r = [Fraction(0)] * count if gains is None else numbers(gains, count, "lower, gains")
    (values, unit), ((rises,), rise_unit) = whole(q, "lower, values"), whole([r], "lower, gains")
    points, dp = whole(points, "lower, points")
    points = [{s: dp} for s in range(model.S)] + points

    def read_off(belief, pairs, size, what):
        """Value and gain of a belief, times dp * size, of which points and the states are parts."""
        (shares,), dw = whole([row(pairs, len(points) - model.S, what)], what)
        rest = {t: x * dw for t, x in belief.items()}
        total, gain = [0] * columns, 0
        for k, share in shares.items():
            place, w = k + model.S, share * size
            for t, x in points[place].items():
                rest[t] = rest.get(t, 0) - w * x
                demand(rest[t] >= 0, f"{what}: in state {t}, the points are more than the belief")
            total = [v + w * dp * x for v, x in zip(total, values[place].values())]
            gain += w * dp * rises[place]
        for t, x in rest.items():
            total = [v + x * y for v, y in zip(total, values[t].values())]
            gain += x * rises[t]
        return Fraction(min(total), dp * size * dw * unit), Fraction(gain, dp * size * dw * rise_unit)

    listed(weights, count, "lower, weights")
    for i, x in enumerate(points):
        size = Fraction(sum(x.values()), dp)
        for a in range(model.A):
            what = f"lower, place {i}, action {a}"
            uses = {}
            for pair in listed(listed(weights[i], model.A, what)[a], None, what):
                o, pairs = listed(pair, 2, what)
                demand(index(o, model.O, what) not in uses, f"{what}: an observation comes twice")
                uses[o] = pairs
            beliefs = model.after(x, a)
            follow = rise = Fraction(0)
            for o in {**beliefs, **uses}:
                where = f"{what}, observation {o}"
                parts = read_off(beliefs.get(o, {}), uses.get(o, []), model.unit, where)
                follow, rise = follow + parts[0], rise + parts[1]
            demand(rise >= r[i], f"{what}: the gain is too large")
            cost = sum(m * model.cost[a][s] for s, m in x.items()) / dp
            error.append((q[i][a % columns] + r[i] - cost - discount * follow) / size)
    at_start = Fraction(0)
    for k, pairs in enumerate(listed(start, len(model.starts), "lower, start")):
        (b,), db = whole([model.starts[k]], "the start")
        parts = read_off({s: x * dp for s, x in b.items()}, pairs, db, f"lower, start {k}")
        at_start += parts[discount == 1]
    return at_start - max(error) / (1 - discount or 1)


def check(proof):
    """The interval that is proved, in the units of the model; raises Refused."""
    names = "format version discount model lower upper claim"
    form, version, discount, model, lower, upper, claim = fields(proof, names, "the proof")
    this = form == FORMAT and type(version) is int and version == VERSION
    demand(this, f"this is no file of the format {FORMAT}, version {VERSION}")
    demand(discount is None or 0 <= number(discount, "discount") < 1, "discount is not from 0 to below 1")
    discount = Fraction(1 if discount is None else discount)  # 1 stands for the average cost
    model = Model(model)
    total = Fraction(1) / (1 - discount or 1)  # what all steps weigh together
    least = max(lower_bound(model, lower, discount), min(map(min, model.cost)) * total)
    most = min(upper_bound(model, upper, discount), max(map(max, model.cost)) * total)
    demand(least <= most, "the lower bound is above the upper one: the checker is wrong; please report it")
    width = model.high - model.low
    low, high = model.low * total + width * least, model.low * total + width * most
    if model.kind == "reward":
        low, high = model.high * total - width * most, model.high * total - width * least
    if claim is not None:
        ends = [number(text, "claim") for text in fields(claim, "lower upper", "claim")]
        demand(ends[0] <= low, f"the claim is at least {decimal(ends[0])}, and {decimal(low)} is proved")
        demand(ends[1] >= high, f"the claim is at most {decimal(ends[1])}, and {decimal(high, 1)} is proved")
    return low, high


def decimal(value, up=False, digits=12):
    """A decimal number that is rounded down, or up."""
    scaled = -(-value * 10**digits // 1) if up else value * 10**digits // 1
    text = f"{abs(scaled):0{digits + 1}d}"
    return f"{'-' if scaled < 0 else ''}{text[:-digits]}.{text[-digits:]}"


def main(arguments):
    if len(arguments) != 1:
        print(__doc__)
        return 2
    try:
        with open(arguments[0], encoding="utf-8") as file:
            proof = json.load(file)
        low, high = check(proof)
    except (OSError, ValueError, RecursionError, Refused) as error:
        print(f"REFUSED: {error}")
        return 1
    model = proof["model"]
    how = "per step" if proof["discount"] is None else f"in total at discount {proof['discount']}"
    print("model: ", *(f"{len(model[name])} {name}" for name in ("states", "actions", "observations")))
    print(f"proved: optimal {model['units']['kind']} {how} from {decimal(low)} to {decimal(high, True)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
