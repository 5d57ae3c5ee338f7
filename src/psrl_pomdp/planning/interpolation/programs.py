"""Interpolation between beliefs: the best convex combination of grid points that makes up a belief.

Points g_1..g_n of the simplex, its vertices first, and numbers h_1..h_n. For a belief τ,

    h̃(τ) = max { Σ γ_i h_i : Σ γ_i g_i = τ, γ ≥ 0 }

is a linear program with a row for each state. Every feasible γ gives a valid lower bound for a concave
function that lies above h at the points, so the program need not be solved to the end, and rounding is
dealt with by `repaired_value`: weights are trimmed until Σ γ_i g_i ≤ τ holds in every coordinate, and what
is missing is put on the vertices. Only repaired values enter a certificate.

A primal simplex from the vertices, or from the basis of the last time, restricted to the states on which τ
has more than next to nothing and to the points inside that face; one full pass over the points collects a
short list, of the best in each bunch of them, and the next pivots come from the list. A basis of the last
time is mostly still the best: it is factorised, which tells as much, and inverted only where it is not. Most
programs are met again after the values have changed, so that it rarely pays to solve one to the end now. A
basis that is the best for another belief near by has the right prices and some weights below zero: the dual
simplex between the points of a short list makes it feasible in a few pivots.
"""

from __future__ import annotations

import numpy as np

from ..._numba.jit import bare
from ..._utils.arrays import Array, Bases, Index
from .bases import (
    BAD,
    GOOD,
    INFEASIBLE,
    by_inverse,
    copy,
    duals,
    exchange,
    from_vertices,
    most_negative,
    pivot,
    polish,
    weighed,
)
from .lu import invert
from .pricing import LIST, Room, cheapest, entering, gather, list_best, priced

FACE = 1e-10  # coordinates of τ below this are always left to the vertices
_NOTHING = -1e300
TO_THE_END = np.inf
BY_THE_WAY = 8.0  # effort of a program that will be taken up again soon
_REFACTOR, _CAREFULLY = 30, 3  # pivots between fresh inverses, and where rounding has ruined one
_MOST_PIVOTS = 400
_MOST_DUAL_PIVOTS = 4  # times m
_DUAL_PIVOT, _LARGEST_STEP = 1e-8, 1e3  # the least pivot, and the largest weight, that leave a basis intact


@bare(inner=True)
def _worth_inside(points: Array, h: Array, n: int, n_states: int, rows: Index, m: int, worth: Array) -> None:
    """h for the points inside the face of τ; those with mass outside its states are worth next to nothing."""
    for i in range(n):
        worth[i] = 0.0
    k = 0
    for s in range(n_states):
        if k < m and rows[k] == s:
            k += 1
        else:
            row = points[s]
            for i in range(n):
                worth[i] += row[i]
    for i in range(n):
        worth[i] = h[i] if worth[i] == 0.0 else _NOTHING


@bare(inner=True, linked=True)
def _is_inside(column: Array, rows: Index, m: int) -> bool:
    """Whether a point has no mass outside the face."""
    outside, k = 0.0, 0
    for s in range(len(column)):
        if k < m and rows[k] == s:
            k += 1
        else:
            outside += column[s]
    return outside == 0.0


@bare(inner=True)
def _inside(columns: Array, rows: Index, m: int, short: Index) -> int:
    """Leave in the list only points inside the face; how many."""
    length = 0
    for q in range(short[LIST]):
        if _is_inside(columns[short[q]], rows, m):
            short[length] = short[q]
            length += 1
    return length


@bare(inner=True)
def _kept_inside(columns: Array, rows: Index, m: int, basis: Bases) -> bool:
    """Bring points inside the face to the front of a basis; whether there are enough of them."""
    count = 0
    for k in range(len(basis)):
        if count < m and _is_inside(columns[basis[k]], rows, m):
            basis[count], basis[k] = basis[k], basis[count]
            count += 1
    return count == m


@bare(inner=True)
def _made_feasible(h: Array, rows: Index, m: int, basis: Bases, state: Array, room: Room) -> int:
    """Dual simplex between the points of the list and the vertices: how many pivots, or -1 if in vain.

    A basis that is best for a belief near by has prices that are right, and some weights below zero.
    """
    columns, inverse, lines = room.columns, room.inverse, room.lines
    x, dual, column, line = lines[0], lines[1], lines[2], lines[3]
    length = int(state[0])
    for done in range(_MOST_DUAL_PIVOTS * m):
        leave = most_negative(x, m)
        if leave < 0:
            return done
        for r in range(m):
            line[r] = inverse[r, leave]
        enter, price = cheapest(rows, m, h, dual, line, length, room)
        if enter < 0:
            break
        for r in range(m):
            line[r] = columns[enter, rows[r]]
        by_inverse(inverse, m, line, column)
        if column[leave] > -_DUAL_PIVOT or x[leave] < _LARGEST_STEP * column[leave]:
            break
        exchange(m, enter, leave, x[leave] / column[leave], price, inverse, x, basis, dual, column)
        state[2] += m * (m + 2 * length)
    return -1


@bare(inner=True)
def _pivots(
    points: Array,
    h: Array,
    worth: Array,
    n: int,
    tau: Array,
    basis: Bases,
    rows: Index,
    m: int,
    good: int,
    every: int,
    state: Array,
    room: Room,
) -> bool:
    """Pivot to the best basis: from the present one where it is `GOOD`, or `INFEASIBLE` and made feasible,
    and else from the vertices, with a fresh inverse after `every` few pivots; False where rounding has ruined
    it."""
    columns, table, inverse, lines, numbers = room.columns, room.table, room.inverse, room.lines, room.numbers
    x, dual, line, step = lines[0], lines[1], lines[2], lines[3]
    order, last = numbers[0], numbers[3]
    inverted, since = good != GOOD, 0
    if good != BAD:
        duals(h, basis, m, table, order, dual, line, step)
    if good == INFEASIBLE:
        if state[0] == 0.0 and n > 0:
            priced(points, worth, n, rows, m, dual, state, room)
            list_best(worth, n, rows, m, 0.5 * _NOTHING, state, room)
        invert(table, order, m, inverse, line)
        since = _made_feasible(h, rows, m, basis, state, room)
    if good == BAD or since < 0:
        since = 0
        from_vertices(rows, m, tau, h, basis, inverse, x, dual)
    copy(basis, last, m)
    for _ in range(_MOST_PIVOTS):
        enter = entering(points, worth, n, rows, m, dual, state, room)
        if enter < 0:
            break
        if not inverted:
            invert(table, order, m, inverse, line)
            inverted = True
        if not pivot(columns, h, rows, m, enter, inverse, x, basis, dual, line, step):
            break
        state[2] += m * m
        since += 1
        if since % every == 0:
            if weighed(columns, basis, rows, m, tau, table, order, x, line, step) != GOOD:
                copy(last, basis, m)
                return False
            copy(basis, last, m)
            invert(table, order, m, inverse, line)
            duals(h, basis, m, table, order, dual, line, step)
    if since == 0 or polish(columns, rows, m, tau, inverse, x, basis, line):
        return True
    if weighed(columns, basis, rows, m, tau, table, order, x, line, step) == GOOD:
        return True
    copy(last, basis, m)
    return False


@bare(inner=True, linked=True)
def _face(tau: Array, rows: Index, whole: Index, face: float) -> int:
    """The states that τ has more mass on than `face`, in `rows`: how many; and all states, in `whole`."""
    m = 0
    for s in range(len(tau)):
        whole[s] = s
        if tau[s] > face:
            rows[m] = s
            m += 1
    return m


@bare(inner=True)
def _left_to_vertices(tau: Array, h: Array, rows: Index, m: int, basis: Bases, weights: Array) -> float:
    """The coordinates of τ outside the face as weights behind those of the basis, and their value.

    The largest come first: on a larger face they are what the basis lacks.
    """
    value, k, end = 0.0, 0, m
    for s in range(len(tau)):
        if k < m and rows[k] == s:
            k += 1
            continue
        weight = tau[s] if tau[s] > FACE else 0.0  # so little is rounding, and left to the repair
        value += weight * h[s]
        place = end
        while place > m and weights[place - 1] < weight:
            basis[place], weights[place] = basis[place - 1], weights[place - 1]
            place -= 1
        basis[place], weights[place] = s, weight
        end += 1
    return value


@bare()
def interpolate(
    points: Array, h: Array, n: int, tau: Array, basis: Bases, weights: Array, room: Room, effort: float
) -> tuple[float, float]:
    """h̃(τ), with its basis and weights in place; returns the value and the work that it took.

    `points[s, i]` has states outer, so that pricing runs along points; `room` is from `scratch`. It
    begins from `basis`, or from the vertices where that has -1 in its first place, and tries the points on
    the short list first, which it uses up; with n = 0 it tries no others, and must not be given a basis.
    From a basis it prices all points until that has cost `effort` · m³, and once at least.
    """
    # No argument here may be a literal: numba compiles the whole for each of them.
    n_states = len(tau)
    table, lines, numbers = room.table, room.lines, room.numbers
    x, line, step, order, rows = lines[0], lines[2], lines[3], numbers[0], numbers[1]
    m = _face(tau, rows, numbers[2], room.face)
    listed = room.short[LIST] > 0
    if m == 1:
        basis[0] = rows[0]
        weights[0] = tau[rows[0]]
        room.short[LIST] = 0
        return weights[0] * h[rows[0]] + _left_to_vertices(tau, h, rows, m, basis, weights), 1.0
    full = m == n_states
    worth = h
    if not full:
        worth = room.worth
        _worth_inside(points, h, n, n_states, rows, m, worth)
    state = lines[4]
    state[0], state[1], state[2] = 0.0, 0.0, 0.0
    good = BAD
    if basis[0] >= 0 and _kept_inside(room.columns, rows, m, basis):
        state[2] = m * m * m / 3
        good = weighed(room.columns, basis, rows, m, tau, table, order, x, line, step)
    state[3] = max(1.0, effort * m * m / max(1, n)) if good == GOOD else TO_THE_END
    if listed and good != GOOD:
        length = _inside(room.columns, rows, m, room.short)
        gather(room.columns, h, rows, m, room.short, length, room.listed)
        state[0] = length
    room.short[LIST] = 0
    sound, every = False, _REFACTOR
    for _ in range(2):
        sound = _pivots(points, h, worth, n, tau, basis, rows, m, good, every, state, room)
        if sound:
            break
        good, every = BAD, _CAREFULLY  # once more, from the vertices, with no list and as long as it takes
        state[0], state[3] = 0.0, TO_THE_END
    if not sound and weighed(room.columns, basis, rows, m, tau, table, order, x, line, step) != GOOD:
        from_vertices(rows, m, tau, h, basis, room.inverse, x, lines[1])
    value = 0.0
    for k in range(m):
        weights[k] = max(x[k], 0.0)
        value += weights[k] * h[basis[k]]
    value += _left_to_vertices(tau, h, rows, m, basis, weights)
    return value, state[2] + m * m


@bare(inner=True)
def _mixture(points: Array, basis: Bases, weights: Array, made: Array) -> None:
    """made = Σ γ_i g_i."""
    for s in range(len(made)):
        made[s] = 0.0
    for k in range(len(made)):
        if weights[k] > 0.0:
            for s in range(len(made)):
                made[s] += weights[k] * points[s, basis[k]]


@bare()
def repaired_value(
    points: Array, h: Array, tau: Array, basis: Bases, weights: Array, made: Array, kept: Array
) -> float:
    """Σ γ_i h_i with γ trimmed so that Σ γ_i g_i ≤ τ, and the rest of τ on the vertices.

    Where a coordinate of Σ γ_i g_i is too large, weight is taken from the column that has most of it.
    `made` and `kept` are scratch.
    """
    n_states = len(tau)
    for k in range(n_states):
        kept[k] = weights[k]
    _mixture(points, basis, kept, made)
    trimmed = False
    for s in range(n_states):
        for _ in range(n_states):
            excess = made[s] - tau[s]
            if excess <= 0.0:
                break
            most = -1
            for k in range(n_states):
                if kept[k] > 0.0 and (most < 0 or points[s, basis[k]] > points[s, basis[most]]):
                    most = k
            if most < 0 or points[s, basis[most]] <= 0.0:
                break
            share = points[s, basis[most]]
            cut = min(kept[most], excess / share * (1.0 + 1e-12) + 1e-300)
            kept[most] -= cut
            for t in range(n_states):
                made[t] -= cut * points[t, basis[most]]
            trimmed = True
    if trimmed:  # anew: what is left after subtracting may be nothing but rounding
        _mixture(points, basis, kept, made)
    value = 0.0
    for k in range(n_states):
        if kept[k] > 0.0:
            value += kept[k] * h[basis[k]]
    for s in range(n_states):
        rest = tau[s] - made[s]
        if rest > 0.0:
            value += rest * h[s]
        elif not rest >= -1e-15:
            return -1e300  # not repaired, or no number: no bound can rest on this
    return value
