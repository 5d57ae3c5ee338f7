"""Interpolation between beliefs: the best convex combination of grid points that makes up a belief.

Points g_1..g_n of the simplex, its vertices first, and numbers h_1..h_n. For a belief τ,

    h̃(τ) = max { Σ γ_i h_i : Σ γ_i g_i = τ, γ ≥ 0 }

is a linear program with a row for each state. Every feasible γ gives a valid lower bound for a concave
function that lies above h at the points, so the program need not be solved to the end, and rounding is
dealt with by `repaired_value`: weights are trimmed until Σ γ_i g_i ≤ τ holds in every coordinate, and what
is missing is put on the vertices. Only repaired values enter a certificate.

A primal simplex from the vertices, or from the basis of the last time, restricted to the states of τ and
to the points inside that face; one full pass over the points collects a short list, and the next pivots
come from the list. A basis of the last time is mostly still the best: it is factorised, which tells as much,
and inverted only where it is not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from ..arrays import Array

_FACE = 1e-10  # coordinates of τ below this are left to the vertices
_PIVOT = 1e-9
_ALIKE = 1e-13  # weights that differ by less
_PRICE = 1e-11
LIST = 96  # columns that one full pricing collects
_REFACTOR = 30  # pivots between fresh inverses
_MOST_PIVOTS = 400
_FAST = {"reassoc", "contract", "nsz", "arcp", "nnan"}


class Room(NamedTuple):
    """What `interpolate` works with."""

    reduced: Array  # [n]: prices of the points
    barred: Array  # [n]: penalties for points outside the face
    table: Array  # [S, S]: the basis, factorised
    inverse: Array  # [S, S]
    short: npt.NDArray[np.int64]  # [LIST + 1]: numbers of points to try first; how many, in the last place
    listed: Array  # [S + 2, LIST]: their columns, h and prices
    lines: Array  # [5, S]: weights, duals, two lines to work on, and the state of the pricing
    numbers: npt.NDArray[np.int64]  # [4, S]: row exchanges, the face of τ, all states, the last good basis


@njit(cache=True, nogil=True)
def scratch(n, n_states):
    """A fresh `Room` for n points, with nothing on the short list."""
    return Room(
        np.empty(n),
        np.empty(n),
        np.empty((n_states, n_states)),
        np.empty((n_states, n_states)),
        np.zeros(LIST + 1, np.int64),
        np.empty((n_states + 2, LIST)),
        np.empty((5, max(n_states, 3))),
        np.empty((4, n_states), np.int64),
    )


@njit(cache=True, nogil=True)
def _factorise(points, basis, rows, m, table, order):
    """The basis as P L U, in place, with row exchanges in `order`; False where it is singular."""
    for r in range(m):
        order[r] = r
        for k in range(m):
            table[r, k] = points[rows[r], basis[k]]
    for c in range(m):
        pivot = c
        for r in range(c + 1, m):
            if abs(table[r, c]) > abs(table[pivot, c]):
                pivot = r
        if abs(table[pivot, c]) < 1e-12:
            return False
        if pivot != c:
            for q in range(m):
                table[c, q], table[pivot, q] = table[pivot, q], table[c, q]
            order[c], order[pivot] = order[pivot], order[c]
        scale = 1.0 / table[c, c]
        for r in range(c + 1, m):
            if table[r, c] != 0.0:
                factor = table[r, c] * scale
                table[r, c] = factor
                for q in range(c + 1, m):
                    table[r, q] -= factor * table[c, q]
    return True


@njit(cache=True, nogil=True)
def _solve(table, order, m, right, out):
    """out = B⁻¹ right."""
    for r in range(m):
        total = right[order[r]]
        for k in range(r):
            total -= table[r, k] * out[k]
        out[r] = total
    for r in range(m - 1, -1, -1):
        total = out[r]
        for k in range(r + 1, m):
            total -= table[r, k] * out[k]
        out[r] = total / table[r, r]


@njit(cache=True, nogil=True)
def _solve_transposed(table, order, m, right, out, line):
    """out = B⁻ᵀ right; `line` is scratch."""
    for k in range(m):
        line[k] = right[k]
    for k in range(m):
        line[k] /= table[k, k]
        for q in range(k + 1, m):
            line[q] -= line[k] * table[k, q]
    for k in range(m - 1, -1, -1):
        for q in range(k):
            line[q] -= line[k] * table[k, q]
    for k in range(m):
        out[order[k]] = line[k]


@njit(cache=True, nogil=True)
def _invert(table, order, m, inverse):
    for r in range(m):
        for k in range(m):
            inverse[r, k] = 0.0
        inverse[r, order[r]] = 1.0
    for c in range(m):
        for r in range(c + 1, m):
            factor = table[r, c]
            if factor != 0.0:
                for q in range(m):
                    inverse[r, q] -= factor * inverse[c, q]
    for r in range(m - 1, -1, -1):
        for k in range(r + 1, m):
            factor = table[r, k]
            if factor != 0.0:
                for q in range(m):
                    inverse[r, q] -= factor * inverse[k, q]
        scale = 1.0 / table[r, r]
        for q in range(m):
            inverse[r, q] *= scale


@njit(cache=True, nogil=True)
def _weighed(points, basis, rows, m, tau, table, order, x, residual, step):
    """x = B⁻¹ τ with a step of refinement; False where singular, infeasible or inexact."""
    if not _factorise(points, basis, rows, m, table, order):
        return False
    for r in range(m):
        residual[r] = tau[rows[r]]
    _solve(table, order, m, residual, x)
    for r in range(m):
        total = tau[rows[r]]
        for k in range(m):
            total -= points[rows[r], basis[k]] * x[k]
        residual[r] = total
        if abs(total) > 1e-10:
            return False
    _solve(table, order, m, residual, step)
    for k in range(m):
        x[k] += step[k]
        if x[k] < -1e-11:
            return False
    return True


@njit(cache=True, nogil=True, fastmath=_FAST)
def _prices(points, h, n, rows, m, dual, out):
    """Reduced costs of all points; the largest."""
    for i in range(n):
        out[i] = h[i]
    r = 0
    while r + 4 <= m:
        f0, f1, f2, f3 = dual[r], dual[r + 1], dual[r + 2], dual[r + 3]
        p0, p1, p2, p3 = points[rows[r]], points[rows[r + 1]], points[rows[r + 2]], points[rows[r + 3]]
        for i in range(n):
            out[i] -= f0 * p0[i] + f1 * p1[i] + f2 * p2[i] + f3 * p3[i]
        r += 4
    while r < m:
        f0, p0 = dual[r], points[rows[r]]
        for i in range(n):
            out[i] -= f0 * p0[i]
        r += 1
    return _largest(out, n)


@njit(cache=True, nogil=True, fastmath=_FAST)
def _largest(values, n):
    best = -1e300
    for i in range(n):
        if values[i] > best:
            best = values[i]
    return best


@njit(cache=True, nogil=True)
def _from_vertices(rows, m, tau, h, basis, inverse, x, dual):
    for k in range(m):
        basis[k] = rows[k]
        x[k] = tau[rows[k]]
        dual[k] = h[rows[k]]
        for r in range(m):
            inverse[k, r] = 0.0
        inverse[k, k] = 1.0


@njit(cache=True, nogil=True)
def _bar_other_faces(points, n, n_states, rows, m, barred):
    """A huge penalty for points with mass outside the states of τ."""
    for i in range(n):
        barred[i] = 0.0
    k = 0
    for s in range(n_states):
        if k < m and rows[k] == s:
            k += 1
        else:
            row = points[s]
            for i in range(n):
                barred[i] += row[i]
    for i in range(n):
        barred[i] = 1e300 if barred[i] > 0.0 else 0.0


@njit(cache=True, nogil=True)
def _gather(points, h, rows, m, short, length, listed):
    """The columns of the short list side by side; their h in the last row but one."""
    n_states = len(listed) - 2
    for q in range(length):
        i = short[q]
        for r in range(m):
            listed[r, q] = points[rows[r], i]
        listed[n_states, q] = h[i]


@njit(cache=True, nogil=True)
def _inside(points, rows, m, short):
    """Leave in the list only points inside the face; how many."""
    length = 0
    for q in range(short[LIST]):
        outside, k = 0.0, 0
        for s in range(len(points)):
            if k < m and rows[k] == s:
                k += 1
            else:
                outside += points[s, short[q]]
        if outside == 0.0:
            short[length] = short[q]
            length += 1
    return length


@njit(cache=True, nogil=True)
def _entering(points, h, n, rows, m, dual, full, state, barred, reduced, short, listed, whole):
    """The column to enter, or -1; `state` holds the short list's length, its best price, and work done."""
    length = int(state[0])
    n_states = len(listed) - 2
    if length > 0:
        prices = listed[n_states + 1]
        best = _prices(listed, listed[n_states], length, whole, m, dual, prices)
        state[2] += length * m
        if best > max(_PRICE, 0.1 * state[1]):
            for q in range(length):
                if prices[q] == best:
                    return short[q]
    best = _prices(points, h, n, rows, m, dual, reduced)
    state[2] += n * m
    if not full:
        for i in range(n):
            reduced[i] -= barred[i]
        best = _largest(reduced, n)
    state[0], state[1] = 0, best
    if best <= _PRICE:
        return -1
    enter, length = -1, 0
    for i in range(n):
        if reduced[i] > 0.25 * best:
            if enter < 0 and reduced[i] == best:
                enter = i
            if length < LIST:
                short[length] = i
                length += 1
    state[0] = length
    _gather(points, h, rows, m, short, length, listed)
    return enter


@njit(cache=True, nogil=True)
def _leaving(x, column, m):
    """The row to leave, or -1, and the step; of rows that limit it alike, the one with the largest pivot.

    Harris (1973): rows that would fall below zero by no more than rounding count as alike. Many weights of a
    basis are zero, and the smallest quotient alone would pick pivots that are rounding themselves.
    """
    most, largest, leave = 1e300, 0.0, -1
    for k in range(m):
        if column[k] > _PIVOT:
            most = min(most, (max(x[k], 0.0) + _ALIKE) / column[k])
    for k in range(m):
        if column[k] > max(_PIVOT, largest) and max(x[k], 0.0) <= most * column[k]:
            largest, leave = column[k], k
    return leave, max(x[leave], 0.0) / largest if leave >= 0 else 0.0


@njit(cache=True, nogil=True)
def _pivot(points, h, rows, m, enter, inverse, x, basis, dual, column):
    """Bring `enter` into the basis; False where no row limits it."""
    price = h[enter]
    for k in range(m):
        column[k] = 0.0
        price -= dual[k] * points[rows[k], enter]
    for r in range(m):
        share = points[rows[r], enter]
        if share != 0.0:
            for k in range(m):
                column[k] += inverse[k, r] * share
    leave, ratio = _leaving(x, column, m)
    if leave < 0:
        return False
    scale = 1.0 / column[leave]
    for r in range(m):
        inverse[leave, r] *= scale
        dual[r] += price * inverse[leave, r]
    for k in range(m):
        factor = column[k]
        if k != leave and factor != 0.0:
            x[k] -= ratio * factor
            for r in range(m):
                inverse[k, r] -= factor * inverse[leave, r]
    x[leave] = ratio
    basis[leave] = enter
    return True


@njit(cache=True, nogil=True)
def _polish(points, rows, m, tau, inverse, x, basis, column):
    """Two steps of iterative refinement of x; whether it is exact and feasible enough."""
    worst = 0.0
    for _ in range(2):
        worst = 0.0
        for r in range(m):
            residual = tau[rows[r]]
            for k in range(m):
                residual -= points[rows[r], basis[k]] * x[k]
            column[r] = residual
            worst = max(worst, abs(residual))
        if worst < 1e-16:
            break
        for k in range(m):
            for r in range(m):
                x[k] += inverse[k, r] * column[r]
    least = 0.0
    for k in range(m):
        least = min(least, x[k])
    return worst <= 1e-11 and least >= -1e-11


@njit(cache=True, nogil=True)
def _duals(h, basis, m, table, order, dual, line, step):
    for k in range(m):
        step[k] = h[basis[k]]
    _solve_transposed(table, order, m, step, dual, line)


@njit(cache=True, nogil=True)
def _pivots(points, h, n, tau, basis, rows, m, good, full, state, room):
    """Pivot to the best basis, from the present one where it is `good` and else from the vertices."""
    reduced, barred, table, inverse, short, listed, lines, numbers = room
    x, dual, line, step = lines[0], lines[1], lines[2], lines[3]
    order, whole, last = numbers[0], numbers[2], numbers[3]
    if good:
        _duals(h, basis, m, table, order, dual, line, step)
    else:
        _from_vertices(rows, m, tau, h, basis, inverse, x, dual)
    last[:] = basis
    inverted, since = not good, 0
    for _ in range(_MOST_PIVOTS):
        enter = _entering(points, h, n, rows, m, dual, full, state, barred, reduced, short, listed, whole)
        if enter < 0:
            break
        if not inverted:
            _invert(table, order, m, inverse)
            inverted = True
        if not _pivot(points, h, rows, m, enter, inverse, x, basis, dual, line):
            break
        state[2] += m * m
        since += 1
        if since % _REFACTOR == 0:
            if not _weighed(points, basis, rows, m, tau, table, order, x, line, step):
                basis[:] = last
                return False
            last[:] = basis
            _invert(table, order, m, inverse)
            _duals(h, basis, m, table, order, dual, line, step)
    if since == 0 or _polish(points, rows, m, tau, inverse, x, basis, line):
        return True
    if _weighed(points, basis, rows, m, tau, table, order, x, line, step):
        return True
    basis[:] = last
    return False


@njit(cache=True, nogil=True)
def _face(tau, rows, whole):
    """The states that τ has mass on, in `rows`: how many; and all states, in `whole`."""
    m = 0
    for s in range(len(tau)):
        whole[s] = s
        if tau[s] > _FACE:
            rows[m] = s
            m += 1
    return m


@njit(cache=True, nogil=True)
def interpolate(points, h, n, tau, basis, weights, room):
    """h̃(τ), with its basis and weights in place; returns the value and the work that it took.

    `points[s, i]` has states outer, so that pricing runs along points; `room` is `scratch(n, S)`. It begins
    from `basis`, or from the vertices where that has -1 in its first place, and tries the points on the short
    list first, which it uses up; with n = 0 it tries no others, and must not be given a basis.
    """
    # No argument here may be a literal: numba compiles the whole for each of them.
    n_states = len(tau)
    barred, table, lines, numbers = room.barred, room.table, room.lines, room.numbers
    x, line, step, order, rows = lines[0], lines[2], lines[3], numbers[0], numbers[1]
    m = _face(tau, rows, numbers[2])
    listed = room.short[LIST] > 0
    if m == 1:
        for k in range(n_states):
            basis[k] = rows[0]
            weights[k] = 0.0
        weights[0] = 1.0
        room.short[LIST] = 0
        return h[rows[0]], 1.0
    full = m == n_states
    if not full:
        _bar_other_faces(points, n, n_states, rows, m, barred)
    state = lines[4]
    good = basis[0] >= 0
    state[0], state[1], state[2] = 0.0, 0.0, m * m * m / 3 if good else 0.0
    if good and not full:
        for k in range(m):
            if barred[basis[k]] > 0.0:
                good = False
    good = good and _weighed(points, basis, rows, m, tau, table, order, x, line, step)
    if listed and not good:
        length = _inside(points, rows, m, room.short)
        _gather(points, h, rows, m, room.short, length, room.listed)
        state[0] = length
    room.short[LIST] = 0
    sound = _pivots(points, h, n, tau, basis, rows, m, good, full, state, room)
    if not sound and not _weighed(points, basis, rows, m, tau, table, order, x, line, step):
        _from_vertices(rows, m, tau, h, basis, room.inverse, x, lines[1])
    value = 0.0
    for k in range(m):
        weights[k] = max(x[k], 0.0)
        value += weights[k] * h[basis[k]]
    for k in range(m, n_states):
        basis[k] = rows[0]
        weights[k] = 0.0
    return value, state[2] + m * m


@njit(cache=True, nogil=True)
def repaired_value(points, h, tau, basis, weights, made, kept):
    """Σ γ_i h_i with γ trimmed so that Σ γ_i g_i ≤ τ, and the rest of τ on the vertices.

    Where a coordinate of Σ γ_i g_i is too large, weight is taken from the column that has most of it.
    `made` and `kept` are scratch.
    """
    n_states = len(tau)
    for s in range(n_states):
        made[s] = 0.0
    for k in range(n_states):
        kept[k] = weights[k]
        if kept[k] > 0.0:
            for s in range(n_states):
                made[s] += kept[k] * points[s, basis[k]]
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
    value = 0.0
    for k in range(n_states):
        if kept[k] > 0.0:
            value += kept[k] * h[basis[k]]
    for s in range(n_states):
        rest = tau[s] - made[s]
        if rest > 0.0:
            value += rest * h[s]
        elif rest < -1e-15:
            return -1e300  # not repaired: no bound can rest on this
    return value
