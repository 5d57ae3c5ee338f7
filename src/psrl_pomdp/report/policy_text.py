"""What a plan does, in the words of its problem.

A plan plays, at belief b, the action of the vector that attains V(b) = min_n α_n·b. How that is best said
depends on how many states the start can reach:

- two: b is one number, V the lower envelope of lines, and the policy a few intervals, with exact ends;
- three: b is a point of a triangle; the share of it on which each action is played, and what is done at
  the corners and in the middle;
- more: the controller that proves the bound, node by node. It is a policy of its own, which needs no beliefs.

Where the plan depends on the start, the controller is the policy, however many states there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils.arrays import Array, Index, Mask

if TYPE_CHECKING:
    from ..models import POMDP
    from ..planning import Plan


FINENESS = 200  # a side of the triangle is cut into so many, the triangle into their square
MOST_LISTED = 12
_CHUNK = 4_000_000  # products held at once
_FEW_READINGS = 4  # a successor with more of them than this is called "else"


def describe(plan: Plan, model: POMDP) -> dict[str, Any]:
    """The policy as plain data: `kind`, what that kind is made of, and `words`, a title and its lines."""
    always = _the_only_action(plan, model)
    if always is not None:
        return always
    if plan.controller.gains is not None:
        return _by_nodes(plan, model)
    if len(plan.states) == 2:
        return _by_intervals(plan, model)
    if len(plan.states) == 3:
        return _by_shares(plan, model)
    return _by_nodes(plan, model)


def best_nodes(vectors: Array, beliefs: Array) -> Index:
    """[m]: the vector that attains min_n α_n·b at each belief; the first of equals, as in `Plan.action`."""
    step = max(1, _CHUNK // len(vectors))
    parts = [(beliefs[i : i + step] @ vectors.T).argmin(axis=1) for i in range(0, len(beliefs), step)]
    return np.concatenate(parts)


@dataclass(frozen=True)
class Labels:
    """What people call things: their names, or `action 2` where there are only numbers."""

    states: tuple[str, ...]
    actions: tuple[str, ...]
    observations: tuple[str, ...]


def labels(model: POMDP) -> Labels:
    setting, names = model.setting, model.setting.names
    return Labels(
        setting.states if names.states else tuple(f"state {s}" for s in setting.states),
        setting.actions if names.actions else tuple(f"action {a}" for a in setting.actions),
        setting.observations if names.observations else tuple(f"reading {o}" for o in setting.observations),
    )


def _described(kind: str, title: str, lines: Sequence[str], **facts: Any) -> dict[str, Any]:
    return {"kind": kind, **facts, "words": {"title": title, "lines": list(lines)}}


# -- one action -------------------------------------------------------------------------------------


def _the_only_action(plan: Plan, model: POMDP) -> dict[str, Any] | None:
    """Where there is nothing to choose, or the plan never chooses."""
    controller = plan.controller
    played = np.unique(controller.actions)
    if len(plan.states) == 1 and controller.gains is None:
        played = controller.actions[[int(controller.vectors[:, 0].argmin())]]
        reason = "there is one state only"
    elif model.n_actions == 1:
        reason = "there is no other action"
    elif len(controller) == 1:
        reason = "the controller has one node only, whatever is read"
    else:
        reason = f"all {len(controller)} nodes of the controller play it"
    if len(played) > 1:
        return None
    action = plan.actions[int(played[0])]
    words = f"always {labels(model).actions[int(played[0])]}: {reason}"
    return _described("always", "What the policy does", [words], action=action)


# -- two states -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interval:
    """Beliefs in the second state from `start` to `end`, on which `action` is played."""

    start: float
    end: float
    action: int


def intervals(plan: Plan) -> list[Interval]:
    """The policy for two states, with neighbours that play the same action made one."""
    found: list[Interval] = []
    pieces = lower_envelope(plan.controller.vectors)
    ends = [start for start, _ in pieces[1:]] + [1.0]
    for (start, node), end in zip(pieces, ends, strict=True):
        action = int(plan.controller.actions[node])
        begin = found.pop().start if found and found[-1].action == action else start
        found.append(Interval(begin, end, action))
    return found


def lower_envelope(vectors: Array) -> list[tuple[float, int]]:
    """(p, n): from belief p in the second state on, the line α_n(1)(1 − p) + α_n(2)p is the lowest.

    Only a line that falls more steeply can take over, and the next to do so is the one met first.
    """
    at_zero, slope = vectors[:, 0], vectors[:, 1] - vectors[:, 0]
    now, here = int(np.lexsort((slope, at_zero))[0]), 0.0
    found = [(here, now)]
    while True:
        steeper = np.flatnonzero(slope < slope[now])
        with np.errstate(over="ignore"):  # lines that are parallel but for rounding never meet
            meets = (at_zero[steeper] - at_zero[now]) / (slope[now] - slope[steeper])
        order = np.lexsort((slope[steeper], meets))
        if not len(order) or meets[order[0]] >= 1.0:
            return found
        now, meeting = int(steeper[order[0]]), float(meets[order[0]])
        if meeting <= here:  # by rounding, where three lines meet: the steeper one has it all
            found.pop()
        here = max(here, meeting)
        found.append((here, now))


def _by_intervals(plan: Plan, model: POMDP) -> dict[str, Any]:
    called = labels(model)
    state = called.states[plan.states[1]]
    found = intervals(plan)
    texts = _told_apart([piece.start for piece in found[1:]])
    lines = []
    for i, piece in enumerate(found):
        if len(found) == 1:
            place = "at every belief"
        elif i == 0:
            place = f"{state} up to {texts[0]}"
        elif i == len(found) - 1:
            place = f"{state} above {texts[-1]}"
        else:
            place = f"{state} {texts[i - 1]} to {texts[i]}"
        lines.append(f"{place}: {called.actions[piece.action]}")
    pieces = [{"from": p.start, "to": p.end, "action": plan.actions[p.action]} for p in found]
    return _described(
        "intervals",
        f"What the policy does, by the probability of {state}",
        _shortened(lines, "intervals"),
        state=model.setting.states[plan.states[1]],
        intervals=pieces,
    )


def _told_apart(values: Sequence[float]) -> list[str]:
    """Numbers between 0 and 1 with the fewest digits, from 4 on, that keep them apart and off the ends.

    >>> _told_apart([0.0391, 0.99999, 0.999991])
    ['0.039100', '0.999990', '0.999991']
    """
    texts: list[str] = []
    for digits in range(4, 17):
        texts = [f"{value:.{digits}f}" for value in values]
        if len({*texts, f"{0:.{digits}f}", f"{1:.{digits}f}"}) == len(texts) + 2:
            break
    return texts


# -- three states -----------------------------------------------------------------------------------


def triangle_cells(fineness: int = FINENESS) -> Array:
    """[fineness², 3]: the middles of as many equal triangles into which the simplex is cut."""
    i, j = (grid.ravel() for grid in np.indices((fineness, fineness)))
    corners = np.column_stack([i, j, fineness - 1 - i - j]).astype(np.float64)
    upright = corners[corners[:, 2] >= 0] + 1 / 3
    hanging = corners[corners[:, 2] >= 1] - [0, 0, 1] + 2 / 3
    return np.concatenate([upright, hanging]) / fineness


def shares(plan: Plan) -> dict[int, float]:
    """The share of the triangle on which each action is played, counted on `triangle_cells`."""
    played = plan.controller.actions[best_nodes(plan.controller.vectors, triangle_cells())]
    counts = np.bincount(played, minlength=len(plan.actions)) / len(played)
    return {a: float(counts[a]) for a in np.argsort(-counts, kind="stable") if counts[a] > 0}


def _by_shares(plan: Plan, model: POMDP) -> dict[str, Any]:
    called = labels(model)
    found = shares(plan)
    special = np.concatenate([np.eye(3), np.full((1, 3), 1 / 3)])
    *sure, uniform = plan.controller.actions[best_nodes(plan.controller.vectors, special)].tolist()
    lines = [f"{called.actions[a]}: on {_percent(share)} of the beliefs" for a, share in found.items()]
    at_corners = list(zip(plan.states, sure, strict=True))
    lines += [f"sure of {called.states[s]}: {called.actions[a]}" for s, a in at_corners]
    lines.append(f"all three equally likely: {called.actions[uniform]}")
    return _described(
        "shares",
        f"What the policy does (shares of the simplex, counted on a grid of {FINENESS**2} beliefs)",
        lines,
        shares={plan.actions[a]: share for a, share in found.items()},
        grid=FINENESS**2,
        sure={model.setting.states[s]: plan.actions[a] for s, a in at_corners},
        uniform=plan.actions[uniform],
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 else "under 0.1 %"


# -- more states ------------------------------------------------------------------------------------


def possible_readings(plan: Plan, model: POMDP) -> Mask:
    """[A, O]: the readings that can follow an action, from the states that the start can reach."""
    entered = model.transition[:, list(plan.states)].max(axis=1)  # [A, S']: 0 where none goes
    return np.asarray(np.einsum("at,ato->ao", entered, model.setting.observation) > 0)


def successors(plan: Plan, model: POMDP) -> list[list[int | None]]:
    """[N][O]: the node to go to; None for a reading that cannot come after the node's action."""
    comes = possible_readings(plan, model)[plan.controller.actions]
    rows = plan.controller.successors.tolist()
    return [
        [node if possible else None for node, possible in zip(row, can, strict=True)]
        for row, can in zip(rows, comes, strict=True)
    ]


def _by_nodes(plan: Plan, model: POMDP) -> dict[str, Any]:
    called, onward = labels(model), successors(plan, model)
    start = plan.controller.start
    lines = []
    for node in nodes_from_the_start(onward, start):
        action = called.actions[int(plan.controller.actions[node])]
        place = f"{node} (start)" if node == start else str(node)
        lines.append(f"{place}: {action}; {_edges(called.observations, onward[node], node)}")
    title = "What the policy does, as a controller: node: action; reading → next node"
    return _described("controller", title, _shortened(lines, "nodes"), start=start)


def nodes_from_the_start(onward: Sequence[Sequence[int | None]], start: int) -> Iterator[int]:
    """Nodes in the order in which a run can first meet them; then those that it never meets."""
    order, met = [start], {start}
    for node in order:
        yield node
        for successor in onward[node]:
            if successor is not None and successor not in met:
                met.add(successor)
                order.append(successor)
    yield from (node for node in range(len(onward)) if node not in met)


def _edges(readings: Sequence[str], onward: Sequence[int | None], node: int) -> str:
    """`idle → 4, else → stays`: readings with the same successor together, the longest list last."""
    groups: dict[int, list[str]] = {}
    for reading, successor in zip(readings, onward, strict=True):
        if successor is not None:
            groups.setdefault(successor, []).append(reading)
    if len(groups) == 1:
        (successor,) = groups
        return f"whatever is read → {'stays' if successor == node else successor}"
    longest = max(groups, key=lambda successor: len(groups[successor]))
    if len(groups[longest]) > _FEW_READINGS:
        groups = {**{s: names for s, names in groups.items() if s != longest}, longest: ["else"]}
    texts = (f"{', '.join(names)} → {'stays' if s == node else s}" for s, names in groups.items())
    return "; ".join(texts)


def _shortened(lines: list[str], what: str) -> list[str]:
    left = len(lines) - MOST_LISTED
    return lines if left <= 0 else [*lines[:MOST_LISTED], f"and {left} more {what}"]
