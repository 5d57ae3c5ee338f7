"""Descriptions of policies as text, with the names of states, actions and observations.

At belief b, a plan plays the action of the vector that attains V(b) = min_n α_n·b. The description depends on
the number of states that are reachable from the initial distribution:

- Two states: b is one number, V is the lower envelope of lines, and the policy is a list of intervals.
- Three states: b is a point of a triangle. The description gives the share of the triangle on which each
  action is played, and the actions at the corners and at the center.
- More states: the finite-state controller that attains the upper bound, node by node. It needs no beliefs.

If the plan depends on the initial belief, the description is the controller for any number of states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils.arrays import Array, Index
from .observation_text import by_successor, observation_labels, observations_by_successor
from .observation_text import possible_observations as possible_observations

if TYPE_CHECKING:
    from ..models import POMDP
    from ..planning import Plan


FINENESS = 200  # number of parts of each side of the triangle; the grid has FINENESS² small triangles
MOST_LISTED = 12  # lines of a description
_CHUNK = 4_000_000  # entries of a matrix product that are computed at once
_MAX_LISTED_OBSERVATIONS = 4  # the largest group of observations is called "else" if it has more than this


def describe(plan: Plan, model: POMDP) -> dict[str, Any]:
    """Describe the policy of a plan.

    Parameters
    ----------
    plan
        The plan.
    model
        The model for which it was computed.

    Returns
    -------
    dict
        Plain data: `kind` ("always", "intervals", "shares" or "controller"), the numbers of this kind, and
        `words` with a title and lines of text.
    """
    always = _single_action(plan, model)
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
    """[m]: the index of the vector that attains min_n α_n·b at each belief; ties go to the first one."""
    step = max(1, _CHUNK // len(vectors))
    parts = [(beliefs[i : i + step] @ vectors.T).argmin(axis=1) for i in range(0, len(beliefs), step)]
    return np.concatenate(parts)


@dataclass(frozen=True)
class Labels:
    """The labels of states, actions and observations: their names, or for example `action 2`.

    The observations of a density have no labels.
    """

    states: tuple[str, ...]
    actions: tuple[str, ...]
    observations: tuple[str, ...]


def labels(model: POMDP) -> Labels:
    """Return the labels of a model's states, actions and observations."""
    own, names = model.setting, model.setting.names
    return Labels(
        own.states if names.states else tuple(f"state {s}" for s in own.states),
        own.actions if names.actions else tuple(f"action {a}" for a in own.actions),
        observation_labels(own),
    )


def _description(kind: str, title: str, lines: Sequence[str], **numbers: Any) -> dict[str, Any]:
    return {"kind": kind, **numbers, "words": {"title": title, "lines": list(lines)}}


# -- one action -------------------------------------------------------------------------------------


def _single_action(plan: Plan, model: POMDP) -> dict[str, Any] | None:
    """Return the description of a policy that always plays the same action, or None."""
    controller = plan.controller
    played = np.unique(controller.actions)
    if len(plan.states) == 1 and controller.gains is None:
        played = controller.actions[[int(controller.vectors[:, 0].argmin())]]
        reason = "there is one state only"
    elif model.n_actions == 1:
        reason = "there is no other action"
    elif len(controller) == 1:
        reason = "the controller has only one node"
    else:
        reason = f"all {len(controller)} nodes of the controller play it"
    if len(played) > 1:
        return None
    action = plan.actions[int(played[0])]
    line = f"always {labels(model).actions[int(played[0])]}: {reason}"
    return _description("always", "Policy", [line], action=action)


# -- two states -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interval:
    """The policy plays `action` if the probability of the second state is between `start` and `end`."""

    start: float
    end: float
    action: int


def intervals(plan: Plan) -> list[Interval]:
    """Return the policy for two states; adjacent intervals with the same action are merged."""
    found: list[Interval] = []
    pieces = lower_envelope(plan.controller.vectors)
    ends = [start for start, _ in pieces[1:]] + [1.0]
    for (start, node), end in zip(pieces, ends, strict=True):
        action = int(plan.controller.actions[node])
        begin = found.pop().start if found and found[-1].action == action else start
        found.append(Interval(begin, end, action))
    return found


def lower_envelope(vectors: Array) -> list[tuple[float, int]]:
    """Return pairs (p, n): from probability p of the second state on, line n is the lowest.

    Line n is α_n(1)(1 − p) + α_n(2)p. From left to right, the next lowest line is the one with a smaller
    slope that intersects the present one first.
    """
    at_zero, slope = vectors[:, 0], vectors[:, 1] - vectors[:, 0]
    lowest, position = int(np.lexsort((slope, at_zero))[0]), 0.0
    found = [(position, lowest)]
    while True:
        steeper = np.flatnonzero(slope < slope[lowest])
        with np.errstate(over="ignore"):  # nearly parallel lines may intersect at infinity
            crossings = (at_zero[steeper] - at_zero[lowest]) / (slope[lowest] - slope[steeper])
        order = np.lexsort((slope[steeper], crossings))
        if not len(order) or crossings[order[0]] >= 1.0:
            return found
        lowest, crossing = int(steeper[order[0]]), float(crossings[order[0]])
        if crossing <= position:  # by rounding, if three lines intersect in one point: the steepest one stays
            found.pop()
        position = max(position, crossing)
        found.append((position, lowest))


def _by_intervals(plan: Plan, model: POMDP) -> dict[str, Any]:
    names = labels(model)
    state = names.states[plan.states[1]]
    found = intervals(plan)
    texts = _distinct_decimals([piece.start for piece in found[1:]])
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
        lines.append(f"{place}: {names.actions[piece.action]}")
    pieces = [{"from": p.start, "to": p.end, "action": plan.actions[p.action]} for p in found]
    return _description(
        "intervals",
        f"Policy, by the probability of {state}",
        _shortened(lines, "intervals"),
        state=model.setting.states[plan.states[1]],
        intervals=pieces,
    )


def _distinct_decimals(values: Sequence[float]) -> list[str]:
    """Return numbers in (0, 1) with the fewest decimals, at least 4, that differ from each other, 0 and 1.

    >>> _distinct_decimals([0.0391, 0.99999, 0.999991])
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
    """[fineness², 3]: the centers of the congruent triangles into which a grid divides the simplex."""
    i, j = (grid.ravel() for grid in np.indices((fineness, fineness)))
    corners = np.column_stack([i, j, fineness - 1 - i - j]).astype(np.float64)
    upright = corners[corners[:, 2] >= 0] + 1 / 3
    hanging = corners[corners[:, 2] >= 1] - [0, 0, 1] + 2 / 3
    return np.concatenate([upright, hanging]) / fineness


def action_shares(plan: Plan) -> dict[int, float]:
    """Return the share of the triangle on which each action is played, computed on `triangle_cells`."""
    played = plan.controller.actions[best_nodes(plan.controller.vectors, triangle_cells())]
    counts = np.bincount(played, minlength=len(plan.actions)) / len(played)
    return {a: float(counts[a]) for a in np.argsort(-counts, kind="stable") if counts[a] > 0}


def _by_shares(plan: Plan, model: POMDP) -> dict[str, Any]:
    names = labels(model)
    found = action_shares(plan)
    special = np.concatenate([np.eye(3), np.full((1, 3), 1 / 3)])
    *certain, uniform = plan.controller.actions[best_nodes(plan.controller.vectors, special)].tolist()
    lines = [f"{names.actions[a]}: on {_percent(share)} of the beliefs" for a, share in found.items()]
    at_corners = list(zip(plan.states, certain, strict=True))
    lines += [f"sure of {names.states[s]}: {names.actions[a]}" for s, a in at_corners]
    lines.append(f"all three equally likely: {names.actions[uniform]}")
    return _description(
        "shares",
        f"Policy (shares of the simplex, computed on a grid of {FINENESS**2} beliefs)",
        lines,
        shares={plan.actions[a]: share for a, share in found.items()},
        grid=FINENESS**2,
        sure={model.setting.states[s]: plan.actions[a] for s, a in at_corners},
        uniform=plan.actions[uniform],
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 else "under 0.1 %"


# -- more states ------------------------------------------------------------------------------------


def successors(plan: Plan, model: POMDP) -> list[list[int | None]]:
    """[N][O]: the next node; None for an observation, or a cell, that cannot follow the node's action."""
    possible = possible_observations(plan, model)[plan.controller.actions]
    rows = plan.controller.successors.tolist()
    return [
        [node if is_possible else None for node, is_possible in zip(row, mask, strict=True)]
        for row, mask in zip(rows, possible, strict=True)
    ]


def _by_nodes(plan: Plan, model: POMDP) -> dict[str, Any]:
    names, next_nodes = labels(model), successors(plan, model)
    start = plan.controller.start
    lines = []
    for node in nodes_in_visit_order(next_nodes, start):
        action = names.actions[int(plan.controller.actions[node])]
        place = f"{node} (start)" if node == start else str(node)
        groups = by_successor(plan, model, node, next_nodes[node])
        lines.append(f"{place}: {action}; {_groups_text(groups, node)}")
    title = "Policy as a finite-state controller (node: action; observation → next node)"
    return _description("controller", title, _shortened(lines, "nodes"), start=start)


def nodes_in_visit_order(next_nodes: Sequence[Sequence[int | None]], start: int) -> Iterator[int]:
    """Yield the nodes in breadth-first order from the start, then the unreachable nodes."""
    order, visited = [start], {start}
    for node in order:
        yield node
        for successor in next_nodes[node]:
            if successor is not None and successor not in visited:
                visited.add(successor)
                order.append(successor)
    yield from (node for node in range(len(next_nodes)) if node not in visited)


def edges_text(observations: Sequence[str], next_nodes: Sequence[int | None], node: int) -> str:
    """Return the edges of a node, for example `idle → 4; else → stays`; a long largest group is last."""
    return _groups_text(observations_by_successor(observations, next_nodes), node)


def _groups_text(groups: dict[int, list[str]], node: int) -> str:
    if len(groups) == 1:
        (successor,) = groups
        return f"any observation → {'stays' if successor == node else successor}"
    largest = max(groups, key=lambda successor: len(groups[successor]))
    if len(groups[largest]) > _MAX_LISTED_OBSERVATIONS:
        groups = {**{s: names for s, names in groups.items() if s != largest}, largest: ["else"]}
    texts = (f"{', '.join(names)} → {'stays' if s == node else s}" for s, names in groups.items())
    return "; ".join(texts)


def _shortened(lines: list[str], items: str) -> list[str]:
    omitted = len(lines) - MOST_LISTED
    return lines if omitted <= 0 else [*lines[:MOST_LISTED], f"and {omitted} more {items}"]
