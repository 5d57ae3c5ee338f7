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
programs are met again after the values have changed, so that it rarely pays to solve one to the end now.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from ..arrays import Array
from .lu import factorise, invert, solve, solve_transposed

FACE = 1e-10  # coordinates of τ below this are always left to the vertices
_PIVOT = 1e-9
_ALIKE = 1e-13  # weights that differ by less
_PRICE = 1e-11
_NOTHING = -1e300
LIST = 96  # columns that one full pricing collects
_LISTED = -0.3  # the least price for it, as a share of the best: what does not pay yet may do so soon
_EXHAUSTED = 0.01  # the best price left in a list, as a share of what it was, that calls for a new one
TO_THE_END = np.inf
BY_THE_WAY = 8.0  # effort of a program that will be taken up again soon
_REFACTOR = 30  # pivots between fresh inverses
_MOST_PIVOTS = 400
_FAST = {"reassoc", "contract", "nsz", "arcp", "nnan"}


class Room(NamedTuple):
    """What `interpolate` works with."""

    columns: Array  # [n, S]: the points again, the coordinates of each side by side
    reduced: Array  # [n]: prices of the points
    worth: Array  # [n]: h inside the face, and next to nothing outside
    table: Array  # [S, S]: the basis, factorised
    inverse: Array  # [S, S]
    short: npt.NDArray[np.int64]  # [LIST + 1]: numbers of points to try first; how many, in the last place
    listed: Array  # [S + 2, LIST]: their columns, h and prices
    lines: Array  # [5, S]: weights, duals, two lines to work on, and the state of the pricing
    numbers: npt.NDArray[np.int64]  # [4, S]: row exchanges, the face of τ, all states, the last good basis
    face: float  # coordinates of τ below this are left to the vertices


@njit(cache=True, nogil=True)
def scratch(points, n, face):
    """A fresh `Room` for the first n points and faces of that kind, with nothing on the short list."""
    n_states = len(points)
    return Room(
        np.ascontiguousarray(points[:, :n].T),
        np.empty(n),
        np.empty(n),
        np.empty((n_states, n_states)),
        np.empty((n_states, n_states)),
        np.zeros(LIST + 1, np.int64),
        np.empty((n_states + 2, LIST)),
        np.empty((5, max(n_states, 4))),
        np.empty((4, n_states), np.int64),
        face,
    )


@njit(cache=True, nogil=True)
def _miss(columns, basis, rows, m, tau, x, residual):
    """residual = τ − B x; the largest of it."""
    for r in range(m):
        residual[r] = tau[rows[r]]
    for k in range(m):
        for r in range(m):
            residual[r] -= columns[basis[k], rows[r]] * x[k]
    worst = 0.0
    for r in range(m):
        worst = max(worst, abs(residual[r]))
    return worst


@njit(cache=True, nogil=True)
def _weighed(columns, basis, rows, m, tau, table, order, x, residual, step):
    """x = B⁻¹ τ with a step of refinement; False where singular, infeasible or inexact."""
    if not factorise(columns, basis, rows, m, table, order, residual):
        return False
    for r in range(m):
        residual[r] = tau[rows[r]]
    solve(table, order, m, residual, x)
    if _miss(columns, basis, rows, m, tau, x, residual) > 1e-10:
        return False
    solve(table, order, m, residual, step)
    for k in range(m):
        x[k] += step[k]
        if x[k] < -1e-11:
            return False
    return True


@njit(cache=True, nogil=True, fastmath=_FAST)
def _prices(points, worth, n, rows, m, dual, out):
    """Reduced costs of all points."""
    r = (m - 1) % 4 + 1  # so many rows at first, then four at a time: it is passes over `out` that cost
    f0, f1, f2, f3 = dual[0], dual[1 % m], dual[2 % m], dual[3 % m]
    p0, p1, p2, p3 = points[rows[0]], points[rows[1 % m]], points[rows[2 % m]], points[rows[3 % m]]
    if r == 1:
        for i in range(n):
            out[i] = worth[i] - f0 * p0[i]
    elif r == 2:
        for i in range(n):
            out[i] = worth[i] - (f0 * p0[i] + f1 * p1[i])
    elif r == 3:
        for i in range(n):
            out[i] = worth[i] - (f0 * p0[i] + f1 * p1[i] + f2 * p2[i])
    else:
        for i in range(n):
            out[i] = worth[i] - (f0 * p0[i] + f1 * p1[i] + f2 * p2[i] + f3 * p3[i])
    while r < m:
        f0, f1, f2, f3 = dual[r], dual[r + 1], dual[r + 2], dual[r + 3]
        p0, p1, p2, p3 = points[rows[r]], points[rows[r + 1]], points[rows[r + 2]], points[rows[r + 3]]
        for i in range(n):
            out[i] -= f0 * p0[i] + f1 * p1[i] + f2 * p2[i] + f3 * p3[i]
        r += 4


@njit(cache=True, nogil=True, fastmath=_FAST)
def _largest(values, n):
    best = -1e300
    for i in range(n):
        if values[i] > best:
            best = values[i]
    return best


@njit(cache=True, nogil=True)
def _tops(prices, n, size, tops):
    """The largest price in each bunch of `size` points, and of all."""
    best = -1e300
    for bunch in range((n + size - 1) // size):
        some = prices[bunch * size : min((bunch + 1) * size, n)]
        tops[bunch] = _largest(some, len(some))
        best = max(best, tops[bunch])
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
def _worth_inside(points, h, n, n_states, rows, m, worth):
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


@njit(cache=True, nogil=True)
def _gather(columns, h, rows, m, short, length, listed):
    """The columns of the short list side by side; their h in the last row but one."""
    n_states = len(listed) - 2
    for q in range(length):
        for r in range(m):
            listed[r, q] = columns[short[q], rows[r]]
        listed[n_states, q] = h[short[q]]


@njit(cache=True, nogil=True)
def _inside(columns, rows, m, short):
    """Leave in the list only points inside the face; how many."""
    length = 0
    for q in range(short[LIST]):
        outside, k = 0.0, 0
        for s in range(columns.shape[1]):
            if k < m and rows[k] == s:
                k += 1
            else:
                outside += columns[short[q], s]
        if outside == 0.0:
            short[length] = short[q]
            length += 1
    return length


@njit(cache=True, nogil=True)
def _entering(points, worth, n, rows, m, dual, state, room):
    """The column to enter, or -1.

    `state` holds the short list's length, its best price, work done, and full passes that are left. The list
    has the best of each bunch of points, so that it is made of different ones.
    """
    reduced, short, listed, whole = room.reduced, room.short, room.listed, room.numbers[2]
    length = int(state[0])
    n_states = len(listed) - 2
    if length > 0:
        prices = listed[n_states + 1]
        _prices(listed, listed[n_states], length, whole, m, dual, prices)
        best = _largest(prices, length)
        state[2] += length * m
        if best > max(_PRICE, _EXHAUSTED * state[1]):
            for q in range(length):
                if prices[q] == best:
                    return short[q]
    if n == 0 or state[3] < 1.0:
        return -1
    state[3] -= 1.0
    _prices(points, worth, n, rows, m, dual, reduced)
    state[2] += n * m
    size = (n + LIST - 1) // LIST
    tops = listed[n_states + 1]
    best = _tops(reduced, n, size, tops)
    state[0], state[1] = 0, best
    if best <= _PRICE:
        return -1
    enter, length = -1, 0
    for bunch in range((n + size - 1) // size):
        if tops[bunch] > _LISTED * best:
            for i in range(bunch * size, min((bunch + 1) * size, n)):
                if reduced[i] == tops[bunch]:
                    short[length] = i
                    break
            if enter < 0 and tops[bunch] == best:
                enter = short[length]
            length += 1
    state[0] = length
    _gather(room.columns, worth, rows, m, short, length, listed)
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


@njit(cache=True, nogil=True, fastmath=_FAST)
def _by_inverse(inverse, m, right, out):
    """out = B⁻¹ right."""
    for k in range(m):
        total = 0.0
        for r in range(m):
            total += inverse[k, r] * right[r]
        out[k] = total


@njit(cache=True, nogil=True)
def _pivot(columns, h, rows, m, enter, inverse, x, basis, dual, column, entering):
    """Bring `enter` into the basis; False where no row limits it."""
    price = h[enter]
    for r in range(m):
        entering[r] = columns[enter, rows[r]]
        price -= dual[r] * entering[r]
    _by_inverse(inverse, m, entering, column)
    leave, ratio = _leaving(x, column, m)
    if leave < 0:
        return False
    pivot_row, scale = entering, 1.0 / column[leave]
    for r in range(m):
        pivot_row[r] = inverse[leave, r] * scale
        dual[r] += price * pivot_row[r]
    for k in range(m):
        factor = column[k]
        if factor != 0.0:
            x[k] -= ratio * factor
            for r in range(m):
                inverse[k, r] -= factor * pivot_row[r]
    inverse[leave, :m] = pivot_row[:m]
    x[leave] = ratio
    basis[leave] = enter
    return True


@njit(cache=True, nogil=True)
def _polish(columns, rows, m, tau, inverse, x, basis, residual):
    """Two steps of iterative refinement of x; whether it is exact and feasible enough."""
    worst = 0.0
    for _ in range(2):
        worst = _miss(columns, basis, rows, m, tau, x, residual)
        if worst < 1e-16:
            break
        for k in range(m):
            for r in range(m):
                x[k] += inverse[k, r] * residual[r]
    least = 0.0
    for k in range(m):
        least = min(least, x[k])
    return worst <= 1e-11 and least >= -1e-11


@njit(cache=True, nogil=True)
def _duals(h, basis, m, table, order, dual, line, step):
    for k in range(m):
        step[k] = h[basis[k]]
    solve_transposed(table, order, m, step, dual, line)


@njit(cache=True, nogil=True)
def _pivots(points, h, worth, n, tau, basis, rows, m, good, state, room):
    """Pivot to the best basis, from the present one where it is `good` and else from the vertices."""
    columns, table, inverse, lines, numbers = room.columns, room.table, room.inverse, room.lines, room.numbers
    x, dual, line, step = lines[0], lines[1], lines[2], lines[3]
    order, last = numbers[0], numbers[3]
    if good:
        _duals(h, basis, m, table, order, dual, line, step)
    else:
        _from_vertices(rows, m, tau, h, basis, inverse, x, dual)
    last[:] = basis
    inverted, since = not good, 0
    for _ in range(_MOST_PIVOTS):
        enter = _entering(points, worth, n, rows, m, dual, state, room)
        if enter < 0:
            break
        if not inverted:
            invert(table, order, m, inverse, line)
            inverted = True
        if not _pivot(columns, h, rows, m, enter, inverse, x, basis, dual, line, step):
            break
        state[2] += m * m
        since += 1
        if since % _REFACTOR == 0:
            if not _weighed(columns, basis, rows, m, tau, table, order, x, line, step):
                basis[:] = last
                return False
            last[:] = basis
            invert(table, order, m, inverse, line)
            _duals(h, basis, m, table, order, dual, line, step)
    if since == 0 or _polish(columns, rows, m, tau, inverse, x, basis, line):
        return True
    if _weighed(columns, basis, rows, m, tau, table, order, x, line, step):
        return True
    basis[:] = last
    return False


@njit(cache=True, nogil=True)
def _face(tau, rows, whole, face):
    """The states that τ has more mass on than `face`, in `rows`: how many; and all states, in `whole`."""
    m = 0
    for s in range(len(tau)):
        whole[s] = s
        if tau[s] > face:
            rows[m] = s
            m += 1
    return m


@njit(cache=True, nogil=True)
def _left_to_vertices(tau, h, rows, m, basis, weights):
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


@njit(cache=True, nogil=True)
def interpolate(points, h, n, tau, basis, weights, room, effort):
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
    good = basis[0] >= 0
    state[0], state[1], state[2] = 0.0, 0.0, m * m * m / 3 if good else 0.0
    if good and not full:
        for k in range(m):
            if worth[basis[k]] == _NOTHING:
                good = False
    good = good and _weighed(room.columns, basis, rows, m, tau, table, order, x, line, step)
    state[3] = max(1.0, effort * m * m / max(1, n)) if good else TO_THE_END
    if listed and not good:
        length = _inside(room.columns, rows, m, room.short)
        _gather(room.columns, h, rows, m, room.short, length, room.listed)
        state[0] = length
    room.short[LIST] = 0
    sound = _pivots(points, h, worth, n, tau, basis, rows, m, good, state, room)
    if not sound and not _weighed(room.columns, basis, rows, m, tau, table, order, x, line, step):
        _from_vertices(rows, m, tau, h, basis, room.inverse, x, lines[1])
    value = 0.0
    for k in range(m):
        weights[k] = max(x[k], 0.0)
        value += weights[k] * h[basis[k]]
    value += _left_to_vertices(tau, h, rows, m, basis, weights)
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
