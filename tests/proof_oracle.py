"""What a proof proves, by the lemmas of the manual word by word: dense fractions, and no regard for speed.

Also proofs written by hand, and ways to spoil a proof.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from psrl_pomdp import POMDP, Setting

CHECKER = Path(__file__).parents[1] / "checker" / "check_proof.py"
PAGE = CHECKER.with_suffix(".html")
F = Fraction
Document = dict[str, Any]
Interval = tuple[F, F]


def load_checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_proof", CHECKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dense(pairs: list[Any], length: int) -> list[F]:
    row = [F(0)] * length
    for k, text in pairs:
        row[k] = F(text)
    return row


def proved(document: Document) -> Interval | str:
    """The interval in the user's units, or why there is none; for documents of the right types."""
    m = document["model"]
    n, n_actions, n_obs = len(m["states"]), len(m["actions"]), len(m["observations"])
    b0 = dense(m["initial"], n)
    theta = [[dense(row, n) for row in kernel] for kernel in m["transition"]]
    rows = [b0, *(row for kernel in theta for row in kernel)]
    joint: dict[tuple[int, int], list[list[F]]] = {}
    for a in range(n_actions):
        for o in range(n_obs):
            joint[a, o] = [[F(0)] * n for _ in range(n)]
        for s in range(n):
            for t in range(n):
                if m["previous"] and not theta[a][s][t]:
                    continue
                eta = dense(m["observation"][a][s][t] if m["previous"] else m["observation"][a][t], n_obs)
                rows.append(eta)
                for o in range(n_obs):
                    joint[a, o][s][t] = theta[a][s][t] * eta[o]
    firsts = None if m["first"] is None else [dense(row, n_obs) for row in m["first"]]
    rows += firsts or []
    if any(sum(row) != 1 or min(row) < 0 for row in rows):
        return "model"
    reached = [s for s in range(n) if b0[s] > 0]
    for s in reached:
        reached += [t for t in range(n) if t not in reached and any(theta[a][s][t] for a in range(n_actions))]
    reached.sort()
    size = len(reached)
    joint = {key: [[matrix[s][t] for t in reached] for s in reached] for key, matrix in joint.items()}
    cost = [[F(m["cost"][a][s]) for s in reached] for a in range(n_actions)]
    starts = [[b0[s] for s in reached]]
    if firsts is not None:
        starts = [[b0[s] * firsts[s][o] for s in reached] for o in range(n_obs)]
    discount = None if document["discount"] is None else F(document["discount"])
    gamma = F(1) if discount is None else discount
    many = F(1) if discount is None else 1 / (1 - discount)

    up = document["upper"]
    alpha = [[F(x) for x in row] for row in up["vectors"]]
    r = (
        [[F(0)] * size for _ in alpha]
        if up["gains"] is None
        else [[F(x) for x in row] for row in up["gains"]]
    )
    errors = []
    for k, a in enumerate(up["actions"]):
        for s in range(size):
            value = gain = F(0)
            for o in range(n_obs):
                for t in range(size):
                    value += joint[a, o][s][t] * alpha[up["successors"][k][o]][t]
                    gain += joint[a, o][s][t] * r[up["successors"][k][o]][t]
            if gain > r[k][s]:
                return "upper gain"
            errors.append(cost[a][s] + gamma * value - alpha[k][s] - r[k][s])
    table = r if discount is None else alpha
    upper = max(errors) * many
    for k, b in zip(up["start"], starts, strict=True):
        upper += sum(p * x for p, x in zip(b, table[k], strict=True))

    low = document["lower"]
    points = [[F(s == t) for t in range(size)] for s in range(size)] + [dense(p, size) for p in low["points"]]
    q = [[F(x) for x in row] for row in low["values"]]
    q = [row * n_actions if len(row) == 1 else row for row in q]
    g = [F(0)] * len(points) if low["gains"] is None else [F(x) for x in low["gains"]]

    def read_off(belief: list[F], pairs: list[Any]) -> tuple[F, F] | None:
        weights = [F(0)] * size + dense(pairs, len(low["points"]))
        used = [k for k, w in enumerate(weights) if w]
        rest = [b - sum(weights[k] * points[k][t] for k in used) for t, b in enumerate(belief)]
        if min(rest) < 0 or min(weights) < 0:
            return None
        weights[:size] = rest
        used = [k for k, w in enumerate(weights) if w]
        value = min(sum(weights[k] * q[k][a] for k in used) for a in range(n_actions))
        return F(value), F(sum(weights[k] * g[k] for k in used))

    if any(sum(p) == 0 or min(p) < 0 for p in points):
        return "point"
    errors = []
    for i, p in enumerate(points):
        for a in range(n_actions):
            uses = dict(low["weights"][i][a])
            value = gain = F(0)
            for o in range(n_obs):
                after = [
                    sum((p[s] * joint[a, o][s][t] for s in range(size) if p[s]), F(0)) for t in range(size)
                ]
                parts = read_off(after, uses.get(o, []))
                if parts is None:
                    return "weights"
                value, gain = value + parts[0], gain + parts[1]
            if gain < g[i]:
                return "lower gain"
            spent = sum(x * y for x, y in zip(p, cost[a], strict=True))
            errors.append((q[i][a] + g[i] - spent - gamma * value) / sum(p))
    lower = -max(errors) * many
    for pairs, b in zip(low["start"], starts, strict=True):
        parts = read_off(b, pairs)
        if parts is None:
            return "start"
        lower += parts[1] if discount is None else parts[0]
    lower = max(lower, min(map(min, cost)) * many)
    upper = min(upper, max(map(max, cost)) * many)
    assert lower <= upper, "the lemmas are false"
    least, most = F(m["units"]["low"]), F(m["units"]["high"])
    if m["units"]["kind"] == "reward":
        ends = most * many - (most - least) * upper, most * many - (most - least) * lower
    else:
        ends = least * many + (most - least) * lower, least * many + (most - least) * upper
    claim = document["claim"]
    if claim is not None and not (F(claim["lower"]) <= ends[0] and ends[1] <= F(claim["upper"])):
        return "claim"
    return ends


def unreachable_state() -> POMDP:
    """A known start, two steps to the last state, and one that is never reached: states get new numbers."""
    kernel = [[0.7, 0.0, 0.3, 0.0], [0.1, 0.8, 0.1, 0.0], [0.0, 0.0, 0.4, 0.6], [0.25, 0.0, 0.25, 0.5]]
    sensor = [[0.8, 0.2], [0.5, 0.5], [0.3, 0.7], [0.1, 0.9]]
    setting = Setting(sensor, [[0.0, 0.5, 1.0, 0.7], [0.4, 0.0, 0.3, 0.1]], [1.0, 0.0, 0.0, 0.0])
    return POMDP(setting, np.array([kernel, kernel]))


# -- proofs by hand -----------------------------------------------------------------------------------


def chain_document(rng: np.random.Generator, discount: str | None = None) -> Document:
    """Random certificates about a chain of two states without control: from 0 to 1 by 1/10, back by 2/10.

    State 1 costs 1, and the average is 1/3. Everything is random but for the rules: weights fit.
    """
    theta = [["0.9", "0.1"], ["0.2", "0.8"]]
    accuracy = F(int(rng.integers(5, 11)), 10)
    eta = [[accuracy, 1 - accuracy], [1 - accuracy, accuracy]]
    n_points, n_nodes = int(rng.integers(0, 4)), int(rng.integers(1, 4))

    def some() -> F:
        return F(int(rng.integers(-40, 41)), int(rng.integers(1, 12)))

    points = [[F(int(rng.integers(1, 9)), 8), F(int(rng.integers(0, 9)), 8)] for _ in range(n_points)]
    weights = []
    for p in [[F(1), F(0)], [F(0), F(1)], *points]:
        uses = []
        for o in range(2):
            after = [p[0] * F(theta[0][t]) * eta[t][o] + p[1] * F(theta[1][t]) * eta[t][o] for t in range(2)]
            pairs = pairs_below(rng, after, points)
            uses.append([o, pairs])
        weights.append([uses])
    start = [F(1, 4), F(3, 4)]
    return {
        "format": "pomdp-bounds",
        "version": 1,
        "discount": discount,
        "model": {
            "states": ["good", "bad"],
            "actions": ["wait"],
            "observations": ["yes", "no"],
            "initial": [[0, "1/4"], [1, "3/4"]],
            "first": None,
            "transition": [[sparse([F(x) for x in row]) for row in theta]],
            "previous": False,
            "observation": [[sparse(row) for row in eta]],
            "cost": [["0", "1"]],
            "units": {"kind": "cost", "low": "0", "high": "1", "name": ""},
        },
        "upper": {
            "actions": [0] * n_nodes,
            "successors": rng.integers(n_nodes, size=(n_nodes, 2)).tolist(),
            "vectors": [[str(some()), str(some())] for _ in range(n_nodes)],
            "gains": None,
            "start": [int(rng.integers(n_nodes))],
        },
        "lower": {
            "points": [sparse(p) for p in points],
            "values": [[str(some())] for _ in range(2 + n_points)],
            "gains": None,
            "weights": weights,
            "start": [pairs_below(rng, start, points)],
        },
        "claim": None,
    }


def sparse(row: list[F]) -> list[list[Any]]:
    return [[k, str(x)] for k, x in enumerate(row) if x]


def pairs_below(rng: np.random.Generator, belief: list[F], points: list[list[F]]) -> list[list[Any]]:
    """Random weights of points that nowhere exceed a belief, and often reach it."""
    rest, pairs = list(belief), []
    for k, p in enumerate(points):
        most = min(x / y for x, y in zip(rest, p, strict=True) if y)
        weight = most * F(int(rng.choice([0, 1, 1, 2])), 2)
        if weight:
            pairs.append([k, str(weight)])
            rest = [x - weight * y for x, y in zip(rest, p, strict=True)]
    return pairs


# -- spoiling -----------------------------------------------------------------------------------------


def numbers_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all numbers in quotes."""
    if isinstance(value, dict):
        for name, part in value.items():
            if name not in ("about", "format", "states", "actions", "observations", "kind", "name"):
                yield from numbers_of(part, (*path, name))
            elif name == "actions" and isinstance(part, list) and part and isinstance(part[0], int):
                yield from ()
    elif isinstance(value, list):
        for k, part in enumerate(value):
            yield from numbers_of(part, (*path, k))
    elif isinstance(value, str):
        yield path


def parts_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of everything but remarks and names."""
    if path and path[-1] == "about":
        return
    if path:
        yield path
    if isinstance(value, dict | list):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            if not (path == ("model",) and name in ("states", "actions", "observations")):
                yield from parts_of(part, (*path, name))


def changed(document: Document, path: tuple[Any, ...], value: Any) -> Document:
    """The document with another value at one place."""
    found = copy.deepcopy(document)
    part: Any = found
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    return found


def at(document: Document, path: tuple[Any, ...]) -> Any:
    part: Any = document
    for name in path:
        part = part[name]
    return part


def moved_numbers(document: Document, rng: np.random.Generator, many: int) -> Iterator[tuple[str, Document]]:
    """One number moved, a little or much, up or down."""
    places = list(numbers_of(document))
    for _ in range(many):
        path = places[int(rng.integers(len(places)))]
        size = F(1, 10 ** int(rng.integers(0, 12)))
        move = size * int(rng.choice([-1, 1]))
        yield f"{path} by {float(move)}", changed(document, path, str(F(at(document, path)) + move))


def moved_indices(document: Document, rng: np.random.Generator, many: int) -> Iterator[tuple[str, Document]]:
    """Another action or successor of a node, another start, another point, shifted probabilities."""
    upper, model = document["upper"], document["model"]
    for _ in range(many):
        kind = int(rng.integers(4))
        node = int(rng.integers(len(upper["actions"])))
        if kind == 0:
            action = int(rng.integers(len(model["actions"])))
            yield f"action of {node}", changed(document, ("upper", "actions", node), action)
        elif kind == 1:
            o, other = int(rng.integers(len(model["observations"]))), int(rng.integers(len(upper["actions"])))
            yield f"successor of {node}", changed(document, ("upper", "successors", node, o), other)
        elif kind == 2:
            a, s = int(rng.integers(len(model["actions"]))), int(rng.integers(len(model["states"])))
            row = dense(model["transition"][a][s], len(model["states"]))
            share = row[0] * F(int(rng.integers(0, 5)), 1000)
            row[0], row[-1] = row[0] - share, row[-1] + share
            yield f"model, {a} {s}", changed(document, ("model", "transition", a, s), sparse(row))
        else:
            uses = [
                (i, a, k, j)
                for i, place in enumerate(document["lower"]["weights"])
                for a, of_action in enumerate(place)
                for k, (_, pairs) in enumerate(of_action)
                for j in range(len(pairs))
            ]
            if uses:
                i, a, k, j = uses[int(rng.integers(len(uses)))]
                path = "lower", "weights", i, a, k, 1, j, 1
                factor = F(int(rng.choice([0, 1, 3, 4])), 2)
                yield f"weight {path}", changed(document, path, str(F(at(document, path)) * factor))


NONSENSE: list[Any] = [
    None,
    True,
    1.5,
    -1,
    10**6,
    [],
    {},
    [[]],
    [[0]],
    [[0, "1", 2]],
    [[0, "-1"]],
    {"about": ""},
]
NONSENSE += [
    "",
    "x",
    "1e999999999",
    "1e-999999999",
    "1/0",
    "nan",
    "Infinity",
    "0x10",
    "1 ",
    "1_0",
    "٣",
    "9" * 5000,
]


def nonsense(document: Document, rng: np.random.Generator, many: int) -> Iterator[tuple[str, Document]]:
    """A part of the wrong type, or without sense, or missing, or one too many."""
    places = list(parts_of(document))
    for k in range(many):
        path = places[int(rng.integers(len(places)))]
        parent = at(document, path[:-1])
        if k % 4 == 0 and isinstance(parent, dict):
            found = changed(document, path, None)
            del at(found, path[:-1])[path[-1]]
            yield f"without {path}", found
        elif k % 4 == 1 and isinstance(parent, dict):
            yield f"more than {path}", changed(document, (*path[:-1], f"{path[-1]}s"), "1")
        else:
            value = NONSENSE[int(rng.integers(len(NONSENSE)))]
            yield f"{path} is {str(value)[:20]!r}", changed(document, path, value)
