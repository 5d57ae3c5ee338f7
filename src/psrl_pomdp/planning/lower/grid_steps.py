"""The compiled steps of the lower bound: geometry, interpolation, Bellman's operator, the certificate.

Arrays of the grid, for n points of which the first S are the vertices:

    points[s, i]      coordinate s of point i
    reach[i, a, o]    P(o | g_i, a)
    tau[i, a, o, s]   the belief after action a and reading o
    basis, weights[i, a, o, k]   its interpolation between points
    cost[i, a]        c(g_i, a)
    h[i]              the relative values
    q[i, a], best[i]  the right side of Bellman's equation, and its least
"""

from __future__ import annotations

import numpy as np

from ..._numba.jit import bare, kept
from ..._utils.arrays import Array, Bases, Index, Mask
from ...inference.filter_bank import drawn
from ..interpolation.pricing import LIST, Room, scratch
from ..interpolation.programs import TO_THE_END, interpolate, repaired_value

_NEVER = 1e-300  # readings less likely than this are left out


@bare(inner=True, linked=True)
def sort_order(values: Array, order: Index) -> None:
    """The places of `values` in `order`, from the least to the largest, equals as they come."""
    for i in range(len(values)):
        k = i
        while k > 0 and values[order[k - 1]] > values[i]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = i


@bare()
def next_beliefs(joint: Array, belief: Array, action: int, chances: Array, beliefs: Array) -> None:
    """P(o | b, a) and τ(b, a, o) for every reading."""
    n_observations, n_states = beliefs.shape
    for o in range(n_observations):
        after = beliefs[o]
        for t in range(n_states):
            after[t] = 0.0
        for s in range(n_states):
            share = belief[s]
            if share > 0.0:
                for t in range(n_states):
                    after[t] += share * joint[action, o, s, t]
        total = 0.0
        for t in range(n_states):
            total += after[t]
        if total > _NEVER:
            chances[o] = total
            for t in range(n_states):
                after[t] /= total
        else:
            chances[o] = 0.0


@kept()
def geometry(
    joint: Array, state_cost: Array, points: Array, first: int, n: int, reach: Array, tau: Array, cost: Array
) -> None:
    """What follows from each of the points first..n-1 under each action."""
    n_actions, n_states = state_cost.shape
    belief = np.empty(n_states)
    for i in range(first, n):
        for s in range(n_states):
            belief[s] = points[s, i]
        for a in range(n_actions):
            cost[i, a] = 0.0
            for s in range(n_states):
                cost[i, a] += belief[s] * state_cost[a, s]
            next_beliefs(joint, belief, a, reach[i, a], tau[i, a])


@bare(inner=True)
def _weigh_by_vertices(
    i: int, h: Array, reach: Array, tau: Array, basis: Bases, weights: Array, cost: Array, values: Array
) -> None:
    """The plainest interpolation for every action at point i, and what each action is worth by it."""
    n_actions, n_observations, n_states = tau.shape[1:]
    for a in range(n_actions):
        values[a] = cost[i, a]
        for o in range(n_observations):
            for s in range(n_states):
                basis[i, a, o, s] = s
                weights[i, a, o, s] = tau[i, a, o, s] if reach[i, a, o] > 0.0 else 0.0
                values[a] += reach[i, a, o] * weights[i, a, o, s] * h[s]


@kept()
def weigh_by_vertices(
    first: int, n: int, h: Array, reach: Array, tau: Array, basis: Bases, weights: Array, cost: Array
) -> None:
    """The plainest interpolation at the points first..n-1."""
    values = np.empty(cost.shape[1])
    for i in range(first, n):
        _weigh_by_vertices(i, h, reach, tau, basis, weights, cost, values)


@bare(inner=True)
def _list_columns(
    a: int, o: int, basis: Bases, weights: Array, own: Bases, seen: Index, short: Index
) -> None:
    """List the points that make up what follows from the points `own` that make up a belief.

    seen[i] is the number of the last list with point i in it, and its last place counts lists.
    """
    seen[-1] += 1
    count = 0
    for i in own:
        if i >= 0:
            for k in range(len(own)):
                j = basis[i, a, o, k]
                if weights[i, a, o, k] > 0.0 and seen[j] != seen[-1] and count < LIST:
                    seen[j] = seen[-1]
                    short[count] = j
                    count += 1
    short[LIST] = count


@bare(inner=True, linked=True)
def _any_point(numbers: Bases) -> bool:
    """Whether there is the number of a point, and not only -1."""
    found = False
    for k in range(len(numbers)):
        found |= numbers[k] >= 0
    return found


@bare(inner=True)
def _raise_by_list(
    i: int,
    a: int,
    own: Bases,
    value: float,
    best: float,
    arrays: tuple[Array, Array, Array, Array, Bases, Array],
    seen: Index,
    room: Room,
) -> tuple[float, float]:
    """Interpolate what follows action a at point i between the points near by; the action's value, and work.

    These hold all points that make up Σ γ_k q(g_k, a), so that an action which loses by that floor loses.
    """
    points, h, reach, tau, basis, weights = arrays
    work = 0.0
    for o in range(reach.shape[2]):
        if value >= best:
            break
        if reach[i, a, o] > 0.0:
            before = 0.0
            for s in range(len(own)):
                before += tau[i, a, o, s] * h[s]
            _list_columns(a, o, basis, weights, own, seen, room.short)
            basis[i, a, o, 0] = -1
            none = int(np.int64(0))  # no literal: `interpolate` would be compiled for it apart
            inner, spent = interpolate(
                points, h, none, tau[i, a, o], basis[i, a, o], weights[i, a, o], room, TO_THE_END
            )
            value += reach[i, a, o] * (inner - before)
            work += spent
    return value, work


@kept()
def weigh_new(
    points: Array,
    h: Array,
    first: int,
    last: int,
    n: int,
    reach: Array,
    tau: Array,
    basis: Bases,
    weights: Array,
    cost: Array,
    known: Bases,
    own: Bases,
    face: float,
) -> float:
    """Interpolations for the points first..last-1: by the vertices, and better ones for actions that may win.

    A better interpolation only raises an action's value, so that one whose value already loses cannot win
    and is left as it is. known[i − first, a, o, k] has bases that were found for actions that may win, or -1,
    and own[i − first, k] the points that make up point i, or -1.
    """
    n_actions, n_observations, n_states = tau.shape[1:]
    room, seen = scratch(points, n, face), np.zeros(n + 1, np.int64)
    arrays = points, h, reach, tau, basis, weights
    values, warm = np.empty(n_actions), np.empty(n_actions, np.bool_)
    promise = np.empty(n_actions)
    order: Index = np.empty(n_actions, np.int64)
    work = 0.0
    for i in range(first, last):
        _weigh_by_vertices(i, h, reach, tau, basis, weights, cost, values)
        best = 1e300
        start = known[i - first]
        for a in range(n_actions):
            warm[a] = False
            for o in range(n_observations):
                warm[a] |= _any_point(start[a, o])
            promise[a] = values[a] - 1e6 * warm[a]
        sort_order(promise, order)
        for a in order:
            near = not warm[a] and _any_point(own[i - first])
            if near:
                values[a], spent = _raise_by_list(i, a, own[i - first], values[a], best, arrays, seen, room)
                work += spent
            for o in range(n_observations):
                if values[a] >= best:
                    break
                if reach[i, a, o] > 0.0:
                    before = 0.0
                    for k in range(n_states):
                        before += weights[i, a, o, k] * h[basis[i, a, o, k]]
                    if warm[a]:
                        basis[i, a, o] = start[a, o]
                    elif not near:
                        basis[i, a, o, 0] = -1
                    inner, spent = interpolate(
                        points, h, n, tau[i, a, o], basis[i, a, o], weights[i, a, o], room, TO_THE_END
                    )
                    values[a] += reach[i, a, o] * (inner - before)
                    work += spent
            best = min(best, values[a])
    return work


@kept()
def reweigh(
    points: Array,
    h: Array,
    n: int,
    reach: Array,
    tau: Array,
    basis: Bases,
    weights: Array,
    q: Array,
    best: Array,
    margin: float,
    chosen: Mask,
    effort: float,
    face: float,
) -> tuple[float, float]:
    """Interpolations anew, with that effort, for the chosen points and actions within `margin` of the best.

    Returns the most that an interpolated value rose by, and the work.
    """
    n_actions, n_observations, n_states = tau.shape[1:]
    room = scratch(points, n, face)
    old_basis, old_weights = np.empty(n_states, np.int32), np.empty(n_states)
    work, raised = 0.0, 0.0
    for i in range(n):
        if not chosen[i]:
            continue
        for a in range(n_actions):
            if q[i, a] > best[i] + margin:
                continue
            for o in range(n_observations):
                if reach[i, a, o] > 0.0:
                    before = 0.0
                    for k in range(n_states):
                        old_basis[k], old_weights[k] = basis[i, a, o, k], weights[i, a, o, k]
                        before += old_weights[k] * h[old_basis[k]]
                    after, spent = interpolate(
                        points, h, n, tau[i, a, o], basis[i, a, o], weights[i, a, o], room, effort
                    )
                    work += spent
                    if after >= before:
                        raised = max(raised, after - before)
                    else:  # a basis that went bad: what there was is better
                        basis[i, a, o] = old_basis
                        weights[i, a, o] = old_weights
    return raised, work


@kept()
def interpolated(points: Array, h: Array, n: int, beliefs: Array, face: float) -> tuple[Array, float]:
    """h̃ at these beliefs, and the work."""
    n_states = len(points)
    room = scratch(points, n, face)
    basis, weights = np.empty(n_states, np.int32), np.empty(n_states)
    values, work = np.empty(len(beliefs)), 0.0
    for i in range(len(beliefs)):
        basis[0] = -1
        values[i], spent = interpolate(points, h, n, beliefs[i], basis, weights, room, TO_THE_END)
        work += spent
    return values, work


@bare(inner=True, linked=True)
def _action_value(i: int, a: int, reach: Array, basis: Bases, weights: Array, cost: Array, h: Array) -> float:
    value: float = cost[i, a]
    n_observations, n_states = weights.shape[2:]
    for o in range(n_observations):
        if reach[i, a, o] > 0.0:
            inner = 0.0
            for k in range(n_states):
                if weights[i, a, o, k] > 0.0:
                    inner += weights[i, a, o, k] * h[basis[i, a, o, k]]
            value += reach[i, a, o] * inner
    return value


@bare()
def bellman(
    n: int,
    reach: Array,
    basis: Bases,
    weights: Array,
    cost: Array,
    h: Array,
    q: Array,
    best: Array,
    policy: Index,
) -> tuple[float, float]:
    """q and its minimum over actions; the least and the largest of best − h."""
    low, high = 1e300, -1e300
    for i in range(n):
        best[i] = 1e300
        for a in range(cost.shape[1]):
            q[i, a] = _action_value(i, a, reach, basis, weights, cost, h)
            if q[i, a] < best[i] - 1e-14:
                best[i] = q[i, a]
                policy[i] = a
        low = min(low, best[i] - h[i])
        high = max(high, best[i] - h[i])
    return low, high


@kept()
def damped_sweeps(
    n: int,
    reach: Array,
    basis: Bases,
    weights: Array,
    cost: Array,
    h: Array,
    policy: Index,
    gain: float,
    damping: float,
    count: int,
) -> None:
    """h toward the relative values of the policy; damped, because beliefs may be periodic."""
    new = np.empty(n)
    for _ in range(count):
        for i in range(n):
            new[i] = h[i] + damping * (
                _action_value(i, policy[i], reach, basis, weights, cost, h) - gain - h[i]
            )
        for i in range(n):
            h[i] = new[i] - new[0]


@kept()
def settle(
    n: int,
    reach: Array,
    basis: Bases,
    weights: Array,
    policy: Index,
    mass: Array,
    damping: float,
    tolerance: float,
    most: int,
) -> int:
    """mass toward the long-run shares of the points under the policy; how many sweeps it took."""
    n_observations, n_states = weights.shape[2:]
    new = np.empty(n)
    for sweep in range(most):
        for i in range(n):
            new[i] = (1.0 - damping) * mass[i]
        for i in range(n):
            if mass[i] <= 1e-18:
                continue
            a = policy[i]
            for o in range(n_observations):
                flow = damping * mass[i] * reach[i, a, o]
                if flow > 0.0:
                    for k in range(n_states):
                        if weights[i, a, o, k] > 0.0:
                            new[basis[i, a, o, k]] += flow * weights[i, a, o, k]
        moved = 0.0
        for i in range(n):
            moved += abs(new[i] - mass[i])
            mass[i] = new[i]
        if moved < tolerance:
            return sweep + 1
    return most


@kept()
def certified_residual(
    points: Array, n: int, reach: Array, tau: Array, basis: Bases, weights: Array, cost: Array, h: Array
) -> float:
    """min over points and actions of [c + Σ P h̃ − h] with repaired interpolation: a lower bound on J."""
    n_actions, n_observations, n_states = tau.shape[1:]
    made, kept = np.empty(n_states), np.empty(n_states)
    lowest = 1e300
    for i in range(n):
        for a in range(n_actions):
            value = cost[i, a]
            for o in range(n_observations):
                if reach[i, a, o] > 0.0:
                    value += reach[i, a, o] * repaired_value(
                        points, h, tau[i, a, o], basis[i, a, o], weights[i, a, o], made, kept
                    )
            lowest = min(lowest, value - h[i])
    return lowest


@kept(inner=True)
def lookahead(
    joint: Array,
    state_cost: Array,
    grid: tuple[Array, Array, Array, Bases, Array],
    n: int,
    belief: Array,
    own_basis: Bases,
    own_weights: Array,
    chances: Array,
    beliefs: Array,
    bases: Bases,
    seen: Index,
    room: Room,
) -> tuple[float, int, float]:
    """min_a {c(b, a) + Σ P h̃(τ)} at a belief b = Σ γ_k g_k: its value, the action, and the work.

    Σ γ_k q(g_k, a) is a floor for the value of an action, so that one whose floor is above the best is not
    looked at. `chances`, `beliefs` and `bases`, with -1 for what was not looked at, are left for all actions.
    """
    n_actions, n_states = state_cost.shape
    n_observations = joint.shape[1]
    points, h, q, basis, weights = grid
    floor, own = np.zeros(n_actions), np.full(n_states, -1, np.int32)
    heaviest, most = own_basis[0], own_weights[0]
    for k in range(n_states):
        if own_weights[k] > most:
            heaviest, most = own_basis[k], own_weights[k]
        if own_weights[k] > 0.0:
            own[k] = own_basis[k]
            for a in range(n_actions):
                floor[a] += own_weights[k] * q[own_basis[k], a]
    bases[:] = -1
    best, action, work = 1e300, 0, 0.0
    found = np.empty(n_states)
    order: Index = np.empty(n_actions, np.int64)
    sort_order(floor, order)
    for a in order:
        if floor[a] >= best:
            break
        value = 0.0
        for s in range(n_states):
            value += belief[s] * state_cost[a, s]
        next_beliefs(joint, belief, a, chances[a], beliefs[a])
        for o in range(n_observations):
            if chances[a, o] > 0.0:
                _list_columns(a, o, basis, weights, own, seen, room.short)
                last = -1
                for k in range(n_states):  # what is best there is nearly right here
                    bases[a, o, k] = basis[heaviest, a, o, k]
                    last = max(last, bases[a, o, k])
                if last < n_states:  # nothing but vertices: the list is a better start
                    bases[a, o, 0] = -1
                inner, spent = interpolate(points, h, n, beliefs[a, o], bases[a, o], found, room, TO_THE_END)
                value += chances[a, o] * inner
                work += spent
        if value < best:
            best, action = value, a
    return best, action, work


@kept()
def residuals(
    joint: Array,
    state_cost: Array,
    grid: tuple[Array, Array, Array, Bases, Array],
    n: int,
    candidates: Array,
    whence: Index,
    here: Array,
    gain: float,
    face: float,
) -> tuple[Array, Bases, float]:
    """How much a point at each candidate belief would lift h there: [T h̃ − gain − h̃](b).

    Candidates follow from points: whence[c] is a point, an action and a reading, and here[c] is h̃. Also the
    bases that were found on the way, and the work.
    """
    n_actions, n_observations, n_states = joint.shape[:3]
    points, basis, weights = grid[0], grid[3], grid[4]
    room, seen = scratch(points, n, face), np.zeros(n + 1, np.int64)
    chances, beliefs = np.empty((n_actions, n_observations)), np.empty((n_actions, n_observations, n_states))
    out = np.empty(len(candidates))
    bases = np.empty((len(candidates), n_actions, n_observations, n_states), np.int32)
    work = 0.0
    for c in range(len(candidates)):
        i, a, o = whence[c]
        best, _, spent = lookahead(
            joint, state_cost, grid, n, candidates[c], basis[i, a, o], weights[i, a, o],
            chances, beliefs, bases[c], seen, room,
        )  # fmt: skip
        out[c] = best - gain - here[c]
        work += spent
    return out, bases, work


@kept()
def wander(
    joint: Array,
    state_cost: Array,
    grid: tuple[Array, Array, Array, Bases, Array],
    n: int,
    belief: Array,
    uniforms: Array,
    gain: float,
    face: float,
) -> tuple[Array, Array, Array, Bases, Bases, Array, float]:
    """Beliefs along a trajectory of the policy that is greedy for h̃, what a point would lift there, h̃ there,
    the points that make up each belief, the bases found, where it ended, and the work."""
    n_actions, n_observations, n_states = joint.shape[:3]
    points, h = grid[0], grid[1]
    room, seen = scratch(points, n, face), np.zeros(n + 1, np.int64)
    chances, beliefs = np.empty((n_actions, n_observations)), np.empty((n_actions, n_observations, n_states))
    visited = np.empty((len(uniforms), n_states))
    lift, inner = np.empty(len(uniforms)), np.empty(len(uniforms))
    bases = np.empty((len(uniforms), n_actions, n_observations, n_states), np.int32)
    own_basis, own_weights = np.full(n_states, -1, np.int32), np.zeros(n_states)
    own = np.empty((len(uniforms), n_states), np.int32)
    belief = belief.copy()
    work = 0.0
    for step in range(len(uniforms)):
        visited[step] = belief
        inner[step], first = interpolate(points, h, n, belief, own_basis, own_weights, room, TO_THE_END)
        for k in range(n_states):
            own[step, k] = own_basis[k] if own_weights[k] > 0.0 else -1
        best, a, spent = lookahead(
            joint, state_cost, grid, n, belief, own_basis, own_weights, chances, beliefs, bases[step],
            seen, room,
        )  # fmt: skip
        lift[step] = best - gain - inner[step]
        work += first + spent
        o = drawn(chances[a], uniforms[step])
        belief[:] = beliefs[a, o]
        own_basis[:] = bases[step, a, o]
    return visited, lift, inner, own, bases, belief, work
